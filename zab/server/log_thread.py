"""The log thread: carries out storage effects, in order, and wakes the loop with the answers.

    put(effect)         from the loop, in the order of the effects
    answers             are put into `Posts`, in the same order

All appends that wait are one cycle: one write, one sync, one system call (group commit), answered by one `Durable` per
generation. While the thread waits for the disk, more appends gather; load makes the groups grow by itself, no timer does.

After `IDLE_SECONDS` without work the storage is told that it is idle: it leaves a mark that everything before it was synced.

A failure is final (C1: after a failed fsync a second one proves nothing). The thread ends, and the loop finds
`LogThreadFailed` among its posts, which ends the process.

Nothing else runs in this thread: beside a busy loop every return to the interpreter may cost a switch interval, which is
why `SWITCH_SECONDS` is 0.5 ms and not Python's 5 (H3).

Not here: what the effects do (`storage`), snapshots and their transfer.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import attrs

from zab.events import Event
from zab.server.loop import Posts

IDLE_SECONDS = 0.05
SWITCH_SECONDS = 0.0005


class Performer(Protocol):
    """What the thread drives: `zab.server.storage.Storage`."""

    def perform(self, effects: Sequence[object]) -> list[Event]:
        """Carry out effects, durably, and return their answers in order. Raises OSError: final."""
        ...

    def idle(self) -> None:
        """Nothing has happened for a while."""
        ...


@attrs.frozen
class LogThreadFailed:
    """Nothing can be logged any more."""

    reason: str


class LogThread:
    """One per server. `put`, `nudge` and `close` belong to the loop's thread."""

    def __init__(self, storage: Performer, posts: Posts, slow_ms: int, say_slow: Callable[[int], None]) -> None:
        """`say_slow` is called, in this thread, with the milliseconds of a cycle that took `slow_ms` or longer."""
        self._storage = storage
        self._posts = posts
        self._slow_ns = slow_ms * 1_000_000
        self._say_slow = say_slow
        self._effects: SimpleQueue[object | None] = SimpleQueue()
        self._parked = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: object) -> None:
        """Queue one effect."""
        assert effect is not None
        self._effects.put(effect)

    def nudge(self) -> None:
        """Something changed that the storage writes down when it is idle."""
        if self._parked:
            self._parked = False
            self._effects.put(_NUDGE)

    def close(self, patience_seconds: float) -> bool:
        """Carry out what is queued, say that the log is idle, and end; False when that takes too long."""
        self._effects.put(None)
        if self._thread.ident is not None:
            self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._cycle():
                pass
        except OSError as error:
            self._posts.put(LogThreadFailed(f"cannot write: {error}"))
        finally:
            # A bug ends the thread with its traceback; the loop must not wait for answers that never come.
            error_in_flight = sys.exception()
            if error_in_flight is not None:
                self._posts.put(LogThreadFailed(f"{type(error_in_flight).__name__}: {error_in_flight}"))

    def _cycle(self) -> bool:
        """Wait for work and do all that is there; False at the end."""
        effects = self._next()
        if effects is None:
            return True
        is_last = effects[-1] is None
        wanted = [effect for effect in effects if effect is not None and effect is not _NUDGE]
        if wanted:
            started_ns = time.monotonic_ns()
            answers = self._storage.perform(wanted)
            for answer in answers:
                self._posts.put(answer)
            took_ns = time.monotonic_ns() - started_ns
            if took_ns >= self._slow_ns:
                self._say_slow(took_ns // 1_000_000)
        if is_last:
            self._storage.idle()
        return not is_last

    def _next(self) -> list[object | None] | None:
        """All effects that wait, at least one; None after the storage was told that it is idle."""
        try:
            effects = [self._effects.get(timeout=IDLE_SECONDS)]
        except Empty:
            # Before, not behind: what changes while the storage writes its marks must come back here once more.
            self._parked = True
            self._storage.idle()
            effects = [self._effects.get()]
            self._parked = False
        with contextlib.suppress(Empty):
            while effects[-1] is not None:
                effects.append(self._effects.get_nowait())
        return effects


_NUDGE = object()
