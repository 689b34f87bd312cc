"""The log thread: carries out storage effects in order, and wakes the loop with the answers.

    put(effect)         queues an effect, from the loop
    answers             go to the `Mailbox` in the same order; answers that no turn waits for do not wake the loop

All waiting appends are one cycle: one write, one sync, one system call (group commit). While the thread waits for the
disk, more appends gather; groups grow with the load, without a timer.

After `IDLE_SECONDS` without work it calls `idle` of the storage, which writes a mark that everything before it was
synced.

A failure is final (C1 failed syncs: after a failed fsync a second one proves nothing). The thread ends, and the loop
gets the result of `failed` in its mailbox: the process has to end.

The storage itself sends messages to other members that wait for it (`zab.host.loop.links.Links.send_now`). Nothing else
runs in this thread: beside a busy loop every return to the interpreter may cost a switch interval, which is why
`SWITCH_SECONDS` is 0.5 ms and not Python's 5 (H3 log thread).

The loop could write small appends itself: that was built and measured (one client, one request in flight, three members
and the load on two busy cores, medians of nine alternating rounds). It saved a fifth of the processor time, 940 µs per
operation of all members against 1,143, but latency was higher, 1.22 ms against 1.05 on the leader and 1.34 against 1.29
on a follower, since nothing else runs during the write. So no write, however short, delays a turn.

Not here: the effects themselves, and slow work.
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
"""The storage effects of a service."""
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)
"""The answers for its turn."""

IDLE_SECONDS = 0.05
SWITCH_SECONDS = 0.0005


class Performer(Protocol[Effect, Answer_co]):
    """The storage of a service, which the thread drives."""

    def perform(self, effects: Sequence[Effect]) -> Sequence[Answer_co]:
        """Carry out effects, durably, and return their answers in order. Raises OSError: final."""
        ...

    def is_awaited(self, answer: Any) -> bool:
        """Whether this answer starts a turn. Called when the answer is in the mailbox already."""
        ...

    def idle(self) -> None:
        """Called when nothing has happened for a while."""
        ...

    def close(self) -> None:
        """Called at the end."""
        ...


class _Word(Enum):
    """Commands to the thread besides effects."""

    NUDGE = "look at the marks again"
    CLOSE = "end"


class LogThread(Generic[Effect, Answer]):
    """The log thread of a server. `put`, `nudge` and `close` belong to the loop's thread."""

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
        """`timed` is called, in this thread, with the milliseconds of each cycle, and `say_slow` with those of cycles
        of `slow_ms` or longer. `failed` makes an answer from the reason why nothing more can be stored."""
        self._storage = storage
        self._mailbox = mailbox
        self._slow_ns = slow_ms * 1_000_000
        self._say_slow = say_slow
        self._timed = timed
        self._failed = failed
        self._effects: SimpleQueue[Effect | _Word] = SimpleQueue()
        self.is_parked = False
        """Whether `idle` was called and nothing came since: only then `nudge` has an effect."""
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
        """Note that something changed that the storage writes when it is idle."""
        if self.is_parked:
            self.is_parked = False
            self._effects.put(_Word.NUDGE)

    def close(self, patience_seconds: float, *, drops: bool = False) -> bool:
        """Carry out what is queued, call `idle`, and end; False if that takes too long.

        drops: end after the current cycle, and leave the files as they are, as the death of the process would.
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
            # A bug ends the thread with its traceback; the loop must not wait for answers that will never come.
            error_in_flight = sys.exception()
            if error_in_flight is not None:
                self._mailbox.put(self._failed(f"{type(error_in_flight).__name__}: {error_in_flight}"))

    def _cycle(self) -> bool:
        """Wait for work and do all of it; False at the end."""
        items = self._next()
        if self._drops:
            return False
        effects = [item for item in items if not isinstance(item, _Word)]
        if effects:
            started_ns = time.monotonic_ns()
            answers = self._storage.perform(effects)
            took_ns = time.monotonic_ns() - started_ns
            for answer in answers:
                # In this order: a turn that begins to wait either finds the answer, or is woken.
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
        """Take all waiting items, at least one, CLOSE last. Calls `idle` of the storage after a pause."""
        try:
            items = [self._effects.get(timeout=IDLE_SECONDS)]
        except Empty:
            # Before, not after: a change while the storage writes its marks must come back here once more.
            self.is_parked = True
            self._storage.idle()
            items = [self._effects.get()]
            self.is_parked = False
        # No other thread takes from it, so what is there stays there.
        while items[-1] is not _Word.CLOSE and not self._effects.empty():
            items.append(self._effects.get_nowait())
        return items
