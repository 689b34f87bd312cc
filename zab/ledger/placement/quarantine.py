"""Bookies that fail often are not chosen for a while.

A bookie with `errors` errors in `window_ms` is in quarantine for `quarantine_ms`. What counts as an error is the
caller's business. Errors are remembered only as long as they matter.
"""

from __future__ import annotations

from collections import deque

from zab.ledger.entries.ids import BookieId


class Quarantine:
    """`errors` 0: nobody ever is in quarantine."""

    def __init__(self, errors: int, window_ms: int, quarantine_ms: int) -> None:
        self._errors = errors
        self._window_ms = window_ms
        self._quarantine_ms = quarantine_ms
        self._failed_at: dict[BookieId, deque[int]] = {}
        self._until: dict[BookieId, int] = {}

    def note_error(self, bookie: BookieId, now_ms: int) -> bool:
        """This bookie failed. True: it is in quarantine from now on."""
        if not self._errors:
            return False
        times = self._failed_at.setdefault(bookie, deque(maxlen=self._errors))
        times.append(now_ms)
        if len(times) < self._errors or times[0] <= now_ms - self._window_ms:
            return False
        del self._failed_at[bookie]
        self._until[bookie] = now_ms + self._quarantine_ms
        return True

    def ends_of(self, now_ms: int) -> dict[BookieId, int]:
        """The bookies in quarantine, with the time when each may be chosen again."""
        self._forget(now_ms)
        return dict(self._until)

    def _forget(self, now_ms: int) -> None:
        self._until = {bookie: until for bookie, until in self._until.items() if until > now_ms}
        self._failed_at = {
            bookie: times for bookie, times in self._failed_at.items() if times[-1] > now_ms - self._window_ms
        }
