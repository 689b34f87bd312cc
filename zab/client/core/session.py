"""The client's session, which outlives its connections. Pure: the bytes of connections in, effects out.

    CONNECTING --the server took the session--> CONNECTED, CONNECTED_READ_ONLY
    CONNECTED, CONNECTED_READ_ONLY --the connection ended--> CONNECTING
    CONNECTING --the server does not know the session--> EXPIRED
    CONNECTING --the server refused the login, or did not prove that it knows the password--> AUTH_FAILED
    CONNECTED, CONNECTED_READ_ONLY --the server refused an identity that it once took--> AUTH_FAILED
    any --close--> CLOSED

Variables: session id and password (0 and zeros until a server that may write gave them), the last zxid seen, the
identities, the registry of watches.

Invariants:
- `last_zxid` never falls: a server that has not reached it cannot take the session.
- `lives_until` is never later than the server's end of the session, if both clocks run at the same speed: it is counted
  from the time at which the last message was sent that a server has answered.
- Only a server decides that a session expired; a client that cannot reach any server does not know.
- Each request ends exactly once as `Done`: with its answer, or with ConnectionLossError (AuthFailedError in the state
  AUTH_FAILED) when its connection ends.
- A watch is registered when its reply is read, before any later byte: no notification of it can come earlier.
- On a new connection the login, if there is one, is sent first, and nothing else until it is done; then identities,
  then the watches, then requests. So the events that the watches missed come before any answer, and every request has
  the identities.
- An id given by a read-only server is never offered to another server: that session is local to it.

Deliberately not here: which server to try and when (`servers`), and the bytes (`connection`).
"""

from collections.abc import Iterator
from typing import Any, Final

from datatree.errors import ErrorCode
from datatree.opcodes import WRITES, OpCode
from datatree.requests import AddAuth, NoBody, PathKind
from zab.client.core.connection import Connection
from zab.client.core.exceptions import (
    AuthFailedError,
    ConnectionLossError,
    LongReplyError,
    ReplyTooLongError,
    RequestError,
    request_error,
)
from zab.client.core.login import Exchange, Login, LoginError, login_request
from zab.client.core.reasons import reason
from zab.client.core.records import EventType, State, WatchEvent, WatchKind
from zab.client.core.requests import Answered, Became, ClientRequest, Done, Effect, Expired, Notified, Opened, Tell
from zab.client.core.sending import Sending
from zab.client.core.watches import Table, WatchRegistry
from zab.jute.handshake import ConnectRequest

__all__ = ["PASSWORD_BYTES", "Session", "auth_request", "close_request"]

PASSWORD_BYTES: Final = 16

_TRANSITIONS: Final = {
    State.CONNECTING: {
        *(State.CONNECTED, State.CONNECTED_READ_ONLY),
        *(State.EXPIRED, State.AUTH_FAILED, State.CLOSED),
    },
    State.CONNECTED: {State.CONNECTING, State.AUTH_FAILED, State.CLOSED},
    State.CONNECTED_READ_ONLY: {State.CONNECTING, State.AUTH_FAILED, State.CLOSED},
    State.AUTH_FAILED: {State.CLOSED},
    State.EXPIRED: {State.CLOSED},
    State.CLOSED: set[State](),
}

_PERSISTENT_KINDS: Final = {
    Table.PERSISTENT: WatchKind.PERSISTENT,
    Table.RECURSIVE: WatchKind.PERSISTENT_RECURSIVE,
}


def _nothing(_buffer: bytes, _offset: int) -> None:
    """Reads a reply that has no body, or one that is not needed."""


def auth_request(scheme: str, credentials: bytes) -> ClientRequest[None]:
    return ClientRequest(OpCode.AUTH, AddAuth(scheme.encode(), credentials).encode(), _nothing)


def close_request() -> ClientRequest[None]:
    return ClientRequest(OpCode.CLOSE_SESSION, NoBody().encode(), _nothing)


class Session:
    """resume: (session id, password) of a session that this client takes over."""

    def __init__(
        self,
        *,
        session_timeout_ms: int,
        read_only: bool = False,
        identities: list[tuple[str, bytes]] | None = None,
        chroot: bytes = b"",
        resume: tuple[int, bytes] | None = None,
        login: Login | None = None,
    ) -> None:
        assert session_timeout_ms > 0
        self.state = State.CONNECTING
        self.connection: Connection | None = None
        self.session_id, self.password = resume or (0, bytes(PASSWORD_BYTES))
        self.session_timeout_ms = session_timeout_ms
        self.last_zxid = 0
        self.watches = WatchRegistry()
        self.sending = Sending()
        self._wanted_timeout_ms = session_timeout_ms
        self._read_only = read_only
        self._identities = list(identities or [])
        self._chroot = chroot
        self._restoring: set[ClientRequest[Any]] = set()
        self._seen_writable = resume is not None
        self.login_refusal: str | None = None
        self._login = login
        self._exchange: Exchange | None = None
        self._opened_as: State | None = None
        self._proven_at: int | None = None

    @property
    def lives_until(self) -> int | None:
        """Until when (ms) the session surely lives if no server answers again. None: it does not."""
        proven_at = self._newest_proof
        return None if proven_at is None or self.state.is_over else proven_at + self.session_timeout_ms

    @property
    def _newest_proof(self) -> int | None:
        proof = None if self.connection is None else self.connection.proven_at
        return self._proven_at if proof is None else proof

    # The connection comes and goes.

    def connect(self, *, now: int, answer_ms: int, frame_bytes_max: int) -> Connection:
        """A server accepted a TCP connection: the greeting to it is queued in the `Connection` returned."""
        assert self.connection is None
        assert self.state is State.CONNECTING
        session_id, password = (self.session_id, self.password) if self._seen_writable else (0, bytes(PASSWORD_BYTES))
        greeting = ConnectRequest(
            last_zxid=self.last_zxid,
            timeout_ms=self._wanted_timeout_ms,
            session_id=session_id,
            password=password,
            read_only=self._read_only,
        )
        self.connection = Connection(greeting, now=now, answer_ms=answer_ms, frame_bytes_max=frame_bytes_max)
        return self.connection

    def lost(self, cause: Exception | None = None) -> Iterator[Effect]:
        """The TCP connection ended, for whatever reason; every request on it fails. `cause` becomes their cause."""
        assert self.connection is not None
        too_long = self.connection.oldest if isinstance(cause, LongReplyError) else None
        unanswered = self.connection.end()
        self._proven_at = self._newest_proof
        self.connection = None
        self._restoring.clear()
        self._exchange = None
        if self.state.is_connected:
            yield from self._become(State.CONNECTING)
        for request in unanswered:
            # A server that refuses an identity closes the connection: that is why there is no answer.
            refused = self.state is State.AUTH_FAILED
            error: RequestError = AuthFailedError(request.path) if refused else ConnectionLossError(request.path)
            if request is too_long:
                error = ReplyTooLongError(request.path, detail=str(cause))
            error.__cause__ = cause
            yield Done(request, error=error)

    def close(self) -> Iterator[Effect]:
        """This process is done with the session. The connection, if any, is ended by the caller, through `lost`."""
        if self.state is not State.CLOSED:
            yield from self._become(State.CLOSED)

    # Requests.

    def submit(self, request: ClientRequest[Any]) -> None:
        """Sends the request on the connection, which is open."""
        assert self.state.is_connected
        assert self.connection is not None
        if request.opcode == OpCode.AUTH:
            self.connection.send_auth(request)
        elif request.opcode == OpCode.GET_CHANGES:
            self.connection.send_changes(request)
        else:
            self.connection.send(request)

    def keep_identity(self, scheme: str, credentials: bytes) -> None:
        """The server accepted the identity: it will be sent to every later server."""
        if (scheme, credentials) not in self._identities:
            self._identities.append((scheme, credentials))

    def release(self, watcher: object) -> list[ClientRequest[Any]]:
        """Forgets a watcher. Returns the requests that remove persistent watches that are no longer needed."""
        requests = []
        for table, path in self.watches.release(watcher):
            kind = _PERSISTENT_KINDS.get(table)
            if kind is None or self.connection is None or not self.state.is_connected:
                continue
            # Another registration of the same watch is in flight, and would be removed as well.
            if not self.connection.is_registering(path, table):
                body = PathKind(path, kind).encode()
                requests.append(ClientRequest(OpCode.REMOVE_WATCHES, body, _nothing, self.outer_path(path)))
        return requests

    # Bytes.

    def receive(self, data: bytes, now: int) -> Iterator[Effect]:
        """The effects of the bytes of the connection, in order. Raises PeerProtocolError: then call `lost`."""
        assert self.connection is not None
        for event in self.connection.receive(data, now):
            match event:
                case Answered():
                    yield from self._answered(event)
                case Notified():
                    yield from self._notified(event)
                case Opened():
                    yield from self._opened(event)
                case Expired():
                    yield from self._become(State.EXPIRED)
                    return

    def _opened(self, event: Opened) -> Iterator[Effect]:
        assert self.connection is not None
        self.session_id, self.password = event.session_id, event.password
        self.session_timeout_ms = event.timeout_ms
        self._seen_writable = self._seen_writable or not event.read_only
        self._opened_as = State.CONNECTED_READ_ONLY if event.read_only else State.CONNECTED
        if self._login is None:
            yield from self._connected()
        else:
            self._exchange = self._login()
            self.connection.send(login_request(b""))

    def _login_answered(self, exchange: Exchange, event: Answered) -> Iterator[Effect]:
        """A step of the login: the next one, or its end."""
        assert self.connection is not None
        if event.error != ErrorCode.OK:
            # The error that is raised names this code already.
            code = "" if event.error == ErrorCode.AUTHFAILED else f" ({request_error(event.error).name})"
            yield from self._refuse_login(f"the server refused it{code}")
            return
        try:
            token = exchange.respond(event.result)
        except LoginError as error:
            yield from self._refuse_login(str(error))
            return
        if token is not None:
            self.connection.send(login_request(token))
            return
        self._exchange = None
        yield from self._connected()

    def _refuse_login(self, reason: str) -> Iterator[Effect]:
        self.login_refusal = reason
        yield from self._become(State.AUTH_FAILED)

    def _connected(self) -> Iterator[Effect]:
        """The server has the session, and the login is done: sends identities and watches."""
        assert self.connection is not None
        assert self._opened_as is not None
        for scheme, credentials in self._identities:
            request = auth_request(scheme, credentials)
            self._restoring.add(request)
            self.connection.send_auth(request)
        for opcode, body in self.watches.restore(self.last_zxid):
            self.connection.restore_watches(opcode, body.encode())
        yield from self._become(self._opened_as)

    def _answered(self, event: Answered) -> Iterator[Effect]:
        request = event.request
        if event.zxid > self.last_zxid:
            self.last_zxid = event.zxid
        if self._exchange is not None:
            assert request.opcode == OpCode.SASL, "nothing else is sent before the login is done"
            yield from self._login_answered(self._exchange, event)
            return
        if request in self._restoring:
            self._restoring.discard(request)
            if event.error != ErrorCode.OK:
                yield from self._become(State.AUTH_FAILED)
            return
        if request.registration is not None:
            table = _table(request, event.error)
            if table is not None:
                self.watches.add(table, request.registration.path, request.registration.watcher)
        if event.error == ErrorCode.OK:
            if self.sending.is_used and request.opcode in WRITES:
                self.sending.own(event.zxid)
            yield Done(request, event.result)
        elif request.opcode == OpCode.AUTH:
            yield Done(request, error=AuthFailedError())
        else:
            detail = reason(event.error, request.opcode, request.path, len(request.body))
            yield Done(request, error=request_error(event.error, request.path, detail=detail))

    def _notified(self, event: Notified) -> Iterator[Effect]:
        if event.zxid > self.last_zxid:
            self.last_zxid = event.zxid
        kind = EventType(event.type)
        told = WatchEvent(kind, self.outer_path(event.path), self.state, event.zxid)
        for watcher in self.watches.notify(kind, event.path):
            yield Tell(watcher, told)

    # Paths.

    def inner_path(self, path: str, *, prefix: bool = False) -> bytes:
        """The server's path of the caller's `path`, or of a prefix of paths."""
        if path == "/" and self._chroot and not prefix:
            return self._chroot
        return self._chroot + path.encode()

    def outer_path(self, path: bytes) -> str:
        """The caller's path of the server's `path`; the path of the configuration's znode, outside of any chroot, is
        unchanged."""
        if self._chroot and (path == self._chroot or path.startswith(self._chroot + b"/")):
            path = path[len(self._chroot) :] or b"/"
        return path.decode("utf-8", "replace")

    # The state.

    def _become(self, state: State) -> Iterator[Effect]:
        assert state in _TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
        yield Became(state)
        for watcher in self.watches.watchers():
            yield Tell(watcher, WatchEvent(EventType.SESSION, "", state))
        if state.is_over:
            self.watches.clear()


def _table(request: ClientRequest[Any], error: int) -> Table | None:
    """The table in which the reply registers the request's watch."""
    assert request.registration is not None
    if error == ErrorCode.OK:
        return request.registration.table
    return request.registration.missing if error == ErrorCode.NONODE else None
