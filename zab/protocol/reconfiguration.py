"""Reconfiguration: what happens once another configuration is in the history, is committed, or is heard of.

    leader                                              learners, including those that the new configuration adds
      RECONFIG, a batch like others               ->    append, acknowledge
      quorums of both configurations have it:
      COMMIT                                      ->    the new configuration is in force
      hands the lead over if it is not in it

Variables: `memberships`, `quorum`, each handler's `observer`. Invariants: those of `zab.protocol.membership`; a leader
proposes no reconfiguration before the previous one is committed, and none of which no quorum follows it.

A server that no configuration names (an *unlisted server*) follows without a vote. So it has the whole history before
it counts.

A server that was down meanwhile may know none of the servers that decide now. So every vote carries the configuration
in force, and a server that elects by an older one elects again by the newer one. At every tick, a leader sends its
configuration unasked to the servers in its configurations that do not follow it. The receiver believes the servers of
the configurations that it knows, and any other server that has proven to belong to the ensemble: a committed
configuration is true, no matter who reports it. A member with a history passes it on, even before it is in that history
(B9 told configurations).

A member without history listens to one lineage at a time, since versions of two lineages cannot be compared: to the
first, until a server that leads or follows reports another one. So a server left over from a lineage that has ended
keeps no member away from the one that continues.

Not here: what a configuration is (`membership`), who may change it, and its text.
"""

from zab.protocol import broadcast, handover
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.features import RECONFIGURATION
from zab.protocol.membership import Membership
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import UP_TO_DATE, Following, Leading
from zab.protocol.states import BROADCAST, FOLLOWING, LOOKING, NOTHING, OBSERVING
from zab.quorum.ids import ServerId

# --------------------------------------------------------------------------------------------------------- the leader


def is_outstanding(peer: PeerState) -> bool:
    """Whether a reconfiguration is not committed yet: the next one has to wait."""
    return peer.memberships.outstanding is not None


def is_understood(peer: PeerState) -> bool:
    """Whether all connected members can handle a reconfiguration in their history. Later ones that cannot are not
    admitted."""
    leading = peer.leading
    assert leading is not None
    return leading.all_have(RECONFIGURATION)


def has_quorum_of(peer: PeerState, membership: Membership) -> bool:
    """Whether enough of its voters follow this leader, with the complete history and all promises."""
    leading = peer.leading
    assert leading is not None
    ready = {h.sid for h in leading.at_least(UP_TO_DATE) if not h.amnesiac} | _attached(leading)
    return membership.quorum.contains(ready | {peer.settings.sid})


def _attached(leading: Leading) -> set[ServerId]:
    """The observers that follow through masters and are confirmed. They have what their masters know to be committed,
    and follow the leader directly once they are to vote."""
    awaited = {attaching.route for attaching in leading.attaching}
    return {sid for route, sid in leading.attached.items() if route not in awaited}


def leader_tell_absent(peer: PeerState, leading: Leading) -> None:
    """At every tick, send the configuration in force to the servers of the configurations that do not follow."""
    assert leading.established, "before that nobody is told who leads"
    if not peer.memberships.is_any_in_history:
        return
    here = {h.sid for h in leading.handlers.values()} | set(leading.attached.values()) | {peer.settings.sid}
    for sid in sorted(peer.servers - here - peer.election.unreachable):
        peer.election.tell(sid, peer.standing())


def leader_after_change(peer: PeerState, now: int, leading: Leading) -> None:
    """Count the servers that decide now, and no others."""
    assert peer.leading is leading
    for handler in leading.handlers.values():
        handler.observer = handler.sid not in peer.quorum.voters
    if peer.phase is BROADCAST:
        broadcast.leader_try_to_commit(peer, now, leading)


def leader_make_way(peer: PeerState, now: int, leading: Leading) -> None:
    """At every ping: a leader that is no longer a voter hands the lead over to the voter with the longest history. Not
    immediately: the client that asked for the reconfiguration may be connected to this member, and is answered
    first."""
    if peer.is_voter or is_outstanding(peer) or peer.phase is not BROADCAST or leading.heir is not None:
        return
    ready = handover.candidates(leading)
    assert peer.settings.sid not in {h.sid for h in ready}
    if ready:
        handover.hand_over(peer, now, handover.best(ready).sid)


# -------------------------------------------------------------------------------------------------------- the learner


def learner_after_change(peer: PeerState, following: Following) -> None:
    """Become a follower, or an observer, as the configuration now says."""
    role = OBSERVING if peer.observes else FOLLOWING
    if role is not peer.state and peer.phase is BROADCAST and following.up_to_date:
        peer.become(role, BROADCAST)
        peer.settle_vote()


# -------------------------------------------------------------------------------------------------------- in elections


def hear(peer: PeerState, now: int, event: ev.NotificationReceived, *, is_unlisted: bool) -> None:
    """A server reports which configuration is in force, and which is outstanding there. If that is news, a member that
    elects does so by it."""
    memberships, lineage = peer.memberships, event.notification.lineage
    if peer.state is not LOOKING:
        return
    if is_unlisted and not event.is_proven:
        return
    if peer.holds == NOTHING and _may_turn(peer, now, event.notification):
        peer.trace(f"server {event.sid} has a leader in lineage {lineage.hex()} -> forget what another one decided")
        memberships.turn_to(lineage, now)
        peer.use_memberships()
    of_whom = memberships.heard_of_lineage or lineage if peer.holds == NOTHING else peer.lineage
    if lineage != of_whom:
        forget_outstanding(peer, event.sid)  # it may have lost its disk since it said so
        return
    try:
        in_force, outstanding = [
            peer.settings.reader.of_text(text) if text else None for text in (event.in_force, event.outstanding)
        ]
    except ValueError as error:
        peer.trace(f"server {event.sid} tells of a configuration that is none: {error}")
        return
    if in_force is not None and memberships.hear(in_force, lineage):
        peer.trace(f"server {event.sid} says that the configuration of {in_force.version:#x} is in force")
        peer.use_memberships()
    if memberships.hear_outstanding(event.sid, outstanding):
        peer.use_candidates()


def _may_turn(peer: PeerState, now: int, notification: msg.Notification) -> bool:
    """Whether the lineage of which this member heard first may be over: a server leads or follows in another one. If
    both live, this member stays with one of them for a tick, which is long enough to follow."""
    turned_at = peer.memberships.turned_at
    if peer.memberships.heard_of_lineage in (b"", notification.lineage):
        return False
    is_led = notification.state != LOOKING and notification.holds != NOTHING
    return is_led and (turned_at is None or now - turned_at >= peer.settings.tick_ms)


def forget_outstanding(peer: PeerState, sid: ServerId) -> None:
    """Consider nothing as outstanding at this server any longer in this election. Otherwise a vote for a server that
    may only lead under that configuration could never win, since others were not told about it."""
    if peer.state is LOOKING and peer.memberships.hear_outstanding(sid, None):
        peer.use_candidates()


def forget_silent(peer: PeerState, spoke: set[ServerId]) -> None:
    """Likewise for servers that have been silent for long although they were asked: such a server may be stalled with
    its links up, and no other server knows what it reported."""
    for sid in peer.memberships.outstanding_at.keys() - spoke:
        forget_outstanding(peer, sid)
