"""The transaction index of a segment: which transactions were aborted by a marker in it.

Entries of 34 bytes, big-endian:

    i16  version, 0
    i64  producer id
    i64  first offset of the transaction
    i64  last offset: that of the marker
    i64  last stable offset at that time

Last offsets ascend. There is a file only if there are entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

import attrs

from zab.partition.log.offset_index import IndexDamagedError

_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0


@attrs.frozen
class AbortedTransaction:
    """One aborted transaction: its data are at offsets from `first_offset` to before `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def pack(self) -> bytes:
        return _ENTRY.pack(_VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


def pack_transactions(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The content of a file."""
    return b"".join([each.pack() for each in aborted])


def parse_transactions(data: bytes) -> list[AbortedTransaction]:
    """Read a file. Raises IndexDamagedError."""
    if len(data) % ENTRY_BYTES:
        raise IndexDamagedError(f"{len(data)} bytes are not whole entries")
    found: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(data):
        each = AbortedTransaction(*fields)
        if version != _VERSION or each.first_offset > each.last_offset:
            raise IndexDamagedError(f"entry {len(found)} is none of version {_VERSION}")
        if found and each.last_offset <= found[-1].last_offset:
            raise IndexDamagedError("the last offsets do not ascend")
        found.append(each)
    return found


def overlapping(segments: Iterable[list[AbortedTransaction]], start: int, end: int) -> Iterator[AbortedTransaction]:
    """The aborted transactions with data in [start, end), out of the segments from that of `start` on."""
    for aborted in segments:
        for each in aborted:
            if each.last_offset >= start and each.first_offset < end:
                yield each
            if each.last_stable_offset >= end:
                return
