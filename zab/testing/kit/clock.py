"""A clock for trio that shows the time of a simulated world.

While some task can run, no time passes. Otherwise the world advances, action by action, until an action concerns a task
(`ring`), or until the next deadline of a task. So hours pass in a moment, and the actions between two steps of the
tasks are the same each time.

Waiting for files, sockets or threads, which have their own time, would not be repeatable, and ends the run. So does a
run that exceeds its time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from typing import Final

import trio
import trio._core._run as scheduler

from zab.simulator.world.schedule import Schedule

_US: Final = 1_000_000
_CLOSING_US: Final = 60 * _US
"""How much simulated time a cancelled program may take, to let clients close their sessions."""
_FOREIGN_SECONDS: Final = 0.05
_OWN_WAITS: Final = 1
"""trio itself waits for one descriptor, by which other threads wake it."""


class WorldClock(trio.abc.Clock):
    """`give_up` is called, once, with the reason why the run has to end; it cancels what runs."""

    def __init__(self, schedule: Schedule, limit_seconds: float, give_up: Callable[[str], None]) -> None:
        self._schedule = schedule
        self._limit_seconds = limit_seconds
        self._limit_us = schedule.now + int(limit_seconds * _US)
        self._give_up = give_up
        self._is_given_up = False
        self._is_over = False
        self._has_rung = False

    def ring(self) -> None:
        """Note that the current action concerns a task."""
        self._has_rung = True

    def stop(self) -> None:
        """Stop the time: trio ends what is left."""
        self._is_over = True

    def start_clock(self) -> None:
        """Do nothing: the clock needs no start."""

    def current_time(self) -> float:
        return self._schedule.now / _US

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by trio when no task can run: this is where time passes."""
        if deadline <= self.current_time():
            return 0
        if self._is_over or scheduler.GLOBAL_RUN_CONTEXT.runner.waiting_for_idle:
            return inf  # `trio.testing.wait_all_tasks_blocked`: they are, and no time has to pass for that
        reason = _foreign_wait()
        if self._is_given_up:
            if reason is not None:
                return _FOREIGN_SECONDS  # it ends in its own time
            reason = self._advance(deadline, self._limit_us + _CLOSING_US)
            if reason is not None:
                raise RuntimeError(f"{reason}, though it was cancelled {_CLOSING_US // _US} s before")
            return 0
        if reason is None:
            reason = self._advance(deadline, self._limit_us)
        if reason is not None:
            self._is_given_up = True
            self._limit_us = self._schedule.now
            self._give_up(reason)
        return 0

    def _advance(self, deadline: float, limit_us: int) -> str | None:
        """Advance the world. Returns why the run has to end, or None."""
        schedule = self._schedule
        end = limit_us if deadline == inf else min(limit_us, max(schedule.now + 1, ceil(deadline * _US)))
        self._has_rung = False
        while not self._has_rung:
            if not schedule.run_next(end):
                break
        if schedule.now >= limit_us:
            return f"it is not over after {self._limit_seconds:g} s of its own time"
        return None


def _foreign_wait() -> str | None:
    """A wait whose end a simulation cannot know."""
    waits = trio.lowlevel.current_statistics().io_statistics
    counts = (getattr(waits, name, 0) for name in ("tasks_waiting", "tasks_waiting_read", "tasks_waiting_write"))
    if sum(counts) > _OWN_WAITS:
        return "some task waits for a file or a socket of this machine"
    if trio.to_thread.current_default_thread_limiter().borrowed_tokens:
        return "some task waits for a thread"
    return None
