"""Each promise of a broker, broken on purpose: some seed must notice. A check that cannot fail is none.

A variant is one rule of the code, switched off. It is run on seeds until a run fails: the judge or the observer says
so, or the code stops at one of its own assertions. The seed that is written down for it is tried first; should a
change of the code have moved the failure to another seed, the search goes on, and the number is to be corrected.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.brokers import broken_variants as broken
from tests.simulator.brokers import broken_workloads as workloads
from zab.cli.servers.simulate import CRASH, SAFETY, attempt
from zab.simulator.brokers.scope import Scope
from zab.simulator.brokers.workload import COMPACTION, GROUPS, TRANSACTIONS

Patch = pytest.MonkeyPatch
SEEDS = 200

VARIANTS: dict[Callable[[Patch], None], int] = {
    broken.acknowledge_what_is_not_stored: 1,
    broken.serve_above_the_high_watermark: 47,
    broken.truncate_to_the_high_watermark_at_the_start: 0,
    broken.take_repeats_for_new_batches: 16,
    broken.sync_nothing: 1,
    broken.go_on_after_a_failed_write: 3,
    broken.take_the_files_of_another_topic: 2,
}
"""Each with a seed that finds it."""

OF_WORKLOADS: dict[Callable[[Patch], None], tuple[str, int]] = {
    workloads.forget_what_was_committed_before: (GROUPS, 0),
    workloads.serve_open_transactions: (TRANSACTIONS, 0),
    workloads.list_no_aborted_transactions: (TRANSACTIONS, 0),
    workloads.drop_tombstones_at_once: (COMPACTION, 0),
    workloads.drop_the_last_value: (COMPACTION, 0),
}
"""Each with the focus and a seed that find it."""

MISFITS = ("TypeError", "AttributeError", "NameError")
"""How a variant crashes that calls what has changed since: that would be found whatever the rule is."""


def finds(seed: int, focus: str = "") -> str | None:
    """What a seed finds, if it finds anything; no progress is too cheap a find here."""
    failure = attempt(seed, scope=Scope(brokers=1, focus=focus)).failure
    if failure is None or failure.code not in (SAFETY, CRASH):
        return None
    if failure.text.startswith(MISFITS):
        pytest.fail(f"the variant does not fit the code any longer: {failure.text}")
    return failure.text


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_broken_variant(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    variant(monkeypatch)
    if not any(finds(seed) for seed in (VARIANTS[variant], *range(SEEDS))):
        pytest.fail(f"{SEEDS} seeds did not notice")


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("variant", OF_WORKLOADS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_broken_workload(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    focus, known = OF_WORKLOADS[variant]
    variant(monkeypatch)
    if not any(finds(seed, focus) for seed in (known, *range(SEEDS))):
        pytest.fail(f"{SEEDS} seeds did not notice")
