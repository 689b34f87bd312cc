"""The file of a producer snapshot: the producers of all batches below the offset in its name.

    i16  version, 1
    u32  CRC-32C of everything after it
    i32  count of producers, and of each:
         i64 producer id           i16 epoch                i32 last sequence, -1: none
         i64 last offset           i32 last less first offset of the last batch
         i64 timestamp, ms         i32 coordinator epoch    i64 first offset of the open transaction, -1: none

Big-endian, as Kafka's. It has only the last batch of a producer; the others are read from the log (`former_batches`).
"""

from __future__ import annotations

from struct import Struct

from zab.partition.log.producers import NO_OFFSET, NO_SEQUENCE, ProducedBatch, ProducerState
from zab.partition.records.libraries import crc32c

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_END = 6


class SnapshotDamagedError(Exception):
    """The file is not a whole snapshot: use an older one."""


def pack_snapshot(states: dict[int, ProducerState]) -> bytes:
    """The content of the file."""
    entries = [_pack_entry(producer_id, state) for producer_id, state in states.items()]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c()(body), len(entries)) + body[4:]


def parse_snapshot(data: bytes) -> dict[int, ProducerState]:
    """The producers by id. Raises SnapshotDamagedError."""
    if len(data) < _HEAD.size:
        raise SnapshotDamagedError(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise SnapshotDamagedError(f"version {version}")
    if crc32c()(data[_CRC_END:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise SnapshotDamagedError(f"{count} producers in {len(data)} bytes, or another checksum")
    return dict(map(_state, _ENTRY.iter_unpack(data[_HEAD.size :])))


def _pack_entry(producer_id: int, state: ProducerState) -> bytes:
    batch = state.batches[-1] if state.batches else ProducedBatch(NO_SEQUENCE, NO_OFFSET, 0, state.timestamp)
    return _ENTRY.pack(
        producer_id,
        state.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        state.timestamp,
        state.coordinator_epoch,
        state.transaction_first_offset,
    )


def _state(fields: tuple[int, int, int, int, int, int, int, int]) -> tuple[int, ProducerState]:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = fields
    batches = (ProducedBatch(sequence, offset, delta, timestamp),) if offset >= 0 else ()
    return producer_id, ProducerState(epoch, batches, coordinator_epoch, first_offset, timestamp)
