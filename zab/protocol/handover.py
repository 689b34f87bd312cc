"""Hands the lead over to another voter, on request.

    leader                                            learners
      proposes nothing more, until all is committed
      and the heir has all of it on its disk;
      HANDOVER heir, and elects                 ->    elect, too; all but the heir leave the lead to others

Variables: `leading.heir`, and until when to wait for it; `makes_way`. Invariant: election and discovery require of the
heir all that they require of any leader. So a hand-over may fail, and another server then leads. A member that leaves
the lead to others takes it anyway if they elect a server that lags (`Peer`), and is a candidate again once it serves.

Limit: the heir has a tick to catch up. After that the leader continues, and says so.

Not here: who may ask for it, and how.
"""

from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.features import RECONFIGURATION
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import UP_TO_DATE, Following, Leading, LearnerHandler
from zab.protocol.states import BROADCAST
from zab.quorum.ids import ServerId

# --------------------------------------------------------------------------------------------------------- the leader


def hand_over(peer: PeerState, now: int, heir: ServerId) -> None:
    """Begin to hand over, or trace why not."""
    reason = why_not(peer, heir)
    if reason:
        peer.trace(f"the lead is not handed over to server {heir}: {reason}")
        return
    leading = peer.leading
    assert leading is not None
    leading.heir, leading.heir_until = heir, now + peer.settings.tick_ms
    peer.trace(f"the lead is to be handed over to server {heir} -> propose nothing more")


def why_not(peer: PeerState, heir: ServerId) -> str:
    """Why the lead cannot be handed over to this server now; empty if it can."""
    leading = peer.leading
    if leading is None:
        return "this server does not lead"
    if peer.phase is not BROADCAST or leading.renewal_wanted:
        return "this leader is not established, or about to renew its epoch"
    if heir == peer.settings.sid:
        return "it leads already"
    if heir not in peer.quorum.voters:
        return "it is no voter"
    if leading.heir is not None:
        return f"the lead is being handed over to server {leading.heir}"
    if peer.memberships.outstanding is not None:
        return "a reconfiguration is outstanding"
    handler = _handler_of_heir(leading, heir)
    if handler is None:
        return "it is not synchronized"
    if not handler.features & RECONFIGURATION:
        return "its version cannot take the lead over"
    return "its disk is nearly full" if handler.is_low else ""


def candidates(leading: Leading) -> list[LearnerHandler]:
    """The learners that could take the lead."""
    return [h for h in leading.at_least(UP_TO_DATE) if leading.counts(h) and not h.is_low]


def best(ready: list[LearnerHandler]) -> LearnerHandler:
    """The one of these with the longest history."""
    return max(ready, key=lambda h: (h.acked, h.sid))


def _handler_of_heir(leading: Leading, heir: ServerId) -> LearnerHandler | None:
    handler = leading.handler_of(heir)
    return handler if handler is not None and handler.stage >= UP_TO_DATE and leading.counts(handler) else None


def leader_try_to_hand_over(peer: PeerState, leading: Leading, heir: ServerId) -> None:
    """At the end of each step: hand over once the heir has everything."""
    assert leading.heir == heir
    assert peer.memberships.outstanding is None, "it was handed over before, or refused"
    handler = _handler_of_heir(leading, heir)
    if handler is None or peer.phase is not BROADCAST or min(peer.committed, handler.acked) < peer.history.last[0]:
        return
    links = tuple(h.link for h in leading.at_least(UP_TO_DATE) if h.features & RECONFIGURATION)
    peer.emit(fx.Send(links, msg.HandOver(heir)))
    peer.makes_way = True
    peer.look(f"the lead is handed over to server {heir}")


def leader_on_ping(peer: PeerState, now: int, leading: Leading) -> None:
    """Twice a tick: continue as leader if the heir is gone, or took too long."""
    heir = leading.heir
    if heir is None:
        return
    is_here = peer.phase is BROADCAST and _handler_of_heir(leading, heir) is not None
    if is_here and now < leading.heir_until:
        return
    leading.heir = None
    reason = "it did not have everything within a tick" if is_here else "it is not synchronized any more"
    peer.trace(f"the lead is not handed over to server {heir}: {reason}")


# -------------------------------------------------------------------------------------------------------- the learner


def learner_on_hand_over(peer: PeerState, now: int, following: Following, message: msg.HandOver) -> None:
    """The leader elects, and so does this member."""
    assert peer.leading is None
    peer.makes_way = message.heir != peer.settings.sid
    peer.look(f"leader {following.leader} hands the lead over to server {message.heir}")
