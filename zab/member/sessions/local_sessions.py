"""Sessions that one member alone knows: local ones, and those of read-only mode.

No transaction begins or ends them, and the leader does not watch over them: the member that gave them out does, by a
clock of its own. They own no ephemerals, they move nowhere, and they end with the process. From one role to the next
the member keeps them: whoever comes back to it in time has its session still.

Without localSessionsEnabled they are of read-only mode, and over as soon as that is (`read_only`).

Not here: how a connection gets one (`sessions`), what it may ask for (`apart`), and expiry itself (`session.tracker`).
"""

from __future__ import annotations

from collections.abc import Iterator

from session.identity import SessionId
from session.tracker import SessionTracker


class LocalSessions:
    """Those of one member. `interval_ms` is the width of an expiration bucket."""

    def __init__(self, interval_ms: int = 1000, now: int = 0) -> None:
        self.timeouts: dict[SessionId, int] = {}
        """All of them, with the timeout of each (ms)."""
        self._tracker = SessionTracker(interval_ms, now)

    @property
    def next_deadline(self) -> int:
        """When `expired` is to be called again, if there are any."""
        return self._tracker.next_deadline

    def begin(self, session: SessionId, timeout_ms: int, now: int) -> None:
        """A client has this session from now on."""
        self.timeouts[session] = timeout_ms
        self._tracker.track(session, timeout_ms, now)

    def touch(self, session: SessionId, timeout_ms: int, now: int) -> bool:
        """Its client was heard. False: it is over, or no session of this member."""
        return self._tracker.touch(session, timeout_ms, now)

    def end(self, session: SessionId) -> None:
        """It is over, or global from now on. Nothing happens if it is not here."""
        if self.timeouts.pop(session, None) is not None:
            self._tracker.remove(session)

    def expired(self, now: int) -> list[SessionId]:
        """Those that were silent for their whole timeout; they are over."""
        expired = self._tracker.expired(now)
        for session in expired:
            self.end(session)
        return expired

    def resume(self, now: int) -> None:
        """Clients are served again, after a time in which nobody could be heard: each has its whole timeout."""
        self._tracker.restart(self.timeouts, now)

    def clear(self) -> None:
        """All are over."""
        for session in list(self.timeouts):
            self.end(session)

    def sets(self) -> Iterator[tuple[int, list[SessionId]]]:
        """As a tracker's: when each of them would expire."""
        return self._tracker.sets()
