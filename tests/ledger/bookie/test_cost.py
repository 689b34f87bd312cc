"""What an add costs, in calls of Python functions: it is the same for every entry, so each one counts."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import FrameType

from attrs import evolve

from tests.ledger.bookie.kit import SMALL, Bench, add
from zab.ledger.bookie.events import Asked, JournalDurable

GROUP = 100
CONFIG = evolve(SMALL, flush_bytes=1 << 20, cache_bytes_max=1 << 22, journal_file_bytes=1 << 22)


def calls_of(bench: Bench, *inputs: object) -> Counter[str]:
    """How often each Python function is called in one step."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    # What others want to be told of collections of garbage is no part of a step.
    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        bench.bookie.step(bench.now_ms, inputs)  # type: ignore[arg-type]
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def test_the_calls_of_a_group_of_adds_and_of_their_answers() -> None:
    """One call an add, which makes its answer; none for the answer when it is durable."""
    costs = []
    for size in (GROUP, 2 * GROUP):
        bench = Bench(CONFIG)
        bench.answer(add(1, 0))
        asked = [Asked("c", number, add(1, number)) for number in range(1, size + 1)]
        calls = calls_of(bench, *asked)
        assert calls.pop("__init__") >= size
        number, mark = bench.bookie._journal.next_number - 1, (1, 1 << 20)
        costs.append((calls.total(), calls_of(bench, JournalDurable(number, mark)).total()))
    assert costs[0] == costs[1], "something is called for each entry"
    assert max(costs[0]) < 60, "a step alone has become dear"
