"""Reconfiguration: what changes once another configuration is in the history, is committed, or is heard of.

    leader                                              learners, those included that the new one takes in
      RECONFIG, a batch like others               ->    append, acknowledge
      quorums of both configurations have it:
      COMMIT                                      ->    the new configuration is in force
      hands the lead over if it is no voter of it

Variables: `memberships`, `quorum`, each handler's `observer`. Invariants: those of `zab.protocol.membership`; a leader
proposes no reconfiguration before the one before is committed, and none of which it does not see a quorum that follows
it.

A server of no configuration (a *stranger*) follows without a vote. So it has the whole history before it counts.

Who was down meanwhile may know none of those who decide now, nor whom to ask. So every vote says what is in force, and
who elects by an older one elects anew by that. A leader says it at every tick, unasked, to those that its
configurations name and that do not follow. Who is told believes the servers of the configurations that it knows, and
any other one that has proven to be of the ensemble: a committed configuration is true whoever tells it. Who holds a
history passes it on, though it is not in that history yet (B9 told configurations).

Who holds nothing hears of one lineage at a time, since versions of two say nothing of each other: of the first, until
somebody who leads or is led tells of another one. So a server that is left of a lineage that ended keeps nobody from
the one that goes on.

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
    """Whether one is not committed yet: another one has to wait."""
    return peer.memberships.outstanding is not None


def is_understood(peer: PeerState) -> bool:
    """Whether all that are connected can have one in their history. Who comes later and cannot is not let in."""
    leading = peer.leading
    assert leading is not None
    return leading.all_have(RECONFIGURATION)


def has_quorum_of(peer: PeerState, membership: Membership) -> bool:
    """Whether enough of its voters follow this leader, with all of the history and all that they promised."""
    leading = peer.leading
    assert leading is not None
    ready = {h.sid for h in leading.at_least(UP_TO_DATE) if not h.amnesiac} | _attached(leading)
    return membership.quorum.contains(ready | {peer.settings.sid})


def _attached(leading: Leading) -> set[ServerId]:
    """The observers that follow through masters, and were confirmed. They have what their masters know to be committed,
    and follow the leader itself as soon as they are to vote."""
    awaited = {attaching.route for attaching in leading.attaching}
    return {sid for route, sid in leading.attached.items() if route not in awaited}


def leader_tell_absent(peer: PeerState, leading: Leading) -> None:
    """At every tick: what is in force, to those of the configurations that do not follow."""
    assert leading.established, "before that nobody is told who leads"
    if not peer.memberships.is_any_in_history:
        return
    here = {h.sid for h in leading.handlers.values()} | set(leading.attached.values()) | {peer.settings.sid}
    for sid in sorted(peer.servers - here - peer.election.unreachable):
        peer.election.tell(sid, peer.standing())


def leader_after_change(peer: PeerState, now: int, leading: Leading) -> None:
    """Count those who decide now, and nobody else."""
    assert peer.leading is leading
    for handler in leading.handlers.values():
        handler.observer = handler.sid not in peer.quorum.voters
    if peer.phase is BROADCAST:
        broadcast.leader_try_to_commit(peer, now, leading)


def leader_make_way(peer: PeerState, now: int, leading: Leading) -> None:
    """At every ping: who is no voter any more hands the lead over to the one that has most. Not at once: whoever asked
    for the reconfiguration may be a client of this member, and is answered first."""
    if peer.is_voter or is_outstanding(peer) or peer.phase is not BROADCAST or leading.heir is not None:
        return
    ready = handover.candidates(leading)
    assert peer.settings.sid not in {h.sid for h in ready}
    if ready:
        handover.hand_over(peer, now, handover.best(ready).sid)


# -------------------------------------------------------------------------------------------------------- the learner


def learner_after_change(peer: PeerState, following: Following) -> None:
    """Become a follower, or an observer, where that is what the configuration says now."""
    role = OBSERVING if peer.observes else FOLLOWING
    if role is not peer.state and peer.phase is BROADCAST and following.up_to_date:
        peer.become(role, BROADCAST)
        peer.settle_vote()


# -------------------------------------------------------------------------------------------------------- in elections


def hear(peer: PeerState, now: int, event: ev.NotificationReceived, *, is_stranger: bool) -> None:
    """A server says what is in force, and what is outstanding there. Who elects, elects by it, if it is news."""
    memberships, lineage = peer.memberships, event.notification.lineage
    if peer.state is not LOOKING:
        return
    if is_stranger and not event.is_proven:
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
    """Whether the lineage of which this member heard first may be over: in another one somebody leads, or is led. Where
    both live, it stays with one of them for a tick, long enough to follow."""
    turned_at = peer.memberships.turned_at
    if peer.memberships.heard_of_lineage in (b"", notification.lineage):
        return False
    is_led = notification.state != LOOKING and notification.holds != NOTHING
    return is_led and (turned_at is None or now - turned_at >= peer.settings.tick_ms)


def forget_outstanding(peer: PeerState, sid: ServerId) -> None:
    """Nothing is outstanding at this server any more, as far as this election goes. Else a vote for somebody whom only
    that would let lead could never win, since others were not told of it."""
    if peer.state is LOOKING and peer.memberships.hear_outstanding(sid, None):
        peer.use_candidates()


def forget_silent(peer: PeerState, spoke: set[ServerId]) -> None:
    """The same, of all that have said nothing for long, though they were asked: such a one may stand still with its
    links up, and nobody else knows what it told."""
    for sid in peer.memberships.outstanding_at.keys() - spoke:
        forget_outstanding(peer, sid)
