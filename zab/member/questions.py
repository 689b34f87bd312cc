"""What members ask each other and is not answered at once: syncs, and sessions that come to another server.

    a sync            of this member's clients (link None) or of a learner: a quorum has to confirm the leader, and what
                      was committed by then has to be applied
    an owner          a learner asks for a session that lives: it is told so at the end of a turn, when all that came
                      through older connections of that session is proposed, and up to where it is (`fence`)
    a missing one     of a session that does not live here only a leader that a quorum has confirmed may say that it is
                      over: under the next leader it may live. So is a doubted one, which a client of this member asks

Not here: the sessions (`sessions`), and the confirmation (`zab.confirmation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from zab.ids import Link
from zab.member.connection import ClientConnection


@attrs.define
class Round:
    """What one confirmation answers; learners' questions with their link and tag."""

    syncs: list[tuple[Link | None, int]]
    doubted: Sequence[ClientConnection]
    missing: list[tuple[Link, int]]


class Questions:
    """Those of a role; with it they end."""

    def __init__(self) -> None:
        self._syncs: list[tuple[Link | None, int]] = []
        self._missing: list[tuple[Link, int]] = []
        self.owners: list[tuple[Link, int]] = []
        """Whom a verdict may be told, with its tag: a turn takes them when all is proposed."""
        self.is_round_wanted = False
        """A confirmation is needed that has not begun."""
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
        self.owners.clear()
        self.is_round_wanted = False
        self._rounds.clear()
        self.confirmed_syncs.clear()

    # ------------------------------------------------------------------------------------------------------ the leader

    def sync(self, link: Link | None, tag: int) -> None:
        """Clients of this member, or of a learner, wait for a sync."""
        self._syncs.append((link, tag))
        self.is_round_wanted = True

    def missing(self, link: Link, tag: int) -> None:
        """A learner asks for a session that is not alive here."""
        self._missing.append((link, tag))
        self.is_round_wanted = True

    def owner(self, link: Link, tag: int) -> None:
        """The session that a learner asks for is its own now."""
        self.owners.append((link, tag))

    def begin_round(self, doubted: Sequence[ClientConnection]) -> int:
        """The token of the confirmation that these, and what was asked since the last one, need."""
        self.is_round_wanted = False
        self._token += 1
        self._rounds[self._token] = Round(self._syncs, doubted, self._missing)
        self._syncs, self._missing = [], []
        return self._token

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
