"""Control batches: the markers that end a transaction in each of its partitions.

A control batch has one record, which is never compressed, bits 4 and 5, base_sequence -1, and the id and epoch of the
producer whose transaction ends. It takes an offset; clients do not show it. Big-endian:

    key    version i16, 0 | type i16: 0 abort, 1 commit (2 to 6 are those of Raft quorums)
    value  version i16, 0 | coordinator_epoch i32

Later versions of key and value add fields at their end, which a reader skips. Compaction can empty a control batch.
"""

import struct
from enum import IntEnum
from typing import Final

from attrs import frozen

from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import BatchError, Data, read_header
from zab.partition.records.builder import BatchBuilder
from zab.partition.records.record import decode_records

__all__ = ["ControlType", "EndMarker", "decode_marker", "encode_marker"]

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


@frozen
class EndMarker:
    """A transaction ended. `coordinator_epoch` fences markers of a coordinator that has been replaced."""

    type: ControlType
    coordinator_epoch: int


def encode_marker(
    marker: EndMarker, *, offset: int, leader_epoch: int, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """The control batch of this marker, for the transaction of this producer."""
    assert producer_id >= 0, producer_id
    builder = BatchBuilder(
        base_offset=offset,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    builder.append(_KEY.pack(_VERSION, marker.type), value, timestamp_ms)
    return builder.build()


def decode_marker(batch: Data, position: int = 0) -> EndMarker | None:
    """The marker in the control batch at `position`; None: compaction has emptied it, or its type is not of a
    transaction.

    Raises BatchError (CORRUPT_MESSAGE) for anything else.
    """
    header = read_header(batch, position)
    assert header.is_control
    if header.record_count > 1:
        raise _damaged(f"{header.record_count} records in a control batch")
    for record in decode_records(batch, position):
        if record.key is None or len(record.key) < _KEY.size:
            raise _damaged(f"key {record.key!r} of a control record")
        version, number = _KEY.unpack_from(record.key)
        if version < 0:
            raise _damaged(f"version {version} of a control record")
        if number not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            raise _damaged(f"value {record.value!r} of a control record")
        version, coordinator_epoch = _VALUE.unpack_from(record.value)
        if version < 0:
            raise _damaged(f"version {version} of an end marker")
        return EndMarker(ControlType(number), coordinator_epoch)
    return None


def _damaged(text: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, text)
