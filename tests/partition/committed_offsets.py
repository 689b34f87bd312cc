"""Offsets of a group, as a client of one whole broker commits and fetches them."""

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from zab.kafka.messages.groups import FindCoordinatorRequest


def with_offsets(rig):
    """The topic of offsets is there, and its partitions are loaded."""
    client = rig.client()
    found = client.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
    if found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        found = client.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "host", 9092)
    return rig


def commit(offset, member_id="", generation=-1, *, group="g", topic="t"):
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="md")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=(asked,)),),
    )


def committed(client, group="g", version=7):
    topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    if version >= 8:
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        [answer] = client.ask(OffsetFetchRequest(groups=(asked,)), version).groups
        return [(each.committed_offset, each.metadata) for topic in answer.topics for each in topic.partitions]
    [topic] = client.ask(OffsetFetchRequest(group_id=group, topics=topics), version).topics
    return [(each.committed_offset, each.metadata) for each in topic.partitions]


def commit_error(answer):
    [topic] = answer.topics
    return topic.partitions[0].error_code
