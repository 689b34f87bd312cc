"""SaslHandshake and SaslAuthenticate, and the connections that have not logged in yet.

At a listener with a login, a connection may first send only ApiVersions and these two requests, in small frames. A
login that fails is answered after a delay, and the connection is closed then; nobody is told whether the user exists.

Limits:
    LOGIN_FRAME_BYTES_MAX       a request before the login
    LOGIN_MS                    a connection that has not logged in by then is closed

A login holds for as long as its connection: there is no second one (KIP-368).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from zab.partition.access.logins import Login
from zab.partition.access.principals import USER
from zab.partition.access.scram import LoginError
from zab.partition.access.users import Users
from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.listeners import WITH_LOGIN
from zab.service.audit import Record, Refusal

LOGIN_FRAME_BYTES_MAX: Final = 16 << 10
LOGIN_MS: Final = 30_000
TOKENS_SINCE: Final = 1
"""The version of SaslHandshake from which on tokens come in requests."""
FAILED: Final = "the login has failed: wrong name or password"


class LoginRequests:
    """The logins of all connections."""

    def __init__(
        self, config: BrokerConfig, users: Users, rng: Random, now: int, audit: Callable[[Record], None]
    ) -> None:
        self._config = config
        self._users = users
        self._audit = audit
        self._rng = rng
        self.now = now
        self._due: dict[ClientConnection, int] = {}
        """When the connections that have not logged in are closed; the next one first."""
        self._failed: deque[tuple[int, Request, str]] = deque()
        """Failed logins and when they are answered; the next one first."""
        self.done_count = self.failed_count = 0

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.SASL_HANDSHAKE: self.handshake, ApiKey.SASL_AUTHENTICATE: self.authenticate}

    def connected(self, connection: ClientConnection) -> None:
        """A connection is new."""
        if self._config.broker.protocols.of(connection.listener) in WITH_LOGIN:
            mechanisms = self._config.logins.mechanisms
            connection.login = Login(connection.listener, mechanisms, self._users, self._rng)
            connection.frames.frame_bytes_max = LOGIN_FRAME_BYTES_MAX
            self._due[connection] = self.now + LOGIN_MS

    def forget(self, connection: ClientConnection) -> None:
        """It is closed."""
        self._due.pop(connection, None)

    def advance(self, now: int) -> list[ClientConnection]:
        """Answer the failed logins whose time has come; returns the connections that took too long."""
        self.now = now
        while self._failed and self._failed[0][0] <= now:
            _, request, reason = self._failed.popleft()
            if request.is_open:
                self._refuse(request, ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED, reason)
        late = []
        for connection, due in self._due.items():
            if due > now:
                break
            late.append(connection)
        return late

    def next_deadline(self) -> int | None:
        """When `advance` has something to do."""
        times = [next(iter(self._due.values()), None), self._failed[0][0] if self._failed else None]
        return min((each for each in times if each is not None), default=None)

    def handshake(self, request: Request) -> None:
        """Handle SaslHandshake."""
        body: SaslHandshakeRequest = request.body
        login = request.connection.login
        mechanisms: tuple[str, ...] = ()
        if login is None or login.is_done or login.mechanism is not None:
            error = ErrorCode.ILLEGAL_SASL_STATE
        else:
            mechanisms = tuple(login.mechanisms)
            if request.version < TOKENS_SINCE:
                error = ErrorCode.UNSUPPORTED_VERSION
            else:
                found = login.choose(body.mechanism)
                error = ErrorCode.NONE if found else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        request.answer(SaslHandshakeResponse(error_code=error, mechanisms=mechanisms))

    def authenticate(self, request: Request) -> None:
        """Handle SaslAuthenticate."""
        body: SaslAuthenticateRequest = request.body
        connection, login = request.connection, request.connection.login
        if login is None or login.is_done or login.mechanism is None:
            why = "SaslAuthenticate at the wrong time"
            self._refuse(request, ErrorCode.ILLEGAL_SASL_STATE, why, why)
            return
        try:
            answer = login.take(body.auth_bytes)
        except LoginError as error:
            mechanism = (login.mechanism or "").encode()
            self._audit(Refusal("login", connection.host, scheme=mechanism, reason=str(error)))
            self.failed_count += 1
            delay_ms = self._config.logins.failure_delay_ms
            self._failed.append((self.now + delay_ms, request, f"a login by {login.mechanism} failed: {error}"))
            return
        if login.is_done:
            self.done_count += 1
            connection.principal = f"{USER}{login.name}"
            connection.frames.frame_bytes_max = self._config.requests.request_bytes_max
            self._due.pop(connection, None)
        request.answer(SaslAuthenticateResponse(error_code=ErrorCode.NONE, error_message=None, auth_bytes=answer))

    @staticmethod
    def _refuse(request: Request, error: ErrorCode, message: str, reason: str) -> None:
        request.answer(SaslAuthenticateResponse(error_code=error, error_message=message, auth_bytes=b""))
        request.connection.close(Closing.FLUSHED, reason)
