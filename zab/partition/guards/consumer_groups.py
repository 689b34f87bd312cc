"""Guards of requests about groups whose partitions the coordinator assigns (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)
from zab.partition.access.acls import Operation, ResourceType
from zab.partition.guards.parts import REFUSED, changed, split
from zab.partition.requests.request import Request

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def heartbeat(request: Request) -> bool:
    """Read on the group, Describe on each topic that it names."""
    body: ConsumerGroupHeartbeatRequest = request.body
    names = body.subscribed_topic_names or ()
    error = ErrorCode.NONE
    if not request.may(Operation.READ, _GROUP, body.group_id):
        error = _FAILED
    elif not all(request.may(Operation.DESCRIBE, _TOPIC, name) for name in names):
        error = _TOPIC_FAILED
    if error is not ErrorCode.NONE:
        request.answer(
            ConsumerGroupHeartbeatResponse(
                error_code=error, error_message=REFUSED, member_epoch=0, heartbeat_interval_ms=0
            )
        )
    return error is ErrorCode.NONE


def describe(request: Request) -> bool:
    """Describe on each group, and on each topic of its members: otherwise the members are not told."""
    body: ConsumerGroupDescribeRequest = request.body
    allowed, refused = split(body.group_ids, lambda group: request.may(Operation.DESCRIBE, _GROUP, group))
    added = tuple(_refused(group, _FAILED) for group in refused)

    def amended(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
        if group.error_code:
            return group
        if not all(request.may(Operation.DESCRIBE, _TOPIC, name) for name in dict.fromkeys(_topics_of(group))):
            return _refused(group.group_id, _TOPIC_FAILED)
        if body.include_authorized_operations:
            return changed(group, authorized_operations=request.operations(_GROUP, group.group_id))
        return group

    def amend(answer: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        return changed(answer, groups=(*map(amended, answer.groups), *added))

    request.body, request.amend = changed(body, group_ids=allowed), amend
    return True


def _topics_of(group: DescribedConsumerGroup) -> Iterator[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        for assigned in (member.assignment, member.target_assignment):
            for topic in assigned.topic_partitions:
                yield topic.topic_name


def _refused(group: str, error: ErrorCode) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        error_code=error,
        error_message=REFUSED,
        group_id=group,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
