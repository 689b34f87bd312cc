"""How the leader of a group deals out partitions, as the assignors of Kafka's clients do.

eager           one after the other, as RangeAssignor and RoundRobinAssignor
cooperative     as CooperativeStickyAssignor: members keep what they own, up to their share, and what another one owns
                is given to nobody until it has given it up
"""

from __future__ import annotations

from collections.abc import Sequence

from zab.kafka.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zab.kafka.messages.groups import JoinGroupResponseMember

Partition = tuple[str, int]
"""A topic and a partition."""


def eager(members: Sequence[JoinGroupResponseMember], partitions: Sequence[Partition]) -> dict[str, set[Partition]]:
    """The partitions of each member, by its id."""
    ids = sorted(each.member_id for each in members)
    return {member_id: set(partitions[at :: len(ids)]) for at, member_id in enumerate(ids)}


def cooperative(
    members: Sequence[JoinGroupResponseMember], partitions: Sequence[Partition]
) -> dict[str, set[Partition]]:
    """The partitions of each member, by its id. Some may be left out until their owner has given them up."""
    claims = {each.member_id: owned_in(each.metadata) for each in members}
    owner: dict[Partition, str] = {}
    for member_id, (generation, owned) in sorted(claims.items()):
        for each in sorted(owned):
            if each not in owner or claims[owner[each]][0] < generation:
                owner[each] = member_id
    share = -(-len(partitions) // len(members))
    target: dict[str, set[Partition]] = {member_id: set() for member_id in sorted(claims)}
    free = []
    for each in partitions:
        if each in owner and len(target[owner[each]]) < share:
            target[owner[each]].add(each)
        else:
            free.append(each)
    for each in free:
        least = min(target, key=lambda member_id: (len(target[member_id]), member_id))
        if owner.get(each, least) == least:
            target[least].add(each)
    return target


def owned_in(metadata: bytes) -> tuple[int, set[Partition]]:
    """The generation of a subscription, and what its member owned in it."""
    subscription = decode_subscription(metadata)
    return subscription.generation_id, _flat(subscription.owned_partitions)


def subscription_of(topics: Sequence[str], owned: set[Partition], generation: int) -> bytes:
    """The metadata of a member."""
    return encode_subscription(
        Subscription(topics=tuple(topics), owned_partitions=_by_topic(owned), generation_id=generation)
    )


def encoded(partitions: set[Partition]) -> bytes:
    """An assignment."""
    return encode_assignment(Assignment(assigned_partitions=_by_topic(partitions)))


def decoded(assignment: bytes) -> set[Partition]:
    """The partitions of an assignment; empty bytes have none."""
    return _flat(decode_assignment(assignment).assigned_partitions) if assignment else set()


def _by_topic(partitions: set[Partition]) -> tuple[TopicPartitions, ...]:
    topics = sorted({topic for topic, _ in partitions})
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(sorted(index for name, index in partitions if name == topic)))
        for topic in topics
    )


def _flat(topics: Sequence[TopicPartitions]) -> set[Partition]:
    return {(each.topic, index) for each in topics for index in each.partitions}
