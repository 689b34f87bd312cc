"""Runs with ledgers in the simulated world are good, repeatable, and shrunk when they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulator.ledgers.broken_ledgers import close_without_writing_back
from zab.simulator.ledgers.profile import FAULTS
from zab.simulator.ledgers.scope import Scope
from zab.simulator.ledgers.simulation import run, shrink
from zab.simulator.world.scope import Kept, ScopeError
from zab.simulator.world.verdict import SafetyError

FEW = range(8)
MORE = range(8, 20)
ROOT = Path(__file__).parents[3]


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.longest) for seed in MORE)])
def test_a_seed_is_good(seed: int) -> None:
    report = run(seed)
    assert report.counts["ledgers read whole"] > 0
    assert report.counts["entries acknowledged"] > 0


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.longest
def test_many_seeds_are_good_and_reach_what_they_are_for() -> None:
    counts = sum((run(seed).counts for seed in range(1000, 1120)), Counter[str]())
    assert {f"fault: {kind}" for kind in FAULTS} <= counts.keys()
    reached = ("stale reads", "expired sessions", "FragmentShort", "BookieFailed", "Added: fenced", "Added: read-only")
    outcomes = ("appends: written", "appends: not written", "recoveries: Recovered", "recoveries: RecoveryAborted")
    losses = ("lost disks", "refused starts", "ledgers blocked", "ledgers deleted", "ledgers collected")
    for what in (*reached, *outcomes, *losses, "tails: ReadDone", "LacWritten: ok", "writer ended: NOT_ENOUGH_BOOKIES"):
        assert counts[what], what


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_in_every_process() -> None:
    here = run(3).hash
    assert here != run(4).hash
    program = "from zab.simulator.ledgers.simulation import run; print(run(3).hash)"
    salt = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=120
    )
    assert done.stdout.decode().strip() == here


@pytest.mark.slow
def test_a_run_that_fails_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    close_without_writing_back(monkeypatch)
    found = shrink(6, events_max=60_000)
    assert found is not None
    assert isinstance(found.error, SafetyError)
    assert found.error.rule == "G6"
    assert found.events_count < found.whole_events_count
    with pytest.raises(SafetyError) as again:
        run(6, scope=Scope(kept=found.kept))
    assert again.value.rule == "G6"


def test_a_scope_is_a_part_of_a_run() -> None:
    report = run(5, scope=Scope(faults=("kill",)))
    assert {what for what in report.counts if what.startswith("fault: ")} <= {"fault: kill"}
    assert run(5, scope=Scope(faults=())).counts["starts"] == report.profile.bookies
    assert run(5, scope=Scope(mercy=False)).counts["ledgers read whole"] < report.counts["ledgers read whole"]
    kept = Kept(10, (), {1: (), 2: (1, 2, 3)})
    assert run(5, scope=Scope(bookies=4, kept=kept)).counts["starts"] == 4


@pytest.mark.parametrize("what", [{"bookies": 0}, {"bookies": 10}, {"faults": ("rain",)}, {"focus": "groups"}])
def test_a_scope_that_is_none_is_refused(what: dict[str, object]) -> None:
    with pytest.raises(ScopeError):
        Scope(**what)  # type: ignore[arg-type]
