"""Loading a partition of `__consumer_offsets`: from its records to its groups.

The leader of the partition reads from the log's start to its end, and not only to its high watermark: as a new leader
it has records that the leader before may have committed and answered, although it does not know so yet itself. Its
groups are ready when its high watermark has passed that end, so that nobody sees what could still be lost with it.

Records are applied in the order of the log, by the methods that what happens later uses (`Offsets`), so that a
coordinator that loads has the same state as the one that wrote. Members get a whole session; they may join again with
what the log does not have, such as other protocols.
"""

from __future__ import annotations

from attrs import Factory, define

from zab.kafka.consumer_group_records import ConsumerGroupKey, Key, Value
from zab.kafka.coordinator_records import GroupKey, GroupValue, OffsetKey, OffsetValue
from zab.partition.consumer_groups.state import ConsumerGroup
from zab.partition.coordinator.effects import NO_PRODUCER
from zab.partition.groups.consumer_heartbeats import start_timers
from zab.partition.groups.consumer_side import ConsumerSide
from zab.partition.groups.context import Context, OffsetsPartition
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.member import loaded_member
from zab.partition.groups.offsets import CommittedOffset, Offsets
from zab.partition.groups.rebalance import prepare
from zab.partition.groups.records import Loaded, LoadedMarker


@define(eq=False)
class LoadingPartition:
    """What is known so far of a partition that is being read."""

    number: int
    leader_epoch: int
    values: dict[str, GroupValue] = Factory(dict)
    consumers: dict[str, ConsumerGroup] = Factory(dict)
    """Groups of KIP-848."""
    offsets: dict[str, Offsets] = Factory(dict)
    holders: dict[int, dict[str, None]] = Factory(dict)
    """Producer id -> ids of groups that hold offsets of its open transaction."""

    def apply(self, entry: Loaded) -> None:
        """The next record of the log, or the next marker."""
        if isinstance(entry, LoadedMarker):
            for group_id in self.holders.pop(entry.producer_id, {}):
                self.offsets[group_id].release(entry.producer_id, entry.commits)
        elif isinstance(entry.key, OffsetKey):
            self._apply_offset(entry.key, entry.value, entry.position, entry.producer_id)
        elif isinstance(entry.key, GroupKey):
            if isinstance(entry.value, GroupValue):
                self.values[entry.key.group] = entry.value
                self.consumers.pop(entry.key.group, None)
            else:
                self.values.pop(entry.key.group, None)
        elif entry.key is not None and not isinstance(entry.value, OffsetValue | GroupValue):
            self._apply_consumer_group(entry.key, entry.value)

    def _apply_consumer_group(self, key: Key, value: Value | None) -> None:
        """A record of a group of KIP-848; the tombstone of its epoch is its end."""
        if value is None and (isinstance(key, ConsumerGroupKey) or key.group_id not in self.consumers):
            self.consumers.pop(key.group_id, None)
            return
        self.values.pop(key.group_id, None)
        self.consumers.setdefault(key.group_id, ConsumerGroup(key.group_id)).apply(key, value)

    def _apply_offset(self, key: OffsetKey, value: object, position: int, producer_id: int) -> None:
        offsets = self.offsets.setdefault(key.group, Offsets())
        partition = (key.topic, key.partition)
        if not isinstance(value, OffsetValue):
            offsets.remove(partition, position)
        elif producer_id == NO_PRODUCER:
            offsets.put(partition, CommittedOffset(value, position))
        else:
            offsets.hold(producer_id, partition, CommittedOffset(value, position))
            self.holders.setdefault(producer_id, {})[key.group] = None


def finish(context: Context, loading: LoadingPartition) -> None:
    """The end of the log is reached: the groups live here."""
    partition = OffsetsPartition(loading.number, loading.leader_epoch)
    context.partitions[loading.number] = partition
    for group_id in dict.fromkeys((*loading.values, *loading.consumers, *loading.offsets)):
        value = loading.values.get(group_id)
        offsets = loading.offsets.get(group_id, Offsets())
        consumer = loading.consumers.get(group_id)
        if value is None and consumer is None and not offsets:
            continue
        group = Group(group_id, loading.number, offsets=offsets)
        if consumer is not None:
            group.consumer = ConsumerSide(consumer)
            start_timers(context, group, group.consumer)
        if value is not None:
            _revive(group, value)
        partition.groups[group_id] = group
        for producer_id in offsets.held:
            partition.holders.setdefault(producer_id, {})[group] = None
        for member in group.members.values():
            context.start_session(group, member)
        if len(group.members) > context.settings.members_max:
            prepare(context, group)


def _revive(group: Group, value: GroupValue) -> None:
    """A group without members is Empty; one with members is Stable, as only such ones are stored."""
    group.generation = value.generation
    group.state_timestamp = value.current_state_timestamp
    for each in value.members:
        if each.member_id not in group.members and each.group_instance_id not in group.static:
            group.add(loaded_member(each, value.protocol), value.protocol_type)
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    if value.members:
        group.leader = value.leader if value.leader in group.members else group.leader
        group.state = GroupState.STABLE
    group.subscribe()
