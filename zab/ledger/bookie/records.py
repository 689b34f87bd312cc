"""The records of the journal: what the payload of a frame is made of.

Each begins with its type (1 byte). Numbers are big-endian, ids signed.

| type | then |
|---|---|
| 1 entries | count, 4 bytes; the length of each envelope, 4 bytes each; the envelopes |
| 2 ledger | ledger id, 8; master key, 20 |
| 3 fence | ledger id, 8; master key, 20 |
| 4 explicit LAC | ledger id, 8; master key, 20; length, 4; the packet as it came |
| 5 limbo | ledger id, 8; master key, 20: entries may be lost, and it is fenced |
| 6 tombstones | first and last id of a run of deleted ledgers, 8 each |
| 7 end | nothing: the last record of an orderly end |

Every record can be replayed any number of times, and in any order with records of other types: a record of a ledger
says its key, except for entries, whose ledger was recorded before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from struct import Struct, pack, unpack_from
from typing import Final, TypeAlias

import attrs

from zab.ledger.entries.envelope import HEADER_BYTES, LAC_HEADER_BYTES
from zab.ledger.entries.keys import KEY_BYTES

ENTRIES: Final = 1
LEDGER: Final = 2
FENCE: Final = 3
EXPLICIT_LAC: Final = 4
LIMBO: Final = 5
TOMBSTONES: Final = 6
END: Final = 7

_ENTRIES: Final = Struct(">BI")
_LEDGER: Final = Struct(f">Bq{KEY_BYTES}s")
_LAC: Final = Struct(f">Bq{KEY_BYTES}sI")
_RUN: Final = Struct(">Bqq")

END_RECORD: Final = bytes((END,))


class RecordError(ValueError):
    """Bytes that are not records."""


@attrs.frozen
class LedgerRecord:
    """`type` is LEDGER, FENCE or LIMBO."""

    type: int
    ledger: int
    key: bytes


@attrs.frozen
class EntriesRecord:
    envelopes: Sequence[bytes]


@attrs.frozen
class LacRecord:
    ledger: int
    key: bytes
    packet: bytes


@attrs.frozen
class TombstonesRecord:
    first: int
    last: int


@attrs.frozen
class EndRecord:
    pass


Record: TypeAlias = LedgerRecord | EntriesRecord | LacRecord | TombstonesRecord | EndRecord


def entries_head(envelopes: Sequence[bytes]) -> bytes:
    """What comes before the envelopes in their record."""
    return pack(f">BI{len(envelopes)}I", ENTRIES, len(envelopes), *map(len, envelopes))


def ledger_record(kind: int, ledger: int, key: bytes) -> bytes:
    """A record of type LEDGER, FENCE or LIMBO."""
    return _LEDGER.pack(kind, ledger, key)


def lac_record(ledger: int, key: bytes, packet: bytes) -> bytes:
    return _LAC.pack(EXPLICIT_LAC, ledger, key, len(packet)) + packet


def tombstones_record(first: int, last: int) -> bytes:
    return _RUN.pack(TOMBSTONES, first, last)


def parse_records(data: bytes | memoryview) -> Iterator[Record]:
    """The records of a payload whose checksum is right. Raises RecordError: of a type that is not known, or cut."""
    at, end = 0, len(data)
    while at < end:
        kind = data[at]
        try:
            if kind == ENTRIES:
                record, at = _parse_entries(data, at)
                yield record
            elif kind in (LEDGER, FENCE, LIMBO):
                _, ledger, key = _LEDGER.unpack_from(data, at)
                at += _LEDGER.size
                yield LedgerRecord(kind, ledger, key)
            elif kind == EXPLICIT_LAC:
                _, ledger, key, length = _LAC.unpack_from(data, at)
                if length < LAC_HEADER_BYTES:
                    raise RecordError("an explicit LAC is too short")
                at += _LAC.size + length
                yield LacRecord(ledger, key, bytes(data[at - length : at]))
            elif kind == TOMBSTONES:
                _, first, last = _RUN.unpack_from(data, at)
                if not 0 <= first <= last:
                    raise RecordError(f"a run of tombstones from {first} to {last}")
                at += _RUN.size
                yield TombstonesRecord(first, last)
            elif kind == END:
                at += 1
                yield EndRecord()
            else:
                raise RecordError(f"a record of the unknown type {kind}")
        except struct.error as error:
            raise RecordError("a record is cut") from error
    if at != end:
        raise RecordError("a record is cut")


def _parse_entries(data: bytes | memoryview, at: int) -> tuple[EntriesRecord, int]:
    _, count = _ENTRIES.unpack_from(data, at)
    lengths = unpack_from(f">{count}I", data, at + _ENTRIES.size)
    at += _ENTRIES.size + 4 * count
    envelopes = []
    for length in lengths:
        if length < HEADER_BYTES:
            raise RecordError("an entry is too short")
        envelopes.append(bytes(data[at : at + length]))
        at += length
    return EntriesRecord(envelopes), at
