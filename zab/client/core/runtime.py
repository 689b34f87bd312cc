"""The running client: keeps the session on a server, and carries the requests of any caller to it. Pure.

    callers     call, ask and answer, undertake, watcher, close: what they start wakes the backend (`attend`, `flush`)
    backend     poll at its times; dialled, received, take, broke and the rest as streams come and go, each with `now`

`poll` returns what is to be done (`Todo`): the wishes to carry out, and when to call it again. The backend calls `take`
after `dialled`, after `flush`, and until nothing is left. What it reports about an attempt that is over is ignored, so
it may carry out wishes in any order.

A request is sent at once if a server has the session and there is room in flight; otherwise it waits for its turn.
Requests of one caller are sent in order.

`servers` has which server is tried when, `failures` what errors say about servers that failed, `waiting` the requests
that wait for their turn.

Invariants:
- A request ends exactly once: with its answer's error, ConnectionLossError (sent, no answer), NotConnectedError or
  ThrottledError (never sent), the error of a session that is over, ClientClosedError.
- A request whose caller was cancelled may have been sent: its outcome is unknown, its answer is dropped. To keep the
  answer, a caller uses `ask` and holds on to the request.
- Between two calls of `poll` the backend is woken by `attend` at most once; so it is by `flush` until it calls `take`.

Times are milliseconds of the backend's clock.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from zab.client.core.backends import Backend
from zab.client.core.background import BackgroundJob, BackgroundJobs
from zab.client.core.exceptions import (
    AuthFailedError,
    ClientClosedError,
    LoginRefusedError,
    NotConnectedError,
    PeerProtocolError,
    RequestError,
    RequestTooLargeError,
    SessionExpiredError,
    ZabError,
)
from zab.client.core.failures import Failures
from zab.client.core.hosts import HostOrder, Place
from zab.client.core.observer import Observer, Timed
from zab.client.core.records import State, WatchEvent, WatchKind
from zab.client.core.requests import Became, ClientRequest, Done, Effect, Tell
from zab.client.core.servers import Phase, Servers, Wish
from zab.client.core.session import Session, close_request
from zab.client.core.settings import Settings
from zab.client.core.state_changes import StateChanges
from zab.client.core.waiting import WaitingRequests
from zab.client.core.watcher import Listener, Watcher

__all__ = ["Runtime", "Todo"]

T = TypeVar("T")


class Todo(NamedTuple):
    """wishes: to be carried out now, in order. poll_at: when to call `poll` again (seconds; None: when woken).
    is_over: nothing more will come."""

    wishes: list[Wish]
    poll_at: float | None
    is_over: bool


class Runtime:
    """One client. fault: says why TLS failed, for the error that ended a stream."""

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
        self.random = random
        self._servers = Servers(order, random)
        self._failures = Failures(fault)
        self._observer = observer
        self._is_attended = False
        self._is_flushed = False
        self._closing = False
        self._waiting = WaitingRequests(session, settings, self._failures)
        self._jobs = BackgroundJobs()
        self._state_changes: WeakSet[StateChanges] = WeakSet()
        self._watchers: WeakSet[Watcher] = WeakSet()

    # Requests.

    async def call(self, request: ClientRequest[T]) -> T:
        """The request's result. Raises as the module docstring says."""
        await self.backend.checkpoint_if_cancelled()
        self.ask(request)
        try:
            return await self.answer(request)
        finally:
            if not request.is_over:
                self._waiting.until.pop(request, None)

    async def call_each(self, requests: Sequence[ClientRequest[Any]]) -> list[Any]:
        """The results of requests that are sent in this order, none waiting for the one before; a ZabError in place of
        a result."""
        await self.backend.checkpoint_if_cancelled()
        results: list[Any] = []
        refused: dict[ClientRequest[Any], ZabError] = {}
        for request in requests:
            try:
                self.ask(request)
            except ZabError as error:
                refused[request] = error
        try:
            for request in requests:
                try:
                    results.append(refused[request] if request in refused else await self.answer(request))
                except ZabError as error:
                    results.append(error)
        finally:
            for request in requests[len(results) :]:
                self._waiting.until.pop(request, None)
        return results

    def ask(self, request: ClientRequest[Any]) -> None:
        """Sends the request. A caller that is cancelled while it waits for the `answer` can wait for it again."""
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
        if not self._waiting.until and self._has_room:
            self._send(request)
        else:
            self._waiting.add(request, int(self.backend.now() * 1000))
            self._attend()

    async def answer(self, request: ClientRequest[T]) -> T:
        """Waits for the answer; raises its error."""
        if not request.is_over:
            waiter: Any = request.asker
            await waiter.wait()
        if request.error is not None:
            raise request.error
        return request.result  # type: ignore[return-value]

    def _send(self, request: ClientRequest[Any]) -> None:
        self.session.submit(request)
        self._flush()

    def _flush(self) -> None:
        if not self._is_flushed:
            self._is_flushed = True
            self.backend.flush()

    def _attend(self) -> None:
        if not self._is_attended:
            self._is_attended = True
            self.backend.attend()

    @property
    def _has_room(self) -> bool:
        connection = self.session.connection
        return (
            connection is not None
            and self.session.state.is_connected
            and connection.in_flight_count < self.settings.in_flight_count_max
            and connection.unsent_bytes < self.settings.unsent_bytes_max
        )

    def use_room(self) -> None:
        """Sends what there is room for: requests first, since their callers wait."""
        while self._waiting.until and self._has_room:
            self._send(self._waiting.take())
        while self._jobs.stirred and self._has_room:
            job_request = self._jobs.next_request()
            if job_request is not None:
                self._send(job_request)

    # Jobs.

    def undertake(self, job: BackgroundJob) -> None:
        """The client does it by itself, now or when a server is there. Raises the error of a session that is over."""
        self._raise_if_over()
        self._jobs.add(job)
        self.use_room()

    def stir(self, job: BackgroundJob) -> None:
        """The job may have something to send."""
        self._jobs.stir(job)

    # Effects.

    def _perform(self, effects: Iterable[Effect], now: int | None = None) -> None:
        """now: None where no server takes the session."""
        for effect in effects:
            match effect:
                case Done(request, result, error):
                    request.end(result, error)
                case Tell(watcher, event):
                    self._tell(watcher, event)
                case Became(state):
                    self._became(state, now)

    def _tell(self, listener: Any, event: WatchEvent) -> None:
        listener.deliver(event)
        self._jobs.stir(listener)

    def _became(self, state: State, now: int | None) -> None:
        if state.is_connected:
            assert now is not None
            self._servers.take(now)
            self._failures.connected()
            self._jobs.stir_all()
            # From here on the server is pinged, which may be due before it had to answer.
            self._attend()
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
        """The watches of the watcher are not needed any more."""
        for request in self.session.release(watcher):
            self._send(request)

    def forget_watches(self, path: bytes, kind: WatchKind) -> None:
        """The watches of `kind` at `path`, a path of the server, are gone; their watchers are told."""
        for event, watcher in self.session.watches.remove(path, kind):
            self._tell(watcher, WatchEvent(event, self.session.outer_path(path), self.session.state))
        self.use_room()

    # What the backend calls.

    def poll(self, now: int) -> Todo:
        """Does what is due, and returns what the backend has to do."""
        # Whatever is due is in what is returned: nothing below has to wake the backend.
        self._is_attended = True
        if self._waiting.until:
            self._waiting.refuse_late(now)
        servers = self._servers
        if servers.phase is Phase.DIALLING and now >= servers.deadline:
            self._missed("no connection in time", None, now)
        elif servers.phase is Phase.LINKED:
            self._keep_alive(now)
        if servers.phase is Phase.RESTING and now >= servers.rest_until:
            self._failures.trying(servers.dial(now, self.patience_ms))
        self._is_attended = False
        wishes, servers.wishes = servers.wishes, []
        return Todo(wishes, self._next_moment, servers.phase is Phase.OVER)

    @property
    def _next_moment(self) -> float | None:
        """Seconds, a millisecond later than it is due: the clock is read in whole milliseconds, rounded down."""
        next_time = self._servers.next_time
        times = [] if next_time is None else [next_time]
        if self._waiting.until:
            times.append(self._waiting.next_deadline)
        if self._servers.phase is Phase.LINKED:
            assert self.session.connection is not None
            times.append(self.session.connection.next_deadline)
        return (min(times) + 1) / 1000 if times else None

    @property
    def is_over(self) -> bool:
        return self._servers.phase is Phase.OVER

    @property
    def patience_ms(self) -> int:
        """How long a server may take to accept, and to take the session: its share of the session timeout. Before the
        first session `connect` bounds the time: then its share of that, which leaves enough for the others where a
        minority never answers."""
        servers_count = len(self._servers)
        share_ms = self.session.session_timeout_ms // servers_count
        wait_ms = self.settings.connect_wait_ms
        if not self.session.session_id and servers_count > 1 and wait_ms is not None:
            share_ms = min(share_ms, wait_ms // (servers_count // 2 + 1))
        return max(share_ms, 1)

    def found(self, attempt: int, addresses: Sequence[str], now: int) -> str | None:
        """The name of the host being dialled has these addresses, at least one. Returns the one to dial, which
        gets its own time; None if the attempt is over."""
        if not self._servers.is_at(attempt, Phase.DIALLING):
            return None
        self._attend()
        address = self._servers.found(addresses)
        # Each of the addresses has a share of its own.
        self._servers.wait(now, self.patience_ms)
        return address

    def dialled(self, attempt: int, now: int) -> bool:
        """The stream is open. False if the attempt is over."""
        if not self._servers.is_at(attempt, Phase.DIALLING):
            return False
        answer_ms = max(self._servers.deadline - now, 1)
        self.session.connect(now=now, answer_ms=answer_ms, frame_bytes_max=self.settings.reply_bytes_max)
        self._servers.link()
        self._attend()
        self._is_flushed = True
        return True

    def not_dialled(self, attempt: int, error: Exception, now: int) -> None:
        if self._servers.is_at(attempt, Phase.DIALLING):
            self._missed(_why(error), error, now)

    def _missed(self, reason: str, error: Exception | None, now: int) -> None:
        self._servers.hang_up()
        self._failed(reason, error)
        self._rest(now)

    def take(self, now: int) -> bytes:
        """What is to be sent on the stream of this attempt; empty when there is nothing."""
        self._is_flushed = False
        connection = self.session.connection
        data = b"" if connection is None else connection.take(now)
        if data:
            self.use_room()
        return data

    def received(self, attempt: int, data: bytes, now: int) -> None:
        if not self._servers.is_at(attempt, Phase.LINKED):
            return
        try:
            self._perform(self.session.receive(data, now), now)
        except PeerProtocolError as error:
            self._drop(str(error), error, now)
            return
        if self.session.state.is_over:
            self._drop(f"the session is over: {self.session.state.value}", None, now)
            return
        if self.session.state is State.CONNECTED_READ_ONLY:
            self._servers.begin_to_probe(now)
        self.use_room()
        if self.session.connection is not None and self.session.connection.unsent_bytes:
            self._flush()

    def broke(self, attempt: int, error: Exception | None, now: int) -> None:
        """The stream has ended: by an error, or because the server closed it."""
        if self._servers.is_at(attempt, Phase.LINKED):
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
        if not self._servers.has_taken and now >= self._servers.deadline:
            self._drop("the server did not take the session in time", None, now)
            return
        if connection.unsent_bytes:
            self._flush()
        self._servers.probe_in_time(now)

    def found_other(self, attempt: int, place: Place, addresses: Sequence[str]) -> Place:
        """The name of a place to probe has these addresses now. Returns the one to ask. Names are resolved each
        time: their addresses may change while this client stays with a server that takes no writes."""
        if not self._servers.is_at(attempt, Phase.LINKED):
            return place
        return self._servers.found_other(place, addresses)

    def probed(self, attempt: int, place: Place, is_writable: bool, now: int) -> None:
        """What the server answered."""
        if is_writable and self._servers.is_at(attempt, Phase.LINKED):
            self._servers.prefer(place)
            self._drop(f"{place} takes writes", None, now)

    def _drop(self, reason: str, cause: Exception | None, now: int) -> None:
        """Ends the link."""
        self._servers.hang_up()
        if self._closing:
            # The server hung up because it has closed the session.
            self._perform(self.session.close())
        self._perform(self.session.lost(cause))
        self._failed(reason, cause)
        self._rest(now)

    def _failed(self, reason: str, error: Exception | None) -> None:
        """The server did not take the session, or did not keep it."""
        place = self._servers.place
        assert place is not None
        said = self._failures.add(place, reason, error, len(self._servers))
        if self._observer is not None:
            self._observer.server_lost(str(place), said)

    def _rest(self, now: int) -> None:
        """Nothing is open now."""
        if self._closing or self.session.state.is_over or self._failures.tls_error is not None:
            self._finish()
        else:
            self._servers.rest(now)
            self._attend()

    # Why it is over.

    def _end(self, path: str | None = None) -> ZabError:
        """Why the session is over."""
        state = self.session.state
        if state is State.EXPIRED:
            return SessionExpiredError(path)
        if state is State.AUTH_FAILED:
            refusal = self.session.login_refusal
            return AuthFailedError(path) if refusal is None else LoginRefusedError(path, detail=f"the login: {refusal}")
        return self._failures.tls_error or ClientClosedError("the client is closed")

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
        """Closes the session on its server, waiting at most `close_wait_ms`; all waiting callers get an error."""
        self._closing = True
        self._refuse_waiting()
        if self.session.state.is_connected:
            request = close_request()
            request.asker = self.backend.waiter()
            async with self.backend.move_on_after(self.settings.close_wait_ms / 1000, shield=True):
                self._send(request)
                # When the connection ends first, the session goes when it expires.
                with suppress(RequestError):
                    await self.answer(request)
        self.abandon()

    def abandon(self) -> None:
        """This process is done with the session. A session that is not closed stays on its server until it expires."""
        self._closing = True
        self._perform(self.session.close())
        if self.session.connection is not None:
            self._servers.hang_up()
            self._perform(self.session.lost())
        elif self._servers.phase is Phase.DIALLING:
            self._servers.hang_up()
        self._finish()

    def _refuse_waiting(self) -> None:
        if self._waiting.until:
            self._waiting.refuse_all(self._end)

    def _finish(self) -> None:
        """Tells all watchers, jobs and callers that it is over."""
        self._servers.end()
        if self._failures.tls_error is not None:
            self._perform(self.session.close())
        reason = self._end()
        for watcher in list(self._watchers):
            watcher.end(reason)
        self._jobs.end(reason)
        self._refuse_waiting()
        self._attend()


def _why(error: Exception) -> str:
    """A reason short enough for one line: trio wraps several attempts in one OSError."""
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return str(inner or error)
