"""Members of fragments, and which entries each of them has to have.

Index i of an ensemble is in the write set of entry e if (i - e) mod E < Qw: all entries if E = Qw, else Qw of every E.

Not here: which bookies are registered, and who has what (`check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from attrs import frozen

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata

Run: TypeAlias = tuple[int, int]
"""The first and the last one of consecutive entries."""


@frozen(order=True)
class Member:
    """The bookie at one index of the fragment that begins at `first`."""

    first: int
    index: int
    bookie: BookieId


def complete_members(metadata: LedgerMetadata) -> Iterator[Member]:
    """The members of all fragments that get no entries any more: all of a closed ledger, else all but the last one."""
    fragments = metadata.fragments if metadata.is_closed else metadata.fragments[:-1]
    for fragment in fragments:
        for index, bookie in enumerate(fragment.ensemble):
            yield Member(fragment.first, index, bookie)


def is_last_fragment_short(metadata: LedgerMetadata, registered: frozenset[BookieId]) -> bool:
    """Whether the last fragment may get entries yet, and names a bookie that is not registered."""
    return not metadata.is_closed and not registered.issuperset(metadata.last_fragment.ensemble)


def share_of(metadata: LedgerMetadata, member: Member) -> Iterator[Run]:
    """The entries of a complete fragment that this member has to have, as runs, in order."""
    fragment = metadata.fragment_of(member.first)
    last = metadata.end_of(fragment)
    assert last is not None, "the last fragment of a ledger that is not closed has no end"
    return share(fragment.first, last, member.index, metadata.ensemble_size, metadata.write_quorum)


def share(first: int, last: int, index: int, ensemble_size: int, write_quorum: int) -> Iterator[Run]:
    """The entries from `first` to `last` whose write set has this index."""
    if ensemble_size == write_quorum:
        if first <= last:
            yield first, last
        return
    start = first - (first - (index - write_quorum + 1)) % ensemble_size
    while start <= last:
        run = max(start, first), min(start + write_quorum - 1, last)
        if run[0] <= run[1]:
            yield run
        start += ensemble_size


def without(runs: Iterable[Run], others: Iterable[Run]) -> Iterator[Run]:
    """What is in `runs` and not in `others`; both are in order."""
    there = iter(others)
    other = next(there, None)
    for begin, last in runs:
        first = begin
        while other is not None and other[0] <= last:
            if other[1] >= first:
                if first < other[0]:
                    yield first, other[0] - 1
                first = other[1] + 1
                if first > last:
                    break
            other = next(there, None)
        if first <= last:
            yield first, last


def pieces(runs: Iterable[Run], entries_max: int) -> Iterator[Run]:
    """These entries, in runs of at most so many."""
    for first, last in runs:
        for begin in range(first, last + 1, entries_max):
            yield begin, min(begin + entries_max - 1, last)
