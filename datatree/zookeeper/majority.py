"""How much of ZooKeeper's logs is committed. One log does not say; the logs of several members together do.

A transaction counts as committed if it is in the logs of a majority of the given members: for each epoch, up to the
zxid that a majority has reached in it, by a transaction in its log or by a snapshot. What one member's log has right
before a committed transaction is committed as well, since histories are prefixes of each other: so is the end of an
epoch that only one member has kept, if its log continues with the next epoch. An epoch without such evidence is not
committed.

A majority of the given members is one of the ensemble only if all its voters were given. Members are counted, not
directories (`datatree.history.member_count`).

Deliberately not here: whether the members' histories agree, and reading them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

__all__ = ["Reached", "visible_epochs"]

_COUNTER: Final = 0xFFFF_FFFF


class Reached(Protocol):
    """What a member has. `epochs`: the last zxid of each epoch; `turns`: (last zxid of an epoch, first of the next
    one), adjacent in its log."""

    @property
    def epochs(self) -> Mapping[int, int]: ...

    @property
    def turns(self) -> Sequence[tuple[int, int]]: ...


def visible_epochs(members: Iterable[Reached], count: int | None = None) -> dict[int, int]:
    """The last committed zxid of each epoch: a majority of these members has it, or one member's log has it right
    before a committed transaction, and no other member contradicts. `count`: the number of members, if some gave
    nothing."""
    listed = list(members)
    majority = (len(listed) if count is None else count) // 2 + 1
    result: dict[int, int] = {}
    for epoch in sorted({epoch for found in listed for epoch in found.epochs}):
        reached = sorted((found.epochs.get(epoch, 0) for found in listed), reverse=True)
        if len(reached) >= majority and reached[majority - 1]:
            result[epoch] = reached[majority - 1]
    lasts: dict[int, set[int]] = {}
    for last, first in (turn for found in listed for turn in found.turns if turn[1] & _COUNTER == 1):
        lasts.setdefault(first, set()).add(last)
    for first in sorted(lasts, reverse=True):
        # If members disagree about what came before, one of them started from a snapshot, and either may be that one.
        last = min(lasts[first])
        if len(lasts[first]) == 1 and result.get(first >> 32, 0) >= first:
            result[last >> 32] = max(result.get(last >> 32, 0), last)
    return result
