"""Phase 2 at the learner: it adopts the leader's history, and acknowledges it once that is durable.

The messages, and the invariants, are in `zab.protocol.synchronization`, which has the leader's part.
"""

from datatree.log import batch as codec
from datatree.log.batch import Batch, Position
from datatree.log.zxid import Zxid, epoch_of, just_below, make_zxid
from zab.protocol import broadcast, reconfiguration, session_keys
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following, ProtocolError
from zab.protocol.states import BROADCAST, SYNCHRONIZATION


def _learner_begin(peer: PeerState, following: Following) -> None:
    """The leader has its quorum of ACKEPOCHs and begins to send: from now on, and not before, local history may be
    replaced."""
    assert following.epoch_saved
    peer.doubted_above = None
    peer.become(peer.state, SYNCHRONIZATION)
    if peer.history.last[0] == 0 and peer.needs_member_record():
        peer.adopt_lineage(peer.lineage)


def _check_may_begin(following: Following) -> None:
    if not following.epoch_saved:
        raise ProtocolError("synchronization before ACKEPOCH")


def learner_on_diff(peer: PeerState, now: int, following: Following, message: msg.Diff) -> None:
    """The leader has everything that we reported to have."""
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
        # Both histories continue there with batches that no other member has. Report the position below next; cutting
        # at the mark right away could remove what is committed and was acknowledged here (ZOOKEEPER-4643).
        common = peer.history.floor(just_below(message.zxid))
        assert common is not None
        peer.doubted_above = common[0]
        peer.look(f"position {message.zxid:#x} of leader {following.leader} is not in this history")
        return
    _learner_begin(peer, following)
    _cut(peer, position)


def _learner_note_conflict(peer: PeerState, following: Following, zxid: Zxid) -> None:
    """Only a broken invariant can produce two batches with one zxid. "Above the known mark the learner's tail is set
    aside and it is synchronized, with an alarm" (A5 conflicts)."""
    peer.conflict = True
    peer.trace(
        f"ALARM: leader {following.leader} has other bytes than this server at {zxid:#x}; "
        "what is cut here is kept for somebody to look at"
    )


def _cut(peer: PeerState, position: Position) -> None:
    """Cut the history after a position: in memory now, on disk before any later append."""
    if peer.history.last == position:
        return
    assert position[0] >= peer.committed, "nothing committed is ever cut"
    peer.trace(f"history is cut: {peer.history.last[0]:#x} -> {position[0]:#x}")
    peer.truncate(position)
    peer.durable = min(peer.durable, position[0])
    peer.generation += 1
    peer.emit(fx.TruncateLog(peer.generation, *position, peer.conflict))
    peer.conflict = False


def learner_on_snap(peer: PeerState, now: int, following: Following, message: msg.Snap) -> None:
    """The leader's log begins after the end of our history: fetch its snapshot instead."""
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
    peer.emit(fx.FetchSnapshot(peer.generation, following.source, *position, peer.lineage, peer.conflict, keeps_record))


def _holds_all_acknowledged(peer: PeerState, zxid: Zxid) -> bool:
    """Whether the snapshot at `zxid`, of the leader that a quorum has accepted, contains all that this member ever
    acknowledged and that may be committed; docs/explanation/zab.md has the proof. False for an amnesiac, whose own end
    proves nothing, and after a broken promise (A5 conflicts)."""
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
        # Include those before a batch that ends the link: the history has them, so they must get to the disk.
        if accepted:
            broadcast.learner_log(peer, following, accepted)
    if accepted:
        broadcast.learner_raise_mark(peer, accepted[-1].mark, broadcast.MARK_OF_A_BATCH)


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
    """Continue with NEWLEADER once the history before it is durable."""
    assert following.newleader is not None
    epoch, zxid = following.newleader
    if peer.durable >= zxid and not following.current_saving:
        following.current_saving = True
        peer.save_epochs(peer.accepted_epoch, epoch)


def learner_on_current_epoch_saved(peer: PeerState, following: Following) -> None:
    """The history and the epoch of NEWLEADER are durable. A member that counts writes its member record as the last
    promise. An amnesiac writes it when the leader readmits it: otherwise it would count after its next start, although
    nobody has confirmed that leader."""
    if peer.needs_member_record() and (following.is_founder or not peer.amnesiac):
        peer.emit(fx.SaveMember(peer.generation, peer.lineage))
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
        peer.emit(fx.SaveMember(peer.generation, peer.lineage))
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
