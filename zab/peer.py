"""One member's protocol state: events in, effects out.

    LOOKING/election ─┬─> LEADING/discovery ───> LEADING/synchronization ───> LEADING/broadcast
                      ├─> FOLLOWING/discovery ─> FOLLOWING/synchronization ─> FOLLOWING/broadcast
                      └─> OBSERVING/discovery ─> OBSERVING/synchronization ─> OBSERVING/broadcast
    from broadcast back to discovery in the same role when the epoch is renewed
    from everywhere back to LOOKING/election when the leader, or its quorum, is lost

The phase modules act on this object: `election`, `discovery`, `synchronization`, `broadcast`. Which of their functions
handles which message in which role and phase is the table `HANDLERS`; every other combination is in `IGNORED`, with the
reason, or breaks the protocol: then the link is closed.

Invariants, checked after every step (`invariants`):
    acceptedEpoch >= currentEpoch, acceptedEpoch >= epoch of the last batch; neither ever falls
    delivered <= min(high-water mark, own durable log) <= last
    no promise leaves before the storage event that makes it true

Time is integer milliseconds of a monotonic clock, an argument. Randomness is handed in, and used once: for the
lineage id of a new ensemble.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from datatree.log.batch import CHAIN_BYTES, LINEAGE_BYTES, Batch, genesis
from datatree.log.zxid import epoch_of
from zab import broadcast, discovery, synchronization
from zab import events as ev
from zab import message as msg
from zab.election import FOLLOWING, LEADING, LOOKING, OBSERVING, Election, Standing, Vote, tells_of_history
from zab.handlers import HANDLERS, IGNORED
from zab.history import BATCHES, BEGINNING, FOUNDER, NOTHING, History, Position
from zab.quorum import Quorum
from zab.roles import (
    BROADCAST,
    DISCOVERY,
    ELECTION,
    SYNCHRONIZATION,
    Following,
    Leading,
    LearnerHandler,
    ProtocolError,
)

STATE_NAMES = {LOOKING: "looking", FOLLOWING: "following", LEADING: "leading", OBSERVING: "observing"}


@attrs.frozen
class Settings:
    """What a peer knows of its ensemble; times in milliseconds."""

    sid: int
    quorum: Quorum
    servers: frozenset[int]
    """Every server of the configuration: voters, servers of weight 0, and observers."""
    observers: frozenset[int] = frozenset()
    tick_ms: int = 2000
    init_limit: int = 10
    sync_limit: int = 5
    counter_limit: int = 0xFFF00000
    """At this counter the leader renews its epoch (F1)."""
    batches_in_flight_max: int = 64
    unsynced_bytes_max: int = 64 << 20
    recent_bytes_max: int = 8 << 20
    """How much committed history stays in memory for learners that come back."""

    @property
    def init_ms(self) -> int:
        return self.init_limit * self.tick_ms

    @property
    def sync_ms(self) -> int:
        return self.sync_limit * self.tick_ms


@attrs.frozen
class Restored:
    """What recovery found on disk."""

    lineage: bytes
    """16 bytes, or empty when there is none yet."""
    accepted_epoch: int
    current_epoch: int
    mark: int
    """The highest known high-water mark; the tree stands there."""
    base: Position
    batches: list[Batch]
    """The newest part of the history, from `base` on, to the end of the durable log."""
    amnesiac: bool
    holds: int
    """From nothing to batches (`zab.history`)."""
    marked: bool = False
    """The operator said, for this start, that this member never had data: there was a file `initialize` (B3)."""
    beginning: int = 0
    """The zxid with which the lineage began, where that is known; 0 is the usual one."""


def nothing() -> Restored:
    """The state of a member that has never lived."""
    return Restored(b"", 0, 0, 0, (0, bytes(CHAIN_BYTES)), [], amnesiac=True, holds=NOTHING)


TRANSITIONS = {
    (LOOKING, ELECTION): {(LEADING, DISCOVERY), (FOLLOWING, DISCOVERY), (OBSERVING, DISCOVERY)},
    **{
        (state, phase): {(state, behind), (LOOKING, ELECTION)}
        for state in (LEADING, FOLLOWING, OBSERVING)
        for phase, behind in ((DISCOVERY, SYNCHRONIZATION), (SYNCHRONIZATION, BROADCAST), (BROADCAST, DISCOVERY))
    },
}
"""Legal transitions of (state, phase)."""


class Peer:
    """The protocol of one member. Only `step` changes it."""

    def __init__(self, settings: Settings, restored: Restored, rng: Random) -> None:
        self.settings = settings
        self.rng = rng
        self.effects: list[ev.Effect] = []
        self.state = LOOKING
        self.phase = ELECTION
        self.lineage = restored.lineage
        self.accepted_epoch = restored.accepted_epoch
        self.current_epoch = restored.current_epoch
        self.amnesiac = restored.amnesiac
        self.recorded_lineage = b"" if restored.amnesiac else restored.lineage
        """The lineage in the member record: the one whose history this member is known to hold."""
        self.doubted_above: int | None = None
        """A leader of our lineage did not know our batches above this one: it is reported as our end (A4)."""
        self.conflict = False
        """A leader has other bytes than this member at the same zxid: what goes is to be kept (A5)."""
        self._held_at_start = restored.holds
        self.beginning = restored.beginning
        self._is_marker_valid = restored.marked
        if restored.amnesiac:
            # What an amnesiac may still have on disk proves nothing; it is kept until a leader replaces it.
            base = (0, genesis(restored.lineage) if restored.lineage else bytes(CHAIN_BYTES))
            self.history = History(base, [], settings.recent_bytes_max)
            self.committed = 0
        else:
            self.history = History(restored.base, restored.batches, settings.recent_bytes_max)
            self.committed = restored.mark
        self.delivered = self.committed
        self.durable = self.history.last[0]
        self.generation = 0
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.early: dict[int, tuple[int, msg.FollowerInfo | None]] = {}
        """Links of learners that dialled before this member knew that it leads: server id, and what it said."""
        self.draining = False
        self.deferred: dict[int, msg.Notification] = {}
        """Votes that came while the log was drained, the newest of each server."""
        self.halted = False
        self.election = Election(settings.sid, settings.quorum, self._send_notification)
        self._started = False
        assert self.accepted_epoch >= self.current_epoch

    # ----------------------------------------------------------------------------------------------------- interface

    def step(self, now: int, event: ev.Event) -> list[ev.Effect]:
        """Take one event, at this time; return what the host has to do, in order."""
        if self.halted:
            return []
        if not self._started:
            self._started = True
            self._look(now, "start")
        _ON_EVENT[type(event)](self, now, event)
        self._after(now)
        effects, self.effects = self.effects, []
        self.invariants()
        return effects

    def next_deadline(self) -> int | None:
        """When a `TimePassed` is wanted next; None for never."""
        if self.halted:
            return None
        if not self._started:
            return 0
        if self.leading is not None:
            times = [self.leading.next_ping, self.leading.next_tick]
            return min(times) if self.leading.established else min(*times, self.leading.deadline)
        if self.following is not None:
            redial = self.following.redial_at
            return self.following.deadline if redial is None else min(redial, self.following.deadline)
        return None if self.draining else self.election.next_deadline()

    def next_zxid(self) -> int | None:
        """The zxid of the next transaction; None while nothing may be proposed: this is no established leader, its
        epoch is being renewed, or too much is in flight."""
        return broadcast.next_zxid(self)

    @property
    def serving(self) -> bool:
        """Whether clients may be served: in broadcast, or in the renewal of an epoch that came from there."""
        if self.leading is not None:
            return self.leading.established
        return self.following is not None and self.following.up_to_date

    @property
    def leader(self) -> int | None:
        """The server that this member follows, itself included."""
        if self.leading is not None:
            return self.settings.sid
        return self.following.leader if self.following is not None else None

    @property
    def epoch(self) -> int:
        """The epoch in which this member is, or was last."""
        return self.current_epoch

    @property
    def link_to_leader(self) -> int | None:
        return self.following.link if self.following is not None else None

    @property
    def learners(self) -> dict[int, int]:
        """The learners that serve clients under this leader: link to server id."""
        if self.leading is None:
            return {}
        return {h.link: h.sid for h in self.leading.handlers.values() if h.served}

    @property
    def is_voter(self) -> bool:
        return self.settings.sid in self.settings.quorum.voters

    # --------------------------------------------------------------------------------------- used by the phase modules

    def emit(self, effect: ev.Effect) -> None:
        self.effects.append(effect)

    def trace(self, text: str) -> None:
        self.effects.append(ev.Trace(text))

    def send(self, link: int, message: msg.Message) -> None:
        self.effects.append(ev.Send((link,), message))

    def halt(self, reason: str) -> None:
        """Stop for good: going on would break a promise, or destroy evidence."""
        self.halted = True
        self.emit(ev.Halt(reason))

    def set_committed(self, zxid: int) -> None:
        """Raise the known high-water mark; it never falls within a lineage."""
        assert zxid >= self.committed, (zxid, self.committed)
        if zxid > self.committed:
            self.committed = zxid
            self.emit(ev.MarkMoved(zxid))

    def deliver(self) -> None:
        """Hand out what is committed and durable here: "applied <= min(high-water mark, own durable log)"."""
        limit = min(self.committed, self.durable)
        if limit <= self.delivered:
            return
        position = self.history.floor(limit)
        assert position is not None
        batches = self.history.between(self.delivered, position[0])
        if batches:
            self.delivered = position[0]
            self.emit(ev.Deliver(batches))
            self.history.trim(self.delivered)

    def save_epochs(self, accepted: int, current: int) -> None:
        assert accepted >= self.accepted_epoch
        assert current >= self.current_epoch
        assert accepted >= current
        self.emit(ev.SaveEpochs(self.generation, accepted, current))

    def adopt_lineage(self, lineage: bytes) -> None:
        """Take the leader's lineage in place of none, or of one that holds nothing; what is on disk is set aside."""
        assert len(lineage) == LINEAGE_BYTES
        assert self.history.last[0] == 0
        self.lineage = lineage
        self.history.reset((0, genesis(lineage)))
        self.durable = self.delivered = self.committed = 0
        self.generation += 1
        self.emit(ev.ResetLog(self.generation, lineage))

    def position(self) -> Position:
        """Where this member says that its history ends."""
        if self.doubted_above is None:
            return self.history.last
        position = self.history.floor(self.doubted_above)
        assert position is not None
        return position

    @property
    def marked(self) -> bool:
        """Whether the operator's word that this member never had data still counts (B3)."""
        return self._is_marker_valid and self.amnesiac and self.holds == NOTHING

    @property
    def holds(self) -> int:
        """From nothing to batches (`zab.history`). What an amnesiac found on its disk is not in `self.history`."""
        last = self.history.last[0]
        if last == 0:
            return self._held_at_start
        if last != self.beginning:
            return BATCHES
        return FOUNDER if self._held_at_start == FOUNDER and not self.amnesiac else BEGINNING

    def hear_of_history(self, now: int, sid: int) -> bool:
        """Some server has a history, or tells of one: the ensemble has lived, and markers count for nothing in this
        run. Whether a role was left because of that."""
        if not self.marked:
            return False
        self._is_marker_valid = False
        reason = f"server {sid} tells of a history: the file initialize does not count"
        if self.state != LOOKING:
            self.look(now, reason)
            return True
        self.trace(reason)
        if not self.draining:
            self.election.start(now, self.standing())
        return False

    def needs_member_record(self) -> bool:
        return self.amnesiac or self.recorded_lineage != self.lineage

    def look(self, now: int, reason: str) -> None:
        """Leave the role, for this reason, and elect."""
        assert self.state != LOOKING
        self._look(now, reason)

    def become(self, state: int, phase: str) -> None:
        """The one place where state and phase change."""
        assert (state, phase) in TRANSITIONS[self.state, self.phase], (self.state, self.phase, state, phase)
        self.state, self.phase = state, phase
        self.announce()

    def announce(self) -> None:
        """Tell the host where this member stands."""
        self.emit(ev.RoleChanged(self.state, self.phase, self.leader, self.serving))

    def settle_vote(self) -> None:
        """Others are told the vote of the established epoch from now on (ZOOKEEPER-1732)."""
        leader = self.leader
        assert leader is not None
        vote = Vote(leader, self.history.last[0], self.current_epoch)
        self.election.settle(self.state, vote, self.standing())

    def standing(self) -> Standing:
        zxid = self.history.last[0]
        vote = Vote(self.settings.sid, zxid, self.current_epoch if not self.amnesiac else 0, self.marked)
        return Standing(vote, self.lineage, self.amnesiac, self.holds, self.marked)

    # --------------------------------------------------------------------------------------------------- role changes

    def _look(self, now: int, reason: str) -> None:
        self.trace(f"{reason} -> elect")
        self.generation += 1
        for link in self.leading.handlers if self.leading is not None else ():
            self.emit(ev.CloseLink(link, reason))
        if self.following is not None and self.following.link is not None:
            self.emit(ev.CloseLink(self.following.link, reason))
        self.leading = self.following = None
        if self.state != LOOKING:
            self.become(LOOKING, ELECTION)
        self.election.suspend()
        self.draining = True
        self.emit(ev.DrainLog(self.generation))

    def _after(self, now: int) -> None:
        """Act on the result of the election, when there is one."""
        if self.state != LOOKING or self.draining or self.election.winner is None or self.halted:
            return
        winner = self.election.winner
        observing = not self.is_voter and self.settings.sid in self.settings.observers
        role = LEADING if winner == self.settings.sid else OBSERVING if observing else FOLLOWING
        self.trace(f"election of round {self.election.round} is won by {winner} -> {STATE_NAMES[role]}")
        vote = attrs.evolve(self.election.proposal, leader=winner)
        self.election.settle(role, vote, self.standing())
        if role == LEADING:
            discovery.leader_start(self, now)
        else:
            discovery.learner_start(self, now, winner, role)

    # --------------------------------------------------------------------------------------------------------- events

    def _send_notification(self, sid: int, notification: msg.Notification) -> None:
        self.emit(ev.SendNotification(sid, notification))

    def _on_election_link_up(self, now: int, event: ev.ElectionLinkUp) -> None:
        self.election.on_link_up(now, event.sid, event.round_trip_ms)

    def _on_election_link_down(self, now: int, event: ev.ElectionLinkDown) -> None:
        self.election.on_link_down(now, event.sid)

    def _on_notification(self, now: int, event: ev.NotificationReceived) -> None:
        if event.sid == self.settings.sid or event.sid not in self.settings.servers:
            return
        self.election.heard.add(event.sid)
        if tells_of_history(event.notification):
            self.hear_of_history(now, event.sid)
        if self.draining:
            self.deferred[event.sid] = event.notification
            return
        if self.state != LOOKING:
            self.election.standing = self.standing()
        self.election.on_notification(now, event.sid, event.notification)
        if self.election.has_left(event.sid, event.notification):
            discovery.on_voter_left(self, now, event.sid)

    def _on_quorum_link_up(self, now: int, event: ev.QuorumLinkUp) -> None:
        if not event.inbound:
            discovery.learner_on_link_up(self, now, event.link, event.sid)
        elif event.sid == self.settings.sid or event.sid not in self.settings.servers:
            self.emit(ev.CloseLink(event.link, f"server {event.sid} is not in the configuration"))
        elif self.leading is not None:
            discovery.leader_on_link_up(self, now, event.link, event.sid)
        elif self.state == LOOKING:
            for link in [link for link, (sid, _) in self.early.items() if sid == event.sid]:
                del self.early[link]
                self.emit(ev.CloseLink(link, "replaced by a newer link"))
            self.early[event.link] = (event.sid, None)
        else:
            self.emit(ev.CloseLink(event.link, "not leading"))

    def _on_quorum_link_down(self, now: int, event: ev.QuorumLinkDown) -> None:
        if self.early.pop(event.link, None) is not None:
            return
        if self.leading is not None and event.link in self.leading.handlers:
            self.drop_learner(now, self.leading.handlers[event.link], "its link broke", close=False)
        elif self.following is not None and event.link == self.following.link:
            discovery.learner_on_link_down(self, now)

    def _on_dial_failed(self, now: int, event: ev.DialFailed) -> None:
        following = self.following
        if following is not None and following.link is None and following.leader == event.sid:
            discovery.learner_on_link_down(self, now)

    def drop_learner(self, now: int, handler: LearnerHandler, reason: str, *, close: bool = True) -> None:
        """Forget a learner, with all that was counted because of its link."""
        leading = self.leading
        assert leading is not None
        self.trace(f"learner {handler.sid} is dropped: {reason}")
        del leading.handlers[handler.link]
        leading.acke_recv.discard(handler.sid)
        if close:
            self.send(handler.link, msg.Refused(reason[:200]))
            self.emit(ev.CloseLink(handler.link, reason))

    def _on_message(self, now: int, event: ev.MessageReceived) -> None:
        self.receive(now, event.link, event.message)

    def receive(self, now: int, link: int, message: msg.Message) -> None:
        """Take a message that came on a quorum link."""
        if link in self.early:
            if isinstance(message, msg.FollowerInfo):
                self.early[link] = (self.early[link][0], message)
            return
        if self.leading is not None and link in self.leading.handlers:
            handler = self.leading.handlers[link]
            handler.heard_at = now
            try:
                self._dispatch(now, handler, message)
            except ProtocolError as error:
                if link in self.leading.handlers:
                    self.drop_learner(now, handler, str(error))
        elif self.following is not None and link == self.following.link:
            broadcast.learner_heard(self, now)
            try:
                self._dispatch(now, self.following, message)
            except ProtocolError as error:
                self.look(now, f"leader {self.following.leader}: {error}")

    def _dispatch(self, now: int, other: Any, message: msg.Message) -> None:
        role = LEADING if self.leading is not None else FOLLOWING
        handle = HANDLERS.get((role, self.phase, type(message)))
        if handle is not None:
            handle(self, now, other, message)
        elif (role, self.phase, type(message)) not in IGNORED:
            raise ProtocolError(
                f"{type(message).__name__} makes no sense to a {STATE_NAMES[role]} member in {self.phase}"
            )

    def _on_durable(self, now: int, event: ev.Durable) -> None:
        if event.generation == self.generation:
            assert self.durable < event.zxid <= self.history.last[0], (self.durable, event.zxid, self.history.last[0])
            self.durable = event.zxid
            broadcast.on_durable(self, now)

    def _on_log_cut(self, now: int, event: ev.LogCut) -> None:
        pass  # memory was cut when the effect left; the queue of storage effects keeps the order

    def _on_log_drained(self, now: int, event: ev.LogDrained) -> None:
        if event.generation != self.generation:
            return
        self.draining = False
        self.durable = self.history.last[0]
        self.deliver()
        self.election.start(now, self.standing())
        deferred, self.deferred = self.deferred, {}
        for sid, notification in deferred.items():
            self.election.on_notification(now, sid, notification)

    def _on_epochs_saved(self, now: int, event: ev.EpochsSaved) -> None:
        assert event.accepted >= self.accepted_epoch
        assert event.current >= self.current_epoch
        self.accepted_epoch, self.current_epoch = event.accepted, event.current
        if event.generation == self.generation:
            if self.leading is not None:
                discovery.leader_on_epochs_saved(self, now)
            elif self.following is not None:
                discovery.learner_on_epochs_saved(self, now)

    def _on_member_saved(self, now: int, event: ev.MemberSaved) -> None:
        self.amnesiac = self._is_marker_valid = False
        self.recorded_lineage = self.lineage
        if event.generation == self.generation:
            if self.leading is not None:
                synchronization.leader_on_member_saved(self, now)
            elif self.following is not None:
                synchronization.learner_on_member_saved(self, now)

    def _on_snapshot_installed(self, now: int, event: ev.SnapshotInstalled) -> None:
        # The fact holds whatever the generation: the files are replaced.
        self.conflict = False
        self.recorded_lineage = b""  # installing takes the member record away, until ACK-LD
        self.history.reset((event.zxid, event.chain))
        self.beginning = event.zxid if event.begins else 0
        self.durable = self.delivered = event.zxid
        self.set_committed(max(self.committed, event.zxid))
        if event.generation == self.generation:
            synchronization.learner_on_snapshot_installed(self, now)

    def _on_log_read(self, now: int, event: ev.LogRead) -> None:
        handler = self.leading.handlers.get(event.link) if self.leading is not None else None
        if handler is not None:
            synchronization.leader_on_log_read(self, now, handler, event.position, event.batches)

    def _on_snapshot_offered(self, now: int, event: ev.SnapshotOffered) -> None:
        handler = self.leading.handlers.get(event.link) if self.leading is not None else None
        if handler is not None:
            synchronization.leader_on_snapshot_offered(self, now, handler, (event.zxid, event.chain))

    def _on_propose(self, now: int, event: ev.Propose) -> None:
        broadcast.leader_propose(self, now, event)

    def _on_sync_requested(self, now: int, event: ev.SyncRequested) -> None:
        broadcast.leader_on_sync(self, now, event.token)

    def _on_time_passed(self, now: int, event: ev.TimePassed) -> None:
        if self.leading is not None:
            broadcast.leader_on_time(self, now)
        elif self.following is not None:
            broadcast.learner_on_time(self, now)
        elif not self.draining:
            self.election.on_timeout(now)

    # ----------------------------------------------------------------------------------------------------- invariants

    def invariants(self) -> None:
        """What must hold after every step."""
        last = self.history.last[0]
        assert self.accepted_epoch >= self.current_epoch
        assert self.accepted_epoch >= epoch_of(last)
        assert self.delivered <= self.durable <= last, (self.delivered, self.durable, last)
        assert self.delivered <= self.committed
        assert self.history.base[0] <= self.delivered
        assert (self.leading is not None) == (self.state == LEADING)
        assert (self.following is not None) == (self.state in (FOLLOWING, OBSERVING))
        if self.leading is not None and self.leading.established:
            assert self.committed <= last


_ON_EVENT: dict[type[ev.Event], Callable[[Peer, int, Any], None]] = {
    ev.ElectionLinkUp: Peer._on_election_link_up,
    ev.ElectionLinkDown: Peer._on_election_link_down,
    ev.NotificationReceived: Peer._on_notification,
    ev.QuorumLinkUp: Peer._on_quorum_link_up,
    ev.QuorumLinkDown: Peer._on_quorum_link_down,
    ev.DialFailed: Peer._on_dial_failed,
    ev.MessageReceived: Peer._on_message,
    ev.Durable: Peer._on_durable,
    ev.LogCut: Peer._on_log_cut,
    ev.LogDrained: Peer._on_log_drained,
    ev.EpochsSaved: Peer._on_epochs_saved,
    ev.MemberSaved: Peer._on_member_saved,
    ev.SnapshotInstalled: Peer._on_snapshot_installed,
    ev.LogRead: Peer._on_log_read,
    ev.SnapshotOffered: Peer._on_snapshot_offered,
    ev.Propose: Peer._on_propose,
    ev.SyncRequested: Peer._on_sync_requested,
    ev.TimePassed: Peer._on_time_passed,
}
