"""Consumer groups of one broker without a host: from messages to `__consumer_offsets`, and back after a restart."""

from random import Random

import pytest

from tests.partition.committed_offsets import commit, commit_error, committed, with_offsets
from tests.partition.one_broker import OneBroker
from zab.kafka.coordinator_records import partition_for
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from zab.kafka.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from zab.kafka.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from zab.kafka.messages.topics import DeleteTopicsRequest

LINES = "offsets.topic.num.partitions=3\ngroup.initial.rebalance.delay.ms=0\n"


@pytest.fixture
def rig():
    return with_offsets(OneBroker(LINES))


def join(client, member_id="", *, group="g", version=5):
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"topics"),),
    )
    client.send(request, version)


def member(client, group="g"):
    """A member that is alone in its group: its id, and its generation."""
    join(client, group=group)
    [refused] = client.answers()
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    join(client, refused.member_id, group=group)
    [joined] = client.answers()
    assert (joined.error_code, joined.leader, joined.member_id) == (0, refused.member_id, refused.member_id)
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=(assignment,)
    )
    assert client.ask(request, 3).assignment == b"mine"
    return joined.member_id, joined.generation_id


def test_the_topic_of_offsets_is_created_on_the_way_and_its_coordinator_is_found(rig):
    assert sorted(rig.broker.image.topics["__consumer_offsets"].partitions) == [0, 1, 2]
    client = rig.client()
    several = client.ask(FindCoordinatorRequest(coordinator_keys=("a", "b"), key_type=0), 4).coordinators
    assert [(each.key, each.node_id, each.error_code) for each in several] == [("a", 1, 0), ("b", 1, 0)]
    refused = client.ask(FindCoordinatorRequest(key="t", key_type=2), 2)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_member_joins_commits_and_leaves(rig):
    rig.create("t")
    client = rig.client()
    member_id, generation = member(client)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert client.ask(heartbeat, 3).error_code == 0
    assert committed(client) == [(-1, "")]
    assert commit_error(client.ask(commit(7, member_id, generation), 7)) == 0
    assert committed(client) == [(7, "md")]
    assert committed(client, version=8) == [(7, "md")]
    leave = LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id=member_id),))
    assert [each.error_code for each in client.ask(leave, 4).members] == [0]
    assert client.ask(heartbeat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(client.ask(commit(8, member_id, generation), 7)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_member_makes_the_first_join_again(rig):
    first, second = rig.client(), rig.client()
    member_id, generation = member(first)
    join(second)
    [refused] = second.answers()
    join(second, refused.member_id)
    assert second.answers() == [], "it waits for the first one"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert first.ask(heartbeat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    join(first, member_id)
    [leader], [follower] = first.answers(), second.answers()
    assert leader.generation_id == follower.generation_id == generation + 1
    assert len(leader.members) == 2
    assert follower.members == ()


def test_a_member_that_is_silent_is_removed_when_its_session_is_over(rig):
    client = rig.client()
    member_id, generation = member(client)
    rig.pass_time(9_999)
    describe = DescribeGroupsRequest(groups=("g",))
    assert client.ask(describe, 5).groups[0].group_state == "Stable"
    rig.pass_time(2)
    assert client.ask(describe, 5).groups[0].group_state == "Empty"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert client.ask(heartbeat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_answered_and_visible_when_it_is_stored(rig):
    rig.create("t")
    client, other = rig.client(), rig.client()
    rig.holds = True
    client.send(commit(5), 7)
    assert client.answers() == []
    assert committed(other) == [(-1, "")]
    rig.let_go()
    [answer] = client.answers()
    assert commit_error(answer) == 0
    assert committed(other) == [(5, "md")]


def test_a_commit_that_is_not_stored_in_time_is_told_so_and_may_count_later(rig):
    rig.create("t")
    client = rig.client()
    rig.holds = True
    client.send(commit(5), 7)
    rig.pass_time(5_001)
    [answer] = client.answers()
    assert commit_error(answer) == ErrorCode.REQUEST_TIMED_OUT
    rig.let_go()
    assert committed(client) == [(5, "md")]


@pytest.mark.parametrize("crashes", [None, Random(1)])
def test_offsets_and_generations_survive_a_restart(rig, crashes):
    rig.create("t")
    client = rig.client()
    member_id, generation = member(client)
    for offset in (3, 9):
        assert commit_error(client.ask(commit(offset, member_id, generation), 7)) == 0
    assert commit_error(client.ask(commit(4, group="other"), 7)) == 0
    rig.restart(crashes=crashes)
    client = rig.client()
    assert committed(client) == [(9, "md")]
    assert committed(client, "other") == [(4, "md")]
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert client.ask(heartbeat, 3).error_code == 0


def test_a_group_is_described_listed_and_deleted(rig):
    rig.create("t")
    client = rig.client()
    member_id, generation = member(client)
    [group] = client.ask(DescribeGroupsRequest(groups=("g",)), 5).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    [described] = group.members
    assert (described.client_id, described.client_host, described.member_assignment) == ("test", "/10.0.0.1", b"mine")
    listed = client.ask(ListGroupsRequest(), 5).groups
    assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [("g", "Stable", "classic")]
    delete = DeleteGroupsRequest(groups_names=("g", "nobody"))
    errors = {each.group_id: each.error_code for each in client.ask(delete, 2).results}
    assert errors == {"g": ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert commit_error(client.ask(commit(1, member_id, generation), 7)) == 0
    client.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 2)
    asked = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    answer = client.ask(OffsetDeleteRequest(group_id="g", topics=(asked,)), 0)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert committed(client) == [(-1, "")]
    delete = DeleteGroupsRequest(groups_names=("g",))
    gone = [each.error_code for each in client.ask(delete, 2).results]
    assert gone == [ErrorCode.GROUP_ID_NOT_FOUND], "it goes with its last offset"
    assert commit_error(client.ask(commit(1), 7)) == 0
    assert [each.error_code for each in client.ask(delete, 2).results] == [0]
    assert client.ask(ListGroupsRequest(), 5).groups == ()


def test_offsets_of_a_topic_go_with_it(rig):
    rig.create("t")
    client = rig.client()
    assert commit_error(client.ask(commit(5), 7)) == 0
    client.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 5)
    rig.create("t")
    assert committed(client) == [(-1, "")]


def test_a_commit_for_a_topic_that_is_not_there_is_refused(rig):
    answer = rig.client().ask(commit(5, topic="nobody"), 7)
    assert commit_error(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_group_whose_log_cannot_be_read_is_not_available(rig):
    rig.create("t")
    assert commit_error(rig.client().ask(commit(5), 7)) == 0
    number = partition_for("g", 3)
    rig.stop()
    [path] = [
        f"__consumer_offsets-{number}/{name}"
        for name in rig.disk.list(f"__consumer_offsets-{number}")
        if name.endswith(".log")
    ]
    rig.disk.corrupt(path, 80, b"\xff" * 10)
    rig._begin()
    client = rig.client()
    asked = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),))
    assert client.ask(asked, 7).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert any("cannot be loaded" in text for text in rig.reports)


def test_who_leads_again_in_a_new_epoch_loads_again(rig):
    rig.create("t")
    client = rig.client()
    assert commit_error(client.ask(commit(5), 7)) == 0
    for number in range(3):
        rig.begin_epoch("__consumer_offsets", number)
    assert committed(client) == [(5, "md")]
    assert commit_error(client.ask(commit(6), 7)) == 0
    assert committed(client) == [(6, "md")]
