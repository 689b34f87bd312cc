"""A log with its storage on a simulated disk, and batches for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from datatree.log.disk import Disk
from zab.partition.log.checkpoints import format_partition_metadata
from zab.partition.log.file_effects import Confirmed, Failed
from zab.partition.log.files import Files
from zab.partition.log.incoming import Appended
from zab.partition.log.log import Log
from zab.partition.log.recovery import Marks, recover
from zab.partition.records.batch import BatchHeader, walk
from zab.partition.records.builder import encode_batch
from zab.partition.records.control import ControlType, EndMarker, encode_marker
from zab.partition.records.record import Record
from zab.partition.settings.topic_settings import TopicSettings
from zab.simulator.world.disk import FaultyDisk

DIRECTORY = "events-0"
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000


def settings(**changes: Any) -> TopicSettings:
    """Small segments, and index entries that are near to each other."""
    return TopicSettings(**{"segment_bytes": 1000, "index_interval_bytes": 100, **changes})


def batch(values: Sequence[bytes] = (b"value",), *, timestamp: int = NOW, offset: int = 0, **fields: Any) -> bytearray:
    """A batch, as a client sends it, or with the offset and epoch of a leader."""
    records = [Record(offset + number, timestamp + number, None, value) for number, value in enumerate(values)]
    return bytearray(encode_batch(records, **fields))


def produced(
    producer_id: int,
    epoch: int,
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    timestamp: int = NOW,
    offset: int = 0,
) -> bytearray:
    """A batch of a producer."""
    return batch(
        [b"%d" % (sequence + number) for number in range(count)],
        timestamp=timestamp,
        offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(
    producer_id: int, epoch: int, *, commits: bool, coordinator_epoch: int = 0, timestamp: int = NOW
) -> bytearray:
    """The end of a transaction."""
    return bytearray(
        encode_marker(
            EndMarker(ControlType.COMMIT if commits else ControlType.ABORT, coordinator_epoch),
            offset=0,
            leader_epoch=-1,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=timestamp,
        )
    )


def headers(data: bytes | bytearray | memoryview) -> list[BatchHeader]:
    return [header for _, header in walk(data)]


Batches = list[tuple[int, int, bytes]]
"""(base offset, leader epoch, bytes) of each."""


def split(data: bytes) -> Batches:
    return [
        (header.base_offset, header.partition_leader_epoch, data[position : position + header.size_bytes])
        for position, header in walk(data)
    ]


@attrs.define
class Stored:
    """A log and its storage."""

    disk: Disk
    files: Files
    log: Log
    notes: list[str] = attrs.Factory(list)

    def append(self, *batches: bytearray, epoch: int = 0, now: int = NOW, verified: bool = False) -> Appended:
        """Append as a leader; not stored yet."""
        data = bytearray().join(batches)
        return self.log.append_as_leader(data, headers(data), epoch, now, is_verified=verified)

    def store(self) -> None:
        """Let the storage do everything, and answer."""
        for answer in self.files.perform(self.log.take_effects()):
            if isinstance(answer, Confirmed):
                self.log.confirmed(answer.token)
            else:
                assert isinstance(answer, Failed)
                self.log.failed(answer.reason)

    def add(self, *batches: bytearray, epoch: int = 0, now: int = NOW, verified: bool = False) -> Appended:
        """Append and store."""
        appended = self.append(*batches, epoch=epoch, now=now, verified=verified)
        self.store()
        return appended

    def commit(self) -> None:
        """Everything is on all replicas."""
        self.log.update_high_watermark(self.log.log_end)

    def content(self, max_bytes: int = 1 << 20) -> Batches:
        """What is served from the first offset on."""
        found: Batches = []
        offset = self.log.log_start
        while (part := self.log.slice(offset, self.log.log_end, max_bytes)) is not None:
            data = self.disk.read(part.path, part.position, part.length)
            assert headers(data)[0].base_offset == part.first_offset
            found += split(data)
            offset = headers(data)[-1].last_offset + 1
        return found


def fresh(disk: FaultyDisk | None = None, **changes: Any) -> Stored:
    """A new log, which is stored."""
    disk = disk or FaultyDisk()
    log = Log.create(disk, DIRECTORY, settings(**changes), format_partition_metadata(TOPIC_ID), NOW)
    stored = Stored(disk, Files(disk), log)
    stored.store()
    return stored


def recovered(disk: Disk, marks: Marks | None = None, *, clean: bool = False, **changes: Any) -> Stored:
    """What a start makes of the files."""
    found = recover(disk, DIRECTORY, settings(**changes), marks or Marks(), is_clean=clean, now_ms=NOW)
    return Stored(disk, Files(disk), found.log, found.notes)


def marks_of(log: Log) -> Marks:
    """What the checkpoints say now."""
    return Marks(log.synced_end, log.log_start, log.high_watermark, log.cleaned_end)
