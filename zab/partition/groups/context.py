"""What all parts of a coordinator share: settings, time, deadlines, answers, and the partitions with their groups.

The parts (`joining`, `rebalance`, `syncing`, …) are functions that get this and a group. They hand out effects through
`answer` and `append` of `CoordinatorContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

from attrs import Factory, define, frozen

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.heartbeat import Rules, Topic
from zab.partition.consumer_groups.regexes import topic_regex
from zab.partition.coordinator.context import CoordinatorContext, LedPartition
from zab.partition.coordinator.deadlines import Deadlines
from zab.partition.coordinator.effects import Token
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.member import Member
from zab.partition.groups.results import JoinResult, SyncResult
from zab.partition.settings.broker_settings import GroupSettings


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
    CONSUMER_SESSION = 5
    """A member of a group of KIP-848 has to be heard of."""
    REVOCATION = 6
    """Such a member has to have given up what it was told to."""
    CLASSIC_JOIN = 7
    """A member of the classic protocol in such a group has to join again."""
    CLASSIC_SYNC = 8
    """It has to ask for its assignment."""


TimerKey: TypeAlias = tuple[Timer, Group, str]
"""A timer of a group; the id is "" for those of the whole group."""


@define(eq=False)
class OffsetsPartition(LedPartition):
    """A partition of `__consumer_offsets` that this broker leads."""

    groups: dict[str, Group] = Factory(dict)
    holders: dict[int, dict[Group, None]] = Factory(dict)
    """Producer id -> groups that hold offsets of its open transaction."""


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
    topics: Callable[[], Mapping[str, Topic]] = dict
    """All topics of the cluster, by name; another mapping when one of them has changed."""


class Context(CoordinatorContext[OffsetsPartition]):
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        super().__init__(now, wall)
        self.surroundings = surroundings
        self.settings = surroundings.settings
        self.deadlines: Deadlines[TimerKey] = Deadlines(now)
        self._named: Mapping[str, Topic] | None = None
        self._names: dict[Uuid, str] = {}
        """The names of these topics, by their ids."""
        self.consumer_rules = Rules(
            members_max=self.settings.consumer_members_max,
            default_assignor=self.settings.consumer_assignors[0],
            topics=surroundings.topics,
            regex_of=topic_regex,
            wall=lambda: self.wall,
        )

    def topic_names(self) -> Mapping[Uuid, str]:
        """The names of all topics, by their ids."""
        topics = self.surroundings.topics()
        if topics is not self._named:
            self._named, self._names = topics, {topic.id: name for name, topic in topics.items()}
        return self._names

    # ------------------------------------------------------------------------------------------------------- answers

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
