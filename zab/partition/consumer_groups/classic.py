"""Members of the classic protocol in a group of KIP-848, and how a group becomes one of the other protocol.

A classic group becomes one of KIP-848 with its members (`converted`): each is in the epoch that was its generation, and
owns what its leader has given it. From then on the coordinator assigns its partitions, too. Such a member joins with
JoinGroup, in which it says what it owns, is answered at once, and gets its partitions with SyncGroup. Where it has
another step to go, its heartbeats say that it has to join again (`must_join`).

On the way back nothing is left of the group, and its members go on as a classic one.

Kafka's `GroupMetadataManager`, 4.1. Not here: requests and their answers (`zab.partition.groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from zab.kafka.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupKey,
    ConsumerGroupValue,
    MemberAssignmentKey,
    MemberKey,
    MemberState,
    MemberTargetKey,
    MemberTargetValue,
    TargetKey,
    TargetValue,
)
from zab.kafka.consumer_protocol import (
    VERSION_MAX,
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from zab.kafka.primitives import ProtocolError, Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.heartbeat import Rules
from zab.partition.consumer_groups.state import ConsumerGroup, ConsumerMember, Draft, to_wire


@frozen(kw_only=True)
class ClassicMember:
    """A member of a classic group that is to be converted."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    classic: ClassicMemberMetadata
    metadata: bytes
    """Its subscription, for the protocol of the group."""
    assignment: bytes
    """Empty: it has none yet."""


def converted(rules: Rules, group_id: str, generation: int, members: Iterable[ClassicMember]) -> Draft:
    """The group of KIP-848 with these members. Raises ProtocolError: what members say cannot be read."""
    draft = Draft(ConsumerGroup(group_id))
    draft.write(ConsumerGroupKey(group_id=group_id), ConsumerGroupValue(epoch=generation))
    draft.write(TargetKey(group_id=group_id), TargetValue(assignment_epoch=generation))
    for each in members:
        subscription = decode_subscription(each.metadata)
        owned = _by_id(rules, decode_assignment(each.assignment).assigned_partitions if each.assignment else ())
        free = {topic: frozenset(one for one in own if draft.group.is_free(topic, one)) for topic, own in owned.items()}
        member = ConsumerMember(
            each.member_id,
            instance_id=each.instance_id,
            rack_id=subscription.rack_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=each.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            epoch=generation,
            previous_epoch=generation,
            assigned={topic: own for topic, own in free.items() if own},
            classic=each.classic,
        )
        where = {"group_id": group_id, "member_id": each.member_id}
        draft.write(MemberKey(**where), member.value())
        draft.write(MemberTargetKey(**where), MemberTargetValue(topic_partitions=to_wire(member.assigned)))
        draft.write(MemberAssignmentKey(**where), member.assignment_value())
    return draft


def _by_id(rules: Rules, partitions: Iterable[TopicPartitions]) -> dict[Uuid, frozenset[int]]:
    topics = rules.topics()
    found: dict[Uuid, frozenset[int]] = {}
    for each in partitions:
        if each.topic in topics:
            topic = topics[each.topic].id
            found[topic] = found.get(topic, frozenset()).union(each.partitions)
    return found


def owned_in(rules: Rules, subscription: Subscription) -> Partitions:
    """What the member says that it owns; an eager one has given up everything before it joins."""
    return _by_id(rules, subscription.owned_partitions)


def all_are_classic(group: ConsumerGroup) -> bool:
    """Whether there are members, and all speak the classic protocol."""
    return bool(group.members) and all(each.classic is not None for each in group.members.values())


def supports(group: ConsumerGroup, names: Iterable[str], member_id: str = "") -> bool:
    """Whether all members of the classic protocol, besides this one, have one of these protocols, as they need after
    the way back."""
    others = [
        {each.name for each in member.classic.supported_protocols}
        for member in group.members.values()
        if member.classic is not None and member.member_id != member_id
    ]
    return any(all(name in other for other in others) for name in names)


def must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member of the classic protocol has another step to go."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    wanted = group.target_of(member.member_id)
    missing = ((topic, each) for topic, own in wanted.items() for each in own - member.assigned.get(topic, frozenset()))
    return all(group.is_free(topic, each) for topic, each in missing)


def assignment_of(member: ConsumerMember, names: Mapping[Uuid, str]) -> bytes:
    """What it owns, in the version of its subscription; without topics that no longer exist."""
    assert member.classic is not None
    metadata = member.classic.supported_protocols[0].metadata
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), VERSION_MAX)
    partitions = tuple(
        TopicPartitions(topic=names[topic], partitions=tuple(sorted(own)))
        for topic, own in sorted(member.assigned.items())
        if topic in names
    )
    return encode_assignment(Assignment(assigned_partitions=partitions), version)


def subscription_of(protocols: Iterable[bytes]) -> Subscription:
    """What the first protocol says. Raises ProtocolError: it cannot be read, or there is none."""
    for metadata in protocols:
        return decode_subscription(metadata)
    raise ProtocolError("a member names no protocol")
