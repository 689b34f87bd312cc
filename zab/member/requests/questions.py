"""Questions of members to the leader that are not answered at once: syncs, and sessions that move to another server.

    a sync            of this member's clients (route None) or of a learner: a quorum has to confirm the leader, and all
                      writes that had reached the leader by then have to be applied. So a client whose connection broke
                      sees, after a sync, the result of its earlier writes
    an owner          a learner asks for a live session: the leader answers at the end of a turn, when all writes from
                      older connections of that session are proposed, with their last zxid (`fence`)
    a missing one     a learner asks for a session that is not alive here: only a leader that a quorum has confirmed may
                      say that it is over, since it may be alive under the next leader. `doubted` are such questions of
                      this member's own clients

Syncs and owners come after the writes that reached the leader before them: `after` is the number of these writes
(`Intake.arrived_count`). A learner asks for a sync when all earlier writes have gone to the leader.

Not here: the sessions (`sessions`), and the confirmation (`zab.protocol.confirmation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import attrs

from zab.member.clients.connection import ClientConnection
from zab.quorum.ids import Route


@attrs.define
class Round:
    """The questions that one confirmation answers; those of learners with route and tag."""

    syncs: list[tuple[Route | None, int]]
    doubted: Sequence[ClientConnection]
    missing: list[tuple[Route, int]]


class Questions:
    """The questions of one role; they end with it."""

    def __init__(self) -> None:
        self._syncs: deque[tuple[Route | None, int, int]] = deque()
        self._missing: list[tuple[Route, int]] = []
        self._owners: deque[tuple[Route, int, int]] = deque()
        """Routes that may get an answer, with its tag."""
        self.is_any_asked = False
        """Whether the leader has questions that it has not begun to answer."""
        self._rounds: dict[int, Round] = {}
        self._token = 0
        self.newest_tag = 0
        """The newest tag of a confirmed sync."""
        self.confirmed_syncs: deque[tuple[int, int]] = deque()
        """Tags of confirmed syncs, and the zxids that have to be applied first."""

    def clear(self) -> None:
        """Drop all questions, since the role is over."""
        self._syncs.clear()
        self._missing.clear()
        self._owners.clear()
        self.is_any_asked = False
        self._rounds.clear()
        self.confirmed_syncs.clear()

    # ------------------------------------------------------------------------------------------------------ the leader

    def sync(self, route: Route | None, tag: int, after: int) -> None:
        """Add a sync of clients of this member, or of a learner."""
        self._syncs.append((route, tag, after))
        self.is_any_asked = True

    def missing(self, route: Route, tag: int) -> None:
        """Add a learner's question for a session that is not alive here."""
        self._missing.append((route, tag))
        self.is_any_asked = True

    def owner(self, route: Route, tag: int, after: int) -> None:
        """Add a learner's question for a session that it owns from now on."""
        self._owners.append((route, tag, after))
        self.is_any_asked = True

    def is_round_due(self, proposed: int) -> bool:
        """Whether a new confirmation is needed, when so many writes are proposed."""
        return bool(self._missing) or (bool(self._syncs) and self._syncs[0][2] <= proposed)

    def begin_round(self, doubted: Sequence[ClientConnection], proposed: int) -> int:
        """Begin a confirmation for these and for all questions since the last one. Returns its token."""
        self._token += 1
        self._rounds[self._token] = Round(list(self.due_syncs(proposed)), doubted, self._missing)
        self._missing = []
        return self._token

    def due_syncs(self, left: int) -> Iterator[tuple[Route | None, int]]:
        """Take the syncs before which all earlier writes have left the intake."""
        while self._syncs and self._syncs[0][2] <= left:
            route, tag, _ = self._syncs.popleft()
            yield route, tag

    def due_owners(self, proposed: int) -> Iterator[tuple[Route, int]]:
        """Take the owners that may be answered now. Called last in a turn."""
        while self._owners and self._owners[0][2] <= proposed:
            route, tag, _ = self._owners.popleft()
            yield route, tag
        self.is_any_asked = bool(self._syncs or self._missing or self._owners)

    def confirmed(self, token: int) -> Round:
        """The questions that waited for this confirmation; none if it belongs to an earlier role."""
        return self._rounds.pop(token, None) or Round([], (), [])

    # ------------------------------------------------------------------------------------------------- every member

    def wait(self, tag: int, zxid: int) -> None:
        """Finish the syncs of this tag once this zxid is applied. Tags rise."""
        assert tag > self.newest_tag
        self.newest_tag = tag
        self.confirmed_syncs.append((tag, zxid))

    def done(self, applied: int) -> list[int]:
        """Take the tags of the syncs that are done."""
        tags = []
        while self.confirmed_syncs and self.confirmed_syncs[0][1] <= applied:
            tags.append(self.confirmed_syncs.popleft()[0])
        return tags
