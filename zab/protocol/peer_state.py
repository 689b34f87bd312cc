"""The state of one peer, and its outbox: what the phases read and change.

Each phase module is a set of functions on a `PeerState`, which gives them what they share: the history with its marks,
the epochs and the lineage, what the disk is known to hold, the state of the role (`zab.protocol.roles`), and the outbox
in which a step collects its effects. `zab.protocol.peer.Peer` is a `PeerState` that takes events; no phase knows it.

Invariants, checked at the end of a turn, and by the simulator after every step (`invariants`):
    acceptedEpoch >= currentEpoch, acceptedEpoch >= epoch of the last batch; neither ever falls
    delivered <= min(high-water mark, own durable log) <= last
    the state of a role is there exactly while the member has that role

Not here: what an event or a message does.
"""

from random import Random

from datatree.log.batch import LINEAGE_BYTES, RECONFIG, Batch, Position
from datatree.log.zxid import BEFORE_ALL, COUNTER_BITS, Epoch, Zxid
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import Election, Standing, Vote
from zab.protocol.history import History, beginning
from zab.protocol.membership import Membership, Memberships
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.roles import SYNCHRONIZED, Following, Leading, LearnerHandler, Supplying
from zab.protocol.states import (
    AMPLE,
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
    Space,
    State,
)
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Quorum

REASON_CHARACTERS_MAX = 200
"""How much of a reason goes into a REFUSED."""


class PeerState:
    """One member: where it stands, what it holds, and the effects of the step that is under way."""

    def __init__(self, settings: Settings, restored: Restored, rng: Random) -> None:
        self.settings = settings
        self.rng = rng
        self.effects: list[ev.Effect] = []
        self.state: State = LOOKING
        self.phase: Phase = ELECTION
        self.lineage = restored.lineage
        self.told_of_history: set[ServerId] = set()
        """Servers that said last that somebody has a history. A member that has nothing notes it (B3 first start)."""
        self.accepted_epoch = restored.accepted_epoch
        self.current_epoch = restored.current_epoch
        self.amnesiac = restored.amnesiac
        self.recorded_lineage = b"" if restored.amnesiac else restored.lineage
        """The lineage in the member record: the one whose history this member is known to hold."""
        self.doubted_above: Zxid | None = None
        """A leader of our lineage did not know our batches above this one: it is reported as our end (A4 batch
        ends)."""
        self.conflict = False
        """A leader has other bytes than this member at the same zxid: what goes is to be kept (A5 conflicts)."""
        self.beginning = restored.beginning
        self.doubted = False
        """The tree of this member is wrong, as a quorum knows: it does not lead (E6 wrong trees)."""
        self.yields = False
        """Others are likelier to have the right tree: it leads only if none of them can (E6 wrong trees)."""
        self.makes_way = False
        """The lead was handed over to somebody else: it leads only if that one cannot (`zab.protocol.handover`)."""
        self.space: Space = AMPLE
        self.is_short = False
        """No quorum has room on its disks, as a leader sees and tells (`zab.protocol.disk_space`)."""
        self.insists = False
        """It leads although its disk is low: those who have room were behind it."""
        self.session_keys = restored.session_keys
        """Of the lineage, the one in use first; empty where members prove nothing (`zab.protocol.session_keys`)."""
        self.secret_name = b""
        """Of the newest secret by which members prove who they are."""
        self._held_at_start = restored.holds
        self._is_marker_valid = restored.marked
        if restored.amnesiac:
            # What an amnesiac may still have on disk proves nothing; it is kept until a leader replaces it.
            self.history = History(beginning(restored.lineage), [], settings.recent_bytes_max)
            self.committed = BEFORE_ALL
        else:
            self.history = History(restored.base, restored.batches, settings.recent_bytes_max)
            self.committed = restored.mark
        self.delivered = self.committed
        self.durable = self.history.last[0]
        self.awaits_durable = True
        """Whether a `Durable` would change something now. If not, it may come with whatever comes next."""
        self.memberships = self._memberships_at_start(b"" if restored.amnesiac else restored.config)
        self.quorum: Quorum = self.memberships.quorum
        """What decides now: for as long as a reconfiguration is outstanding, both configurations do."""
        self.servers = self.memberships.servers
        """All that are known: voters, servers of weight 0, and observers."""
        self.is_alone = self.quorum.contains({settings.sid})
        """This member is a quorum by itself."""
        self.is_membership_new = False
        """It has changed in this step."""
        self.generation = 0
        """Of storage effects: it ends with every cut of the log, and when a role is left."""
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.early: dict[Link, tuple[ServerId, int, msg.FollowerInfo | msg.ObserverInfo | None]] = {}
        """Links of learners that dialled before this member knew that it leads, and of observers before it can be their
        master: server id, features, what it said."""
        self.draining = False
        """A role is left; the election begins when the log is drained."""
        self.halted = False
        self.election = Election(settings.sid, self.quorum, self._send_notification)
        self._weigh_founding()
        assert self.accepted_epoch >= self.current_epoch

    # -------------------------------------------------------------------------------------------------- where it stands

    @property
    def serving(self) -> bool:
        """Whether clients may be served: in broadcast, or in the renewal of an epoch that came from there."""
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
        """Whether it is an observer where others follow."""
        return not self.is_voter and self.settings.sid in self.memberships.newest.observers

    @property
    def supplying(self) -> Supplying | None:
        """With whom learners of this member are, if it may have any."""
        if self.leading is not None:
            return self.leading
        return self.following.mastering if self.following is not None else None

    @property
    def supplied(self) -> Zxid:
        """To where its learners are brought: a leader's to the end of its history, a master's to what is committed."""
        return self.history.last[0] if self.leading is not None else self.committed

    def awaits_observer(self, sid: ServerId) -> bool:
        """Whether this server may wait for this member to be its master."""
        return self.settings.has_observer_masters and self.state is FOLLOWING and self.is_observer(sid)

    def is_observer(self, sid: ServerId) -> bool:
        """Whether this server is an observer of the configuration, and no voter of one that is outstanding."""
        return sid in self.memberships.newest.observers and sid not in self.quorum.voters

    def _membership_of(self, config: bytes) -> Membership:
        """What the tree says, or the configuration file before anybody has changed it."""
        settings = self.settings
        if config:
            return settings.reader.of_text(config)
        return Membership(BEFORE_ALL, settings.quorum, settings.servers, settings.observers)

    def _memberships_at_start(self, config: bytes) -> Memberships:
        """What the tree says, and the history after the mark."""
        memberships = Memberships(self._membership_of(config))
        for batch in self.history.batches.values():
            if batch.flags & RECONFIG and batch.zxid > self.committed:
                memberships.appended(self.settings.reader.of_batch(batch), batch.mark)
        return memberships

    def position(self) -> Position:
        """Where this member says that its history ends."""
        if self.doubted_above is None:
            return self.history.last
        position = self.history.floor(self.doubted_above)
        assert position is not None
        return position

    @property
    def marked(self) -> bool:
        """Whether the operator's word that this member never had data still counts (B3 first start)."""
        return self._is_marker_valid and self.amnesiac and self.holds == NOTHING

    @property
    def holds(self) -> Holds:
        """From nothing to batches. What an amnesiac found on its disk is not in `self.history`."""
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
        """Whether this member wants others to lead: because of its tree or of its disk, or since that was asked for."""
        return self.is_tree_in_doubt or self.makes_way or (self.is_low and not self.insists)

    def standing(self) -> Standing:
        zxid = self.history.last[0]
        vote = Vote(self.settings.sid, zxid, self.current_epoch if not self.amnesiac else Epoch(0), self.marked)
        if self.is_no_candidate:
            vote = Vote(self.settings.sid, BEFORE_ALL, Epoch(0))  # any other candidate is better
        return Standing(vote, self.lineage, self.amnesiac, self.holds, self.marked, self.is_tree_in_doubt)

    # ---------------------------------------------------------------------------------------------------------- outbox

    def emit(self, effect: ev.Effect) -> None:
        self.effects.append(effect)

    def trace(self, text: str) -> None:
        self.effects.append(ev.Trace(text))

    def send(self, link: Link, message: msg.Message) -> None:
        self.effects.append(ev.Send((link,), message))

    def _send_notification(self, sid: ServerId, notification: msg.Notification) -> None:
        lineage = b"" if self.amnesiac else self.lineage
        self.emit(ev.SendNotification(sid, notification, *self.memberships.told(lineage)))

    def halt(self, reason: str) -> None:
        """Stop for good: going on would break a promise, or destroy evidence."""
        self.halted = True
        self.emit(ev.Halt(reason))

    # ------------------------------------------------------------------------------------------- history and promises

    def set_committed(self, zxid: Zxid) -> None:
        """Raise the known high-water mark; it never falls within a lineage."""
        assert zxid >= self.committed, (zxid, self.committed)
        if zxid > self.committed:
            self.committed = zxid
            self.effects.append(ev.MarkMoved(zxid))
            if self.memberships.outstanding is not None and self.memberships.committed(zxid):
                self.use_memberships()

    def append_reconfiguration(self, batch: Batch) -> None:
        """The history is about to have it. Raises ValueError for one that is none."""
        self.memberships.appended(self.settings.reader.of_batch(batch), batch.mark)
        self.use_memberships()

    def truncate(self, position: Position) -> None:
        """Cut everything after a position of the history."""
        self.history.truncate(position)
        if self.memberships.cut(position[0]):
            self.use_memberships()

    def reset(self, base: Position, config: bytes = b"") -> None:
        """A snapshot, which says this of the configuration, or nothing at all, takes the place of the history."""
        self.history.reset(base)
        if config or self.memberships.in_force.version or self.memberships.outstanding is not None:
            self.memberships.replaced(self._membership_of(config))
            self.use_memberships()

    def use_memberships(self) -> None:
        """From now on what the memberships say decides."""
        known = self.memberships
        self.quorum = self.election.quorum = known.quorum
        self.election.candidates = self._candidates()
        self._weigh_founding()
        self.is_alone = self.quorum.contains({self.settings.sid})
        self.servers = known.servers
        self.is_membership_new = True
        self.tell_memberships()

    def _candidates(self) -> frozenset[ServerId]:
        """Who may lead. Who holds nothing asks those of its file, too: what it heard may be of a lineage that ended."""
        known = self.memberships
        return known.candidates | known.in_force.quorum.voters if self.holds == NOTHING else known.candidates

    def use_candidates(self) -> None:
        """Others may lead than before, as others say."""
        election = self.election
        election.candidates = self._candidates()
        if election.proposal.leader != self.settings.sid and election.proposal.leader not in election.candidates:
            self.is_membership_new = True
        self._weigh_founding()
        self.tell_memberships()

    def tell_memberships(self) -> None:
        known = self.memberships
        self.emit(ev.MembershipsChanged(known.in_force, known.outstanding, known.heard_of))

    def deliver(self) -> None:
        """Hand out what is committed and durable here: "applied <= min(high-water mark, own durable log)"."""
        limit = min(self.committed, self.durable)
        if limit <= self.delivered:
            return
        history = self.history
        batches = history.between(self.delivered, limit)
        if batches:
            assert batches[0].first > self.delivered, (batches[0].first, self.delivered)
            self.delivered = batches[-1].zxid
            assert self.delivered <= limit, "a committed part of a batch"
            self.effects.append(ev.Deliver(batches))
            if history.size_bytes > history.bytes_max:
                history.trim(self.delivered)

    def save_epochs(self, accepted: Epoch, current: Epoch) -> None:
        assert accepted >= self.accepted_epoch
        assert current >= self.current_epoch
        assert accepted >= current
        self.emit(ev.SaveEpochs(self.generation, accepted, current))

    def take_lineage(self, lineage: bytes) -> None:
        """From now on this member is of this lineage, and believes nothing that it heard of another one."""
        assert len(lineage) == LINEAGE_BYTES
        self.lineage = lineage
        if self.memberships.take_lineage(lineage):
            self.use_memberships()

    def keep_lineage(self) -> None:
        """It takes part in its own lineage. While that had nothing it may have elected by what another one decided."""
        known = self.memberships
        if self.lineage and known.heard is not None and known.heard_of_lineage != self.lineage:
            self.take_lineage(self.lineage)

    def adopt_lineage(self, lineage: bytes) -> None:
        """Take the leader's lineage in place of none, or of one that holds nothing; what is on disk is set aside."""
        assert self.history.last[0] == 0
        self.take_lineage(lineage)
        self.reset(beginning(lineage))
        self.durable = self.delivered = self.committed = BEFORE_ALL
        self.generation += 1
        self.emit(ev.ResetLog(self.generation, lineage))

    # --------------------------------------------------------------------------------------------------- role changes

    def become(self, state: State, phase: Phase) -> None:
        """The one place where state and phase change."""
        assert (state, phase) in TRANSITIONS[self.state, self.phase], (self.state, self.phase, state, phase)
        self.state, self.phase = state, phase
        self.awaits_durable = True
        self.emit(ev.RoleChanged(state, phase, self.leader, self.serving))

    def look(self, reason: str) -> None:
        """Leave the role, for this reason, and elect."""
        assert self.state != LOOKING or self.generation == 0, "a member that elects leaves no role, but it may start"
        self.trace(f"{reason} -> elect")
        self.generation += 1
        self.insists = self.is_short = False
        for handler in self.supplying.handlers.values() if self.supplying is not None else ():
            self.release_snapshot(handler)
            self.emit(ev.CloseLink(handler.link, reason))
        if self.following is not None and self.following.link is not None:
            self.emit(ev.CloseLink(self.following.link, reason))
        self.leading = self.following = None
        self.memberships.outstanding_at.clear()
        self.election.candidates = self._candidates()
        if self.state != LOOKING:
            self.become(LOOKING, ELECTION)
        self.election.suspend()
        self.draining = True
        self.emit(ev.DrainLog(self.generation))

    def hear_of_history(self, now: int, sid: ServerId, *, tells: bool) -> bool:
        """A server has spoken; `tells`: it has a history, or knows of one. Then the ensemble has lived: a member
        without any begins no lineage until that server says otherwise, and markers count for nothing in this run.
        Returns whether a role was left because of that."""
        if not self.amnesiac or self.holds != NOTHING:
            return False
        if not tells:
            self.told_of_history.discard(sid)
            self._weigh_founding()
            return False
        was_marked, self._is_marker_valid = self.marked, False
        assert sid != self.settings.sid, "what a member holds itself it does not hear"
        is_first_news = not self.told_of_history
        self.told_of_history.add(sid)
        self._weigh_founding()
        reason = f"server {sid} tells of a history: "
        reason += "the file initialize does not count" if was_marked else "no lineage begins here"
        if self.leading is not None:
            is_founding = self.leading.first_start and not self.leading.established
        else:
            # Its leader may be about to begin one, and counts it until the link is gone.
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
        """Others are told the vote of the established epoch from now on (ZOOKEEPER-1732)."""
        leader = self.leader
        assert leader is not None
        self.makes_way = False
        vote = Vote(leader, self.history.last[0], self.current_epoch)
        self.election.settle(self.state, vote, self.standing())

    def drop_learner(self, supplying: Supplying, handler: LearnerHandler, reason: str, *, close: bool = True) -> None:
        """Forget a learner, with all that was counted because of its link."""
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
            self.emit(ev.LearnerDropped(handler.link))
        self.release_snapshot(handler)
        if close:
            self.send(handler.link, msg.Refused(reason[:REASON_CHARACTERS_MAX]))
            self.emit(ev.CloseLink(handler.link, reason))

    def release_snapshot(self, handler: LearnerHandler) -> None:
        """The learner needs no files of this member any more: it has all that they have for it, or its link is gone."""
        if handler.offered:
            handler.offered = False
            self.emit(ev.ReleaseSnapshot(handler.link))

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
