"""The group coordinator: requests in, answers out, and everything that it knows in a log.

A group lives in the partition of `__consumer_offsets` that its id's hash names, and the broker that leads this
partition coordinates it. All that has to survive the broker is a record there; the rest is memory, and members that
come again.

    in    advance(now, wall)                   the time of this turn; what is due happens
          request(token, request)              a client's request (`requests`)
          begin_load, load, finish_load        this broker leads a partition, and reads it
          unload                               it does no longer
          on_appended(partition, id, outcome)  what became of an append: its position, or the log's error
          on_marker                            a transaction's marker in a partition is committed
          on_topics_deleted                    topics are gone
          stop                                 the broker is going to end
    out   take_effects()                       answers and appends, in order (`effects`)
          next_deadline()                      when `advance` has something to do

The broker keeps this order: outcomes of appends and markers of one partition come in the order of their positions. It
reports the position of a batch when the batch is committed, never before; the error of one that will not be; and
REQUEST_TIMED_OUT or NOT_ENOUGH_REPLICAS_AFTER_APPEND for one that is in the log and may be committed later. The last
two answer the client, and are followed by the real outcome, or by `unload`.

A leader epoch names each time of leading a partition. Whatever comes for an older one is dropped: the result of a load
that was overtaken, or an unload that comes late.

Where the parts are: `group` and `member` hold state; `joining`, `rebalance`, `syncing`, `heartbeats` and `leaving` are
the classic protocol, `commits` and `offsets` the offsets, `tombstones`, `expiry` and `deleting` their end, `loading`
the way back from the log. KIP-848's groups would be a class beside `Group` in `OffsetsPartition.groups`, with keys of
their own in the same log, and handlers that are chosen by the request here.

Bounds: group.max.size for members and for ids that were given out; one join and one sync of a member wait; so many
appends of a partition wait as `APPENDS_MAX` says; offset.metadata.max.bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.partition.groups.commits import commit, fetch, on_marker, refused_commit, refused_fetch
from zab.partition.groups.context import Context, Surroundings, Timer
from zab.partition.groups.deleting import delete_groups, delete_offsets, on_topics_deleted
from zab.partition.groups.describing import described, listed
from zab.partition.groups.effects import Effect
from zab.partition.groups.expiry import CHECK_INTERVAL_MS, Expiry
from zab.partition.groups.group import Group
from zab.partition.groups.heartbeats import heartbeat, on_pending_due, on_session_due
from zab.partition.groups.joining import join
from zab.partition.groups.leaving import leave
from zab.partition.groups.loading import LoadingPartition, finish
from zab.partition.groups.rebalance import on_join_due, on_sync_due
from zab.partition.groups.records import Loaded, can_be_stored
from zab.partition.groups.requests import (
    DeleteGroups,
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
    Token,
    TxnOffsetCommit,
)
from zab.partition.groups.results import (
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
}
_CHANGES: Final = (JoinGroup, SyncGroup, OffsetCommit, TxnOffsetCommit, OffsetDelete)
"""The requests of one group that may append."""

_TAKES_EMPTY_ID: Final = (OffsetCommit, TxnOffsetCommit, OffsetFetch)
"""Simple consumers of old may have no group id. Their group can also be described and deleted."""


class GroupCoordinator:
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        self._context = Context(surroundings, now, wall)
        self._loading: dict[int, LoadingPartition] = {}
        self._epochs: dict[int, int] = {}
        """The newest leader epoch of each partition of which this coordinator has heard."""
        self._is_stopping = False
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

    def take_effects(self) -> list[Effect]:
        """What is to be done, in order; it is handed out once."""
        effects, self._context.effects = self._context.effects, []
        return effects

    @property
    def waiting_count(self) -> int:
        """How many requests have no answer yet."""
        return self._context.open_count

    # ------------------------------------------------------------------------------------------------------ requests

    def request(self, token: Token, request: Request) -> None:
        """A request of a client, which is answered under this token, now or later."""
        context = self._context
        context.open(token)
        if isinstance(request, DescribeGroups):
            groups = (described(each, context.group(each), self._error(each, True)) for each in request.group_ids)
            context.answer(token, DescribeResult(groups=tuple(groups)))
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
        if self._is_stopping:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = self._context.surroundings.partition_for(group_id)
        if number in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition = self._context.partitions.get(number)
        if partition is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if changes and partition.is_full else ErrorCode.NONE

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

    def begin_load(self, number: int, leader_epoch: int) -> None:
        """This broker leads a partition in this epoch; until it is read, its groups get 14. Once for each epoch: it
        changes nothing if this one is loaded already."""
        if self._is_stale(number, leader_epoch):
            return
        self._forget(number, ErrorCode.NOT_COORDINATOR)
        self._epochs[number] = leader_epoch
        self._loading[number] = LoadingPartition(number, leader_epoch)

    def load(self, number: int, leader_epoch: int, entries: Iterable[Loaded]) -> None:
        """The next records and markers of this partition, in the order of the log."""
        loading = self._loading.get(number)
        if loading is not None and loading.leader_epoch == leader_epoch:
            for entry in entries:
                loading.apply(entry)

    def finish_load(self, number: int, leader_epoch: int) -> None:
        """The end of the log is reached, and everything up to there is committed: what is visible from now on cannot be
        lost with this broker."""
        loading = self._loading.get(number)
        if loading is not None and loading.leader_epoch == leader_epoch:
            del self._loading[number]
            finish(self._context, loading)

    def unload(self, number: int, leader_epoch: int) -> None:
        """From this epoch on another broker leads the partition: forget its groups; what waits gets 16."""
        if leader_epoch >= self._epochs.get(number, -1):
            self._epochs[number] = leader_epoch
            self._forget(number, ErrorCode.NOT_COORDINATOR)

    def stop(self) -> None:
        """The broker is going to end: what waits, and what comes, gets 15."""
        self._is_stopping = True
        for number in (*self._context.partitions, *self._loading):
            self._forget(number, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _is_stale(self, number: int, leader_epoch: int) -> bool:
        known = self._epochs.get(number, -1)
        is_begun = number in self._loading or number in self._context.partitions
        return self._is_stopping or leader_epoch < known or (leader_epoch == known and is_begun)

    def _forget(self, number: int, error: ErrorCode) -> None:
        self._loading.pop(number, None)
        context = self._context
        partition = context.partitions.get(number)
        if partition is None:
            return
        for group in list(partition.groups.values()):
            for member in group.members.values():
                context.answer_join(group, member, JoinResult(error=error, member_id=member.member_id))
                context.answer_sync(member, SyncResult(error=error))
            context.bury(group)
        # What the log has of these is decided by the next leader; the answer is that of an append that lost it.
        for then in list(partition.appends.values()):
            if not then.is_answered:
                then.is_answered = True
                then.answer(error)
        del context.partitions[number]

    # ------------------------------------------------------------------------------------------------------- the log

    def on_appended(self, number: int, append_id: int, outcome: int | ErrorCode) -> None:
        """An append is committed at this position, or the log's error."""
        self._context.appended(number, append_id, outcome)

    def on_marker(self, number: int, producer_id: int, commits: bool) -> None:
        """A transaction's marker in this partition is committed, after everything that was appended before it."""
        on_marker(self._context, number, producer_id, commits)

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Their offsets go away, too."""
        on_topics_deleted(self._context, topics)
