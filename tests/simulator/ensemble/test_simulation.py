"""Whole runs: the same seed is the same run, hundreds of seeds are good, and they reach what they are for."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from datatree.compiled import using
from zab.cli.servers.simulate import attempt, run_block
from zab.member.turn_end import TurnEnd
from zab.native import load
from zab.simulator.ensemble.members.profile import FAULTS, SELDOM
from zab.simulator.ensemble.scope import Scope
from zab.simulator.ensemble.simulation import run
from zab.simulator.world.verdict import SafetyError

SEEDS = 300
FEW_SEEDS = 15
MERCILESS_SEEDS = 4

REACHED = (
    "leaders established",
    "epochs renewed",
    "amnesiacs that count again",
    "ensembles begun by markers",
    "sent Diff",
    "sent Trunc",
    "sent Snap",
    "logs cut",
    "snapshots written",
    "snapshots installed",
    "files purged",
    "recovered from a snapshot",
    "killed",
    "power lost",
    "writes acknowledged",
    "writes refused",
    "reads answered",
    "watch events",
    "sessions moved",
    "sessions closed",
    "sessions timed out",
    "sessions expired",
    *(f"fault: {kind}" for kind in FAULTS),
    "fault: thin_link",
    *(f"client fault: {kind}" for kind in ("leave", "move", "silent", "stall", "close")),
    "accidents in discovery",
)
"""A run in which nothing happens proves nothing: each of these has to happen, again and again."""
REACHED_SELDOM = (*(f"fault: {kind}" for kind in SELDOM), "damaged histories found")
"""These, too, in a few runs."""


def test_the_same_seed_is_the_same_run() -> None:
    for seed in (3, 11):
        first: list[str] = []
        second: list[str] = []
        hashes = {run(seed, first.append).hash, run(seed, second.append).hash, run(seed).hash}
        assert first == second
        assert len(hashes) == 1, "the reader of a trace must not change the run"


def test_other_seeds_are_other_runs() -> None:
    assert len({run(seed).hash for seed in range(5)}) == 5


@pytest.mark.parametrize("focus", ["", "reshaping", "recurring"])
def test_a_run_is_the_same_on_both_ways_of_messages(focus: str) -> None:
    """Seed 12 has a write that comes while acknowledgements change nothing: their turn must not end without it. What is
    compiled, if it is, does the same, too."""
    with using(load("tree"), load("writes")):
        run(12, scope=Scope(focus=focus, both_ways=True))


class LeavesAll:
    """As if nothing were plain: it counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def leave(*arguments: Any) -> Any:
            self.count += 1
            offset = {"apply_parts": 4, "prepare_parts": 5}.get(name)
            return ([], arguments[1]) if name == "decode" else None if offset is None else arguments[offset]

        return leave


@pytest.mark.parametrize(("seed", "is_asked"), [(20, True), (22, False)])
def test_half_of_the_seeds_use_what_is_compiled(seed: int, is_asked: bool) -> None:
    tree, writes = LeavesAll(), LeavesAll()
    with using(tree, writes):
        left = run(seed).hash
    assert (tree.count > 0) == (writes.count > 0) == is_asked
    assert left == run(seed).hash


def test_ways_that_lead_to_different_runs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TurnEnd, "is_due", False)
    with pytest.raises(SafetyError, match="both ways of a message lead to the same run"):
        run(12, scope=Scope(focus="reshaping", both_ways=True))


def test_the_same_seed_is_the_same_run_in_another_process_with_another_order_of_hashes() -> None:
    code = "from zab.simulator.ensemble.simulation import run; print([run(seed).hash for seed in (3, 11, 20)])"
    salt = "1" if os.environ.get("PYTHONHASHSEED") == "77" else "77"
    environment = {**os.environ, "PYTHONHASHSEED": salt}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == str([run(seed).hash for seed in (3, 11, 20)])


def test_it_needs_no_trio_and_no_sockets() -> None:
    code = (
        "import sys; from zab.simulator.ensemble.simulation import run; "
        "run(1); print({'trio', 'socket', 'selectors'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "set()"


def test_a_few_seeds_are_good() -> None:
    assert [attempt(seed).failure for seed in range(FEW_SEEDS)] == [None] * FEW_SEEDS


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.longest
def test_a_few_hundred_seeds_are_good_and_reach_what_they_are_for() -> None:
    reached: Counter[str] = Counter()
    failures = run_block(range(SEEDS), 2, keep_going=False, reached=reached)
    assert not failures, f"zab simulate --seed {failures[0].seed}: {failures[0].text}"
    seldom = {what: reached[what] for what in REACHED if reached[what] < 20}
    seldom |= {what: reached[what] for what in REACHED_SELDOM if reached[what] < 3}
    assert not seldom


def test_without_mercy_a_few_seeds_are_good_and_nothing_comes_back() -> None:
    runs = [attempt(seed, scope=Scope(mercy=False)) for seed in range(MERCILESS_SEEDS)]
    assert [result.failure for result in runs] == [None] * MERCILESS_SEEDS
    lasting = [result.report.profile.is_merciless for result in runs if result.report is not None]
    assert lasting == [True] * MERCILESS_SEEDS
