"""One request of a client, from the moment when it is read until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from zab.kafka.frames import response_frame
from zab.kafka.headers import RequestHeader
from zab.partition.access.acls import Operation, ResourceType
from zab.partition.access.authorizer import ALL_OPERATIONS
from zab.partition.meters.meters import Meters, RequestMeter
from zab.partition.requests.connection import ClientConnection, Closing, Piece, Place
from zab.partition.requests.permissions import Permissions
from zab.partition.requests.throttling import Throttling

Ready: TypeAlias = dict[ClientConnection, None]
"""Connections that have something to send, or are to be closed."""


@attrs.define(eq=False)
class Request:
    """A request and the place of its answer. It is answered once, now or later."""

    connection: ClientConnection
    header: RequestHeader
    body: Any
    """The message; its class is that of the key."""
    _place: Place
    _ready: Ready
    meters: Meters
    _meter: RequestMeter
    _came_at: int
    """Monotonic ms."""
    _audit: Callable[[Request, Any], None] | None = None
    """Told of the answer; None: nobody is."""
    _permissions: Permissions | None = None
    """None: a broker asks."""
    amend: Callable[[Any], Any] | None = None
    """What is done to the answer before it is sent: a guard has taken something out of the request."""
    size_bytes: int = 0
    """As it came."""
    throttling: Throttling | None = None
    """None: a broker asks."""
    began_ns: int = 0
    spent_ns: int | None = None
    """The time that its handler took; None: it runs."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def listener(self) -> str:
        """The listener that it came through."""
        return self.connection.listener

    def is_of_broker(self, broker_id: int) -> bool:
        """Whether this broker sends it, over a link on which it has proven who it is."""
        return self.connection.broker_id == broker_id

    def may(self, operation: Operation, type_: ResourceType, name: str, *, is_told: bool = True) -> bool:
        """Whether its client may do this. `is_told`: the audit log is told if not."""
        permissions = self._permissions
        return permissions is None or permissions.may(
            self.connection, self.header, operation, type_, name, is_told=is_told
        )

    def may_any(self, operation: Operation, type_: ResourceType) -> bool:
        """Whether its client may do this with any resource of the type."""
        permissions = self._permissions
        return permissions is None or permissions.may(
            self.connection, self.header, operation, type_, None, is_told=True
        )

    def operations(self, type_: ResourceType, name: str) -> int:
        """All that its client may do with a resource, as Kafka's bits."""
        permissions = self._permissions
        return ALL_OPERATIONS[type_] if permissions is None else permissions.operations(self.connection, type_, name)

    @property
    def is_checked(self) -> bool:
        """Whether access lists decide what its client may do."""
        return self._permissions is not None and self._permissions.authorizer is not None

    @property
    def is_open(self) -> bool:
        """Whether somebody waits for the answer: nobody does once the connection is closed."""
        return self._place.pieces is None and not self.connection.closing

    def hold_up(self) -> None:
        """The next request of the connection waits for this one, until it is answered or `let_on` is called."""
        self.connection.waits_for = self._place

    def let_on(self) -> None:
        """The next request is looked at."""
        if self.connection.waits_for is self._place:
            self.connection.waits_for = None
            self._ready[self.connection] = None

    def answer(self, message: Any) -> None:
        """Answer with a response of the request's key and version."""
        if self.amend is not None:
            message = self.amend(message)
        wait_ms = 0 if self.throttling is None else self.throttling.answered(self)
        if wait_ms > getattr(message, "throttle_time_ms", wait_ms):
            message = attrs.evolve(message, throttle_time_ms=wait_ms)
        if self._audit is not None:
            self._audit(self, message)
        header = self.header
        frame = response_frame(header.api_key, header.api_version, header.correlation_id, message)
        self.answer_with([frame])

    def answer_with(self, pieces: list[Piece]) -> None:
        """Answer with a whole frame, in pieces. No pieces: there is no answer."""
        assert self._place.pieces is None, "a request is answered once"
        self._place.pieces = pieces
        self._meter.total_ms.add(self.meters.now - self._came_at)
        self._ready[self.connection] = None

    def close(self, reason: str) -> None:
        """Close the connection, once the requests before this one are answered: there is no way to say in an answer
        what went wrong."""
        self._place.pieces = []
        self.connection.close(Closing.FLUSHED, reason)
        self._ready[self.connection] = None
