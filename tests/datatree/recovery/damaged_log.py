"""A log that is damaged in one place."""

from __future__ import annotations

from tests.datatree.histories import Author, fresh_log, synchronized
from zab.simulator.world.disk import FaultyDisk


def damaged(seed: int = 1) -> FaultyDisk:
    """A member whose log has a hole in its first file."""
    disk, author = FaultyDisk(), Author(seed=seed)
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=900)
    for _ in range(12):
        log.append(author.write(2))
    log.close()
    path = log.segments[0].path
    disk.flip(path, 8 * (disk.size(path) // 2))
    return disk
