"""Observer masters: followers that send observers what is committed, which takes load off the leader.

    observer                    master, a follower that serves          leader
      OBSERVERINFO          ->
      acceptedEpoch         <-    LEADERINFO of its leader's epoch
      ACKEPOCH              ->    waits until it knows that position
                            <-    DIFF | TRUNC | SNAP, PROPOSAL …, NEWLEADER: up to its high-water mark
      ACK (ACK-LD)          ->    ATTACH                            ->    a quorum confirms it; the route is this
                                                                          observer's only one
      serves clients        <-    UPTODATE                          <-    ATTACHED
                            <-    PROPOSAL, COMMIT: what is committed
      REQUEST, SYNC,        ->    RELAYED                           ->    for its member, as from a learner
      REVALIDATE, SUSPECT   <-    REVALIDATED, SYNCED               <-    RELAYED
      PING                  ->    for its own member
      link down                   DETACH                           <->    or: it follows elsewhere

A master sends an observer what a leader sends a learner, but nothing that is not committed. It only accepts observers
of the configuration. It is a master while it follows: the links of its observers end with its role. When its leader
renews the epoch, it renews the epoch with its observers once it serves in it.

A *route* is one link of an observer to one master, in one run of both (`routes`). So what an observer has sent through
a previous master is either executed before all that it sends through the next one, or never (O2 one route).

Variables: `following.mastering` with its handlers; `leading.attached`, `leading.attaching`. Invariants: nothing above
the mark is sent to an observer (O1 committed only); an observer serves no client before the leader knows its route and
a quorum has confirmed the leader.

Limits: how much an observer may leave unacknowledged (`observerMaster.sizeLimit`): above that it is dropped, and
connects again. The limits of `heartbeat` apply as at a leader.

Not here: whom an observer dials (`source`), how what it lacks is found (`synchronization`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, COUNTER_MAX, Zxid, epoch_of
from zab.protocol import broadcast, heartbeat, session_keys, synchronization
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.features import OBSERVER_MASTERS
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import (
    CONNECTED,
    EPOCH_ACCEPTED,
    EPOCH_PROPOSED,
    INFORMED,
    NEWLEADER_SENT,
    SYNCHRONIZED,
    SYNCING,
    UP_TO_DATE,
    Following,
    LearnerHandler,
    Mastering,
    ProtocolError,
)
from zab.protocol.routes import opened
from zab.protocol.states import BROADCAST, FOLLOWING, NOTHING
from zab.quorum.ids import Link

_ROUND: Final = 1
"""The round in READMIT; the leader has its own count of confirmation rounds."""

_TO_OBSERVER = (mmsg.Revalidated, mmsg.Synced)

# ------------------------------------------------------------------------------------------ the master and its leader


def may_take_observers(peer: PeerState, following: Following) -> bool:
    """Whether this member is a master while it serves."""
    is_understood = following.link is None or bool(following.features & OBSERVER_MASTERS)
    return peer.settings.has_observer_masters and peer.state is FOLLOWING and peer.is_voter and is_understood


def after_step(peer: PeerState, now: int, following: Following) -> None:
    """At the end of each step: become a master or stop being one, and send what is committed."""
    mastering = following.mastering
    if mastering is None:
        if peer.early and peer.phase is BROADCAST and not may_take_observers(peer, following):
            _refuse_early(peer)
        elif peer.phase is BROADCAST and may_take_observers(peer, following):
            _begin(peer, now, following)
        return
    if peer.phase is BROADCAST:
        if not may_take_observers(peer, following):
            _end(peer, following, mastering)
            return
        if mastering.epoch != following.epoch:
            _renew(peer, following, mastering)
        if mastering.sent < peer.committed:
            _send_on(peer, mastering)


def _begin(peer: PeerState, now: int, following: Following) -> None:
    assert following.up_to_date
    half_tick = peer.settings.tick_ms // 2
    mastering = following.mastering = Mastering(next_ping=now + half_tick, next_tick=now + peer.settings.tick_ms)
    mastering.epoch, mastering.sent = following.epoch, peer.committed
    early, peer.early = peer.early, {}
    for link, (sid, features, info) in early.items():
        on_link_up(peer, now, mastering, ev.QuorumLinkUp(link, sid, True, features))
        if info is not None and link in mastering.handlers:
            on_message(peer, now, following, mastering, mastering.handlers[link], info)


def _refuse_early(peer: PeerState) -> None:
    early, peer.early = peer.early, {}
    for link in early:
        peer.emit(fx.CloseLink(link, "this server is no master of observers"))


def _end(peer: PeerState, following: Following, mastering: Mastering) -> None:
    for handler in list(mastering.handlers.values()):
        peer.drop_learner(mastering, handler, "this server is no master of observers any more")
    following.mastering = None


def _renew(peer: PeerState, following: Following, mastering: Mastering) -> None:
    """This member serves in another epoch of its leader: renew it with the observers, too (F1 renewal)."""
    mastering.epoch = following.epoch
    for handler in list(mastering.handlers.values()):
        if handler.stage <= INFORMED:
            if handler.stage == INFORMED:
                _propose_if_due(peer, mastering, handler)
            continue
        if not handler.served or handler.stage != UP_TO_DATE or handler.reading:
            peer.drop_learner(mastering, handler, "the epoch is renewed")
            continue
        handler.decided = False
        handler.acked = BEFORE_ALL
        handler.unacknowledged.clear()
        handler.unacknowledged_bytes = 0
        _propose_epoch(peer, mastering, handler)


def after_change(peer: PeerState, following: Following) -> None:
    """The configuration changed: a server that is no longer an observer must follow the leader itself."""
    for handler in _handlers(following):
        if not peer.is_observer(handler.sid):
            assert following.mastering is not None
            peer.drop_learner(following.mastering, handler, "it is no observer")


def learner_on_attached(peer: PeerState, now: int, following: Following, message: msg.Attached) -> None:
    """The leader now accepts this observer through this member."""
    handler = _handler(following, message.link)
    if handler is not None:
        handler.is_attached = True
        if handler.stage == SYNCHRONIZED:
            _admit(peer, handler)


def learner_on_detach(peer: PeerState, now: int, following: Following, message: msg.Detach) -> None:
    """The leader no longer accepts this observer through this member."""
    handler = _handler(following, message.link)
    if handler is not None:
        assert following.mastering is not None
        peer.drop_learner(following.mastering, handler, "the leader hears it through others, or not at all")


def learner_on_relayed(peer: PeerState, now: int, following: Following, message: msg.Relayed) -> None:
    """Pass the leader's answer to an observer."""
    answer = opened(message, _TO_OBSERVER)
    handler = _handler(following, message.link)
    if handler is not None and handler.served:
        peer.send(handler.link, answer)


def learner_on_verdict(peer: PeerState, now: int, following: Following, message: mmsg.Verdict) -> None:
    """Pass the verdict to this member, and to its observers."""
    broadcast.learner_pass_on(peer, now, following, message)
    links = tuple([h.link for h in _handlers(following) if h.served])
    if links:
        peer.emit(fx.Send(links, message))


def learner_on_session_keys(peer: PeerState, now: int, following: Following, message: msg.SessionKeys) -> None:
    """Take the session keys, and pass them to the observers."""
    session_keys.learner_on_session_keys(peer, now, following, message)
    links = tuple([h.link for h in _handlers(following) if h.stage >= NEWLEADER_SENT])
    if links:
        peer.emit(fx.Send(links, message))


def _handlers(following: Following) -> list[LearnerHandler]:
    return [] if following.mastering is None else list(following.mastering.handlers.values())


def _handler(following: Following, link: Link) -> LearnerHandler | None:
    return None if following.mastering is None else following.mastering.handlers.get(link)


# -------------------------------------------------------------------------------------- the master and its observers


def on_link_up(peer: PeerState, now: int, mastering: Mastering, event: ev.QuorumLinkUp) -> None:
    """A server has dialled; a newer link from an observer replaces its older one."""
    if not peer.is_observer(event.sid):
        peer.emit(fx.CloseLink(event.link, f"server {event.sid} is no observer, and this server does not lead"))
        return
    older = mastering.handler_of(event.sid)
    if older is not None:
        peer.drop_learner(mastering, older, "replaced by a newer link")
    mastering.handlers[event.link] = LearnerHandler(event.link, event.sid, now, event.features, observer=True)


def on_message(
    peer: PeerState, now: int, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Message
) -> None:
    """Handle a message from an observer."""
    handler.heard_at = now
    handle = FROM_OBSERVERS.get(type(message))
    try:
        if handle is None:
            raise ProtocolError(f"{type(message).__name__} makes no sense to the master of an observer")
        handle(peer, following, mastering, handler, message)
    except ProtocolError as error:
        if handler.link in mastering.handlers:
            peer.drop_learner(mastering, handler, str(error))


def on_time(peer: PeerState, now: int, mastering: Mastering) -> None:
    """Ping twice a tick; at every tick check which observers are silent or do not acknowledge."""
    if now >= mastering.next_ping:
        mastering.next_ping = now + peer.settings.tick_ms // 2
        _weigh(peer, mastering)
        heartbeat.ping(peer, [h for h in mastering.handlers.values() if h.stage >= INFORMED])
    if now >= mastering.next_tick:
        mastering.next_tick = now + peer.settings.tick_ms
        heartbeat.drop_silent(peer, now, mastering)


def _weigh(peer: PeerState, mastering: Mastering) -> None:
    """An observer whose disk is nearly full has to wait while others have room (C5 full disks)."""
    for handler in [h for h in mastering.handlers.values() if h.is_low]:
        if peer.is_short and handler.stage == INFORMED:
            peer.drop_learner(mastering, handler, "its disk is nearly full, and it may come all the same")
        elif not peer.is_short and handler.stage > INFORMED:
            peer.drop_learner(mastering, handler, "its disk is nearly full, and others have room")


def _on_observerinfo(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.ObserverInfo
) -> None:
    assert mastering.epoch is not None
    if handler.stage != CONNECTED:
        raise ProtocolError("a second OBSERVERINFO on one link")
    if message.leader != following.leader:
        raise ProtocolError(f"it follows server {message.leader}, this one follows {following.leader}")
    if message.accepted_epoch > mastering.epoch:
        raise ProtocolError(f"it has accepted epoch {message.accepted_epoch}, here it is {mastering.epoch}")
    if message.lineage and message.lineage != peer.lineage and message.holds != NOTHING:
        raise ProtocolError(
            f"server {handler.sid} belongs to another ensemble: "
            f"lineage {message.lineage.hex()}, this one is {peer.lineage.hex()}"
        )
    handler.stage = INFORMED
    handler.amnesiac = message.amnesiac or message.lineage != peer.lineage
    handler.holds = message.holds
    handler.accepted_epoch = message.accepted_epoch
    handler.is_low = message.is_low
    _propose_if_due(peer, mastering, handler)


def _propose_if_due(peer: PeerState, mastering: Mastering, handler: LearnerHandler) -> None:
    """Not while the epoch is renewed: the observer gets the next epoch then."""
    if peer.phase is BROADCAST and (peer.is_short or not handler.is_low):
        _propose_epoch(peer, mastering, handler)


def _propose_epoch(peer: PeerState, mastering: Mastering, handler: LearnerHandler) -> None:
    assert mastering.epoch is not None
    assert mastering.epoch == peer.current_epoch, "an epoch that was established, since this member serves in it"
    handler.stage = EPOCH_PROPOSED
    peer.send(handler.link, msg.LeaderInfo(mastering.epoch, peer.lineage))


def _on_ackepoch(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.AckEpoch
) -> None:
    if handler.stage != EPOCH_PROPOSED:
        raise ProtocolError(f"ACKEPOCH in stage {handler.stage.name}")
    handler.position = (message.zxid, message.chain)
    handler.stage = EPOCH_ACCEPTED
    _try_to_synchronize(peer, mastering, handler)


def _try_to_synchronize(peer: PeerState, mastering: Mastering, handler: LearnerHandler) -> None:
    """Wait until this member knows what is committed up to the observer's position: batches of this epoch may be
    committed, and must not be cut. Of an earlier epoch, everything that will ever be committed is known."""
    assert mastering.epoch is not None
    end = handler.position[0]
    if peer.phase is BROADCAST and (end <= peer.committed or epoch_of(end) < mastering.epoch):
        synchronization.leader_sync_learner(peer, mastering, handler)


def _on_installed(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Installed
) -> None:
    synchronization.leader_on_installed(peer, 0, mastering, handler, message)


def _on_ack(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Ack
) -> None:
    epoch = mastering.epoch
    assert epoch is not None
    if message.epoch != epoch:
        if message.epoch < epoch and handler.served:
            return  # it left before the observer heard of the renewal
        raise ProtocolError(f"ACK of epoch {message.epoch} in epoch {epoch}")
    if message.zxid & COUNTER_MAX or epoch_of(message.zxid) != epoch:
        if handler.stage < SYNCHRONIZED or not handler.acked <= message.zxid <= handler.cursor:
            raise ProtocolError(f"ACK {message.zxid:#x} outside of ({handler.acked:#x}, {handler.cursor:#x}]")
        handler.acked = message.zxid
        waiting = handler.unacknowledged
        while waiting and waiting[0][0] <= message.zxid:
            handler.unacknowledged_bytes -= waiting.popleft()[1]
        return
    if handler.stage != NEWLEADER_SENT:
        raise ProtocolError(f"ACK of NEWLEADER in stage {handler.stage.name}")
    handler.stage = SYNCHRONIZED
    handler.acked = handler.newleader_zxid
    if handler.is_attached:
        _admit(peer, handler)
    else:
        assert following.link is not None
        peer.send(following.link, msg.Attach(handler.link, handler.sid))


def _admit(peer: PeerState, handler: LearnerHandler) -> None:
    """The observer is synchronized, and the leader knows its route."""
    assert handler.stage == SYNCHRONIZED
    assert handler.is_attached
    assert handler.cursor <= peer.committed
    handler.stage = UP_TO_DATE
    handler.served = True
    peer.send(handler.link, msg.UpToDate(handler.cursor))
    if handler.amnesiac and handler.readmitting is None:
        # A quorum has confirmed the leader since it was synchronized (B2 amnesiacs).
        handler.readmitting = _ROUND
        peer.send(handler.link, msg.Readmit(_ROUND))


def _on_readmitted(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Readmitted
) -> None:
    if handler.readmitting != message.round:
        raise ProtocolError("READMITTED without READMIT")
    handler.readmitting = None
    handler.amnesiac = False


def _on_ping(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Ping
) -> None:
    """Touch its sessions along with those of this member, and compare its tree with this one's."""
    if handler.served:
        peer.emit(fx.MemberMessage(handler.link, handler.sid, message))
    is_waiting = handler.stage == INFORMED
    if is_waiting and handler.is_low and not message.is_low:
        peer.drop_learner(mastering, handler, "its disk has room again: it may come back")
    handler.is_low = message.is_low


def _for_leader(
    peer: PeerState,
    following: Following,
    mastering: Mastering,
    handler: LearnerHandler,
    message: mmsg.Request | mmsg.Revalidate | mmsg.Sync | mmsg.Suspect | mmsg.Compared,
) -> None:
    _demand_served(handler, message)
    relay_to_leader(peer, handler.link, message)


def _for_member(
    peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: mmsg.TreeWanted
) -> None:
    _demand_served(handler, message)
    peer.emit(fx.MemberMessage(handler.link, handler.sid, message))


def _demand_served(handler: LearnerHandler, message: msg.Message) -> None:
    if not handler.served:
        raise ProtocolError(f"{type(message).__name__} before UPTODATE")


def relay_to_leader(peer: PeerState, link: Link, message: msg.Message) -> None:
    """Send the message to the leader on behalf of the observer on this link."""
    assert peer.following is not None
    assert peer.following.link is not None
    peer.send(peer.following.link, msg.Relayed(link, msg.encode(message)))


# ------------------------------------------------------------------------------------------------- what is committed


def _send_on(peer: PeerState, mastering: Mastering) -> None:
    """The mark has risen. Observers at the same position are sent the same bytes."""
    mastering.sent = peer.committed
    behind = [h for h in mastering.handlers.values() if h.stage >= NEWLEADER_SENT and not h.reading]
    for cursor, group in groupby(sorted(behind, key=_cursor), _cursor):
        handlers = list(group)
        if cursor < peer.history.base[0]:
            for handler in handlers:
                synchronization.read_log(peer, handler, cursor)
        else:
            _send_batches(peer, mastering, handlers, peer.history.between(cursor, peer.committed))
    for handler in mastering.at_least(EPOCH_ACCEPTED):
        if handler.stage == EPOCH_ACCEPTED:
            _try_to_synchronize(peer, mastering, handler)


def _cursor(handler: LearnerHandler) -> Zxid:
    return handler.cursor


def on_log_read(peer: PeerState, mastering: Mastering, handler: LearnerHandler, event: ev.LogRead) -> None:
    """An observer that has NEWLEADER already lacks batches that are no longer in memory."""
    if handler.stage <= SYNCING:
        synchronization.leader_on_log_read(peer, mastering, handler, event.position, event.batches)
        return
    assert handler.reading
    handler.reading = False
    if event.position is None:
        peer.drop_learner(mastering, handler, f"the log cannot be read after {handler.cursor:#x}")
        return
    _send_batches(peer, mastering, [handler], synchronization.up_to(peer.committed, event.batches))
    if handler.link in mastering.handlers and handler.cursor < peer.committed:
        mastering.sent = BEFORE_ALL  # the end of this step sends more


def _send_batches(peer: PeerState, mastering: Mastering, handlers: list[LearnerHandler], batches: list[Batch]) -> None:
    """Send batches to observers at the same position."""
    if not batches:
        return
    end = batches[-1].zxid
    assert end <= peer.committed, "no observer gets what is not committed"
    assert peer.leading is None
    peer.emit(fx.Send(tuple([h.link for h in handlers]), msg.Proposal([batch.raw for batch in batches])))
    serving = tuple([h.link for h in handlers if h.stage >= UP_TO_DATE])
    if serving:
        peer.emit(fx.Send(serving, msg.Commit(end)))
    size = sum([len(batch.raw) for batch in batches])
    for handler in handlers:
        assert batches[0].zxid > handler.cursor
        handler.cursor = end
        handler.unacknowledged.append((end, size))
        handler.unacknowledged_bytes += size
        if handler.unacknowledged_bytes > peer.settings.observer_bytes_max and len(handler.unacknowledged) > 1:
            reason = f"{handler.unacknowledged_bytes} bytes are not acknowledged: it is too slow"
            peer.drop_learner(mastering, handler, reason)


# ----------------------------------------------------------------------------------------------------------- the table

M = TypeVar("M", bound=msg.Message)
_Handle: TypeAlias = Callable[[PeerState, Following, Mastering, LearnerHandler, Any], None]


def _from_observer(
    kind: type[M], handle: Callable[[PeerState, Following, Mastering, LearnerHandler, M], None]
) -> tuple[type[object], _Handle]:
    return kind, handle


FROM_OBSERVERS: dict[type[object], _Handle] = dict(
    (
        _from_observer(msg.ObserverInfo, _on_observerinfo),
        _from_observer(msg.AckEpoch, _on_ackepoch),
        _from_observer(msg.Installed, _on_installed),
        _from_observer(msg.Ack, _on_ack),
        _from_observer(msg.Readmitted, _on_readmitted),
        _from_observer(msg.Ping, _on_ping),
        _from_observer(mmsg.Request, _for_leader),
        _from_observer(mmsg.Revalidate, _for_leader),
        _from_observer(mmsg.Sync, _for_leader),
        _from_observer(mmsg.Suspect, _for_leader),
        _from_observer(mmsg.Compared, _for_leader),
        _from_observer(mmsg.TreeWanted, _for_member),
    )
)
"""The messages that a master accepts from its observers, in any phase. Any other one breaks the protocol: the link is
closed."""
