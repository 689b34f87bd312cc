"""The trio task with the poller, which owns all client sockets and links of a server.

    run(turn)           until `stop`: takes a turn, then waits for a socket, for `wake`, or until the turn's deadline
    watch(watched, …)   sets the interest in a socket; interest 0 removes it from the poller
    discard(watched)    removes a socket from the poller now, and closes it at the end of the turn
    timer(call)         a timer, which calls before the first turn after its time
    wake()              from any thread: makes the loop take a turn soon

A turn is synchronous, and the service bounds it; this module does not know what happens in it.

Rules, each with a test:

- After a turn with work, the loop waits briefly in the poller before it goes to sleep in trio: what a turn sends is
  mostly answered within that time. It does not if the turn has given another task something to do.
- One wait, in one cancel scope that lives until its deadline passes; a turn only moves that deadline (9 µs a wait,
  16 µs with a scope for each).
- A turn that did not wait ends with a checkpoint, so that other tasks of the server run.
- A turn gets all ready sockets, however many they are: links must not wait for clients (H1 links always
  read).
- A descriptor closed in a turn may already name another socket in the same turn. So sockets leave the poller at once
  and are closed at the end of the turn, and ready sockets are reported before the turn begins.
- The poller is announced to trio (`notify_closing`) before it closes.

Not here: reading, sending, accepting (`links`, `sockets`); no blocking call and no cold file.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

import trio

from zab.host.loop.poller import BROKEN, READ, make_poller

_WAKE_BYTES = 4096

LINGER_SECONDS = 0.003
"""How long the loop waits in the poller after a turn with work, before it goes to sleep in trio."""
_LINGER_TOTAL_NS = 10_000_000
"""How long turns may follow each other before other tasks run."""


def now_ms() -> int:
    """The monotonic clock in whole milliseconds: the `now` of all pure code."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """Both clocks of this machine, and the processor time of the calling thread, for turns."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)
    processor_ns = staticmethod(time.thread_time_ns)


class PolledSocket:
    """A socket in the poller, with its `interest`; `gone` once it is discarded."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.descriptor = sock.fileno()
        self.interest = 0
        self.gone = False

    def on_ready(self, mask: int) -> None:
        """The socket is readable or writable, or broken, which shows as either."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the socket. Called by the loop, at the end of a turn."""
        self.socket.close()


class _Alarm(PolledSocket):
    """The read end of the socket pair by which other threads end a wait."""

    def on_ready(self, mask: int) -> None:
        self.socket.recv(_WAKE_BYTES)


class Timer:
    """Calls once, before the first turn after its time. If it is set while it waits, the earlier time counts."""

    _numbers = count()

    def __init__(self, timers: list[tuple[int, int, Timer]], call: Callable[[int], None]) -> None:
        self._timers = timers
        self.call = call
        self.when: int | None = None
        """The time of the call; None: it does not wait."""

    def set(self, when: int) -> None:
        """Call at this time (ms, monotonic), or earlier if it was set so before."""
        if self.when is None or when < self.when:
            self.when = when
            heappush(self._timers, (when, next(self._numbers), self))


class _Others(trio.abc.Instrument):
    """Notes whether other tasks have run. A pass of trio runs all runnable tasks, including this one, in random
    order."""

    def __init__(self, own: trio.lowlevel.Task) -> None:
        self._own = own
        self.passes_left = 0
        """How many passes this task has to wait until all other runnable tasks have run."""

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is not self._own:
            self.passes_left = 2


class Turn(Protocol):
    """What the loop drives."""

    def take(self) -> bool:
        """Take one turn. True: there is more to do at once."""
        ...

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens (ms, monotonic). Asked only before a wait."""
        ...


class Loop:
    """The loop of one server; every method except `wake` belongs to its task."""

    def __init__(self) -> None:
        self._poller = make_poller()
        self._poll = self._poller.poll
        self._watched: dict[PolledSocket, None] = {}
        """All sockets, including those with no interest now."""
        self._by_descriptor: dict[int, PolledSocket] = {}
        """The sockets with an interest."""
        self._timers: list[tuple[int, int, Timer]] = []
        """A heap by time; outdated entries of timers that were set again stay until their time."""
        self._discarded: list[PolledSocket] = []
        self._stopping = False
        self._asleep = False
        self._woken = False
        reader, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._alarm = _Alarm(reader)
        self.watch(self._alarm, READ)

    def watch(self, watched: PolledSocket, interest: int) -> None:
        """Set the interest (READ | WRITE) in this socket; with 0 it leaves the poller."""
        assert not watched.gone
        if interest == watched.interest:
            return
        self._watched[watched] = None
        descriptor = watched.descriptor
        if not interest:
            del self._by_descriptor[descriptor]
            # A socket that its owner closed has left already.
            with contextlib.suppress(OSError):
                self._poller.unregister(descriptor)
        elif watched.interest:
            self._poller.modify(descriptor, interest)
        else:
            self._by_descriptor[descriptor] = watched
            self._poller.register(descriptor, interest)
        watched.interest = interest

    def discard(self, watched: PolledSocket) -> None:
        """Forget the socket, and close it at the end of the turn."""
        if not watched.gone:
            self.release(watched)
            self._discarded.append(watched)

    def release(self, watched: PolledSocket) -> None:
        """Forget the socket without closing it: it has another owner now."""
        self.watch(watched, 0)
        self._watched.pop(watched, None)
        watched.gone = True

    def timer(self, call: Callable[[int], None]) -> Timer:
        """A timer that calls this with the time (ms, monotonic)."""
        return Timer(self._timers, call)

    def call_due(self, now: int) -> None:
        """Call the timers that are due."""
        while self._timers and self._timers[0][0] <= now:
            when, _, timer = heappop(self._timers)
            if timer.when == when:
                timer.when = None
                timer.call(now)

    def wake(self) -> None:
        """Make the loop take a turn soon. Called from any thread, after the data for the turn is in place."""
        self._woken = True
        # `_asleep` is set before `_woken` is checked for the last time, so one of the two sides sees the other.
        if self._asleep:
            self._asleep = False
            # A full buffer has wake-ups that were not read yet: another one is not needed.
            with contextlib.suppress(BlockingIOError):
                self._waker.send(b"\0")

    def stop(self) -> None:
        """End `run` after the current turn."""
        self._stopping = True
        self.wake()

    async def run(self, turn: Turn) -> None:
        """Take turns until `stop`. The caller has to `close`."""
        others = _Others(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(others)
        try:
            while not self._stopping:
                # A scope whose deadline has passed stays cancelled: only then a new one is needed.
                with trio.CancelScope() as scope:
                    while not self._stopping:
                        await self._take(turn, scope, others)
        finally:
            trio.lowlevel.remove_instrument(others)

    async def _take(self, turn: Turn, scope: trio.CancelScope, others: _Others) -> None:
        """Take turns while each has something to do at once, then wait once."""
        by_descriptor = self._by_descriptor
        ready = self._poll(0, len(by_descriptor))
        until_ns = time.monotonic_ns() + _LINGER_TOTAL_NS
        while True:
            had_work = bool(ready) or self._woken
            self._woken = False
            for descriptor, mask in ready:
                # A ready socket may have made another one leave.
                watched = by_descriptor.get(descriptor)
                if watched is not None:
                    watched.on_ready(watched.interest if mask & BROKEN else mask)
            if self._timers and self._timers[0][0] <= time.monotonic_ns() // 1_000_000:
                self.call_due(now_ms())
            has_more = turn.take()
            if self._discarded:
                self._close_discarded()
            if has_more or (had_work and time.monotonic_ns() >= until_ns):
                scope.deadline = inf
                await trio.lowlevel.checkpoint()
                if self._stopping:
                    return
                until_ns = time.monotonic_ns() + _LINGER_TOTAL_NS
            if not has_more and (others.passes_left or not had_work):
                break
            # What a turn sends is mostly answered very soon, and a wait through trio costs about as much as a small
            # turn: so the process sleeps in the poller itself. A deadline may be missed by this time: finding the next
            # deadline in each turn would cost more than it is worth.
            self._asleep = True
            try:
                ready = self._poll(0 if has_more or self._woken else LINGER_SECONDS, len(by_descriptor))
            finally:
                self._asleep = False
            if not (has_more or ready or self._woken):
                break
        deadline = turn.next_deadline()
        if self._timers and self._timers[0][0] < deadline:
            deadline = self._timers[0][0]
        scope.deadline = trio.current_time() + (deadline * 1_000_000 - time.monotonic_ns()) / 1e9
        self._asleep = True
        try:
            if self._woken:
                await trio.lowlevel.checkpoint()
            else:
                if others.passes_left:
                    others.passes_left -= 1
                await trio.lowlevel.wait_readable(self._poller)
        finally:
            self._asleep = False

    def _close_discarded(self) -> None:
        for watched in self._discarded:
            watched.close()
        self._discarded.clear()

    def close(self) -> None:
        """Close every socket that is or was watched, then the poller."""
        for watched in list(self._watched):
            self.discard(watched)
        self._close_discarded()
        self._waker.close()
        trio.lowlevel.notify_closing(self._poller)
        self._poller.close()
