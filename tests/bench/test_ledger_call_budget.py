"""How many Python calls an append to a ledger may cost: exact counts, which no load of the machine touches.

Three bookies, 3/3/2. Appends of a turn come together, and so do answers.
"""

from collections import Counter

import pytest

from tests.bench.call_counts import check, counted
from tests.ledger.writer.rig import B0, B1, B2, Rig
from zab.ledger.writer.events import Append

SINGLE = 115
"""Calls for one append that comes alone, with its three answers in two turns; the turns themselves are most of it."""
MANY = 1_500
"""Calls for a hundred appends that come together: fourteen each."""


@pytest.mark.parametrize(("appends", "budget"), [(1, SINGLE), (100, MANY)])
def test_appends(appends: int, budget: int) -> None:
    rig = Rig()
    rig.append("before")
    rig.answer_all(B0, B1, B2)
    run = [Append(b"x" * 100, token) for token in range(appends)]
    counts: Counter[str] = Counter()
    with counted(counts):
        sent = rig.writer.step(rig.now, run)
    rig._take(sent)
    first = [rig.take_add(bookie, entry) for bookie in (B0, B1) for entry in rig.adds(bookie)]
    last = [rig.take_add(B2, entry) for entry in rig.adds(B2)]
    with counted(counts):
        completed = rig.writer.step(rig.now, first)
        rig.writer.step(rig.now, last)
    assert len(completed) == appends
    check(counts, budget)
