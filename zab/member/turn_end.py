"""The end of a member's turn: what happens once, after all of its inputs.

    every role   connections that have just got their session, choked reads, long answers, throttled requests
    the leader   sessions that were silent for too long (G1 expiry last), expired znodes; then all writes become
                 batches; then questions that need a quorum
    a learner    all writes go to the leader as one message; then its questions
    every role   the feed of changes, limits, the disk; closing connections are forgotten

A part with nothing to do is not called: its state, or the time until which it waits, tells whether it is due. So a turn
costs no more than what happened in it.
"""

from __future__ import annotations

from datatree.opcodes import OpCode
from datatree.requests import PathOnly
from session.identity import NO_SESSION
from zab.member.between_members import MemberMessages
from zab.member.clients.connection import NEVER
from zab.member.events import MemberEffect, Warn
from zab.member.membership import reconfiguring
from zab.member.requests.applying import Applier
from zab.member.requests.change_feed import history_id_of
from zab.member.requests.limits import Limits
from zab.member.requests.processor import Processor
from zab.member.requests.questions import Questions
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.requests.serving import Serving
from zab.member.requests.watch_events import forget_some
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.state.sequences import Sequences
from zab.member.storage.events import LookAtSpace
from zab.member.trees.cleanup import Cleanup
from zab.member.trees.tree_integrity import TreeIntegrity
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol.features import FAIR_TURNS
from zab.protocol.peer import Peer
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId

_CREATE_SESSION = int(OpCode.CREATE_SESSION)


class TurnEnd:
    """Ends the turns of one member. Attributes without an underscore may be read."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[MemberEffect],
        processor: Processor,
        limits: Limits,
        throttle: RequestThrottle | None,
        questions: Questions,
        messages: MemberMessages,
        serving: Serving,
        applier: Applier,
        trees: TreeIntegrity,
    ) -> None:
        self._config = processor.state.config
        self._clock = processor.state.clock
        self._clients = processor.clients
        self._sessions = processor.sessions
        self._metrics = processor.metrics
        self._driver = driver
        self._peer = driver.peer
        self._outbox = outbox
        self._processor = processor
        self._limits = limits
        self._throttle = throttle
        self._receive = (throttle or processor).receive
        self._questions = questions
        self._messages = messages
        self._serving = serving
        self._applier = applier
        self._trees = trees
        self._look_at = self._clock.now if self._config.storage.disk_low_bytes else NEVER
        """From when on a turn looks whether the disk has room."""
        self._lead_at = self._clock.now
        """From when on each turn of a leader looks for sessions and znodes that expire, and notes how old these are."""
        self._sequences = Sequences(self._config.timing.tick_time_ms)
        self._lacks_configuration = False
        """Whether this leader still has to propose the first configuration of the history."""
        self.cleanup: Cleanup | None = None
        """The leader's."""

    def lead(self) -> None:
        """Lead from now on."""
        self.cleanup = Cleanup(self._config, self._clock.now)
        self._lead_at = self._clock.now
        self._lacks_configuration = reconfiguring.lacks_first(self._config, self._peer)

    def drop_role(self) -> None:
        """Drop the state of the role: the next leader gets none of it (G2 former roles)."""
        self.cleanup = None

    @property
    def next_deadline(self) -> int:
        """When a turn is due for `end`, although nothing happens: all times that the parts wait for."""
        serving, sessions, cleanup = self._serving, self._sessions, self.cleanup
        due = self._limits.next_deadline
        wait_ends = self._processor.change_feed.next_deadline
        if wait_ends is not None and wait_ends < due:
            due = wait_ends
        if serving.is_on and sessions.tracker is not None and sessions.tracker.next_deadline < due:
            due = sessions.tracker.next_deadline
        if cleanup is not None and cleanup.next_deadline < due:
            due = cleanup.next_deadline
        local = sessions.local
        if local.timeouts and local.next_deadline < due and (serving.is_on or serving.read_only.is_on):
            due = local.next_deadline
        return due

    @property
    def is_due(self) -> bool:
        """Whether `end` has something to do although nothing has happened."""
        processor, sessions, limits, now = self._processor, self._sessions, self._limits, self._clock.now
        if processor.intake.queue or processor.waiting.syncing or sessions.wanted or sessions.revalidations:
            return True
        if self._questions.is_any_asked or sessions.doubted or self._trees.check.undecided is not None:
            return True
        if limits.loaded or limits.large.waiting or self._throttle is not None or now >= self._look_at:
            return True
        return (self._peer.state is LEADING and now >= self._lead_at) or now >= self.next_deadline

    def end(self) -> None:
        """Do everything, in the order above."""
        processor, sessions, limits, now = self._processor, self._sessions, self._limits, self._clock.now
        if sessions.established:
            for connection in sessions.take_established():
                held, connection.held = connection.held, []
                connection.last_answer = _CREATE_SESSION, 0, self._applier.applied, now, 0
                if held and not connection.closing:
                    self._receive(connection, held)
        processor.state.spent = 0
        if processor.overdue or processor.waiting.choked or processor.waiting.answering:
            processor.resume()
        if self._throttle is not None:
            self._throttle.turn(now)
        sums = processor.state.tree.quota_sums
        if sums.is_due:
            sums.count_some()
        if sessions.local.timeouts and now >= sessions.local.next_deadline:
            self._expire_local()
        if self._serving.is_on and not self._serving.is_halted:
            questions, intake = self._questions, processor.intake
            has_asked = intake.queue or processor.waiting.syncing or sessions.wanted or intake.is_stalled
            if self._peer.state is not LEADING:
                if has_asked or sessions.revalidations:
                    self._follow()
            elif (
                has_asked
                or now >= self._lead_at
                or sessions.doubted
                or questions.is_any_asked
                or self._trees.check.undecided is not None
            ):
                self._lead()
        changes = processor.change_feed
        if changes.asked and self._serving.is_on:
            history, history_id = self._peer.history, history_id_of(self._peer.lineage)
            for wanted in changes.turn(now, history, history_id, self._applier.applied):
                self._outbox.want(wanted)
        is_any_held = limits.loaded or limits.full or limits.large.waiting or self._throttle is not None
        if self._clients.dirty or processor.state.event_sender.waiting or is_any_held or now >= limits.next_deadline:
            limits.end_turn(now, processor.waiting.outstanding_count, processor.intake.is_stalled)
        if now >= self._look_at:
            self._look_at = now + self._config.timing.tick_time_ms
            self._outbox.want(LookAtSpace())
        nearing, leads = processor.state.tree.nearing, processor.proposing.prepare is not None
        if nearing and now >= self._sequences.look_at and leads and not self._config.tree.sequence_64_enabled:
            for text in self._sequences.look(nearing, now):
                self._outbox.want(Warn(text))
        if self._clients.ending:
            for connection in self._clients.reap():
                limits.forget(connection)
                processor.forget(connection)
                self._sessions.forget(connection)
        if processor.leaving:
            forget_some(processor.state.watches, processor.leaving)

    def _expire_local(self) -> None:
        """Expire the sessions that only this member knows, while it serves."""
        if self._serving.is_on or self._sessions.is_read_only:
            for session in self._sessions.expire_local(self._clock.now):
                told = f"session {session:#x} was silent for its timeout -> it is over; no other member knows it"
                self._outbox.trace(told)
                self._metrics.stale_sessions_expired += 1

    def _lead(self) -> None:
        """Propose all writes as one batch, or as several if they are large; then answer what waits for that."""
        processor, sessions, cleanup = self._processor, self._sessions, self.cleanup
        questions, intake, proposing = self._questions, processor.intake, processor.proposing
        assert sessions.tracker is not None
        refuses_writes = self._trees.check.undecided is not None
        if self._clock.now >= sessions.tracker.next_deadline:
            for session in sessions.expired(self._clock.now):
                self._outbox.trace(f"session {session:#x} was silent for its timeout -> close it")
                self._metrics.stale_sessions_expired += 1
                processor.submit(session, 0, OpCode.CLOSE_SESSION, b"", None)
        if cleanup is not None and self._clock.now >= cleanup.next_turn and not refuses_writes:
            for path in cleanup.due(self._applier.tree, self._clock.now):
                processor.submit(NO_SESSION, 0, OpCode.DELETE_CONTAINER, PathOnly(path).encode(), None)
        if self._lacks_configuration:
            self._lacks_configuration = not reconfiguring.submit_first(self._config, self._peer, processor)
        if sessions.wanted:
            processor.submit_new_sessions()
        if intake.is_stalled:
            intake.go_on()
        if intake.queue:
            if proposing.newest_time > self._clock.wall and proposing.is_ahead_of(self._clock.wall):
                self._outbox.trace(
                    f"this wall clock says {self._clock.wall} ms, the newest batch has {proposing.newest_time} ms "
                    "-> the times of batches go back to the clock"
                )
            next_zxid = self._peer.next_zxid if not self._trees.repair.is_full else lambda: None
            for proposal in proposing.proposals(
                *(next_zxid, self._clock.wall, lambda: _in_order(self._peer), self._peer.leading),
                refuses_writes=refuses_writes,
            ):
                self._metrics.proposal_count += 1
                self._driver.propose(proposal)
            if intake.queue and not proposing.is_due:
                intake.stall(passes_small=proposing.passes_small)
        tag = processor.waiting.take_sync_tag() if processor.waiting.syncing else None
        if tag is not None:
            questions.sync(None, tag, intake.arrived_count)
        if questions.is_any_asked or sessions.doubted:
            proposed = intake.left_count
            if sessions.doubted or questions.is_round_due(proposed):
                self._driver.tell(ev.SyncRequested(questions.begin_round(sessions.take_doubted(), proposed)))
            for route, tag in questions.due_owners(proposed):
                self._messages.answer(route, mmsg.Revalidated(tag, True, self._peer.history.last[0]))
        due = sessions.tracker.next_deadline
        self._lead_at = due if cleanup is None else min(due, cleanup.next_turn)

    def _follow(self) -> None:
        """Forward the writes to the leader as one message; then ask the questions."""
        processor, sessions, questions = self._processor, self._sessions, self._questions
        intake = processor.intake
        link = self._peer.link_to_leader
        assert link is not None, "who serves has a link to the leader"
        if sessions.wanted:
            processor.submit_new_sessions()
        for message in processor.forwarded.take(intake) if intake.queue else ():
            self._outbox.send(link, message)
        if intake.queue:
            intake.stall(passes_small=processor.forwarded.passes_small)
        elif intake.is_stalled:
            intake.go_on()
        tag = processor.waiting.take_sync_tag() if processor.waiting.syncing else None
        if tag is not None:
            questions.sync(None, tag, intake.arrived_count)
        for _, tag in questions.due_syncs(intake.left_count) if questions.is_any_asked else ():
            self._outbox.send(link, mmsg.Sync(tag))
        if sessions.revalidations:
            # A question goes after everything that older connections of its session have asked for.
            for question in sessions.take_revalidations(intake.sessions):
                self._outbox.send(link, question)


def _in_order(peer: Peer) -> set[ServerId]:
    """Servers that want their forwarded writes back in order, as far as this leader knows (`Intake.stay`)."""
    leading = peer.leading
    assert leading is not None
    return {*leading.attached.values(), *(h.sid for h in leading.handlers.values() if not h.features & FAIR_TURNS)}
