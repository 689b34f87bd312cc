"""What recovery found in the files of a log, and what a log begins with."""

from __future__ import annotations

import attrs

from zab.partition.log.epoch_cache import EpochCache
from zab.partition.log.producers import Producers
from zab.partition.log.segment import Segment


@attrs.frozen
class LogContents:
    """What the files of a log hold, as recovery found it, or nothing."""

    segments: list[Segment]
    log_start: int
    high_watermark: int
    synced_end: int
    epochs: EpochCache = attrs.Factory(EpochCache)
    producers: Producers = attrs.Factory(Producers)
    snapshots: list[int] = attrs.Factory(list)
    """The offsets of the producer snapshots, ascending."""
