"""Where the brokers are, and which of them lead which partitions."""

from __future__ import annotations

from zab.kafka.api_key import AUTHORIZED_OPERATIONS_NOT_ASKED, ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, nested, request, response, string, uuid
from zab.kafka.primitives import ZERO_UUID, Uuid


@nested
class MetadataRequestTopic:
    """In versions 10 and 11 the id is there, but only the name counts."""

    topic_id: Uuid = uuid(since=10, default=ZERO_UUID, ignorable=True)
    name: str | None = string(nullable_since=10)


@request(ApiKey.METADATA, versions=(0, 12), flexible_since=9)
class MetadataRequest:
    """Which topics: null is all of them. In version 0, which has no null, an empty array is all of them."""

    topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = boolean(since=8, default=False)


@nested
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable_since=0, default=None, ignorable=True)


@nested
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1, ignorable=True)
    replica_nodes: tuple[int, ...] = array(Kind.INT32)
    isr_nodes: tuple[int, ...] = array(Kind.INT32)
    offline_replicas: tuple[int, ...] = array(Kind.INT32, since=5, default=(), ignorable=True)


@nested
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean(since=1, default=False, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=AUTHORIZED_OPERATIONS_NOT_ASKED)


@response(ApiKey.METADATA, versions=(0, 12), flexible_since=9)
class MetadataResponse:
    throttle_time_ms: int = int32(since=3, default=0, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable_since=0, default=None, ignorable=True)
    controller_id: int = int32(since=1, default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=AUTHORIZED_OPERATIONS_NOT_ASKED)


@request(ApiKey.DESCRIBE_CLUSTER, versions=(0, 1), flexible_since=0)
class DescribeClusterRequest:
    """What Metadata says of brokers, for administrators."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)


@nested
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)


@response(ApiKey.DESCRIBE_CLUSTER, versions=(0, 1), flexible_since=0)
class DescribeClusterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=AUTHORIZED_OPERATIONS_NOT_ASKED)
