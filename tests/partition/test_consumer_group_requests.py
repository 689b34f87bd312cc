"""Groups of KIP-848 at whole brokers without a host: messages, features, restarts, another coordinator."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.one_broker import OneBroker
from tests.partition.several_brokers import SeveralBrokers
from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupTopicPartitions,
)
from zab.kafka.messages.group_admin import ListGroupsRequest
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.handshake import ApiVersionsRequest
from zab.kafka.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic, DeleteTopicsRequest

LINES = "offsets.topic.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"


@pytest.fixture
def rig():
    """Its topic of offsets is there."""
    rig = OneBroker(LINES)
    for _ in range(2):
        found = rig.client().ask(FindCoordinatorRequest(key="g", key_type=0), 2)
    assert found.error_code == 0
    return rig


def commit_error(client, offset, member_id, epoch, version=9):
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name="t", partitions=(asked,)),)
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics)
    [topic] = client.ask(request, version).topics
    return topic.partitions[0].error_code


def join(client, member_id, *topics, group="g", version=1, **said):
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics or ("t",),
        topic_partitions=(),
        **said,
    )
    return client.ask(request, version)


def beat(client, member_id, epoch, owned=None, group="g"):
    """`owned`: partitions by topic id."""
    topics = None
    if owned is not None:
        topics = tuple(ConsumerGroupTopicPartitions(topic_id=each, partitions=owned[each]) for each in owned)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, topic_partitions=topics
    )
    return client.ask(request, 1)


def assigned(answer):
    if answer.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


def asked_versions(client, version):
    return client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)


def test_two_members_share_a_topic(rig):
    topic_id = rig.create("t", 4)
    first, second = rig.client(), rig.client()
    joined = join(first, "a")
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "a", 1)
    assert joined.heartbeat_interval_ms == 5000
    assert assigned(joined) == {topic_id: (0, 1, 2, 3)}
    waits = join(second, "b")
    assert (waits.member_epoch, assigned(waits)) == (2, {})
    told = beat(first, "a", 1, {topic_id: (0, 1, 2, 3)})
    assert (told.member_epoch, assigned(told)) == (1, {topic_id: (0, 1)})
    assert assigned(beat(second, "b", 2)) is None
    gave = beat(first, "a", 1, {topic_id: (0, 1)})
    assert (gave.member_epoch, assigned(gave)) == (2, None)
    assert assigned(beat(second, "b", 2)) == {topic_id: (2, 3)}


def test_version_0_gives_out_ids(rig):
    rig.create("t")
    first, second = (join(rig.client(), "", version=0).member_id for _ in range(2))
    assert first
    assert first != second
    refused = join(rig.client(), "")
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    assert join(rig.client(), "a", group="").error_code == ErrorCode.INVALID_REQUEST


def test_a_group_is_described_and_listed(rig):
    topic_id = rig.create("t", 2)
    client = rig.client()
    join(client, "a", "t", "not-there", instance_id="i", rack_id="r", server_assignor="range")
    found, missing = client.ask(ConsumerGroupDescribeRequest(group_ids=("g", "no")), 1).groups
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
    assert found.assignor_name == "range"
    [member] = found.members
    assert (member.instance_id, member.rack_id, member.member_epoch, member.member_type) == ("i", "r", 1, 1)
    assert (member.client_id, member.client_host) == ("test", "/10.0.0.1")
    assert member.subscribed_topic_names == ("not-there", "t")
    [partitions] = member.assignment.topic_partitions
    assert (partitions.topic_id, partitions.topic_name, partitions.partitions) == (topic_id, "t", (0, 1))
    assert member.target_assignment == member.assignment
    [listed] = client.ask(ListGroupsRequest(types_filter=("consumer",)), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("g", "consumer", "consumer")
    assert client.ask(ListGroupsRequest(types_filter=("classic",)), 5).groups == ()


def test_members_hear_of_topics_that_grow_and_go(rig):
    topic_id = rig.create("t", 1)
    client = rig.client()
    join(client, "a", "t", "u")
    more = CreatePartitionsTopic(name="t", count=2, assignments=None)
    grown = CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=False)
    assert client.ask(grown, 3).results[0].error_code == 0
    other_id = rig.create("u", 1)
    told = beat(client, "a", 1)
    assert (told.member_epoch, assigned(told)) == (2, {topic_id: (0, 1), other_id: (0,)})
    assert client.ask(DeleteTopicsRequest(topic_names=("u",), timeout_ms=1000), 5).responses[0].error_code == 0
    told = beat(client, "a", 2, {topic_id: (0, 1), other_id: (0,)})
    assert (told.member_epoch, assigned(told)) == (2, {topic_id: (0, 1)})
    assert beat(client, "a", 2, {topic_id: (0, 1)}).member_epoch == 3


@pytest.mark.parametrize("crashes", [None, Random(1)])
def test_a_group_survives_a_restart(rig, crashes):
    topic_id = rig.create("t", 2)
    client = rig.client()
    join(client, "a")
    assert commit_error(client, 7, "a", 1) == 0
    assert commit_error(client, 8, "a", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit_error(client, 8, "a", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    rig.restart(crashes=crashes)
    client = rig.client()
    told = beat(client, "a", 1, {topic_id: (0, 1)})
    assert (told.error_code, told.member_epoch) == (0, 1)
    asked = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=1, topics=None)
    [group] = client.ask(OffsetFetchRequest(groups=(asked,)), 9).groups
    assert [each.committed_offset for topic in group.topics for each in topic.partitions] == [7]
    stale = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=0, topics=None)
    [group] = client.ask(OffsetFetchRequest(groups=(stale,)), 9).groups
    assert group.error_code == ErrorCode.STALE_MEMBER_EPOCH
    rig.pass_time(45_001)
    assert beat(rig.client(), "a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_is_answered_when_it_is_stored(rig):
    rig.create("t")
    client = rig.client()
    rig.holds = True
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    client.send(request, 1)
    assert client.answers() == []
    rig.let_go()
    [answer] = client.answers()
    assert answer.member_epoch == 1


def test_another_broker_coordinates_the_group_with_what_it_had():
    rig = SeveralBrokers(lines=LINES)
    rig.create("t")
    client = rig.brokers[1].client()
    client.send(FindCoordinatorRequest(key="g", key_type=0), 2)
    rig.run()
    client.answers()
    rig.pass_time(1000)
    [leader] = [
        each for each, one in rig.brokers.items() if (found := one.replica("__consumer_offsets")) and found.leader
    ]
    client = rig.brokers[leader].client()
    epoch = _answered(rig, client, _a_join("a")).member_epoch
    assert epoch == 1
    rig.crash(leader)
    rig.pass_time(10_000)
    [leader] = [
        each for each, one in rig.brokers.items() if (found := one.replica("__consumer_offsets")) and found.leader
    ]
    told = _answered(
        rig,
        rig.brokers[leader].client(),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1),
    )
    assert (told.error_code, told.member_epoch) == (0, 1)


def _a_join(member_id):
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )


def _answered(rig, client, request):
    client.send(request, 1)
    for _ in range(20):
        rig.pass_time(500)
        if answers := client.answers():
            return answers[0]
    raise AssertionError("no answer")


def test_the_feature_is_announced_where_the_protocol_is_served(rig):
    answer = asked_versions(rig.client(), 4)
    assert {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE} <= {e.api_key for e in answer.api_keys}
    assert [(e.name, e.min_version, e.max_version) for e in answer.supported_features] == [("group.version", 0, 1)]
    assert [(e.name, e.max_version_level) for e in answer.finalized_features] == [("group.version", 1)]
    older = asked_versions(rig.client(), 3)
    assert older.supported_features == ()
    assert len(older.finalized_features) == 1


def test_the_protocol_can_be_left_out():
    rig = OneBroker(f"{LINES}group.coordinator.rebalance.protocols=classic\n")
    answer = asked_versions(rig.client(), 4)
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in {each.api_key for each in answer.api_keys}
    assert (answer.supported_features, answer.finalized_features) == ((), ())
    client = rig.client()
    client.send(_a_join("a"), 1)
    assert client.is_cut_off()
