"""Guards of requests about groups of consumers, and of FindCoordinator.

A group that its client has no permission for is answered GROUP_AUTHORIZATION_FAILED; offsets of a topic that it may not
read, or describe, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Any

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from zab.kafka.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatResponse,
)
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.groups.results import JoinResult, LeaveResult, SyncResult
from zab.partition.guards.parts import REFUSED, changed, leave_out, needs, split
from zab.partition.requests import membership
from zab.partition.requests.group_offsets import GROUPS_SINCE
from zab.partition.requests.groups import NOBODY, OF_GROUP, OF_TRANSACTION, SEVERAL_SINCE
from zab.partition.requests.request import Request

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_KINDS = {
    OF_GROUP: (_GROUP, _FAILED),
    OF_TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


def _group_id(body: Any) -> str:
    return str(body.group_id)


join = needs(
    *(Operation.READ, _GROUP, _group_id),
    lambda request: membership.join_answered(request, JoinResult(error=_FAILED, member_id=request.body.member_id)),
)
sync = needs(
    *(Operation.READ, _GROUP, _group_id),
    lambda request: membership.sync_answered(request, SyncResult(error=_FAILED)),
)
heartbeat = needs(Operation.READ, _GROUP, _group_id, lambda _request: HeartbeatResponse(error_code=_FAILED))
leave = needs(
    *(Operation.READ, _GROUP, _group_id),
    lambda request: membership.leave_answered(request, LeaveResult(error=_FAILED)),
)


def find_coordinator(request: Request) -> bool:
    """Describe on each group or transactional id."""
    body: FindCoordinatorRequest = request.body
    kind = _KINDS.get(body.key_type)
    if kind is None:
        return True
    type_, failed = kind
    if request.version < SEVERAL_SINCE:
        if request.may(Operation.DESCRIBE, type_, body.key):
            return True
        request.answer(
            FindCoordinatorResponse(error_code=failed, error_message=REFUSED, node_id=NOBODY, host="", port=NOBODY)
        )
        return False
    allowed, refused = split(body.coordinator_keys, lambda key: request.may(Operation.DESCRIBE, type_, key))
    added = tuple(
        Coordinator(key=key, node_id=NOBODY, host="", port=NOBODY, error_code=failed, error_message=REFUSED)
        for key in refused
    )
    leave_out(request, "coordinator_keys", allowed, "coordinators", added)
    return True


# -------------------------------------------------------------------------------------------------------------- offsets


def commit_refused(body: Any, error: ErrorCode) -> tuple[OffsetCommitResponseTopic, ...]:
    """This error for all partitions of an OffsetCommit."""
    return tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ),
        )
        for topic in body.topics
    )


def commit(request: Request) -> bool:
    """Read on the group, and on each topic."""
    body: OffsetCommitRequest = request.body
    if not request.may(Operation.READ, _GROUP, body.group_id):
        request.answer(OffsetCommitResponse(topics=commit_refused(body, _FAILED)))
        return False
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.READ, _TOPIC, topic.name))
    leave_out(request, "topics", allowed, "topics", commit_refused(changed(body, topics=refused), _TOPIC_FAILED))
    return True


def delete_offsets(request: Request) -> bool:
    """Delete on the group, Read on each topic."""
    body: OffsetDeleteRequest = request.body
    if not request.may(Operation.DELETE, _GROUP, body.group_id):
        request.answer(OffsetDeleteResponse(error_code=_FAILED, topics=()))
        return False
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.READ, _TOPIC, topic.name))
    added = tuple(
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=_TOPIC_FAILED)
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    leave_out(request, "topics", allowed, "topics", added)
    return True


def fetch_offsets(request: Request) -> bool:
    """Describe on each group, and on each topic. Of all topics, those that it may not describe are left out."""
    return _fetch_of_many(request) if request.version >= GROUPS_SINCE else _fetch_of_one(request)


def _fetch_of_one(request: Request) -> bool:
    body: OffsetFetchRequest = request.body
    is_allowed = request.may(Operation.DESCRIBE, _GROUP, body.group_id)
    wanted = body.topics or ()
    allowed, refused = split(wanted, lambda topic: is_allowed and request.may(Operation.DESCRIBE, _TOPIC, topic.name))
    error = _TOPIC_FAILED if is_allowed else _FAILED
    added = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
                for index in topic.partition_indexes
            ),
        )
        for topic in refused
    )
    if not is_allowed:
        request.answer(OffsetFetchResponse(error_code=_FAILED, topics=added))
        return False
    if body.topics is None:
        request.amend = lambda answer: changed(answer, topics=_described(request, answer.topics))
    else:
        leave_out(request, "topics", allowed, "topics", added)
    return True


def _described(request: Request, topics: tuple[Any, ...]) -> tuple[Any, ...]:
    """The topics that its client may describe."""
    return split(topics, lambda topic: request.may(Operation.DESCRIBE, _TOPIC, topic.name, is_told=False))[0]


def _fetch_of_many(request: Request) -> bool:
    body: OffsetFetchRequest = request.body
    allowed, refused = split(body.groups, lambda group: request.may(Operation.DESCRIBE, _GROUP, group.group_id))
    of_all = {group.group_id for group in allowed if group.topics is None}
    groups, added_to = [], {}
    for group in allowed:
        topics, refused_topics = split(
            group.topics or (), lambda topic: request.may(Operation.DESCRIBE, _TOPIC, topic.name)
        )
        groups.append(group if group.topics is None else changed(group, topics=topics))
        added_to[group.group_id] = tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=-1, metadata="", error_code=_TOPIC_FAILED
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in refused_topics
        )

    def amended(group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if group.error_code:
            return group
        topics = _described(request, group.topics) if group.group_id in of_all else group.topics
        return changed(group, topics=topics + added_to[group.group_id])

    def amend(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        return changed(answer, groups=(*map(amended, answer.groups), *map(_refused_group, refused)))

    request.body, request.amend = changed(body, groups=tuple(groups)), amend
    return True


def _refused_group(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=_FAILED)


# ------------------------------------------------------------------------------------------------------- administration


def describe(request: Request) -> bool:
    """Describe on each group. The answer has what its client may do with it, if that is asked for."""
    body: DescribeGroupsRequest = request.body
    allowed, refused = split(body.groups, lambda group: request.may(Operation.DESCRIBE, _GROUP, group))
    added = tuple(
        DescribedGroup(
            error_code=_FAILED, group_id=group, group_state="", protocol_type="", protocol_data="", members=()
        )
        for group in refused
    )

    def amended(group: DescribedGroup) -> DescribedGroup:
        if group.error_code or not body.include_authorized_operations:
            return group
        return changed(group, authorized_operations=request.operations(_GROUP, group.group_id))

    def amend(answer: DescribeGroupsResponse) -> DescribeGroupsResponse:
        return changed(answer, groups=(*map(amended, answer.groups), *added))

    request.body, request.amend = changed(body, groups=allowed), amend
    return True


def list_groups(request: Request) -> bool:
    """Describe on the cluster, or on each group: the others are left out."""
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):

        def amend(answer: ListGroupsResponse) -> ListGroupsResponse:
            groups, _ = split(
                answer.groups, lambda group: request.may(Operation.DESCRIBE, _GROUP, group.group_id, is_told=False)
            )
            return changed(answer, groups=groups)

        request.amend = amend
    return True


def delete(request: Request) -> bool:
    """Delete on each group."""
    body: DeleteGroupsRequest = request.body
    allowed, refused = split(body.groups_names, lambda group: request.may(Operation.DELETE, _GROUP, group))
    added = tuple(DeletableGroupResult(group_id=group, error_code=_FAILED) for group in refused)
    leave_out(request, "groups_names", allowed, "results", added)
    return True
