"""From the bytes of a connection to the one who answers: cuts requests, reads them, and hands each to its handler.

A request that cannot be read, or that this broker does not serve, closes its connection, as in Kafka: nothing after it
could be trusted. Only ApiVersions is answered whatever its version, since a client sends it to find out (KIP-511).

Where a client has to log in, its requests before that are refused by their key, before anything else of them is read.

A guard sees each request of a client before its handler, and says whether it goes on: to serve a request without a
guard is a mistake of this program. While the access lists are not known, only requests that need none are looked at;
the others wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.frames import decode_request, response_frame
from zab.kafka.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from zab.kafka.primitives import ProtocolError
from zab.kafka.versions import api_versions_response
from zab.partition.meters.meters import Meters
from zab.partition.requests.connection import ClientConnection, Closing, key_of
from zab.partition.requests.permissions import Permissions
from zab.partition.requests.request import Ready, Request
from zab.partition.requests.throttling import Throttling
from zab.wire.frames import FrameError

Handler: TypeAlias = Callable[[Request], None]
AuditedBy: TypeAlias = Callable[[Request, Any], None]
Guard: TypeAlias = Callable[[Request], bool]
"""True: the request goes on to its handler, perhaps with less in it. False: it has been answered."""

BEFORE_LOGIN: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What a connection may send that has to log in first."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_SOFTWARE_SINCE = 3
"""The version from which on a client says what it is."""


class Dispatch:
    """Hands out requests."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        ready: Ready,
        meters: Meters,
        audits: Mapping[int, AuditedBy] | None = None,
        guards: Mapping[int, Guard] | None = None,
        permissions: Permissions | None = None,
        throttling: Throttling | None = None,
    ) -> None:
        """`handlers` by API key; those and ApiVersions are what is served. `audits`: those that are told of answers.
        Without `guards`, `permissions` and `throttling`, brokers ask."""
        self._audits = audits or {}
        self._handlers = {**handlers, ApiKey.API_VERSIONS: self._api_versions}
        assert guards is None or guards.keys() >= self._handlers.keys(), "each request that is served has a guard"
        self._guards = guards
        self._permissions = permissions
        self._throttling = throttling
        self._ready = ready
        self._meters = meters

    def take(self, connection: ClientConnection, data: bytes) -> None:
        """Handle the requests that these bytes complete."""
        try:
            payloads = connection.frames.feed(data)
            reason = None
        except FrameError as error:
            payloads, reason = error.frames, str(error)
        connection.hold(payloads)
        self.go_on(connection)
        if reason is not None:
            self._close(connection, reason)

    def go_on(self, connection: ClientConnection) -> None:
        """Handle the requests that are held and no longer held up."""
        while not connection.closing and self._is_served(connection):
            payload = connection.take_next()
            if payload is None:
                return
            try:
                self._take_one(connection, payload)
            except ProtocolError as error:
                self._close(connection, str(error))

    def _is_served(self, connection: ClientConnection) -> bool:
        """Whether the next request can be looked at."""
        permissions = self._permissions
        if permissions is None or permissions.are_known or not connection.held:
            return True
        return connection.next_key() in BEFORE_LOGIN

    def _close(self, connection: ClientConnection, reason: str) -> None:
        connection.close(Closing.FLUSHED, reason)
        self._ready[connection] = None

    def _take_one(self, connection: ClientConnection, payload: bytes) -> None:
        key = key_of(payload)
        if connection.awaits_login and key not in BEFORE_LOGIN:
            raise ProtocolError(f"request {key} came before the login")
        header, body = decode_request(payload)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise ProtocolError(f"{ApiKey(header.api_key).name} is not served here")
        place = connection.take_place()
        meters, is_of_broker = self._meters, connection.broker_id is not None
        meter = meters.came(ApiKey(header.api_key), header.api_version, len(payload), is_of_broker=is_of_broker)
        audit = self._audits.get(header.api_key)
        request = Request(
            *(connection, header, body, place, self._ready, meters, meter, meters.now, audit, self._permissions),
            size_bytes=len(payload),
            throttling=self._throttling,
        )
        if self._throttling is not None:
            request.began_ns = self._throttling.clock_ns()
        if self._guards is None or self._guards[header.api_key](request):
            handler(request)
        if self._throttling is not None:
            request.spent_ns = self._throttling.clock_ns() - request.began_ns
        if header.api_key != ApiKey.PRODUCE:
            connection.waits_for = place

    def _api_versions(self, request: Request) -> None:
        header, body = request.header, request.body
        version, answer = api_versions_response(header.api_version, self._handlers)
        if body is not None and not _names_software(body, header.api_version):
            answer = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        request.answer_with([response_frame(header.api_key, version, header.correlation_id, answer)])


def _names_software(body: ApiVersionsRequest, version: int) -> bool:
    """Whether metrics and logs may show the names of the client."""
    names = (body.client_software_name, body.client_software_version)
    return version < _SOFTWARE_SINCE or all(_SOFTWARE.fullmatch(name) for name in names)
