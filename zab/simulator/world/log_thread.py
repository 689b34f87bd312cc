"""The log thread of a simulated process (`zab.host.storage.log_thread`): storage effects, in order, some time after
`put`.

All waiting effects are one cycle. After 50 ms without work, `idle` of the storage is called. An `OSError` is final, as
in production: it ends the process. `PowerLossError` ends the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

IDLE_MS: Final = 50

Effect = TypeVar("Effect", contravariant=True)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Performer(Protocol[Effect, Answer_co]):
    """The storage of a service, which the thread drives."""

    def perform(self, effects: Sequence[Effect]) -> Sequence[Answer_co]: ...

    def is_awaited(self, answer: Any) -> bool: ...

    def idle(self) -> None: ...


class LogThread(Generic[Effect, Answer]):
    """The log thread of one process."""

    def __init__(
        self,
        process: Process,
        storage: Performer[Effect, Answer],
        post: Callable[[Answer], None],
        leave: Callable[[Answer], None],
    ) -> None:
        """`post` starts a turn with an answer; `leave` keeps an answer for the next turn."""
        self._process = process
        self._storage = storage
        self._post = post
        self._leave = leave
        self._to_store: list[Effect] = []
        self._begun: list[Effect] = []
        """The effects of the cycle that has begun."""
        self._is_storing = False
        self._idle_due = False

    def put(self, effect: Effect) -> None:
        """Queue one effect."""
        self._process.called()
        self._to_store.append(effect)
        if not self._is_storing:
            self._is_storing = True
            self._process.later(0, self._begin)

    def _begin(self) -> None:
        """Begin a cycle with all waiting effects; later ones wait for the next cycle."""
        self._begun, self._to_store = self._to_store, []
        self._process.later(self._process.machine.disk_delay_us(), self._perform)

    def drain(self) -> Sequence[Answer]:
        """Store everything that waits, at once: its process ends. Raises OSError, PowerLossError."""
        effects, self._begun, self._to_store = [*self._begun, *self._to_store], [], []
        return self._storage.perform(effects)

    def _perform(self) -> None:
        process, effects = self._process, self._begun
        self._begun = []
        if process.trace.sink is not None:
            process.show(f"stores {process.trace.describe(effects)}")
        with process.ends_by(PowerLossError, OSError):
            answers = self._storage.perform(effects)
            process.trace.mark(process.sid, process.machine.disk.operations)
            for answer in answers:
                (self._post if self._storage.is_awaited(answer) else self._leave)(answer)
        if process.dead:
            return
        if self._to_store:
            self._begin()
        else:
            self._is_storing = False
            self.nudge()

    @property
    def is_parked(self) -> bool:
        """Whether `nudge` has an effect."""
        return not self._idle_due

    def nudge(self) -> None:
        """Note that something changed that is written when the log is idle."""
        if not self._idle_due:
            self._idle_due = True
            self._process.later(IDLE_MS * MS, self._idle)

    def _idle(self) -> None:
        self._idle_due = False
        if not self._is_storing and not self._process.machine.hangs:
            with self._process.ends_by(PowerLossError, OSError):
                self._storage.idle()
