"""The leader of a partition: where its followers are, which of them are in sync, and the high watermark.

    fetched_by(…)       a follower fetched: that says where it is
    high_watermark(…)   what everybody has who counts
    proposal(now)       the change of the in-sync set that is due, if any
    changed(state, now) the controller has written a newer state of the same leader epoch

The high watermark is `zab.quorum.high_water_mark` over the maximal in-sync set: what every member has. It does not rise
while the set is smaller than `min.insync.replicas` (KIP-966), so a replica that left a set that was large enough has
all that was acknowledged. A follower outside of the set that keeps up holds the mark back as well: otherwise one that
is about to join would never be level with it.

A follower joins the set when it has everything below the mark and below the start of this leader's epoch (KAFKA-7128:
right after an election the mark lags behind what earlier leaders have acknowledged).

Not here: the log, reading, waiting requests (`replica`), and asking the controller.
"""

from __future__ import annotations

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.image.partition_state import PartitionState
from zab.partition.replica.followers import NEVER, UNKNOWN, FollowerState
from zab.partition.replica.in_sync_set import Fate, InSyncSet, Proposal
from zab.quorum.high_water_mark import high_water_mark
from zab.quorum.ids import ServerId
from zab.quorum.quorums import InSync


@attrs.frozen(kw_only=True)
class LogPosition:
    """Where the leader's own log is."""

    end: int
    """The offset of the next record."""
    stored_end: int
    """What is below it is stored: written, or synced where the log is to be synced before it is acknowledged."""
    high_watermark: int


class Leader:
    """The leader's side of one partition, for one leader epoch."""

    def __init__(self, broker_id: int, state: PartitionState, *, epoch_start: int, now: int, lag_max_ms: int) -> None:
        """`epoch_start`: where the log ended when this epoch began."""
        self.epoch = state.leader_epoch
        self.epoch_start = epoch_start
        self.in_sync = InSyncSet(frozenset(state.isr), state.partition_epoch)
        self.state = state
        self.followers: dict[int, FollowerState] = {}
        self._broker_id = broker_id
        self._lag_max_ms = lag_max_ms
        self._take_replicas(state, now)

    def _take_replicas(self, state: PartitionState, now: int) -> None:
        """Know these replicas; who is new or was away is known from nothing, members of the set from now on."""
        followers = [replica for replica in state.replicas if replica != self._broker_id]
        known, self.followers = self.followers, {}
        for replica in followers:
            follower = known.get(replica)
            if follower is None:
                follower = FollowerState(caught_up_at=now if replica in state.isr else NEVER)
            self.followers[replica] = follower

    def changed(self, state: PartitionState, now: int) -> bool:
        """Take a state of the same leader epoch. False: it is not newer than what is known."""
        assert state.leader_epoch == self.epoch
        if not self.in_sync.committed_as(frozenset(state.isr), state.partition_epoch):
            return False
        self.state = state
        self._take_replicas(state, now)
        return True

    def resumed(self, now: int) -> None:
        """Nobody could fetch for a while, which says nothing about who keeps up: as at the beginning of an epoch."""
        for replica in self.in_sync.maximal & self.followers.keys():
            follower = self.followers[replica]
            follower.caught_up_at = max(follower.caught_up_at, now)

    # ----------------------------------------------------------------------------------------------------- followers

    def fetched_by(
        self, replica: int, now: int, *, offset: int, log_start: int, leader_end: int, broker_epoch: int
    ) -> bool:
        """A follower fetched from `offset`, which lies in this log and on its history. `leader_end`: where the log
        ended before anything was read. False: it is no replica, or a former life of one, and was not noted."""
        follower = self.followers.get(replica)
        return follower is not None and follower.fetched(now, offset, log_start, leader_end, broker_epoch)

    def owes_mark(self, replica: int, mark: int) -> bool:
        """Whether a follower has been told of an earlier high watermark alone."""
        follower = self.followers.get(replica)
        return follower is not None and follower.told_mark < mark

    def told_mark(self, replica: int, mark: int) -> None:
        """A follower is told this high watermark."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.told_mark = mark

    def low_watermark(self, own_start: int) -> int:
        """The offset from which on every live replica keeps the log."""
        starts = [follower.log_start for replica, follower in self.followers.items() if self._is_alive(replica)]
        return min([own_start, *starts])

    def _is_alive(self, replica: int) -> bool:
        return replica in self.state.broker_epochs

    # ------------------------------------------------------------------------------------------------ high watermark

    def min_in_sync(self, wanted: int) -> int:
        """What the controller says; until then `min.insync.replicas`, as far as there are so many replicas."""
        return self.state.min_isr or min(wanted, max(1, len(self.state.replicas)))

    def high_watermark(self, now: int, own: LogPosition, min_in_sync: int) -> int:
        """What everybody has who counts, never below the present mark."""
        mark = own.high_watermark
        if len(self.in_sync.committed) < self.min_in_sync(min_in_sync):
            return mark
        counted = self.in_sync.maximal | {
            replica
            for replica, follower in self.followers.items()
            if self._may_join(replica) and follower.is_caught_up(now, own.end, self._lag_max_ms)
        }
        acknowledged = {ServerId(replica): follower.log_end for replica, follower in self.followers.items()}
        acknowledged[ServerId(self._broker_id)] = own.stored_end
        quorum = InSync(frozenset(map(ServerId, counted | {self._broker_id})))
        return high_water_mark(quorum, acknowledged, mark)

    # --------------------------------------------------------------------------------------------------- in-sync set

    def proposal(self, now: int, own: LogPosition, *, looks_for_lag: bool) -> Proposal | None:
        """The change of the set that is due: members that lag leave it (only with `looks_for_lag`, which is asked now
        and then), or followers that are level join it. None while another one is under way. What is proposed also says
        that a leader that was elected without being in sync has recovered."""
        if self.in_sync.proposal is not None:
            return None
        committed = self.in_sync.committed
        if self.state.is_recovering:
            # It has: what it has is what counts. Others join with the next proposal.
            return self._propose(committed)
        if looks_for_lag:
            lagging = {each for each in committed - {self._broker_id} if self._lags(each, now, own)}
            if lagging:
                return self._propose(committed - lagging)
        joining = {each for each in self.followers if each not in committed and self._is_level(each, own)}
        return self._propose(committed | joining) if joining else None

    def _lags(self, replica: int, now: int, own: LogPosition) -> bool:
        follower = self.followers.get(replica)
        return follower is None or not follower.is_caught_up(now, own.end, self._lag_max_ms)

    def _may_join(self, replica: int) -> bool:
        """Whether it is alive in the life that it last fetched in, and stays a replica."""
        epoch = self.state.broker_epochs.get(replica, UNKNOWN)
        is_leaving = replica in self.state.removing
        return epoch != UNKNOWN and epoch == self.followers[replica].broker_epoch and not is_leaving

    def _is_level(self, replica: int, own: LogPosition) -> bool:
        reached = self.followers[replica].log_end
        return self._may_join(replica) and reached >= max(own.high_watermark, self.epoch_start)

    def _propose(self, members: frozenset[int]) -> Proposal:
        isr = tuple(replica for replica in self.state.replicas if replica in members)
        epochs = tuple(self._epoch_of(replica) for replica in isr)
        proposal = Proposal(self.epoch, self.in_sync.partition_epoch, isr, epochs)
        self.in_sync.propose(proposal)
        return proposal

    def _epoch_of(self, replica: int) -> int:
        if replica == self._broker_id:
            return self.state.broker_epochs.get(replica, UNKNOWN)
        return self.followers[replica].broker_epoch

    def refused(self, proposal: Proposal, error: ErrorCode) -> Fate | None:
        """The controller answered a proposal with an error. None: the proposal is not under way any longer."""
        return self.in_sync.refused(proposal, error)
