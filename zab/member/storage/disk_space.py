"""How much room is on the disk of a member, and the reserve that it keeps for when there is little (C5 full disks).

    AMPLE        the reserve is there: a file that holds `diskReserveBytes`, on the disk of the log
    LOW          less than `diskLowBytes` were free beside it: it is removed, and what it held is there for what has to
                 be written still. Over when twice `diskLowBytes`, and a new reserve, are free
    EXHAUSTED    less than a quarter of the reserve is free. Over when half of it is

So no level is left and entered again by the same few bytes. The disk is looked at when the member asks, once a tick,
and whenever so much was appended that a level may be over: no burst of writes gets past them between two ticks.
A member that starts with less than `diskLowBytes` removes the reserve before it recovers.

Where data and log are on two disks, the one with less room counts.

Not here: what a level means to the ensemble (`zab.protocol.disk_space`), and to recovery, which needs no free byte.
"""

from __future__ import annotations

from datatree.log.disk import Disk, is_full, is_out_of_descriptors
from datatree.log.transaction_log import RESERVE
from zab.protocol.states import AMPLE, EXHAUSTED, LOW, Space


class DiskSpace:
    """Of one disk. Belongs to the thread that writes the log."""

    def __init__(self, disk: Disk, low_bytes: int, reserve_bytes: int) -> None:
        """With `low_bytes` 0 there is always room."""
        self._disk = disk
        self._low_bytes = low_bytes
        self._reserve_bytes = reserve_bytes
        self._unseen_bytes = 0
        """What was appended since the disk was looked at."""
        self.level: Space = AMPLE

    def wrote(self, count: int) -> bool:
        """So much was appended. Whether to look again."""
        self._unseen_bytes += count
        return self._low_bytes > 0 and self._unseen_bytes >= self._reserve_bytes // 4

    def look(self) -> Space | None:
        """The level, if it is another one than before. Raises OSError: final."""
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
                    return self.level  # it says nothing of the disk; at the next look there may be one
                if not is_full(error):
                    raise
                release(self._disk)  # somebody else was faster
                return LOW
        return AMPLE


def release(disk: Disk) -> None:
    """Give up the reserve."""
    if disk.exists(RESERVE):
        disk.remove(RESERVE)


def room_bytes(low_bytes: int, reserve_bytes: int) -> int:
    """What has to stay free whatever is allocated ahead."""
    return 2 * low_bytes + reserve_bytes if low_bytes else 0


def make_room(disk: Disk, low_bytes: int) -> None:
    """Before recovery: give up the reserve if there is little room."""
    if disk.free_bytes() < low_bytes:
        release(disk)
