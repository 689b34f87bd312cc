"""A group whose partitions the coordinator assigns, as its records in the log describe it.

    the group's epoch     rises when a member comes, goes or subscribes to something else, or a topic changes
    the target's epoch    that of the group for which the target was computed: what each member is to own
    a member's epoch      that of the target to which the member has come

    state         the group
    Empty         has no members
    Assigning     has a higher epoch than its target
    Reconciling   has members that are not where the target says
    Stable        has members that all are

`ConsumerGroup.apply` is the only place that changes a group, record by record; so a coordinator that loads a group has
the same one as the coordinator that wrote it. A `Draft` is a group on its way: what has been decided, and is not
committed yet.

Invariants (`check`): a partition has one owner; who owns it has it as assigned, or to be given up; no member is above
the target's epoch, nor the target above the group; each instance id has one member.

Not here: what becomes of requests (`heartbeat`), who gets what (`assignors`), when a member moves (`reconcile`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
from attrs import Factory, define, frozen

from zab.kafka.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupKey,
    ConsumerGroupValue,
    Key,
    MemberAssignmentKey,
    MemberAssignmentValue,
    MemberKey,
    MemberState,
    MemberTargetKey,
    MemberTargetValue,
    MemberValue,
    PartitionsOfTopic,
    RegexKey,
    RegexValue,
    TargetKey,
    TargetValue,
    Value,
)
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions

JOINS: Final = 0
"""The epoch of a member that joins."""
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""The epochs of a member that leaves; by the second one a static member does, and its instance keeps its partitions."""

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"

Entry: TypeAlias = tuple[Key, Value | None]
"""A record: a key with its new value; None: a tombstone."""


@frozen
class ConsumerMember:
    """A member: what it has said about itself, and what it owns."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    assignor: str | None = None
    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: Partitions = Factory(dict)
    classic: ClassicMemberMetadata | None = None
    """Set: it speaks the classic protocol."""
    revoking: Partitions = Factory(dict)
    """What it has to give up, and has not said that it did: nobody else gets it."""

    def is_at(self, target_epoch: int) -> bool:
        """Whether it owns what the target of this epoch says."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def regex(self) -> str | None:
        """The expression that it subscribes to; an empty one is none."""
        return self.topic_regex or None

    def value(self) -> MemberValue:
        """Its record."""
        return MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topic_names)),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_value(self) -> MemberAssignmentValue:
        """The record of what it owns."""
        return MemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=to_wire(self.assigned),
            partitions_pending_revocation=to_wire(self.revoking),
        )


@define(eq=False)
class ConsumerGroup:
    """See the top of the file."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = Factory(dict)
    targets: dict[str, Partitions] = Factory(dict)
    static: dict[str, str] = Factory(dict)
    """Instance id -> member id."""
    owners: dict[tuple[Uuid, int], str] = Factory(dict)
    """The member that owns each partition, or has not given it up."""
    regexes: dict[str, RegexValue] = Factory(dict)
    """The topics that each expression of a member matched last."""

    def copy(self) -> ConsumerGroup:
        """One that changes on its own."""
        return attrs.evolve(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            static=dict(self.static),
            owners=dict(self.owners),
            regexes=dict(self.regexes),
        )

    @property
    def state(self) -> str:
        """The state, by the name that clients see."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        is_there = all(each.is_at(self.target_epoch) for each in self.members.values())
        return STABLE if is_there else RECONCILING

    def target_of(self, member_id: str) -> Partitions:
        """What this member is to own."""
        return self.targets.get(member_id, {})

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that has this instance id."""
        member_id = self.static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_free(self, topic: Uuid, index: int) -> bool:
        """Whether nobody owns this partition."""
        return (topic, index) not in self.owners

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, whether they exist or not."""
        found = self.regexes.get(member.regex) if member.regex else None
        return member.topic_names if found is None else member.topic_names.union(found.topics)

    def subscribed(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        kinds = {(each.topic_names, each.regex): each for each in self.members.values()}
        return frozenset[str]().union(*map(self.names_of, kinds.values()))

    def subscribers_of(self, regex: str) -> int:
        """How many members subscribe to this expression."""
        return sum(each.regex == regex for each in self.members.values())

    # ----------------------------------------------------------------------------------------------------- the records

    def apply(self, key: Key, value: Value | None) -> None:
        """The next record of this group."""
        match key, value:
            case ConsumerGroupKey(), ConsumerGroupValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupKey(), _:
                self.epoch = self.metadata_hash = 0
            case TargetKey(), _:
                self.target_epoch = value.assignment_epoch if isinstance(value, TargetValue) else 0
            case MemberTargetKey(member_id=member_id), MemberTargetValue():
                self.targets[member_id] = from_wire(value.topic_partitions)
            case MemberTargetKey(member_id=member_id), _:
                self.targets.pop(member_id, None)
            case MemberKey(member_id=member_id), MemberValue():
                self._put(_described(self.members.get(member_id) or ConsumerMember(member_id), value))
            case MemberKey(member_id=member_id), _:
                self._remove(member_id)
            case MemberAssignmentKey(member_id=member_id), MemberAssignmentValue():
                self._put(_assigned(self.members.get(member_id) or ConsumerMember(member_id), value))
            case MemberAssignmentKey(member_id=member_id), _:
                if member_id in self.members:
                    self._put(_assigned(self.members[member_id], None))
            case RegexKey(regular_expression=regex), RegexValue():
                self.regexes[regex] = value
            case RegexKey(regular_expression=regex), _:
                self.regexes.pop(regex, None)

    def _put(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        if before is not None and before.instance_id is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            other = self.static_member(member.instance_id)
            if other is not None and other.member_id != member.member_id:
                # Only a log can say so. The instance is the member that it names last.
                self.members[other.member_id] = attrs.evolve(other, instance_id=None)
            self.static[member.instance_id] = member.member_id
        if before is None or before.assigned is not member.assigned or before.revoking is not member.revoking:
            if before is not None:
                self._release(before)
            for own in (member.assigned, member.revoking):
                self.owners.update(dict.fromkeys(_each(own), member.member_id))

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for own in (member.assigned, member.revoking):
            for each in _each(own):
                if self.owners.get(each) == member.member_id:
                    del self.owners[each]

    def tombstones(self) -> list[Key]:
        """The keys of all that the log has of it."""
        group = self.group_id
        return [
            *(
                kind(group_id=group, member_id=each)
                for each in self.members
                for kind in (MemberAssignmentKey, MemberKey)
            ),
            *(MemberTargetKey(group_id=group, member_id=each) for each in self.targets),
            TargetKey(group_id=group),
            *(RegexKey(group_id=group, regular_expression=each) for each in self.regexes),
            ConsumerGroupKey(group_id=group),
        ]

    def check(self) -> None:
        """Assert the invariants above."""
        owned = [
            (each, member.member_id)
            for member in self.members.values()
            for own in (member.assigned, member.revoking)
            for each in _each(own)
        ]
        assert len(owned) == len(self.owners), "a partition has one owner"
        assert dict(owned) == self.owners
        assert self.target_epoch <= self.epoch
        assert all(each.epoch <= self.target_epoch for each in self.members.values())
        assert self.static == {
            each.instance_id: each.member_id for each in self.members.values() if each.instance_id is not None
        }
        planned = [each for own in self.targets.values() for each in _each(own)]
        assert len(planned) == len(set(planned)), "a target gives a partition to one member"


@define(eq=False)
class Draft:
    """A group, and the records that have been decided about it: it is copied before the first of them."""

    group: ConsumerGroup
    entries: list[Entry] = Factory(list)

    def write(self, key: Key, value: Value | None) -> None:
        """Decide about a record."""
        if not self.entries:
            self.group = self.group.copy()
        self.entries.append((key, value))
        self.group.apply(key, value)


def _described(member: ConsumerMember, value: MemberValue) -> ConsumerMember:
    classic = value.classic_member_metadata
    return attrs.evolve(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        assignor=value.server_assignor,
        # A member of the classic protocol has one protocol at least; a log may say otherwise.
        classic=classic if classic is not None and classic.supported_protocols else None,
    )


def _assigned(member: ConsumerMember, value: MemberAssignmentValue | None) -> ConsumerMember:
    if value is None:
        nothing: Partitions = {}
        return attrs.evolve(
            member, epoch=JOINS, previous_epoch=JOINS, state=MemberState.STABLE, assigned=nothing, revoking=nothing
        )
    is_known = value.state in MemberState.__members__.values()
    return attrs.evolve(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if is_known else MemberState.UNRELEASED_PARTITIONS,
        assigned=from_wire(value.assigned_partitions),
        revoking=from_wire(value.partitions_pending_revocation),
    )


def _each(partitions: Partitions) -> Iterable[tuple[Uuid, int]]:
    return ((topic, index) for topic, indexes in partitions.items() for index in indexes)


def to_wire(partitions: Partitions) -> tuple[PartitionsOfTopic, ...]:
    """As records have them, sorted."""
    return tuple(
        PartitionsOfTopic(topic_id=topic, partitions=tuple(sorted(partitions[topic]))) for topic in sorted(partitions)
    )


def from_wire(topics: Iterable[PartitionsOfTopic]) -> Partitions:
    """As groups have them."""
    found: dict[Uuid, frozenset[int]] = {}
    for each in topics:
        if each.partitions:
            found[each.topic_id] = found.get(each.topic_id, frozenset()).union(each.partitions)
    return found
