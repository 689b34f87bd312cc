"""One member of the ensemble, without I/O: peer, tree, sessions and clients wired into one `step`.

    step(now, wall, inputs) -> effects    one turn of the loop; `now` monotonic ms, `wall` ms since 1970
    next_deadline()                       when a step is wanted although nothing happened
    clients.dirty                         after a step: connections to be flushed, paused, read from again or closed

The order of a turn, whatever the order of its inputs (H2 turn budget: acknowledgements never wait for clients):

    1  what the peer is told: links, messages, storage; its effects, among them what is committed
    2  committed batches are applied and answered, up to a budget; the rest is first in the next turn
    3  clients: new connections, bytes, ends
    4  the end (`turn_end`): what expires, then what is to be written, as one batch, or as one message to the leader;
       then questions, and limits

Host and simulator run the same member; it reads no clock, opens no file and starts no thread.

Invariants:
- Clients are served only while the peer serves and everything committed before is applied; when that ends, every
  client is closed and nothing that was under way goes to the next leader (G2 former roles).
- The tree at a batch end has the digest that the leader announced for it, or this member serves nobody until a quorum
  says whose tree is right (E5 digests). Its log goes on (E6 wrong trees).

Not here: the end of a turn (`turn_end`), the way of a request (`processor`), what members say to each other about
requests (`between_members`), the protocol between members (`zab.protocol.peer`), files (the host's storage).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar, get_args

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, Zxid, make_zxid
from datatree.prepare import Prepare
from datatree.record import RecordError
from datatree.recovery.recovered import Recovered
from datatree.snapshot import SnapshotHeader
from datatree.tree import DataTree
from datatree.watches import WatchTable
from session.identity import SessionIds
from zab.member import between_members, turn_end
from zab.member.clients.audit import Auditor
from zab.member.clients.authentication import Authentication
from zab.member.clients.connection import ClientConnection, Clients, Closing, Stage
from zab.member.clients.connection_throttle import ConnectionThrottle
from zab.member.clients.events import ClientBytes, ClientClosed, ClientConnected, LoginStepped, UsersRead, WriteAudit
from zab.member.events import ExportSpans, Input, MemberEffect, Warn
from zab.member.membership import reconfiguring
from zab.member.membership.restore import (
    newest_time_of,
    prepare_settings_of,
    restored_of,
    schedule_of,
    settings_of,
    tree_of,
)
from zab.member.requests import connection_requests as local
from zab.member.requests.keeper_probes import show_features
from zab.member.requests.limits import NOTED_BYTES_MIN, NOTED_COUNT_MIN, Limits
from zab.member.requests.processor import Processor
from zab.member.requests.questions import Questions
from zab.member.requests.read_only import ReadOnlyMode
from zab.member.requests.read_state import ReadState
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.sessions.sessions import Sessions
from zab.member.settings.config import Config
from zab.member.state.digests import Digests
from zab.member.state.metrics import Metrics
from zab.member.state.sequences import Sequences
from zab.member.state.state_times import Times
from zab.member.state.waiting import Waiting
from zab.member.storage.events import (
    ChangesRead,
    DamageFound,
    FetchFailed,
    LookedBack,
    SnapshotAsked,
    SnapshotChosen,
    SnapshotFailed,
    SnapshotFetched,
    SnapshotTaken,
    TreeInstalled,
)
from zab.member.trees import scrubbing, snapshots, tree_repair, wrong_trees
from zab.member.trees.cleanup import Cleanup
from zab.member.trees.events import RebuildFailed, TreeRebuilt
from zab.member.trees.tree_check import Difference, TreeCheck
from zab.member.trees.tree_repair import Repair
from zab.member.words import four_letter
from zab.member.words.events import LookedAround
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.features import ALL
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.session_keys import keys_of
from zab.protocol.states import BROADCAST, LEADING, LOOKING
from zab.quorum.ids import Link, ServerId
from zab.service.surroundings import Surroundings
from zab.wire.frames import LENGTH_BYTES, FrameError

APPLIED_COUNT_MAX = 500
"""Transactions applied in a turn, with their parts, or a slice of one batch: some 3 ms of sets, 10 ms of creates."""
APPLIED_BYTES_MAX = 4 << 20
"""Of batches applied in a turn, or one batch: some 3 ms of digests and copies."""

MakePeer: TypeAlias = Callable[[Settings, Restored, Random], Peer]
Receive: TypeAlias = Callable[[ClientConnection, Sequence[bytes]], None]


class Member:
    """See the module's text. Everything without an underscore may be looked at; only `step` changes it."""

    serves_from: Zxid = BEFORE_ALL
    """The zxid before all of the epoch in which serving began, where nothing has happened since the history did: who
    has seen one of an earlier epoch has seen it in the history before (B8 restored members)."""

    passes_small = False
    """The writes that are left wait because they are large; small ones would not."""

    def __init__(
        self, config: Config, recovered: Recovered, rng: Random, now: int, wall: int, make_peer: MakePeer = Peer
    ) -> None:
        self.config = config
        self.metrics = Metrics()
        self.clients = Clients(config.limits)
        self.peer = make_peer(settings_of(config), restored_of(recovered), rng)
        ids = SessionIds(config.server_id, wall)
        self.auditor = Auditor() if config.audit.enabled else None
        self.sessions = Sessions(config, self.clients, self.metrics, ids, lambda: keys_of(self.peer), self.auditor)
        self.sessions.throttle = ConnectionThrottle.of(config.connection_throttle, rng, now)
        tree, proofs = tree_of(recovered), Authentication(config, rng)
        self.state = ReadState(config, tree, WatchTable(), self.clients, self.metrics, proofs, self.auditor)
        self.processor = Processor(self.state, self.sessions, schedule_of(config, recovered))
        self.throttle = RequestThrottle.of(config.request_throttle, self.clients, self.metrics, self.processor)
        self.receive: Receive = (self.throttle or self.processor).receive
        voter_count = len(self.peer.quorum.voters)
        self.limits = Limits(self.state, self.throttle, self.processor.intake, self.sessions.touch, voter_count, now)
        self.read_only = ReadOnlyMode(config, now)
        self.server_id, self.digests = ServerId(config.server_id), Digests()
        self.check = TreeCheck(self.peer.quorum)
        self.repair: Repair | None = None
        """The tree is being made anew: nothing is applied meanwhile."""
        self.borrowed: SnapshotHeader | None = None
        """The snapshot of another member that this tree was made of, until a quorum says that it is right."""
        self.compare_later: ev.MemberMessage | None = None
        """The leader's question for the digest at a position that is not applied yet."""
        self.choosing: set[Link] = set()
        """Links of learners for which a snapshot is being chosen, to make a tree of."""
        self._dropped: set[Link] = set()
        """Links of learners that were dropped in this turn, and had served clients."""
        self.asks = False
        """In this turn the leader is asked whose tree is right, should this member have to know."""
        self.serving = self.halted = False
        """Whether clients are served: the peer serves, and what was committed before is applied."""
        self.times = Times(self.metrics, now)
        self.surroundings = Surroundings()
        self.waiting = Waiting(now)
        self.applied = 0
        """The batch end that the tree is at, or passed last."""
        self._effects: list[MemberEffect] = []
        self.now, self.wall = now, wall
        """Of the last turn: monotonic ms, and ms since 1970."""
        self.committed: deque[Batch] = deque()
        """What is not applied yet."""
        self._delivery: tuple[Batch, Iterator[None]] | None = None
        """The batch that is being applied, and what is left of that."""
        self.is_between_states = False
        """A committed batch is applied in part: until it is as a whole nobody may look at the tree, so clients are not
        read from, and nothing is proposed (H5 slices). What members say to each other goes on."""
        self._from_clients: list[tuple[Callable[[Member, Any], None], Any]] = []
        """What came from clients and waits for the end of that."""
        self.early: list[ev.MemberMessage] = []
        """What learners said before this leader had caught up."""
        self.cleanup: Cleanup | None = None
        self.questions = Questions()
        self._peer_waits_until = 0
        """Before that the peer is not asked whether its time has come."""
        self.look_at, self.lead_at, self.sequences = now, now, Sequences(config.timing.tick_time_ms)
        """When the disk is looked at for room again; on a leader, when a session or a znode may be over."""
        self.may_have_more = False
        """After a turn: something waits that may have its turn next."""
        self.awaits_durable = True
        """After a turn: what becomes durable begins the next one."""
        self.heir = reconfiguring.Heir()
        self.lacks_configuration = False
        self.is_stalled = False
        """Writes are left from the last turn, since nothing may be proposed, or nothing large."""
        self._install(tree)
        self.processor.proposing.newest_time = newest_time_of(recovered)

    @property
    def tree(self) -> DataTree:
        return self.state.tree

    @property
    def takes_clients(self) -> bool:
        """Whether who asks for a session may have one here: not of a leader that serves its learners alone."""
        config = self.config
        if self.read_only.is_on:
            return True
        return self.serving and (config.membership.leader_serves or config.is_standalone or self.peer.state != LEADING)

    # ----------------------------------------------------------------------------------------------------------- a turn

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        """One turn of the loop; the effects are to be carried out in their order."""
        if self.halted:
            return []
        processor = self.processor
        self.now = processor.now = processor.proposing.now = now
        if self.heir.awaited is not None and self.heir.is_due(self.applied):
            # Whoever asked for it was answered in the turn before this one.
            self.tell(ev.HandOver(self.heir.take()))
        self.wall = wall
        if self.sessions.has_untold:
            between_members.tell_touched(self)
        if not self.is_between_states:
            self.clients.dirty.clear()
        for event in inputs:
            kind = type(event)
            if kind in _ON_CLIENT:
                if self.is_between_states and isinstance(event, ClientClosed) and self._is_last_word(event):
                    self._on_closed(event)
                else:
                    self._from_clients.append((_ON_CLIENT[kind], event))
            elif kind in _ON_INPUT:
                _ON_INPUT[kind](self, event)
            else:
                # As `tell` does, without a call for each acknowledgement.
                for effect in self.peer.step(now, event):  # type: ignore[arg-type]
                    on_effect = _ON_EFFECT.get(type(effect))
                    if on_effect is not None:
                        on_effect(self, effect)
                    else:
                        self._effects.append(effect)
        # After what arrived: when this process was paused, an unread link must not count as a silent one.
        if now >= self._peer_waits_until:
            self._tell_time()
        processor.proposing.is_short = self.peer.is_short
        if self._dropped:
            self._hear_the_dropped(inputs)
        if self.asks:
            self.asks = False
            wrong_trees.ask(self)
            tree_repair.ask(self)
        if self.committed or self._delivery is not None:
            self._apply_committed()
        if not self.serving:
            self._try_to_serve()
        if not self.is_between_states:
            from_clients, self._from_clients = self._from_clients, []
            for on_client, event in from_clients:
                on_client(self, event)
            turn_end.end_turn(self)
        if self.auditor is not None and self.auditor.records:
            self._effects.append(WriteAudit(self.auditor.take()))
        if self.state.spans is not None and self.state.spans.taken:
            self._effects.append(ExportSpans(self.state.spans.take()))
        applies = self.committed or self.is_between_states or processor.proposing.is_due
        answers = processor.answering or processor.choked or processor.overdue or processor.change_feed.ready
        forgets = processor.leaving or self.clients.ending or self.limits.full or self.throttle is not None
        tells = self.state.event_sender.waiting or self.sessions.has_untold or self.heir.awaited is not None
        counts = self.state.tree.quota_sums.is_due
        self.may_have_more = bool(applies or answers or forgets or tells or counts)
        self.peer.invariants()
        self.awaits_durable = self.peer.awaits_durable
        effects, self._effects = self._effects, []
        return effects

    @property
    def has_more(self) -> bool:
        """Whether the turn's budgets left something for the next one. To be asked after the host has sent what there
        was to send, since that makes room for more; and only if something waits at all (`may_have_more`)."""
        processor, limits = self.processor, self.limits
        applies = (bool(self.committed) or self.is_between_states) and self.repair is None
        is_leaving = bool(processor.leaving or self.clients.ending) and not self.is_between_states
        is_answering = bool(processor.answering or processor.overdue or processor.change_feed.ready)
        is_unchoked = bool(processor.choked) and processor.is_any_unchoked
        is_released = (bool(limits.full) or self.throttle is not None) and limits.is_any_with_room_again
        is_any = applies or is_answering or is_unchoked or is_leaving or is_released or self.sessions.has_untold
        is_sending = bool(self.state.event_sender.waiting)
        is_counting = self.state.tree.quota_sums.is_due
        return is_any or is_sending or is_counting or processor.proposing.is_due or self.heir.is_due(self.applied)

    def next_deadline(self) -> int:
        """When the next step is due although nothing happens."""
        if self.has_more:
            return self.now
        deadline = self.limits.next_deadline
        for due in (self.peer.next_deadline(), self.processor.change_feed.next_deadline):
            if due is not None and due < deadline:
                deadline = due
        if self.serving and self.sessions.tracker is not None:
            deadline = min(deadline, self.sessions.tracker.next_deadline)
        if self.read_only.due is not None and self.may_be_shown:
            deadline = min(deadline, self.read_only.due)
        if self.sessions.local.timeouts and (self.serving or self.read_only.is_on):
            deadline = min(deadline, self.sessions.local.next_deadline)
        return deadline if self.cleanup is None else min(deadline, self.cleanup.next_deadline)

    def _tell_time(self) -> None:
        """Tell the peer that its time has come, if so. While it serves, what it hears only moves its deadline later, so
        it is not asked again before that."""
        deadline = self.peer.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.tell(ev.TimePassed())
            deadline = self.peer.next_deadline()
        self._peer_waits_until = deadline if self.peer.serving and deadline is not None else 0

    def tell(self, event: ev.Event) -> None:
        """Let the peer take an event, and carry out or pass on what it wants done."""
        for effect in self.peer.step(self.now, event):
            on_effect = _ON_EFFECT.get(type(effect))
            if on_effect is not None:
                on_effect(self, effect)
            else:
                self._effects.append(effect)

    def want(self, effect: MemberEffect) -> None:
        self._effects.append(effect)

    def send(self, link: Link, message: msg.Message) -> None:
        self._effects.append(ev.Send((link,), message))

    def trace(self, text: str) -> None:
        self._effects.append(ev.Trace(text))

    def halt(self, reason: str) -> None:
        self.halted = True
        self._effects.append(ev.Halt(reason))
        self.clients.close_all()

    # ---------------------------------------------------------------------------------------------- effects of the peer

    def _on_deliver(self, effect: ev.Deliver) -> None:
        self.committed.extend(effect.batches)
        if self.repair is not None:
            tree_repair.hold(self, effect.batches)
        for batch in effect.batches:
            self.metrics.commit_count += batch.count

    def _on_role_changed(self, effect: ev.RoleChanged) -> None:
        self._effects.append(effect)
        self._peer_waits_until = 0
        if effect.state == LOOKING:
            self.times.looks(self.now)
            self.read_only.looks(self.now)
        else:
            self.times.found(self.now)
            self.read_only.found()
        if not effect.serving:
            if self.serving:
                # Committed is committed: whoever asked for it is answered, also where the next message ended the role.
                self._apply_committed()
            self.stop_serving(Closing.FLUSHED)
            self.check.drop_role()
            tree_repair.drop_role(self)
            self.compare_later = None
        self.asks = effect.serving

    def _on_reset_log(self, effect: ev.ResetLog) -> None:
        self._effects.append(effect)
        self._install(DataTree())

    def _on_learner_dropped(self, effect: ev.LearnerDropped) -> None:
        self._dropped.add(effect.link)

    def _hear_the_dropped(self, inputs: Sequence[Input]) -> None:
        """What dropped learners said of their sessions in this turn came before anything expires."""
        waited = [
            event.message for event in inputs if isinstance(event, ev.MessageReceived) and event.link in self._dropped
        ]
        for message in waited if self.sessions.tracker is not None else ():
            if isinstance(message, msg.Ping):
                self.sessions.learner_touched(message.touched, self.now)
        self._dropped.clear()

    def _on_memberships_changed(self, effect: ev.MembershipsChanged) -> None:
        self._effects.append(effect)
        self.limits.share(len(self.peer.quorum.voters))
        self.check.quorum = self.peer.quorum

    def _on_halt(self, effect: ev.Halt) -> None:
        self.halt(effect.reason)

    # ------------------------------------------------------------------------------------------------ committed batches

    def _apply_committed(self) -> None:
        count = size = 0
        while (self.committed or self._delivery is not None) and self.repair is None:
            if count >= APPLIED_COUNT_MAX or size >= APPLIED_BYTES_MAX:
                return
            if self._delivery is None:
                if self.state.event_sender.waiting and self.state.event_sender.is_full:
                    return
                batch = self.committed.popleft()
                self._check_digest(batch)
                self._delivery = batch, self.processor.deliver(batch)
                if self.repair is not None:
                    self.deliver_rest()
                    return
            batch, _ = self._delivery
            is_rest = self.is_between_states
            if not self._deliver_slice() or is_rest:
                # After a batch that took several turns those who waited meanwhile come first.
                return
            count, size = count + self.processor.delivered, size + len(batch.raw)

    def _deliver_slice(self) -> bool:
        """Go on with the batch that is being applied; whether that was the rest of it."""
        assert self._delivery is not None
        batch, steps = self._delivery
        try:
            for _ in steps:
                self.is_between_states = True
                self.limits.limit_output()
                return False
        except RecordError as error:
            # Its leader has numbered, sealed and committed it like any other: no member can go on behind it.
            self.halt(f"batch {batch.zxid:#x}, which is committed, holds no transactions: {error}")
            return False
        self._delivery, self.is_between_states = None, False
        self._applied_whole(batch)
        return True

    def deliver_rest(self) -> None:
        """Apply all of the batch that is being applied, however long it takes."""
        while self._delivery is not None:
            self._deliver_slice()

    def _applied_whole(self, batch: Batch) -> None:
        self.applied = batch.zxid
        self.digests.record(batch.zxid, self.state.tree.digest)
        self.metrics.propagation_latency.add(max(0, self.wall - batch.time), batch.count)
        if self.compare_later is not None:
            wrong_trees.compare_now(self)
        if self.questions.confirmed_syncs:
            between_members.finish_syncs(self)
        if self.processor.schedule.applied(batch):
            snapshots.take(self, (batch.zxid, batch.chain))

    def _check_digest(self, batch: Batch) -> None:
        """The leader's digest at an earlier batch end is that of this tree, or somebody is wrong (E5 digests)."""
        own = self.digests.find(batch.applied) if batch.digest_version == DIGEST_VERSION else None
        if own not in (None, batch.digest):
            wrong_trees.suspect(self, Difference(Zxid(batch.applied), own, batch.digest))

    def tell_replayed(self, zxid: Zxid, digest: int | None) -> None:
        """What a tree made anew has there, None if that is not known, to whoever leads."""
        if self.peer.state == LEADING:
            wrong_trees.told(self, self.server_id, zxid, digest, is_replay=True)
        elif self.peer.serving and self.peer.link_to_leader is not None:
            self.send(self.peer.link_to_leader, msg.Compared(zxid, digest or 0, digest is not None, True))

    # ------------------------------------------------------------------------------------------------- another tree

    def _on_tree_installed(self, event: TreeInstalled) -> None:
        self._install(event.tree)

    def _install(self, tree: DataTree) -> None:
        """Another state takes the place of this one."""
        self.committed.clear()
        self.processor.schedule.is_late = False
        self.repair = self.borrowed = None
        self.take_tree(tree)
        self.check.replaced()
        if self.peer.is_tree_in_doubt:
            self.tell(ev.Doubted(False, "another tree has taken its place"))

    def take_tree(self, tree: DataTree, zxid: Zxid = BEFORE_ALL, digest: int = 0) -> None:
        """Replace the tree, by one that had this digest there. No client is served meanwhile."""
        assert not self.serving
        tree.config = str(self.config.ensemble).encode()
        tree.past_acls.count_max = self.config.requests.max_past_acls
        if self.config.tree.keeper_extensions_enabled:
            show_features(tree)
        self.state.tree = tree
        self.state.listings.clear()
        self._delivery, self.is_between_states = None, False
        self.applied = tree.applied
        self.digests.clear()
        if zxid > 0:
            self.digests.record(zxid, digest)
        self.digests.record(tree.applied, tree.digest)

    # ------------------------------------------------------------------------------------------------------------ roles

    def _try_to_serve(self) -> None:
        """In each turn until this member serves clients: begin, or say what it waits for."""
        self._start_serving()
        if self.read_only.begins(self.now):
            self._start_reading_only()
        reads = self.read_only.is_on
        if not self.serving and (reason := self.waiting.turn(self.now, self.peer, reads=reads)) is not None:
            self._effects.append(Warn(reason))

    def _start_serving(self) -> None:
        """Begin to serve clients, once the peer serves and everything that was committed before is applied."""
        if self.committed or self.is_between_states or self.halted or not self.peer.serving:
            return
        if self.check.is_doubtful or self.repair is not None:
            return
        self.serving = True
        if BEFORE_ALL < self.tree.applied == self.peer.beginning and self.peer.phase is BROADCAST:
            self.serves_from = make_zxid(self.peer.current_epoch, 0)
        self.times.serves(self.now, self.peer.state)
        self.sessions.local.resume(self.now)
        if self.peer.state == LEADING:
            settings = prepare_settings_of(self.config, self.peer, self.heir.tell_later)
            self.processor.proposing.prepare = Prepare(self.tree, settings)
            self.sessions.lead(self.tree.sessions, self.now)
            self.cleanup = Cleanup(self.config, self.now)
            self.lead_at = self.now
            self.lacks_configuration = reconfiguring.lacks_first(self.config, self.peer)
            self.processor.forwards_to(ALL)
        elif self.peer.following is not None:
            self.processor.forwards_to(self.peer.following.features)
        between_members.take_early(self)

    @property
    def may_be_shown(self) -> bool:
        """Whether the tree is a state that was committed, as far as this member knows."""
        is_whole = not (self.committed or self.is_between_states or self.repair is not None)
        peer = self.peer
        return is_whole and not (self.halted or peer.amnesiac or peer.is_tree_in_doubt or self.check.is_doubtful)

    def _start_reading_only(self) -> None:
        """Serve those who ask for no more than what there is here."""
        if self.may_be_shown:
            self.read_only.due = None
            self.read_only.is_on = self.sessions.is_read_only = True
            self.sessions.local.resume(self.now)
            self.trace("there is no quorum -> serve clients that only read")

    def stop_serving(self, how: Closing = Closing.AT_ONCE) -> None:
        """Stop serving clients; nothing that was under way goes to the next leader (G2 former roles)."""
        if self.serving:
            self.times.serves_nobody(self.now)
        self.serves_from = BEFORE_ALL
        self.serving = self.is_stalled = False
        self.clients.close_all(how)
        if self.read_only.is_on:
            self.read_only.is_on = self.sessions.is_read_only = False
            if not self.config.has_local_sessions:
                self.sessions.local.clear()
        self.waiting.begin(self.now)
        if self.throttle is not None:
            self.throttle.drop_role()
        self.processor.drop_role()
        self.sessions.drop_role()
        self.cleanup = self.heir.awaited = None
        self.early.clear()
        self.questions.clear()

    # ---------------------------------------------------------------------------------------------------------- clients

    def _on_connected(self, event: ClientConnected) -> None:
        event.connection.established = self.wall
        if not self.clients.admit(event.connection):
            self.metrics.connection_rejected += 1

    def _on_bytes(self, event: ClientBytes) -> None:
        connection = event.connection
        if connection.closing or not connection.is_ours:
            return
        is_greeted = connection.stage is not Stage.GREETING
        if is_greeted:
            # The bytes of an unfinished handshake do not count: sent one by one, they would keep the connection open.
            connection.idle_ticks = 0
        elif connection.answering is not None:
            return
        self.metrics.bytes_received_count += len(event.data)
        try:
            frames = connection.frames.feed(event.data) if is_greeted else connection.first_cut(event.data)
        except FrameError as error:
            self._on_no_frame(connection, error)
            return
        if frames:
            if connection.large_frame_bytes:
                self.limits.large.forget(connection)
            self._on_frames(connection, frames)
            if waiting_count := len(connection.pending):
                came_bytes = len(event.data)
                if came_bytes > NOTED_BYTES_MIN or waiting_count > NOTED_COUNT_MIN:
                    self.limits.keep_waiting(connection, came_bytes)
        else:
            self.limits.keep_unfinished(connection)
        if self.is_stalled and (connection.pending or connection.frames.kept_bytes):
            self.limits.hold_stalled(connection, len(event.data), passes_small=self.passes_small)

    def _on_no_frame(self, connection: ClientConnection, error: FrameError) -> None:
        """There is no valid length of a frame. At the start of a connection it may be a four-letter word."""
        word = error.length.to_bytes(LENGTH_BYTES, "big", signed=True)
        if connection.stage is Stage.GREETING and not error.frames and four_letter.on_word(self, connection, word):
            return
        self.metrics.large_requests_rejected += 1
        if error.frames:
            self._on_frames(connection, error.frames)
        self.clients.close(connection, Closing.FLUSHED)

    def _on_frames(self, connection: ClientConnection, frames: list[bytes]) -> None:
        self.metrics.packets_received += len(frames)
        connection.received_count += len(frames)
        if connection.stage is Stage.SERVED:
            waits = bool(connection.pending)
            self.sessions.touch(connection, self.now)
            self.receive(connection, frames)
            if waits and self.limits.is_loaded(
                self.processor.outstanding_count, self.is_stalled and not self.passes_small
            ):
                self.limits.hold_loaded(connection)
        elif connection.stage is Stage.CONNECTING:
            connection.held += frames
        elif self.takes_clients:
            connection.held = frames[1:]
            applied = max(self.tree.applied, self.serves_from)
            self.sessions.connect(connection, frames[0], applied, self.tree.sessions, self.now)
        else:
            self.metrics.cnxn_closed_without_zk_server_running += 1
            self.clients.close(connection)

    def _is_last_word(self, event: ClientClosed) -> bool:
        """Whether nothing waits that its connection said before: then it is told of nothing more from here on."""
        connection = event.connection
        return connection.is_ours and all(other.connection is not connection for _, other in self._from_clients)

    def _on_closed(self, event: ClientClosed) -> None:
        self.clients.close(event.connection)


E = TypeVar("E", bound=Input | ev.Effect)


def _on(kind: type[E], take: Callable[[Member, E], None]) -> tuple[type[object], Callable[[Member, Any], None]]:
    return kind, take


_ON_CLIENT = dict(
    (
        _on(ClientConnected, Member._on_connected),
        _on(ClientBytes, Member._on_bytes),
        _on(ClientClosed, Member._on_closed),
    )
)

_ON_INPUT = dict(
    (
        _on(SnapshotTaken, snapshots.on_taken),
        _on(SnapshotFailed, snapshots.on_failed),
        _on(DamageFound, scrubbing.on_damage_found),
        _on(TreeInstalled, Member._on_tree_installed),
        _on(TreeRebuilt, tree_repair.on_rebuilt),
        _on(RebuildFailed, tree_repair.on_rebuild_failed),
        _on(SnapshotFetched, tree_repair.on_fetched),
        _on(FetchFailed, tree_repair.on_fetch_failed),
        _on(SnapshotChosen, wrong_trees.on_chosen),
        _on(ev.NothingToOffer, snapshots.on_nothing_to_offer),
        _on(ChangesRead, lambda member, event: member.processor.change_feed.read(event)),
        _on(LookedBack, lambda member, event: member.processor.change_feed.looked_back(event)),
        _on(UsersRead, lambda member, event: member.state.authentication.take(event)),
        _on(SnapshotAsked, snapshots.take_asked),
        _on(LookedAround, four_letter.on_looked_around),
        _on(LoginStepped, lambda member, event: local.login_stepped(member.state, event)),
        _on(ev.TimePassed, lambda _member, _event: None),
    )
)
"""Inputs that are not the peer's. It is told of time at the beginning of each step, whoever woke the member."""
assert _ON_CLIENT.keys() | _ON_INPUT.keys() | set(get_args(ev.Event)) == set(get_args(Input))

_ON_EFFECT = dict(
    (
        _on(ev.Deliver, Member._on_deliver),
        _on(ev.RoleChanged, Member._on_role_changed),
        _on(ev.ResetLog, Member._on_reset_log),
        _on(ev.AnswerPing, between_members.answer_ping),
        _on(ev.LearnerDropped, Member._on_learner_dropped),
        _on(ev.SyncConfirmed, between_members.sync_confirmed),
        _on(ev.MembershipsChanged, Member._on_memberships_changed),
        _on(ev.MemberMessage, between_members.take),
        _on(ev.Halt, Member._on_halt),
    )
)
"""Effects of the peer that this member carries out, or looks at before it passes them on."""
assert _ON_EFFECT.keys() <= set(get_args(ev.Effect))
