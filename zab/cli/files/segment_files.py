"""What is in the files of a broker, ours or Kafka's own: the name of a file says what it is.

    <20 digits>.log               batches; with `with_records` their records, too
    <20 digits>.index             where in the log file a batch ends with this offset
    <20 digits>.timeindex         up to which offset the timestamps are at most this one
    <20 digits>.txnindex          aborted transactions
    <20 digits>.snapshot          producers
    leader-epoch-checkpoint       where each leader epoch begins
    *-offset-checkpoint           an offset for each partition
    partition.metadata            the id of the topic
    meta.properties               whose directory it is

`rows` yields each as the fields of a line of `--json`; the text form is the same fields. A log is read batch by batch:
no more than one of them is in memory, and none above `BATCH_BYTES_MAX`. Every checksum is compared.

Not here: printing (`zab.cli.files.segment`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from zab.cli.json_form import data_fields, time_text
from zab.host.storage.disk import RealDisk
from zab.kafka.primitives import Uuid, uuid_text
from zab.partition.log.checkpoints import (
    CLEANED_ENDS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    parse_epochs,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from zab.partition.log.offset_index import IndexDamagedError, OffsetIndex
from zab.partition.log.paths import (
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    parse_name,
)
from zab.partition.log.snapshots import SnapshotDamagedError, parse_snapshot
from zab.partition.log.time_index import TimeIndex
from zab.partition.log.transaction_index import parse_transactions
from zab.partition.records.batch import HEADER_BYTES, BatchError, BatchHeader, check_crc, read_header
from zab.partition.records.control import decode_marker
from zab.partition.records.record import decode_records

__all__ = ["BATCH_BYTES_MAX", "DamagedError", "Row", "UnknownFileError", "rows"]

Row: TypeAlias = dict[str, Any]

BATCH_BYTES_MAX: Final = 256 << 20
SMALL_FILE_BYTES_MAX: Final = 256 << 20
"""Every other file is read as a whole, up to this size."""
_OFFSETS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_ENDS)
_DAMAGE: Final = (BatchError, CheckpointError, IndexDamagedError, SnapshotDamagedError)


class UnknownFileError(Exception):
    """No file of a broker has such a name."""


class DamagedError(Exception):
    """What follows cannot be read; the text names file, position and reason."""


def rows(path: Path, *, with_records: bool) -> Iterator[Row]:
    """What is in the file. Raises UnknownFileError, DamagedError after what could be read, OSError."""
    name = path.name
    for suffix in (DELETED, CLEANED, SWAP):
        name = name.removesuffix(suffix)
    segment = parse_name(name)
    if segment is not None and segment[1] == LOG:
        yield from _batches(path, with_records=with_records)
        return
    if segment is None and name not in (*_OFFSETS, LEADER_EPOCHS, PARTITION_METADATA, META_PROPERTIES):
        raise UnknownFileError(f"{path}: no file of a broker has such a name")
    size = path.stat().st_size
    if size > SMALL_FILE_BYTES_MAX:
        raise DamagedError(f"{path}: {size} bytes, more than such a file has")
    try:
        found = _of_segment(*segment, path.read_bytes()) if segment is not None else _of_name(name, path.read_bytes())
    except _DAMAGE as error:
        raise DamagedError(f"{path}: {error}") from error
    yield from found


def _of_segment(base: int, kind: str, data: bytes) -> list[Row]:
    if kind == INDEX:
        entries = OffsetIndex.parse(data, 1 << 62).entries
        return [{"type": "index", "offset": base + offset, "position": position} for offset, position in entries]
    if kind == TIME_INDEX:
        times = TimeIndex.parse(data).entries
        return [{"type": "time", "timestamp": time_text(ms), "offset": base + offset} for ms, offset in times]
    if kind == SNAPSHOT:
        return [
            {
                "type": "producer",
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_offset": state.batches[-1].last_offset if state.batches else None,
                "timestamp": time_text(state.timestamp),
                "coordinator_epoch": state.coordinator_epoch,
                "transaction_first_offset": _known(state.transaction_first_offset),
            }
            for producer_id, state in parse_snapshot(data).items()
        ]
    return [
        {
            "type": "aborted",
            "producer_id": each.producer_id,
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "last_stable_offset": each.last_stable_offset,
        }
        for each in parse_transactions(data)
    ]


def _of_name(name: str, data: bytes) -> list[Row]:
    if name == LEADER_EPOCHS:
        return [{"type": "epoch", "leader_epoch": epoch, "offset": start} for epoch, start in parse_epochs(data)]
    if name == PARTITION_METADATA:
        return [{"type": "topic", "topic_id": uuid_text(Uuid(parse_partition_metadata(data)))}]
    if name == META_PROPERTIES:
        owner = parse_meta_properties(data)
        return [{"type": "directory", "broker_id": owner.broker_id, "cluster_id": owner.cluster_id}]
    offsets = parse_offsets(data).items()
    return [
        {"type": "offset", "topic": where.topic, "partition": where.partition, "offset": offset}
        for where, offset in offsets
    ]


def _batches(path: Path, *, with_records: bool) -> Iterator[Row]:
    disk, position, end = RealDisk(str(path.parent), lock=False), 0, path.stat().st_size
    try:
        while position < end:
            head = disk.read(path.name, position, HEADER_BYTES)
            if not any(head):
                # Space that was reserved, of which nothing is used.
                return
            try:
                if len(head) < HEADER_BYTES:
                    raise DamagedError(f"{path}: position {position}: {len(head)} bytes are no whole header of a batch")
                header = read_header(head)
                if header.size_bytes > min(end - position, BATCH_BYTES_MAX):
                    left = end - position
                    raise DamagedError(
                        f"{path}: position {position}: a batch of {header.size_bytes} bytes, of which {left} are there"
                    )
                data = disk.read(path.name, position, header.size_bytes)
                check_crc(data, 0, header)
                yield _batch(header, position, data)
                if with_records and not header.is_control:
                    yield from map(_record, decode_records(data))
            except BatchError as error:
                # The batch was read alone: its position is that in the file.
                reason = str(error).replace(" at byte 0", "")
                raise DamagedError(f"{path}: position {position}: {reason}") from error
            position += header.size_bytes
    finally:
        disk.close()


def _batch(header: BatchHeader, position: int, data: bytes) -> Row:
    marker = decode_marker(data) if header.is_control else None
    return {
        "type": "batch",
        "position": position,
        "bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "max_timestamp": time_text(header.max_timestamp),
        "codec": header.codec.name.lower(),
        "producer_id": _known(header.producer_id),
        "producer_epoch": _known(header.producer_epoch),
        "base_sequence": _known(header.base_sequence),
        "is_transactional": header.is_transactional,
        "marker": None if marker is None else marker.type.name.lower(),
    }


def _record(record: Any) -> Row:
    key, value = data_fields(record.key), data_fields(record.value)
    return {
        "type": "record",
        "offset": record.offset,
        "timestamp": time_text(record.timestamp_ms),
        "key": key["data"],
        "key_encoding": key["encoding"],
        "value": value["data"],
        "value_encoding": value["encoding"],
        "headers": [{"name": name, **data_fields(content)} for name, content in record.headers],
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number
