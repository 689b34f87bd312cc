"""One member of the ensemble, without I/O: peer, tree, sessions and clients wired into one `step`.

    step(now, wall, inputs) -> effects    one turn of the loop; `now` monotonic ms, `wall` ms since 1970
    next_deadline()                       when a step is due although nothing happened
    clients.dirty                         after a step: connections to flush, pause, resume or close

The order of a turn, whatever the order of its inputs (H2 turn budget: acknowledgements never wait for clients):

    1  events of the peer: links, messages, storage; its effects, among them commits
    2  committed batches are applied and answered, up to a budget; the rest is first in the next turn
    3  clients: new connections, bytes, ends
    4  the end (`turn_end`): expiry, then the writes, as one batch, or as one message to the leader;
       then questions, and limits

Host and simulator run the same member; it reads no clock, opens no file and starts no thread.

Invariants:
- Clients are served only while the peer serves and everything committed before that is applied; when this ends, every
  client is closed and nothing that was under way goes to the next leader (G2 former roles).
- The tree at a batch end has the digest that the leader announced for it; otherwise this member serves nobody until a
  quorum says whose tree is right (E5 digests). Its log goes on (E6 wrong trees).

Each state has one owner, which alone assigns it: the member makes the owners, and hands each part what it needs.

Not here: the end of a turn (`turn_end`), the way of a request (`processor`), how it is applied (`applying`), what
clients send (`client_input`), what members say to each other about requests (`between_members`), whose tree is right
(`tree_integrity`), the protocol between members (`zab.protocol.peer`), files (the host's storage).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias, get_args, get_origin

from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, make_zxid
from datatree.prepare import Prepare
from datatree.recovery.recovered import Recovered
from datatree.tree import DataTree
from datatree.watches import WatchTable
from session.identity import SessionIds
from zab.member.between_members import MemberMessages
from zab.member.client_input import ClientInput
from zab.member.clients.audit import Auditor
from zab.member.clients.authentication import Authentication
from zab.member.clients.connection import Clients, Closing
from zab.member.clients.connection_throttle import ConnectionThrottle
from zab.member.clients.events import LoginStepped, UsersRead, WriteAudit
from zab.member.clients.kerberos import Logins
from zab.member.events import ExportSpans, Input, MemberEffect, Warn
from zab.member.membership.reconfiguring import Heir
from zab.member.membership.restore import (
    newest_time_of,
    prepare_settings_of,
    restored_of,
    schedule_of,
    settings_of,
    tree_of,
)
from zab.member.requests.applying import Applier
from zab.member.requests.connection_requests import login_stepped
from zab.member.requests.limits import Limits
from zab.member.requests.processor import Processor
from zab.member.requests.questions import Questions
from zab.member.requests.read_only import ReadOnlyMode
from zab.member.requests.read_state import ReadState
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.requests.serving import Serving
from zab.member.sessions.sessions import Sessions
from zab.member.settings.config import Config
from zab.member.state.digests import Difference, Digests
from zab.member.state.handlers import Handlers, handler
from zab.member.state.metrics import Metrics
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.state.state_times import Times
from zab.member.state.turn_clock import TurnClock
from zab.member.storage.events import (
    ChangesRead,
    LookedBack,
    TreeInstalled,
)
from zab.member.trees.tree_integrity import TreeIntegrity
from zab.member.turn_end import TurnEnd
from zab.member.words.events import LookedAround
from zab.member.words.figures import MemberView
from zab.member.words.four_letter import FourLetterWords
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.features import ALL
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.session_keys import keys_of
from zab.protocol.states import BROADCAST, LEADING, LOOKING
from zab.quorum.ids import Link, ServerId
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected

MakePeer: TypeAlias = Callable[[Settings, Restored, Random], Peer]


_FROM_CLIENTS = frozenset({ClientConnected, ClientBytes, ClientClosed})


class Member:
    """One member. Attributes without an underscore may be read; only `step` changes them."""

    def __init__(
        self,
        config: Config,
        recovered: Recovered,
        rng: Random,
        now: int,
        wall: int,
        make_peer: MakePeer = Peer,
        *,
        metrics: Metrics | None = None,
        kerberos: Logins | None = None,
    ) -> None:
        """`metrics`: those that count since the start of recovery, where there was one. `kerberos`: see
        `Authentication`."""
        self.config = config
        self.server_id = ServerId(config.server_id)
        self.metrics = metrics = Metrics() if metrics is None else metrics
        self.clock = clock = TurnClock(now, wall)
        self._outbox = outbox = Outbox[MemberEffect]()
        self.clients = Clients(config.limits)
        self.peer = peer = make_peer(settings_of(config), restored_of(recovered), rng)
        self._driver = PeerDriver(peer, clock, outbox, self._effect_handlers())
        self.auditor = Auditor() if config.audit.enabled else None
        ids = SessionIds(config.server_id, wall)
        self.sessions = Sessions(
            *(config, self.clients, metrics, ids, lambda: keys_of(peer), self.auditor),
            throttle=ConnectionThrottle.of(config.connection_throttle, rng, now),
        )
        tree, proofs = tree_of(recovered), Authentication(config, rng, kerberos)
        self.state = ReadState(
            *(config, tree, WatchTable(), self.clients, metrics, proofs, clock, self.sessions.local),
            auditor=self.auditor,
        )
        schedule = schedule_of(config, recovered)
        self.processor = Processor(self.state, self.sessions, schedule, newest_time_of(recovered))
        self.throttle = RequestThrottle.of(config.request_throttle, self.clients, metrics, self.processor)
        touch, voter_count = self.sessions.touches.touch, len(peer.quorum.voters)
        self.limits = Limits(self.state, self.throttle, self.processor.intake, touch, voter_count, now)
        self.times = Times(metrics, now)
        self.questions = Questions()
        self.heir = Heir()
        self.service = Serving(
            *(config, peer, clock, self.clients, self.sessions, self.times, outbox), drop_role=self._drop_role
        )
        self.applier = Applier(self.processor, self.limits, self.service, self._on_difference, self._on_applied)
        self.trees = TreeIntegrity(self._driver, outbox, self.applier, self.service, schedule, metrics)
        self.messages = MemberMessages(
            *(self._driver, outbox, self.processor, self.questions, self.service, self.applier, self.trees)
        )
        self._turn_end = TurnEnd(
            *(self._driver, outbox, self.processor, self.limits, self.throttle),
            *(self.questions, self.messages, self.service, self.applier, self.trees),
        )
        self.view = MemberView(
            *(config, metrics, self.clients, peer, self.sessions),
            *(self.state, self.processor, self.applier, self.service, self.times),
        )
        self._words = FourLetterWords(self.view, outbox)
        self._client_input = ClientInput(self.processor, self.throttle, self.limits, self.service, self._words)
        self._on_input = self._input_handlers()
        self._dropped: set[Link] = set()
        """Links of learners that were dropped in this turn and had served clients."""
        self.may_have_more = False
        """After a turn: something waits that the next turn may handle."""
        self.awaits_durable = True
        """After a turn: the next one begins when something becomes durable."""
        self.take_message, self.take_durable = peer.take_message, peer.take_durable
        """For what comes before all inputs of a turn. False: it is an input, and so is what comes after it."""
        self._install(tree)

    @property
    def now(self) -> int:
        """When the last turn began: monotonic ms."""
        return self.clock.now

    @property
    def wall(self) -> int:
        """When the last turn began: ms since 1970."""
        return self.clock.wall

    @property
    def tree(self) -> DataTree:
        return self.state.tree

    @property
    def applied(self) -> int:
        """The batch end that the tree is at, or passed last."""
        return self.applier.applied

    @property
    def digests(self) -> Digests:
        return self.applier.digests

    @property
    def is_between_states(self) -> bool:
        """Whether a batch is applied in part (`zab.member.requests.applying`)."""
        return self.applier.is_between_states

    @property
    def serving(self) -> bool:
        """Whether clients are served: the peer serves, and everything committed before that is applied."""
        return self.service.is_on

    @property
    def read_only(self) -> ReadOnlyMode:
        return self.service.read_only

    @property
    def halted(self) -> bool:
        """Whether this member must not go on."""
        return self.service.is_halted

    # ----------------------------------------------------------------------------------------------------------- a turn

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        """Take one turn of the loop. The effects are to be carried out in their order."""
        service, applier, driver = self.service, self.applier, self._driver
        if service.is_halted:
            return []
        self.clock.now, self.clock.wall = now, wall
        if self.heir.awaited is not None and self.heir.is_due(applier.applied):
            # It was answered in the turn before this one.
            driver.tell(ev.HandOver(self.heir.take()))
        if self.sessions.touches.has_untold:
            self.messages.tell_touched()
        if not applier.is_between_states:
            self.clients.dirty.clear()
        if self.peer.effects:
            driver.carry_out(self.peer.effects)
        is_news = inputs or applier.committed or self.may_have_more or not service.is_on
        if is_news or now >= driver.waits_until or self._turn_end.is_due:
            self._take(now, inputs)
        self.awaits_durable = self.peer.awaits_durable
        effects = self._outbox.effects
        wanted = effects[:]
        effects.clear()
        return wanted

    def _take(self, now: int, inputs: Sequence[Input]) -> None:
        """Take the inputs of a turn, and do all that follows, in the order above. A turn without news in which nothing
        is due leaves this out."""
        service, applier, driver, processor = self.service, self.applier, self._driver, self.processor
        for event in inputs:
            kind = type(event)
            if kind in _FROM_CLIENTS:
                if applier.is_between_states and isinstance(event, ClientClosed):
                    self._client_input.closed_between_states(event)
                else:
                    self._client_input.waiting.append(event)  # type: ignore[arg-type]
            elif kind in self._on_input:
                self._on_input[kind](event)
            else:
                driver.carry_out(self.peer.step(now, event))  # type: ignore[arg-type]
        # After what arrived: when this process was paused, an unread link must not count as a silent one.
        if now >= driver.waits_until:
            driver.tell_time()
        if processor.proposing.is_short is not self.peer.is_short:
            processor.proposing.room_changed(is_short=self.peer.is_short)
        if self._dropped:
            self._hear_the_dropped(inputs)
        if self.trees.check.asks:
            self.trees.turn()
        if applier.committed or applier.is_between_states:
            applier.turn()
        if not service.is_on:
            self._try_to_serve()
        if not applier.is_between_states:
            if self._client_input.waiting:
                self._client_input.take()
            self._turn_end.end()
        if self.auditor is not None or self.state.spans is not None:
            self._export()
        applies = applier.committed or applier.is_between_states or processor.proposing.is_due
        waiting = processor.waiting
        answers = waiting.answering or waiting.choked or processor.overdue or processor.change_feed.ready
        forgets = processor.leaving or self.clients.ending or self.limits.full or self.throttle is not None
        tells = self.state.event_sender.waiting or self.sessions.touches.has_untold or self.heir.awaited is not None
        counts = self.state.tree.quota_sums.is_due
        self.may_have_more = bool(applies or answers or forgets or tells or counts)
        self.peer.invariants()

    def _export(self) -> None:
        """Hand out audit records and spans."""
        if self.auditor is not None and self.auditor.records:
            self._outbox.want(WriteAudit(self.auditor.take()))
        if self.state.spans is not None and self.state.spans.taken:
            self._outbox.want(ExportSpans(self.state.spans.take()))

    @property
    def has_more(self) -> bool:
        """Whether the turn's budgets left something for the next one. Ask after the host has sent the output, which
        makes room for more, and only if something waits at all (`may_have_more`)."""
        processor, limits, applier = self.processor, self.limits, self.applier
        applies = (bool(applier.committed) or applier.is_between_states) and not applier.is_held
        is_leaving = bool(processor.leaving or self.clients.ending) and not applier.is_between_states
        waiting = processor.waiting
        is_answering = bool(waiting.answering or processor.overdue or processor.change_feed.ready)
        is_unchoked = bool(waiting.choked) and waiting.is_any_unchoked
        is_released = (bool(limits.full) or self.throttle is not None) and limits.is_any_with_room_again
        is_any = applies or is_answering or is_unchoked or is_leaving or is_released or self.sessions.touches.has_untold
        is_sending = bool(self.state.event_sender.waiting)
        is_counting = self.state.tree.quota_sums.is_due
        return is_any or is_sending or is_counting or processor.proposing.is_due or self.heir.is_due(applier.applied)

    def next_deadline(self) -> int:
        """When the next step is due although nothing happens."""
        if self.has_more:
            return self.clock.now
        deadline, peer_due, show_at = (
            self._turn_end.next_deadline,
            self.peer.next_deadline(),
            self.service.read_only.due,
        )
        if peer_due is not None and peer_due < deadline:
            deadline = peer_due
        if show_at is not None and show_at < deadline and self._may_be_shown:
            deadline = show_at
        return deadline

    # ---------------------------------------------------------------------------------------------- effects of the peer

    def _on_deliver(self, effect: fx.Deliver) -> None:
        self.applier.committed.extend(effect.batches)
        if self.applier.is_held:
            self.trees.repair.keep_waiting(effect.batches)
        for batch in effect.batches:
            self.metrics.commit_count += batch.count

    def _on_role_changed(self, effect: fx.RoleChanged) -> None:
        self._outbox.want(effect)
        self._driver.role_changed()
        if effect.state == LOOKING:
            self.times.looks(self.clock.now)
            self.service.read_only.looks(self.clock.now)
        else:
            self.times.found(self.clock.now)
            self.service.read_only.found()
        if not effect.serving:
            if self.service.is_on:
                # Committed is committed: each such write is answered, even if the next message ended the role.
                self.applier.turn()
            self.service.stop(Closing.FLUSHED)
        self.trees.role_changed(serving=effect.serving)

    def _on_reset_log(self, effect: fx.ResetLog) -> None:
        self._outbox.want(effect)
        self._install(DataTree())

    def _on_learner_dropped(self, effect: fx.LearnerDropped) -> None:
        self._dropped.add(effect.link)

    def _hear_the_dropped(self, inputs: Sequence[Input]) -> None:
        """Take what dropped learners said about their sessions in this turn, before any session expires."""
        waited = [
            event.message for event in inputs if isinstance(event, ev.MessageReceived) and event.link in self._dropped
        ]
        for message in waited if self.sessions.tracker is not None else ():
            if isinstance(message, msg.Ping):
                self.sessions.touches.learner_touched(message.touched, self.clock.now)
        self._dropped.clear()

    def _on_memberships_changed(self, effect: fx.MembershipsChanged) -> None:
        self._outbox.want(effect)
        self.limits.share(len(self.peer.quorum.voters))
        self.trees.check.quorum_changed(self.peer.quorum)

    # --------------------------------------------------------------------------------------------------------- the tree

    def _on_difference(self, difference: Difference) -> None:
        self.trees.suspect(difference)

    def _on_applied(self, batch: Batch) -> None:
        self.metrics.propagation_latency.add(max(0, self.clock.wall - batch.time), batch.count)
        if self.trees.compare_later is not None:
            self.trees.compare_now()
        if self.questions.confirmed_syncs:
            self.messages.finish_syncs()
        if self.processor.schedule.applied(batch):
            self.trees.snapshots.take((batch.zxid, batch.chain))

    def _on_tree_installed(self, event: TreeInstalled) -> None:
        self._install(event.tree)

    def _install(self, tree: DataTree) -> None:
        """Replace the tree."""
        self.applier.committed.clear()
        self.processor.schedule.replaced()
        self.trees.repair.drop()
        self.applier.take_tree(tree)
        self.trees.replaced()

    # ------------------------------------------------------------------------------------------------------------ roles

    def _try_to_serve(self) -> None:
        """Begin to serve clients, or say what this member waits for. Called in each turn until it serves."""
        self._start_serving()
        service = self.service
        if service.read_only.begins(self.clock.now) and self._may_be_shown:
            service.begin_reading_only()
            self._outbox.trace("there is no quorum -> serve clients that only read")
        if not service.is_on and (reason := service.why_not()) is not None:
            self._outbox.want(Warn(reason))

    def _start_serving(self) -> None:
        """Begin to serve clients once the peer serves and everything committed before that is applied."""
        if not self.applier.is_whole or self.service.is_halted or not self.peer.serving:
            return
        if self.trees.check.is_doubtful:
            return
        begins_at = BEFORE_ALL
        if BEFORE_ALL < self.tree.applied == self.peer.beginning and self.peer.phase is BROADCAST:
            begins_at = make_zxid(self.peer.current_epoch, 0)
        self.service.begin(begins_at)
        if self.peer.state == LEADING:
            settings = prepare_settings_of(self.config, self.peer, self.heir.tell_later)
            self.processor.proposing.lead(Prepare(self.tree, settings))
            self.sessions.lead(self.tree.sessions, self.clock.now)
            self._turn_end.lead()
            self.processor.forwards_to(ALL)
        elif self.peer.following is not None:
            self.processor.forwards_to(self.peer.following.features)
        self.messages.take_early()

    @property
    def _may_be_shown(self) -> bool:
        """Whether the tree is a state that was committed, as far as this member knows."""
        peer = self.peer
        if not self.applier.is_whole or self.service.is_halted:
            return False
        return not (peer.amnesiac or peer.is_tree_in_doubt or self.trees.check.is_doubtful)

    def _drop_role(self) -> None:
        """Drop what is under way: none of it goes to the next leader (G2 former roles)."""
        if self.throttle is not None:
            self.throttle.drop_role()
        self.processor.drop_role()
        self.sessions.drop_role()
        self._turn_end.drop_role()
        self.heir.drop_role()
        self.messages.drop_role()
        self.questions.clear()

    # ------------------------------------------------------------------------------------------------------- the tables

    def _input_handlers(self) -> Handlers:
        """The handlers of inputs that are not the peer's. The peer is told of time in each step, whatever woke the
        member."""
        state, change_feed = self.state, self.processor.change_feed
        handlers = self.trees.handlers | dict(
            (
                handler(TreeInstalled, self._on_tree_installed),
                handler(ChangesRead, change_feed.read),
                handler(LookedBack, change_feed.looked_back),
                handler(UsersRead, state.authentication.take),
                handler(LookedAround, self._words.on_looked_around),
                handler(LoginStepped, lambda event: login_stepped(state, event)),
                handler(ev.TimePassed, lambda _event: None),
            )
        )
        kinds = {get_origin(kind) or kind for kind in get_args(Input)}
        assert _FROM_CLIENTS | handlers.keys() | set(get_args(ev.Event)) == kinds
        return handlers

    def _effect_handlers(self) -> Handlers:
        """The handlers of effects that this member carries out, or looks at before it passes them on. The driver of the
        peer is made with them, before the parts that they call."""
        handlers = dict(
            (
                handler(fx.Deliver, self._on_deliver),
                handler(fx.RoleChanged, self._on_role_changed),
                handler(fx.ResetLog, self._on_reset_log),
                handler(fx.AnswerPing, lambda effect: self.messages.answer_ping(effect)),
                handler(fx.LearnerDropped, self._on_learner_dropped),
                handler(fx.SyncConfirmed, lambda effect: self.messages.sync_confirmed(effect)),
                handler(fx.MembershipsChanged, self._on_memberships_changed),
                handler(fx.MemberMessage, lambda effect: self.messages.take(effect)),
                handler(fx.Halt, lambda effect: self.service.halt(effect.reason)),
            )
        )
        assert handlers.keys() <= set(get_args(fx.Effect))
        return handlers
