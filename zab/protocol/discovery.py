"""Phase 1, discovery: a quorum promises an epoch to a prospective leader, and reports where its histories end.

    learner                         prospective leader
      FOLLOWERINFO (CEPOCH)     ->    e = 1 + max(acceptedEpoch of a quorum); its own acceptedEpoch = e, durable
      acceptedEpoch = e, durable  <-  LEADERINFO (NEWEPOCH)
      ACKEPOCH (ACK-E)          ->    a quorum, none ahead of the leader: its own history is the initial history;
                                      its own currentEpoch = e, durable; on to synchronization

Variables: `leading.handlers` by stage, `leading.epoch`, `acke_recv`; `following.epoch`. Invariants: LEADERINFO and
ACKEPOCH leave after the epoch is durable; an epoch is never accepted twice for two leaders (an ACKEPOCH with the epoch
`NO_VOTE` does not count); the leader's (currentEpoch, last zxid) is at least that of every member it counts.

A learner that connects later, in synchronization or broadcast, takes the same steps with the existing epoch. A learner
that has promised a higher epoch to another candidate in the meantime can only follow in a still higher one: the leader
then renews its epoch (`renewal`).
"""

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.zxid import EPOCH_MAX, next_epoch
from zab.protocol import disk_space, learner_synchronization, renewal, session_keys, source, synchronization
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.election import FINAL_WAIT_MS_MAX
from zab.protocol.features import RECONFIGURATION
from zab.protocol.fields import NO_VOTE
from zab.protocol.history import beginning
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import (
    CONNECTED,
    EPOCH_ACCEPTED,
    EPOCH_PROPOSED,
    INFORMED,
    Following,
    Lag,
    Leading,
    LearnerHandler,
    ProtocolError,
)
from zab.protocol.states import BROADCAST, DISCOVERY, FOUNDER, LEADING, NOTHING, SYNCHRONIZATION, State
from zab.quorum.ids import Link, ServerId

EPOCH_JUMP_MAX = 1 << 20
"""How far a member's acceptedEpoch may be above the leader's. Each attempt to lead raises it by one, so a larger gap
cannot come from this ensemble; accepting it could use up the range of epochs (B6 epoch jumps)."""
DIAL_COUNT_MAX = 5
"""How often a learner dials its leader before it elects again."""
REDIAL_MS = 50
VAIN_MS = 2 * FINAL_WAIT_MS_MAX
"""How long a leader waits for a quorum whose votes went to another candidate: the others elect meanwhile, which takes a
final wait at most."""

# --------------------------------------------------------------------------------------------------------- the leader


def leader_start(peer: PeerState, now: int) -> Leading:
    """The election is won: wait for learners."""
    settings = peer.settings
    half_tick = settings.tick_ms // 2
    peer.leading = Leading(
        deadline=now + settings.init_ms,
        next_ping=now + half_tick,
        next_tick=now + settings.tick_ms,
        lag=Lag(half_tick // 2),
    )
    peer.doubted_above = None
    peer.become(LEADING, DISCOVERY)
    return peer.leading


def leader_on_link_up(peer: PeerState, now: int, leading: Leading, link: Link, sid: ServerId, features: int) -> None:
    """A learner has dialled; a newer link from a server replaces its older one."""
    older = leading.handler_of(sid)
    if older is not None:
        peer.drop_learner(leading, older, "replaced by a newer link")
    leading.handlers[link] = LearnerHandler(link, sid, now, features)


def leader_on_followerinfo(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.FollowerInfo
) -> None:
    """LeaderProcessCEPOCH."""
    if handler.stage != CONNECTED:
        raise ProtocolError("a second FOLLOWERINFO on one link")
    if message.accepted_epoch >= min(EPOCH_MAX, peer.accepted_epoch + EPOCH_JUMP_MAX):
        raise ProtocolError(
            f"server {handler.sid} has accepted epoch {message.accepted_epoch}, here it is {peer.accepted_epoch}: "
            "it cannot be of this ensemble"
        )
    if peer.memberships.is_any_in_history and not handler.features & RECONFIGURATION:
        raise ProtocolError(f"server {handler.sid} has a version that knows no reconfiguration: upgrade it")
    if peer.hear_of_history(now, handler.sid, tells=message.holds != NOTHING):
        return
    either_is_empty = message.holds == NOTHING or peer.history.last[0] == 0
    if message.lineage and peer.lineage and message.lineage != peer.lineage and not either_is_empty:
        raise ProtocolError(
            f"server {handler.sid} belongs to another ensemble: "
            f"lineage {message.lineage.hex()}, this one is {peer.lineage.hex()}"
        )
    handler.stage = INFORMED
    # While only configuration files say who votes, two of them may disagree.
    is_observer_by_its_file = message.observer and not peer.memberships.is_any_in_history
    handler.observer = is_observer_by_its_file or handler.sid not in peer.quorum.voters
    # A record that a member holds the history of another lineage says nothing about this one.
    handler.amnesiac = message.amnesiac or (peer.lineage != b"" and message.lineage != peer.lineage)
    handler.holds = message.holds
    handler.marked = message.marked and message.amnesiac and message.holds == NOTHING
    handler.accepted_epoch = message.accepted_epoch
    handler.is_low = message.is_low
    if leading.epoch is None:
        determine_new_epoch(peer, leading)
    elif leading.epoch_accepted and not disk_space.has_to_wait(peer, leading, handler):
        _propose_epoch(peer, now, leading, handler)


def _is_first_start(peer: PeerState, leading: Leading) -> bool:
    """Whether a lineage may begin here (B3 first start). Either every voter is connected, and none has more than the
    beginning that a forced recovery made; if there is one, this leader must have it, and the voter where it was made
    must be connected. Or a quorum is marked, and no server was heard that has any history; a beginning made by a forced
    recovery counts as history here. What was heard of histories does not matter beside such a beginning: it only tells
    what the operator gave up."""
    quorum, me = peer.quorum, peer.settings.sid
    informed = [h for h in leading.at_least(INFORMED) if h.sid in quorum.voters]
    held = {me: peer.holds, **{h.sid: h.holds for h in informed}}
    if quorum.voters <= held.keys():
        most = max(held.values())
        if most == NOTHING:
            return peer.election.may_found
        return most == FOUNDER and peer.holds > NOTHING and not peer.amnesiac
    is_quorum = quorum.contains({me, *(h.sid for h in informed if h.marked)})
    leading.by_marker = peer.marked and is_quorum and peer.election.may_found
    return leading.by_marker


def determine_new_epoch(peer: PeerState, leading: Leading) -> None:
    """DetermineNewEpoch: "a quorum Q of CEPOCH(e): e' later than any e received"."""
    assert leading.epoch is None
    informed = leading.at_least(INFORMED)
    cepoch_recv = {h.sid for h in informed if not h.amnesiac}
    if not peer.amnesiac:
        cepoch_recv.add(peer.settings.sid)
    leading.first_start = _is_first_start(peer, leading)
    if not (peer.quorum.contains(cepoch_recv) or leading.first_start):
        return
    if not (peer.lineage or leading.first_start):
        peer.look("a quorum has a lineage, and this member has none")
        return
    leading.epoch = next_epoch(peer.accepted_epoch, *(h.accepted_epoch for h in informed))
    assert leading.epoch <= EPOCH_MAX
    connected = "a quorum of marked, empty voters" if leading.by_marker else "a quorum"
    peer.trace(f"{connected} is connected -> propose epoch {leading.epoch}")
    if not peer.lineage:
        peer.take_lineage(peer.rng.randbytes(LINEAGE_BYTES))
        for handler in informed:
            handler.amnesiac = True  # nobody holds the history of a lineage that is made now
    if peer.history.last[0] == 0 and peer.needs_member_record():
        # Also for a lineage that it only knows from a leader that did not get to send anything: the log is in no
        # lineage yet.
        peer.adopt_lineage(peer.lineage)
    peer.save_epochs(leading.epoch, peer.current_epoch)


def leader_on_epochs_saved(peer: PeerState, now: int, leading: Leading) -> None:
    """One of the leader's two promises is durable: acceptedEpoch first, currentEpoch later."""
    assert leading.epoch is not None
    if not leading.epoch_accepted and peer.accepted_epoch == leading.epoch:
        leading.epoch_accepted = True
        if not peer.amnesiac or leading.first_start:
            leading.acke_recv.add(peer.settings.sid)
        for handler in list(leading.handlers.values()):
            is_here = handler.stage == INFORMED and handler.link in leading.handlers
            if is_here and not disk_space.has_to_wait(peer, leading, handler):
                _propose_epoch(peer, now, leading, handler)
        determine_initial_history(peer, leading)
    elif not leading.epoch_current and peer.current_epoch == leading.epoch:
        leading.epoch_current = True
        synchronization.leader_start(peer, now, leading)


def _propose_epoch(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler) -> None:
    """Send LEADERINFO, unless the learner has already promised a higher epoch."""
    assert leading.epoch is not None
    assert leading.epoch_accepted, "LEADERINFO must not leave before acceptedEpoch is durable"
    if handler.accepted_epoch > leading.epoch:
        peer.drop_learner(leading, handler, f"it has accepted epoch {handler.accepted_epoch}, we lead {leading.epoch}")
        if leading.established:
            peer.trace(f"server {handler.sid} can only follow a higher epoch -> renew the epoch")
            renewal.leader_want_renewal(peer, now, leading, handler.accepted_epoch)
        return
    handler.stage = EPOCH_PROPOSED
    peer.send(handler.link, msg.LeaderInfo(leading.epoch, peer.lineage))


def leader_on_ackepoch(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.AckEpoch
) -> None:
    """LeaderProcessACKEPOCH."""
    if handler.stage != EPOCH_PROPOSED:
        raise ProtocolError(f"ACKEPOCH in stage {handler.stage.name}")
    handler.position = (message.zxid, message.chain)
    acknowledged = leading.acknowledged.get(handler.sid, 0)
    if message.zxid < acknowledged and not handler.amnesiac:
        peer.trace(f"server {handler.sid} has {message.zxid:#x}, it acknowledged {acknowledged:#x} -> it lost its data")
        handler.amnesiac = True
    if peer.phase is DISCOVERY:
        if _is_ahead(peer, handler, message):
            _on_learner_ahead(peer, leading, handler, message)
            return
        handler.stage = EPOCH_ACCEPTED
        if message.epoch != NO_VOTE and leading.counts(handler):
            leading.acke_recv.add(handler.sid)
        elif message.epoch == NO_VOTE:
            _give_up_unless_possible(peer, leading, f"server {handler.sid} had accepted epoch {leading.epoch} before")
            return
        determine_initial_history(peer, leading)
    else:
        handler.stage = EPOCH_ACCEPTED
        synchronization.leader_sync_learner(peer, leading, handler)


def _is_ahead(peer: PeerState, handler: LearnerHandler, message: msg.AckEpoch) -> bool:
    """Whether the learner's history is newer than the leader's, which then must not become the initial history."""
    if handler.amnesiac or handler.observer or message.epoch == NO_VOTE:
        return False
    return (message.epoch, message.zxid) > (peer.current_epoch, peer.history.last[0])


def _on_learner_ahead(peer: PeerState, leading: Leading, handler: LearnerHandler, message: msg.AckEpoch) -> None:
    """F2 final wait: if there is no quorum without this learner, waiting is pointless."""
    mine = f"({peer.current_epoch}, {peer.history.last[0]:#x})"
    reason = f"it is ahead of the leader: ({message.epoch}, {message.zxid:#x}), the leader has {mine}"
    peer.drop_learner(leading, handler, reason)
    _give_up_unless_possible(peer, leading, f"server {handler.sid} is ahead")


def _give_up_unless_possible(peer: PeerState, leading: Leading, reason: str) -> None:
    """Elect again, unless the learners on open links can still accept the epoch as a quorum."""
    possible = {
        h.sid
        for h in leading.handlers.values()
        if leading.counts(h) and (h.stage < EPOCH_ACCEPTED or h.sid in leading.acke_recv)
    }
    if not peer.quorum.contains(possible | {peer.settings.sid}):
        peer.look(f"{reason}, and without it there is no quorum")


def on_voter_left(peer: PeerState, sid: ServerId) -> None:
    """A voter whose vote led to our role has left that election: it elects again.

    Without this, members that still count on it would wait for initLimit.
    """
    leading, following = peer.leading, peer.following
    if following is not None:
        if sid == following.leader and following.epoch is None:
            peer.look(f"server {sid} does not lead, it elects")
    elif leading is not None and not _goes_on_without(peer, leading, sid):
        peer.look(f"server {sid} elects again, and without it there is no quorum")


def on_voter_turned(peer: PeerState, now: int, sid: ServerId) -> None:
    """A voter whose vote was decisive found a better candidate before it heard that the election was over.

    If we follow it, it will hardly lead; if we lead, we lack its vote. We give up soon, unless a quorum connects
    anyway. Not immediately: a server that hears only some of the others would win in vain again and again, and draw
    them into its next round each time.
    """
    leading, following = peer.leading, peer.following
    if following is not None and sid == following.leader and following.epoch is None:
        following.deadline = min(following.deadline, now + VAIN_MS)
    elif leading is not None and not _goes_on_without(peer, leading, sid):
        peer.trace(f"server {sid} votes for another one, and without it there is no quorum -> wait for it a moment")
        leading.vain_at = now + VAIN_MS


def leader_on_time(peer: PeerState, now: int, leading: Leading) -> None:
    """Give up if voters have turned to another candidate and no quorum has dialled since."""
    if leading.vain_at is None or now < leading.vain_at:
        return
    leading.vain_at = None
    if not leading.established and not peer.quorum.contains(_dialled(leading) | {peer.settings.sid}):
        peer.look("those who voted for this one follow another")


def _dialled(leading: Leading) -> set[ServerId]:
    return {h.sid for h in leading.handlers.values() if leading.counts(h)}


def _goes_on_without(peer: PeerState, leading: Leading, sid: ServerId) -> bool:
    """Stop counting on this voter. Returns whether the others that voted for us, and those that have dialled, may still
    form a quorum."""
    if leading.established or leading.handler_of(sid) is not None:
        return True
    peer.election.received.pop(sid, None)
    electors = {
        elector
        for elector, vote in peer.election.received.items()
        if vote.leader == peer.settings.sid and (not vote.amnesiac or leading.is_founder(vote))
    }
    possible = electors | _dialled(leading)
    return peer.quorum.contains(possible | {peer.settings.sid})


def determine_initial_history(peer: PeerState, leading: Leading) -> None:
    """DetermineInitialHistory: with a quorum of ACKEPOCHs, the leader's own history is the one to synchronize to."""
    if peer.phase is not DISCOVERY or not leading.epoch_accepted or leading.current_saving:
        return
    if not peer.quorum.contains(leading.acke_recv):
        return
    assert leading.epoch is not None
    assert peer.durable == peer.history.last[0], "the initial history is durable at its leader"
    peer.trace(f"epoch {leading.epoch} is accepted by {sorted(leading.acke_recv)}")
    leading.current_saving = True
    if not leading.established:
        session_keys.leader_renew(peer)
    peer.save_epochs(leading.epoch, leading.epoch)


# -------------------------------------------------------------------------------------------------------- the learner


def learner_start(peer: PeerState, now: int, leader: ServerId, role: State) -> None:
    """The election named a leader: dial its quorum port."""
    following = peer.following = Following(leader, now + peer.settings.init_ms)
    peer.become(role, DISCOVERY)
    early, peer.early = peer.early, {}
    for link, waiting in early.items():
        if peer.awaits_observer(waiting[0]):
            peer.early[link] = waiting
        else:
            peer.emit(fx.CloseLink(link, "not leading"))
    source.begin(peer, now, following)


def learner_on_link_up(peer: PeerState, link: Link, sid: ServerId, features: int) -> None:
    """ConnectAndFollowerSendCEPOCH."""
    following = peer.following
    if following is None or following.link is not None or following.source != sid:
        peer.emit(fx.CloseLink(link, "this server is not our leader any more"))
        return
    following.link, following.features = link, features
    following.redial_at = None
    if following.source != following.leader:
        peer.send(
            link,
            msg.ObserverInfo(
                following.leader, peer.accepted_epoch, peer.lineage, peer.holds, peer.amnesiac, peer.is_low
            ),
        )
        return
    peer.send(
        link,
        msg.FollowerInfo(
            peer.accepted_epoch,
            peer.lineage,
            peer.holds,
            peer.amnesiac,
            not peer.is_voter,
            peer.marked,
            peer.is_low,
        ),
    )


def learner_on_link_down(peer: PeerState, now: int, following: Following) -> None:
    """The leader is gone. If it was never reached, dial again for a while: it may not know yet that it leads. An
    observer tries a master only once."""
    if source.try_next(peer, now, following):
        return
    is_leader = following.source == following.leader
    if following.epoch is None and is_leader and following.dialled < DIAL_COUNT_MAX:
        following.link = None
        following.redial_at = now + REDIAL_MS
    else:
        peer.look(f"the link to {source.named(following)} broke")


def learner_on_leaderinfo(peer: PeerState, now: int, following: Following, message: msg.LeaderInfo) -> None:
    """FollowerProcessNEWEPOCH: "if e' > f.p then f.p <- e'", durably, then the acknowledgement."""
    assert following.link is not None
    if peer.phase is BROADCAST:
        renewal.learner_renew(peer, following, message)
    if following.epoch is not None:
        raise ProtocolError("a second LEADERINFO")
    if message.epoch < peer.accepted_epoch:
        raise ProtocolError(f"it leads epoch {message.epoch}, epoch {peer.accepted_epoch} is accepted here")
    if message.epoch >= EPOCH_MAX:
        raise ProtocolError(f"no epoch is above {message.epoch}")
    if peer.holds != NOTHING and message.epoch > peer.accepted_epoch + EPOCH_JUMP_MAX:
        raise ProtocolError(f"it leads epoch {message.epoch}, here {peer.accepted_epoch} was the last")
    # A damaged history may not even tell its lineage: it is given up for that of a quorum without this member.
    if peer.lineage not in (b"", message.lineage) and peer.holds != NOTHING:
        raise ProtocolError(f"it leads lineage {message.lineage.hex()}, here is {peer.lineage.hex()}")
    following.epoch = message.epoch
    peer.keep_lineage()
    if peer.lineage != message.lineage:
        peer.take_lineage(message.lineage)
        peer.session_keys = []
        peer.amnesiac = True  # it holds none of the history of this lineage
        peer.reset(beginning(message.lineage))
    if message.epoch > peer.accepted_epoch:
        peer.save_epochs(message.epoch, peer.current_epoch)
    else:
        following.epoch_saved = True
        # "equal -> not counted as a vote": the promise may have been given to another leader of the same epoch.
        peer.send(following.link, msg.AckEpoch(NO_VOTE, *peer.position()))


def learner_on_epochs_saved(peer: PeerState, following: Following) -> None:
    """A promise of this learner is durable: acceptedEpoch in discovery, currentEpoch in synchronization."""
    assert following.link is not None
    if not following.epoch_saved and peer.accepted_epoch == following.epoch:
        following.epoch_saved = True
        assert peer.durable == peer.history.last[0], "ACKEPOCH names the last durable batch"
        peer.send(following.link, msg.AckEpoch(peer.current_epoch, *peer.position()))
    elif following.newleader is not None and peer.current_epoch == following.newleader[0]:
        assert peer.phase is SYNCHRONIZATION
        learner_synchronization.learner_on_current_epoch_saved(peer, following)


def learner_on_refused(peer: PeerState, now: int, following: Following, message: msg.Refused) -> None:
    """The leader says why it closes the link."""
    if not source.try_next(peer, now, following):
        peer.look(f"{source.named(following)} refused: {message.reason}")
