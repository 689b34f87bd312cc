"""The free space on the disk of a server, and the reserve that it keeps for when space is low (C5 full disks).

    AMPLE        the reserve exists: a file on the disk of the log
    LOW          less than `low_bytes` were free besides the reserve. It is removed, which makes room for what still has
                 to be written. The level ends when twice `low_bytes`, and a new reserve, are free
    EXHAUSTED    less than a quarter of the reserve is free. The level ends when half of it is

So a few bytes never make a level begin and end repeatedly. The disk is checked when the service asks, and after appends
that could have changed the level: so no burst of writes between two checks goes unnoticed. A server that starts with
less than `low_bytes` removes the reserve before it recovers.

If data and log are on two disks, the one with less space counts.

Not here: the effect of a level on the service (of an ensemble: `zab.protocol.disk_space`); recovery, which needs no
free space.
"""

from __future__ import annotations

from enum import IntEnum

from datatree.log.disk import Disk, is_full, is_out_of_descriptors
from datatree.log.transaction_log import RESERVE


class Space(IntEnum):
    """How much room there is on the disk of a server."""

    EXHAUSTED = 0
    LOW = 1
    AMPLE = 2


EXHAUSTED, LOW, AMPLE = Space


class DiskSpace:
    """The level of one disk. Belongs to the thread that writes the log."""

    def __init__(self, disk: Disk, low_bytes: int, reserve_bytes: int) -> None:
        """With `low_bytes` 0 the level is always AMPLE."""
        self._disk = disk
        self._low_bytes = low_bytes
        self._reserve_bytes = reserve_bytes
        self._unseen_bytes = 0
        """Bytes appended since the disk was last checked."""
        self.level: Space = AMPLE

    def wrote(self, count: int) -> bool:
        """Count appended bytes. True: check the disk again."""
        self._unseen_bytes += count
        return self._low_bytes > 0 and self._unseen_bytes >= self._reserve_bytes // 4

    def look(self) -> Space | None:
        """Check the disk; the level, if it has changed. Raises OSError: final."""
        self._unseen_bytes = 0
        if not self._low_bytes:
            return None
        before = self.level
        self.level = self._seen()
        return self.level if self.level != before else None

    def _seen(self) -> Space:
        free = self._disk.free_bytes()
        has_reserve = self._disk.exists(RESERVE)
        if self.level == AMPLE:
            if free >= self._low_bytes + (0 if has_reserve else self._reserve_bytes):
                return self._with_reserve(has_reserve)
            release(self._disk)
            free = self._disk.free_bytes()
        elif free >= room_bytes(self._low_bytes, self._reserve_bytes):
            return self._with_reserve(has_reserve)
        is_exhausted = free < self._reserve_bytes // (2 if self.level == EXHAUSTED else 4)
        return EXHAUSTED if is_exhausted else LOW

    def _with_reserve(self, has_reserve: bool) -> Space:
        if not has_reserve:
            try:
                self._disk.preallocate(RESERVE, self._reserve_bytes)
            except OSError as error:
                if is_out_of_descriptors(error):
                    return self.level  # this says nothing about the disk; the next look may succeed
                if not is_full(error):
                    raise
                release(self._disk)  # another writer was faster
                return LOW
        return AMPLE


def release(disk: Disk) -> None:
    """Remove the reserve."""
    if disk.exists(RESERVE):
        disk.remove(RESERVE)


def room_bytes(low_bytes: int, reserve_bytes: int) -> int:
    """The space that preallocation has to leave free."""
    return 2 * low_bytes + reserve_bytes if low_bytes else 0


def make_room(disk: Disk, low_bytes: int) -> None:
    """Before recovery: remove the reserve if space is low."""
    if disk.free_bytes() < low_bytes:
        release(disk)
