"""The producers of a log, from its newest snapshot and the batches after that."""

from __future__ import annotations

from collections.abc import Sequence

from datatree.log.disk import Disk
from zab.partition.log.headers import PIECE_BYTES, headers_from
from zab.partition.log.paths import SNAPSHOT, path_of
from zab.partition.log.producers import Producers
from zab.partition.log.segment import Segment
from zab.partition.log.snapshots import SnapshotDamagedError, parse_snapshot
from zab.partition.records.batch import BatchHeader
from zab.partition.records.control import EndMarker, decode_marker


def newest_snapshot(disk: Disk, directory: str, snapshots: Sequence[int], end: int) -> tuple[int, Producers]:
    """(offset, producers) of the newest whole snapshot at or below `end`; (0, none) if there is none. Raises
    OSError."""
    for offset in reversed([offset for offset in snapshots if offset <= end]):
        try:
            return offset, Producers(parse_snapshot(disk.read(path_of(directory, offset, SNAPSHOT))).items())
        except (SnapshotDamagedError, FileNotFoundError):
            continue
    return 0, Producers()


def replay(disk: Disk, segments: Sequence[Segment], producers: Producers, start: int, end: int) -> None:
    """Note the batches from `start` to `end`, of sound segments. Raises OSError, BatchError."""
    for segment in segments:
        if segment.next_offset <= start or segment.base_offset >= end:
            continue
        for position, header in headers_from(disk, segment.path, 0, segment.size, PIECE_BYTES):
            if header.last_offset >= end:
                return
            if header.last_offset >= start and header.producer_id >= 0:
                marker = None
                if header.is_control:
                    marker = decode_marker(disk.read(segment.path, position, header.size_bytes))
                note(producers, header, marker)


def note(producers: Producers, header: BatchHeader, marker: EndMarker | None) -> None:
    """Note a batch of a producer; a control batch that ends no transaction means nothing."""
    if not header.is_control or marker is not None:
        producers.update(header, marker)
