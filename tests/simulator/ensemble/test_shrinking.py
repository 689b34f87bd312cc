"""Failing runs made short: the part that is left fails as the whole run did, and none of it can be left out."""

from collections.abc import Callable

import pytest

from zab.member.sessions.touches import Touches
from zab.simulator.ensemble.faults.faults import Faults
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.scope import Scope
from zab.simulator.ensemble.simulation import Simulation, run, shrink
from zab.simulator.world.scope import Kept
from zab.simulator.world.shrinking import Shrunk, sentence
from zab.simulator.world.simulation import TooLongError
from zab.simulator.world.verdict import SafetyError

SEEDS = 50


def failing(holds: Callable[[Shrunk], bool]) -> tuple[int, Shrunk]:
    """The first seed that fails so, shrunk."""
    for seed in range(SEEDS):
        shrunk = shrink(seed)
        if shrunk is not None and holds(shrunk):
            return seed, shrunk
    raise AssertionError(f"{SEEDS} seeds do not fail so")


def test_a_broken_variants_run_is_shrunk_to_few_events_and_fails_with_the_same_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Touches, "learner_touched", lambda sessions, rows, now: None)
    seed, shrunk = failing(lambda shrunk: shrunk.whole_events_count > 1500)
    assert shrunk.is_minimal
    assert 2 * shrunk.events_count < shrunk.whole_events_count
    assert len(shrunk.kept.requests) == 1, "one session is enough"
    with pytest.raises(SafetyError) as whole:
        run(seed)
    with pytest.raises(SafetyError) as again:
        run(seed, scope=Scope(kept=Kept.parse(str(shrunk.kept))))
    assert str(again.value) == str(shrunk.error)
    assert sentence(again.value) == sentence(whole.value)


def test_what_fails_in_another_way_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run fails here; those with a process that was killed fail otherwise, and need that fault to do so."""

    def compare(observer: Observer) -> None:
        raise SafetyError("killed" if observer.counts["fault: kill"] else "not killed", "in every run")

    monkeypatch.setattr(Observer, "compare_trees", compare)
    _, shrunk = failing(lambda shrunk: isinstance(shrunk.error, SafetyError) and shrunk.error.rule == "killed")
    assert [fault.kind for fault in shrunk.faults] == ["kill"]
    assert shrunk.kept.requests == {}, "no client has to do with it"


def test_what_fails_later_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run fails in its eleventh tick; those with a process that was killed by then, in the tenth. A run
    that needs another fault to last so long is none of them."""
    start = Faults.start

    def start_to_fail(faults: Faults) -> None:
        def fail(*, needs_a_kill: bool) -> None:
            if not needs_a_kill or any(fault.kind == "kill" for fault in faults.happened):
                raise SafetyError("late", "in every run")

        start(faults)
        schedule, tick_us = faults.context.cluster.schedule, faults.context.cluster.tick_us
        schedule.at(tick_us * 19 // 2, lambda: fail(needs_a_kill=True))
        schedule.at(tick_us * 21 // 2, lambda: fail(needs_a_kill=False))

    monkeypatch.setattr(Faults, "start", start_to_fail)
    _, shrunk = failing(lambda shrunk: any(fault.kind == "kill" for fault in shrunk.faults))
    assert [fault.kind for fault in shrunk.faults] == ["kill"]


def test_a_good_run_is_not_shrunk() -> None:
    assert shrink(0, Scope(faults=())) is None


def test_shrinking_ends_when_its_events_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Touches, "learner_touched", lambda sessions, rows, now: None)
    seed, shrunk = failing(lambda shrunk: shrunk.runs_count > 2)
    hasty = shrink(seed, events_max=1)
    assert hasty is not None
    assert (hasty.runs_count, hasty.is_minimal, shrunk.is_minimal) == (1, False, True)


def test_a_run_ends_where_it_may_not_go_on() -> None:
    simulation = Simulation(4, end_us=3 * Simulation(4).profile.tick_us)
    with pytest.raises(TooLongError):
        simulation.run()
    assert simulation.schedule.now == 4 * simulation.profile.tick_us
