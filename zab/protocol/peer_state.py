"""The state of one peer, and its outbox: what the phases read and modify.

Each phase module is a set of functions on a `PeerState`, which holds what they share: the history with its marks, the
epochs and the lineage, what the disk is known to hold, the state of the role (`zab.protocol.roles`), and the outbox in
which a step collects its effects. `zab.protocol.peer.Peer` is a `PeerState` that takes events; no phase knows it.

Invariants, checked at the end of a turn, and by the simulator after every step (`invariants`):
    acceptedEpoch >= currentEpoch, acceptedEpoch >= epoch of the last batch; neither ever falls
    delivered <= min(high-water mark, own durable log) <= last
    the state of a role is there exactly while the member has that role

Not here: what an event or a message does.
"""

from random import Random

from datatree.log.batch import LINEAGE_BYTES, RECONFIG, Batch, Position
from datatree.log.zxid import BEFORE_ALL, COUNTER_BITS, Epoch, Zxid
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.election import Election, Standing, Vote
from zab.protocol.history import History, beginning
from zab.protocol.membership import Membership, Memberships
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.roles import SYNCHRONIZED, Following, Leading, LearnerHandler, Supplying
from zab.protocol.states import (
    BATCHES,
    BEGINNING,
    ELECTION,
    FOLLOWING,
    FOUNDER,
    LEADING,
    LOOKING,
    NOTHING,
    OBSERVING,
    TRANSITIONS,
    Holds,
    Phase,
    State,
)
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Quorum
from zab.service.disk_space import AMPLE, Space

REASON_CHARACTERS_MAX = 200
"""How many characters of a reason go into a REFUSED."""


def _history_of(restored: Restored, bytes_max: int) -> tuple[History, Zxid]:
    """The history, and up to where it is known to be committed.

    The history on an amnesiac's disk proves nothing; it is kept until a leader replaces it."""
    if restored.amnesiac:
        return History(beginning(restored.lineage), [], bytes_max), BEFORE_ALL
    return History(restored.base, restored.batches, bytes_max), restored.mark


class PeerState:
    """One member: its role, its history and promises, and the effects of the current step."""

    def __init__(self, settings: Settings, restored: Restored, rng: Random) -> None:
        self.settings = settings
        self.rng = rng
        self.effects: list[fx.Effect] = []
        self.state: State = LOOKING
        self.phase: Phase = ELECTION
        self.lineage = restored.lineage
        self.told_of_history: set[ServerId] = set()
        """Servers whose last notification said that some server has a history. A member without any notes this (B3
        first start)."""
        self.accepted_epoch = restored.accepted_epoch
        self.current_epoch = restored.current_epoch
        self.amnesiac = restored.amnesiac
        self.recorded_lineage = b"" if restored.amnesiac else restored.lineage
        """The lineage in the member record: the one whose history this member is known to hold."""
        self.doubted_above: Zxid | None = None
        """A leader of our lineage did not know our batches above this one, so this is reported as our end (A4 batch
        ends)."""
        self.conflict = False
        """A leader has different bytes at the same zxid: keep what is cut here (A5 conflicts)."""
        self.beginning = restored.beginning
        self.doubted = False
        """A quorum found this member's tree to be wrong: it does not lead (E6 wrong trees)."""
        self.yields = False
        """Other members are likelier to have the right tree: this one leads only if none of them can (E6 wrong
        trees)."""
        self.makes_way = False
        """The lead was handed over to another member: this one leads only if that one cannot
        (`zab.protocol.handover`)."""
        self.space: Space = AMPLE
        self.is_short = False
        """No quorum has room on its disks, according to the leader (`zab.protocol.disk_space`)."""
        self.insists = False
        """It leads although its disk is low: the members with room lagged."""
        self.session_keys = restored.session_keys
        """The keys of the lineage, the one in use first; empty if members prove nothing
        (`zab.protocol.session_keys`)."""
        self.secret_name = b""
        """The name of the newest secret by which members prove who they are."""
        self._held_at_start = restored.holds
        self.is_marker_valid = restored.marked
        self.history, self.committed = _history_of(restored, settings.recent_bytes_max)
        self.delivered = self.committed
        self.durable = self.history.last[0]
        self.awaits_durable = True
        """Whether a `Durable` would change anything now. If not, the host may deliver it together with the next
        event."""
        self.memberships = self._memberships_at_start(b"" if restored.amnesiac else restored.config)
        self.quorum: Quorum = self.memberships.quorum
        """The quorum that decides now; while a reconfiguration is outstanding, both configurations'."""
        self.servers = self.memberships.servers
        """All servers that are known: voters, servers of weight 0, and observers."""
        self.is_alone = self.quorum.contains({settings.sid})
        """This member is a quorum by itself."""
        self.is_membership_new = False
        """The configuration has changed in this step."""
        self.generation = 0
        """The generation of storage effects: it ends with every cut of the log, and with every role."""
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.early: dict[Link, tuple[ServerId, int, msg.FollowerInfo | msg.ObserverInfo | None]] = {}
        """Links of learners that dialled before this member knew that it leads, and of observers before it can be their
        master: server id, features, and their first message."""
        self.draining = False
        """A role has ended; the election begins once the log is drained."""
        self.halted = False
        self.election = Election(settings.sid, self.quorum, self._send_notification)
        self._weigh_founding()
        assert self.accepted_epoch >= self.current_epoch

    # -------------------------------------------------------------------------------------------------- where it stands

    @property
    def serving(self) -> bool:
        """Whether clients may be served: in broadcast, or while the epoch is renewed from there."""
        if self.leading is not None:
            return self.leading.established
        return self.following is not None and self.following.up_to_date

    @property
    def leader(self) -> ServerId | None:
        """The server that this member follows, itself included."""
        if self.leading is not None:
            return self.settings.sid
        return self.following.leader if self.following is not None else None

    @property
    def is_voter(self) -> bool:
        return self.settings.sid in self.quorum.voters

    @property
    def observes(self) -> bool:
        """Whether this member joins as an observer rather than as a follower."""
        return not self.is_voter and self.settings.sid in self.memberships.newest.observers

    @property
    def supplying(self) -> Supplying | None:
        """The state of the role in which this member has learners, if it may have any."""
        if self.leading is not None:
            return self.leading
        return self.following.mastering if self.following is not None else None

    @property
    def supplied(self) -> Zxid:
        """How far learners are brought: a leader's to the end of its history, a master's to what is committed."""
        return self.history.last[0] if self.leading is not None else self.committed

    def awaits_observer(self, sid: ServerId) -> bool:
        """Whether this server may be waiting for this member to become its master."""
        return self.settings.has_observer_masters and self.state is FOLLOWING and self.is_observer(sid)

    def is_observer(self, sid: ServerId) -> bool:
        """Whether this server is an observer of the configuration, and not a voter of an outstanding one."""
        return sid in self.memberships.newest.observers and sid not in self.quorum.voters

    def _membership_of(self, config: bytes) -> Membership:
        """The configuration in the tree, or that of the file if the tree has none."""
        settings = self.settings
        if config:
            return settings.reader.of_text(config)
        return Membership(BEFORE_ALL, settings.quorum, settings.servers, settings.observers)

    def _memberships_at_start(self, config: bytes) -> Memberships:
        """The configurations in the tree and in the history after the mark."""
        memberships = Memberships(self._membership_of(config))
        for batch in self.history.batches.values():
            if batch.flags & RECONFIG and batch.zxid > self.committed:
                memberships.appended(self.settings.reader.of_batch(batch), batch.mark)
        return memberships

    def position(self) -> Position:
        """Where this member reports that its history ends."""
        if self.doubted_above is None:
            return self.history.last
        position = self.history.floor(self.doubted_above)
        assert position is not None
        return position

    @property
    def marked(self) -> bool:
        """Whether the operator's declaration that this member never had data still counts (B3 first start)."""
        return self.is_marker_valid and self.amnesiac and self.holds == NOTHING

    @property
    def holds(self) -> Holds:
        """What this member holds, from nothing to batches. What an amnesiac has on its disk is not in
        `self.history`."""
        last = self.history.last[0]
        if last == 0:
            return self._held_at_start
        if last != self.beginning:
            return BATCHES
        return FOUNDER if self._held_at_start == FOUNDER and not self.amnesiac else BEGINNING

    def needs_member_record(self) -> bool:
        return self.amnesiac or self.recorded_lineage != self.lineage

    @property
    def is_low(self) -> bool:
        """Whether its disk is nearly full (`zab.protocol.disk_space`)."""
        return self.space < AMPLE

    @property
    def is_tree_in_doubt(self) -> bool:
        """Whether this member wants others to lead, because of its tree (E6 wrong trees)."""
        return self.doubted or self.yields

    @property
    def is_no_candidate(self) -> bool:
        """Whether this member wants others to lead: because of its tree, of its disk, or of a hand-over."""
        return self.is_tree_in_doubt or self.makes_way or (self.is_low and not self.insists)

    def standing(self) -> Standing:
        zxid = self.history.last[0]
        vote = Vote(self.settings.sid, zxid, self.current_epoch if not self.amnesiac else Epoch(0), self.marked)
        if self.is_no_candidate:
            vote = Vote(self.settings.sid, BEFORE_ALL, Epoch(0))  # any other candidate is better
        return Standing(vote, self.lineage, self.amnesiac, self.holds, self.marked, self.is_tree_in_doubt)

    # ---------------------------------------------------------------------------------------------------------- outbox

    def emit(self, effect: fx.Effect) -> None:
        self.effects.append(effect)

    def trace(self, text: str) -> None:
        self.effects.append(fx.Trace(text))

    def send(self, link: Link, message: msg.Message) -> None:
        self.effects.append(fx.Send((link,), message))

    def _send_notification(self, sid: ServerId, notification: msg.Notification) -> None:
        lineage = b"" if self.amnesiac else self.lineage
        self.emit(fx.SendNotification(sid, notification, *self.memberships.told(lineage)))

    def halt(self, reason: str) -> None:
        """Stop for good: going on would break a promise, or destroy evidence."""
        self.halted = True
        self.emit(fx.Halt(reason))

    # ------------------------------------------------------------------------------------------- history and promises

    def set_committed(self, zxid: Zxid) -> None:
        """Raise the known high-water mark; it never falls within a lineage."""
        assert zxid >= self.committed, (zxid, self.committed)
        if zxid > self.committed:
            self.committed = zxid
            self.effects.append(fx.MarkMoved(zxid))
            if self.memberships.outstanding is not None and self.memberships.committed(zxid):
                self.use_memberships()

    def append_reconfiguration(self, batch: Batch) -> None:
        """Note a reconfiguration that is about to be appended. Raises ValueError if it is invalid."""
        self.memberships.appended(self.settings.reader.of_batch(batch), batch.mark)
        self.use_memberships()

    def truncate(self, position: Position) -> None:
        """Cut everything after a position of the history."""
        self.history.truncate(position)
        if self.memberships.cut(position[0]):
            self.use_memberships()

    def reset(self, base: Position, config: bytes = b"") -> None:
        """Replace the history by a snapshot with this configuration, or by nothing."""
        self.history.reset(base)
        if config or self.memberships.in_force.version or self.memberships.outstanding is not None:
            self.memberships.replaced(self._membership_of(config))
            self.use_memberships()

    def use_memberships(self) -> None:
        """Apply what the memberships now say to everything that depends on it."""
        known = self.memberships
        self.quorum = self.election.quorum = known.quorum
        self.election.candidates = self._candidates()
        self._weigh_founding()
        self.is_alone = self.quorum.contains({self.settings.sid})
        self.servers = known.servers
        self.is_membership_new = True
        self.tell_memberships()

    def _candidates(self) -> frozenset[ServerId]:
        """The servers that may lead. A member without history also considers those of its file: what it heard may come
        from a lineage that has ended."""
        known = self.memberships
        return known.candidates | known.in_force.quorum.voters if self.holds == NOTHING else known.candidates

    def use_candidates(self) -> None:
        """Other servers report configurations that change who may lead."""
        election = self.election
        election.candidates = self._candidates()
        if election.proposal.leader != self.settings.sid and election.proposal.leader not in election.candidates:
            self.is_membership_new = True
        self._weigh_founding()
        self.tell_memberships()

    def tell_memberships(self) -> None:
        known = self.memberships
        self.emit(fx.MembershipsChanged(known.in_force, known.outstanding, known.heard_of))

    def deliver(self) -> None:
        """Deliver what is committed and durable here: "applied <= min(high-water mark, own durable log)"."""
        limit = min(self.committed, self.durable)
        if limit <= self.delivered:
            return
        history = self.history
        batches = history.between(self.delivered, limit)
        if batches:
            assert batches[0].first > self.delivered, (batches[0].first, self.delivered)
            self.delivered = batches[-1].zxid
            assert self.delivered <= limit, "a committed part of a batch"
            self.effects.append(fx.Deliver(batches))
            if history.size_bytes > history.bytes_max:
                history.trim(self.delivered)

    def save_epochs(self, accepted: Epoch, current: Epoch) -> None:
        assert accepted >= self.accepted_epoch
        assert current >= self.current_epoch
        assert accepted >= current
        self.emit(fx.SaveEpochs(self.generation, accepted, current))

    def take_lineage(self, lineage: bytes) -> None:
        """Join this lineage, and forget everything heard of another one."""
        assert len(lineage) == LINEAGE_BYTES
        self.lineage = lineage
        if self.memberships.take_lineage(lineage):
            self.use_memberships()

    def keep_lineage(self) -> None:
        """Take part in this member's own lineage. While that was empty, this member may have elected by another one's
        configuration."""
        known = self.memberships
        if self.lineage and known.heard is not None and known.heard_of_lineage != self.lineage:
            self.take_lineage(self.lineage)

    def adopt_lineage(self, lineage: bytes) -> None:
        """Adopt the leader's lineage in place of none, or of one without history; what is on disk is set aside."""
        assert self.history.last[0] == 0
        self.take_lineage(lineage)
        self.reset(beginning(lineage))
        self.durable = self.delivered = self.committed = BEFORE_ALL
        self.generation += 1
        self.emit(fx.ResetLog(self.generation, lineage))

    # --------------------------------------------------------------------------------------------------- role changes

    def become(self, state: State, phase: Phase) -> None:
        """The one place where state and phase change."""
        assert (state, phase) in TRANSITIONS[self.state, self.phase], (self.state, self.phase, state, phase)
        self.state, self.phase = state, phase
        self.awaits_durable = True
        self.emit(fx.RoleChanged(state, phase, self.leader, self.serving))

    def look(self, reason: str) -> None:
        """Leave the role, for this reason, and elect."""
        assert self.state != LOOKING or self.generation == 0, "a member that elects leaves no role, but it may start"
        self.trace(f"{reason} -> elect")
        self.generation += 1
        self.insists = self.is_short = False
        for handler in self.supplying.handlers.values() if self.supplying is not None else ():
            self.release_snapshot(handler)
            self.emit(fx.CloseLink(handler.link, reason))
        if self.following is not None and self.following.link is not None:
            self.emit(fx.CloseLink(self.following.link, reason))
        self.leading = self.following = None
        self.memberships.outstanding_at.clear()
        self.election.candidates = self._candidates()
        if self.state != LOOKING:
            self.become(LOOKING, ELECTION)
        self.election.suspend()
        self.draining = True
        self.emit(fx.DrainLog(self.generation))

    def hear_of_history(self, now: int, sid: ServerId, *, tells: bool) -> bool:
        """A server reports, if `tells`, that it has a history or knows of one. Then the ensemble has lived: a member
        without history begins no lineage until that server reports otherwise, and its marker does not count for the
        rest of this run. Returns whether this ended a role."""
        if not self.amnesiac or self.holds != NOTHING:
            return False
        if not tells:
            self.told_of_history.discard(sid)
            self._weigh_founding()
            return False
        was_marked, self.is_marker_valid = self.marked, False
        assert sid != self.settings.sid, "what a member holds itself it does not hear"
        is_first_news = not self.told_of_history
        self.told_of_history.add(sid)
        self._weigh_founding()
        reason = f"server {sid} tells of a history: "
        reason += "the file initialize does not count" if was_marked else "no lineage begins here"
        if self.leading is not None:
            is_founding = self.leading.first_start and not self.leading.established
        else:
            # Its leader may be about to begin a lineage, and counts this member until the link is closed.
            is_founding = is_first_news and self.following is not None and self.following.epoch is None
        if self.state != LOOKING and (was_marked or is_founding):
            self.look(reason)
            return True
        if was_marked:
            self.trace(reason)
            if not self.draining:
                self.election.start(now, self.standing())
        return False

    def forget_history(self) -> None:
        """This member holds a history itself, as its record says."""
        assert not self.amnesiac
        self.told_of_history.clear()
        self._weigh_founding()

    def _weigh_founding(self) -> None:
        self.election.servers = self.memberships.servers
        self.election.may_found = not self.told_of_history and not self.memberships.is_any_known

    def settle_vote(self) -> None:
        """From now on announce the vote of the established epoch (ZOOKEEPER-1732)."""
        leader = self.leader
        assert leader is not None
        self.makes_way = False
        vote = Vote(leader, self.history.last[0], self.current_epoch)
        self.election.settle(self.state, vote, self.standing())

    def drop_learner(self, supplying: Supplying, handler: LearnerHandler, reason: str, *, close: bool = True) -> None:
        """Forget a learner, and everything counted because of its link."""
        assert self.supplying is supplying
        self.trace(f"learner {handler.sid} is dropped: {reason}")
        del supplying.handlers[handler.link]
        if self.leading is not None:
            leading = self.leading
            leading.acke_recv.discard(handler.sid)
            leading.attached = {route: sid for route, sid in leading.attached.items() if route[0] != handler.link}
        elif handler.is_attached or handler.stage >= SYNCHRONIZED:
            assert self.following is not None
            assert self.following.link is not None
            self.send(self.following.link, msg.Detach(handler.link))
        if handler.served:
            self.emit(fx.LearnerDropped(handler.link))
        self.release_snapshot(handler)
        if close:
            self.send(handler.link, msg.Refused(reason[:REASON_CHARACTERS_MAX]))
            self.emit(fx.CloseLink(handler.link, reason))

    def release_snapshot(self, handler: LearnerHandler) -> None:
        """The learner no longer needs files of this member: it has all that they contain for it, or its link is
        gone."""
        if handler.offered:
            handler.offered = False
            self.emit(fx.ReleaseSnapshot(handler.link))

    # ----------------------------------------------------------------------------------------------------- invariants

    def invariants(self) -> None:
        """What must hold after every step."""
        last = self.history.last[0]
        assert self.accepted_epoch >= self.current_epoch
        assert self.accepted_epoch >= last >> COUNTER_BITS
        assert self.delivered <= self.durable <= last, (self.delivered, self.durable, last)
        assert self.delivered <= self.committed
        assert self.history.base[0] <= self.delivered
        assert not self.is_membership_new
        assert self.quorum is self.election.quorum
        assert self.quorum.voters
        outstanding = self.memberships.outstanding
        assert outstanding is None or self.memberships.in_force.version < outstanding.version <= last
        assert (self.leading is not None) == (self.state is LEADING)
        assert (self.following is not None) == (self.state is FOLLOWING or self.state is OBSERVING)
        if self.leading is not None and self.leading.established:
            assert self.committed <= last
