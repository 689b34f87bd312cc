"""Groups whose partitions the coordinator assigns (KIP-848): how members take part, and what an operator sees."""

from __future__ import annotations

from zab.kafka.api_key import AUTHORIZED_OPERATIONS_NOT_ASKED, ApiKey
from zab.kafka.declare import (
    Kind,
    array,
    boolean,
    int8,
    int16,
    int32,
    nested,
    request,
    response,
    string,
    struct,
    uuid,
)
from zab.kafka.primitives import Uuid


@nested
class ConsumerGroupTopicPartitions:
    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest:
    """KIP-848: one request for joining, staying and leaving; null stands for "as before"."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable_since=0, default=None)
    rack_id: str | None = string(nullable_since=0, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: tuple[str, ...] | None = array(Kind.STRING, nullable_since=0, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable_since=0, default=None)
    server_assignor: str | None = string(nullable_since=0, default=None)
    topic_partitions: tuple[ConsumerGroupTopicPartitions, ...] | None = array(
        ConsumerGroupTopicPartitions, nullable_since=0, default=None
    )


@nested
class ConsumerGroupAssignment:
    topic_partitions: tuple[ConsumerGroupTopicPartitions, ...] = array(ConsumerGroupTopicPartitions)


@response(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    member_id: str | None = string(nullable_since=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupAssignment | None = struct(ConsumerGroupAssignment, nullable_since=0, default=None)


@request(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...] = array(Kind.STRING)
    include_authorized_operations: bool = boolean(default=False)


@nested
class ConsumerGroupPartitionsByName:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@nested
class ConsumerGroupMemberPartitions:
    topic_partitions: tuple[ConsumerGroupPartitionsByName, ...] = array(ConsumerGroupPartitionsByName)


@nested
class ConsumerGroupMember:
    """`member_type`: 0 for the classic protocol, 1 for this one; -1: it is not known."""

    member_id: str = string()
    instance_id: str | None = string(nullable_since=0, default=None)
    rack_id: str | None = string(nullable_since=0, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(Kind.STRING)
    subscribed_topic_regex: str | None = string(nullable_since=0, default=None)
    assignment: ConsumerGroupMemberPartitions = struct(ConsumerGroupMemberPartitions)
    target_assignment: ConsumerGroupMemberPartitions = struct(ConsumerGroupMemberPartitions)
    member_type: int = int8(since=1, default=-1, ignorable=True)


@nested
class DescribedConsumerGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[ConsumerGroupMember, ...] = array(ConsumerGroupMember)
    authorized_operations: int = int32(default=AUTHORIZED_OPERATIONS_NOT_ASKED)


@response(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: tuple[DescribedConsumerGroup, ...] = array(DescribedConsumerGroup)
