"""Which known name was probably meant by an unknown one.

    nearest("tickTme", known) -> "tickTime"     None where none is near; capitals do not matter

Not here: which names there are, and what is said about one that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LIKENESS_MIN: Final = 0.75
"""The least similarity of two names, from 0 to 1. With a lower one, `port` would match a dozen names that end with
it."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one that is most like `name`; the first of equals, in the order of the alphabet."""
    by_lower = {each.lower(): each for each in sorted(known, reverse=True)}
    found = get_close_matches(name.lower(), sorted(by_lower), n=1, cutoff=LIKENESS_MIN)
    return by_lower[found[0]] if found else None
