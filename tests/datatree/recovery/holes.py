"""Directories with holes in their logs, and twins without."""

from __future__ import annotations

from datatree.log.batch import Batch
from datatree.log.segment import log_files, log_path
from tests.datatree.histories import Author, fresh_log, snapshot, synchronized
from zab.simulator.world.disk import FaultyDisk

PIECE_BYTES = 300


def lived(seed: int = 1, *, snapshot_at: int | None = None, segment_bytes: int = 900) -> tuple[FaultyDisk, Author]:
    """A member with several files, all of it known to be durable; with a snapshot at that append, if one is named."""
    disk, author = FaultyDisk(), Author(seed=seed)
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=segment_bytes)
    for number in range(12):
        log.append(author.write(2))
        if number == snapshot_at:
            snapshot(disk, author.tree, author.last[1])
    log.close()
    return disk, author


def twin(disk: FaultyDisk) -> FaultyDisk:
    other = FaultyDisk()
    other.restore(disk.image())
    return other


def damage(disk: FaultyDisk, path: str, *at: int) -> FaultyDisk:
    for place in at:
        disk.flip(path, 8 * place)
    return disk


def lost(disk: FaultyDisk, *batches: Batch) -> FaultyDisk:
    """These batches of it cannot be read any more."""
    for batch in batches:
        [(path, at)] = [(path, at) for path in files(disk) if (at := disk.read(path).find(batch.raw)) >= 0]
        damage(disk, path, at + len(batch.raw) - 1)
    return disk


def files(disk: FaultyDisk) -> list[str]:
    return [log_path(first) for first in log_files(disk)]
