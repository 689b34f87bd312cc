"""The running client: finds a server, keeps the session on it, and carries requests from any task to it.

The tasks of one client:

    connect()                   the caller's block; owns the nursery, closes the session when the block is left
    └─ Runtime.run              for ever: next host, dial, greet, one `Link` until it ends; pauses between rounds
       └─ Link.run              one TCP connection: reader, writer, keep-alive (`zab.client.link`)

Any task may call `call`: its request waits in the gate until a server is there and there is room in flight, is queued
on the connection, and the task sleeps until the reader finds its answer. Requests of one task go out in its order; so
do those of several, in the order in which they pass the gate.

Which server: the hosts in their shuffled order, each given session timeout / number of hosts to accept and to answer
the greeting. After a round without success, and after a server that dropped the session within a second, comes a random
pause, doubled from 50 ms up to 1 s, so that clients do not come back to a struggling ensemble all at once.

What TLS has against a server, another try does not change. As long as no server had the session, the client ends with
TlsError when TLS failed with all of them in two rounds, and nothing else came between. Afterwards it goes on trying,
since certificates are renewed; the errors of requests say what TLS has against which server.

Invariants:
- A call raises exactly one of: its answer's error, ConnectionLossError (sent, no answer), NotConnectedError or
  ThrottledError (never sent), the error of a session that is over, ClientClosedError.
- A call that was cancelled may have been sent: its outcome is unknown, its answer is dropped. Whoever wants to keep it
  uses `ask` and holds on to the `Call`.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar
from weakref import WeakSet

import trio
from attrs import define, field

from zab.client.exceptions import (
    AuthFailedError,
    ClientClosedError,
    LoginRefusedError,
    NotConnectedError,
    RequestError,
    RequestTooLargeError,
    SessionExpiredError,
    ThrottledError,
    TlsError,
    ZabError,
)
from zab.client.hosts import Host, HostOrder
from zab.client.link import Dial, Link, now_ms
from zab.client.records import State, WatchEvent, WatchKind
from zab.client.requests import Became, ClientRequest, Done, Effect, Tell
from zab.client.session import Session, close_request
from zab.client.settings import Settings
from zab.client.tls import fault
from zab.client.watcher import Watcher

__all__ = ["Call", "Runtime", "StateChanges"]

T = TypeVar("T")

PAUSE_MS_MIN: Final = 50
PAUSE_MS_MAX: Final = 1_000
# A server that kept the session this long did not refuse it.
STABLE_MS: Final = 1_000
TLS_ROUNDS: Final = 2


@define(eq=False)
class Call:
    """A request that was sent, and its answer once `answered` is set."""

    answered: trio.Event = field(factory=trio.Event)
    result: Any = None
    error: RequestError | None = None

    async def answer(self) -> Any:
        """Waits for the answer; raises its error."""
        await self.answered.wait()
        if self.error is not None:
            raise self.error
        return self.result


class StateChanges:
    """`async for state in …`: the state at the time of asking, then every change, until the session is over."""

    def __init__(self, state: State, state_count_max: int) -> None:
        self._states = deque([state], maxlen=state_count_max)
        self._changed = trio.lowlevel.ParkingLot()
        self._last = state
        self._given: State | None = None

    def push(self, state: State) -> None:
        self._last = state
        self._states.append(state)
        self._changed.unpark_all()

    def __aiter__(self) -> "StateChanges":
        return self

    async def __anext__(self) -> State:
        await trio.lowlevel.checkpoint()
        while not self._states:
            if self._last.is_over:
                raise StopAsyncIteration
            await self._changed.park()
        return self._states.popleft()


class Runtime:
    """See the module."""

    def __init__(self, session: Session, order: HostOrder, settings: Settings, dial: Dial, random: Random) -> None:
        self.session = session
        self.settings = settings
        self._last_failure = ""
        self._order = order
        self._dial = dial
        self._random = random
        self._link: Link | None = None
        self._closing = False
        # A cancelled block still has to close its session, which takes the tasks of the connection.
        self._life = trio.CancelScope(shield=True)
        self._opened_at: int | None = None
        self._calls: dict[ClientRequest[Any], Call] = {}
        self._gate = trio.lowlevel.ParkingLot()
        self._state_changes: WeakSet[StateChanges] = WeakSet()
        self._watchers: WeakSet[Watcher] = WeakSet()
        self._was_connected = False
        self._tls_faults: dict[Host, str] = {}
        self._tls_faults_in_a_row = 0
        self._tls_error: TlsError | None = None

    # Requests.

    async def call(self, request: ClientRequest[T]) -> T:
        """The request's result. Raises as the module says."""
        await self._pass(request)
        return await self._exchange(request)

    async def ask(self, request: ClientRequest[Any]) -> Call:
        """Sends the request; who cancels the wait for its answer still gets it when it waits again."""
        await self._pass(request)
        return self._send(request)

    async def _pass(self, request: ClientRequest[Any]) -> None:
        """Returns when the request may be sent."""
        bytes_max = self.settings.request_bytes_max
        if len(request.body) > bytes_max:
            detail = f"a request of {len(request.body):,} bytes is above jute.maxbuffer, here {bytes_max:,} bytes"
            raise RequestTooLargeError(request.path, detail=detail)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._raise_if_over(request.path)
        if self._gate or not self._has_room:
            await self._pass_gate(request)

    def post(self, request: ClientRequest[Any]) -> None:
        """Sends a request whose answer nobody waits for. Only while connected; not held back by the gate."""
        self.session.submit(request)
        assert self._link is not None
        self._link.wake()

    def _send(self, request: ClientRequest[Any]) -> Call:
        call = self._calls[request] = Call()
        self.post(request)
        return call

    async def _exchange(self, request: ClientRequest[T]) -> T:
        call = self._send(request)
        try:
            result: T = await call.answer()
        finally:
            self._calls.pop(request, None)
        return result

    @property
    def _has_room(self) -> bool:
        connection = self.session.connection
        return (
            self.session.state.is_connected
            and connection is not None
            and connection.in_flight_count < self.settings.in_flight_count_max
            and connection.unsent_bytes < self.settings.unsent_bytes_max
        )

    async def _pass_gate(self, request: ClientRequest[Any]) -> None:
        if len(self._gate) >= self.settings.waiting_count_max:
            raise ThrottledError(request.path, detail=f"{len(self._gate)} requests of this client wait already")
        wait_ms = self.settings.request_wait_ms or self.session.session_timeout_ms
        with trio.move_on_after(wait_ms / 1000):
            while True:
                await self._gate.park()
                self._raise_if_over(request.path)
                if self._has_room:
                    return
        if self.session.state.is_connected:
            raise ThrottledError(request.path, detail=f"no room in flight for {wait_ms} ms")
        raise NotConnectedError(request.path, detail=f"no server for {wait_ms} ms; {self._failures}")

    def _open_gate(self) -> None:
        """Lets those pass who have room; everybody, when they can only fail."""
        if self._gate and self.session.connection is not None and self._has_room:
            self._gate.unpark(count=self.settings.in_flight_count_max - self.session.connection.in_flight_count)
        elif self._closing or self.session.state.is_over:
            self._gate.unpark_all()

    def _raise_if_over(self, path: str | None = None) -> None:
        state = self.session.state
        if self._closing and not state.is_over:
            raise ClientClosedError("the client is closed")
        if state.is_over:
            raise self._end(path)

    # Effects.

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Done(request, result, error):
                    call = self._calls.pop(request, None)
                    if call is not None:
                        call.result, call.error = result, error
                        call.answered.set()
                case Tell(watcher, event):
                    assert isinstance(watcher, Watcher)
                    watcher.deliver(event)
                case Became(state):
                    self._became(state)

    def _became(self, state: State) -> None:
        if state.is_connected:
            self._opened_at = now_ms()
            self._order.settle()
            self._was_connected = True
            self._tls_faults.clear()
        for changes in list(self._state_changes):
            changes.push(state)

    def state_changes(self) -> StateChanges:
        changes = StateChanges(self.session.state, self.settings.state_count_max)
        self._state_changes.add(changes)
        return changes

    # Watchers.

    def watcher(self) -> Watcher:
        self._raise_if_over()
        watcher = Watcher(self.settings.event_count_max, self._release)
        self._watchers.add(watcher)
        return watcher

    def _release(self, watcher: Watcher) -> None:
        for request in self.session.release(watcher):
            self.post(request)

    def forget_watches(self, path: str, kind: WatchKind) -> None:
        """The watches of `kind` at `path` are gone; their watchers hear of it."""
        for event, watcher in self.session.watches.remove(self.session.inner_path(path), kind):
            assert isinstance(watcher, Watcher)
            watcher.deliver(WatchEvent(event, path, self.session.state))

    # The life of the client.

    async def run(self) -> None:
        """Keeps the session on some server until it is over, or `close` ends it. Started once, by `connect`."""
        with self._life:
            await self._run()
        if self._tls_error is not None:
            self._perform(self.session.close())
        self._end_watchers()
        self._open_gate()

    async def _run(self) -> None:
        pause_ms = PAUSE_MS_MIN
        while not self._closing and not self.session.state.is_over and self._tls_error is None:
            lived_ms = await self._try_next()
            if lived_ms >= STABLE_MS:
                pause_ms = PAUSE_MS_MIN
            elif lived_ms > 0 or self._order.tried_all:
                await trio.sleep(self._random.uniform(0.5, 1.0) * pause_ms / 1000)
                pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)

    async def _try_next(self) -> int:
        """One host. Returns for how long (ms) it kept the session: 0 when it did not take it."""
        host = self._order.next()
        patience_ms = max(self.session.session_timeout_ms // len(self._order), 1)
        deadline = now_ms() + patience_ms
        self._opened_at = None
        self._last_failure = self._last_failure or f"{host}: no answer yet"
        try:
            with trio.fail_after(patience_ms / 1000):
                stream = await self._dial(host)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            self._failed(host, _why(error), error)
            return 0
        connection = self.session.connect(
            now=now_ms(),
            answer_ms=max(deadline - now_ms(), 1),
            frame_bytes_max=self.settings.reply_bytes_max,
        )
        self._link = Link(
            stream,
            self.session,
            connection,
            perform=self._perform,
            room=self._open_gate,
            order=self._order,
            dial=self._dial,
            deadline=deadline,
        )
        try:
            await self._link.run()
        finally:
            self._failed(host, self._link.reason or "cancelled", self._link.cause)
            self._link = None
        return 0 if self._opened_at is None else max(now_ms() - self._opened_at, 1)

    def _failed(self, host: Host, reason: str, error: Exception | None) -> None:
        """The host did not take the session, or did not keep it."""
        found = fault(error)
        self._last_failure = f"{host}: {found or reason}"
        if found is None:
            self._tls_faults.pop(host, None)
            self._tls_faults_in_a_row = 0
            return
        self._tls_faults[host] = found
        self._tls_faults_in_a_row += 1
        if not self._was_connected and self._tls_faults_in_a_row >= TLS_ROUNDS * len(self._order):
            self._tls_error = TlsError(detail=self._failures.removeprefix("last: "))

    @property
    def _failures(self) -> str:
        """The last failure, and what TLS has against each of the other servers."""
        others = [f"{host}: {reason}" for host, reason in self._tls_faults.items()]
        return "last: " + "; ".join(dict.fromkeys([self._last_failure, *others]))

    def _end(self, path: str | None = None) -> ZabError:
        """Why the session is over."""
        state = self.session.state
        if state is State.EXPIRED:
            return SessionExpiredError(path)
        if state is State.AUTH_FAILED:
            refusal = self.session.login_refusal
            return AuthFailedError(path) if refusal is None else LoginRefusedError(path, detail=f"the login: {refusal}")
        return self._tls_error or ClientClosedError("the client is closed")

    def _end_watchers(self) -> None:
        reason = self._end()
        for watcher in list(self._watchers):
            watcher.end(reason)

    async def wait_connected(self, wait_ms: int) -> None:
        """Returns once a server has the session; raises NotConnectedError after `wait_ms`."""
        with trio.move_on_after(wait_ms / 1000):
            async for state in self.state_changes():
                if state.is_connected:
                    return
            self._raise_if_over()
        raise NotConnectedError(detail=f"no server took the session within {wait_ms} ms; {self._failures}")

    async def close(self) -> None:
        """Closes the session on its server, waiting `close_wait_ms` at most; everybody who waits gets an error."""
        self._closing = True
        self._open_gate()
        if self.session.state.is_connected:
            with trio.move_on_after(self.settings.close_wait_ms / 1000, shield=True):
                # When the connection ends first, the session goes when it expires.
                with suppress(RequestError):
                    await self._exchange(close_request())
        self._perform(self.session.close())
        self._end_watchers()
        self._open_gate()
        self._life.cancel()


def _why(error: Exception) -> str:
    """A reason short enough for one line: trio wraps several attempts in one OSError."""
    if isinstance(error, trio.TooSlowError):
        return "no connection in time"
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return str(inner or error)
