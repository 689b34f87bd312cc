"""Phase 2, synchronization: every learner gets the leader's history, and says so.

    leader                                              learner
      DIFF | TRUNC | SNAP                           ->    (SNAP: fetch and install it; INSTALLED <-)
      PROPOSAL … (what it lacks, byte for byte)     ->    append, durably
      NEWLEADER (always last, in the same queue)    ->    history durable, then currentEpoch durable, then the member
                                                          record, except of an amnesiac; only then
                                                    <-    ACK with counter 0 (ACK-LD)
      a quorum of ACK-LD: the initial history is committed, broadcast begins
      UPTODATE (COMMIT-LD) with the mark of now     ->    serve clients
    and for an amnesiac, once a quorum without it has confirmed the leader (B2 amnesiacs)
      READMIT                                       ->    member record durable; only then
      from now on it counts                         <-    READMITTED

Variables: a handler's `cursor` (everything up to it was sent) and `stage`; `following.newleader`. Invariants: nothing
at or below a member's known high-water mark is ever cut; no acknowledgement leaves before ACK-LD, which leaves after
everything it promises is durable; from NEWLEADER on, a learner gets every proposal, with no gap and no repetition.
Three holes in the informal protocol text are closed by that: proposals go to whoever was sent NEWLEADER, repeated
ones are dropped, and UPTODATE carries the leader's present mark.

The left column, down to ACK-LD, is that of the master of an observer, too (`observer_master`): what it brings learners
to is what it knows to be committed (`peer.supplied`).

What the learner lacks is found by its position, zxid and chain hash together (A4 batch ends, A5 conflicts), never by
the number alone.
"""

from datatree.log import batch as codec
from datatree.log.batch import Batch, Position
from datatree.log.zxid import COUNTER_MAX, Zxid, epoch_of, just_below, make_zxid
from zab.protocol import broadcast, confirmation, disk_space, reconfiguration, renewal, session_keys
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import (
    EPOCH_ACCEPTED,
    NEWLEADER_SENT,
    SYNCHRONIZED,
    SYNCING,
    UP_TO_DATE,
    Following,
    Leading,
    LearnerHandler,
    ProtocolError,
    Supplying,
)
from zab.protocol.states import BROADCAST, LEADING, SYNCHRONIZATION

PROPOSAL_BYTES_MAX = 256 << 10
"""How many bytes of batches go into one PROPOSAL while a learner catches up (H2 turn budget)."""

# --------------------------------------------------------------------------------------------------------- the leader


def leader_start(peer: PeerState, now: int, leading: Leading) -> None:
    """A quorum has accepted the epoch, and the leader's currentEpoch is durable."""
    assert peer.current_epoch == leading.epoch
    peer.become(LEADING, SYNCHRONIZATION)
    if peer.needs_member_record():
        assert leading.first_start or not peer.amnesiac
        peer.emit(ev.SaveMember(peer.generation, peer.lineage))
    for handler in list(leading.handlers.values()):
        if handler.stage == EPOCH_ACCEPTED:
            leader_sync_learner(peer, leading, handler)
    leader_try_to_establish(peer, now, leading)


def leader_sync_learner(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """SyncFollower: choose DIFF, TRUNC or SNAP from the position that its ACKEPOCH told."""
    assert handler.stage == EPOCH_ACCEPTED
    handler.stage = SYNCING
    position = handler.position
    if position[0] < peer.history.base[0]:
        read_log(peer, handler, position[0])  # older than memory: the log files know
        return
    floor = peer.history.floor(position[0])
    assert floor is not None
    _decide(peer, supplying, handler, floor)


def _decide(peer: PeerState, supplying: Supplying, handler: LearnerHandler, floor: Position) -> None:
    """The learner shares our history at `floor` at the latest: the last position not above its own."""
    position = handler.position
    if floor == position:
        peer.send(handler.link, msg.Diff(floor[0]))
    else:
        if floor[0] == position[0]:
            handler.conflict = True
            peer.trace(f"ALARM: server {handler.sid} has other bytes than this leader at {floor[0]:#x}")
            before = peer.history.floor(just_below(floor[0]))
            if before is None and floor[0] > 0:
                read_log(peer, handler, just_below(floor[0]))
                return
            if before is None:
                _offer_snapshot(peer, supplying, handler)
                return
            floor = before
        peer.send(handler.link, msg.Trunc(*floor, handler.conflict))
    handler.decided = True
    handler.cursor = floor[0]
    _stream(peer, supplying, handler)


def leader_on_log_read(
    peer: PeerState, supplying: Supplying, handler: LearnerHandler, position: Position | None, batches: list[Batch]
) -> None:
    """The log files answered: with the place where the learner left our history, or with more of what it lacks."""
    assert handler.reading
    handler.reading = False
    if position is None and handler.decided:
        peer.drop_learner(supplying, handler, f"the log cannot be read on behind {handler.cursor:#x}")
    elif position is None:
        _offer_snapshot(peer, supplying, handler)
    elif not handler.decided:
        _decide(peer, supplying, handler, position)
    else:
        assert position[0] == handler.cursor, (position, handler.cursor)
        assert batches, "memory begins where the files end"
        _send_batches(peer, handler, up_to(peer.supplied, batches))
        _stream(peer, supplying, handler)


def _offer_snapshot(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """A learner that stayed through a renewal serves clients, whose tree no snapshot may replace: it has to leave, and
    comes in again without them (F1 renewal)."""
    if handler.served:
        peer.drop_learner(supplying, handler, "it needs a snapshot, and serves clients")
    else:
        handler.offered = True
        # Not below what it has, and perhaps has acknowledged: it is not taken back.
        peer.emit(ev.OfferSnapshot(handler.link, handler.position[0]))


def leader_on_snapshot_offered(
    peer: PeerState, supplying: Supplying, handler: LearnerHandler, position: Position
) -> None:
    """What the learner lacks is not in the log any more: it fetches a snapshot, over a connection of its own (H4 slow
    learners)."""
    assert not handler.decided
    assert position[0] > handler.position[0]
    handler.decided = handler.installing = True
    handler.cursor = position[0]
    peer.send(handler.link, msg.Snap(*position, handler.conflict))


def leader_on_nothing_to_offer(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """The log does not hold what the learner lacks, and no snapshot is new enough. The learner comes again; the member
    may have taken one by then, or another one may lead that can."""
    peer.drop_learner(supplying, handler, f"there is no snapshot above its {handler.position[0]:#x} yet")
    if isinstance(supplying, Leading):
        disk_space.leader_cannot_help(peer, supplying, handler)


def leader_on_snapshot_withdrawn(peer: PeerState, supplying: Supplying, handler: LearnerHandler, zxid: Zxid) -> None:
    """The log after the snapshot has grown too long before the learner had all of it: it comes again, for a newer
    one."""
    if handler.offered:
        peer.drop_learner(supplying, handler, f"snapshot {zxid:#x} is given up: the log after it has grown too long")


def leader_on_installed(
    peer: PeerState, now: int, supplying: Supplying, handler: LearnerHandler, message: msg.Installed
) -> None:
    """The learner holds the snapshot: send what came after it."""
    if not handler.installing or message.zxid != handler.cursor:
        raise ProtocolError("INSTALLED of a snapshot that was not sent")
    handler.installing = False
    _stream(peer, supplying, handler)


def read_log(peer: PeerState, handler: LearnerHandler, zxid: Zxid) -> None:
    assert not handler.reading
    handler.reading = True
    peer.emit(ev.ReadLog(handler.link, zxid, PROPOSAL_BYTES_MAX))


def _stream(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """Send what the learner lacks, and NEWLEADER after it."""
    assert supplying.epoch is not None
    history, end = peer.history, peer.supplied
    while handler.cursor < end:
        if handler.cursor < history.base[0]:
            read_log(peer, handler, handler.cursor)
            return
        _send_batches(peer, handler, up_to(end, history.after(handler.cursor, PROPOSAL_BYTES_MAX)))
    assert handler.cursor == end
    assert handler.stage == SYNCING
    handler.stage = NEWLEADER_SENT
    handler.newleader_zxid = end
    peer.release_snapshot(handler)
    session_keys.leader_tell(peer, handler)
    peer.send(handler.link, msg.NewLeader(supplying.epoch, end, supplying.is_founder(handler)))


def up_to(end: Zxid, batches: list[Batch]) -> list[Batch]:
    """Those that are not above this zxid: a file has what is not committed, too, and observers' masters keep that."""
    return batches if batches[-1].zxid <= end else [batch for batch in batches if batch.zxid <= end]


def _send_batches(peer: PeerState, handler: LearnerHandler, batches: list[Batch]) -> None:
    assert batches[0].zxid > handler.cursor
    handler.cursor = batches[-1].zxid
    peer.send(handler.link, msg.Proposal([batch.raw for batch in batches]))


def leader_on_ack(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Ack) -> None:
    """An ACK is bound to this epoch and this link (B5 link marks). With counter 0 it is that of NEWLEADER, else of
    proposals."""
    epoch = leading.epoch
    if message.epoch != epoch:
        if epoch is not None and message.epoch < epoch and handler.served:
            return  # it left before the learner heard of the renewal
        raise ProtocolError(f"ACK of epoch {message.epoch} in epoch {epoch}")
    if message.zxid & COUNTER_MAX or epoch_of(message.zxid) != epoch:
        broadcast.leader_process_ack(peer, now, leading, handler, message.zxid)
    else:
        leader_on_ackld(peer, now, leading, handler)


def leader_on_ackld(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler) -> None:
    """LeaderProcessACKLD: the learner's history and epoch are durable, and its record, unless it is an amnesiac."""
    if handler.stage != NEWLEADER_SENT:
        raise ProtocolError(f"ACK of NEWLEADER in stage {handler.stage.name}")
    handler.stage = SYNCHRONIZED
    handler.acked = leading.acknowledged[handler.sid] = handler.newleader_zxid
    confirmation.leader_ask_to_confirm(peer, leading, handler)
    if leading.is_founder(handler):
        handler.amnesiac = False
    elif handler.amnesiac and handler.counts_after_round is None and handler.readmitting is None:
        handler.counts_after_round = confirmation.leader_confirm(peer, leading)
    if peer.phase is BROADCAST:
        _send_uptodate(peer, handler)
        broadcast.leader_try_to_commit(peer, now, leading)
        disk_space.leader_weigh(peer, leading)
    else:
        leader_try_to_establish(peer, now, leading)


def leader_on_confirmed(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Confirmed
) -> None:
    """A learner followed us when it answered, which was after the round began (`confirmation`). An amnesiac that is
    confirmed by that has acknowledged NEWLEADER before: it may record that it is a member (B2 amnesiacs)."""
    if message.round > leading.confirm_round:
        raise ProtocolError(f"confirmation of round {message.round}, the newest is {leading.confirm_round}")
    handler.confirmed = max(handler.confirmed, message.round)
    for amnesiac in list(leading.handlers.values()):
        after = amnesiac.counts_after_round
        if after is not None and confirmation.is_confirmed(peer, leading, after):
            amnesiac.counts_after_round, amnesiac.readmitting = None, after
            peer.send(amnesiac.link, msg.Readmit(after))
    confirmation.leader_answer_questions(peer, leading)


def leader_on_readmitted(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Readmitted
) -> None:
    """An amnesiac has recorded that it is a member: what it has acknowledged counts."""
    if handler.readmitting is None or message.round != handler.readmitting:
        raise ProtocolError("READMITTED without READMIT")
    handler.readmitting = None
    handler.amnesiac = False
    peer.trace(f"a quorum without server {handler.sid} confirms -> it counts again")
    leader_try_to_establish(peer, now, leading)
    broadcast.leader_try_to_commit(peer, now, leading)


def leader_try_to_establish(peer: PeerState, now: int, leading: Leading) -> None:
    """ "Upon a quorum of ACK-LD": the initial history is committed, and the epoch is established."""
    if peer.phase is not SYNCHRONIZATION or not leading.epoch_current or peer.needs_member_record():
        return
    ackld_recv = {h.sid for h in leading.at_least(SYNCHRONIZED) if leading.counts(h)}
    if not peer.quorum.contains(ackld_recv | {peer.settings.sid}):
        return
    assert peer.durable == peer.history.last[0]
    leading.established = True
    if leading.serves_since is None:
        leading.serves_since = now
    leading.first_start = False
    peer.become(LEADING, BROADCAST)
    peer.trace(f"epoch {leading.epoch} is established by {sorted(ackld_recv | {peer.settings.sid})}")
    peer.settle_vote()
    peer.set_committed(peer.history.last[0])
    for handler in leading.at_least(SYNCHRONIZED):
        _send_uptodate(peer, handler)
    peer.deliver()
    renewal.leader_try_to_renew(peer, now, leading)
    disk_space.leader_weigh(peer, leading)


def _send_uptodate(peer: PeerState, handler: LearnerHandler) -> None:
    assert handler.stage == SYNCHRONIZED
    handler.stage = UP_TO_DATE
    handler.served = True
    peer.send(handler.link, msg.UpToDate(peer.committed))


# -------------------------------------------------------------------------------------------------------- the learner


def _learner_begin(peer: PeerState, following: Following) -> None:
    """The leader has its quorum of ACKEPOCHs and begins to send: only now may anything here be replaced."""
    assert following.epoch_saved
    peer.doubted_above = None
    peer.become(peer.state, SYNCHRONIZATION)
    if peer.history.last[0] == 0 and peer.needs_member_record():
        peer.adopt_lineage(peer.lineage)


def _check_may_begin(following: Following) -> None:
    if not following.epoch_saved:
        raise ProtocolError("synchronization before ACKEPOCH")


def learner_on_diff(peer: PeerState, now: int, following: Following, message: msg.Diff) -> None:
    """Everything we said we have, the leader has too."""
    _check_may_begin(following)
    position = peer.position()
    if message.zxid != position[0]:
        raise ProtocolError(f"DIFF at {message.zxid:#x}, this history ends at {position[0]:#x}")
    _learner_begin(peer, following)
    _cut(peer, position)


def learner_on_trunc(peer: PeerState, now: int, following: Following, message: msg.Trunc) -> None:
    """What comes after this position was never committed."""
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
        common = peer.history.floor(just_below(message.zxid))
        assert common is not None
        peer.doubted_above = common[0]
        peer.look(f"position {message.zxid:#x} of leader {following.leader} is not in this history")
        return
    _learner_begin(peer, following)
    _cut(peer, position)


def _learner_note_conflict(peer: PeerState, following: Following, zxid: Zxid) -> None:
    """Only a broken invariant can make two batches of one zxid. "Above the known mark the learner's tail is set aside
    and it is synchronized, with an alarm" (A5 conflicts)."""
    peer.conflict = True
    peer.trace(
        f"ALARM: leader {following.leader} has other bytes than this server at {zxid:#x}; "
        "what is cut here is kept for somebody to look at"
    )


def _cut(peer: PeerState, position: Position) -> None:
    """Cut the history after a position, in memory now, on disk before anything that is appended later."""
    if peer.history.last == position:
        return
    assert position[0] >= peer.committed, "nothing committed is ever cut"
    peer.trace(f"history is cut: {peer.history.last[0]:#x} -> {position[0]:#x}")
    peer.truncate(position)
    peer.durable = min(peer.durable, position[0])
    peer.generation += 1
    peer.emit(ev.TruncateLog(peer.generation, *position, peer.conflict))
    peer.conflict = False


def learner_on_snap(peer: PeerState, now: int, following: Following, message: msg.Snap) -> None:
    """The leader's log begins after our history ends: take its snapshot instead."""
    _check_may_begin(following)
    assert following.epoch is not None
    if following.up_to_date:
        raise ProtocolError(f"SNAP at {message.zxid:#x} for a member that serves clients")
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
    keeps_record = _holds_all_acknowledged(peer, message.zxid)
    peer.emit(ev.FetchSnapshot(peer.generation, following.source, *position, peer.lineage, peer.conflict, keeps_record))


def _holds_all_acknowledged(peer: PeerState, zxid: Zxid) -> bool:
    """Whether the snapshot at `zxid` of the leader that a quorum has accepted holds all that this member ever
    acknowledged and that may be committed; docs/explanation/zab.md has the proof. It may be false for an amnesiac,
    whose own end says nothing; and where a promise was broken (A5 conflicts), nothing is taken for granted."""
    return not peer.needs_member_record() and not peer.conflict and zxid > peer.history.last[0]


def learner_on_snapshot_installed(peer: PeerState, following: Following) -> None:
    assert following.link is not None
    assert following.fetching
    following.fetching = False
    peer.send(following.link, msg.Installed(peer.history.last[0]))


def learner_on_proposal(peer: PeerState, now: int, following: Following, message: msg.Proposal) -> None:
    """FollowerProcessPROPOSE, in synchronization and in broadcast: the next batch, a repeated one, or a broken link."""
    if following.fetching:
        raise ProtocolError("PROPOSAL while a snapshot is fetched")
    accepted: list[Batch] = []
    try:
        for raw in message.batches:
            try:
                batch = codec.parse(raw)
            except codec.BatchError as error:
                raise ProtocolError(f"damaged batch: {error}") from error
            if _accept(peer, following, batch, len(raw)):
                accepted.append(batch)
    finally:
        # Also those before one that ends the link: the history has them, and what it has is to be on the disk.
        if accepted:
            peer.emit(ev.AppendBatches(peer.generation, accepted, broadcast.learner_ack_of(following, accepted[-1])))
    if accepted:
        # A mark that a batch carries was reached before it was made: what it covers is committed.
        broadcast.learner_raise_mark(peer, accepted[-1].mark, "the mark of a batch,")


def _accept(peer: PeerState, following: Following, batch: Batch, length: int) -> bool:
    """Append one batch to the history; False when it is there already."""
    history = peer.history
    if length != len(batch.raw):
        raise ProtocolError("bytes after a batch")
    if batch.zxid <= history.last[0]:
        known = history.chain_at(batch.zxid)
        if known != batch.chain and (known is not None or batch.zxid > history.base[0]):
            raise ProtocolError(f"batch {batch.zxid:#x} is not the one that is logged here")
        return False
    assert following.epoch is not None
    if batch.epoch > following.epoch:
        raise ProtocolError(f"batch of epoch {batch.epoch} from the leader of epoch {following.epoch}")
    if not codec.follows(history.last[0], batch):
        raise ProtocolError(f"gap: batch {batch.first:#x} after {history.last[0]:#x}")
    if not codec.continues(history.last[1], batch):
        raise ProtocolError(f"batch {batch.first:#x} does not continue the chain at {history.last[0]:#x}")
    if batch.flags & codec.RECONFIG:
        try:
            peer.append_reconfiguration(batch)
        except ValueError as error:
            raise ProtocolError(f"batch {batch.first:#x}: {error}") from error
    history.append(batch)
    return True


def learner_on_newleader(peer: PeerState, now: int, following: Following, message: msg.NewLeader) -> None:
    """FollowerProcessNEWLEADER: "history durable -> currentEpoch durable -> ACK" (ZOOKEEPER-4643, -4646)."""
    if message.epoch != following.epoch:
        raise ProtocolError(f"NEWLEADER of epoch {message.epoch} in epoch {following.epoch}")
    if message.zxid != peer.history.last[0]:
        raise ProtocolError(f"NEWLEADER at {message.zxid:#x}, this history ends at {peer.history.last[0]:#x}")
    if following.newleader is not None or following.synchronized or following.fetching:
        raise ProtocolError("NEWLEADER out of place")
    following.newleader = (message.epoch, message.zxid)
    following.is_founder = message.founder
    session_keys.learner_on_newleader(peer, following)
    learner_try_to_ack_newleader(peer, following)


def learner_try_to_ack_newleader(peer: PeerState, following: Following) -> None:
    """Go on with NEWLEADER when the history that it came after is durable."""
    assert following.newleader is not None
    epoch, zxid = following.newleader
    if peer.durable >= zxid and not following.current_saving:
        following.current_saving = True
        peer.save_epochs(peer.accepted_epoch, epoch)


def learner_on_current_epoch_saved(peer: PeerState, following: Following) -> None:
    """The history and the epoch of NEWLEADER are durable. The member record is the last of its promises, for whoever
    counts at once. An amnesiac writes it when the leader readmits it: else it would count after its next start, though
    nobody has confirmed that leader."""
    if peer.needs_member_record() and (following.is_founder or not peer.amnesiac):
        peer.emit(ev.SaveMember(peer.generation, peer.lineage))
    else:
        learner_ack_newleader(peer, following)


def learner_ack_newleader(peer: PeerState, following: Following) -> None:
    """ACK-LD: everything that it promises is durable. What became durable meanwhile is acknowledged with it."""
    assert following.link is not None
    assert following.newleader is not None
    epoch, zxid = following.newleader
    assert peer.current_epoch == epoch
    assert peer.durable >= zxid
    assert peer.amnesiac or not peer.needs_member_record()
    following.newleader = None
    following.synchronized = True
    following.acked = zxid
    peer.send(following.link, msg.Ack(epoch, make_zxid(epoch, 0)))
    broadcast.learner_ack(peer, following)


def learner_on_readmit(peer: PeerState, now: int, following: Following, message: msg.Readmit) -> None:
    """A quorum without this member has confirmed the leader after it was synchronized (B2 amnesiacs)."""
    if following.readmitting is not None or not (following.synchronized or following.up_to_date):
        raise ProtocolError("READMIT out of place")
    following.readmitting = message.round
    if peer.needs_member_record():
        peer.emit(ev.SaveMember(peer.generation, peer.lineage))
    else:
        learner_readmitted(peer, following)  # it had only lost a part, as the leader knows


def learner_readmitted(peer: PeerState, following: Following) -> None:
    """The member record is durable."""
    assert following.link is not None
    assert following.readmitting is not None
    peer.send(following.link, msg.Readmitted(following.readmitting))
    following.readmitting = None


def learner_on_uptodate(peer: PeerState, now: int, following: Following, message: msg.UpToDate) -> None:
    """FollowerProcessCOMMITLD: the epoch is established; everything up to the mark is committed."""
    if not following.synchronized:
        raise ProtocolError("UPTODATE before ACK of NEWLEADER")
    broadcast.learner_raise_mark(peer, message.zxid, "UPTODATE at")
    following.up_to_date = True
    peer.become(peer.state, BROADCAST)
    peer.settle_vote()
    reconfiguration.learner_after_change(peer, following)
