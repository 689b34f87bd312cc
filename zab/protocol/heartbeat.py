"""Heartbeats: each side of a quorum link notices within a limit that the other is gone.

    leader                                  learner
      PING twice a tick                 ->    answers, with its touched sessions and the digest of its tree
      at every tick: which learners are       at every PING: has its own log kept up?
      silent or do not acknowledge? is        at its deadline: the leader was not heard
      there still a quorum?

Limits: `initLimit` until a learner is synchronized, `syncLimit` from then on. A member whose log, the leader's
included, is not durable up to where the history ended `syncLimit` ago counts as gone, and so does a learner whose
promise of an epoch is not durable by then (C4 stalled disk). A leader whose log is only late hands over (`slow_disk`).
"""

from datatree.log.zxid import BEFORE_ALL, Zxid
from zab.protocol import disk_space, handover, reconfiguration, session_keys, slow_disk, source
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import SYNCHRONIZED, SYNCING, Following, Leading, LearnerHandler, Supplying
from zab.protocol.states import BROADCAST

# --------------------------------------------------------------------------------------------------------- the leader


def leader_on_time(peer: PeerState, now: int, leading: Leading) -> None:
    """Ping twice a tick; at every tick check which learners are silent or do not acknowledge, and whether a quorum is
    left."""
    if not leading.established and now >= leading.deadline:
        if _a_quorum_is_coming(peer, leading):
            leading.deadline = now + peer.settings.init_ms
            return
        peer.look(f"epoch {leading.epoch} has no quorum within initLimit")
        return
    if now >= leading.next_ping:
        leading.next_ping = now + peer.settings.tick_ms // 2
        disk_space.leader_weigh(peer, leading)
        if peer.leading is not leading:
            return
        disk_space.leader_tell(peer, now, leading)
        handover.leader_on_ping(peer, now, leading)
        slow_disk.leader_on_ping(peer, now, leading)
        reconfiguration.leader_make_way(peer, now, leading)
        _leader_ping(peer, leading)
    if now >= leading.next_tick:
        leading.next_tick = now + peer.settings.tick_ms
        _leader_tick(peer, now, leading)
        if peer.leading is leading:
            session_keys.leader_on_tick(peer, now, leading)
            if leading.established:
                reconfiguration.leader_tell_absent(peer, leading)


def _leader_ping(peer: PeerState, leading: Leading) -> None:
    ping(
        peer,
        [
            h
            for h in leading.handlers.values()
            if h.stage >= SYNCING or h.served or disk_space.has_to_wait(peer, leading, h)
        ],
    )


def ping(peer: PeerState, handlers: list[LearnerHandler]) -> None:
    """Ping these learners."""
    if handlers:
        links = tuple([handler.link for handler in handlers])
        peer.emit(fx.Send(links, msg.Ping(peer.committed, BEFORE_ALL, 0, [], peer.is_short)))


def _a_quorum_is_coming(peer: PeerState, leading: Leading) -> bool:
    """Whether the epoch only waits for learners whose history is in transit. A transfer that makes no progress fails,
    and its link breaks; one that merely takes long does not (H4 slow learners)."""
    coming = [h for h in leading.at_least(SYNCING) if leading.counts(h)]
    return any(h.stage == SYNCING for h in coming) and peer.quorum.contains(
        {h.sid for h in coming} | {peer.settings.sid}
    )


def _leader_tick(peer: PeerState, now: int, leading: Leading) -> None:
    settings = peer.settings
    overdue = drop_silent(peer, now, leading)
    if peer.durable < overdue:
        peer.look(f"own log is not durable up to {overdue:#x} within syncLimit")
    elif leading.established:
        alive = {h.sid for h in leading.handlers.values() if h.served and leading.counts(h)}
        if not peer.quorum.contains(alive | {settings.sid}):
            peer.look(f"only {sorted(alive)} follow, which is no quorum")
        elif peer.phase is not BROADCAST and now >= leading.deadline:
            peer.look(f"epoch {leading.epoch} is not renewed within initLimit")


def drop_silent(peer: PeerState, now: int, supplying: Supplying) -> Zxid:
    """Drop the learners that were silent, or have not acknowledged, within their limit. Returns the zxid that should be
    durable by now."""
    settings = peer.settings
    overdue = supplying.overdue.sample(now, peer.supplied, settings.sync_ms)
    for handler in list(supplying.handlers.values()):
        limit_ms = settings.sync_ms if handler.stage >= SYNCHRONIZED else settings.init_ms
        if now - handler.heard_at > limit_ms:
            peer.drop_learner(supplying, handler, f"silent for {now - handler.heard_at} ms")
        elif handler.stage >= SYNCHRONIZED and handler.acked < min(overdue, handler.cursor):
            peer.drop_learner(supplying, handler, f"has not acknowledged {overdue:#x} within syncLimit")
    return overdue


def leader_on_ping(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Ping) -> None:
    """The learner lives; the sessions and the digest that it reports are for the member."""
    if handler.served:
        peer.emit(fx.MemberMessage(handler.link, handler.sid, message))
    disk_space.leader_on_ping(peer, leading, handler, message)


# -------------------------------------------------------------------------------------------------------- the learner


def learner_on_ping(peer: PeerState, now: int, following: Following, message: msg.Ping) -> None:
    """Answer; and leave if this member's log, or its epochs, have not kept up within syncLimit (C4 stalled disk)."""
    assert following.link is not None
    peer.is_short = message.is_low
    peer.emit(fx.AnswerPing(following.link))
    overdue = following.overdue.sample(now, peer.history.last[0], peer.settings.sync_ms)
    if peer.durable < min(overdue, peer.history.last[0]):
        peer.look(f"own log is not durable up to {overdue:#x} within syncLimit")
    elif _is_promise_overdue(peer, now, following):
        peer.look(f"own promise of epoch {following.epoch} is not durable within syncLimit")


def _is_promise_overdue(peer: PeerState, now: int, following: Following) -> bool:
    """Whether a promise, acceptedEpoch or currentEpoch, was being written at a ping that long ago, and still is. A
    learner that stays through a renewal keeps its clients, whose writes would otherwise never be answered."""
    is_accepting = following.epoch is not None and not following.epoch_saved
    if not is_accepting and (not following.current_saving or following.synchronized):
        following.promising = None
        return False
    if following.promising is None or following.promising[0] != following.epoch_saved:
        following.promising = following.epoch_saved, now
    return now - following.promising[1] >= peer.settings.sync_ms


def learner_on_time(peer: PeerState, now: int, following: Following) -> None:
    """Dial again, or give up on the leader."""
    if now >= following.deadline:
        if not source.try_next(peer, now, following):
            peer.look(f"{source.named(following)} was not heard for its limit")
    elif following.redial_at is not None and now >= following.redial_at:
        following.redial_at = None
        following.dialled += 1
        source.dial(peer, following)
