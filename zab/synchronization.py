"""Phase 2, synchronization: every learner gets the leader's history, and says so.

    leader                                              learner
      DIFF | TRUNC | SNAP                           ->    (SNAP: fetch and install it; INSTALLED <-)
      PROPOSAL … (what it lacks, byte for byte)     ->    append, durably
      NEWLEADER (always last, in the same queue)    ->    history durable, then currentEpoch durable, then the member
                                                          record; only then
                                                    <-    ACK with counter 0 (ACK-LD)
      a quorum of ACK-LD: the initial history is committed, broadcast begins
      UPTODATE (COMMIT-LD) with the mark of now     ->    serve clients

Variables: a handler's `cursor` (everything up to it was sent) and `stage`; `following.newleader`. Invariants: nothing
at or below a member's known high-water mark is ever cut; no acknowledgement leaves before ACK-LD, which leaves after
everything it promises is durable; from NEWLEADER on, a learner gets every proposal, with no gap and no repetition.
Three holes in the informal protocol text are closed by that: proposals go to whoever was sent NEWLEADER, repeated
ones are dropped, and UPTODATE carries the leader's present mark.

What the learner lacks is found by its position, zxid and chain hash together (A4, A5), never by the number alone.
"""

from typing import TYPE_CHECKING

from datatree.log import batch as codec
from datatree.log.batch import Batch
from datatree.log.zxid import epoch_of, make_zxid
from zab import broadcast
from zab import events as ev
from zab import message as msg
from zab.election import LEADING
from zab.history import Position
from zab.roles import BROADCAST, SYNCHRONIZATION, Following, LearnerHandler, ProtocolError, Stage

if TYPE_CHECKING:
    from zab.peer import Peer

PROPOSAL_BYTES_MAX = 256 << 10
"""How many bytes of batches go into one PROPOSAL while a learner catches up (H2)."""

# --------------------------------------------------------------------------------------------------------- the leader


def leader_start(peer: "Peer", now: int) -> None:
    """A quorum has accepted the epoch, and the leader's currentEpoch is durable."""
    leading = peer.leading
    assert leading is not None
    assert peer.current_epoch == leading.epoch
    peer.become(LEADING, SYNCHRONIZATION)
    if peer.needs_member_record():
        assert leading.first_start or not peer.amnesiac
        peer.emit(ev.SaveMember(peer.generation, peer.lineage))
    for handler in list(leading.handlers.values()):
        if handler.stage == Stage.EPOCH_ACCEPTED:
            leader_sync_learner(peer, now, handler)
    leader_try_to_establish(peer, now)


def leader_on_member_saved(peer: "Peer", now: int) -> None:
    leader_try_to_establish(peer, now)


def leader_sync_learner(peer: "Peer", now: int, handler: LearnerHandler) -> None:
    """SyncFollower: choose DIFF, TRUNC or SNAP from the position that its ACKEPOCH told."""
    assert handler.stage == Stage.EPOCH_ACCEPTED
    handler.stage = Stage.SYNCING
    position = handler.position
    if position[0] < peer.history.base[0]:
        _read_log(peer, handler, position[0])  # older than memory: the log files know
        return
    floor = peer.history.floor(position[0])
    assert floor is not None
    _decide(peer, handler, floor)


def _decide(peer: "Peer", handler: LearnerHandler, floor: Position) -> None:
    """The learner shares our history at `floor` at the latest: the last position not above its own."""
    position = handler.position
    if floor == position:
        peer.send(handler.link, msg.Diff(floor[0]))
    else:
        if floor[0] == position[0]:
            handler.conflict = True
            peer.trace(f"ALARM: server {handler.sid} has other bytes than this leader at {floor[0]:#x}")
            before = peer.history.floor(floor[0] - 1)
            if before is None and floor[0] > 0:
                _read_log(peer, handler, floor[0] - 1)
                return
            if before is None:
                peer.emit(ev.OfferSnapshot(handler.link))
                return
            floor = before
        peer.send(handler.link, msg.Trunc(*floor, handler.conflict))
    handler.decided = True
    handler.cursor = floor[0]
    _stream(peer, handler)


def leader_on_log_read(
    peer: "Peer", now: int, handler: LearnerHandler, position: Position | None, batches: list[Batch]
) -> None:
    """The log files answered: with the place where the learner left our history, or with more of what it lacks."""
    assert handler.reading
    handler.reading = False
    if position is None and handler.decided:
        peer.drop_learner(now, handler, f"the log cannot be read on behind {handler.cursor:#x}")
    elif position is None:
        peer.emit(ev.OfferSnapshot(handler.link))
    elif not handler.decided:
        _decide(peer, handler, position)
    else:
        assert position[0] == handler.cursor, (position, handler.cursor)
        assert batches, "memory begins where the files end"
        _send_batches(peer, handler, batches)
        _stream(peer, handler)


def leader_on_snapshot_offered(peer: "Peer", now: int, handler: LearnerHandler, position: Position) -> None:
    """What the learner lacks is not in the log any more: it fetches a snapshot, over a connection of its own (H4)."""
    assert not handler.decided
    if position[0] <= handler.position[0]:
        # It would be taken back behind what it has, and perhaps has acknowledged.
        peer.drop_learner(now, handler, f"the newest snapshot, {position[0]:#x}, is older than its history")
        return
    handler.decided = handler.installing = True
    handler.cursor = position[0]
    peer.send(handler.link, msg.Snap(*position, handler.conflict))


def leader_on_installed(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Installed) -> None:
    """The learner holds the snapshot: send what came after it."""
    if not handler.installing or message.zxid != handler.cursor:
        raise ProtocolError("INSTALLED of a snapshot that was not sent")
    handler.installing = False
    _stream(peer, handler)


def _read_log(peer: "Peer", handler: LearnerHandler, zxid: int) -> None:
    assert not handler.reading
    handler.reading = True
    peer.emit(ev.ReadLog(handler.link, zxid, PROPOSAL_BYTES_MAX))


def _stream(peer: "Peer", handler: LearnerHandler) -> None:
    """Send what the learner lacks, and NEWLEADER behind it."""
    leading = peer.leading
    assert leading is not None
    assert leading.epoch is not None
    history = peer.history
    while handler.cursor < history.last[0]:
        if handler.cursor < history.base[0]:
            _read_log(peer, handler, handler.cursor)
            return
        _send_batches(peer, handler, history.after(handler.cursor, PROPOSAL_BYTES_MAX))
    assert handler.cursor == history.last[0]
    assert handler.stage == Stage.SYNCING
    handler.stage = Stage.NEWLEADER_SENT
    handler.newleader_zxid = history.last[0]
    peer.send(handler.link, msg.NewLeader(leading.epoch, history.last[0]))


def _send_batches(peer: "Peer", handler: LearnerHandler, batches: list[Batch]) -> None:
    assert batches[0].zxid > handler.cursor
    handler.cursor = batches[-1].zxid
    peer.send(handler.link, msg.Proposal([batch.raw for batch in batches]))


def leader_on_ackld(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Ack) -> None:
    """LeaderProcessACKLD: the learner's history, epoch and record are durable."""
    leading = peer.leading
    assert leading is not None
    if handler.stage != Stage.NEWLEADER_SENT:
        raise ProtocolError(f"ACK of NEWLEADER in stage {handler.stage.name}")
    handler.stage = Stage.SYNCHRONIZED
    handler.acked = leading.acknowledged[handler.sid] = handler.newleader_zxid
    broadcast.leader_ask_to_confirm(peer, handler)
    if leading.is_founder(handler):
        handler.amnesiac = False
    elif handler.amnesiac and not handler.observer:
        handler.counts_after_round = broadcast.leader_confirm(peer)
    if peer.phase == BROADCAST:
        _send_uptodate(peer, handler)
        broadcast.leader_try_to_commit(peer, now)
    else:
        leader_try_to_establish(peer, now)


def leader_try_to_establish(peer: "Peer", now: int) -> None:
    """ "Upon a quorum of ACK-LD": the initial history is committed, and the epoch is established."""
    leading = peer.leading
    assert leading is not None
    if peer.phase != SYNCHRONIZATION or not leading.epoch_current or peer.needs_member_record():
        return
    ackld_recv = {h.sid for h in leading.at_least(Stage.SYNCHRONIZED) if broadcast.counts(leading, h)}
    if not peer.settings.quorum.contains(ackld_recv | {peer.settings.sid}):
        return
    assert peer.durable == peer.history.last[0]
    leading.established = True
    leading.first_start = False
    peer.become(LEADING, BROADCAST)
    peer.trace(f"epoch {leading.epoch} is established by {sorted(ackld_recv | {peer.settings.sid})}")
    peer.settle_vote()
    peer.set_committed(peer.history.last[0])
    for handler in leading.at_least(Stage.SYNCHRONIZED):
        _send_uptodate(peer, handler)
    peer.deliver()
    broadcast.leader_try_to_renew(peer, now)


def _send_uptodate(peer: "Peer", handler: LearnerHandler) -> None:
    assert handler.stage == Stage.SYNCHRONIZED
    handler.stage = Stage.UP_TO_DATE
    handler.served = True
    peer.send(handler.link, msg.UpToDate(peer.committed))


# -------------------------------------------------------------------------------------------------------- the learner


def _learner_begin(peer: "Peer", following: Following) -> None:
    """The leader has its quorum of ACKEPOCHs and begins to send: only now may anything here be replaced."""
    assert following.epoch_saved
    peer.doubted_above = None
    peer.become(peer.state, SYNCHRONIZATION)
    if peer.history.last[0] == 0 and peer.needs_member_record():
        peer.adopt_lineage(peer.lineage)


def _check_may_begin(following: Following) -> None:
    if not following.epoch_saved:
        raise ProtocolError("synchronization before ACKEPOCH")


def learner_on_diff(peer: "Peer", now: int, following: Following, message: msg.Diff) -> None:
    """Everything we said we have, the leader has too."""
    _check_may_begin(following)
    position = peer.position()
    if message.zxid != position[0]:
        raise ProtocolError(f"DIFF at {message.zxid:#x}, this history ends at {position[0]:#x}")
    _learner_begin(peer, following)
    _cut(peer, position)


def learner_on_trunc(peer: "Peer", now: int, following: Following, message: msg.Trunc) -> None:
    """What is behind this position was never committed."""
    _check_may_begin(following)
    position = (message.zxid, message.chain)
    is_held = peer.history.holds(position)
    if message.zxid < peer.committed or (message.zxid == peer.committed and not is_held):
        peer.halt(
            f"leader {following.leader} asks to cut the history after its {message.zxid:#x}, "
            f"which is committed up to {peer.committed:#x}; the files are kept as they are"
        )
        return
    if message.conflict:
        _learner_note_conflict(peer, following, peer.position()[0])
    elif not is_held and peer.history.chain_at(message.zxid) is not None:
        _learner_note_conflict(peer, following, message.zxid)
    if not is_held:
        # Both histories go on there with batches that nobody else has. What is below is offered next; to cut at the
        # mark at once could take away what is committed and was acknowledged here (ZOOKEEPER-4643).
        common = peer.history.floor(message.zxid - 1)
        assert common is not None
        peer.doubted_above = common[0]
        peer.look(now, f"position {message.zxid:#x} of leader {following.leader} is not in this history")
        return
    _learner_begin(peer, following)
    _cut(peer, position)


def _learner_note_conflict(peer: "Peer", following: Following, zxid: int) -> None:
    """Only a broken invariant can make two batches of one zxid. "Above the known mark the learner's tail is set aside
    and it is synchronized, with an alarm" (A5)."""
    peer.conflict = True
    peer.trace(
        f"ALARM: leader {following.leader} has other bytes than this server at {zxid:#x}; "
        "what is cut here is kept for somebody to look at"
    )


def _cut(peer: "Peer", position: Position) -> None:
    """Cut the history behind a position, in memory now, on disk before anything that is appended later."""
    if peer.history.last == position:
        return
    assert position[0] >= peer.committed, "nothing committed is ever cut"
    peer.trace(f"history is cut: {peer.history.last[0]:#x} -> {position[0]:#x}")
    peer.history.truncate(position)
    peer.durable = min(peer.durable, position[0])
    peer.generation += 1
    peer.emit(ev.TruncateLog(peer.generation, *position, peer.conflict))
    peer.conflict = False


def learner_on_snap(peer: "Peer", now: int, following: Following, message: msg.Snap) -> None:
    """The leader's log begins after our history ends: take its snapshot instead."""
    _check_may_begin(following)
    assert following.epoch is not None
    if message.zxid < peer.committed:
        peer.halt(
            f"leader {following.leader} offers a snapshot at {message.zxid:#x}, "
            f"but this history is committed up to {peer.committed:#x}; the files are kept as they are"
        )
        return
    if message.zxid <= peer.position()[0] or epoch_of(message.zxid) > following.epoch:
        raise ProtocolError(f"SNAP at {message.zxid:#x}, this history ends at {peer.position()[0]:#x}")
    if message.conflict:
        _learner_note_conflict(peer, following, peer.position()[0])
    _learner_begin(peer, following)
    following.fetching = True
    peer.generation += 1
    position = (message.zxid, message.chain)
    peer.emit(ev.FetchSnapshot(peer.generation, following.leader, *position, peer.lineage, peer.conflict))


def learner_on_snapshot_installed(peer: "Peer", now: int) -> None:
    following = peer.following
    assert following is not None
    assert following.link is not None
    assert following.fetching
    following.fetching = False
    peer.send(following.link, msg.Installed(peer.history.last[0]))


def learner_on_proposal(peer: "Peer", now: int, following: Following, message: msg.Proposal) -> None:
    """FollowerProcessPROPOSE, in synchronization and in broadcast: the next batch, a repeated one, or a broken link."""
    if following.fetching:
        raise ProtocolError("PROPOSAL while a snapshot is fetched")
    accepted: list[Batch] = []
    for raw in message.batches:
        try:
            batch = codec.parse(raw)
        except codec.BatchError as error:
            raise ProtocolError(f"damaged batch: {error}") from error
        if _accept(peer, following, batch, len(raw)):
            accepted.append(batch)
    if accepted:
        peer.emit(ev.AppendBatches(peer.generation, accepted))
        # A mark that a batch carries was reached before it was made: what it covers is committed.
        broadcast.learner_raise_mark(peer, accepted[-1].mark, "the mark of a batch,")


def _accept(peer: "Peer", following: Following, batch: Batch, length: int) -> bool:
    """Append one batch to the history; False when it is there already."""
    history = peer.history
    if length != len(batch.raw):
        raise ProtocolError("bytes behind a batch")
    if batch.zxid <= history.last[0]:
        known = history.chain_at(batch.zxid)
        if known != batch.chain and (known is not None or batch.zxid > history.base[0]):
            raise ProtocolError(f"batch {batch.zxid:#x} is not the one that is logged here")
        return False
    assert following.epoch is not None
    if batch.epoch > following.epoch:
        raise ProtocolError(f"batch of epoch {batch.epoch} from the leader of epoch {following.epoch}")
    if not codec.follows(history.last[0], batch):
        raise ProtocolError(f"gap: batch {batch.first:#x} behind {history.last[0]:#x}")
    if not codec.continues(history.last[1], batch):
        raise ProtocolError(f"batch {batch.first:#x} does not continue the chain at {history.last[0]:#x}")
    history.append(batch)
    return True


def learner_on_newleader(peer: "Peer", now: int, following: Following, message: msg.NewLeader) -> None:
    """FollowerProcessNEWLEADER: "history durable -> currentEpoch durable -> ACK" (ZOOKEEPER-4643, -4646)."""
    if message.epoch != following.epoch:
        raise ProtocolError(f"NEWLEADER of epoch {message.epoch} in epoch {following.epoch}")
    if message.zxid != peer.history.last[0]:
        raise ProtocolError(f"NEWLEADER at {message.zxid:#x}, this history ends at {peer.history.last[0]:#x}")
    if following.newleader is not None or following.synchronized or following.fetching:
        raise ProtocolError("NEWLEADER out of place")
    following.newleader = (message.epoch, message.zxid)
    learner_try_to_ack_newleader(peer)


def learner_try_to_ack_newleader(peer: "Peer") -> None:
    """Go on with NEWLEADER when the history it stands behind is durable."""
    following = peer.following
    assert following is not None
    assert following.newleader is not None
    epoch, zxid = following.newleader
    if peer.durable >= zxid and not following.current_saving:
        following.current_saving = True
        peer.save_epochs(peer.accepted_epoch, epoch)


def learner_on_current_epoch_saved(peer: "Peer", now: int) -> None:
    if peer.needs_member_record():
        peer.emit(ev.SaveMember(peer.generation, peer.lineage))
    else:
        _ack_newleader(peer)


def learner_on_member_saved(peer: "Peer", now: int) -> None:
    _ack_newleader(peer)


def _ack_newleader(peer: "Peer") -> None:
    following = peer.following
    assert following is not None
    assert following.link is not None
    assert following.newleader is not None
    epoch, zxid = following.newleader
    assert peer.current_epoch == epoch
    assert peer.durable >= zxid
    assert not peer.needs_member_record()
    following.newleader = None
    following.synchronized = True
    following.acked = zxid
    peer.send(following.link, msg.Ack(epoch, make_zxid(epoch, 0)))
    broadcast.learner_ack(peer)


def learner_on_uptodate(peer: "Peer", now: int, following: Following, message: msg.UpToDate) -> None:
    """FollowerProcessCOMMITLD: the epoch is established; everything up to the mark is committed."""
    if not following.synchronized:
        raise ProtocolError("UPTODATE before ACK of NEWLEADER")
    broadcast.learner_raise_mark(peer, message.zxid, "UPTODATE at")
    following.up_to_date = True
    peer.become(peer.state, BROADCAST)
    peer.settle_vote()
