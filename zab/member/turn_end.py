"""The end of a member's turn: what happens once, after all of its inputs.

    everybody    connections that have just got their session, choked reads, long answers, throttled requests
    the leader   sessions that were silent for too long (G1 expiry last), znodes whose time is over; then all that is to
                 be written becomes batches; then questions that need a quorum
    a learner    all that is to be written goes to the leader as one message; then its questions
    everybody    the feed of changes, limits, the disk; connections that are closing are forgotten

Whoever has nothing to do is not called: each says by what it keeps, or by the time until which it waits, whether a turn
is its own. So a turn costs what has happened in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from datatree.opcodes import OpCode
from datatree.requests import PathOnly
from session.identity import NO_SESSION
from zab.member import between_members
from zab.member.clients.connection import ClientConnection, Clients
from zab.member.events import Warn
from zab.member.membership import reconfiguring
from zab.member.requests.change_feed import history_id_of
from zab.member.requests.limits import Limits
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.requests.watch_events import forget_some
from zab.member.settings.config import Config
from zab.member.state.sequences import Sequences
from zab.member.storage.events import LookAtSpace
from zab.member.trees import tree_repair
from zab.member.trees.cleanup import Cleanup
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.features import FAIR_TURNS
from zab.protocol.peer import Peer
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId

_CREATE_SESSION = int(OpCode.CREATE_SESSION)


class Member(between_members.Member, Protocol):
    """What is needed of a `zab.member.member.Member`."""

    config: Config
    clients: Clients
    limits: Limits
    throttle: RequestThrottle | None
    receive: Callable[[ClientConnection, Sequence[bytes]], None]
    cleanup: Cleanup | None
    wall: int
    serving: bool
    halted: bool
    is_stalled: bool
    passes_small: bool
    lacks_configuration: bool
    look_at: int
    sequences: Sequences
    lead_at: int


def end_turn(member: Member) -> None:
    """All of it, in that order."""
    processor, sessions, limits, now = member.processor, member.sessions, member.limits, member.now
    if sessions.established:
        established, sessions.established = sessions.established, []
        for connection in established:
            held, connection.held = connection.held, []
            connection.last_answer = _CREATE_SESSION, 0, member.applied, now, 0
            if held and not connection.closing:
                member.receive(connection, held)
    processor.state.spent = 0
    if processor.choked or processor.answering or processor.overdue:
        processor.resume()
    if member.throttle is not None:
        member.throttle.turn(now)
    sums = processor.state.tree.quota_sums
    if sums.is_due:
        sums.count_some()
    if sessions.local.timeouts and now >= sessions.local.next_deadline and (member.serving or sessions.is_read_only):
        for session in sessions.expire_local(now):
            member.trace(f"session {session:#x} was silent for its timeout -> it is over; no other member knows it")
            member.metrics.stale_sessions_expired += 1
    if member.serving and not member.halted:
        questions = member.questions
        has_asked = processor.intake.queue or processor.syncing or sessions.wanted or member.is_stalled
        if member.peer.state is not LEADING:
            if has_asked or sessions.revalidations:
                _follow(member)
        elif (
            has_asked
            or now >= member.lead_at
            or sessions.doubted
            or questions.is_any_asked
            or member.check.undecided is not None
        ):
            _lead(member)
    changes = processor.change_feed
    if changes.asked and member.serving:
        for wanted in changes.turn(now, member.peer.history, history_id_of(member.peer.lineage), member.applied):
            member.want(wanted)
    is_any_held = limits.loaded or limits.full or limits.large.waiting or member.throttle is not None
    if member.clients.dirty or processor.state.event_sender.waiting or is_any_held or now >= limits.next_deadline:
        limits.end_turn(now, processor.outstanding_count, member.is_stalled)
    if now >= member.look_at and member.config.storage.disk_low_bytes:
        member.look_at = now + member.config.timing.tick_time_ms
        member.want(LookAtSpace())
    nearing, leads = processor.state.tree.nearing, processor.proposing.prepare is not None
    if nearing and now >= member.sequences.look_at and leads and not member.config.tree.sequence_64_enabled:
        for text in member.sequences.look(nearing, now):
            member.want(Warn(text))
    if member.clients.ending:
        for connection in member.clients.reap():
            limits.forget(connection)
            processor.forget(connection)
            member.sessions.forget(connection)
    if processor.leaving:
        forget_some(processor.state.watches, processor.leaving)


def _lead(member: Member) -> None:
    """All that is to be written becomes one batch, or as many as its size asks for; then what waits for that."""
    processor, sessions, cleanup = member.processor, member.sessions, member.cleanup
    questions, intake, proposing = member.questions, processor.intake, processor.proposing
    assert sessions.tracker is not None
    proposing.refuses_writes = member.check.undecided is not None
    if member.now >= sessions.tracker.next_deadline:
        for session in sessions.expired(member.now):
            member.trace(f"session {session:#x} was silent for its timeout -> close it")
            member.metrics.stale_sessions_expired += 1
            processor.submit(session, 0, OpCode.CLOSE_SESSION, b"", None)
    if cleanup is not None and member.now >= cleanup.next_turn and not proposing.refuses_writes:
        for path in cleanup.due(member.tree, member.now):
            processor.submit(NO_SESSION, 0, OpCode.DELETE_CONTAINER, PathOnly(path).encode(), None)
    if member.lacks_configuration:
        member.lacks_configuration = not reconfiguring.submit_first(member.config, member.peer, processor)
    if sessions.wanted:
        processor.submit_new_sessions()
    member.is_stalled = False
    if intake.queue:
        if proposing.newest_time > member.wall and proposing.is_ahead_of(member.wall):
            member.trace(
                f"this wall clock says {member.wall} ms, the newest batch is of {proposing.newest_time} ms "
                "-> the times of batches go back to the clock"
            )
        next_zxid = member.peer.next_zxid if tree_repair.has_room(member) else lambda: None
        for proposal in proposing.proposals(
            next_zxid, member.wall, lambda: _in_order(member.peer), member.peer.leading
        ):
            member.metrics.proposal_count += 1
            member.tell(proposal)
        member.is_stalled = bool(intake.queue) and not proposing.is_due
        member.passes_small = proposing.passes_small
    tag = processor.take_sync_tag() if processor.syncing else None
    if tag is not None:
        questions.sync(None, tag, intake.arrived_count)
    if questions.is_any_asked or sessions.doubted:
        proposed = intake.left_count
        if sessions.doubted or questions.is_round_due(proposed):
            doubted, sessions.doubted = sessions.doubted, []
            member.tell(ev.SyncRequested(questions.begin_round(doubted, proposed)))
        for route, tag in questions.due_owners(proposed):
            between_members.answer(member, route, msg.Revalidated(tag, True, member.peer.history.last[0]))
    due = sessions.tracker.next_deadline
    member.lead_at = due if cleanup is None else min(due, cleanup.next_turn)


def _follow(member: Member) -> None:
    """What is to be written goes to the leader as one message; then the questions."""
    processor, sessions, questions = member.processor, member.sessions, member.questions
    intake = processor.intake
    link = member.peer.link_to_leader
    assert link is not None, "who serves has a link to the leader"
    if sessions.wanted:
        processor.submit_new_sessions()
    for message in processor.forwarded.take(intake) if intake.queue else ():
        member.send(link, message)
    member.is_stalled = bool(intake.queue)
    member.passes_small = processor.forwarded.passes_small
    tag = processor.take_sync_tag() if processor.syncing else None
    if tag is not None:
        questions.sync(None, tag, intake.arrived_count)
    for _, tag in questions.due_syncs(intake.left_count) if questions.is_any_asked else ():
        member.send(link, msg.Sync(tag))
    if sessions.revalidations:
        # A question goes behind all that older connections of its session have asked for.
        left = intake.sessions
        revalidations, sessions.revalidations = sessions.revalidations, []
        for question in revalidations:
            if question.session in left:
                sessions.revalidations.append(question)
            else:
                member.send(link, question)


def _in_order(peer: Peer) -> set[ServerId]:
    """Servers that want what they forwarded back in that order, as far as this leader knows (`Intake.stay`)."""
    leading = peer.leading
    assert leading is not None
    return {*leading.attached.values(), *(h.sid for h in leading.handlers.values() if not h.features & FAIR_TURNS)}
