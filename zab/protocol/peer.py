"""One member's protocol: events in, effects out.

    LOOKING/election ─┬─> LEADING/discovery ───> LEADING/synchronization ───> LEADING/broadcast
                      ├─> FOLLOWING/discovery ─> FOLLOWING/synchronization ─> FOLLOWING/broadcast
                      └─> OBSERVING/discovery ─> OBSERVING/synchronization ─> OBSERVING/broadcast
    from broadcast back to discovery in the same role when the epoch is renewed
    from everywhere back to LOOKING/election when the leader, or its quorum, is lost

The phases are modules of functions on the `PeerState`, and each calls only modules below it:

    peer, handlers                           dispatch of events and messages
    short_way                                messages of the steady state, past that dispatch
    storage_answers                          what follows when something is durable, read, or installed
    observer_master                          a follower that serves observers as the leader serves it
    discovery > synchronization > broadcast  the phases; each begins the next one
    renewal, confirmation, heartbeat,
    session_keys, source                     beside them
    peer_state, roles, election              what they act on

The table `HANDLERS` says which of their functions handles which message in which role and phase; any other combination
is in `IGNORED`, with the reason, or breaks the protocol: then the link is closed.

Invariant besides those of the state: no promise is sent before the storage event that makes it true.

Time is an argument: integer milliseconds of a monotonic clock. Randomness is an argument, too: for the lineage id of a
new ensemble, and for the master that an observer dials.
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar, get_args

import attrs

from datatree.log.zxid import Epoch
from zab.protocol import (
    broadcast,
    confirmation,
    discovery,
    disk_space,
    handover,
    heartbeat,
    observer_master,
    reconfiguration,
    routes,
    short_way,
    source,
    storage_answers,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import tells_of_history
from zab.protocol.handlers import HANDLERS, IGNORED
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import ProtocolError
from zab.protocol.states import FOLLOWING, LEADING, LOOKING, OBSERVING, STATE_NAMES, State
from zab.quorum.ids import Link, ServerId
from zab.service.disk_space import EXHAUSTED


class Peer(PeerState):
    """The protocol of one member. Only `step` changes it."""

    def __init__(self, settings: Settings, restored: Restored, rng: Random) -> None:
        super().__init__(settings, restored, rng)
        self._deferred: dict[ServerId, msg.Notification] = {}
        """Votes that arrived while the log was draining, the newest of each server."""
        self._started = False
        self.sits_out = False
        """The log is drained, and the disk has no room for a promise: this member does not elect."""

    # ----------------------------------------------------------------------------------------------------- interface

    def step(self, now: int, event: ev.Event) -> list[fx.Effect]:
        """Take one event at this time; return what the host has to do, in order."""
        if self.halted:
            return []
        if not self._started:
            self._started = True
            self.look("start")
        _ON_EVENT[type(event)](self, now, event)
        while self.is_membership_new:
            self._after_change(now)
        if self.state is LOOKING:
            self._after(now)
        elif self.leading is not None and self.leading.heir is not None:
            handover.leader_try_to_hand_over(self, self.leading, self.leading.heir)
        elif self.settings.has_observer_masters and self.following is not None:
            observer_master.after_step(self, now, self.following)
        effects, self.effects = self.effects, []
        return effects

    take_message = short_way.take_message
    take_durable = short_way.take_durable
    take_proposal = short_way.take_proposal

    def next_deadline(self) -> int | None:
        """When to step the next `TimePassed`; None for never."""
        if self.halted:
            return None
        if not self._started:
            return 0
        if self.leading is not None:
            leading = self.leading
            soonest = min(leading.next_ping, leading.next_tick)
            if leading.established:
                return soonest
            vain_at = leading.deadline if leading.vain_at is None else leading.vain_at
            return min(soonest, leading.deadline, vain_at)
        if self.following is not None:
            following = self.following
            due = following.deadline if following.redial_at is None else min(following.redial_at, following.deadline)
            mastering = following.mastering
            return due if mastering is None else min(due, mastering.next_ping, mastering.next_tick)
        return None if self.draining else self.election.next_deadline()

    next_zxid = broadcast.next_zxid

    @property
    def epoch(self) -> Epoch:
        """The epoch that this member is in, or was in last."""
        return self.current_epoch

    @property
    def link_to_leader(self) -> Link | None:
        return self.following.link if self.following is not None else None

    @property
    def learners(self) -> dict[Link, ServerId]:
        """The learners that serve clients under this leader, or this master of observers: link to server id."""
        supplying = self.supplying
        return {} if supplying is None else {h.link: h.sid for h in supplying.handlers.values() if h.served}

    @property
    def low_learners_count(self) -> int:
        """How many learners of this leader have nearly full disks, including those that wait for room."""
        return sum(h.is_low for h in self.leading.handlers.values()) if self.leading is not None else 0

    # ------------------------------------------------------------------------------------------------------- election

    def _after(self, now: int) -> None:
        """Act on the result of the election, once there is one."""
        if self.draining or self.election.winner is None or self.halted:
            return
        winner = self.election.winner
        if self._yields_to_nobody(winner):
            self._insist(now, "server {}, which is to lead, lacks history that this member has")
            self._after(now)
            return
        role = LEADING if winner == self.settings.sid else OBSERVING if self.observes else FOLLOWING
        self.trace(f"election of round {self.election.round} is won by {winner} -> {STATE_NAMES[role]}")
        vote = attrs.evolve(self.election.proposal, leader=winner)
        self.election.settle(role, vote, self.standing())
        if role is LEADING:
            self._lead(now)
        else:
            discovery.learner_start(self, now, winner, role)

    def _after_change(self, now: int) -> None:
        """The configuration has changed."""
        self.is_membership_new = False
        if self.leading is not None:
            routes.leader_after_change(self, now, self.leading)
            reconfiguration.leader_after_change(self, now, self.leading)
        elif self.following is not None:
            observer_master.after_change(self, self.following)
            reconfiguration.learner_after_change(self, self.following)
        elif not self.draining:
            self.election.start(now, self.standing())

    def _yields_to_nobody(self, winner: ServerId) -> bool:
        """Whether this member leaves the lead to others, but they have elected one that lags: this member would refuse
        to follow it, and it may then have no quorum (E6 wrong trees, C5 full disks)."""
        proposal = self.election.proposal
        position = (self.current_epoch, self.history.last[0])
        is_behind = proposal.leader == winner and (proposal.epoch, proposal.zxid) < position
        return self.is_no_candidate and not self.doubted and is_behind

    def _insist(self, now: int, reason: str) -> None:
        """Become a candidate again, although this member wanted others to lead: the best of them cannot, or must
        not."""
        self.trace(f"{reason.format(self.election.proposal.leader)} -> be a candidate again")
        assert self.is_no_candidate
        assert not self.doubted
        self.yields = self.makes_way = False
        self.insists = True
        self.election.start(now, self.standing())

    def _lead(self, now: int) -> None:
        """Begin to lead. Learners that dialled early are connected already, and some have said who they are."""
        leading = discovery.leader_start(self, now)
        self.keep_lineage()
        if self.is_membership_new:
            self._after_change(now)
        early, self.early = self.early, {}
        for link, (sid, features, _) in early.items():
            discovery.leader_on_link_up(self, now, leading, link, sid, features)
        for link, (_, _, info) in early.items():
            if info is not None:
                self._on_message(now, ev.MessageReceived(link, info))
        if self.leading is leading and leading.epoch is None:
            discovery.determine_new_epoch(self, leading)

    def _on_election_link_up(self, now: int, event: ev.ElectionLinkUp) -> None:
        self.election.on_link_up(now, event.sid, event.round_trip_ms)

    def _on_election_link_down(self, now: int, event: ev.ElectionLinkDown) -> None:
        reconfiguration.forget_outstanding(self, event.sid)
        self.election.on_link_down(now, event.sid, event.knows_us, event.is_taken)

    def _on_notification(self, now: int, event: ev.NotificationReceived) -> None:
        is_unlisted = event.sid not in self.servers
        if event.sid == self.settings.sid or (is_unlisted and not self.settings.takes_unlisted):
            return
        if event.in_force or event.outstanding or self.memberships.heard_of:
            reconfiguration.hear(self, now, event, is_unlisted=is_unlisted)
        self.hear_of_history(now, event.sid, tells=tells_of_history(event.notification) or bool(event.in_force))
        if event.sid not in self.servers:
            if not self.draining:
                if self.state is not LOOKING:
                    self.election.standing = self.standing()
                self.election.on_notification(now, event.sid, event.notification)
            return
        self.election.heard.add(event.sid)
        if self.draining:
            self._deferred[event.sid] = event.notification
            return
        if self.state is not LOOKING:
            self.election.standing = self.standing()
        self.election.on_notification(now, event.sid, event.notification)
        if self.election.has_left(event.sid, event.notification):
            discovery.on_voter_left(self, event.sid)
        elif self.election.has_turned(event.sid, event.notification):
            discovery.on_voter_turned(self, now, event.sid)

    def _on_log_drained(self, now: int, event: ev.LogDrained) -> None:
        if event.generation != self.generation:
            return
        self.durable = self.history.last[0]
        self.deliver()
        if self.space is EXHAUSTED:
            self.sits_out = True
        else:
            self._elect(now)

    def _elect(self, now: int) -> None:
        """Begin to elect: the log is drained."""
        assert self.state is LOOKING
        self.draining = False
        self.election.start(now, self.standing())
        deferred, self._deferred = self._deferred, {}
        for sid, notification in deferred.items():
            self.election.on_notification(now, sid, notification)

    # ---------------------------------------------------------------------------------------------------------- links

    def _on_quorum_link_up(self, now: int, event: ev.QuorumLinkUp) -> None:
        if not event.inbound:
            discovery.learner_on_link_up(self, event.link, event.sid, event.features)
        elif event.sid == self.settings.sid or not (event.sid in self.servers or self.settings.takes_unlisted):
            self.emit(fx.CloseLink(event.link, f"server {event.sid} is not in the configuration"))
        elif self.leading is not None:
            routes.leader_forget_routes(self, self.leading, event.sid)
            discovery.leader_on_link_up(self, now, self.leading, event.link, event.sid, event.features)
        elif self.following is not None and self.following.mastering is not None:
            observer_master.on_link_up(self, now, self.following.mastering, event)
        elif self.state is LOOKING or self.awaits_observer(event.sid):
            for link in [link for link, (sid, _, _) in self.early.items() if sid == event.sid]:
                del self.early[link]
                self.emit(fx.CloseLink(link, "replaced by a newer link"))
            self.early[event.link] = (event.sid, event.features, None)
        else:
            self.emit(fx.CloseLink(event.link, "not leading"))

    def _on_quorum_link_down(self, now: int, event: ev.QuorumLinkDown) -> None:
        if self.early.pop(event.link, None) is not None:
            return
        supplying = self.supplying
        if supplying is not None and event.link in supplying.handlers:
            self.drop_learner(supplying, supplying.handlers[event.link], "its link broke", close=False)
        elif self.following is not None and event.link == self.following.link:
            discovery.learner_on_link_down(self, now, self.following)

    def _on_dial_failed(self, now: int, event: ev.DialFailed) -> None:
        following = self.following
        if following is not None and following.link is None and following.source == event.sid:
            discovery.learner_on_link_down(self, now, following)

    def _on_message(self, now: int, event: ev.MessageReceived) -> None:
        link, message = event.link, event.message
        leading, following = self.leading, self.following
        if link in self.early:
            if isinstance(message, msg.FollowerInfo | msg.ObserverInfo):
                self.early[link] = (*self.early[link][:2], message)
        elif leading is not None and link in leading.handlers:
            handler = leading.handlers[link]
            handler.heard_at = now
            handle = HANDLERS.get((LEADING, self.phase, type(message)))
            try:
                if handle is not None:
                    handle(self, now, leading, handler, message)
                else:
                    self._on_unhandled(LEADING, message)
            except ProtocolError as error:
                if link in leading.handlers:
                    self.drop_learner(leading, handler, str(error))
        elif following is not None and link == following.link:
            handle = HANDLERS.get((FOLLOWING, self.phase, type(message)))
            try:
                if handle is not None:
                    handle(self, now, following, message)
                else:
                    self._on_unhandled(FOLLOWING, message)
            except ProtocolError as error:
                self.look(f"{source.named(following)}: {error}")
            # A sign of life. Set the deadline afterwards: the message may change how long the leader may be silent.
            following.deadline = now + (self.settings.sync_ms if following.up_to_date else self.settings.init_ms)
        elif following is not None and following.mastering is not None and link in following.mastering.handlers:
            handler = following.mastering.handlers[link]
            observer_master.on_message(self, now, following, following.mastering, handler, message)

    def _on_unhandled(self, role: State, message: msg.Message) -> None:
        if (role, self.phase, type(message)) not in IGNORED:
            raise ProtocolError(
                f"{type(message).__name__} makes no sense to a {STATE_NAMES[role]} member in {self.phase}"
            )

    # -------------------------------------------------------------------------------------------- the member, and time

    def _on_propose(self, now: int, event: ev.Propose) -> None:
        assert self.leading is not None, "only a leader has a next zxid"
        broadcast.leader_propose(self, now, self.leading, event)

    def _on_sync_requested(self, now: int, event: ev.SyncRequested) -> None:
        if self.leading is not None:
            confirmation.leader_on_sync(self, self.leading, event.token)

    def _on_observer_refused(self, now: int, event: ev.ObserverRefused) -> None:
        if self.leading is not None:
            self.trace(f"an observer is not heard any more: {event.reason}")
            routes.leader_detach(self, self.leading, event.route)

    def _on_secret_named(self, now: int, event: ev.SecretNamed) -> None:
        self.secret_name = event.name

    def _on_doubted(self, now: int, event: ev.Doubted) -> None:
        self.doubted = event.doubted
        self.yields = self.yields and event.doubted
        if self.leading is not None and event.doubted:
            self.look(event.reason)
        elif self.state is LOOKING and not self.draining:
            self.election.start(now, self.standing())

    def _on_lead_yielded(self, now: int, event: ev.LeadYielded) -> None:
        if self.leading is not None:
            self.yields = True
            self.look(event.reason)

    def _on_hand_over(self, now: int, event: ev.HandOver) -> None:
        handover.hand_over(self, now, event.heir)

    def _on_space_changed(self, now: int, event: ev.SpaceChanged) -> None:
        """See `zab.protocol.disk_space`. A member that sits out stays between its last role and the election."""
        assert event.space is not self.space, "only changes are told"
        self.space = event.space
        if event.space is EXHAUSTED:
            if self.state is not LOOKING:
                self.look("this member's disk is full")
            elif not self.draining:
                self.election.suspend()
                self.draining = self.sits_out = True
        elif self.sits_out:
            assert self.draining
            self.sits_out = False
            self._elect(now)
        elif self.leading is not None:
            disk_space.leader_weigh(self, self.leading)
        elif self.following is not None:
            if self.following.link is not None:
                self.emit(fx.AnswerPing(self.following.link))
        elif not self.draining:
            self.election.start(now, self.standing())

    def _on_time_passed(self, now: int, event: ev.TimePassed) -> None:
        if self.leading is not None:
            heartbeat.leader_on_time(self, now, self.leading)
            if self.leading is not None:
                discovery.leader_on_time(self, now, self.leading)
        elif self.following is not None:
            heartbeat.learner_on_time(self, now, self.following)
            if self.following is not None and self.following.mastering is not None:
                observer_master.on_time(self, now, self.following.mastering)
        elif not self.draining:
            spoke = self.election.on_timeout(now)
            if spoke is not None:
                reconfiguration.forget_silent(self, spoke)
            if self.is_no_candidate and not self.is_tree_in_doubt and self.election.is_left_to_doubted:
                self._insist(now, "the tree of server {}, the best that is left, is wrong")


E = TypeVar("E", bound=ev.Event)


def _on(kind: type[E], take: Callable[[Peer, int, E], None]) -> tuple[type[object], Callable[[Peer, int, Any], None]]:
    return kind, take


_ON_EVENT = dict(
    (
        _on(ev.ElectionLinkUp, Peer._on_election_link_up),
        _on(ev.ElectionLinkDown, Peer._on_election_link_down),
        _on(ev.NotificationReceived, Peer._on_notification),
        _on(ev.QuorumLinkUp, Peer._on_quorum_link_up),
        _on(ev.QuorumLinkDown, Peer._on_quorum_link_down),
        _on(ev.DialFailed, Peer._on_dial_failed),
        _on(ev.MessageReceived, Peer._on_message),
        _on(ev.Durable, storage_answers.on_durable),
        _on(ev.LogCut, storage_answers.on_log_cut),
        _on(ev.LogDrained, Peer._on_log_drained),
        _on(ev.EpochsSaved, storage_answers.on_epochs_saved),
        _on(ev.MemberSaved, storage_answers.on_member_saved),
        _on(ev.SnapshotInstalled, storage_answers.on_snapshot_installed),
        _on(ev.LogRead, storage_answers.on_log_read),
        _on(ev.SnapshotOffered, storage_answers.on_snapshot_offered),
        _on(ev.NothingToOffer, storage_answers.on_nothing_to_offer),
        _on(ev.SnapshotWithdrawn, storage_answers.on_snapshot_withdrawn),
        _on(ev.Propose, Peer._on_propose),
        _on(ev.SyncRequested, Peer._on_sync_requested),
        _on(ev.SecretNamed, Peer._on_secret_named),
        _on(ev.Doubted, Peer._on_doubted),
        _on(ev.LeadYielded, Peer._on_lead_yielded),
        _on(ev.HandOver, Peer._on_hand_over),
        _on(ev.ObserverRefused, Peer._on_observer_refused),
        _on(ev.SpaceChanged, Peer._on_space_changed),
        _on(ev.TimePassed, Peer._on_time_passed),
    )
)
assert _ON_EVENT.keys() == set(get_args(ev.Event))
