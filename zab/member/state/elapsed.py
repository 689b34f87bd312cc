"""How long ago something was written, by the monotonic clock.

The times in znodes are wall-clock times of the leader of that time: they jump with its clock, and with every change of
leader. So this member takes notes: at this monotonic time it had applied everything up to that zxid. A write at or
before the zxid of a note is at least as old as that note.

Invariant: an age is never too high. It is too low by at most about `NOTE_MS` and one part in `PRECISION`: when there
are `NOTES_COUNT_MAX` notes, those that are closer together than that are dropped. Nothing is known about the time
before the first note, so ages start again with a new leader.
"""

from __future__ import annotations

from bisect import bisect_left

NOTE_MS = 1_000
NOTES_COUNT_MAX = 4_096
PRECISION = 128
"""Notes that are kept for each factor of 2.7 in age: 2,200 for a year."""


class Ages:
    """The notes of one member. Times are monotonic ms."""

    def __init__(self) -> None:
        self._zxids: list[int] = []
        self._times: list[int] = []
        self.next_note = 0
        """When the next note is due."""

    def note(self, zxid: int, now: int) -> None:
        """Note that everything up to `zxid` is applied at `now`, if a note is due."""
        if now < self.next_note:
            return
        self.next_note = now + NOTE_MS
        if self._zxids and zxid == self._zxids[-1]:
            return
        self._zxids.append(zxid)
        self._times.append(now)
        if len(self._zxids) >= NOTES_COUNT_MAX:
            self._thin(now)

    def _thin(self, now: int) -> None:
        """Drop the notes between two that are close together for their age."""
        zxids, times = self._zxids[:1], self._times[:1]
        for zxid, time, newer in zip(self._zxids[1:], self._times[1:], [*self._times[2:], now], strict=True):
            if newer - times[-1] > (now - newer) // PRECISION:
                zxids.append(zxid)
                times.append(time)
        self._zxids, self._times = zxids, times

    def age_ms(self, zxid: int, now: int) -> int:
        """The least time since the write of this zxid."""
        at = bisect_left(self._zxids, zxid)
        return now - self._times[at] if at < len(self._times) else 0
