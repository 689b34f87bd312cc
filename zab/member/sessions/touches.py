"""Touches: a session is touched when its client was heard, and the time that it may be silent begins again.

All input of a connection touches its session, unless it is touched already (`touched_until`):

    on the leader, and local sessions    touched for as long as it stays in its expiration bucket
    global sessions on a learner         touched until it is reported to the leader

If the session is touched in another way, its connection is taken for untouched again. A learner reports touched
sessions in its answer to each ping, and in the next turns if there are too many for one message. An observer master
reports those of its observers with its own.

Not here: the clock of expiry (`session.tracker`), and what follows when a session ends (`sessions`).
"""

from __future__ import annotations

from typing import Any, Final

from session.tracker import SessionTracker, TouchTable
from zab.member.clients.connection import NEVER, ClientConnection, Clients, Stage
from zab.member.sessions.local_sessions import LocalSessions

TOUCHED_COUNT_MAX: Final = 4096
"""How many touched sessions a message to the leader has, and a turn sends: they are read in a few milliseconds."""


class Touches:
    """Which sessions were touched, on the leader or to be reported to it."""

    def __init__(self, clients: Clients, local: LocalSessions) -> None:
        self._clients = clients
        self._local = local
        self._tracker: SessionTracker | None = None
        self._table = TouchTable()
        self.has_untold = False
        """Whether a learner that has answered a ping has more touched sessions to report in the next turns."""

    # ----------------------------------------------------------------------------------------------------------- roles

    def lead(self, tracker: SessionTracker) -> None:
        """Touch the global sessions of the leader, which are in `tracker`."""
        self._tracker = tracker

    def drop_role(self) -> None:
        """Drop what was not reported: the next leader begins with the full timeout of each session."""
        self._tracker = None
        self._table = TouchTable()
        self.has_untold = False

    # ------------------------------------------------------------------------------------------------- on every member

    def touch(self, connection: ClientConnection, now: int) -> None:
        """Touch the session of a connection that has sent something."""
        tracker = self._local if connection.is_local else self._tracker
        if tracker is not None:
            connection.touched_until = tracker.touch(connection.session, connection.timeout_ms, now)
        else:
            self._table.touch(connection.session, connection.timeout_ms)
            connection.touched_until = NEVER

    def touch_all(self, now: int) -> None:
        """Touch all sessions, since no client was read from for a while."""
        served = [
            connection
            for connection in self._clients.by_session.values()
            if connection.stage is _SERVED and not connection.closing
        ]
        if self._tracker is None:
            self._table.touch_all({each.session: each.timeout_ms for each in served if not each.is_local})
            served = [connection for connection in served if connection.is_local]
        for connection in served:
            self.touch(connection, now)

    # ------------------------------------------------------------------------------------------------------ the leader

    def learner_touched(self, rows: list[list[Any]], now: int) -> None:
        """Touch the sessions that a learner has heard from: rows of session and timeout (ms), as received."""
        assert self._tracker is not None
        by_session = self._clients.by_session
        for session, timeout_ms in rows:
            self._tracker.touch(session, max(0, timeout_ms), now)
            if session in by_session:
                by_session[session].touched_until = 0

    # ------------------------------------------------------------------------------------------------------- a learner

    def touched_elsewhere(self, rows: list[list[Any]]) -> None:
        """Touch the sessions that an observer of this master has heard from: they are reported to the leader with the
        others."""
        by_session = self._clients.by_session
        for session, timeout_ms in rows:
            self._table.touch(session, max(0, timeout_ms))
            if session in by_session:
                by_session[session].touched_until = 0

    def take(self) -> list[list[int]]:
        """Take the rows of session and timeout (ms) for one message to the leader."""
        touched, by_session = self._table.drain(TOUCHED_COUNT_MAX), self._clients.by_session
        for session in touched:
            if session in by_session:
                by_session[session].touched_until = 0
        self.has_untold = bool(self._table)
        return list(map(list, touched.items()))

    def drop_untold(self) -> None:
        """Report nothing more: there is no leader."""
        self.has_untold = False


_SERVED = Stage.SERVED
