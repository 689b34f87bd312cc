"""Expiry: offsets that nobody needs any longer, and groups that have none.

    the group                                     an offset expires offsets.retention.minutes after
    Empty, and had members                        the group became Empty
    Stable consumers, whose topics are known      its commit, unless a member subscribes to its topic
    of KIP-848                                    its commit, unless a member subscribes to its topic
    simple: it only keeps offsets                 its commit

Offsets with a commit under way stay. Records of old brokers say themselves when they expire. A group that is Empty and
has no offset left goes with its last one.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from zab.kafka.consumer_protocol import PROTOCOL_TYPE
from zab.kafka.errors import ErrorCode
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.offsets import CommittedOffset
from zab.partition.groups.requests import NO_TIME, TopicPartition
from zab.partition.groups.tombstones import remove

CHECK_INTERVAL_MS: Final = 600_000
"""How often it is looked for; Kafka's offsets.retention.check.interval.ms."""
PAUSE_MS: Final = 10
"""Between two partitions."""
MINUTE_MS: Final = 60_000


@define
class Expiry:
    """Looks at the groups of one partition after the other, so that no turn takes long."""

    due: int
    _left: list[int] = field(factory=list)
    """Partitions of this round."""
    _began: int = 0

    def advance(self, context: Context) -> None:
        """Look at the groups of the next partition, if it is time."""
        if context.now < self.due:
            return
        if not self._left:
            self._left = list(context.partitions)
            self._began = context.now
        if self._left:
            _expire_partition(context, self._left.pop())
        self.due = context.now + PAUSE_MS if self._left else self._began + CHECK_INTERVAL_MS


def _expire_partition(context: Context, number: int) -> None:
    partition = context.partitions.get(number)
    if partition is not None and not partition.is_full:
        for group in list(partition.groups.values()):
            _expire_group(context, group)


def _nobody_waits(_: ErrorCode) -> None:
    """What the log refuses is found again in the next round."""


def _expire_group(context: Context, group: Group) -> None:
    expired = [each for each, offset in group.offsets.committed.items() if _is_expired(context, group, each, offset)]
    is_last = len(expired) == len(group.offsets.partitions())
    with_group = is_last and group.has_no_members and not group.pending
    if expired or with_group:
        remove(context, group, expired, with_group=with_group, answer=_nobody_waits)


def _is_expired(context: Context, group: Group, partition: TopicPartition, offset: CommittedOffset) -> bool:
    offsets = group.offsets
    if offsets.is_in_flight(partition) or offsets.is_unstable(partition) or not _may_expire(group, partition):
        return False
    value = offset.value
    if value.expire_timestamp != NO_TIME:
        return context.wall >= value.expire_timestamp
    since = value.commit_timestamp
    if group.protocol_type is not None and group.state is GroupState.EMPTY and group.state_timestamp != NO_TIME:
        since = group.state_timestamp
    return context.wall - since >= context.settings.offsets_retention_minutes * MINUTE_MS


def _may_expire(group: Group, partition: TopicPartition) -> bool:
    """Whether nobody consumes the topic."""
    if group.consumer is not None:
        return partition[0] not in group.consumer.latest.subscribed()
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    is_known = group.state is GroupState.STABLE and group.protocol_type == PROTOCOL_TYPE
    return is_known and group.subscribed is not None and partition[0] not in group.subscribed
