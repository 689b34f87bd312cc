"""A running process on a simulated machine: its turns, its pauses and its end.

A turn takes all input since the last one, and some time, in which more gathers: so load makes batches, as in
production. The turn is an object of the service, the same that its loop drives in production.

The process may end at any call of a port in its turn, at any operation of its disk, or between turns: killed, or by a
power loss of its machine. It may be paused, as by SIGSTOP or a hypervisor: it stands still, including its disk, while
the world goes on and arriving input waits.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol

from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.machine import Machine

FOREVER_US: Final = 1 << 62
"""The end of a pause without a limit."""


class KilledError(Exception):
    """Ends the process in the middle of its turn."""


class Turn(Protocol):
    """The turn that a loop drives (`zab.host.loop.loop`)."""

    def take(self) -> bool: ...

    def next_deadline(self) -> int: ...


class _EndsBy:
    """Turns an exception of the disk into the end of the process."""

    def __init__(self, process: Process, kinds: tuple[type[BaseException], ...]) -> None:
        self._process = process
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, self._kinds):
            return False
        if not self._process.dead:
            self._process.say(f"{type(error).__name__}: {error}")
            self._process.machine.stop(with_power=isinstance(error, PowerLossError))
        return True


class Process:
    """A running process. A service sets `turn` before `start`."""

    turn: Turn

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.world = machine.world
        self.schedule = machine.world.schedule
        self.network = machine.world.network
        self.trace = machine.world.trace
        self.sid = machine.number
        self.name = str(machine.number)
        self.dead = False
        self.paused_until = 0
        self.calls_left: int | None = None
        """After how many calls of ports the process ends."""
        self._is_in_turn = False
        self._turn_at: int | None = None
        self._ready_at = 0
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """Actions that wait for the end of a pause."""

    def start(self) -> None:
        self.wake(self.schedule.now)

    def say(self, text: str) -> None:
        self.trace.say(self.name, text)

    def show(self, text: str) -> None:
        """Write a line only for readers of the trace."""
        if self.trace.sink is not None:
            self.trace.line(self.name, text)

    # ------------------------------------------------------------------------------------------------------------ time

    def later(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` after a delay, unless the process is dead; after its pause, if it is paused."""
        self.schedule.after(delay, self._now, action, arguments)

    def _now(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.dead:
            return
        if self.paused_until == FOREVER_US:
            self._held.append((action, arguments))
        elif self.paused_until > self.schedule.now:
            self.schedule.at(self.paused_until, self._now, action, arguments)
        else:
            action(*arguments)

    def wake(self, time: int) -> None:
        """Take a turn at this time."""
        if time < self._ready_at:
            time = self._ready_at
        if time < self.paused_until:
            time = self.paused_until
        if self._turn_at is None or time < self._turn_at:
            self._turn_at = time
            self.schedule.at(time, self._take_turn, time)

    def pause(self, duration: int) -> None:
        self.paused_until = max(self.paused_until, self.schedule.now + duration)

    def stand_still(self) -> None:
        """Pause the process until `go_on`."""
        self.paused_until = FOREVER_US

    def go_on(self) -> None:
        """End a pause without a limit. A limited pause ends by itself."""
        if self.paused_until != FOREVER_US:
            return
        self.paused_until = 0
        held, self._held = self._held, []
        for action, arguments in held:
            self.later(0, action, *arguments)
        self._turn_at = None
        self.wake(self.schedule.now)

    # ---------------------------------------------------------------------------------------------------------- a turn

    def _take_turn(self, time: int) -> None:
        if self.dead or self._turn_at != time:
            return
        self._turn_at = None
        if self.paused_until > self.schedule.now:
            self.wake(self.paused_until)
            return
        self._is_in_turn = True
        try:
            self.turn.take()
        except KilledError:
            self.say("is killed in the middle of a turn")
            self.machine.stop(with_power=False)
            return
        self._is_in_turn = False
        self.turn_ended()
        self._ready_at = self.schedule.now + self.world.turn_us
        self.wake(self.machine.time_of(self.turn.next_deadline()))

    def called(self) -> None:
        """Called by each port when the turn calls it: the process may end there."""
        if self.calls_left is not None and self._is_in_turn:
            if not self.calls_left:
                raise KilledError
            self.calls_left -= 1

    def turn_ended(self) -> None:
        """Called after a turn in which the process did not end."""

    # ---------------------------------------------------------------------------------------------------------- the end

    def ends_by(self, *kinds: type[BaseException]) -> _EndsBy:
        """A context for disk work in which these exceptions end the process instead of being raised."""
        return _EndsBy(self, kinds)

    def die(self, *, with_power: bool) -> None:
        """End the process. Called by its machine, which keeps the disk."""
        assert not self.dead
        self.dead = True
