"""The state file: what a bookie knows of its ledgers besides their entries; and the checkpoint, which names one.

    state/<number, 16 hex digits>     all ledgers and tombstones; the two newest are kept
    checkpoint                        everything in the journal before its mark is in segments and in its state

Both are replaced as a whole, durably. Numbers are big-endian, ids signed. State:

    header, 64 bytes    magic "BSTA", version 1 (4), instance (16), uuid (16), number (8), count of ledgers (4),
                        count of tombstone runs (4), zeros (4), CRC-32 of the 60 bytes before it
    ledgers             ledger id (8), master key (20), flags (1; 1: fenced, 2: limbo), highest LAC (8), length of the
                        explicit LAC's packet (1; 0: none), the packet
    tombstones          first and last id of each run, 8 each
    end                 CRC-32 of everything after the header

A state may be newer than the mark of the checkpoint that names it: what the journal says after the mark is replayed on
top of it, which changes nothing that it has already.

Checkpoint, 68 bytes: magic "BCHK", version 1 (4), instance (16), uuid (16), sequence (8) and offset (8) of the mark,
number of the state (8), CRC-32 of the 64 bytes before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

import attrs

from zab.ledger.bookie.config import Identity
from zab.ledger.bookie.ledgers import Ledger, LedgerTable
from zab.ledger.bookie.segment import ForeignFileError
from zab.ledger.entries.envelope import MalformedEntryError, lac_header_of
from zab.ledger.entries.keys import KEY_BYTES

DIRECTORY: Final = "state"
CHECKPOINT: Final = "checkpoint"
HEADER_BYTES: Final = 64

_HEADER: Final = Struct(">4sI16s16sQII4x")
_LEDGER: Final = Struct(f">q{KEY_BYTES}sBqB")
_RUN: Final = Struct(">qq")
RUN_BYTES: Final = _RUN.size
LEDGER_BYTES_MAX: Final = _LEDGER.size + 255
"""A ledger in the file has no more bytes."""
_CHECKPOINT: Final = Struct(">4sI16s16sQQQ")
_CRC: Final = Struct(">I")
_FENCED: Final = 1
_LIMBO: Final = 2
_VERSION: Final = 1

assert _HEADER.size + _CRC.size == HEADER_BYTES


def state_path(number: int) -> str:
    return f"{DIRECTORY}/{number:016x}"


def pack_ledgers(ledgers: Iterable[Ledger]) -> bytes:
    """Ledgers as they are in the file."""
    return b"".join(
        [
            _LEDGER.pack(
                each.id,
                each.key,
                _FENCED * each.is_fenced | _LIMBO * each.is_limbo,
                each.lac,
                len(each.lac_packet),
            )
            + each.lac_packet
            for each in ledgers
        ]
    )


def pack_state(identity: Identity, number: int, ledgers: Sequence[bytes], count: int, tombstones: bytes) -> bytes:
    """The content of a state file."""
    runs = len(tombstones) // _RUN.size
    head = _HEADER.pack(b"BSTA", _VERSION, identity.instance, identity.uuid, number, count, runs)
    body = b"".join((*ledgers, tombstones))
    return b"".join((head, _CRC.pack(crc32(head)), body, _CRC.pack(crc32(body))))


@attrs.frozen
class StateHeader:
    """What the header of a state file says."""

    identity: Identity
    count: int
    """How many ledgers follow."""
    runs: int
    """How many runs of tombstones follow these."""


def parse_state_header(head: bytes, number: int) -> StateHeader | None:
    """The header of a state file; None if it is not readable."""
    if len(head) < HEADER_BYTES or crc32(head[: _HEADER.size]) != _CRC.unpack_from(head, _HEADER.size)[0]:
        return None
    magic, version, instance, uuid, named, count, runs = _HEADER.unpack_from(head)
    if (magic, version, named) != (b"BSTA", _VERSION, number):
        return None
    return StateHeader(Identity(instance, uuid), count, runs)


def read_state(data: bytes, number: int, identity: Identity) -> LedgerTable | None:
    """The ledgers in a state file; None if it is damaged. Raises ForeignFileError."""
    header = parse_state_header(data, number)
    body = memoryview(data)[HEADER_BYTES : -_CRC.size]
    if header is None or len(data) < HEADER_BYTES + _CRC.size or _CRC.pack(crc32(body)) != data[-_CRC.size :]:
        return None
    if header.identity != identity:
        raise ForeignFileError(f"{state_path(number)} belongs to another bookie or another cluster")
    try:
        return _read_body(body, header.count, header.runs)
    except (struct.error, MalformedEntryError):
        return None


def parse_ledger(body: bytes | memoryview, at: int) -> tuple[Ledger, int]:
    """The ledger at `at`, and where the next one begins. Raises struct.error, MalformedEntryError."""
    ledger_id, key, flags, lac, length = _LEDGER.unpack_from(body, at)
    at += _LEDGER.size
    ledger = Ledger(ledger_id, key)
    ledger.is_fenced, ledger.is_limbo, ledger.lac = bool(flags & _FENCED), bool(flags & _LIMBO), lac
    if length:
        ledger.lac_packet = bytes(body[at : at + length])
        ledger.explicit_lac = lac_header_of(ledger.lac_packet)[1]
    return ledger, at + length


def parse_run(body: bytes | memoryview, at: int) -> tuple[int, int] | None:
    """The run of tombstones at `at`; None if it is none. Raises struct.error."""
    first, last = _RUN.unpack_from(body, at)
    return (first, last) if 0 <= first <= last else None


def _read_body(body: memoryview, count: int, runs: int) -> LedgerTable | None:
    table, at, ledgers = LedgerTable(), 0, []
    for _ in range(count):
        ledger, at = parse_ledger(body, at)
        ledgers.append(ledger)
    for _ in range(runs):
        run = parse_run(body, at)
        if run is None:
            return None
        table.tombstones.add_run(*run)
        at += RUN_BYTES
    table.by_id.update((ledger.id, ledger) for ledger in ledgers if ledger.id not in table.tombstones)
    return table if at == len(body) else None


@attrs.frozen
class Checkpoint:
    """Everything before `mark` is in segments and in the state of this number."""

    mark: tuple[int, int]
    state: int

    def pack(self, identity: Identity) -> bytes:
        head = _CHECKPOINT.pack(b"BCHK", _VERSION, identity.instance, identity.uuid, *self.mark, self.state)
        return head + _CRC.pack(crc32(head))


def parse_checkpoint(data: bytes) -> tuple[Identity, Checkpoint] | None:
    """Whose checkpoint this is, and its content; None if it is damaged."""
    size = _CHECKPOINT.size
    if len(data) != size + _CRC.size or crc32(data[:size]) != _CRC.unpack_from(data, size)[0]:
        return None
    magic, version, instance, uuid, sequence, offset, state = _CHECKPOINT.unpack_from(data)
    if (magic, version) != (b"BCHK", _VERSION):
        return None
    return Identity(instance, uuid), Checkpoint((sequence, offset), state)


def read_checkpoint(data: bytes, identity: Identity) -> Checkpoint | None:
    """The content of the checkpoint; None if it is damaged. Raises ForeignFileError."""
    found = parse_checkpoint(data)
    if found is None:
        return None
    if found[0] != identity:
        raise ForeignFileError(f"{CHECKPOINT} belongs to another bookie or another cluster")
    return found[1]
