"""The running client: finds a server, keeps the session on it, and carries requests of any caller to it. Pure.

    RESTING --the pause is over--> DIALLING --a stream is open--> LINKED --it ended--> RESTING
    any --the session is over, or the client closed--> OVER

Out: `wishes` (Dial, HangUp, Probe), and the bytes of `take`. In: `dialled`, `not_dialled`, `received`, `broke`,
`probed`, and `poll` at `next_time`. Each stream is an attempt with a number: what is told of an attempt that is over is
ignored, so that who carries out a wish needs no care about the order. Faces (`zab.client.on_trio`, `aio`, `on_threads`)
do so.

A request is sent at once where a server has the session and there is room in flight; else it waits, in its order.
Requests of one caller go out in its order.

Which server: the hosts in their shuffled order, and the addresses that their names stand for, each given session
timeout / number of servers to accept and to answer the greeting. After a round without success, and after a server that
dropped the session within a second, comes a random pause, doubled from 50 ms up to 1 s, so that clients do not come
back to a struggling ensemble all at once. On a server without a quorum the others are asked for one that takes writes.

What TLS has against a server, another try does not change. As long as no server had the session, the client ends with
TlsError when TLS failed with all of them in two rounds, and nothing else came between. Afterwards it goes on trying,
since certificates are renewed; the errors of requests say what TLS has against which server.

Invariants:
- A request ends exactly once: with its answer's error, ConnectionLossError (sent, no answer), NotConnectedError or
  ThrottledError (never sent), the error of a session that is over, ClientClosedError.
- A request whose caller was cancelled may have been sent: its outcome is unknown, its answer is dropped. Whoever wants
  to keep it uses `ask` and holds on to the request.

Times are milliseconds of the backend's clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from random import Random
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakSet

from attrs import define, frozen

from zab.client.core.backends import Backend, ParkingLot
from zab.client.core.background import BackgroundJob
from zab.client.core.exceptions import (
    AuthFailedError,
    ClientClosedError,
    LoginRefusedError,
    NotConnectedError,
    PeerProtocolError,
    RequestError,
    RequestTooLargeError,
    SessionExpiredError,
    ThrottledError,
    TlsError,
    ZabError,
)
from zab.client.core.hosts import Host, HostOrder, Place
from zab.client.core.observer import Observer, Timed
from zab.client.core.operations import Operation
from zab.client.core.records import State, WatchEvent, WatchKind
from zab.client.core.requests import Became, ClientRequest, Done, Effect, Tell
from zab.client.core.session import Session, close_request
from zab.client.core.settings import Settings
from zab.client.core.watcher import Listener, Watcher

__all__ = ["PROBE_WAIT_S", "Dial", "HangUp", "Probe", "Runtime", "StateChanges", "Wish"]

T = TypeVar("T")

PAUSE_MS_MIN: Final = 50
PAUSE_MS_MAX: Final = 1_000
# A server that kept the session this long did not refuse it.
STABLE_MS: Final = 1_000
TLS_ROUNDS: Final = 2
# ZooKeeper's client probes from 100 ms on, with the pause doubled up to a minute.
PROBE_PAUSE_MS_MIN: Final = 100
PROBE_PAUSE_MS_MAX: Final = 60_000
PROBE_WAIT_S: Final = 1.0


@frozen
class Dial:
    """Open a stream to `host`; then `dialled` or `not_dialled`. address: where, as `Runtime.found` said; None: `host`
    may be a name for several addresses, which are told by `found` before one is dialled."""

    attempt: int
    host: Host
    address: str | None = None


@frozen
class HangUp:
    """The attempt is over: close its stream, or stop to dial."""

    attempt: int


@frozen
class Probe:
    """Ask the server with `isro` whether it takes writes, for `PROBE_WAIT_S` at most; then `probed`. Where names are
    resolved, its name is first: `found_other` says which of the addresses to ask."""

    attempt: int
    place: Place


Wish: TypeAlias = Dial | HangUp | Probe


class Phase(Enum):
    RESTING = "resting"
    DIALLING = "dialling"
    LINKED = "linked"
    OVER = "over"


@define(eq=False)
class _JobAnswer:
    """The asker of a job's request."""

    runtime: "Runtime"
    job: BackgroundJob
    operation: Operation[Any]
    request: ClientRequest[Any]

    def wake(self) -> None:
        self.job.answered(self.operation, self.request.result, self.request.error)
        self.runtime.stir(self.job)


class StateChanges:
    """`async for state in …`: the state at the time of asking, then every change, until the session is over."""

    def __init__(self, backend: Backend, state: State, state_count_max: int) -> None:
        self._backend = backend
        self._states = deque([state], maxlen=state_count_max)
        self._changed = ParkingLot(backend)
        self._last = state

    def push(self, state: State) -> None:
        self._last = state
        self._states.append(state)
        self._changed.unpark_all()

    def __aiter__(self) -> "StateChanges":
        return self

    async def __anext__(self) -> State:
        await self._backend.checkpoint()
        while not self._states:
            if self._last.is_over:
                raise StopAsyncIteration
            await self._changed.park()
        return self._states.popleft()


class Runtime:
    """See the module. `fault` says what TLS has against a stream that ended with an error."""

    def __init__(
        self,
        session: Session,
        order: HostOrder,
        settings: Settings,
        random: Random,
        backend: Backend,
        fault: Callable[[BaseException | None], str | None],
        observer: Observer | None = None,
    ) -> None:
        self.session = session
        self.settings = settings
        self.backend = backend
        self.wishes: deque[Wish] = deque()
        self.random = random
        self._order = order
        self._fault = fault
        self._observer = observer
        # The server.
        self._phase = Phase.RESTING
        self._attempt = 0
        self._place: Place | None = None
        self._deadline = 0
        self._rest_until = 0
        self._pause_ms = PAUSE_MS_MIN
        self._opened_at: int | None = None
        self._probe_at: int | None = None
        self._probe_pause_ms = PROBE_PAUSE_MS_MIN
        # What failed.
        self._last_failure = ""
        self._was_connected = False
        self._tls_faults: dict[Place, str] = {}
        self._tls_faults_in_a_row = 0
        self._tls_error: TlsError | None = None
        # Who waits.
        self._closing = False
        self._waiting: dict[ClientRequest[Any], int] = {}
        self._jobs: dict[BackgroundJob, None] = {}
        self._stirred: dict[BackgroundJob, None] = {}
        self._state_changes: WeakSet[StateChanges] = WeakSet()
        self._watchers: WeakSet[Watcher] = WeakSet()

    # Requests.

    async def call(self, request: ClientRequest[T]) -> T:
        """The request's result. Raises as the module says."""
        self.backend.check()
        await self.backend.checkpoint_if_cancelled()
        self.ask(request)
        try:
            return await self.answer(request)
        finally:
            if not request.is_over:
                self._waiting.pop(request, None)

    def ask(self, request: ClientRequest[Any]) -> None:
        """Sends the request. Who cancels the wait for its `answer` still gets it when it waits again."""
        self.backend.check()
        bytes_max = self.settings.request_bytes_max
        if len(request.body) > bytes_max:
            detail = f"a request of {len(request.body):,} bytes is above jute.maxbuffer, here {bytes_max:,} bytes"
            raise RequestTooLargeError(request.path, detail=detail)
        if self._closing or self.session.state.is_over:
            raise self._end(request.path)
        request.asker = self.backend.waiter()
        if self._observer is not None:
            request.asker = Timed(self._observer, request, request.asker, self.backend)
        if not self._waiting and self._has_room:
            self._post(request)
        else:
            self._wait_for_room(request)

    async def answer(self, request: ClientRequest[T]) -> T:
        """Waits for the answer; raises its error."""
        if not request.is_over:
            waiter: Any = request.asker
            await waiter.wait()
        if request.error is not None:
            raise request.error
        return request.result  # type: ignore[return-value]

    def _post(self, request: ClientRequest[Any]) -> None:
        self.session.submit(request)
        self.backend.flush()

    @property
    def _has_room(self) -> bool:
        connection = self.session.connection
        return (
            connection is not None
            and self.session.state.is_connected
            and connection.in_flight_count < self.settings.in_flight_count_max
            and connection.unsent_bytes < self.settings.unsent_bytes_max
        )

    def _wait_for_room(self, request: ClientRequest[Any]) -> None:
        if len(self._waiting) >= self.settings.waiting_count_max:
            raise ThrottledError(request.path, detail=f"{len(self._waiting)} requests of this client wait already")
        self._waiting[request] = self.now() + self._request_wait_ms
        self.backend.attend()

    @property
    def _request_wait_ms(self) -> int:
        return self.settings.request_wait_ms or self.session.session_timeout_ms

    def use_room(self) -> None:
        """Lets those go out who have room: requests first, since their callers wait."""
        while self._waiting and self._has_room:
            request = next(iter(self._waiting))
            del self._waiting[request]
            self._post(request)
        while self._stirred and self._has_room:
            job = next(iter(self._stirred))
            if not self._advance(job):
                self._stirred.pop(job, None)

    def _refuse_waiting(self, now: int | None = None) -> None:
        """Those whose time is over; all of them, when they can only fail."""
        for request, deadline in list(self._waiting.items()):
            if now is None:
                error: ZabError = self._end(request.path)
            elif deadline > now:
                return
            elif self.session.state.is_connected:
                error = ThrottledError(request.path, detail=f"no room in flight for {self._request_wait_ms} ms")
            else:
                detail = f"no server for {self._request_wait_ms} ms; {self._failures}"
                error = NotConnectedError(request.path, detail=detail)
            del self._waiting[request]
            _finish(request, None, error)

    # Chores.

    def undertake(self, job: BackgroundJob) -> None:
        """The client does it by itself, now or when there is a server. Raises the error of a session that is over."""
        self._raise_if_over()
        self._jobs[job] = None
        self.stir(job)
        self.use_room()

    def stir(self, job: BackgroundJob) -> None:
        """It may have something to send."""
        if job in self._jobs:
            self._stirred[job] = None

    def _advance(self, job: BackgroundJob) -> bool:
        """Sends the next operation of a job; False where it has none."""
        operation = job.next()
        if operation is not None:
            request = operation.request()
            request.asker = _JobAnswer(self, job, operation, request)
            self._post(request)
            return True
        if job.is_done:
            self._jobs.pop(job, None)
        return False

    # Effects.

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Done(request, result, error):
                    _finish(request, result, error)
                case Tell(watcher, event):
                    self._tell(watcher, event)
                case Became(state):
                    self._became(state)

    def _tell(self, listener: Any, event: WatchEvent) -> None:
        listener.deliver(event)
        self.stir(listener)

    def _became(self, state: State) -> None:
        if state.is_connected:
            self._opened_at = self.now()
            self._order.settle()
            self._was_connected = True
            self._tls_faults.clear()
            self._stirred.update(self._jobs)
            # From here on it is pinged, which may be due before the server had to answer.
            self.backend.attend()
        for changes in list(self._state_changes):
            changes.push(state)
        if self._observer is not None:
            self._observer.state_changed(state)

    def state_changes(self) -> StateChanges:
        changes = StateChanges(self.backend, self.session.state, self.settings.state_count_max)
        self._state_changes.add(changes)
        return changes

    # Watchers.

    def watcher(self, chroot: str = "") -> Watcher:
        self._raise_if_over()
        watcher = Watcher(self.backend, self.settings.event_count_max, self.release, chroot)
        self._watchers.add(watcher)
        return watcher

    def release(self, watcher: Listener) -> None:
        """Its watches are not needed any more."""
        for request in self.session.release(watcher):
            self._post(request)

    def forget_watches(self, path: bytes, kind: WatchKind) -> None:
        """The watches of `kind` at `path`, the server's, are gone; their watchers hear of it."""
        for event, watcher in self.session.watches.remove(path, kind):
            self._tell(watcher, WatchEvent(event, self.session.outer_path(path), self.session.state))
        self.use_room()

    # The server: what is wished, and what came of it.

    def now(self) -> int:
        return int(self.backend.now() * 1000)

    @property
    def is_over(self) -> bool:
        """Nothing more is wished, but the last HangUp."""
        return self._phase is Phase.OVER

    @property
    def next_time(self) -> int | None:
        """When `poll` has something to do; None: never."""
        times = []
        if self._waiting:
            times.append(next(iter(self._waiting.values())))
        if self._phase is Phase.RESTING:
            times.append(self._rest_until)
        elif self._phase is Phase.DIALLING:
            times.append(self._deadline)
        elif self._phase is Phase.LINKED:
            assert self.session.connection is not None
            times.append(self.session.connection.next_deadline)
            if not self.session.state.is_connected:
                times.append(self._deadline)
            if self._probe_at is not None:
                times.append(self._probe_at)
        return min(times, default=None)

    @property
    def next_moment(self) -> float | None:
        """`next_time` in seconds, a millisecond later: the clock is read in whole ones, rounded down."""
        next_time = self.next_time
        return None if next_time is None else (next_time + 1) / 1000

    def poll(self, now: int) -> None:
        """The time has come for something, or has not: then nothing happens."""
        self._refuse_waiting(now)
        if self._phase is Phase.RESTING and now >= self._rest_until:
            self._dial(now)
        elif self._phase is Phase.DIALLING and now >= self._deadline:
            self._missed("no connection in time", None, now)
        elif self._phase is Phase.LINKED:
            self._keep_alive(now)

    @property
    def patience_ms(self) -> int:
        """How long a server may take to accept, and to take the session: its share of the session timeout. Before the
        first session `connect` bounds the time: then of that, so that it is enough where a minority never answers."""
        servers_count = len(self._order)
        share_ms = self.session.session_timeout_ms // servers_count
        wait_ms = self.settings.connect_wait_ms
        if not self.session.session_id and servers_count > 1 and wait_ms is not None:
            share_ms = min(share_ms, wait_ms // (servers_count // 2 + 1))
        return max(share_ms, 1)

    def _dial(self, now: int) -> None:
        self._attempt += 1
        self._place = self._order.next()
        self._deadline = now + self.patience_ms
        self._opened_at = None
        self._last_failure = self._last_failure or f"{self._place}: no answer yet"
        self._phase = Phase.DIALLING
        self._wish(Dial(self._attempt, *self._place))

    def found(self, attempt: int, addresses: Sequence[str], now: int) -> str | None:
        """The name of the host that is dialled stands for these addresses, one at least. The one to dial, which has its
        own time; None where nobody wants it any more."""
        if attempt != self._attempt or self._phase is not Phase.DIALLING:
            return None
        self._place = self._order.found(addresses)
        self._deadline = now + self.patience_ms
        self.backend.attend()
        return self._place.address or addresses[0]

    def dialled(self, attempt: int, now: int) -> bool:
        """The stream is open. False where nobody wants it any more."""
        if attempt != self._attempt or self._phase is not Phase.DIALLING:
            return False
        self.session.connect(
            now=now, answer_ms=max(self._deadline - now, 1), frame_bytes_max=self.settings.reply_bytes_max
        )
        self._phase = Phase.LINKED
        self.backend.attend()
        self.backend.flush()
        return True

    def not_dialled(self, attempt: int, error: Exception, now: int) -> None:
        if attempt == self._attempt and self._phase is Phase.DIALLING:
            self._missed(_why(error), error, now)

    def _missed(self, reason: str, error: Exception | None, now: int) -> None:
        self._wish(HangUp(self._attempt))
        self._failed(reason, error)
        self._rest(0, now)

    def take(self, now: int) -> bytes:
        """What is to be sent on the stream of this attempt; empty when there is nothing."""
        connection = self.session.connection
        data = b"" if connection is None else connection.take(now)
        if data:
            self.use_room()
        return data

    def received(self, attempt: int, data: bytes, now: int) -> None:
        if attempt != self._attempt or self._phase is not Phase.LINKED:
            return
        try:
            self._perform(self.session.receive(data, now))
        except PeerProtocolError as error:
            self._drop(str(error), error, now)
            return
        if self.session.state.is_over:
            self._drop(f"the session is over: {self.session.state.value}", None, now)
            return
        if self.session.state is State.CONNECTED_READ_ONLY and self._probe_at is None:
            self._probe_pause_ms = PROBE_PAUSE_MS_MIN
            self._probe_at = now + self._probe_pause_ms
            self.backend.attend()
        self.use_room()
        if self.session.connection is not None and self.session.connection.unsent_bytes:
            self.backend.flush()

    def broke(self, attempt: int, error: Exception | None, now: int) -> None:
        """The stream has ended: by an error, or because the server closed it."""
        if attempt == self._attempt and self._phase is Phase.LINKED:
            ended = "the server closed the connection"
            self._drop(ended if error is None else f"the connection broke ({error.__cause__ or error})", error, now)

    def _keep_alive(self, now: int) -> None:
        connection = self.session.connection
        assert connection is not None
        try:
            connection.poll(now)
        except PeerProtocolError as error:
            self._drop(str(error), error, now)
            return
        if not self.session.state.is_connected and now >= self._deadline:
            self._drop("the server did not take the session in time", None, now)
            return
        if connection.unsent_bytes:
            self.backend.flush()
        if self._probe_at is not None and now >= self._probe_at:
            self._probe_pause_ms = min(2 * self._probe_pause_ms, PROBE_PAUSE_MS_MAX)
            self._probe_at = now + self._probe_pause_ms
            self._wish(Probe(self._attempt, self._order.other()))

    def found_other(self, attempt: int, place: Place, addresses: Sequence[str]) -> Place:
        """The name of a place to probe stands for these addresses now; the one to ask. Names are not believed for long:
        behind one, servers come and go while this client stays with one that takes no writes."""
        if attempt != self._attempt or self._phase is not Phase.LINKED:
            return place
        return self._order.found_other(place, addresses)

    def probed(self, attempt: int, place: Place, is_writable: bool, now: int) -> None:
        """What the server answered."""
        if is_writable and attempt == self._attempt and self._phase is Phase.LINKED:
            self._order.prefer(place)
            self._drop(f"{place} takes writes", None, now)

    def _drop(self, reason: str, cause: Exception | None, now: int) -> None:
        """Ends the link."""
        self._wish(HangUp(self._attempt))
        self._probe_at = None
        if self._closing:
            # The server hung up because it has closed the session.
            self._perform(self.session.close())
        self._perform(self.session.lost(cause))
        self._failed(reason, cause)
        self._rest(0 if self._opened_at is None else max(now - self._opened_at, 1), now)

    def _rest(self, lived_ms: int, now: int) -> None:
        """Nothing is open now. lived_ms: for how long the last server kept the session; 0 when it did not take it."""
        if self._closing or self.session.state.is_over or self._tls_error is not None:
            self._finish()
            return
        self._phase = Phase.RESTING
        self._rest_until = now
        if lived_ms >= STABLE_MS:
            self._pause_ms = PAUSE_MS_MIN
        elif lived_ms > 0 or self._order.tried_all:
            self._rest_until = now + round(self.random.uniform(0.5, 1.0) * self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)
        self.backend.attend()

    def _wish(self, wish: Wish) -> None:
        self.wishes.append(wish)
        self.backend.attend()

    # What failed.

    def _failed(self, reason: str, error: Exception | None) -> None:
        """The host did not take the session, or did not keep it."""
        assert self._place is not None
        found = self._fault(error)
        self._last_failure = f"{self._place}: {found or reason}"
        if self._observer is not None:
            self._observer.server_lost(str(self._place), found or reason)
        if found is None:
            self._tls_faults.pop(self._place, None)
            self._tls_faults_in_a_row = 0
            return
        self._tls_faults[self._place] = found
        self._tls_faults_in_a_row += 1
        if not self._was_connected and self._tls_faults_in_a_row >= TLS_ROUNDS * len(self._order):
            self._tls_error = TlsError(detail=self._failures.removeprefix("last: "))

    @property
    def _failures(self) -> str:
        """The last failure, and what TLS has against each of the other servers."""
        others = [f"{place}: {reason}" for place, reason in self._tls_faults.items()]
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

    def _raise_if_over(self) -> None:
        self.backend.check()
        if self._closing or self.session.state.is_over:
            raise self._end()

    # The end.

    async def wait_connected(self, wait_ms: int) -> None:
        """Returns once a server has the session; raises NotConnectedError after `wait_ms`."""
        async with self.backend.move_on_after(wait_ms / 1000):
            async for state in self.state_changes():
                if state.is_connected:
                    return
            raise self._end()
        raise NotConnectedError(detail=f"no server took the session within {wait_ms} ms; {self._failures}")

    async def close(self) -> None:
        """Closes the session on its server, waiting `close_wait_ms` at most; everybody who waits gets an error."""
        self._closing = True
        self._refuse_waiting()
        if self.session.state.is_connected:
            request = close_request()
            request.asker = self.backend.waiter()
            async with self.backend.move_on_after(self.settings.close_wait_ms / 1000, shield=True):
                self._post(request)
                # When the connection ends first, the session goes when it expires.
                with suppress(RequestError):
                    await self.answer(request)
        self.abandon()

    def abandon(self) -> None:
        """This process is done with the session, which stays on its server until it expires, where it is not closed."""
        self._closing = True
        self._perform(self.session.close())
        if self.session.connection is not None:
            self._wish(HangUp(self._attempt))
            self._perform(self.session.lost())
        elif self._phase is Phase.DIALLING:
            self._wish(HangUp(self._attempt))
        self._finish()

    def _finish(self) -> None:
        """Tells everybody that it is over."""
        self._phase = Phase.OVER
        if self._tls_error is not None:
            self._perform(self.session.close())
        reason = self._end()
        for watcher in list(self._watchers):
            watcher.end(reason)
        jobs, self._jobs = self._jobs, {}
        self._stirred.clear()
        for job in jobs:
            job.ended(reason)
        self._refuse_waiting()
        self.backend.attend()


def _why(error: Exception) -> str:
    """A reason short enough for one line: trio wraps several attempts in one OSError."""
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return str(inner or error)


def _finish(request: ClientRequest[Any], result: Any, error: ZabError | None) -> None:
    request.is_over, request.result, request.error = True, result, error
    if request.asker is not None:
        request.asker.wake()
