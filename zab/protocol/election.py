"""Phase 0, leader election: ZooKeeper's fast leader election (FLE).

Messages: `Notification`, in and out, on the election links. Variables: the round (ZooKeeper's logical clock), the
current proposal, the votes received in this round, and those of members that are not electing. The order of votes is
(currentEpoch, last zxid, marked, server id). The election ends when a quorum votes for the same candidate and every
server that could know a better one has been heard, or when a quorum already follows a leader that says that it leads.

Invariants: a proposal only improves within a round, and a candidate that withdraws its vote ends the round; an amnesiac
member (one that lost its data, B2 amnesiacs) never counts, except at the very first start (B3 first start). There are
two ways to recognize a first start:

- every voter is present and none has a batch, only what its lineage began with after a forced recovery; and no server
  that was heard, voter or not, reports a history, or a configuration other than a file's: a server that goes by a
  configuration that it only heard of may be the last to know it;
- a quorum of empty voters is *marked*: their operators declared, with the file `initialize`, that they never had data.
  A committed batch is on a quorum, which shares a member with this one; so no batch was ever committed. In case the
  declaration is wrong, it only counts once every other reachable server was heard, and never if one of them has a
  history.

Safety does not depend on this phase. Discovery refuses a leader that lacks history; a wrong or early result here costs
time, never data. So the final wait may be short (F2 final wait): it ends as soon as every voter has sent the winning
vote, or is known to be unreachable.

Not here: connections, and what the winner does (`discovery`).
"""

from collections.abc import Callable
from typing import Final

import attrs

from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from zab.protocol.message import Notification
from zab.protocol.states import FOLLOWING, FOUNDER, LEADING, LOOKING, NOTHING, Holds, State
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum, each_of

RESEND_MS_MIN = 200
"""ZooKeeper's minNotificationInterval: how long to wait for votes before sending our own again."""
RESEND_MS_MAX = 2_000
FINAL_WAIT_MS_MIN = 10
FINAL_WAIT_MS_MAX = 200
FINAL_WAIT_ROUND_TRIPS = 4

ROUND_JUMP_MAX: Final = 1 << 32
"""At one election a second, this would take a century. A vote of a later round is ignored: adopting it could use up the
range of rounds (B7 round jumps)."""


@attrs.frozen
class Vote:
    """A candidate: the server, the end of its history, and its currentEpoch."""

    leader: ServerId
    zxid: Zxid
    epoch: Epoch
    marked: bool = False


def total_order(vote: Vote) -> tuple[Epoch, Zxid, bool, ServerId]:
    """Votes compare by epoch, then history, then server id; the largest wins (TotalOrderPredicate). Of two without
    history, the marked one is better: it may lead a quorum of marked servers."""
    return vote.epoch, vote.zxid, vote.marked, vote.leader


def vote_of(notification: Notification) -> Vote:
    return Vote(notification.leader, notification.zxid, notification.epoch, notification.leader_marked)


def tells_of_history(notification: Notification) -> bool:
    """Whether the sender, or the server that it votes for, has a batch or a snapshot."""
    return notification.holds != NOTHING or notification.zxid > 0


@attrs.define
class Standing:
    """What a member reports about itself with each vote."""

    vote: Vote
    lineage: bytes
    amnesiac: bool
    holds: Holds
    marked: bool = False
    doubted: bool = False


class Election:
    """One member's part in the election; `winner` is set when it is over."""

    def __init__(self, sid: ServerId, quorum: Quorum, send: Callable[[ServerId, Notification], None]) -> None:
        self._sid = sid
        self.quorum = quorum
        """The quorum that decides; the peer updates it when the configuration changes."""
        self.candidates = quorum.voters
        """Servers that may lead: the voters here, and those of configurations that others know of. A server that such a
        configuration adds may have more history than all others."""
        self._send = send
        self.servers: frozenset[ServerId] = quorum.voters
        """All servers of the configuration: observers have a history, too. The peer updates it."""
        self.may_found = True
        """Whether no server was heard that has a history, or a configuration other than the file's; the peer updates
        it."""
        self.round = 0
        self.state: State = LOOKING
        """The state in our notifications; the peer updates it."""
        self.winner: ServerId | None = None
        self.standing = Standing(Vote(sid, BEFORE_ALL, Epoch(0)), b"", amnesiac=True, holds=NOTHING)
        self.proposal = self.standing.vote
        self.received: dict[ServerId, Notification] = {}
        """The newest notification of each voter in this round, our own included."""
        self.out_of_election: dict[ServerId, Notification] = {}
        """The last notification of each voter while it followed or led."""
        self.heard: set[ServerId] = set()
        """Servers that have sent a notification, in any round or state, since they were last unreachable."""
        self.of_another_lineage: set[ServerId] = set()
        """Voters whose last notification was not counted, because they have the history of another ensemble."""
        self.unreachable: set[ServerId] = set()
        self.strange_to: set[ServerId] = set()
        """Unreachable servers that say that this server is not in their configuration. It is reported, and decides
        nothing."""
        self.taken_at: set[ServerId] = set()
        """Unreachable servers that say that another process has this server's id. It is reported, and decides
        nothing."""
        self.round_trips_ms: dict[ServerId, int] = {}
        self._spoke: set[ServerId] = set()
        """Servers that have sent a notification since we last resent ours."""
        self._told: dict[ServerId, tuple[Notification, Notification]] = {}
        """For each server without a vote: its last notification in this election, and our answer."""
        self._suspended = True
        self._decide_at: int | None = None
        self._resend_at = 0
        self._resend_ms = RESEND_MS_MIN

    # ------------------------------------------------------------------------------------------------------- running

    def suspend(self) -> None:
        """The role is left, and the election has not begun: stop announcing our last vote, and end no election."""
        self.state = LOOKING
        self.winner = None
        self._suspended = True

    @property
    def _is_electing(self) -> bool:
        return self.state == LOOKING and self.winner is None and not self._suspended

    def start(self, now: int, standing: Standing) -> None:
        """Begin a new round with our own candidacy; an observer's proposal does not count, but it listens."""
        self.state = LOOKING
        self.winner = None
        self._suspended = False
        self.round += 1
        self.standing = standing
        self.proposal = standing.vote
        self.received = {}
        self.out_of_election = {}
        self._told = {}
        self._decide_at = None
        self._resend_ms = RESEND_MS_MIN
        self._broadcast(now)
        self._consider(now)

    def settle(self, state: State, vote: Vote, standing: Standing) -> None:
        """The election is over with this result; announce this vote from now on."""
        assert state != LOOKING
        self.state = state
        self.proposal = vote
        self.standing = standing

    def next_deadline(self) -> int | None:
        """When to call `on_timeout`; None while not electing."""
        if not self._is_electing:
            return None
        return self._resend_at if self._decide_at is None else min(self._resend_at, self._decide_at)

    def on_timeout(self, now: int) -> set[ServerId] | None:
        """The final wait is over, or no votes have come for a while. After the longest wait, returns the servers that
        sent anything during it: one that elects or has a leader answers."""
        if not self._is_electing:
            return None
        if self._decide_at is not None and now >= self._decide_at:
            self._finish(self.proposal.leader)
            return None
        if now < self._resend_at:
            return None
        spoke, self._spoke = self._spoke if self._resend_ms == RESEND_MS_MAX else None, set()
        self._resend_ms = min(2 * self._resend_ms, RESEND_MS_MAX)
        self._broadcast(now)
        return spoke

    def on_link_up(self, now: int, sid: ServerId, round_trip_ms: int) -> None:
        """A server is reachable: tell it where we stand."""
        self.unreachable.discard(sid)
        self.strange_to.discard(sid)
        self.taken_at.discard(sid)
        self.round_trips_ms[sid] = round_trip_ms
        if self._is_electing:
            if sid in self.quorum.voters or sid in self.candidates:
                self._send(sid, self._notification())
            self._consider(now)

    def on_link_down(self, now: int, sid: ServerId, knows_us: bool = True, is_taken: bool = False) -> None:
        """A server cannot be reached: do not wait for it."""
        self.unreachable.add(sid)
        for servers, is_so in ((self.strange_to, not knows_us), (self.taken_at, is_taken)):
            (servers.add if is_so else servers.discard)(sid)
        self._told.pop(sid, None)
        self.heard.discard(sid)
        self.of_another_lineage.discard(sid)
        self.round_trips_ms.pop(sid, None)
        if self._is_electing:
            self._consider(now)

    # ------------------------------------------------------------------------------------------------- notifications

    def on_notification(self, now: int, sid: ServerId, notification: Notification) -> None:
        """A vote arrived; answer if the sender needs an answer, and count it if we are electing."""
        assert sid != self._sid
        assert not self._suspended
        self._spoke.add(sid)
        if notification.round > self.round + ROUND_JUMP_MAX:
            return
        if self.state != LOOKING or self.winner is not None:
            if notification.state == LOOKING:
                self._send(sid, self._notification())
            return
        if sid not in self.quorum.voters and sid not in self.candidates:
            # Observers and servers outside of the configuration learn the leader from our answer; they never count.
            if notification.state == LOOKING:
                self._answer_onlooker(sid, notification)
            return
        if self._of_another_lineage(notification):
            self.of_another_lineage.add(sid)
            return
        self.of_another_lineage.discard(sid)
        if notification.state == LOOKING:
            self._on_electing(now, sid, notification)
        elif notification.state in (FOLLOWING, LEADING) and notification.leader in self.candidates:
            self._on_established(now, sid, notification)

    def _answer_onlooker(self, sid: ServerId, notification: Notification) -> None:
        """Answer once for each pair of notifications: with a different configuration, the other server may answer as
        well."""
        said = notification, self._notification()
        if self._told.get(sid) != said:
            self._told[sid] = said
            self._send(sid, said[1])

    def has_left(self, sid: ServerId, notification: Notification) -> bool:
        """Whether a voter elects again: in a round other than ours, or in ours with a worse vote than it had."""
        if notification.state != LOOKING or notification.round != self.round:
            return notification.state == LOOKING
        before = self.received.get(sid)
        return before is not None and total_order(vote_of(notification)) < total_order(vote_of(before))

    def has_turned(self, sid: ServerId, notification: Notification) -> bool:
        """Whether a voter that voted for our candidate still elects in our round, and has found a better one."""
        if notification.state != LOOKING or notification.round != self.round:
            return False
        before = self.received.get(sid)
        return before is not None and before.leader == self.proposal.leader != notification.leader

    def _of_another_lineage(self, notification: Notification) -> bool:
        mine = self.standing
        if mine.holds == NOTHING or not mine.lineage:
            return False  # "A lineage without any batch binds nobody" (A7 lineage)
        if notification.holds == NOTHING:
            # A server that leads or follows has adopted a lineage, which this member cannot adopt.
            return notification.state != LOOKING and notification.lineage not in (b"", mine.lineage)
        return notification.lineage != mine.lineage

    def _on_electing(self, now: int, sid: ServerId, notification: Notification) -> None:
        vote = vote_of(notification)
        counts = vote.leader in self.candidates
        if notification.round < self.round:
            if self._sid in self.quorum.voters:
                self._send(sid, self._notification())
            return
        if notification.round > self.round:
            self.round = notification.round
            self.received = {}
            self.proposal = self.standing.vote
            if counts and self._is_better(vote):
                self.proposal = vote
            self._broadcast(now)
        elif counts and self._is_better(vote):
            self.proposal = vote
            self._broadcast(now)
        elif counts and self._is_disowned(sid, vote):
            self.start(now, self.standing)
            return
        elif counts and vote != self.proposal and self._sid in self.quorum.voters:
            # It may still have been following when our vote reached it: without an answer it would wait for a resend.
            self._send(sid, self._notification())
        if counts:
            self.received[sid] = notification
        else:
            # What it sent before is no longer its vote.
            self.received.pop(sid, None)
        self._consider(now)

    def _is_better(self, vote: Vote) -> bool:
        if self.proposal.leader not in self.candidates:
            return True  # an observer is not a candidate
        if vote.leader == self._sid:
            return False  # if better than our own candidacy, it names a history that we no longer have
        return total_order(vote) > total_order(self.proposal)

    def _is_disowned(self, sid: ServerId, vote: Vote) -> bool:
        """Whether our candidate votes for less than our vote says of it. A server votes for itself, or for a better
        one: so it had that history once, before it lost its disk or was given a snapshot, and will not lead with it.
        Voters that hold on to such a vote would keep each other doing so for ever."""
        return sid == self.proposal.leader and total_order(vote) < total_order(self.proposal)

    def _on_established(self, now: int, sid: ServerId, notification: Notification) -> None:
        """Join an ensemble that has a leader (how a restarted member comes back)."""
        if notification.round == self.round:
            # It has settled already, with the vote that it had in this round: the vote still counts.
            self.received[sid] = notification
            if self._established(self.received, notification) or self._is_elected(vote_of(notification)):
                self._finish(notification.leader)
                return
            self._consider(now)
            if self.winner is not None:
                return
        self.out_of_election[sid] = notification
        if self._established(self.out_of_election, notification):
            self.round = notification.round
            self._finish(notification.leader)

    def _established(self, votes: dict[ServerId, Notification], notification: Notification) -> bool:
        # Out of election only leader and epoch are compared: zxid and round of settled members differ (ZOOKEEPER-1732).
        agreeing = {
            sid
            for sid, other in votes.items()
            if other.leader == notification.leader
            and other.epoch == notification.epoch
            and other.state != LOOKING
            and not other.amnesiac
        }
        # A reconfiguration that is outstanding here may be lost, and the old configuration may have gone on without it.
        is_quorum = any(quorum.contains(agreeing) for quorum in each_of(self.quorum))
        return is_quorum and self.check_leader(votes, notification)

    def _is_elected(self, vote: Vote) -> bool:
        """Whether the candidate has won in this round without our vote, and says so: at a first start its quorum
        consists of amnesiacs, which establish nothing."""
        candidate = self.received.get(vote.leader)
        return candidate is not None and candidate.state == LEADING and self.has_quorum(vote)

    def tell(self, sid: ServerId, standing: Standing) -> None:
        """Send the settled vote unasked: that server may not know whom to ask."""
        assert self.state != LOOKING
        self.standing = standing
        self._send(sid, self._notification())

    def check_leader(self, votes: dict[ServerId, Notification], notification: Notification) -> bool:
        """Whether the leader that others follow says itself that it leads: a dead leader still has followers for a
        while."""
        if notification.leader == self._sid:
            return notification.round == self.round
        leader = votes.get(notification.leader)
        return leader is not None and leader.state == LEADING

    # ------------------------------------------------------------------------------------------------------- deciding

    @property
    def is_left_to_doubted(self) -> bool:
        """Whether, for a while, no better candidate was heard than one whose tree is wrong: then no leader would ever
        be elected."""
        assert self.state == LOOKING
        candidate = self.received.get(self.proposal.leader)
        return self._is_electing and self._resend_ms > RESEND_MS_MIN and candidate is not None and candidate.doubted

    def has_quorum(self, vote: Vote) -> bool:
        """Whether a quorum has sent this vote in this round."""
        candidate = self.received.get(vote.leader)
        if candidate is not None and candidate.doubted:
            return False  # its tree is wrong (E6 wrong trees)
        supporters = {sid for sid, n in self.received.items() if vote_of(n) == vote}
        if self.is_first_start(vote):
            return self.quorum.contains(supporters)
        proven = {sid for sid in supporters if not self.received[sid].amnesiac}
        return self.quorum.contains(proven) or self._is_founded_by_markers(vote, supporters)

    def is_first_start(self, vote: Vote) -> bool:
        """All voters are here and none has a batch of a lineage: this ensemble has never lived (B3 first start).

        If a forced recovery made a beginning, the ensemble begins with that: its candidate certainly has it, and no
        other voter has a different one. Without the founder, the ensemble might have lived and lost the others.
        """
        voters = self.quorum.voters
        if not voters <= self.received.keys():
            return False
        holders = {sid: self.received[sid] for sid in voters if self.received[sid].holds != NOTHING}
        if not holders:
            return self.may_found
        candidate = holders.get(vote.leader)
        return (
            candidate is not None
            and not candidate.amnesiac
            and max(n.holds for n in holders.values()) == FOUNDER
            and all(n.lineage == candidate.lineage for n in holders.values())
        )

    def _is_founded_by_markers(self, vote: Vote, supporters: set[ServerId]) -> bool:
        """A quorum of marked voters wants a marked leader, and no server is left that could have a history (B3 first
        start).

        A server that hears of a history is no longer marked (`Peer`), so this does not check for one.
        """
        marked = {sid for sid in supporters if self.received[sid].marked}
        everybody_was_heard = self.servers <= self.heard | self.unreachable | {self._sid}
        return self.may_found and vote.marked and self.quorum.contains(marked) and everybody_was_heard

    def _consider(self, now: int) -> None:
        """Start, end or cancel the final wait."""
        if not self.has_quorum(self.proposal):
            self._decide_at = None
        elif self._nobody_left_to_hear():
            self._finish(self.proposal.leader)
        elif self._decide_at is None:
            longest_ms = max(self.round_trips_ms.values(), default=0)
            wait_ms = FINAL_WAIT_ROUND_TRIPS * longest_ms
            self._decide_at = now + min(max(wait_ms, FINAL_WAIT_MS_MIN), FINAL_WAIT_MS_MAX)

    def _nobody_left_to_hear(self) -> bool:
        for sid in self.quorum.voters | self.candidates:
            heard = self.received.get(sid)
            if heard is not None and (heard.amnesiac or vote_of(heard) == self.proposal):
                continue
            if heard is None and sid in self.unreachable:
                continue
            return False
        return True

    def _finish(self, leader: ServerId) -> None:
        assert leader in self.candidates
        self._decide_at = None
        self.winner = leader

    # -------------------------------------------------------------------------------------------------------- sending

    def _notification(self) -> Notification:
        vote, standing = self.proposal, self.standing
        return Notification(
            self.state,
            vote.leader,
            vote.zxid,
            vote.epoch,
            self.round,
            standing.lineage,
            standing.amnesiac,
            standing.holds,
            standing.marked,
            vote.marked,
            standing.doubted,
        )

    def _broadcast(self, now: int) -> None:
        """Send our proposal to every server that votes or may lead, and count it if we vote."""
        notification = self._notification()
        for sid in sorted(self.quorum.voters | self.candidates):
            if sid != self._sid:
                self._send(sid, notification)
            else:
                self.received[sid] = notification
        self._decide_at = None
        self._resend_at = now + self._resend_ms
