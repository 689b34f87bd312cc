"""A run finds each broken variant, by the rule of the judges that is written down here.

Not here: what random runs do not reach, or seldom: stories find it (`test_stories.py`), and the search through all
orders of events of a small world (`tests/ledger/recovery/test_small_world.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.ledgers import broken_ledgers as broken
from zab.cli.servers.simulate import SAFETY, attempt
from zab.simulator.ledgers.scope import Scope

Patch = pytest.MonkeyPatch
SEEDS = 15

VARIANTS: dict[Callable[[Patch], None], tuple[int, str]] = {
    broken.use_an_ensemble_before_it_is_written: (0, "G1"),
    broken.acknowledge_with_a_copy_less: (0, "G1"),
    broken.write_ensembles_of_a_recovery_early: (0, "G9"),
    broken.close_without_writing_back: (0, "G6"),
    broken.keep_explicit_lacs_in_memory: (4, "durability"),
    broken.acknowledge_what_is_not_synced: (1, "durability"),
    broken.mark_what_is_not_flushed: (44, "durability"),
    broken.forget_fences: (4, "durability"),
    broken.list_before_the_snapshot: (24, "collection"),
    broken.believe_a_stale_list: (6, "collection"),
    broken.let_go_of_any_closed_ledger: (0, "collection"),
}
"""Each with a seed that finds it, and the rule that it breaks."""


def finds(seed: int, rule: str) -> bool:
    """Whether a run of the seed breaks this rule; how else it ends does not matter."""
    failure = attempt(seed, scope=Scope()).failure
    return failure is not None and failure.code == SAFETY and failure.text.startswith(f"{rule}: ")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_broken_variant(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    known, rule = VARIANTS[variant]
    variant(monkeypatch)
    check_known(lambda seed: finds(seed, rule), known, SEEDS)
