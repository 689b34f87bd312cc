"""The log thread: carries out storage effects, in order, and wakes the loop with the answers.

    put(effect)         from the loop, in the order of the effects
    answers             are put into `Mailbox`, in the same order; those that nobody waits for wake nobody

All appends that wait are one cycle: one write, one sync, one system call (group commit). While the thread waits for the
disk, more appends gather; load makes the groups grow by itself, no timer does.

After `IDLE_SECONDS` without work the storage is told that it is idle: it leaves a mark that everything before it
was synced.

A failure is final (C1 failed syncs: after a failed fsync a second one proves nothing). The thread ends, and the loop
finds what `failed` makes of the reason among its mailbox: the process has to end.

What others wait for beside that, the storage says by itself (`zab.host.loop.links.Links.send_now`). Nothing else runs
in this thread: beside a busy loop every return to the interpreter may cost a switch interval, which is why
`SWITCH_SECONDS` is 0.5 ms and not Python's 5 (H3 log thread).

The loop could write small appends itself: that was built and measured (one client, one request in flight, three members
and the load on two busy cores, medians of nine alternating rounds). It saved a fifth of the processor time, 940 µs an
operation of all members against 1,143, and gained no latency, 1.22 ms against 1.05 on the leader and 1.34 against 1.29
on a follower, since then nothing goes on beside the write. So no write, however short, holds up a turn.

Not here: what the effects do, and everything that is slow.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from zab.host.loop.mailbox import Mailbox

Effect = TypeVar("Effect", contravariant=True)
"""What a service wants stored."""
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)
"""What its turn is told of that."""

IDLE_SECONDS = 0.05
SWITCH_SECONDS = 0.0005


class Performer(Protocol[Effect, Answer_co]):
    """What the thread drives: the storage of a service."""

    def perform(self, effects: Sequence[Effect]) -> Sequence[Answer_co]:
        """Carry out effects, durably, and return their answers in order. Raises OSError: final."""
        ...

    def is_awaited(self, answer: Any) -> bool:
        """Whether a turn is to begin because of this answer. Asked when the next turn would find it."""
        ...

    def idle(self) -> None:
        """Nothing has happened for a while."""
        ...

    def close(self) -> None:
        """Nothing more will happen."""
        ...


class _Word(Enum):
    """What is said to the thread beside effects."""

    NUDGE = "look at the marks again"
    CLOSE = "end"


class LogThread(Generic[Effect, Answer]):
    """One per server. `put`, `nudge` and `close` belong to the loop's thread."""

    def __init__(
        self,
        storage: Performer[Effect, Answer],
        mailbox: Mailbox[Answer],
        slow_ms: int,
        *,
        say_slow: Callable[[int], None],
        timed: Callable[[int], None],
        failed: Callable[[str], Answer],
    ) -> None:
        """`timed` is called, in this thread, with the milliseconds of each cycle, and `say_slow` with those of one of
        `slow_ms` or longer. `failed` makes a post of the reason why nothing can be stored any more."""
        self._storage = storage
        self._mailbox = mailbox
        self._slow_ns = slow_ms * 1_000_000
        self._say_slow = say_slow
        self._timed = timed
        self._failed = failed
        self._effects: SimpleQueue[Effect | _Word] = SimpleQueue()
        self.is_parked = False
        """The storage was told that it is idle, and nothing came since: then `nudge` does something."""
        self._drops = False
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="log", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: Effect) -> None:
        """Queue one effect."""
        self._effects.put(effect)

    def nudge(self) -> None:
        """Something changed that the storage writes down when it is idle."""
        if self.is_parked:
            self.is_parked = False
            self._effects.put(_Word.NUDGE)

    def close(self, patience_seconds: float, *, drops: bool = False) -> bool:
        """Carry out what is queued, say that the log is idle, and end; False when that takes too long.

        drops: end after what is under way, and leave the files as they are then, as the end of the process would.
        """
        self._drops = drops
        self._effects.put(_Word.CLOSE)
        if self._thread.ident is not None:
            self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._cycle():
                pass
        except OSError as error:
            self._mailbox.put(self._failed(str(error)))
        finally:
            # A bug ends the thread with its traceback; the loop must not wait for answers that never come.
            error_in_flight = sys.exception()
            if error_in_flight is not None:
                self._mailbox.put(self._failed(f"{type(error_in_flight).__name__}: {error_in_flight}"))

    def _cycle(self) -> bool:
        """Wait for work and do all that is there; False at the end."""
        items = self._next()
        if self._drops:
            return False
        effects = [item for item in items if not isinstance(item, _Word)]
        if effects:
            started_ns = time.monotonic_ns()
            answers = self._storage.perform(effects)
            took_ns = time.monotonic_ns() - started_ns
            for answer in answers:
                # In this order: who begins to wait for it either finds it there, or is woken.
                self._mailbox.leave(answer)
                if self._storage.is_awaited(answer):
                    self._mailbox.wake()
            self._timed(took_ns // 1_000_000)
            if took_ns >= self._slow_ns:
                self._say_slow(took_ns // 1_000_000)
        if items[-1] is _Word.CLOSE:
            self._storage.close()
            return False
        return True

    def _next(self) -> list[Effect | _Word]:
        """All that waits, at least one item, CLOSE last. After a pause the storage is told that it is idle."""
        try:
            items = [self._effects.get(timeout=IDLE_SECONDS)]
        except Empty:
            # Before, not after: what changes while the storage writes its marks must come back here once more.
            self.is_parked = True
            self._storage.idle()
            items = [self._effects.get()]
            self.is_parked = False
        # Nobody else takes from it, so what is there stays there.
        while items[-1] is not _Word.CLOSE and not self._effects.empty():
            items.append(self._effects.get_nowait())
        return items
