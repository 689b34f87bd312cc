"""The batches of producers before the newest one, which a producer snapshot lacks, from the tail of the log.

A client has up to five batches in flight. After a restart it repeats those that were not answered, so each of the five
has to be recognized, and a snapshot (Kafka's file) has the newest one alone. The others are read from their headers:
they are looked for in `FORMER_BYTES` before the snapshot, which bounds the work of a start. What is further away is
answered as a gap in the sequence; by then its producer has been answered, or has given up.

Not here: the state itself (`producers`), and the batches above the snapshot (`replay`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final

from datatree.log.disk import Disk
from zab.partition.log.headers import PIECE_BYTES, headers_from
from zab.partition.log.offset_index import IndexDamagedError, OffsetIndex
from zab.partition.log.paths import INDEX
from zab.partition.log.producers import BATCHES_MAX, ProducedBatch, Producers
from zab.partition.log.segment import Segment
from zab.partition.records.batch import BatchError, BatchHeader

FORMER_BYTES: Final = 4 << 20


def restore_former(disk: Disk, segments: Sequence[Segment], producers: Producers, offset: int) -> None:
    """Complete the producers of a snapshot of this offset. Raises OSError."""
    wanted = {producer for producer, state in producers.states.items() if state.has_former}
    if not wanted:
        return
    found: defaultdict[int, deque[tuple[int, ProducedBatch]]] = defaultdict(lambda: deque(maxlen=BATCHES_MAX))
    for header in _tail(disk, segments, offset):
        if header.producer_id in wanted and not header.is_control:
            found[header.producer_id].append((header.producer_epoch, ProducedBatch.of(header)))
    for producer, batches in found.items():
        epoch = producers.states[producer].epoch
        producers.restore(producer, tuple(batch for of_epoch, batch in batches if of_epoch == epoch))


def _tail(disk: Disk, segments: Sequence[Segment], offset: int) -> Iterator[BatchHeader]:
    """The headers of the last batches below the offset."""
    left, tail = FORMER_BYTES, []
    for segment in reversed([each for each in segments if each.base_offset < offset]):
        start = _start(disk, segment, segment.size - left) if segment.size > left else 0
        tail.append((segment, start))
        left -= segment.size
        if left <= 0:
            break
    for segment, start in reversed(tail):
        try:
            for _, header in headers_from(disk, segment.path, start, segment.size, PIECE_BYTES):
                if header.last_offset >= offset:
                    return
                yield header
        except BatchError:
            # Nobody relies on what is not found.
            continue


def _start(disk: Disk, segment: Segment, position: int) -> int:
    """Where a batch begins, at or below this position. Without an index, none of the segment is read."""
    try:
        index = segment.offsets or OffsetIndex.parse(disk.read(segment.path_of(INDEX)), segment.size)
    except (FileNotFoundError, IndexDamagedError):
        return segment.size
    return index.floor_position(position)
