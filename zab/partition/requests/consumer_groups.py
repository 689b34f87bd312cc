"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: between messages of all versions and what the coordinator knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zab.kafka.messages.consumer_groups import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMember,
    ConsumerGroupMemberPartitions,
    ConsumerGroupPartitionsByName,
    ConsumerGroupTopicPartitions,
    DescribedConsumerGroup,
)
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.heartbeat import MemberHeartbeat
from zab.partition.groups import requests as asking
from zab.partition.groups.results import ConsumerHeartbeatResult, DescribeConsumersResult, NamedPartitions
from zab.partition.requests.request import Request

MEMBERS_CHOOSE_SINCE: Final = 1
"""The version of ConsumerGroupHeartbeat from which on a member chooses its id."""
OF_CLASSIC: Final = 0
OF_CONSUMER: Final = 1
"""The type of a member that speaks this protocol."""


def heartbeat_asked(request: Request) -> asking.ConsumerHeartbeat:
    body: ConsumerGroupHeartbeatRequest = request.body
    heartbeat = MemberHeartbeat(
        member_id=body.member_id,
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=request.header.client_id or "",
        client_host=f"/{request.connection.host}",
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topic_names=body.subscribed_topic_names,
        topic_regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=None if body.topic_partitions is None else _owned(body.topic_partitions),
    )
    requires_id = request.version >= MEMBERS_CHOOSE_SINCE
    return asking.ConsumerHeartbeat(group_id=body.group_id, heartbeat=heartbeat, requires_member_id=requires_id)


def _owned(topics: Iterable[ConsumerGroupTopicPartitions]) -> Partitions:
    found: dict[Uuid, frozenset[int]] = {}
    for each in topics:
        if each.partitions:
            found[each.topic_id] = found.get(each.topic_id, frozenset()).union(each.partitions)
    return found


def heartbeat_answered(_request: Request, result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message or None,
        member_id=result.member_id or None,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        assignment=None if result.assigned is None else _assignment(result.assigned),
    )


def _assignment(partitions: Partitions) -> ConsumerGroupAssignment:
    topics = (
        ConsumerGroupTopicPartitions(topic_id=topic, partitions=tuple(sorted(indexes)))
        for topic, indexes in partitions.items()
    )
    return ConsumerGroupAssignment(topic_partitions=tuple(topics))


def describe_asked(request: Request) -> asking.DescribeConsumerGroups:
    body: ConsumerGroupDescribeRequest = request.body
    return asking.DescribeConsumerGroups(group_ids=body.group_ids)


def describe_answered(_request: Request, result: DescribeConsumersResult) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            DescribedConsumerGroup(
                error_code=group.error,
                error_message=group.message,
                group_id=group.group_id,
                group_state=group.state,
                group_epoch=group.epoch,
                assignment_epoch=group.target_epoch,
                assignor_name=group.assignor,
                members=tuple(
                    ConsumerGroupMember(
                        member_id=each.member.member_id,
                        instance_id=each.member.instance_id,
                        rack_id=each.member.rack_id,
                        member_epoch=each.member.epoch,
                        client_id=each.member.client_id,
                        client_host=each.member.client_host,
                        subscribed_topic_names=tuple(sorted(each.member.topic_names)),
                        subscribed_topic_regex=each.member.topic_regex,
                        assignment=_by_name(each.assigned),
                        target_assignment=_by_name(each.target),
                        member_type=OF_CONSUMER if each.member.classic is None else OF_CLASSIC,
                    )
                    for each in group.members
                ),
            )
            for group in result.groups
        )
    )


def _by_name(partitions: Iterable[NamedPartitions]) -> ConsumerGroupMemberPartitions:
    topics = (
        ConsumerGroupPartitionsByName(topic_id=each.topic_id, topic_name=each.name, partitions=each.partitions)
        for each in partitions
    )
    return ConsumerGroupMemberPartitions(topic_partitions=tuple(topics))
