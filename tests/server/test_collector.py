"""How the collector of cycles is set in a server: none of its collections makes a turn long."""

from __future__ import annotations

import gc

from zab.host.process.interpreter import GC_THRESHOLDS

LOOKED_AT_MAX = 32_500
"""A little more than the thresholds say: a collection waits for the next instruction that allows it."""


def test_whatever_clients_make_a_collection_looks_at_little_of_it() -> None:
    """Many watch the same paths, and each path has a list of them: so many containers come at once, and stay."""
    looked_at: list[int] = []
    generations: set[int] = set()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.add(info["generation"])
            looked_at.append(sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(*GC_THRESHOLDS)
        kept: list[list[None]] = [[] for _ in range(300_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(kept) == 300_000
    assert generations == {0, 1}
    assert max(looked_at) < LOOKED_AT_MAX
