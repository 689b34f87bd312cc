"""The log thread: carries out storage effects, in order, and wakes the loop with the answers.

    put(effect)         from the loop, in the order of the effects
    answers             are put into `Posts`, in the same order
    try_now(effects)    small appends, carried out in the loop's own thread when that is sure to be short

All appends that wait are one cycle: one write, one sync, one system call (group commit), answered by one `Durable` per
generation. While the thread waits for the disk, more appends gather; load makes the groups grow by itself, no timer
does.

After `IDLE_SECONDS` without work the storage is told that it is idle: it leaves a mark that everything before it was
synced.

A failure is final (C1: after a failed fsync a second one proves nothing). The thread ends, and the loop finds
`LogThreadFailed` among its posts, which ends the process.

Nothing else runs in this thread: beside a busy loop every return to the interpreter may cost a switch interval, which
is why `SWITCH_SECONDS` is 0.5 ms and not Python's 5 (H3).

Why the loop writes small appends itself: handing one over costs two switches of threads and another turn of the loop,
together more than the write (one client, one request in flight, three members on two cores: 380 µs of processor time
an operation on a follower with the thread, 280 without, and a third off the latency). It does so only while nothing is
queued, up to `NOW_BYTES_MAX`, and while such writes take less than `NOW_NS_MAX` on average; a disk that is slower, or
hangs once, goes to the thread for `PAUSE_NS`. So a turn is at most as long as the one write that shows that the disk
has become slow, and under load, where groups are large, the disk works beside the loop.

Not here: what the effects do (`storage`), snapshots and their transfer.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

import attrs

from zab.events import AppendBatches, Durable
from zab.server.loop import Posts
from zab.server.storage import Answer, StorageEffect

IDLE_SECONDS = 0.05
SWITCH_SECONDS = 0.0005

NOW_BYTES_MAX = 16 << 10
NOW_NS_MAX = 1_000_000
NOW_AVERAGE_OF = 64
PAUSE_NS = 1_000_000_000


class Performer(Protocol):
    """What the thread drives: `zab.server.storage.Storage`."""

    def perform(self, effects: Sequence[StorageEffect]) -> list[Answer]:
        """Carry out effects, durably, and return their answers in order. Raises OSError: final."""
        ...

    def idle(self) -> None:
        """Nothing has happened for a while."""
        ...

    def close(self) -> None:
        """Nothing more will happen."""
        ...


@attrs.frozen
class LogThreadFailed:
    """Nothing can be logged any more."""

    reason: str


class _Word(Enum):
    """What is said to the thread beside effects."""

    NUDGE = "look at the marks again"
    CLOSE = "end"


_Item: TypeAlias = StorageEffect | _Word


def _is_small(effects: Sequence[StorageEffect]) -> bool:
    size_bytes = 0
    for effect in effects:
        if not isinstance(effect, AppendBatches):
            return False
        size_bytes += sum(len(batch.raw) for batch in effect.batches)
    return size_bytes <= NOW_BYTES_MAX


class LogThread:
    """One per server. `put`, `nudge` and `close` belong to the loop's thread."""

    def __init__(self, storage: Performer, posts: Posts, slow_ms: int, say_slow: Callable[[int], None]) -> None:
        """`say_slow` is called, in this thread, with the milliseconds of a cycle that took `slow_ms` or longer."""
        self._storage = storage
        self._posts = posts
        self._slow_ns = slow_ms * 1_000_000
        self._say_slow = say_slow
        self._effects: SimpleQueue[_Item] = SimpleQueue()
        self._parked = False
        self._put_count = 0
        self._done_count = 0
        self._writing = threading.Lock()
        """Held while the storage is used."""
        self._failed = False
        """A write in the loop failed: the storage is not to be touched any more."""
        self._wrote_at_ns = 0
        self._now_after_ns = 0
        self._average_ns = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: StorageEffect) -> None:
        """Queue one effect."""
        self._put_count += 1
        self._effects.put(effect)

    def try_now(self, effects: Sequence[StorageEffect]) -> list[Durable] | None:
        """Carry out small appends in the caller's thread, and return their answers; None when that must not be: then
        they are to be queued. Raises OSError: final."""
        if self._put_count != self._done_count or not self._posts.is_empty():
            return None  # What was queued before, or answered and not taken yet, comes first.
        started_ns = time.monotonic_ns()
        if started_ns < self._now_after_ns or not _is_small(effects) or not self._writing.acquire(blocking=False):
            return None
        try:
            answers = self._storage.perform(effects)
        except OSError:
            self._failed = True
            raise
        finally:
            self._writing.release()
        self._wrote_at_ns = time.monotonic_ns()
        self._judge(self._wrote_at_ns - started_ns)
        self.nudge()
        return [answer for answer in answers if isinstance(answer, Durable)]

    def _judge(self, took_ns: int) -> None:
        """Go on while writes are fast on average; one that hangs counts for many."""
        self._average_ns += (took_ns - self._average_ns) // NOW_AVERAGE_OF
        if self._average_ns > NOW_NS_MAX:
            self._now_after_ns = self._wrote_at_ns + PAUSE_NS
            self._average_ns = NOW_NS_MAX // 2

    def nudge(self) -> None:
        """Something changed that the storage writes down when it is idle."""
        if self._parked:
            self._parked = False
            self._effects.put(_Word.NUDGE)

    def close(self, patience_seconds: float) -> bool:
        """Carry out what is queued, say that the log is idle, and end; False when that takes too long."""
        self._effects.put(_Word.CLOSE)
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
        items = self._next()
        effects = [item for item in items if not isinstance(item, _Word)]
        if effects:
            started_ns = time.monotonic_ns()
            with self._writing:
                answers = self._storage.perform(effects)
            took_ns = time.monotonic_ns() - started_ns
            for answer in answers:
                self._posts.put(answer)
            self._done_count += len(effects)
            if took_ns >= self._slow_ns:
                self._say_slow(took_ns // 1_000_000)
        if items[-1] is _Word.CLOSE:
            with self._writing:
                if not self._failed:
                    self._storage.close()
            return False
        return True

    def _next(self) -> list[_Item]:
        """All that waits, at least one item, CLOSE last. After a pause the storage is told that it is idle."""
        try:
            items = [self._effects.get(timeout=IDLE_SECONDS)]
        except Empty:
            if time.monotonic_ns() - self._wrote_at_ns < IDLE_SECONDS * 1e9:
                return [_Word.NUDGE]  # The loop writes by itself: the log is not idle.
            # Before, not behind: what changes while the storage writes its marks must come back here once more.
            self._parked = True
            with self._writing:
                if not self._failed:
                    self._storage.idle()
            items = [self._effects.get()]
            self._parked = False
        with contextlib.suppress(Empty):
            while items[-1] is not _Word.CLOSE:
                items.append(self._effects.get_nowait())
        return items
