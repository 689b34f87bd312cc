"""The producer snapshots of a log: which there are, and what the storage has to do with them.

One is written at each roll, at a clean end, and by recovery. The newest one outlives what its producers wrote
(KAFKA-7190).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from datatree.log.disk import Disk
from zab.partition.log.file_effects import Remove, Replace
from zab.partition.log.paths import SNAPSHOT, path_of
from zab.partition.log.producers import Producers
from zab.partition.log.replay import newest_snapshot
from zab.partition.log.snapshots import pack_snapshot


@attrs.define
class ProducerSnapshots:
    """What one directory has. offsets: what each is named after, ascending."""

    directory: str
    offsets: list[int]

    def write(self, offset: int, producers: Producers) -> Replace:
        """Write the producers of the batches below `offset`, which is where the log ends."""
        if not self.offsets or self.offsets[-1] != offset:
            self.offsets.append(offset)
        return Replace(self._path(offset), pack_snapshot(producers.states))

    def newest(self, disk: Disk, end: int) -> tuple[int, Producers]:
        """(offset, producers) of the newest whole one at or below `end`; (0, none) if there is none. Raises OSError."""
        return newest_snapshot(disk, self.directory, self.offsets, end)

    def drop_above(self, end: int) -> list[Remove]:
        """Drop those above `end`."""
        dropped = []
        while self.offsets and self.offsets[-1] > end:
            dropped.append(Remove(self._path(self.offsets.pop())))
        return dropped

    def drop(self, offsets: Sequence[int]) -> list[Remove]:
        """Drop these, except the newest of all."""
        gone = sorted(set(self.offsets[:-1]).intersection(offsets))
        self.offsets = [offset for offset in self.offsets if offset not in gone]
        return [Remove(self._path(offset)) for offset in gone]

    def take_up_to(self, offset: int) -> list[str]:
        """Forget those up to `offset`, except the newest of all. Their paths."""
        taken = []
        while len(self.offsets) > 1 and self.offsets[0] <= offset:
            taken.append(self._path(self.offsets.pop(0)))
        return taken

    def _path(self, offset: int) -> str:
        return path_of(self.directory, offset, SNAPSHOT)
