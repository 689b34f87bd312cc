"""Every API that this room knows: its key, and the classes of its request and its response."""

from __future__ import annotations

from typing import Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import LAYOUTS
from zab.kafka.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from zab.kafka.messages.between_brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zab.kafka.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from zab.kafka.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from zab.kafka.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from zab.kafka.messages.fetch import FetchRequest, FetchResponse
from zab.kafka.messages.from_controller import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zab.kafka.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from zab.kafka.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from zab.kafka.messages.handshake import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from zab.kafka.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from zab.kafka.messages.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from zab.kafka.messages.produce import ProduceRequest, ProduceResponse
from zab.kafka.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from zab.kafka.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from zab.kafka.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from zab.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from zab.kafka.primitives import ProtocolError


@attrs.frozen
class Api:
    """One API. Requests and responses have the same versions, and become flexible in the same one."""

    key: ApiKey
    request: type
    response: type

    @property
    def versions(self) -> tuple[int, int]:
        """The versions that can be read and written, both inclusive."""
        found = LAYOUTS[self.request].versions
        assert found is not None
        return found

    def is_flexible(self, version: int) -> bool:
        """Also of versions that are not known: a version that is flexible has no successor that is not."""
        return LAYOUTS[self.request].is_flexible(version)


def _api(request: type, response: type) -> Api:
    of_request, of_response = LAYOUTS[request], LAYOUTS[response]
    assert of_request.key is not None
    assert attrs.evolve(of_request, fields=()) == attrs.evolve(of_response, fields=()), request.__name__
    return Api(ApiKey(of_request.key), request, response)


_ALL: Final = (
    _api(ProduceRequest, ProduceResponse),
    _api(FetchRequest, FetchResponse),
    _api(ListOffsetsRequest, ListOffsetsResponse),
    _api(MetadataRequest, MetadataResponse),
    _api(LeaderAndIsrRequest, LeaderAndIsrResponse),
    _api(StopReplicaRequest, StopReplicaResponse),
    _api(UpdateMetadataRequest, UpdateMetadataResponse),
    _api(ControlledShutdownRequest, ControlledShutdownResponse),
    _api(OffsetCommitRequest, OffsetCommitResponse),
    _api(OffsetFetchRequest, OffsetFetchResponse),
    _api(FindCoordinatorRequest, FindCoordinatorResponse),
    _api(JoinGroupRequest, JoinGroupResponse),
    _api(HeartbeatRequest, HeartbeatResponse),
    _api(LeaveGroupRequest, LeaveGroupResponse),
    _api(SyncGroupRequest, SyncGroupResponse),
    _api(DescribeGroupsRequest, DescribeGroupsResponse),
    _api(ListGroupsRequest, ListGroupsResponse),
    _api(SaslHandshakeRequest, SaslHandshakeResponse),
    _api(ApiVersionsRequest, ApiVersionsResponse),
    _api(CreateTopicsRequest, CreateTopicsResponse),
    _api(DeleteTopicsRequest, DeleteTopicsResponse),
    _api(DeleteRecordsRequest, DeleteRecordsResponse),
    _api(InitProducerIdRequest, InitProducerIdResponse),
    _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    _api(EndTxnRequest, EndTxnResponse),
    _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    _api(DescribeAclsRequest, DescribeAclsResponse),
    _api(CreateAclsRequest, CreateAclsResponse),
    _api(DeleteAclsRequest, DeleteAclsResponse),
    _api(DescribeConfigsRequest, DescribeConfigsResponse),
    _api(AlterConfigsRequest, AlterConfigsResponse),
    _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
    _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
    _api(CreatePartitionsRequest, CreatePartitionsResponse),
    _api(DeleteGroupsRequest, DeleteGroupsResponse),
    _api(ElectLeadersRequest, ElectLeadersResponse),
    _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    _api(OffsetDeleteRequest, OffsetDeleteResponse),
    _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
    _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    _api(AlterPartitionRequest, AlterPartitionResponse),
    _api(DescribeClusterRequest, DescribeClusterResponse),
    _api(DescribeProducersRequest, DescribeProducersResponse),
    _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
    _api(ListTransactionsRequest, ListTransactionsResponse),
    _api(AllocateProducerIdsRequest, AllocateProducerIdsResponse),
    _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
)

APIS: Final[dict[int, Api]] = {api.key: api for api in _ALL}
assert len(APIS) == len(_ALL) == len(ApiKey), "each key has one request and one response"


def api_of(key: int) -> Api:
    """Raises ProtocolError for a key that is not known."""
    api = APIS.get(key)
    if api is None:
        raise ProtocolError(f"API key {key} is not known")
    return api
