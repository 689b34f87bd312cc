"""What compaction (`cleaner`) does to a log: it writes beside it, then puts what it wrote into the place of segments.

write, drop     a `.cleaned` file, which does not belong to the log
has             whether segments are still as they were read
replace         puts the new segment into their place
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from zab.partition.log.cleaner import CleanStep, Source
from zab.partition.log.file_effects import Remove
from zab.partition.log.outbox import Outbox
from zab.partition.log.paths import CLEANED, LOG, path_of
from zab.partition.log.producer_snapshots import ProducerSnapshots
from zab.partition.log.segment import Segment
from zab.partition.log.segment_effects import cleaned_effects, replace_effects
from zab.partition.log.segments import Segments


@attrs.frozen
class Compaction:
    """Replaces segments of one log, whose segments, effects and snapshots these are."""

    directory: str
    segments: Segments
    outbox: Outbox
    snapshots: ProducerSnapshots

    def first_timestamp_of(self, segment: Segment) -> int:
        """The largest timestamp of its first batch. Raises OSError, BatchError."""
        return self.segments.first_timestamp_of(segment)

    def has(self, sources: Sequence[Source]) -> bool:
        """Whether these segments are still in the log, as they were."""
        known = set(map(id, self.segments.closed))
        return all(id(each.segment) in known and each.segment.size == each.size for each in sources)

    def write(self, step: CleanStep) -> None:
        """Write a part of a compacted segment beside the log."""
        self.outbox.add(*cleaned_effects(self._path(step.base_offset), step.position, step.data))

    def drop(self, base_offset: int) -> None:
        """Remove what was written beside the log."""
        self.outbox.add(Remove(self._path(base_offset)))

    def replace(self, sources: Sequence[Source], new: Segment) -> list[str]:
        """Put a compacted segment, which is written, into the place of these. Until the storage confirms that, none
        of its batches are read. Returns the paths that mean other files from now on, or none."""
        assert self.has(sources)
        olds = [each.segment for each in sources]
        for old in olds:
            self.outbox.reopen(old)
        gone = self.snapshots.drop([old.base_offset for old in olds[1:]])
        self.outbox.add_replacement(new, *replace_effects(olds, new), *gone)
        new.is_indexed = True
        new.offsets = new.times = None
        self.segments.replace(olds, new)
        return [old.path for old in olds]

    def _path(self, base_offset: int) -> str:
        return path_of(self.directory, base_offset, LOG) + CLEANED
