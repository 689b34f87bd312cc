"""Runs with a managed ledger in the simulated world are good, and find what is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.ledgers import broken_logs as broken
from zab.cli.servers.simulate import SAFETY, attempt
from zab.simulator.ledgers.scope import Scope
from zab.simulator.ledgers.simulation import run

Patch = pytest.MonkeyPatch
LOGS = Scope(focus="logs")
SEEDS = 12
LONG = range(100, 113)
MANY = (106, 107, 109, 110, 111)

VARIANTS: dict[Callable[[Patch], None], tuple[int, str]] = {
    broken.acknowledge_without_bookies: (14, "G1"),
    broken.delete_ledgers_before_the_list: (1, "G12"),
    broken.drop_an_empty_ledger_before_the_list: (40, "G12"),
    broken.forget_the_recovered_ledger: (40, "G12"),
    broken.append_again_without_the_end: (0, "outcomes"),
    broken.leave_cursors_unclaimed: (44, "cursors"),
    broken.store_what_is_not_consumed: (12, "cursors"),
    broken.flush_without_storing: (14, "cursors"),
    broken.trim_without_cursors: (12, "trim"),
    broken.trim_what_is_young: (13, "trim"),
    broken.delete_a_log_before_its_ledgers: (12, "G12"),
    broken.sweep_the_ledgers_of_cursors: (12, "orphans"),
}
"""Each with a seed that finds it, and the rule that it breaks."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 12, *(pytest.param(seed, marks=pytest.mark.longest) for seed in LONG)])
def test_a_seed_is_good(seed: int) -> None:
    counts = run(seed, scope=LOGS).counts
    for what in ("LogOpened", "entries acknowledged", "entries read at cursors", "ledgers read whole"):
        assert counts[what] > 0, what


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.longest
def test_many_seeds_reach_what_they_are_for() -> None:
    counts = sum((run(seed, scope=LOGS).counts for seed in MANY), Counter[str]())
    outcomes = ("LogAppended", "LogNotAppended", "LogAppendUnknown", "CursorOpened", "Trimmed", "Terminated", "Failed")
    for what in (*(f"logs: {each}" for each in outcomes), "LedgerRolled", "expired sessions", "entries of logs read"):
        assert counts[what] > 0, what


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_broken_owner(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    known, rule = VARIANTS[variant]
    variant(monkeypatch)
    check_known(lambda seed: _finds(seed, rule), known, SEEDS)


def _finds(seed: int, rule: str) -> bool:
    failure = attempt(seed, scope=LOGS).failure
    return failure is not None and failure.code == SAFETY and failure.text.startswith(f"{rule}: ")
