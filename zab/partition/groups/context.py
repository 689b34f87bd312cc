"""What all parts of a coordinator share: settings, time, deadlines, answers, and the partitions with their groups.

The parts (`joining`, `rebalance`, `syncing`, …) are functions that get this and a group. They hand out effects through
`answer` and `append`, which keep two promises: each token is answered once, and of each append it is known at most once
that it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from attrs import Factory, define, frozen

from zab.kafka.errors import ErrorCode
from zab.partition.groups.append_errors import IN_DOUBT
from zab.partition.groups.deadlines import Deadlines
from zab.partition.groups.effects import Answer, Append, Effect
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.member import Member
from zab.partition.groups.records import Record
from zab.partition.groups.requests import NO_PRODUCER, Token
from zab.partition.groups.results import JoinResult, Result, SyncResult
from zab.partition.settings.broker_settings import GroupSettings

APPENDS_MAX: Final = 65_536
"""While so many appends of one partition of `__consumer_offsets` wait, its groups are not available (15)."""


class Timer(Enum):
    """What a deadline is for."""

    SESSION = 1
    """A member has to be heard of."""
    PENDING = 2
    """An id that was given out has to be used."""
    JOIN = 3
    """A rebalance waits no longer for members."""
    SYNC = 4
    """All members of a generation have to have asked for their assignment."""


TimerKey: TypeAlias = tuple[Timer, Group, str]
"""A timer of a group; the id is "" for those of the whole group."""


def _nothing(_: object) -> None:
    pass


@define(kw_only=True)
class Appending:
    """An append that the log has not decided about. `answer` gets NONE or the log's error, once. Then, or later if the
    error leaves it open, one of `apply` (with the position of the batch) and `revert` is called."""

    answer: Callable[[ErrorCode], None] = _nothing
    apply: Callable[[int], None] = _nothing
    revert: Callable[[None], None] = _nothing
    is_answered: bool = False


@define(eq=False)
class OffsetsPartition:
    """A partition of `__consumer_offsets` that this broker leads."""

    number: int
    leader_epoch: int
    groups: dict[str, Group] = Factory(dict)
    appends: dict[int, Appending] = Factory(dict)
    """In the order of the log."""
    holders: dict[int, dict[Group, None]] = Factory(dict)
    """Producer id -> groups that hold offsets of its open transaction."""

    @property
    def is_full(self) -> bool:
        """Whether it takes no more appends for now."""
        return len(self.appends) >= APPENDS_MAX


@frozen
class Surroundings:
    """What a coordinator is given once."""

    settings: GroupSettings
    partition_for: Callable[[str], int]
    """Group id -> partition of `__consumer_offsets`: abs(Java's hash) modulo their number."""
    unique: Callable[[], str]
    """A text that never comes twice, such as a random UUID: the second half of member ids."""
    has_partition: Callable[[str, int], bool]
    """Whether a topic has this partition."""


class Context:
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        self.surroundings = surroundings
        self.settings = surroundings.settings
        self.now = now
        self.wall = wall
        self.partitions: dict[int, OffsetsPartition] = {}
        self.deadlines: Deadlines[TimerKey] = Deadlines(now)
        self.effects: list[Effect] = []
        self._open: set[Token] = set()
        self._append_count = 0

    # ------------------------------------------------------------------------------------------------------- answers

    def open(self, token: Token) -> None:
        """A request came; it is owed one answer."""
        assert token not in self._open, "tokens are used once"
        self._open.add(token)

    @property
    def open_count(self) -> int:
        """How many requests wait for their answer."""
        return len(self._open)

    def answer(self, token: Token, result: Result) -> None:
        """Answer a request."""
        assert token in self._open, "answered twice"
        self._open.remove(token)
        self.effects.append(Answer(token, result))

    def answer_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Answer the join of this member, if one waits."""
        if member.join_token is not None:
            token, member.join_token = member.join_token, None
            group.joining_count -= 1
            self.answer(token, result)

    def answer_sync(self, member: Member, result: SyncResult) -> None:
        """Answer the sync of this member, if one waits."""
        if member.sync_token is not None:
            token, member.sync_token = member.sync_token, None
            self.answer(token, result)

    def wait_for_join(self, group: Group, member: Member, token: Token) -> None:
        """Let a join of this member wait. An earlier one was sent by a client that has given it up."""
        stale = JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        self.answer_join(group, member, stale)
        member.join_token = token
        group.joining_count += 1

    def wait_for_sync(self, member: Member, token: Token) -> None:
        """Let a sync of this member wait, instead of an earlier one."""
        self.answer_sync(member, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_token = token

    # ------------------------------------------------------------------------------------------------------ the log

    def append(
        self,
        number: int,
        records: list[Record],
        then: Appending,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
    ) -> None:
        """Hand these records to the log."""
        assert records
        partition = self.partitions[number]
        self._append_count += 1
        partition.appends[self._append_count] = then
        self.effects.append(
            Append(
                append_id=self._append_count,
                partition=number,
                leader_epoch=partition.leader_epoch,
                records=tuple(records),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    def appended(self, number: int, append_id: int, outcome: int | ErrorCode) -> None:
        """The log has decided, or says that it could not in time. Of an append before the partition was unloaded, this
        is no longer of interest."""
        partition = self.partitions.get(number)
        then = partition.appends.get(append_id) if partition is not None else None
        if partition is None or then is None:
            return
        if isinstance(outcome, ErrorCode):
            error = outcome
            assert error is not ErrorCode.NONE, "a success has a position"
            if error not in IN_DOUBT:
                del partition.appends[append_id]
                then.revert(None)
        else:
            error = ErrorCode.NONE
            del partition.appends[append_id]
            then.apply(outcome)
        if not then.is_answered:
            then.is_answered = True
            then.answer(error)

    # -------------------------------------------------------------------------------------------------------- groups

    def group(self, group_id: str) -> Group | None:
        """A group of a loaded partition."""
        partition = self.partitions.get(self.surroundings.partition_for(group_id))
        return partition.groups.get(group_id) if partition is not None else None

    def create_group(self, group_id: str) -> Group:
        """A new group, Empty, in a loaded partition."""
        partition = self.partitions[self.surroundings.partition_for(group_id)]
        assert group_id not in partition.groups
        group = Group(group_id, partition.number, state_timestamp=self.wall)
        partition.groups[group_id] = group
        return group

    def bury(self, group: Group) -> None:
        """Forget a group; its waiting requests are answered already."""
        group.become(GroupState.DEAD, self.wall)
        for timer in (Timer.JOIN, Timer.SYNC):
            self.deadlines.cancel((timer, group, ""))
        for member_id in group.members:
            self.deadlines.cancel((Timer.SESSION, group, member_id))
        for member_id in group.pending:
            self.deadlines.cancel((Timer.PENDING, group, member_id))
        del self.partitions[group.partition].groups[group.group_id]

    def bury_if_unused(self, group: Group) -> None:
        """Forget a group that was never more than a name: the log does not have it."""
        if group.is_void and group.protocol_type is None:
            self.bury(group)

    # ------------------------------------------------------------------------------------------------------ sessions

    def start_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """The member was heard of: it has its session timeout until the next time."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.deadlines.set((Timer.SESSION, group, member.member_id), self.now + timeout_ms)

    def end_session(self, group: Group, member_id: str) -> None:
        """There is no such member any longer."""
        self.deadlines.cancel((Timer.SESSION, group, member_id))
