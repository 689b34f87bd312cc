"""Directories that are given a snapshot from elsewhere."""

from __future__ import annotations

from datatree.log.epochs import load_member, save_epochs
from datatree.recovery.recover import recover
from datatree.recovery.restoring import (
    Taken,
    drop_foreign,
    take_staged,
)
from tests.datatree.histories import Author, fresh_log, snapshot, synchronized
from zab.host.storage.disk import RealDisk
from zab.simulator.world.disk import FaultyDisk

SENT = "version-1/snapshot.{:x}.restore.tmp"


def sent(disk: FaultyDisk | RealDisk, author: Author) -> str:
    """The file that comes over the wire, of the state that the author has reached."""
    other = FaultyDisk()
    path = snapshot(other, author.tree, author.last[1])
    return received(disk, other.read(path), author.last[0])


def received(disk: FaultyDisk | RealDisk, data: bytes, zxid: int) -> str:
    path = SENT.format(zxid)
    file = disk.open_append(path, create=True)
    file.write(data)
    file.sync()
    file.close()
    return path


def lived(author: Author, *, accepted: int = 3) -> FaultyDisk:
    """A member with a history of several files and a snapshot, which has accepted an epoch that it never had."""
    disk = FaultyDisk()
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=600)
    for number in range(8):
        log.append(author.write(2))
        if number == 4:
            snapshot(disk, author.tree, author.last[1])
    log.close()
    save_epochs(disk, accepted, 1)
    return disk


def given(author: Author, **options: int) -> tuple[FaultyDisk, str]:
    """A member that has gone past a state, and that state, as it is sent to it."""
    early = Author(seed=9)
    early.write(3)
    disk = lived(author, **options)
    return disk, sent(disk, early)


def lineage_of(disk: FaultyDisk) -> bytes:
    member = load_member(disk)
    assert member is not None
    return member.lineage


def start(disk: FaultyDisk) -> Taken | None:
    assert not drop_foreign(disk)
    return take_staged(disk, 1)


def is_old(disk: FaultyDisk, author: Author) -> bool:
    recovered = recover(disk, 1)
    assert (recovered.amnesiac, recovered.damage) == (False, [])
    return recovered.last == author.last
