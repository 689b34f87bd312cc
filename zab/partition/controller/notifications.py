"""Sequential znodes by which one broker tells the others that something has changed: their numbers, and their end.

Who has dealt with those up to a number reads only later ones. The controller deletes them after `EXPIRATION_MS`, which
is longer than any broker can be cut off without a new session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zab.coordination.operations import Delete, Get
from zab.coordination.steps import Steps, read
from zab.partition.controller.fencing import write_until_known
from zab.partition.controller.state import ControllerState

EXPIRATION_MS: Final = 15 * 60 * 1000


def numbers_of(prefix: str, children: Iterable[str]) -> dict[int, str]:
    """The names that begin so, by their numbers."""
    digits = ((each.removeprefix(prefix), each) for each in children if each.startswith(prefix))
    return {int(number): each for number, each in digits if number.isascii() and number.isdecimal()}


def purge(state: ControllerState, directory: str, children: Sequence[str]) -> Steps[None]:
    """Delete those that are too old. They are in order, so this ends at the first that is not."""
    found = yield from read(Get(f"{directory}/{each}") for each in children)
    for child, result in zip(children, found, strict=True):
        if not result.is_missing:
            if state.wall_ms - result.must(child).stat.ctime_ms < EXPIRATION_MS:
                return
            yield from write_until_known(state, Delete(f"{directory}/{child}"))
