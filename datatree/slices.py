"""Slices: how long one piece of work may run before others get their turn (H5 slices).

Work whose size a client chooses is a generator: it yields after each slice, and its runner then does something else.
Slices are counted, never timed, so a run is reproducible. The counts are such that the slowest slice of each kind takes
less than 20 ms of processor time; shorter work runs at once, as one slice.

Not here: what has to wait while a piece of work is half done (`zab.member.member`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

__all__ = [
    "CONSUMED",
    "DECODED_BYTES",
    "DELIVERED",
    "ENDED",
    "ENTRIES_FOR_ONE",
    "FORGOTTEN",
    "NAMES",
    "PARTS",
    "PATHS",
    "PATH_BYTES",
    "RECORD_BYTES",
    "SENT",
    "SENT_BYTES",
    "SLICE_BYTES",
    "TOLD",
    "TOLD_FOR_ONE",
    "WATCHES",
    "slices_of",
]

PARTS: Final = 250
"""Parts of a multi, prepared or applied; ephemerals of a session that is closed."""
TOLD: Final = 16_000
"""Connections that are told of changes."""
CONSUMED: Final = 4
"""A connection whose watch is consumed counts as so many."""
DELIVERED: Final = 500
"""Transactions of a batch that are applied and answered; each part of one counts as one more."""
TOLD_FOR_ONE: Final = TOLD // DELIVERED
"""So many connections that are told count as one transaction."""
SENT: Final = 250
SENT_BYTES: Final = 1 << 20
"""Bytes of watch events that are sent in a turn; each connection counts as well."""
PATHS: Final = 1_000
"""Paths of a setWatches; parts of a multiRead."""
ENDED: Final = 250
"""Connections that are closed, and forgotten; sessions that expire."""
WATCHES: Final = 5_000
"""Watches of connections that are gone."""
PATH_BYTES: Final = 64
"""Bytes of a path that is examined component by component: so many count as one more item of the slice."""
SLICE_BYTES: Final = 16_384
"""Bytes of a request that is decoded."""
DECODED_BYTES: Final = 262_144
"""Bytes of the transactions of a batch that are decoded."""
ENTRIES_FOR_ONE: Final = 16
"""So many entries of a permission list that is applied count as one transaction."""
FORGOTTEN: Final = 10_000
"""Outstanding changes that are applied, and forgotten."""
RECORD_BYTES: Final = 4_096
"""A transaction with a shorter record is one slice."""
NAMES: Final = 5_000
"""Names of children, of ephemerals, of descendants that are counted; lines of a four-letter word."""


def slices_of(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The parts of a multi, or the paths of a closeSession, slice by slice. A part counts as one, and once more for
    each entry of its permission list, and for every `PATH_BYTES` of its path."""
    first = count = 0
    for at, item in enumerate(items, 1):
        path = item[2] if type(item) in _LISTS else item
        count += 1 + len(path) // PATH_BYTES
        if path is not item:
            rest = item[4]
            if rest and type(rest[0]) in _LISTS:
                count += len(rest[0])
        if count >= PARTS:
            yield items[first:at]
            first, count = at, 0
    if first < len(items):
        yield items[first:]


_LISTS: Final = frozenset({tuple, list})
