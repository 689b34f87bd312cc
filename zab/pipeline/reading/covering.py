"""Each transaction of an ensemble once, from several members' logs.

One member's log is read; what is missing or damaged in it comes from the next one's, for exactly those zxids, and what
is missing there from the one after. So a damaged block costs no other rows.

    is something missing between the zxids a and b?
    same epoch              b is not a + 1
    b is of a later epoch   b is not the first of it; or the epochs up to b are known to go further than a; or
                            something between them could not be read

Invariants: zxids rise; none comes twice; the rows carry the member and position that they were read from. Deliberately
not here: whether the members agree (`verify`); the first one that has a transaction is believed.
"""

from collections.abc import Generator, Iterator
from typing import TypeAlias

import numpy as np
from attrs import evolve, frozen

from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.reading.spans import Span, shown, whole_transactions

__all__ = ["Cover", "cover"]

Found: TypeAlias = tuple[Span, Transactions | Damage]
_COUNTER = 0xFFFF_FFFF


@frozen
class Cover:
    """A range of zxids, (after, until], and the spans of each member that reach into it, the preferred member first.
    `ends` holds (epoch, zxid): how far the epochs are known to go."""

    members: tuple[tuple[Span, ...], ...]
    after: int
    until: int
    ends: tuple[tuple[int, int], ...] = ()


def cover(wanted: Cover, *, use_index: bool = True) -> Generator[Found, None, bool]:
    """The transactions in this range, each with the span that it was read from, and the Damage that no other member
    could make good. Returns whether nothing is missing."""
    if not wanted.members:
        return False
    own, others = wanted.members[0], wanted.members[1:]
    ends = dict(wanted.ends)
    reached = wanted.after
    is_whole = True
    damage: list[tuple[Span, Damage]] = []
    for span in own:
        limited = evolve(span, after=max(span.after, reached), until=wanted.until)
        for found in whole_transactions(limited, use_index=use_index):
            if isinstance(found, Damage):
                damage.append((span, found))
                continue
            for rows in _contiguous(found.only(found.zxid > reached)):
                first = int(rows.zxid[0])
                if is_missing(reached, first, ends) or (damage and first >> 32 > reached >> 32):
                    hole = evolve(wanted, members=others, after=reached, until=first - 1)
                    is_whole &= yield from _fill(hole, damage, use_index)
                yield span, shown(span, rows)
                reached = int(rows.zxid[-1])
            # What is wrong with a window comes before its rows.
            read_to = int(found.position[-1])
            damage = [(other, one) for other, one in damage if other is span and one.offset > read_to]
    if reached < wanted.until and is_missing(reached, wanted.until + 1, ends):
        hole = evolve(wanted, members=others, after=reached)
        is_whole &= yield from _fill(hole, damage, use_index)
    return is_whole


def is_missing(last: int, first: int, ends: dict[int, int]) -> bool:
    """Whether something belongs between these two zxids; `ends` are the last ones of the epochs, where known."""
    if first >> 32 == last >> 32:
        return first > last + 1
    return first & _COUNTER != 1 or any(last < zxid < first for zxid in ends.values())


def _fill(hole: Cover, damage: list[tuple[Span, Damage]], use_index: bool) -> Generator[Found, None, bool]:
    """What the other members have of this range; the damage too, unless they have all of it."""
    is_whole = yield from cover(hole, use_index=use_index)
    if not is_whole:
        yield from damage
        damage.clear()
    return is_whole


def _contiguous(rows: Transactions) -> Iterator[Transactions]:
    """The rows, cut where zxids are missing."""
    zxids = rows.zxid
    cuts = np.flatnonzero(np.diff(zxids) != 1) + 1
    if not len(cuts):
        if len(rows):
            yield rows
        return
    numbers = np.arange(len(rows))
    for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
        yield rows.only((numbers >= start) & (numbers < end))
