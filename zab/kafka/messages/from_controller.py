"""How a controller of Kafka tells brokers what they lead and follow: the layout of its last versions.

Kept as the reference for what such a message has to say. Not listed to anybody.
"""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, int64, nested, request, response, string, uuid
from zab.kafka.primitives import Uuid


@nested
class LeaderAndIsrPartitionState:
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: tuple[int, ...] = array(Kind.INT32)
    partition_epoch: int = int32()
    replicas: tuple[int, ...] = array(Kind.INT32)
    adding_replicas: tuple[int, ...] = array(Kind.INT32)
    removing_replicas: tuple[int, ...] = array(Kind.INT32)
    is_new: bool = boolean(default=False)
    leader_recovery_state: int = int8(default=0)


@nested
class LeaderAndIsrTopicState:
    topic_name: str = string()
    topic_id: Uuid = uuid()
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = array(LeaderAndIsrPartitionState)


@nested
class LeaderAndIsrLiveLeader:
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@request(ApiKey.LEADER_AND_ISR, versions=(7, 7), flexible_since=4)
class LeaderAndIsrRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    type: int = int8()
    topic_states: tuple[LeaderAndIsrTopicState, ...] = array(LeaderAndIsrTopicState)
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = array(LeaderAndIsrLiveLeader)


@nested
class LeaderAndIsrPartitionError:
    partition_index: int = int32()
    error_code: int = int16()


@nested
class LeaderAndIsrTopicError:
    topic_id: Uuid = uuid()
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = array(LeaderAndIsrPartitionError)


@response(ApiKey.LEADER_AND_ISR, versions=(7, 7), flexible_since=4)
class LeaderAndIsrResponse:
    error_code: int = int16()
    topics: tuple[LeaderAndIsrTopicError, ...] = array(LeaderAndIsrTopicError)


@nested
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@nested
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: tuple[StopReplicaPartitionState, ...] = array(StopReplicaPartitionState)


@request(ApiKey.STOP_REPLICA, versions=(4, 4), flexible_since=2)
class StopReplicaRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: tuple[StopReplicaTopicState, ...] = array(StopReplicaTopicState)


@nested
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@response(ApiKey.STOP_REPLICA, versions=(4, 4), flexible_since=2)
class StopReplicaResponse:
    error_code: int = int16()
    partition_errors: tuple[StopReplicaPartitionError, ...] = array(StopReplicaPartitionError)


@nested
class UpdateMetadataPartitionState:
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: tuple[int, ...] = array(Kind.INT32)
    zk_version: int = int32()
    replicas: tuple[int, ...] = array(Kind.INT32)
    offline_replicas: tuple[int, ...] = array(Kind.INT32)


@nested
class UpdateMetadataTopicState:
    topic_name: str = string()
    topic_id: Uuid = uuid()
    partition_states: tuple[UpdateMetadataPartitionState, ...] = array(UpdateMetadataPartitionState)


@nested
class UpdateMetadataEndpoint:
    port: int = int32()
    host: str = string()
    listener: str = string()
    security_protocol: int = int16()


@nested
class UpdateMetadataBroker:
    id: int = int32()
    endpoints: tuple[UpdateMetadataEndpoint, ...] = array(UpdateMetadataEndpoint)
    rack: str | None = string(nullable_since=0)


@request(ApiKey.UPDATE_METADATA, versions=(8, 8), flexible_since=6)
class UpdateMetadataRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(default=False)
    type: int = int8(default=0, tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...] = array(UpdateMetadataTopicState)
    live_brokers: tuple[UpdateMetadataBroker, ...] = array(UpdateMetadataBroker)


@response(ApiKey.UPDATE_METADATA, versions=(8, 8), flexible_since=6)
class UpdateMetadataResponse:
    error_code: int = int16()
