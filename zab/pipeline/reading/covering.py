"""Each transaction of an ensemble once, from several members' logs.

One member's log is read; what is missing or damaged in it comes from the next member, for exactly those zxids, and what
is missing there from the one after. So a damaged block costs no other rows.

`zab.pipeline.reading.missing` decides what is missing; between epochs, what could not be read counts as missing, too.
What no member has is reported once: as the damage in its place, or as a gap if there is none.

Invariants: zxids rise; none comes twice; the rows carry the member and position that they were read from. Deliberately
not here: whether the members agree (`verify`); the first member that has a transaction is believed.
"""

from collections.abc import Generator, Iterator
from typing import TypeAlias

import numpy as np
from attrs import evolve, frozen

from zab.pipeline.decoding.damage import GAP, TORN, Damage
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.reading.missing import between, is_missing
from zab.pipeline.reading.spans import Span, shown, whole_transactions

__all__ = ["Cover", "cover"]

Found: TypeAlias = tuple[Span, Transactions | Damage]


@frozen
class Cover:
    """A range of zxids, (after, until], and the spans of each member that reach into it, the preferred member first.
    `ends` holds (epoch, zxid): how far the epochs are known to go. For a hole in a member's log, `place` is its place
    there, and `is_explained` says that there is damage in its place."""

    members: tuple[tuple[Span, ...], ...]
    after: int
    until: int
    ends: tuple[tuple[int, int], ...] = ()
    place: tuple[Span, int] | None = None
    is_explained: bool = False


def cover(wanted: Cover, *, use_index: bool = True) -> Generator[Found, None, bool]:
    """Yield the transactions in this range, each with the span that it was read from, and the Damage for which no
    other member has a replacement. Returns whether nothing is missing."""
    ends = dict(wanted.ends)
    if not wanted.members:
        if wanted.place and not wanted.is_explained and is_missing(wanted.after, wanted.until + 1, ends):
            span, offset = wanted.place
            reason = f"{between(wanted.after, wanted.until + 1)}, and no member given has it"
            yield span, Damage(offset, offset, GAP, reason)
        return False
    own, others = wanted.members[0], wanted.members[1:]
    reached = wanted.after
    is_whole = True
    read_to = 0
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
                    place = span, int(rows.position[0])
                    hole = evolve(wanted, members=others, after=reached, until=first - 1)
                    is_whole &= yield from _fill(hole, place, damage, use_index)
                yield span, shown(span, rows)
                reached = int(rows.zxid[-1])
            # The damage in a window comes before its rows.
            read_to = int(found.position[-1])
            damage = [(other, one) for other, one in damage if other is span and one.offset > read_to]
    if reached < wanted.until and is_missing(reached, wanted.until + 1, ends):
        hole = evolve(wanted, members=others, after=reached)
        is_whole &= yield from _fill(hole, (own[-1], read_to), damage, use_index)
    return is_whole


def _fill(
    hole: Cover, place: tuple[Span, int], damage: list[tuple[Span, Damage]], use_index: bool
) -> Generator[Found, None, bool]:
    """Yield what the other members have of this range, and the damage, unless they have all of it. `place`: where the
    hole is in the log that was read."""
    is_explained = hole.is_explained or any(one.kind != TORN for _, one in damage)
    told = evolve(hole, place=hole.place or place, is_explained=is_explained)
    is_whole = yield from cover(told, use_index=use_index)
    if not is_whole:
        yield from damage
        damage.clear()
    return is_whole


def _contiguous(rows: Transactions) -> Iterator[Transactions]:
    """Cut the rows where zxids are missing."""
    zxids = rows.zxid
    cuts = np.flatnonzero(np.diff(zxids) != 1) + 1
    if not len(cuts):
        if len(rows):
            yield rows
        return
    numbers = np.arange(len(rows))
    for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
        yield rows.only((numbers >= start) & (numbers < end))
