"""Phase 2, synchronization, and the leader's part of it: every learner gets the leader's history, and acknowledges it.

    leader                                              learner
      DIFF | TRUNC | SNAP                           ->    (SNAP: fetch and install it; INSTALLED <-)
      PROPOSAL … (what it lacks, byte for byte)     ->    append, durably
      NEWLEADER (always last, in the same queue)    ->    history durable, then currentEpoch durable, then the member
                                                          record, unless it is an amnesiac; only then
                                                    <-    ACK with counter 0 (ACK-LD)
      a quorum of ACK-LD: the initial history is committed, broadcast begins
      UPTODATE (COMMIT-LD) with the mark of now     ->    serve clients
    and for an amnesiac, once a quorum without it has confirmed the leader (B2 amnesiacs)
      READMIT                                       ->    member record durable; only then
      from now on it counts                         <-    READMITTED

Variables: a handler's `cursor` (everything up to it was sent) and `stage`; `following.newleader`. Invariants: nothing
at or below a member's known high-water mark is ever cut; no acknowledgement is sent before ACK-LD, which is sent after
everything it promises is durable; from NEWLEADER on, a learner gets every proposal, with no gap and no repetition. This
closes three holes in the informal protocol text: proposals go to every learner that was sent NEWLEADER, repeated ones
are dropped, and UPTODATE carries the leader's present mark.

The learner's part is in `learner_synchronization`.

The left column, down to ACK-LD, also describes an observer's master (`observer_master`): it brings learners up to what
it knows to be committed (`peer.supplied`).

The learner's position, zxid and chain hash together, determines what it lacks (A4 batch ends, A5 conflicts), never the
zxid alone.
"""

from datatree.log.batch import Batch, Position
from datatree.log.zxid import COUNTER_MAX, Zxid, epoch_of, just_below
from zab.protocol import broadcast, confirmation, disk_space, renewal, session_keys
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import (
    EPOCH_ACCEPTED,
    NEWLEADER_SENT,
    SYNCHRONIZED,
    SYNCING,
    UP_TO_DATE,
    Leading,
    LearnerHandler,
    ProtocolError,
    Supplying,
)
from zab.protocol.states import BROADCAST, LEADING, SYNCHRONIZATION

PROPOSAL_BYTES_MAX = 256 << 10
"""How many bytes of batches go into one PROPOSAL while a learner catches up (H2 turn budget)."""


def leader_start(peer: PeerState, now: int, leading: Leading) -> None:
    """A quorum has accepted the epoch, and the leader's currentEpoch is durable."""
    assert peer.current_epoch == leading.epoch
    peer.become(LEADING, SYNCHRONIZATION)
    if peer.needs_member_record():
        assert leading.first_start or not peer.amnesiac
        peer.emit(fx.SaveMember(peer.generation, peer.lineage))
    for handler in list(leading.handlers.values()):
        if handler.stage == EPOCH_ACCEPTED:
            leader_sync_learner(peer, leading, handler)
    leader_try_to_establish(peer, now, leading)


def leader_sync_learner(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """SyncFollower: choose DIFF, TRUNC or SNAP from the position in its ACKEPOCH."""
    assert handler.stage == EPOCH_ACCEPTED
    handler.stage = SYNCING
    position = handler.position
    if position[0] < peer.history.base[0]:
        read_log(peer, handler, position[0])  # older than what is in memory: ask the log files
        return
    floor = peer.history.floor(position[0])
    assert floor is not None
    _decide(peer, supplying, handler, floor)


def _decide(peer: PeerState, supplying: Supplying, handler: LearnerHandler, floor: Position) -> None:
    """Decide with `floor`, our last position that is not above the learner's: the histories agree there, or earlier."""
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
    """The log files answered: with the position where the learner's history leaves ours, or with more of what it
    lacks."""
    assert handler.reading
    handler.reading = False
    if position is None and handler.decided:
        peer.drop_learner(supplying, handler, f"the log cannot be read after {handler.cursor:#x}")
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
    """A learner that stayed through a renewal serves clients, so a snapshot must not replace its tree: it has to leave,
    and connects again without clients (F1 renewal)."""
    if handler.served:
        peer.drop_learner(supplying, handler, "it needs a snapshot, and serves clients")
    else:
        handler.offered = True
        # Above what it has, and may have acknowledged: a snapshot never takes a learner back.
        peer.emit(fx.OfferSnapshot(handler.link, handler.position[0]))


def leader_on_snapshot_offered(
    peer: PeerState, supplying: Supplying, handler: LearnerHandler, position: Position
) -> None:
    """The log no longer has what the learner lacks: let it fetch a snapshot, over a separate connection (H4 slow
    learners)."""
    assert not handler.decided
    assert position[0] > handler.position[0]
    handler.decided = handler.installing = True
    handler.cursor = position[0]
    peer.send(handler.link, msg.Snap(*position, handler.conflict))


def leader_on_nothing_to_offer(peer: PeerState, supplying: Supplying, handler: LearnerHandler) -> None:
    """The log does not have what the learner lacks, and no snapshot is new enough. The learner connects again; this
    member may have taken a snapshot by then, or another one may lead that has one."""
    peer.drop_learner(supplying, handler, f"there is no snapshot above its {handler.position[0]:#x} yet")
    if isinstance(supplying, Leading):
        disk_space.leader_cannot_help(peer, supplying, handler)


def leader_on_snapshot_withdrawn(peer: PeerState, supplying: Supplying, handler: LearnerHandler, zxid: Zxid) -> None:
    """The log after the snapshot grew too long before the learner had all of it: it connects again, for a newer
    snapshot."""
    if handler.offered:
        peer.drop_learner(supplying, handler, f"snapshot {zxid:#x} is given up: the log after it has grown too long")


def leader_on_installed(
    peer: PeerState, now: int, supplying: Supplying, handler: LearnerHandler, message: msg.Installed
) -> None:
    """The learner has the snapshot: send what follows it."""
    if not handler.installing or message.zxid != handler.cursor:
        raise ProtocolError("INSTALLED of a snapshot that was not sent")
    handler.installing = False
    _stream(peer, supplying, handler)


def read_log(peer: PeerState, handler: LearnerHandler, zxid: Zxid) -> None:
    assert not handler.reading
    handler.reading = True
    peer.emit(fx.ReadLog(handler.link, zxid, PROPOSAL_BYTES_MAX))


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
    """The batches up to this zxid: a log file may have uncommitted ones, which a master must not send to observers."""
    return batches if batches[-1].zxid <= end else [batch for batch in batches if batch.zxid <= end]


def _send_batches(peer: PeerState, handler: LearnerHandler, batches: list[Batch]) -> None:
    assert batches[0].zxid > handler.cursor
    handler.cursor = batches[-1].zxid
    peer.send(handler.link, msg.Proposal([batch.raw for batch in batches]))


def leader_on_ack(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Ack) -> None:
    """An ACK is bound to this epoch and this link (B5 link marks). With counter 0 it acknowledges NEWLEADER, otherwise
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
    """A learner followed us when it answered, which was after the round began (`confirmation`). An amnesiac whose round
    is confirmed had acknowledged NEWLEADER before: it may record that it is a member (B2 amnesiacs)."""
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
