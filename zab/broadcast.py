"""Phase 3, broadcast: batches are proposed, acknowledged, committed and delivered, in one order everywhere.

    leader                                          learner
      PROPOSAL (a batch), to its own log too    ->    append; durable, then
      a quorum is durable up to z: z is the     <-    ACK z (cumulative)
      high-water mark
      COMMIT z (cumulative), deliver            ->    deliver what is committed and durable here

Beside that: PING, with which each side knows that the other lives; the confirmation round, with which the leader proves
before it answers a `sync` that a quorum still follows it (D), and before it counts an amnesiac (B2); and the messages
that belong to the member (requests, revalidation), which only pass through here once the learner is being served.

Variables: `committed` (the high-water mark), `durable`, `delivered`, each handler's `acked`. Invariants: the leader
counts itself when its own log is durable, not before; the mark only rises; a learner acknowledges what is durable,
and nothing before ACK-LD.
"""

from typing import TYPE_CHECKING

from datatree.log import batch as codec
from datatree.log.zxid import counter_of, epoch_of, make_zxid
from zab import discovery, synchronization
from zab import events as ev
from zab import message as msg
from zab.high_water_mark import high_water_mark
from zab.roles import BROADCAST, Following, Leading, LearnerHandler, ProtocolError, Question, Stage

if TYPE_CHECKING:
    from zab.peer import Peer

# --------------------------------------------------------------------------------------------------------- the leader


def next_zxid(peer: "Peer") -> int | None:
    """The zxid of the next transaction; None while this member may not propose."""
    leading = peer.leading
    if leading is None or peer.phase != BROADCAST or leading.renewal_wanted:
        return None
    settings = peer.settings
    if len(leading.outstanding) >= settings.batches_in_flight_max:
        return None
    if leading.outstanding_bytes >= settings.unsynced_bytes_max:
        return None
    assert leading.epoch is not None
    last = peer.history.last[0]
    return last + 1 if epoch_of(last) == leading.epoch else make_zxid(leading.epoch, 1)


def leader_propose(peer: "Peer", now: int, event: ev.Propose) -> None:
    """LeaderProcessRequest: number the transactions as one batch, log it, and send it to everybody."""
    leading = peer.leading
    first = next_zxid(peer)
    assert leading is not None
    assert leading.epoch is not None
    assert first is not None, "only an established leader with room proposes"
    previous = peer.history.last
    batch = codec.build(
        previous[1],
        epoch=leading.epoch,
        first=first,
        count=event.count,
        time=event.time,
        flags=event.flags,
        mark=peer.committed,
        applied=event.applied,
        digest=event.digest,
        digest_version=event.digest_version,
        body=event.body,
    )
    peer.history.append(batch)
    leading.outstanding.append((batch.zxid, len(batch.raw)))
    leading.outstanding_bytes += len(batch.raw)
    peer.emit(ev.AppendBatches(peer.generation, [batch]))
    links = []
    for handler in leading.handlers.values():
        if handler.stage >= Stage.NEWLEADER_SENT:
            assert handler.cursor == previous[0], "a learner behind NEWLEADER has everything"
            handler.cursor = batch.zxid
            links.append(handler.link)
    if links:
        peer.emit(ev.Send(tuple(links), msg.Proposal([batch.raw])))
    if counter_of(batch.zxid) >= peer.settings.counter_limit:
        leader_want_renewal(peer, now, leading.epoch)


def counts(leading: Leading, handler: LearnerHandler) -> bool:
    """Whether this learner's acknowledgements count: a voter, no amnesiac, or confirmed without itself (B2)."""
    if handler.observer:
        return False
    return not handler.amnesiac or leading.is_founder(handler)


def leader_on_ack(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Ack) -> None:
    """LeaderProcessACK: cumulative, and bound to this epoch and this link (B5)."""
    leading = peer.leading
    assert leading is not None
    assert leading.epoch is not None
    if message.epoch < leading.epoch and handler.served:
        return  # it left before the learner heard of the renewal
    if message.epoch != leading.epoch:
        raise ProtocolError(f"ACK of epoch {message.epoch} in epoch {leading.epoch}")
    if counter_of(message.zxid) == 0 and epoch_of(message.zxid) == leading.epoch:
        synchronization.leader_on_ackld(peer, now, handler, message)
        return
    if handler.stage < Stage.SYNCHRONIZED:
        raise ProtocolError("ACK before the ACK of NEWLEADER")
    if not handler.acked <= message.zxid <= handler.cursor:
        raise ProtocolError(f"ACK {message.zxid:#x} outside of ({handler.acked:#x}, {handler.cursor:#x}]")
    is_news = message.zxid > peer.committed
    if is_news and peer.history.chain_at(message.zxid) is None:
        raise ProtocolError(f"ACK {message.zxid:#x} is not the end of a batch")
    handler.acked = leading.acknowledged[handler.sid] = message.zxid
    if is_news:
        leader_try_to_commit(peer, now)


def leader_try_to_commit(peer: "Peer", now: int) -> None:
    """LeaderTryToCommit: the high-water mark is what a quorum has on disk."""
    leading = peer.leading
    assert leading is not None
    if peer.phase != BROADCAST:
        return
    acknowledged = {h.sid: h.acked for h in leading.at_least(Stage.SYNCHRONIZED) if counts(leading, h)}
    acknowledged[peer.settings.sid] = peer.durable
    mark = high_water_mark(peer.settings.quorum, acknowledged, peer.committed)
    if mark > peer.committed:
        assert peer.history.chain_at(mark) is not None, "every position is the end of a batch"
        peer.set_committed(mark)
        links = tuple(h.link for h in leading.at_least(Stage.UP_TO_DATE))
        if links:
            peer.emit(ev.Send(links, msg.Commit(mark)))
        peer.deliver()
    _forget_outstanding(peer, leading)
    leader_try_to_renew(peer, now)


def _forget_outstanding(peer: "Peer", leading: Leading) -> None:
    done = min(peer.committed, peer.durable)
    while leading.outstanding and leading.outstanding[0][0] <= done:
        leading.outstanding_bytes -= leading.outstanding.popleft()[1]


def leader_want_renewal(peer: "Peer", now: int, above: int) -> None:
    """Propose nothing more; when everything is committed the epoch is renewed, to one above this (F1)."""
    leading = peer.leading
    assert leading is not None
    leading.renewal_wanted = True
    leading.renewal_above = max(leading.renewal_above, above)
    leader_try_to_renew(peer, now)


def leader_try_to_renew(peer: "Peer", now: int) -> None:
    """Renew the epoch if that is wanted and nothing is under way."""
    leading = peer.leading
    assert leading is not None
    if leading.renewal_wanted and peer.phase == BROADCAST and peer.committed == peer.history.last[0]:
        discovery.leader_renew(peer, now)


# ------------------------------------------------------------------------------------------------ confirmation rounds


def leader_on_sync(peer: "Peer", now: int, token: int) -> None:
    """A client asked for `sync`: note the mark of now, and ask the voters after that."""
    leading = peer.leading
    if leading is None or not leading.established:
        return  # the member drops its syncs when the role is left
    mark = peer.committed
    leading.questions.append(Question(leader_confirm(peer), token, mark))
    _answer_questions(peer, leading)


def leader_confirm(peer: "Peer") -> int:
    """Begin a confirmation round among the synchronized learners; its number."""
    leading = peer.leading
    assert leading is not None
    leading.confirm_round += 1
    links = tuple(h.link for h in leading.handlers.values() if h.served or h.stage >= Stage.SYNCHRONIZED)
    if links:
        peer.emit(ev.Send(links, msg.Confirm(leading.confirm_round)))
    return leading.confirm_round


def leader_ask_to_confirm(peer: "Peer", handler: LearnerHandler) -> None:
    """A learner is synchronized: if somebody waits for confirmations, those who were asked may be gone."""
    leading = peer.leading
    assert leading is not None
    if leading.questions or any(h.counts_after_round is not None for h in leading.handlers.values()):
        peer.send(handler.link, msg.Confirm(leading.confirm_round))


def leader_on_confirmed(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Confirmed) -> None:
    """A learner followed us when it answered, which was after the round began."""
    leading = peer.leading
    assert leading is not None
    if message.round > leading.confirm_round:
        raise ProtocolError(f"confirmation of round {message.round}, the newest is {leading.confirm_round}")
    handler.confirmed = max(handler.confirmed, message.round)
    for amnesiac in list(leading.handlers.values()):
        after = amnesiac.counts_after_round
        if after is not None and _is_confirmed(peer, leading, after):
            peer.trace(f"a quorum without server {amnesiac.sid} confirms -> it counts again")
            amnesiac.counts_after_round = None
            amnesiac.amnesiac = False
            synchronization.leader_try_to_establish(peer, now)
            leader_try_to_commit(peer, now)
    _answer_questions(peer, leading)


def _is_confirmed(peer: "Peer", leading: Leading, number: int) -> bool:
    """Whether a quorum has answered this round; amnesiacs are not part of it."""
    confirmed = {h.sid for h in leading.handlers.values() if h.confirmed >= number and counts(leading, h)}
    return peer.settings.quorum.contains(confirmed | {peer.settings.sid})


def _answer_questions(peer: "Peer", leading: Leading) -> None:
    while leading.questions and _is_confirmed(peer, leading, leading.questions[0].round):
        question = leading.questions.pop(0)
        peer.emit(ev.SyncConfirmed(question.token, question.mark))


# ----------------------------------------------------------------------------------------------------- signs of life


def leader_on_time(peer: "Peer", now: int) -> None:
    """Ping twice a tick; at every tick see who is silent, who does not acknowledge, and whether a quorum is left."""
    leading = peer.leading
    assert leading is not None
    if not leading.established and now >= leading.deadline:
        if _a_quorum_is_coming(peer, leading):
            leading.deadline = now + peer.settings.init_ms
            return
        peer.look(now, f"epoch {leading.epoch} has no quorum within initLimit")
        return
    if now >= leading.next_ping:
        leading.next_ping = now + peer.settings.tick_ms // 2
        links = tuple(h.link for h in leading.handlers.values() if h.stage >= Stage.SYNCING or h.served)
        if links:
            peer.emit(ev.Send(links, msg.Ping(peer.committed, 0, 0, [])))
    if now >= leading.next_tick:
        leading.next_tick = now + peer.settings.tick_ms
        _leader_tick(peer, leading, now)


def _a_quorum_is_coming(peer: "Peer", leading: Leading) -> bool:
    """Whether the epoch only waits for learners whose history is on the way: a transfer fails when it makes no
    progress, and then its link breaks; not when it is long (H4)."""
    coming = [h for h in leading.at_least(Stage.SYNCING) if counts(leading, h)]
    return any(h.stage == Stage.SYNCING for h in coming) and peer.settings.quorum.contains(
        {h.sid for h in coming} | {peer.settings.sid}
    )


def _leader_tick(peer: "Peer", leading: Leading, now: int) -> None:
    settings = peer.settings
    overdue = leading.overdue.sample(now, peer.history.last[0], settings.sync_ms)
    for handler in list(leading.handlers.values()):
        limit_ms = settings.sync_ms if handler.stage >= Stage.SYNCHRONIZED else settings.init_ms
        if now - handler.heard_at > limit_ms:
            peer.drop_learner(now, handler, f"silent for {now - handler.heard_at} ms")
        elif handler.stage >= Stage.SYNCHRONIZED and handler.acked < min(overdue, handler.cursor):
            peer.drop_learner(now, handler, f"has not acknowledged {overdue:#x} within syncLimit")
    if peer.durable < overdue:
        peer.look(now, f"own log is not durable up to {overdue:#x} within syncLimit")
    elif leading.established:
        alive = {h.sid for h in leading.handlers.values() if h.served and counts(leading, h)}
        if not settings.quorum.contains(alive | {settings.sid}):
            peer.look(now, f"only {sorted(alive)} follow, which is no quorum")
        elif peer.phase != BROADCAST and now >= leading.deadline:
            peer.look(now, f"epoch {leading.epoch} is not renewed within initLimit")


def leader_on_ping(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Ping) -> None:
    """The learner lives; what it reports of sessions and digest is the member's."""
    if handler.served:
        peer.emit(ev.MemberMessage(handler.link, handler.sid, message))


def leader_pass_on(peer: "Peer", now: int, handler: LearnerHandler, message: msg.Message) -> None:
    """A learner's request for the member."""
    if not handler.served:
        raise ProtocolError(f"{type(message).__name__} before UPTODATE")
    peer.emit(ev.MemberMessage(handler.link, handler.sid, message))


# -------------------------------------------------------------------------------------------------------- the learner


def on_durable(peer: "Peer", now: int) -> None:
    """The own log is durable further: the leader counts itself, a learner acknowledges."""
    if peer.leading is not None:
        leader_try_to_commit(peer, now)
    elif peer.following is not None:
        if peer.following.newleader is not None:
            synchronization.learner_try_to_ack_newleader(peer)
        learner_ack(peer)
    peer.deliver()


def learner_ack(peer: "Peer") -> None:
    """ACK what is durable; nothing before ACK-LD (ZOOKEEPER-4685)."""
    following = peer.following
    assert following is not None
    if not following.synchronized or peer.durable <= following.acked:
        return
    assert following.link is not None
    assert following.epoch is not None
    following.acked = peer.durable
    peer.send(following.link, msg.Ack(following.epoch, peer.durable))


def learner_on_commit(peer: "Peer", now: int, following: Following, message: msg.Commit) -> None:
    """FollowerProcessCOMMIT."""
    learner_raise_mark(peer, message.zxid, "COMMIT")


def learner_raise_mark(peer: "Peer", zxid: int, source: str) -> None:
    """The leader says that everything up to `zxid` is committed."""
    if zxid > peer.committed:
        last = peer.history.last[0]
        if zxid > last or peer.history.chain_at(zxid) is None:
            raise ProtocolError(f"{source} {zxid:#x} is not the end of a batch of this history, up to {last:#x}")
        peer.set_committed(zxid)
    peer.deliver()


def learner_on_ping(peer: "Peer", now: int, following: Following, message: msg.Ping) -> None:
    """Answer; and leave when the own log has not kept up within syncLimit (C4)."""
    assert following.link is not None
    peer.emit(ev.AnswerPing(following.link))
    overdue = following.overdue.sample(now, peer.history.last[0], peer.settings.sync_ms)
    if peer.durable < min(overdue, peer.history.last[0]):
        peer.look(now, f"own log is not durable up to {overdue:#x} within syncLimit")


def learner_on_confirm(peer: "Peer", now: int, following: Following, message: msg.Confirm) -> None:
    """Answer at once, without disk: we follow, and have accepted no higher epoch than this leader's."""
    assert following.link is not None
    peer.send(following.link, msg.Confirmed(message.round))


def learner_on_refused(peer: "Peer", now: int, following: Following, message: msg.Refused) -> None:
    """The leader says why it closes the link."""
    peer.look(now, f"leader {following.leader} refused: {message.reason}")


def learner_pass_on(peer: "Peer", now: int, following: Following, message: msg.Message) -> None:
    """The leader's answer for the member."""
    if not following.up_to_date:
        raise ProtocolError(f"{type(message).__name__} before UPTODATE")
    assert following.link is not None
    peer.emit(ev.MemberMessage(following.link, following.leader, message))


def learner_heard(peer: "Peer", now: int) -> None:
    """Any message is a sign of life of the leader."""
    following = peer.following
    assert following is not None
    settings = peer.settings
    following.deadline = now + (settings.sync_ms if following.up_to_date else settings.init_ms)


def learner_on_time(peer: "Peer", now: int) -> None:
    """Dial again, or give the leader up."""
    following = peer.following
    assert following is not None
    if now >= following.deadline:
        peer.look(now, f"leader {following.leader} was not heard for its limit")
    elif following.redial_at is not None and now >= following.redial_at:
        following.redial_at = None
        following.dialled += 1
        peer.emit(ev.ConnectQuorum(following.leader))
