"""When the active segment ends and a new one begins."""

from __future__ import annotations

from zab.partition.log.offset_index import RELATIVE_MAX
from zab.partition.log.segment import Segment
from zab.partition.records.batch import BatchHeader
from zab.partition.settings.topic_settings import TopicSettings


def is_full(
    segment: Segment, settings: TopicSettings, header: BatchHeader, size: int, now_ms: int, jitter_ms: int
) -> bool:
    """Whether the next batch, of `size` bytes, begins a new segment. `jitter_ms`: by how much earlier than its age
    asks."""
    if header.base_offset + header.last_offset_delta - segment.base_offset > RELATIVE_MAX:
        return True
    if not segment.size:
        return False
    if segment.size > settings.segment_bytes - size or segment.is_index_full(settings.segment_index_bytes):
        return True
    has_times = segment.first_timestamp >= 0 and header.max_timestamp >= 0
    waited_ms = header.max_timestamp - segment.first_timestamp if has_times else now_ms - segment.created_ms
    return waited_ms > _age_max_ms(settings) - jitter_ms


def _age_max_ms(settings: TopicSettings) -> int:
    """A record that is to be compacted in time must not stay in the active segment for longer."""
    lag_ms = settings.max_compaction_lag_ms if settings.is_compacted else settings.segment_ms
    return min(settings.segment_ms, lag_ms)
