"""The group coordinator: requests in, answers out, and everything that it knows in a log.

A group lives in the partition of `__consumer_offsets` that its id's hash names, and the broker that leads this
partition coordinates it. All that has to survive the broker is a record there; the rest is memory, and members that
come again.

    in    advance(now, wall)          the time of this turn; what is due happens
          request(token, request)     a client's request (`requests`)
          on_marker                   a transaction's marker in a partition is committed
          on_topics_deleted           topics are gone
    out   next_deadline()             when `advance` has something to do

Loads, appends and effects are those of every coordinator (`zab/partition/coordinator`). Markers come in the order of
the log, as outcomes of appends do.

Where the parts are: `group` and `member` hold state; `joining`, `rebalance`, `syncing`, `heartbeats` and `leaving` are
the classic protocol, `commits` and `offsets` the offsets, `tombstones`, `expiry` and `deleting` their end, `loading`
the way back from the log. KIP-848's groups are the same `Group` with a `ConsumerSide`: `consumer_heartbeats` appends
what `zab/partition/consumer_groups` decides.

Bounds: group.max.size for members and for ids that were given out; one join and one sync of a member wait; so many
appends of a partition wait as `APPENDS_MAX` says; offset.metadata.max.bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.partition.consumer_groups.heartbeat import Rules
from zab.partition.coordinator.coordinator import Coordinator
from zab.partition.coordinator.effects import Token
from zab.partition.groups.classic_members import on_classic_due
from zab.partition.groups.commits import commit, fetch, on_marker, refused_commit, refused_fetch
from zab.partition.groups.consumer_heartbeats import (
    consumer_heartbeat,
    let_go,
    on_consumer_session_due,
    on_revocation_due,
)
from zab.partition.groups.context import Context, OffsetsPartition, Surroundings, Timer
from zab.partition.groups.deleting import delete_groups, delete_offsets, on_topics_deleted
from zab.partition.groups.describing import described, described_consumer_group, listed
from zab.partition.groups.expiry import CHECK_INTERVAL_MS, Expiry
from zab.partition.groups.group import Group
from zab.partition.groups.heartbeats import heartbeat, on_pending_due, on_session_due
from zab.partition.groups.joining import join
from zab.partition.groups.leaving import leave
from zab.partition.groups.loading import LoadingPartition, finish
from zab.partition.groups.rebalance import on_join_due, on_sync_due
from zab.partition.groups.records import can_be_stored
from zab.partition.groups.requests import (
    ConsumerHeartbeat,
    DeleteGroups,
    DescribeConsumerGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
    TxnOffsetCommit,
)
from zab.partition.groups.results import (
    ConsumerHeartbeatResult,
    DescribeConsumersResult,
    DescribeResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListResult,
    OffsetDeleteResult,
    SyncResult,
)
from zab.partition.groups.syncing import sync

_ON_DUE: Final[dict[Timer, Callable[[Context, Group, str], None]]] = {
    Timer.SESSION: on_session_due,
    Timer.PENDING: on_pending_due,
    Timer.JOIN: on_join_due,
    Timer.SYNC: on_sync_due,
    Timer.CONSUMER_SESSION: on_consumer_session_due,
    Timer.REVOCATION: on_revocation_due,
    Timer.CLASSIC_JOIN: partial(on_classic_due, Timer.CLASSIC_JOIN),
    Timer.CLASSIC_SYNC: partial(on_classic_due, Timer.CLASSIC_SYNC),
}
_CHANGES: Final = (JoinGroup, SyncGroup, ConsumerHeartbeat, OffsetCommit, TxnOffsetCommit, OffsetDelete)
"""The requests of one group that may append."""

_TAKES_EMPTY_ID: Final = (OffsetCommit, TxnOffsetCommit, OffsetFetch)
"""Simple consumers of old may have no group id. Their group can also be described and deleted."""


class GroupCoordinator(Coordinator[LoadingPartition, OffsetsPartition]):
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        self._context = Context(surroundings, now, wall)
        super().__init__(self._context)
        self._expiry = Expiry(now + CHECK_INTERVAL_MS)

    # ---------------------------------------------------------------------------------------------------------- time

    def advance(self, now: int, wall: int) -> None:
        """It is `now`: do what is due."""
        context = self._context
        assert now >= context.now, "time went backwards"
        context.now, context.wall = now, wall
        while (key := context.deadlines.pop_due(now)) is not None:
            timer, group, member_id = key
            _ON_DUE[timer](context, group, member_id)
        self._expiry.advance(context)

    def next_deadline(self) -> int:
        """When `advance` has something to do, in ms of the monotonic clock."""
        due = self._context.deadlines.next_due()
        return self._expiry.due if due is None else min(due, self._expiry.due)

    @property
    def consumer_rules(self) -> Rules:
        """What holds for all groups of KIP-848."""
        return self._context.consumer_rules

    def state_counts(self) -> Counter[str]:
        """How many classic groups are in each state."""
        return Counter(group.state.value for group in self._groups() if group.consumer is None)

    def consumer_state_counts(self) -> Counter[str]:
        """How many groups of KIP-848 are in each state."""
        return Counter(group.consumer.group.state for group in self._groups() if group.consumer is not None)

    def _groups(self) -> Iterator[Group]:
        return (group for each in self._context.partitions.values() for group in each.groups.values())

    # ------------------------------------------------------------------------------------------------------ requests

    def request(self, token: Token, request: Request) -> None:
        """A request of a client, which is answered under this token, now or later."""
        context = self._context
        context.open(token)
        if isinstance(request, DescribeGroups):
            groups = (described(each, context.group(each), self._error(each, True)) for each in request.group_ids)
            context.answer(token, DescribeResult(groups=tuple(groups)))
        elif isinstance(request, DescribeConsumerGroups):
            ids = request.group_ids
            found = (
                described_consumer_group(context, each, context.group(each), self._error(each, False)) for each in ids
            )
            context.answer(token, DescribeConsumersResult(groups=tuple(found)))
        elif isinstance(request, ListGroups):
            self._list(token, request)
        elif isinstance(request, DeleteGroups):
            errors = {each: self._error(each, True, changes=True) for each in request.group_ids}
            chosen = {each: context.group(each) if error is ErrorCode.NONE else error for each, error in errors.items()}
            delete_groups(context, token, chosen)
        else:
            takes_empty = isinstance(request, _TAKES_EMPTY_ID)
            error = self._error(request.group_id, takes_empty, changes=isinstance(request, _CHANGES))
            if error is ErrorCode.NONE:
                self._dispatch(token, request, context.group(request.group_id))
            else:
                self._refuse(token, request, error)

    def _dispatch(self, token: Token, request: Request, group: Group | None) -> None:
        context = self._context
        match request:
            case JoinGroup():
                join(context, group, token, request)
            case SyncGroup():
                sync(context, group, token, request)
            case Heartbeat():
                heartbeat(context, group, token, request)
            case ConsumerHeartbeat():
                consumer_heartbeat(context, group, token, request)
            case LeaveGroup():
                leave(context, group, token, request)
            case OffsetCommit() | TxnOffsetCommit():
                commit(context, group, token, request)
            case OffsetFetch():
                fetch(context, group, token, request)
            case OffsetDelete():
                delete_offsets(context, group, token, request)

    def _error(self, group_id: str, takes_empty: bool, changes: bool = False) -> ErrorCode:
        """Whether this broker can say anything about this group, and whether its log takes more."""
        if (not group_id and not takes_empty) or not can_be_stored(group_id):
            return ErrorCode.INVALID_GROUP_ID
        return self._availability(self._context.surroundings.partition_for(group_id), changes=changes)

    def _refuse(self, token: Token, request: Request, error: ErrorCode) -> None:
        """Answer what is not for this coordinator, or not now. A member that sends heartbeats while its group is being
        loaded is taken for one (0); one that asks for its assignment joins again (27)."""
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answer = self._context.answer
        match request:
            case JoinGroup():
                answer(token, JoinResult(error=error, member_id=request.member_id))
            case SyncGroup():
                answer(token, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error))
            case Heartbeat():
                answer(token, HeartbeatResult(error=ErrorCode.NONE if is_loading else error))
            case ConsumerHeartbeat():
                invalid = error is ErrorCode.INVALID_GROUP_ID
                error = ErrorCode.INVALID_REQUEST if invalid else error
                message = "GroupId can't be empty, or too long." if invalid else ""
                answer(token, ConsumerHeartbeatResult(error=error, message=message))
            case LeaveGroup():
                answer(token, LeaveResult(error=error))
            case OffsetCommit() | TxnOffsetCommit():
                answer(token, refused_commit(request, error))
            case OffsetFetch():
                answer(token, refused_fetch(request, error))
            case OffsetDelete():
                answer(token, OffsetDeleteResult(error=error))

    def _list(self, token: Token, request: ListGroups) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if self._is_stopping or self._loading else ErrorCode.NONE
        groups = () if self._is_stopping else tuple(listed(self._context, request))
        self._context.answer(token, ListResult(error=error, groups=groups))

    # ---------------------------------------------------------------------------------------------------- partitions

    def _begun(self, number: int, leader_epoch: int) -> LoadingPartition:
        return LoadingPartition(number, leader_epoch)

    def _finish(self, loading: LoadingPartition) -> None:
        finish(self._context, loading)

    def _let_go(self, partition: OffsetsPartition, error: ErrorCode) -> None:
        context = self._context
        for group in list(partition.groups.values()):
            for member in group.members.values():
                context.answer_join(group, member, JoinResult(error=error, member_id=member.member_id))
                context.answer_sync(member, SyncResult(error=error))
            let_go(context, group, error)
            context.bury(group)

    def on_marker(self, number: int, producer_id: int, commits: bool) -> None:
        """A transaction's marker in this partition is committed, after everything that was appended before it."""
        on_marker(self._context, number, producer_id, commits)

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Their offsets go away, too."""
        on_topics_deleted(self._context, topics)
