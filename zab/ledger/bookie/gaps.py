"""Which ids between tombstones are gone from the metadata too, so that tombstones become fewer runs.

Tombstones are kept for ever. A bookie that has one ledger of ten would have a run for nearly each deletion. So a round
of collection lists some directories of ids in which this bookie has several runs: an id between two of them that is
not there gets a tombstone as well, though the bookie never had it. What is left are as many runs as there are live
ledgers in the cluster, not as many as were ever deleted.

A ledger whose id was given out, and which is not made yet, must not get one. So the newest directory, and the one
before it, are left alone: who makes a ledger so late has it refused by this bookie, as a deleted one. Ids that clients
choose by themselves have to be new, too: a lower one than others may be refused.

Not here: tombstones in memory and on disk (`deletion.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from attrs import define, frozen

from zab.coordination.operations import Children, Get, Result, Sync
from zab.coordination.steps import Steps, read
from zab.ledger.bookie.tombstones import Tombstones
from zab.ledger.metadata.layout import INSTANCE_ID
from zab.ledger.metadata.paths import LONG_FROM, ledger_path, ledgers_in

Run: TypeAlias = tuple[int, int]

IDS_PER_DIRECTORY: Final = 10_000
DIRECTORIES_LISTED: Final = 20
"""So many directories are listed in a round."""
DIRECTORIES_LOOKED_AT: Final = 1_000
"""So many are looked at for several runs."""


@frozen
class Directory:
    """A directory of ids, and the gaps between the tombstones in it."""

    path: str
    gaps: Sequence[Run]


@define
class GapSearch:
    """Where the last round ended."""

    _next: int = 0

    def choose(self, root: str, tombstones: Tombstones, highest: int) -> list[Directory]:
        """The directories that are listed in this round. `highest`: the highest id that is known."""
        found: list[Directory] = []
        for _ in range(DIRECTORIES_LOOKED_AT):
            first = tombstones.first_from(self._next)
            if first is None:
                self._next = 0
                break
            begin = first // IDS_PER_DIRECTORY * IDS_PER_DIRECTORY
            end = begin + IDS_PER_DIRECTORY - 1
            self._next = end + 1
            # One directory has ids of both trees.
            is_one = not begin < LONG_FROM <= end
            if is_one and end + IDS_PER_DIRECTORY < highest and (gaps := tombstones.gaps(begin, end)):
                found.append(Directory(ledger_path(root, begin).rpartition("/")[0], gaps))
                if len(found) == DIRECTORIES_LISTED:
                    break
        return found


def find_gone(root: str, instance: bytes, directories: Sequence[Directory]) -> Steps[list[Run]]:
    """The ids in these gaps that are not in the metadata, as runs; none if the metadata are not this bookie's. Raises
    CoordinationError."""
    gone: list[Run] = []
    for each in directories:
        _, before, listed, after = yield from read(
            (Sync(root), Get(f"{root}/{INSTANCE_ID}"), Children(each.path), Get(f"{root}/{INSTANCE_ID}"))
        )
        if not (_is_ours(before, instance) and _is_ours(after, instance)):
            return []
        # BookKeeper's clients delete directories that are empty.
        names = () if listed.is_missing else listed.must(each.path).children
        gone += _without(each.gaps, ledgers_in(root, each.path, names))
    return gone


def _is_ours(found: Result, instance: bytes) -> bool:
    return not found.is_missing and found.must(INSTANCE_ID).data == instance


def _without(gaps: Sequence[Run], there: Sequence[int]) -> Iterator[Run]:
    """What is left of the gaps without these ids; both ascending."""
    at = 0
    for first, last in gaps:
        while at < len(there) and there[at] <= last:
            if there[at] > first:
                yield first, there[at] - 1
            first = max(first, there[at] + 1)
            at += 1
        if first <= last:
            yield first, last
