"""What members ask each other and is not answered at once: syncs, and sessions that come to another server.

    a sync            of this member's clients (route None) or of a learner: a quorum has to confirm the leader, and all
                      writes that had reached the leader by then have to be applied. So a client whose connection broke
                      sees after a sync what becomes of the writes before it
    an owner          a learner asks for a session that lives: it is told so at the end of a turn, when all that came
                      through older connections of that session is proposed, and up to where it is (`fence`)
    a missing one     of a session that does not live here only a leader that a quorum has confirmed may say that it is
                      over: under the next leader it may live. So is a doubted one, which a client of this member asks

Both come after the writes that reached the leader before them: `after` is how many these are, of all that ever came
(`Intake.arrived_count`). A learner asks for a sync when what came before it has gone to the leader.

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
    """What one confirmation answers; learners' questions with their route and tag."""

    syncs: list[tuple[Route | None, int]]
    doubted: Sequence[ClientConnection]
    missing: list[tuple[Route, int]]


class Questions:
    """Those of a role; with it they end."""

    def __init__(self) -> None:
        self._syncs: deque[tuple[Route | None, int, int]] = deque()
        self._missing: list[tuple[Route, int]] = []
        self._owners: deque[tuple[Route, int, int]] = deque()
        """Whom a verdict may be told, with its tag."""
        self.is_any_asked = False
        """Of the leader, who has not begun to answer all of them."""
        self._rounds: dict[int, Round] = {}
        self._token = 0
        self.newest_tag = 0
        """Of the syncs that are confirmed."""
        self.confirmed_syncs: deque[tuple[int, int]] = deque()
        """Tags, and the zxids that have to be applied first."""

    def clear(self) -> None:
        """The role is over."""
        self._syncs.clear()
        self._missing.clear()
        self._owners.clear()
        self.is_any_asked = False
        self._rounds.clear()
        self.confirmed_syncs.clear()

    # ------------------------------------------------------------------------------------------------------ the leader

    def sync(self, route: Route | None, tag: int, after: int) -> None:
        """Clients of this member, or of a learner, wait for a sync."""
        self._syncs.append((route, tag, after))
        self.is_any_asked = True

    def missing(self, route: Route, tag: int) -> None:
        """A learner asks for a session that is not alive here."""
        self._missing.append((route, tag))
        self.is_any_asked = True

    def owner(self, route: Route, tag: int, after: int) -> None:
        """The session that a learner asks for is its own now."""
        self._owners.append((route, tag, after))
        self.is_any_asked = True

    def is_round_due(self, proposed: int) -> bool:
        """Whether a confirmation is needed that has not begun, once so many writes are proposed."""
        return bool(self._missing) or (bool(self._syncs) and self._syncs[0][2] <= proposed)

    def begin_round(self, doubted: Sequence[ClientConnection], proposed: int) -> int:
        """The token of the confirmation that these, and what was asked since the last one, need."""
        self._token += 1
        self._rounds[self._token] = Round(list(self.due_syncs(proposed)), doubted, self._missing)
        self._missing = []
        return self._token

    def due_syncs(self, left: int) -> Iterator[tuple[Route | None, int]]:
        """Those before which so many writes have left the intake: all that came before them."""
        while self._syncs and self._syncs[0][2] <= left:
            route, tag, _ = self._syncs.popleft()
            yield route, tag

    def due_owners(self, proposed: int) -> Iterator[tuple[Route, int]]:
        """Those that may be told now; the last ones that a turn looks at."""
        while self._owners and self._owners[0][2] <= proposed:
            route, tag, _ = self._owners.popleft()
            yield route, tag
        self.is_any_asked = bool(self._syncs or self._missing or self._owners)

    def confirmed(self, token: int) -> Round:
        """What waited for this confirmation; nothing, when it was asked for in an earlier role."""
        return self._rounds.pop(token, None) or Round([], (), [])

    # ------------------------------------------------------------------------------------------------- every member

    def wait(self, tag: int, zxid: int) -> None:
        """The syncs of this tag are done once this zxid is applied. Tags rise."""
        assert tag > self.newest_tag
        self.newest_tag = tag
        self.confirmed_syncs.append((tag, zxid))

    def done(self, applied: int) -> list[int]:
        """The tags of the syncs that are done."""
        tags = []
        while self.confirmed_syncs and self.confirmed_syncs[0][1] <= applied:
            tags.append(self.confirmed_syncs.popleft()[0])
        return tags
