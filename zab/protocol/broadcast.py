"""Phase 3, broadcast: batches are proposed, acknowledged, committed and delivered, in one order everywhere.

    leader                                          learner
      PROPOSAL (a batch), to its own log too    ->    append; durable, then
      a quorum is durable up to z: z is the     <-    ACK z (cumulative)
      high-water mark
      COMMIT z (cumulative), deliver            ->    deliver what is committed and durable here

Messages for the member (requests, revalidation, sync) pass through here, once the learner may serve clients.

Variables: `committed` (the high-water mark), `durable`, `delivered`, each handler's `acked`. Invariants: the leader
only counts itself once its own log is durable; the mark only rises; a learner acknowledges what is durable, but sends
no ACK before ACK-LD.

Not here: how a learner handles a PROPOSAL, in this phase as in synchronization (`learner_synchronization`); pings
(`heartbeat`); the proof that a quorum still follows (`confirmation`).
"""

from datatree.log import batch as codec
from datatree.log.batch import Batch
from datatree.log.zxid import COUNTER_BITS, COUNTER_MAX, Zxid, make_zxid
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol import renewal
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import (
    NEWLEADER_SENT,
    SYNCHRONIZED,
    UP_TO_DATE,
    Following,
    Leading,
    LearnerHandler,
    ProtocolError,
)
from zab.protocol.states import BROADCAST
from zab.quorum.high_water_mark import high_water_mark

# --------------------------------------------------------------------------------------------------------- the leader


def next_zxid(peer: PeerState) -> Zxid | None:
    """The zxid of the next transaction; None while this member may not propose."""
    leading = peer.leading
    if leading is None or peer.phase is not BROADCAST or leading.renewal_wanted or leading.heir is not None:
        return None
    settings = peer.settings
    if len(leading.outstanding) >= settings.batches_in_flight_max:
        return None
    if leading.outstanding_bytes >= settings.unsynced_bytes_max:
        return None
    last, epoch = peer.history.last[0], leading.epoch
    assert epoch is not None
    return last + 1 if last >> COUNTER_BITS == epoch else make_zxid(epoch, 1)  # type: ignore[return-value]


def leader_propose(peer: PeerState, now: int, leading: Leading, event: ev.Propose) -> None:
    """LeaderProcessRequest: number the transactions as one batch, log it, and send it to every synchronized learner."""
    assert peer.phase is BROADCAST, "only an established leader proposes"
    assert not leading.renewal_wanted
    assert leading.heir is None
    assert leading.epoch is not None
    previous = peer.history.last
    batch = codec.build(
        previous[1],
        epoch=leading.epoch,
        first=event.first,
        count=event.count,
        time=event.time,
        flags=event.flags,
        mark=peer.committed,
        applied=event.applied,
        digest=event.digest,
        digest_version=event.digest_version,
        body=event.body,
    )
    if batch.flags & codec.RECONFIG:
        peer.append_reconfiguration(batch)
    peer.history.append(batch)
    leading.outstanding.append((batch.zxid, len(batch.raw)))
    leading.outstanding_bytes += len(batch.raw)
    peer.effects.append(fx.AppendBatches(peer.generation, [batch]))
    links = []
    for handler in leading.handlers.values():
        if handler.stage >= NEWLEADER_SENT:
            assert handler.cursor == previous[0], "a learner that was sent NEWLEADER has everything"
            handler.cursor = batch.zxid
            links.append(handler.link)
    if links:
        peer.effects.append(fx.Send(tuple(links), msg.Proposal([batch.raw])))
    if batch.zxid & COUNTER_MAX >= peer.settings.counter_limit:
        renewal.leader_want_renewal(peer, now, leading, leading.epoch)


def leader_process_ack(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, zxid: Zxid) -> None:
    """LeaderProcessACK: everything up to `zxid` is durable at this learner."""
    if handler.stage < SYNCHRONIZED:
        raise ProtocolError("ACK before the ACK of NEWLEADER")
    if not handler.acked <= zxid <= handler.cursor:
        raise ProtocolError(f"ACK {zxid:#x} outside of ({handler.acked:#x}, {handler.cursor:#x}]")
    is_news = zxid > peer.committed
    if is_news and zxid not in peer.history.batches:
        raise ProtocolError(f"ACK {zxid:#x} is not the end of a batch")
    handler.acked = leading.acknowledged[handler.sid] = zxid
    if is_news:
        leader_try_to_commit(peer, now, leading)


def leader_try_to_commit(peer: PeerState, now: int, leading: Leading) -> None:
    """LeaderTryToCommit: set the high-water mark to what a quorum has on disk."""
    if peer.phase is not BROADCAST:
        return
    settings, committed = peer.settings, peer.committed
    acknowledged = {settings.sid: peer.durable}
    highest = peer.durable if peer.is_alone else committed
    for handler in leading.handlers.values():
        # Most are plain voters, which count without further checks.
        if handler.stage >= SYNCHRONIZED and (not (handler.observer or handler.amnesiac) or leading.counts(handler)):
            acknowledged[handler.sid] = acked = handler.acked
            if acked > highest:
                highest = acked
    mark = high_water_mark(peer.quorum, acknowledged, committed) if highest > committed else committed
    if mark > committed:
        assert mark in peer.history.batches, "every position is the end of a batch"
        peer.set_committed(mark)
        links = tuple([h.link for h in leading.handlers.values() if h.stage >= UP_TO_DATE])
        if links:
            peer.effects.append(fx.Send(links, msg.Commit(mark)))
        peer.deliver()
    if leading.lag.behind or peer.durable < mark:
        leading.lag.see(now, mark, peer.durable)
    # What is acknowledged beyond the mark may only lack this member's own log; what is committed may wait to be
    # delivered.
    peer.awaits_durable = peer.is_alone or highest > mark or peer.durable < mark
    done = min(peer.committed, peer.durable)
    while leading.outstanding and leading.outstanding[0][0] <= done:
        leading.outstanding_bytes -= leading.outstanding.popleft()[1]
    if leading.renewal_wanted:
        renewal.leader_try_to_renew(peer, now, leading)


def leader_pass_on(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: fx.MessageForMember
) -> None:
    """Pass a learner's request to the member."""
    if not handler.served:
        raise ProtocolError(f"{type(message).__name__} before UPTODATE")
    peer.emit(fx.MemberMessage(handler.link, handler.sid, message))


# -------------------------------------------------------------------------------------------------------- the learner


def learner_log(peer: PeerState, following: Following, batches: list[Batch]) -> None:
    """Log batches that continue the history, with the ACK of the last one and of all before it. The log thread sends it
    once they are durable, without waiting for a turn. No ACK before ACK-LD (ZOOKEEPER-4685)."""
    ack = None
    if following.synchronized:
        assert following.link is not None
        assert following.epoch is not None
        following.acked = zxid = batches[-1].zxid
        ack = fx.Send((following.link,), msg.Ack(following.epoch, zxid))
    peer.effects.append(fx.AppendBatches(peer.generation, batches, ack))


def learner_ack(peer: PeerState, following: Following) -> None:
    """ACK what is durable, and was logged before ACK-LD."""
    if not following.synchronized or peer.durable <= following.acked:
        return
    assert following.link is not None
    assert following.epoch is not None
    following.acked = peer.durable
    peer.effects.append(fx.Send((following.link,), msg.Ack(following.epoch, peer.durable)))


def learner_on_commit(peer: PeerState, now: int, following: Following, message: msg.Commit) -> None:
    """FollowerProcessCOMMIT."""
    learner_raise_mark(peer, message.zxid, "COMMIT")


MARK_OF_A_BATCH = "the mark of a batch,"
"""It was reached before the batch was made: what it covers is committed."""


def learner_raise_mark(peer: PeerState, zxid: Zxid, source: str) -> None:
    """The leader says that everything up to `zxid` is committed."""
    if zxid > peer.committed:
        last = peer.history.last[0]
        if zxid > last or (zxid not in peer.history.batches and zxid != peer.history.base[0]):
            raise ProtocolError(f"{source} {zxid:#x} is not the end of a batch of this history, up to {last:#x}")
        peer.set_committed(zxid)
    if peer.committed > peer.delivered:
        peer.deliver()
    # What is committed may wait to be delivered; or the learner has something to send that does not go with an append.
    following = peer.following
    assert following is not None
    is_acknowledged = following.acked == peer.history.last[0]
    peer.awaits_durable = peer.phase is not BROADCAST or not is_acknowledged or peer.durable < peer.committed


def learner_pass_on(peer: PeerState, now: int, following: Following, message: fx.MessageForMember) -> None:
    """Pass the leader's answer to the member."""
    if not following.up_to_date:
        raise ProtocolError(f"{type(message).__name__} before UPTODATE")
    assert following.link is not None
    peer.emit(fx.MemberMessage(following.link, following.source, message))
