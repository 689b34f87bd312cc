"""The driver that runs handlers one after the other, and what it and its host tell each other.

`Driver` has one queue and one running handler: no other code runs between two of its steps, except what only adds to
the queue. What a host must keep:

    Submit(n, operations)   send them in this order; answer once with Results(n, …), one result for each
    connection lost         answer what is under way with CONNECTIONLOSS (it may have been applied), then Suspended
    connected again         Connected with the same session id; watches that were set are still set
    session expired         Expired; no request of the old session is answered after that
    a watch fired           WatchFired(path), once for each watch that was set; what changed is not said, since a
                            handler reads it again with a new watch

A SESSIONEXPIRED ends the running handler, and the driver waits for Expired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from attrs import define, field, frozen

from zab.coordination.operations import Operation, Result, ZooKeeperError
from zab.coordination.steps import Pause, Steps

_ENDED: Final = frozenset({ZooKeeperError.SESSIONEXPIRED, ZooKeeperError.SESSIONMOVED, ZooKeeperError.AUTHFAILED})


@frozen
class Connected:
    """session_timeout_ms: what was negotiated."""

    session_id: int
    session_timeout_ms: int = 6000


@frozen
class Suspended:
    """The connection is lost; the session may go on."""


@frozen
class Expired:
    """The session is gone, with its ephemeral znodes and watches."""


@frozen
class WatchFired:
    path: str


@frozen
class Results:
    batch: int
    results: tuple[Result, ...]


FromCoordination: TypeAlias = Connected | Suspended | Expired | WatchFired | Results
"""What a host tells."""


@frozen
class Submit:
    """An effect: send these operations."""

    batch: int
    operations: tuple[Operation, ...]


@frozen
class Event:
    """Something to be handled. An event with a name is not queued twice; it reads what changed when it runs."""

    name: str
    begin: Callable[[], Steps[None]] = field(eq=False)
    is_unique: bool = True


@define
class Driver:
    """One queue, and at most one handler that runs."""

    _queue: deque[Event] = field(factory=deque)
    _running: Steps[None] | None = None
    _is_new: bool = False
    _to_ask: tuple[Operation, ...] | None = None
    _to_send: tuple[Result, ...] | None = None
    """What the running handler is sent next."""
    _outstanding: int | None = None
    _paused_until_ms: int | None = None
    _batches: int = 0
    is_connected: bool = False

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._queue

    @property
    def size(self) -> int:
        """How many events wait or run."""
        return len(self._queue) + (self._running is not None)

    @property
    def deadline_ms(self) -> int | None:
        return self._paused_until_ms

    def offer(self, event: Event) -> None:
        if not (event.is_unique and any(each.name == event.name and each.is_unique for each in self._queue)):
            self._queue.append(event)

    def clear(self) -> None:
        """Forget the running handler and all events."""
        if self._running is not None:
            self._running.close()
        self._queue.clear()
        self._stop()

    def on_connected(self) -> None:
        self.is_connected = True

    def on_suspended(self) -> None:
        self.is_connected = False

    def on_results(self, answer: Results) -> None:
        if answer.batch != self._outstanding:
            return
        self._outstanding = None
        if any(result.error in _ENDED for result in answer.results):
            self.clear()
            self.is_connected = False
        else:
            self._to_send = answer.results

    def advance(self, now_ms: int) -> Iterable[Submit]:
        """Run handlers until one waits, or none is left. What a handler raises ends it, and is raised."""
        while self._begin():
            if self._paused_until_ms is not None and now_ms >= self._paused_until_ms:
                self._paused_until_ms, self._to_send = None, ()
            if self._to_send is not None:
                self._resume(now_ms)
            elif self._to_ask is not None and self.is_connected:
                asked, self._to_ask = self._to_ask, None
                self._batches += 1
                self._outstanding = self._batches
                yield Submit(self._batches, asked)
            else:
                return

    def _begin(self) -> bool:
        if self._running is None and self._queue and self.is_connected:
            self._running = self._queue.popleft().begin()
            self._is_new, self._to_send = True, ()
        return self._running is not None

    def _resume(self, now_ms: int) -> None:
        running, sent = self._running, self._to_send
        assert running is not None
        assert sent is not None
        is_over = True
        try:
            asked = next(running) if self._is_new else running.send(sent)
            is_over = False
        except StopIteration:
            return
        finally:
            if is_over:
                self._stop()
        self._is_new, self._to_send = False, None
        if isinstance(asked, Pause):
            self._paused_until_ms = now_ms + asked.ms
        elif not asked:
            self._to_send = ()
        else:
            self._to_ask = asked

    def _stop(self) -> None:
        self._running = self._to_ask = self._to_send = self._outstanding = self._paused_until_ms = None
