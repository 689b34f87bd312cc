"""Why a member serves nobody, in words for operators and clients.

    reason(peer)                          one or two sentences: what is missing, and what to do
    why_not_serving(peer, reads=False)    the same after `no service: `, as in the journal and in four-letter words
    Waiting(now).turn(now, peer, reads)   the same when it is due again; else None

`reads`: read-only clients are served (`zab.member.requests.read_only`). The reason is given after `WAITING_MS_MIN`
without service, then repeatedly, each time after twice as long, up to `WAITING_MS_MAX`.

Not here: the state that is reported (`zab.protocol.election`, `zab.protocol.discovery`); refusals of links
(`zab.wire.handshake`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zab.protocol.election import tells_of_history
from zab.protocol.peer_state import PeerState
from zab.protocol.states import LOOKING, NOTHING
from zab.quorum.ids import ServerId
from zab.service.disk_space import EXHAUSTED

WAITING_MS_MIN: Final = 10_000
WAITING_MS_MAX: Final = 60_000

_FIRST_START = (
    "No member that was heard has any data, so this is a first start, for which every voter has to be there once. "
    "Where a majority never had data, it can begin without the others: stop it, make an empty file `initialize` in the "
    "dataDir of each, and start it again"
)
_ADD = (
    "add it with `zab reconfig add`, which reconfigEnabled=true in the zoo.cfg of all members allows; or stop all "
    "members, write its server line into the file of each, and start all; or correct its myid"
)
_MYID = "two have this id, and the other one is at the address of its server line; see the myid of this member"
_LOST = "no data, or lost it, and is no part of a quorum until it has been synchronized"
_THEIRS_LOST = "no data, or lost it, and are no part of a quorum until they have been synchronized"
_OTHER = "another history, as after a restore that did not reach all members"


class Waiting:
    """When to report next that a member serves nobody."""

    def __init__(self, now: int) -> None:
        self.begin(now)

    def begin(self, now: int) -> None:
        """The member does not serve from now on."""
        self._pause_ms = WAITING_MS_MIN
        self._due = now + self._pause_ms

    def turn(self, now: int, peer: PeerState, *, reads: bool) -> str | None:
        """The reason, if it is due; for a member that does not serve."""
        if now < self._due:
            return None
        self._pause_ms = min(2 * self._pause_ms, WAITING_MS_MAX)
        self._due = now + self._pause_ms
        return why_not_serving(peer, reads=reads)


def why_not_serving(peer: PeerState, *, reads: bool = False) -> str:
    """The reason, after `no service: `."""
    return f"no service{' but to readers' if reads else ''}: {reason(peer)}"


def reason(peer: PeerState) -> str:
    """What a member that does not serve waits for."""
    if peer.space is EXHAUSTED:
        return "this member's disk is full, and it takes part in nothing until there is room"
    if peer.state != LOOKING:
        if peer.leader == peer.settings.sid:
            return f"this member is about to lead epoch {peer.accepted_epoch}, and waits for a quorum"
        low = "this member's disk is nearly full, and it waits while others have room; it"
        who = low if peer.is_low else "this member"
        return f"{who} is not synchronized with server {peer.leader} yet, which is to lead"
    voters, election = peer.quorum.voters, peer.election
    votes = {**election.out_of_election, **election.received}
    votes.pop(peer.settings.sid, None)
    strange_to, taken_at = election.strange_to & peer.servers, election.taken_at & peer.servers
    missing = voters - election.heard - strange_to - taken_at - {peer.settings.sid}
    parts = [f"{_servers(missing)} not heard"] if missing else []
    if taken_at:
        parts.append(f"{_servers(taken_at, 'hears', 'hear')} another process as server {peer.settings.sid}: {_MYID}")
        return "; ".join(parts)
    if strange_to:
        parts.append(f"{_servers(strange_to, 'does', 'do')} not know server {peer.settings.sid}: {_ADD}")
        return "; ".join(parts)
    has_lived = not election.may_found or any(map(tells_of_history, votes.values()))
    if peer.amnesiac and peer.is_voter and peer.holds == NOTHING and not has_lived:
        if peer.marked:
            parts.append("too few with a file `initialize` were heard for a quorum")
        return f"{'; '.join(parts) or 'an election is under way'}. {_FIRST_START}"
    if peer.told_of_history:
        parts.append(f"{_servers(peer.told_of_history, 'tells', 'tell')} of a history, beside which none begins")
    others = voters & election.of_another_lineage
    if others:
        parts.append(_servers(others, f"has {_OTHER}", f"have {_OTHER}"))
    empty = {sid for sid, vote in votes.items() if vote.amnesiac}
    if empty:
        parts.append(_servers(empty, f"has {_LOST}", f"have {_THEIRS_LOST}"))
    if peer.amnesiac and peer.is_voter:
        parts.append(f"this member has {_LOST}")
    return f"there is no quorum; {'; '.join(parts) or 'an election is under way'}"


def _servers(sids: Collection[ServerId], one: str = "was", more: str = "were") -> str:
    names = ", ".join(map(str, sorted(sids)))
    return f"server {names} {one}" if len(sids) == 1 else f"servers {names} {more}"
