"""A process of the simulated world stands still and goes on: nothing moves meanwhile, and nothing is forgotten."""

from __future__ import annotations

from random import Random

import pytest

from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

SECOND = 1000 * MS


class Counting:
    """A turn that only counts."""

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> bool:
        self.count += 1
        return False

    def next_deadline(self) -> int:
        return 1 << 40


@pytest.fixture
def process() -> Process:
    schedule = Schedule()
    world = World(schedule, Network(schedule, Random(1), 100, 100), Trace(schedule), turn_us=10)
    machine = Machine(world, 1, Random(2), lambda: None, disk_us=100, drift_ppm=0, pause_us=SECOND)
    process = Process(machine)
    process.turn = Counting()
    return process


def test_what_was_to_happen_while_a_process_stands_still_happens_when_it_goes_on(process: Process) -> None:
    happened: list[str] = []
    process.later(SECOND, happened.append, "first")
    process.later(2 * SECOND, happened.append, "second")
    process.stand_still()
    process.wake(process.schedule.now)
    process.schedule.run_until(3600 * SECOND)
    assert (happened, process.turn.count) == ([], 0)
    process.go_on()
    process.schedule.run_until(3601 * SECOND)
    assert happened == ["first", "second"]
    assert process.turn.count == 1


def test_a_pause_that_ends_by_itself_is_not_ended_before(process: Process) -> None:
    happened: list[str] = []
    process.pause(3 * SECOND)
    process.later(SECOND, happened.append, "late")
    process.go_on()
    process.schedule.run_until(2 * SECOND)
    assert happened == []
    process.schedule.run_until(3 * SECOND)
    assert happened == ["late"]


def test_the_next_thing_happens_by_itself_unless_it_is_due_later() -> None:
    schedule = Schedule()
    happened: list[int] = []
    for time in (5, 5, 9):
        schedule.at(time, happened.append, time)
    assert schedule.run_next(7)
    assert (happened, schedule.now, schedule.count) == ([5], 5, 1)
    assert schedule.run_next(7)
    assert not schedule.run_next(7)
    assert (happened, schedule.now) == ([5, 5], 7)
    assert schedule.run_next(9)
    assert not schedule.run_next(20)
    assert (happened, schedule.now) == ([5, 5, 9], 20)
