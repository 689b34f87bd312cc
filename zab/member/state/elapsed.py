"""How long ago something was written, by a clock that nobody sets.

The times in znodes are wall-clock times of whoever led then: they jump with that clock, and with every change of the
leader. Here is measured instead: a note says up to which zxid this member had applied when, by its monotonic clock. Who
was written at or before the zxid of a note is at least as old as that note.

Invariant: an age is never too high. It is too low by at most about `NOTE_MS` and one part in `PRECISION`: when there
are `NOTES_COUNT_MAX` notes, those go that are closer together than that. Nothing is known of the time before the first
note, so ages begin anew with a new leader.
"""

from __future__ import annotations

from bisect import bisect_left

NOTE_MS = 1_000
NOTES_COUNT_MAX = 4_096
PRECISION = 128
"""So many notes are left for each factor of 2.7 in age: 2,200 for a year."""


class Ages:
    """Times are monotonic ms."""

    def __init__(self) -> None:
        self._zxids: list[int] = []
        self._times: list[int] = []
        self.next_note = 0
        """Before that a note changes nothing."""

    def note(self, zxid: int, now: int) -> None:
        """This member has applied everything up to `zxid`, and now it is `now`."""
        if self._zxids and (zxid == self._zxids[-1] or now < self.next_note):
            return
        self.next_note = now + NOTE_MS
        self._zxids.append(zxid)
        self._times.append(now)
        if len(self._zxids) >= NOTES_COUNT_MAX:
            self._thin(now)

    def _thin(self, now: int) -> None:
        """Leave out what lies between two notes that are close together for their age."""
        zxids, times = self._zxids[:1], self._times[:1]
        for zxid, time, newer in zip(self._zxids[1:], self._times[1:], [*self._times[2:], now], strict=True):
            if newer - times[-1] > (now - newer) // PRECISION:
                zxids.append(zxid)
                times.append(time)
        self._zxids, self._times = zxids, times

    def age_ms(self, zxid: int, now: int) -> int:
        """How long ago, at least, what is written at this zxid was written."""
        at = bisect_left(self._zxids, zxid)
        return now - self._times[at] if at < len(self._times) else 0
