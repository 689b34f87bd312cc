"""Which part of a log may be compacted, and whether that is worth it: Kafka's `LogCleanerManager`.

A log is a clean part, below `cleaned_end`, a dirty part, and a part that is not compacted: the active segment, what is
at or above the last stable offset (and so the high watermark), and segments with a record younger than
`min.compaction.lag.ms`. Only whole segments are compacted.

It is worth it if dirty bytes are more than `min.cleanable.dirty.ratio` of all that could be compacted, or if the first
dirty batch is older than `max.compaction.lag.ms`.
"""

from __future__ import annotations

import attrs

from zab.partition.log.log import Log
from zab.partition.log.segment import Segment


@attrs.frozen
class Cleanable:
    """What a round would do to a log."""

    segments: tuple[Segment, ...]
    """The segments that are rewritten, clean ones included, oldest first."""
    first_dirty: int
    end: int
    """The base offset of the first segment that is not."""
    ratio: float
    """The dirty part of it."""
    is_overdue: bool


def cleanable(log: Log, now_ms: int) -> Cleanable | None:
    """What to compact; None if there is nothing. Raises OSError, BatchError (the age of a segment has to be read)."""
    settings, segments = log.settings, log.segments
    first_dirty = log.cleaned_end if log.log_start <= log.cleaned_end <= log.log_end else log.log_start
    bound = min(log.last_stable_offset, segments[-1].base_offset, log.written_end)
    closed = [segment for segment in segments[:-1] if segment.next_offset <= bound]
    if settings.min_compaction_lag_ms:
        young_ms = now_ms - settings.min_compaction_lag_ms
        for number, segment in enumerate(closed):
            if segment.next_offset > first_dirty and segment.max_timestamp > young_ms:
                del closed[number:]
                break
    if any(segment.is_awaited for segment in closed):
        return None
    dirty = [segment for segment in closed if segment.next_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    first_ms = log.compaction.first_timestamp_of(dirty[0])
    is_overdue = 0 < first_ms < now_ms - settings.max_compaction_lag_ms
    ratio = dirty_bytes / sum(segment.size for segment in closed)
    if ratio <= settings.min_cleanable_dirty_ratio and not is_overdue:
        return None
    return Cleanable(tuple(closed), first_dirty, closed[-1].next_offset, ratio, is_overdue)
