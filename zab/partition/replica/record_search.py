"""Finding the first record of a time in the batch that has it: reads and unpacks the batch, which may take long.

It does not need the replica, so it runs beside the turns.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from datatree.log.disk import Disk
from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import BatchError, read_header
from zab.partition.records.record import decode_records
from zab.wire.file_slice import FileSlice

NOWHERE: Final = -1


@frozen
class RecordSearch:
    """The batch, its first offset, and the time from which on a record is wanted (ms since 1970)."""

    batch: FileSlice
    base_offset: int
    timestamp: int
    log_start: int
    """Records below are deleted."""


@frozen
class Found:
    """A record: its time and its offset. NOWHERE: there is none."""

    timestamp: int = NOWHERE
    offset: int = NOWHERE


def find_record(search: RecordSearch, disk: Disk) -> Found | ErrorCode:
    """The first record of the batch that is wanted; an error code if the batch cannot be read."""
    batch = search.batch
    try:
        data = disk.read(batch.path, batch.position, batch.length)
        if read_header(data).base_offset != search.base_offset:
            # Compaction has replaced the file since.
            return ErrorCode.LEADER_NOT_AVAILABLE
        for record in decode_records(data):
            if record.timestamp_ms >= search.timestamp and record.offset >= search.log_start:
                return Found(record.timestamp_ms, record.offset)
    except BatchError as error:
        return error.error
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return Found()
