"""The one trio task with the one poller: it owns every client socket and every link of a server.

    run(turn)           until `stop`: take a turn, then wait for a socket, for `wake`, or until the turn's deadline
    watch(watched, …)   what a socket is waited for; nothing at all takes it out of the poller
    discard(watched)    out of the poller now, closed at the end of the turn
    timer(call)         what is called before the first turn from a time on
    wake()              from any thread: take a turn soon

A turn is synchronous, and bounded by the service whose turn it is; this module knows nothing of what happens in it.

Rules, each with a test:

- A turn that had work lingers for more in the poller, a moment at most, before it goes to sleep in trio: what one
  turn sends is mostly answered within that time. Not so when the turn has given another task something to do.
- One wait, in one cancel scope that lives until its deadline passes; a turn only moves that deadline (9 µs a wait,
  16 µs with a scope for each).
- A turn that did not wait ends in a checkpoint, so that the other tasks of the server run.
- A turn is told of all that are ready, however many they are: links must not wait behind clients (H1 links always
  read).
- A descriptor closed in a turn may already name another socket in the same turn. So sockets leave the poller at once
  and are closed at the end of the turn, and what became ready is told before anything of the turn happens.
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
"""How long a turn that had work waits for more before the process goes to sleep in trio."""
_LINGER_TOTAL_NS = 10_000_000
"""How long turns may follow each other without a look at what other tasks wait for."""


def now_ms() -> int:
    """The monotonic clock, in whole milliseconds: the `now` of everything pure."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """Both clocks of this machine and the processor time of the asking thread, as a turn asks for them."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)
    processor_ns = staticmethod(time.thread_time_ns)


class PolledSocket:
    """A socket in the poller. `interest` is what it is waited for now; a discarded one is `gone`."""

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
        """It is used no more. The loop's, at the end of a turn."""
        self.socket.close()


class _Alarm(PolledSocket):
    """The read end of the socket pair by which other threads end a wait."""

    def on_ready(self, mask: int) -> None:
        self.socket.recv(_WAKE_BYTES)


class Timer:
    """What is called once, before the first turn from its time on. Set while it waits, it keeps the earlier time."""

    _numbers = count()

    def __init__(self, timers: list[tuple[int, int, Timer]], call: Callable[[int], None]) -> None:
        self._timers = timers
        self.call = call
        self.when: int | None = None
        """None: it does not wait."""

    def set(self, when: int) -> None:
        """Call by then (ms, monotonic)."""
        if self.when is None or when < self.when:
            self.when = when
            heappush(self._timers, (when, next(self._numbers), self))


class _Others(trio.abc.Instrument):
    """Tasks other than this one. A pass of trio runs all that may run, this one among them, in random order."""

    def __init__(self, own: trio.lowlevel.Task) -> None:
        self._own = own
        self.passes_left = 0
        """So often this task has to wait until all of them that may run have run."""

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is not self._own:
            self.passes_left = 2


class Turn(Protocol):
    """What the loop drives."""

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        ...

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens (ms, monotonic). Asked only before a wait."""
        ...


class Loop:
    """One per server; every method but `wake` belongs to its task."""

    def __init__(self) -> None:
        self._poller = make_poller()
        self._poll = self._poller.poll
        self._watched: dict[PolledSocket, None] = {}
        """All sockets, also those that wait for nothing now."""
        self._by_descriptor: dict[int, PolledSocket] = {}
        """Those that wait for something."""
        self._timers: list[tuple[int, int, Timer]] = []
        """A heap, by time; what a timer was set to before it was set anew stays in it until then."""
        self._discarded: list[PolledSocket] = []
        self._stopping = False
        self._asleep = False
        self._woken = False
        reader, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._alarm = _Alarm(reader)
        self.watch(self._alarm, READ)

    def watch(self, watched: PolledSocket, interest: int) -> None:
        """Wait for `interest` (READ | WRITE) on this socket from now on; with 0 it leaves the poller."""
        assert not watched.gone
        if interest == watched.interest:
            return
        self._watched[watched] = None
        descriptor = watched.descriptor
        if not interest:
            del self._by_descriptor[descriptor]
            # One that was closed by its owner has left already.
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
        """Forget the socket without closing it: somebody else owns it now."""
        self.watch(watched, 0)
        self._watched.pop(watched, None)
        watched.gone = True

    def timer(self, call: Callable[[int], None]) -> Timer:
        """One that calls this with the time (ms, monotonic)."""
        return Timer(self._timers, call)

    def call_due(self, now: int) -> None:
        """Call the timers that are due."""
        while self._timers and self._timers[0][0] <= now:
            when, _, timer = heappop(self._timers)
            if timer.when == when:
                timer.when = None
                timer.call(now)

    def wake(self) -> None:
        """Make the loop take a turn soon. From any thread, after what the turn shall see is in its place."""
        self._woken = True
        # `_asleep` is set before `_woken` is looked at for the last time, so one of the two sides sees the other.
        if self._asleep:
            self._asleep = False
            # A full buffer holds wake-ups that were not read yet: one more says nothing new.
            with contextlib.suppress(BlockingIOError):
                self._waker.send(b"\0")

    def stop(self) -> None:
        """End `run` after the turn that is under way."""
        self._stopping = True
        self.wake()

    async def run(self, turn: Turn) -> None:
        """Take turns until `stop`; `close` is the caller's."""
        others = _Others(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(others)
        try:
            while not self._stopping:
                # A scope whose deadline has passed stays cancelled: only then is there a new one.
                with trio.CancelScope() as scope:
                    while not self._stopping:
                        await self._take(turn, scope, others)
        finally:
            trio.lowlevel.remove_instrument(others)

    async def _take(self, turn: Turn, scope: trio.CancelScope, others: _Others) -> None:
        """Turns, one after the other while each finds something to do at once, then one wait."""
        by_descriptor = self._by_descriptor
        ready = self._poll(0, len(by_descriptor))
        until_ns = time.monotonic_ns() + _LINGER_TOTAL_NS
        while True:
            had_work = bool(ready) or self._woken
            self._woken = False
            for descriptor, mask in ready:
                # One that was ready may have made another one leave.
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
            # What one turn sends is mostly answered within a moment, and a wait through trio costs about as much as a
            # small turn: so the process sleeps in the poller itself. A deadline may be missed by that moment: to find
            # the next one in each turn costs more than that is worth.
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
