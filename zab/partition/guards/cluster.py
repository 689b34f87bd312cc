"""Guards of requests about the cluster as a whole: settings, placement, users, access lists.

Without the permission the answer is CLUSTER_AUTHORIZATION_FAILED; for the settings of a topic,
TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.acls import (
    AclCreationResult,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsResponse,
    DescribeAclsResponse,
)
from zab.kafka.messages.client_quotas import (
    AlterClientQuotasResponse,
    AlteredQuotas,
    DescribeClientQuotasResponse,
)
from zab.kafka.messages.configs import (
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResult,
)
from zab.kafka.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    ReplicaElectionResult,
)
from zab.kafka.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResponse,
)
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.guards.parts import REFUSED, changed, leave_out, needs_cluster, split
from zab.partition.requests.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from zab.partition.requests.request import Request

_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_SETTINGS_OF = {
    TOPIC_RESOURCE: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    BROKER_RESOURCE: (ResourceType.CLUSTER, _FAILED),
}


def describe_cluster(request: Request) -> bool:
    """Free. Who has Describe on the cluster is told what it may do with it, if it asks."""
    body: DescribeClusterRequest = request.body
    if body.include_cluster_authorized_operations:

        def amend(answer: DescribeClusterResponse) -> DescribeClusterResponse:
            return changed(answer, cluster_authorized_operations=cluster_operations(request))

        request.amend = amend
    return True


def cluster_operations(request: Request) -> int:
    """What a client may do with the cluster, as Kafka's bits; 0 if it may not know."""
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):
        return 0
    return request.operations(ResourceType.CLUSTER, CLUSTER_NAME)


# ------------------------------------------------------------------------------------------------------------- settings


def _may_settings(request: Request, operation: Operation) -> Callable[[Any], bool]:
    """Whether it may do this with the settings of a resource. Those of other types are refused by the handler."""

    def may(resource: Any) -> bool:
        if resource.resource_type not in _SETTINGS_OF:
            return True
        type_, _ = _SETTINGS_OF[resource.resource_type]
        name = resource.resource_name if type_ is ResourceType.TOPIC else CLUSTER_NAME
        return request.may(operation, type_, name)

    return may


def describe_configs(request: Request) -> bool:
    """DescribeConfigs on each topic; for brokers, on the cluster."""
    body: DescribeConfigsRequest = request.body
    allowed, refused = split(body.resources, _may_settings(request, Operation.DESCRIBE_CONFIGS))
    added = tuple(
        DescribeConfigsResult(
            error_code=_SETTINGS_OF[each.resource_type][1],
            error_message=REFUSED,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            configs=(),
        )
        for each in refused
    )
    leave_out(request, "resources", allowed, "results", added)
    return True


def alter_configs(request: Request) -> bool:
    """AlterConfigs on each topic; for brokers, on the cluster. Also of IncrementalAlterConfigs."""
    allowed, refused = split(request.body.resources, _may_settings(request, Operation.ALTER_CONFIGS))
    added = tuple(
        AlterConfigsResourceResponse(
            error_code=_SETTINGS_OF[each.resource_type][1],
            error_message=REFUSED,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in refused
    )
    leave_out(request, "resources", allowed, "responses", added)
    return True


# ------------------------------------------------------------------------------------------------------------ placement


def _elect_refused(request: Request) -> ElectLeadersResponse:
    body: ElectLeadersRequest = request.body
    return ElectLeadersResponse(
        error_code=_FAILED,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    ElectLeadersPartitionResult(partition_id=index, error_code=_FAILED, error_message=REFUSED)
                    for index in topic.partitions
                ),
            )
            for topic in body.topic_partitions or ()
        ),
    )


elect_leaders = needs_cluster(Operation.ALTER, _elect_refused)
reassign = needs_cluster(
    Operation.ALTER,
    lambda _request: AlterPartitionReassignmentsResponse(error_code=_FAILED, error_message=REFUSED, responses=()),
)
list_reassignments = needs_cluster(
    Operation.DESCRIBE,
    lambda _request: ListPartitionReassignmentsResponse(error_code=_FAILED, error_message=REFUSED, topics=()),
)
describe_log_dirs = needs_cluster(
    Operation.DESCRIBE, lambda _request: DescribeLogDirsResponse(error_code=_FAILED, results=())
)


# ---------------------------------------------------------------------------------------------------------------- users


def _alter_users_refused(request: Request) -> AlterUserScramCredentialsResponse:
    body: AlterUserScramCredentialsRequest = request.body
    names = dict.fromkeys([*(each.name for each in body.deletions), *(each.name for each in body.upsertions)])
    return AlterUserScramCredentialsResponse(
        throttle_time_ms=0,
        results=tuple(
            AlterUserScramCredentialsResult(user=name, error_code=_FAILED, error_message=REFUSED) for name in names
        ),
    )


alter_users = needs_cluster(Operation.ALTER, _alter_users_refused)
describe_users = needs_cluster(
    Operation.DESCRIBE,
    lambda _request: DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=_FAILED, error_message=REFUSED, results=()
    ),
)

# --------------------------------------------------------------------------------------------------------------- quotas

describe_quotas = needs_cluster(
    Operation.DESCRIBE_CONFIGS,
    lambda _request: DescribeClientQuotasResponse(error_code=_FAILED, error_message=REFUSED, entries=None),
)
alter_quotas = needs_cluster(
    Operation.ALTER_CONFIGS,
    lambda request: AlterClientQuotasResponse(
        entries=tuple(
            AlteredQuotas(error_code=_FAILED, error_message=REFUSED, entity=each.entity)
            for each in request.body.entries
        )
    ),
)

# --------------------------------------------------------------------------------------------------------- access lists

describe_acls = needs_cluster(
    Operation.DESCRIBE,
    lambda _request: DescribeAclsResponse(error_code=_FAILED, error_message=REFUSED, resources=()),
)
create_acls = needs_cluster(
    Operation.ALTER,
    lambda request: CreateAclsResponse(
        results=tuple(AclCreationResult(error_code=_FAILED, error_message=REFUSED) for _ in request.body.creations)
    ),
)
delete_acls = needs_cluster(
    Operation.ALTER,
    lambda request: DeleteAclsResponse(
        filter_results=tuple(
            DeleteAclsFilterResult(error_code=_FAILED, error_message=REFUSED, matching_acls=())
            for _ in request.body.filters
        )
    ),
)
