"""Runs of which only some is wanted: so many members, only these faults, a part of what happened."""

from collections.abc import Callable
from random import Random

import pytest

from zab.simulator.ensemble.faults.faults import CAUSES
from zab.simulator.ensemble.members.profile import CLIENT_FAULTS, FAULT_NAMES, Profile, draw
from zab.simulator.ensemble.scope import MEMBERS_MAX, Scope
from zab.simulator.ensemble.simulation import Report, Simulation, faults_of, run
from zab.simulator.world.scope import Kept, ScopeError


def profile_of(seed: int) -> Profile:
    return draw(seed, Random(f"{seed}/profile"))


def first_seed(holds: Callable[[Profile], object]) -> int:
    return next(seed for seed in range(1000) if holds(profile_of(seed)))


def faults_in(report: Report) -> set[str]:
    return {what.partition(": ")[2] for what in report.counts if "fault: " in what}


def test_every_fault_has_a_name_that_can_be_asked_for() -> None:
    assert {*CAUSES, *CLIENT_FAULTS} == FAULT_NAMES


@pytest.mark.parametrize("members", [2, 4, 1, -3, MEMBERS_MAX + 2])
def test_members_are_an_odd_number_of_voters(members: int) -> None:
    with pytest.raises(ScopeError, match="an odd number from 3"):
        Scope(members)


def test_more_members_than_the_seed_says_are_a_majority_without_groups() -> None:
    seed = first_seed(lambda profile: profile.weightless and profile.markers)
    profile = Scope(7).of(profile_of(seed))
    assert (profile.voters, profile.groups, profile.weightless) == (7, (), frozenset())
    assert max(Scope(3).of(profile_of(seed)).markers, default=0) <= 3


def test_as_many_members_as_the_seed_says_are_the_run_of_the_seed() -> None:
    seed = first_seed(lambda profile: profile.groups)
    assert Scope(5).of(profile_of(seed)) == profile_of(seed)


def test_seven_members_serve_and_come_back() -> None:
    report = run(first_seed(lambda profile: profile.fault_ticks == 12), scope=Scope(members=7))
    assert report.profile.voters == 7
    assert report.counts["writes acknowledged"]


def test_only_what_is_named_goes_wrong() -> None:
    seed = first_seed(lambda profile: len(profile.faults) > 5 and profile.fault_gap_us <= 2 * profile.tick_us)
    assert faults_in(run(seed, scope=Scope(faults=("kill", "pause", "leave")))) <= {"kill", "pause", "leave"}
    assert "kill" in faults_in(run(seed, scope=Scope(faults=("kill",))))
    assert not faults_in(run(seed, scope=Scope(faults=())))


def test_a_fault_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ScopeError, match=r"no fault is named 'killl'; there are bit_flip, blackout, .* wrong_tree"):
        Scope(faults=("kill", "killl"))


# ---------------------------------------------------------------------------------------------------------------- parts


def whole_of(seed: int) -> tuple[Report, Kept]:
    """A run, and all of it as a part."""
    simulation = Simulation(seed)
    report = simulation.run()
    requests = {-client.number: tuple(range(1, client.wishes_count + 1)) for client in simulation.clients}
    faults = tuple(range(1, len(simulation.faults.happened) + 1))
    return report, Kept(simulation.profile.fault_ticks, faults, requests)


def test_a_run_of_which_all_is_kept_is_the_run() -> None:
    report, kept = whole_of(11)
    assert len(kept.faults) > 3
    assert run(11, scope=Scope(kept=kept)).hash == report.hash


def test_a_fault_that_is_kept_happens_when_and_as_it_did() -> None:
    _, kept = whole_of(11)
    happened = faults_of(11, Scope())
    some = kept.faults[1::2]
    part = Simulation(11, scope=Scope(kept=Kept(kept.ticks, some, kept.requests)), happened=happened)
    part.run()
    assert part.faults.happened == [happened[number - 1] for number in some]


def test_clients_and_requests_that_are_not_kept_are_not_asked() -> None:
    _, kept = whole_of(11)
    assert len(kept.requests) > 1
    part = Simulation(11, scope=Scope(kept=Kept(kept.ticks, (), {1: (1, 2)})))
    part.run()
    assert [client.name for client in part.clients] == ["c1"]
    asked = {record.value for record in part.observer.recorder.records if record.path in ("/a", "/b", "/c", "/q")}
    assert asked == {b"1.1", b"1.2"}, "the first two of its wishes"
