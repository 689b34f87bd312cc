"""Which segments are too old, too many, or below the start of the log."""

from __future__ import annotations

from collections.abc import Sequence

from zab.partition.log.segment import Segment
from zab.partition.settings.topic_settings import NO_LIMIT, TopicSettings


def deletable_count(
    segments: Sequence[Segment], settings: TopicSettings, *, now_ms: int, high_watermark: int, log_start: int
) -> int:
    """How many of the oldest segments go. Each is below the high watermark, and the active one has data."""
    ends = [segment.base_offset for segment in segments[1:]] + [segments[-1].next_offset]
    excess_bytes = sum(segment.size for segment in segments) - settings.retention_bytes
    for count, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        is_active = segment is segments[-1]
        if end > high_watermark or (is_active and not segment.size):
            return count
        excess_bytes -= segment.size
        is_breached = not is_active and end <= log_start
        if settings.deletes:
            is_breached |= settings.retention_ms != NO_LIMIT and now_ms - age_of(segment) > settings.retention_ms
            is_breached |= settings.retention_bytes != NO_LIMIT and excess_bytes >= 0
        if not is_breached:
            return count
    return len(segments)


def age_of(segment: Segment) -> int:
    """The newest time of a segment, ms: of its records, or else of its file."""
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
