"""Damage in simulated ensembles that the injected faults never do, since nobody could go on; and how it is repaired.

Three members have lived for a while with clients, and nothing else goes wrong. Then bits flip in the logs of some.
"""

from __future__ import annotations

from random import Random
from typing import Final

import attrs
import pytest

from datatree.log.frame import Frame, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, log_files, log_path
from datatree.recovery.recovered import Recovered
from tests.simulator.ensemble.start_profile import TICK_MS, profile
from zab.member.membership import restore
from zab.protocol.states import BATCHES, NOTHING, Holds
from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.tasks import SCRUB_TICKS, Tasks
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError

LIFE_TICKS: Final = 30
SEEDS: Final = (0, *(pytest.param(seed, marks=pytest.mark.longest) for seed in (1, 2)))


class LivedEnsemble:
    """An ensemble of three that has lived."""

    def __init__(self, seed: int) -> None:
        self.schedule = Schedule()
        self.observer = Observer(Recorder())
        drawn = attrs.evolve(profile(seed, Random(f"repair/{seed}")), voters=3, snap_count=1 << 30)
        self.ensemble = Ensemble(drawn, self.schedule, Trace(self.schedule, None, described), self.observer)
        self.machines = list(self.ensemble.machines.values())
        self.start()
        for number in range(1, 4):
            Client(self.ensemble, -number, Random(f"repair/{seed}/{number}")).start()
        self.run(LIFE_TICKS)
        assert self.serving_count == 3
        assert self.applied > 20

    def run(self, ticks: int) -> None:
        self.schedule.run_until(self.schedule.now + ticks * TICK_MS * MS)

    def start(self) -> None:
        for machine in self.machines:
            machine.stays_down = False
            machine.start_after(0)

    def stop(self) -> None:
        for machine in self.machines:
            machine.stays_down = True
            machine.stop(with_power=False)

    @property
    def serving_count(self) -> int:
        return sum(process.member.serving for process in self.ensemble.processes)

    @property
    def zxid(self) -> int:
        """The highest that any member has applied."""
        return max((process.member.applied for process in self.ensemble.processes), default=0)

    @property
    def applied(self) -> int:
        """Its counter."""
        return self.zxid & 0xFFFFFFFF


def batch_ends(machine: MemberMachine) -> list[tuple[int, int]]:
    """For each batch the file, and the offset after it."""
    found = []
    for first in log_files(machine.disk):
        for part in scan(machine.disk.read(log_path(first)), first, SEGMENT_HEADER_BYTES).parts:
            assert isinstance(part, Frame)
            found += [(first, end) for end in part.ends]
    return found


def damage(machine: MemberMachine, number: int = 0) -> tuple[str, int]:
    """Flip a bit of that batch in its log."""
    first, end = batch_ends(machine)[number]
    path, bit = log_path(first), 8 * (end - 1)
    machine.disk.flip(path, bit)
    machine.damaged.add(path)
    return path, bit


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_damaged_is_filled_by_a_leader_with_a_quorum_without_it(seed: int) -> None:
    lived = LivedEnsemble(seed)
    lived.stop()
    [machine, *_] = lived.machines
    damage(machine)
    lived.start()
    lived.run(LIFE_TICKS)
    assert lived.serving_count == 3
    assert not machine.damaged
    assert machine.disk.list("version-1.damaged")
    assert lived.observer.counts["holes filled"] == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("places", [(0, 0, None), (0, 5, None), (0, 5, 10)])
def test_where_there_is_no_quorum_without_them_they_fill_their_holes(seed: int, places: tuple[int | None, ...]) -> None:
    """From the one that is whole, or each from what the others have."""
    lived = LivedEnsemble(seed)
    before = lived.zxid
    lived.stop()
    damaged = []
    for machine, place in zip(lived.machines, places, strict=True):
        if place is not None:
            damage(machine, place)
            damaged.append(machine)
    lived.start()
    lived.run(LIFE_TICKS)
    assert lived.serving_count == 3
    assert lived.zxid > before
    assert lived.observer.counts["holes filled"] > 0
    assert not any(machine.damaged for machine in damaged)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_all_are_damaged_in_one_place_nobody_founds_anything(seed: int) -> None:
    lived = LivedEnsemble(seed)
    lived.stop()
    flipped = [(machine, *damage(machine)) for machine in lived.machines]
    lived.start()
    lived.run(LIFE_TICKS)
    assert lived.serving_count == 0
    for machine, path, bit in flipped:
        assert machine.disk.exists(path)
        machine.disk.flip(path, bit)
        machine.damaged.clear()
        machine.is_to_be_filled = machine.is_wiped = False
    lived.stop()
    lived.start()
    lived.run(LIFE_TICKS)
    assert lived.serving_count == 3
    assert lived.applied > 20


def test_without_the_rule_that_a_damaged_history_is_held_they_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second ensemble, which knows nothing about the first: what the test before this one notices."""

    def forgetful(recovered: Recovered) -> Holds:
        return NOTHING if recovered.damage else BATCHES

    lived = LivedEnsemble(0)
    lived.stop()
    for machine in lived.machines:
        damage(machine)
    monkeypatch.setattr(restore, "_holds", forgetful)
    lived.start()
    try:
        lived.run(LIFE_TICKS)
    except SafetyError:
        return  # the judges see it first
    assert lived.serving_count == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scrubs", [True, False])
def test_what_a_running_member_finds_costs_its_next_start_nothing(
    seed: int, scrubs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not scrubs:
        monkeypatch.setattr(Tasks, "start_scrubbing", lambda _: None)
    lived = LivedEnsemble(seed)
    damage(lived.machines[0])
    lived.run(3 * SCRUB_TICKS)
    found = lived.observer.counts["damaged files found by scrubbing"]
    assert bool(found) is scrubs
    lived.stop()
    lived.start()
    lived.run(LIFE_TICKS)
    assert lived.serving_count == 3
    assert (lived.observer.counts["damaged histories found"] == 0) is scrubs
