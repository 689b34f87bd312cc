"""The seed that is known to find a broken variant. A change of the code may move that to another seed: the test fails
then, and names the one to write down, so that no later run has to search for it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

__all__ = ["check_known"]


def check_known(finds: Callable[[int], object], known: int, seeds: int) -> None:
    """Fails unless the known seed finds it. Then the seeds below `seeds` are tried."""
    if finds(known):
        return
    other = next((seed for seed in range(seeds) if finds(seed)), None)
    if other is None:
        pytest.fail(f"neither seed {known} finds it, which did, nor one below {seeds}")
    pytest.fail(f"seed {known} does not find it any longer, {other} does: write that down")
