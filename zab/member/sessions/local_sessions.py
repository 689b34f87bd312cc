"""Local sessions, which only one member knows, including those of read-only mode.

No transaction begins or ends them, and the leader does not track them: the member that created them does, by its own
clock. They own no ephemerals, do not move to other servers, and end with the process. The member keeps them when its
role changes: a client that comes back in time still has its session.

Without localSessionsEnabled they exist only in read-only mode, and end with it (`read_only`).

Not here: how a connection gets one (`sessions`), its requests (`local_session_requests`), and expiry itself
(`session.tracker`).
"""

from __future__ import annotations

from collections.abc import Iterator

from session.identity import SessionId
from session.tracker import SessionTracker


class LocalSessions:
    """The local sessions of one member. `interval_ms` is the width of an expiration bucket."""

    def __init__(self, interval_ms: int = 1000, now: int = 0) -> None:
        self.timeouts: dict[SessionId, int] = {}
        """All local sessions, with their timeouts (ms)."""
        self._tracker = SessionTracker(interval_ms, now)

    @property
    def next_deadline(self) -> int:
        """When to call `expired` again, if there are sessions."""
        return self._tracker.next_deadline

    def begin(self, session: SessionId, timeout_ms: int, now: int) -> None:
        """Begin a session."""
        self.timeouts[session] = timeout_ms
        self._tracker.track(session, timeout_ms, now)

    def touch(self, session: SessionId, timeout_ms: int, now: int) -> int:
        """Note that its client was heard, like `SessionTracker.touch`. 0: it is over, or no session of this member."""
        return self._tracker.touch(session, timeout_ms, now)

    def end(self, session: SessionId) -> None:
        """Forget a session that is over, or global from now on. No-op if it is not here."""
        if self.timeouts.pop(session, None) is not None:
            self._tracker.remove(session)

    def expired(self, now: int) -> list[SessionId]:
        """End and return the sessions that were silent for their whole timeout."""
        expired = self._tracker.expired(now)
        for session in expired:
            self.end(session)
        return expired

    def resume(self, now: int) -> None:
        """Give each session its whole timeout, since clients are served again after a time in which none could be
        heard."""
        self._tracker.restart(self.timeouts, now)

    def clear(self) -> None:
        """End all sessions."""
        for session in list(self.timeouts):
            self.end(session)

    def sets(self) -> Iterator[tuple[int, list[SessionId]]]:
        """When each session would expire, like `SessionTracker.sets`."""
        return self._tracker.sets()
