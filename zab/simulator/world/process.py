"""One process while it lives, on a simulated machine: its turns, its pauses and its end.

A turn takes all that has come since the one before, and some time, in which more gathers: so load makes batches as it
does in production. What a turn is, the service says: the same object that its loop drives in production.

The process may end at any call that its turn makes of a port, at any operation of its disk, or between turns: killed,
or with the power of its machine. It may be paused, as by SIGSTOP or a hypervisor: nothing of it moves, not its disk
either, while the world goes on; what arrives waits.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol

from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.machine import Machine

FOREVER_US: Final = 1 << 62
"""Until then a process stands still that nobody has told for how long."""


class KilledError(Exception):
    """The process ends here, in the middle of its turn."""


class Turn(Protocol):
    """What a loop drives (`zab.host.loop.loop`)."""

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
    """See the module. A service sets `turn` before `start`."""

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
        """The process ends after so many calls of ports."""
        self._is_in_turn = False
        self._turn_at: int | None = None
        self._ready_at = 0
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What is to happen when it goes on."""

    def start(self) -> None:
        self.wake(self.schedule.now)

    def say(self, text: str) -> None:
        self.trace.say(self.name, text)

    def show(self, text: str) -> None:
        """A line for a reader alone."""
        if self.trace.sink is not None:
            self.trace.line(self.name, text)

    # ------------------------------------------------------------------------------------------------------------ time

    def later(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` then, unless the process is dead; once it goes on, if it is paused."""
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
        """Nothing of it moves until `go_on`."""
        self.paused_until = FOREVER_US

    def go_on(self) -> None:
        """The end of that. A pause that ends by itself does so: what comes after it is in its order already."""
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
        """Each port says so when its turn calls it: the process may end there."""
        if self.calls_left is not None and self._is_in_turn:
            if not self.calls_left:
                raise KilledError
            self.calls_left -= 1

    def turn_ended(self) -> None:
        """A turn is over, and the process lives."""

    # ---------------------------------------------------------------------------------------------------------- the end

    def ends_by(self, *kinds: type[BaseException]) -> _EndsBy:
        """For a piece of disk work: these exceptions end the process, and are not raised."""
        return _EndsBy(self, kinds)

    def die(self, *, with_power: bool) -> None:
        """The process is gone. Called by its machine, which goes on with what is on the disk."""
        assert not self.dead
        self.dead = True
