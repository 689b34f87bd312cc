"""Files that are older than they are."""

from datatree.snapshot import snapshot_files, snapshot_path
from tests.datatree.histories import Author, fresh_log, snapshot
from zab.simulator.world.disk import FaultyDisk


def aged(segment_bytes: int = 900) -> tuple[FaultyDisk, Author, object]:
    """A member with five snapshots, the second newest of them damaged."""
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=segment_bytes)
    for number in range(60):
        log.append(author.write(1))
        if number % 12 == 11:
            log.set_mark(author.last[0])
            snapshot(disk, author.tree, author.last[1])
    disk.flip(snapshot_path(snapshot_files(disk)[3]), 8 * 100)
    return disk, author, log
