"""Whole brokers in the simulated world: runs are good, repeatable, and shrunk when they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulator.brokers.broken_variants import truncate_to_the_high_watermark_at_the_start
from zab.simulator.brokers.profile import FAULTS
from zab.simulator.brokers.scope import Scope
from zab.simulator.brokers.simulation import run, shrink
from zab.simulator.world.scope import Kept, ScopeError
from zab.simulator.world.verdict import SafetyError

FEW = (1, 2, 3, 4)
MORE = (0, *range(5, 12))
REPLACES_DISKS = 1237
DELETES_TOPICS = 1051
"""Seeds with a fault that few have."""
ROOT = Path(__file__).parents[3]


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.longest) for seed in MORE)])
def test_a_seed_is_good(seed: int) -> None:
    report = run(seed)
    assert report.counts["partitions read whole"] > 0
    assert report.counts["records acknowledged"] > 0


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.longest
def test_many_seeds_are_good_and_reach_what_they_are_for() -> None:
    counts = sum((run(seed).counts for seed in (*range(1000, 1040), REPLACES_DISKS, DELETES_TOPICS)), Counter[str]())
    assert {f"fault: {kind}" for kind in FAULTS} <= counts.keys()
    reached = ("records lost, as the settings allow", "brokers with a failed log", "stops")
    for what in (*reached, "stops with power", "topics deleted: NONE", "expired sessions"):
        assert counts[what], what


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_in_every_process() -> None:
    here = run(3).hash
    assert here != run(4).hash
    program = "from zab.simulator.brokers.simulation import run; print(run(3).hash)"
    salt = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert done.stdout.decode().strip() == here


@pytest.mark.slow
def test_a_run_that_fails_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker begins at the high watermark that it wrote down, which lags behind what was acknowledged."""
    truncate_to_the_high_watermark_at_the_start(monkeypatch)
    found = shrink(5, Scope(brokers=1), events_max=60_000)
    assert found is not None
    assert isinstance(found.error, SafetyError)
    assert found.error.rule == "what was stored survives"
    assert len(found.faults) <= 3
    assert found.events_count < found.whole_events_count
    with pytest.raises(SafetyError, match="what was stored survives"):
        run(5, scope=Scope(brokers=1, kept=found.kept))


def test_a_scope_is_a_part_of_a_run() -> None:
    report = run(5, scope=Scope(faults=("kill",)))
    assert {what for what in report.counts if what.startswith("fault: ")} <= {"fault: kill"}
    assert run(5, scope=Scope(faults=())).counts["starts"] == report.profile.brokers
    assert run(5, scope=Scope(mercy=False)).counts["partitions read whole"] == 0
    kept = Kept(10, (), {1: (), 2: (1, 2, 3)})
    assert run(5, scope=Scope(brokers=1, kept=kept)).counts["starts"] == 1


@pytest.mark.parametrize("what", [{"brokers": 0}, {"brokers": 6}, {"faults": ("rain",)}])
def test_a_scope_that_is_none_is_refused(what: dict[str, object]) -> None:
    with pytest.raises(ScopeError):
        Scope(**what)  # type: ignore[arg-type]
