"""What clients may do at a whole broker: the permissions that each request needs, and what it is answered without."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.partition.access_lists import (
    ALICE,
    ALTER,
    CLUSTER,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    allow,
    creation,
    forget_all,
    guarded,
    named,
)
from tests.partition.one_broker import OneBroker, a_batch, metadata, produce
from zab.coordination.driver import Connected, Suspended
from zab.kafka.declare import LAYOUTS
from zab.kafka.errors import ErrorCode
from zab.kafka.messages import configs, group_admin, group_offsets, groups, offsets, placement, topics
from zab.kafka.messages import transaction_admin as hanging
from zab.kafka.messages import transactions as transactional
from zab.kafka.messages.acls import CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from zab.kafka.messages.between_brokers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from zab.kafka.messages.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityData,
    QuotaAlteration,
)
from zab.kafka.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.handshake import ApiVersionsRequest
from zab.kafka.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from zab.kafka.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from zab.kafka.primitives import ZERO_UUID
from zab.partition.access.acls import OPERATIONS_OF, Operation, Pattern
from zab.partition.access.authorizer import ALL_OPERATIONS, bits
from zab.partition.guards.guards import guards_of
from zab.partition.guards.parts import free
from zab.partition.requests.configs import BROKER_RESOURCE, TOPIC_RESOURCE

LINES = "offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
DELETE, CREATE = Operation.DELETE, Operation.CREATE
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
FAILED = {TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED, ID_FAILED}

ON_TOPIC = (TOPIC, "t")
ON_GROUP = (GROUP, "g")
ON_ID = (TRANSACTION, "id")
ON_CLUSTER = (CLUSTER, "kafka-cluster")


@pytest.fixture(scope="module")
def rig():
    """A topic; both coordinators are there."""
    rig = guarded(LINES)
    client = rig.client()
    for key_type in (0, 1):
        client.ask(groups.FindCoordinatorRequest(key="g", key_type=key_type), 2)
        assert client.ask(groups.FindCoordinatorRequest(key="g", key_type=key_type), 2).node_id == 1
    rig.create("t")
    return rig


@pytest.fixture(autouse=True)
def no_lists(request):
    """Each test begins without rows."""
    if "rig" in request.fixturenames:
        forget_all(request.getfixturevalue("rig"))


def errors_in(message: Any) -> Iterator[int]:
    for field in attrs.fields(type(message)):
        found = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield found
        for each in found if isinstance(found, tuple) else ():
            if attrs.has(type(each)):
                yield from errors_in(each)


def refusals_in(message: Any) -> set[int]:
    return set(errors_in(message)) & FAILED


# ------------------------------------------------------------------------------------------------------ each request

PARTITION = offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
COMMITTED = group_offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
TXN_COMMITTED = transactional.TxnOffsetCommitRequestPartition(
    partition_index=0, committed_offset=1, committed_metadata=None
)
ANY_ACLS = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
OF_TRANSACTION = {"transactional_id": "id", "producer_id": 1, "producer_epoch": 0}


def fetch(topic="t", **others):
    partition = FetchPartition(partition=0, fetch_offset=0, log_start_offset=-1, partition_max_bytes=1000)
    asked = (FetchTopic(topic=topic, partitions=(partition,), **others),)
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=asked)


def new_topic(name="t"):
    return topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())


def settings(kind, name):
    return configs.DescribeConfigsRequest(
        resources=(configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None),)
    )


def no_change(kind, name):
    resource = configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
    return configs.AlterConfigsRequest(resources=(resource,), validate_only=True)


def no_change_at_all(kind, name):
    resource = configs.IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=())
    return configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)


NEEDS = [
    (produce("t", a_batch(b"x")), 9, [(WRITE, *ON_TOPIC)], TOPIC_FAILED),
    (
        produce("t", a_batch(b"x"), transactional_id="id"),
        9,
        [(WRITE, *ON_ID), (WRITE, *ON_TOPIC)],
        ID_FAILED,
    ),
    (fetch(), 12, [(READ, *ON_TOPIC)], TOPIC_FAILED),
    (metadata("t"), 12, [(DESCRIBE, *ON_TOPIC)], TOPIC_FAILED),
    (
        offsets.ListOffsetsRequest(
            replica_id=-1, topics=(offsets.ListOffsetsTopic(name="t", partitions=(PARTITION,)),)
        ),
        5,
        [(DESCRIBE, *ON_TOPIC)],
        TOPIC_FAILED,
    ),
    (
        offsets.OffsetForLeaderEpochRequest(
            topics=(
                offsets.OffsetForLeaderTopic(
                    topic="t", partitions=(offsets.OffsetForLeaderPartition(partition=0, leader_epoch=0),)
                ),
            )
        ),
        4,
        [(DESCRIBE, *ON_TOPIC)],
        TOPIC_FAILED,
    ),
    (
        offsets.DeleteRecordsRequest(
            topics=(
                offsets.DeleteRecordsTopic(
                    name="t", partitions=(offsets.DeleteRecordsPartition(partition_index=0, offset=0),)
                ),
            ),
            timeout_ms=0,
        ),
        2,
        [(DELETE, *ON_TOPIC)],
        TOPIC_FAILED,
    ),
    (
        hanging.DescribeProducersRequest(topics=(hanging.DescribeProducersTopic(name="t", partition_indexes=(0,)),)),
        0,
        [(READ, *ON_TOPIC)],
        TOPIC_FAILED,
    ),
    (topics.CreateTopicsRequest(topics=(new_topic(),), validate_only=True), 4, [(CREATE, *ON_TOPIC)], TOPIC_FAILED),
    (topics.CreateTopicsRequest(topics=(new_topic(),), validate_only=True), 4, [(CREATE, *ON_CLUSTER)], TOPIC_FAILED),
    (
        topics.CreatePartitionsRequest(
            topics=(topics.CreatePartitionsTopic(name="t", count=2, assignments=None),),
            timeout_ms=0,
            validate_only=True,
        ),
        3,
        [(ALTER, *ON_TOPIC)],
        TOPIC_FAILED,
    ),
    (topics.DeleteTopicsRequest(topic_names=("none",), timeout_ms=0), 5, [(DELETE, TOPIC, "none")], TOPIC_FAILED),
    (
        topics.DeleteTopicsRequest(topics=(topics.DeleteTopicState(name="none", topic_id=ZERO_UUID),), timeout_ms=0),
        6,
        [(DELETE, TOPIC, "none")],
        TOPIC_FAILED,
    ),
    (groups.FindCoordinatorRequest(key="g", key_type=0), 2, [(DESCRIBE, *ON_GROUP)], GROUP_FAILED),
    (groups.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4, [(DESCRIBE, *ON_GROUP)], GROUP_FAILED),
    (groups.FindCoordinatorRequest(key_type=1, coordinator_keys=("id",)), 4, [(DESCRIBE, *ON_ID)], ID_FAILED),
    (
        groups.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=(groups.JoinGroupRequestProtocol(name="range", metadata=b""),),
        ),
        5,
        [(READ, *ON_GROUP)],
        GROUP_FAILED,
    ),
    (
        groups.SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=()),
        3,
        [(READ, *ON_GROUP)],
        GROUP_FAILED,
    ),
    (
        groups.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        3,
        [(READ, *ON_GROUP)],
        GROUP_FAILED,
    ),
    (groups.LeaveGroupRequest(group_id="g", member_id="m"), 1, [(READ, *ON_GROUP)], GROUP_FAILED),
    (
        group_offsets.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=(group_offsets.OffsetCommitRequestTopic(name="t", partitions=(COMMITTED,)),),
        ),
        8,
        [(READ, *ON_GROUP), (READ, *ON_TOPIC)],
        GROUP_FAILED,
    ),
    (
        group_offsets.OffsetFetchRequest(
            group_id="g", topics=(group_offsets.OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
        ),
        7,
        [(DESCRIBE, *ON_GROUP), (DESCRIBE, *ON_TOPIC)],
        GROUP_FAILED,
    ),
    (
        group_offsets.OffsetFetchRequest(
            groups=(
                group_offsets.OffsetFetchRequestGroup(
                    group_id="g", topics=(group_offsets.OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
                ),
            )
        ),
        8,
        [(DESCRIBE, *ON_GROUP), (DESCRIBE, *ON_TOPIC)],
        GROUP_FAILED,
    ),
    (
        group_offsets.OffsetDeleteRequest(
            group_id="g",
            topics=(
                group_offsets.OffsetDeleteRequestTopic(
                    name="t", partitions=(group_offsets.OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        ),
        0,
        [(DELETE, *ON_GROUP), (READ, *ON_TOPIC)],
        GROUP_FAILED,
    ),
    (group_admin.DescribeGroupsRequest(groups=("g",)), 5, [(DESCRIBE, *ON_GROUP)], GROUP_FAILED),
    (
        ConsumerGroupHeartbeatRequest(
            group_id="new",
            member_id="",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        ),
        0,
        [(READ, GROUP, "new"), (DESCRIBE, *ON_TOPIC)],
        GROUP_FAILED,
    ),
    (ConsumerGroupDescribeRequest(group_ids=("none",)), 0, [(DESCRIBE, GROUP, "none")], GROUP_FAILED),
    (group_admin.DeleteGroupsRequest(groups_names=("none",)), 2, [(DELETE, GROUP, "none")], GROUP_FAILED),
    (
        transactional.InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1000),
        4,
        [(WRITE, *ON_ID)],
        ID_FAILED,
    ),
    (
        transactional.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        [(Operation.IDEMPOTENT_WRITE, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
    (
        transactional.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        [(WRITE, TOPIC, "another")],
        CLUSTER_FAILED,
    ),
    (
        transactional.AddPartitionsToTxnRequest(
            **OF_TRANSACTION, topics=(transactional.AddPartitionsToTxnTopic(name="t", partitions=(0,)),)
        ),
        3,
        [(WRITE, *ON_ID), (WRITE, *ON_TOPIC)],
        ID_FAILED,
    ),
    (
        transactional.AddOffsetsToTxnRequest(**OF_TRANSACTION, group_id="g"),
        3,
        [(WRITE, *ON_ID), (READ, *ON_GROUP)],
        ID_FAILED,
    ),
    (transactional.EndTxnRequest(**OF_TRANSACTION, committed=True), 3, [(WRITE, *ON_ID)], ID_FAILED),
    (
        transactional.TxnOffsetCommitRequest(
            **OF_TRANSACTION,
            group_id="g",
            topics=(transactional.TxnOffsetCommitRequestTopic(name="t", partitions=(TXN_COMMITTED,)),),
        ),
        3,
        [(WRITE, *ON_ID), (READ, *ON_GROUP), (READ, *ON_TOPIC)],
        ID_FAILED,
    ),
    *(
        (
            WriteTxnMarkersRequest(
                markers=(
                    WritableTxnMarker(
                        producer_id=1,
                        producer_epoch=0,
                        transaction_result=False,
                        topics=(WritableTxnMarkerTopic(name="none", partition_indexes=(0,)),),
                        coordinator_epoch=0,
                    ),
                )
            ),
            1,
            [(operation, *ON_CLUSTER)],
            CLUSTER_FAILED,
        )
        for operation in (ALTER, Operation.CLUSTER_ACTION)
    ),
    (hanging.DescribeTransactionsRequest(transactional_ids=("id",)), 0, [(DESCRIBE, *ON_ID)], ID_FAILED),
    (settings(TOPIC_RESOURCE, "t"), 4, [(Operation.DESCRIBE_CONFIGS, *ON_TOPIC)], TOPIC_FAILED),
    (settings(BROKER_RESOURCE, "1"), 4, [(Operation.DESCRIBE_CONFIGS, *ON_CLUSTER)], CLUSTER_FAILED),
    (no_change(TOPIC_RESOURCE, "t"), 2, [(Operation.ALTER_CONFIGS, *ON_TOPIC)], TOPIC_FAILED),
    (no_change(BROKER_RESOURCE, "1"), 2, [(Operation.ALTER_CONFIGS, *ON_CLUSTER)], CLUSTER_FAILED),
    (no_change_at_all(TOPIC_RESOURCE, "t"), 1, [(Operation.ALTER_CONFIGS, *ON_TOPIC)], TOPIC_FAILED),
    (no_change_at_all(BROKER_RESOURCE, "1"), 1, [(Operation.ALTER_CONFIGS, *ON_CLUSTER)], CLUSTER_FAILED),
    (
        placement.ElectLeadersRequest(
            topic_partitions=(placement.ElectLeadersTopicPartitions(topic="t", partitions=(0,)),)
        ),
        2,
        [(ALTER, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
    (placement.AlterPartitionReassignmentsRequest(topics=()), 0, [(ALTER, *ON_CLUSTER)], CLUSTER_FAILED),
    (placement.ListPartitionReassignmentsRequest(), 0, [(DESCRIBE, *ON_CLUSTER)], CLUSTER_FAILED),
    (placement.DescribeLogDirsRequest(topics=None), 3, [(DESCRIBE, *ON_CLUSTER)], CLUSTER_FAILED),
    (DescribeUserScramCredentialsRequest(users=None), 0, [(DESCRIBE, *ON_CLUSTER)], CLUSTER_FAILED),
    (
        DescribeClientQuotasRequest(components=(), strict=False),
        1,
        [(Operation.DESCRIBE_CONFIGS, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
    (
        AlterClientQuotasRequest(
            entries=(QuotaAlteration(entity=(EntityData(entity_type="user", entity_name="u"),), ops=()),),
            validate_only=False,
        ),
        1,
        [(Operation.ALTER_CONFIGS, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
    (
        AlterUserScramCredentialsRequest(
            deletions=(ScramCredentialDeletion(name="nobody", mechanism=1),), upsertions=()
        ),
        0,
        [(ALTER, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
    (DescribeAclsRequest(**ANY_ACLS), 3, [(DESCRIBE, *ON_CLUSTER)], CLUSTER_FAILED),
    (CreateAclsRequest(creations=(creation(READ, TOPIC, "x"),)), 3, [(ALTER, *ON_CLUSTER)], CLUSTER_FAILED),
    (
        DeleteAclsRequest(filters=(DeleteAclsFilter(**{**ANY_ACLS, "principal_filter": "User:none"}),)),
        3,
        [(ALTER, *ON_CLUSTER)],
        CLUSTER_FAILED,
    ),
]
LISTS_ONLY = {group_admin.ListGroupsRequest, hanging.ListTransactionsRequest, DescribeClusterRequest}
"""Requests that are never refused: what their client may not know is left out."""


@pytest.mark.parametrize(
    ("body", "version", "needed", "error"),
    NEEDS,
    ids=[f"{type(each[0]).__name__}-{'-'.join(n[0].text for n in each[2])}" for each in NEEDS],
)
def test_a_request_needs_these_permissions_and_no_others(rig, body, version, needed, error):
    client = named(rig)
    assert refusals_in(client.ask(body, version)) == {error}, "without any"
    for at, (operation, type_, name) in enumerate(needed):
        others = [creation(*each) for each in needed[:at] + needed[at + 1 :]]
        for change in (
            creation(operation, type_, f"{name}x" if type_ is not CLUSTER else name, principal=f"{ALICE}x"),
            creation(operation, type_, name, host="10.0.0.2"),
        ):
            allow(rig, *others, change)
            assert refusals_in(client.ask(body, version)), "another one, or elsewhere"
            forget_all(rig)
    allow(rig, *(creation(*each) for each in needed))
    assert not refusals_in(client.ask(body, version))
    operation, type_, name = needed[-1]
    allow(rig, creation(Operation.ALL, type_, name, "User:*", allows=False))
    assert refusals_in(client.ask(body, version)), "a Deny wins"


def test_every_request_has_its_guard_and_its_test():
    tested = {LAYOUTS[type(body)].key for body, *_ in NEEDS} | {LAYOUTS[each].key for each in LISTS_ONLY}
    guards = guards_of(lambda: None)
    login = {17, 18, 36}
    assert {key for key in guards if key not in tested} == login
    assert all(guards[key] is free for key in login)


def test_without_an_authorizer_everybody_may_do_everything_but_change_lists():
    rig = OneBroker(LINES)
    rig.create("t")
    client = named(rig)
    assert not refusals_in(client.ask(produce("t", a_batch(b"x")), 9))
    answer = client.ask(DescribeAclsRequest(**ANY_ACLS), 3)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    [result] = client.ask(CreateAclsRequest(creations=(creation(READ, TOPIC, "x"),)), 3).results
    assert result.error_code == ErrorCode.SECURITY_DISABLED
    [result] = client.ask(DeleteAclsRequest(filters=(DeleteAclsFilter(**ANY_ACLS),)), 3).filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


# ------------------------------------------------------------------------------------------- what is hidden and shown


def test_topics_that_one_may_not_describe_are_hidden(rig):
    client = named(rig)
    everything = MetadataRequest(topics=None)
    assert client.ask(everything, 12).topics == ()
    allow(rig, creation(WRITE, *ON_TOPIC))
    assert [each.name for each in client.ask(everything, 12).topics] == ["t"]
    topic_id = rig.client().ask(metadata("t"), 12).topics[0].topic_id
    by_id = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=topic_id),))
    assert client.ask(by_id, 12).topics[0].name == "t"
    forget_all(rig)
    [told] = client.ask(by_id, 12).topics
    assert (told.error_code, told.name, told.partitions) == (TOPIC_FAILED, None, ())
    # Who asks for one that is not there is told the same as of one that is.
    assert [each.error_code for each in client.ask(metadata("t", "none"), 12).topics] == [TOPIC_FAILED] * 2


def test_a_fetch_by_id_needs_the_permission_for_the_topic_of_that_id(rig):
    topic_id = rig.client().ask(metadata("t"), 12).topics[0].topic_id
    client = named(rig)
    assert refusals_in(client.ask(fetch("", topic_id=topic_id), 13)) == {TOPIC_FAILED}
    allow(rig, creation(READ, *ON_TOPIC))
    assert not set(errors_in(client.ask(fetch("", topic_id=topic_id), 13))) - {0}


def test_a_topic_is_created_on_the_way_by_those_who_may_create_it(rig):
    client = named(rig)
    allow(rig, creation(DESCRIBE, TOPIC, "new-", pattern=Pattern.PREFIXED))
    assert client.ask(metadata("new-1"), 12).topics[0].error_code == TOPIC_FAILED
    assert "new-1" not in rig.broker.image.topics
    allow(rig, creation(CREATE, TOPIC, "new-1"))
    assert client.ask(metadata("new-1"), 12).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert "new-1" in rig.broker.image.topics
    allow(rig, creation(CREATE, *ON_CLUSTER))
    assert client.ask(metadata("new-2"), 12).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    # Who does not allow it is told that there is none.
    asked = metadata("new-3", allow_auto_topic_creation=False)
    assert client.ask(asked, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_one_may_do_is_told_to_those_who_ask(rig):
    allow(rig, creation(READ, *ON_TOPIC), creation(Operation.ALL, *ON_GROUP))
    client = named(rig)
    asked = metadata("t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    answer = client.ask(asked, 8)
    assert answer.topics[0].topic_authorized_operations == bits([READ, DESCRIBE])
    assert answer.cluster_authorized_operations == 0
    [group] = client.ask(group_admin.DescribeGroupsRequest(groups=("g",), include_authorized_operations=True), 5).groups
    assert group.authorized_operations == ALL_OPERATIONS[GROUP] == bits(OPERATIONS_OF[GROUP])
    about_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client.ask(about_cluster, 1).cluster_authorized_operations == 0
    allow(rig, creation(ALTER, *ON_CLUSTER))
    assert client.ask(about_cluster, 1).cluster_authorized_operations == bits([ALTER, DESCRIBE])
    assert client.ask(asked, 8).cluster_authorized_operations == bits([ALTER, DESCRIBE])
    not_asked = client.ask(metadata("t"), 8)
    assert not_asked.topics[0].topic_authorized_operations == -(1 << 31)
    assert not_asked.cluster_authorized_operations == -(1 << 31)


def test_members_are_described_to_those_who_may_describe_their_topics(rig):
    body = ConsumerGroupHeartbeatRequest(
        group_id="assigned",
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert not rig.client().ask(body, 0).error_code
    allow(rig, creation(DESCRIBE, GROUP, "assigned"))
    client = named(rig)
    asked = ConsumerGroupDescribeRequest(group_ids=("assigned",), include_authorized_operations=True)
    [group] = client.ask(asked, 0).groups
    assert (group.error_code, group.members) == (TOPIC_FAILED, ())
    allow(rig, creation(DESCRIBE, *ON_TOPIC))
    [group] = client.ask(asked, 0).groups
    assert (group.error_code, len(group.members)) == (0, 1)
    assert group.authorized_operations == bits([DESCRIBE])


def test_lists_have_what_one_may_describe(rig):
    for group in ("g1", "g2"):
        topic = group_offsets.OffsetCommitRequestTopic(name="t", partitions=(COMMITTED,))
        body = group_offsets.OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
        )
        assert not set(errors_in(rig.client().ask(body, 8))) - {0}
    for name in ("id1", "id2"):
        body = transactional.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        rig.client().ask(body, 4)
    client = named(rig)
    all_groups, all_transactions = (
        group_admin.ListGroupsRequest(),
        hanging.ListTransactionsRequest(state_filters=(), producer_id_filters=()),
    )

    def listed():
        found = {each.group_id for each in client.ask(all_groups, 4).groups}
        return found | {each.transactional_id for each in client.ask(all_transactions, 0).transaction_states}

    assert listed() == set()
    allow(rig, creation(DESCRIBE, GROUP, "g1"), creation(DESCRIBE, TRANSACTION, "id2"))
    assert listed() == {"g1", "id2"}
    allow(rig, creation(DESCRIBE, *ON_CLUSTER))
    assert listed() >= {"g1", "g2", "id2"}
    # Offsets of all topics: without those that it may not describe.
    every = group_offsets.OffsetFetchRequest(
        groups=(group_offsets.OffsetFetchRequestGroup(group_id="g1", topics=None),)
    )
    [found] = client.ask(every, 8).groups
    assert (found.error_code, found.topics) == (0, ())
    one = group_offsets.OffsetFetchRequest(group_id="g1", topics=None)
    assert client.ask(one, 7).topics == ()
    allow(rig, creation(READ, *ON_TOPIC))
    assert [each.name for each in client.ask(every, 8).groups[0].topics] == ["t"]
    assert [each.name for each in client.ask(one, 7).topics] == ["t"]


def test_settings_of_a_new_topic_are_told_to_those_who_may_describe_them(rig):
    client = named(rig)
    allow(rig, creation(CREATE, TOPIC, "fresh"))
    body = topics.CreateTopicsRequest(topics=(new_topic("fresh"),), validate_only=True)
    [result] = client.ask(body, 7).topics
    assert (result.error_code, result.topic_config_error_code, result.num_partitions) == (0, TOPIC_FAILED, -1)
    assert result.configs is None
    allow(rig, creation(Operation.DESCRIBE_CONFIGS, TOPIC, "fresh"))
    [result] = client.ask(body, 7).topics
    assert (result.topic_config_error_code, result.num_partitions) == (0, 1)
    assert result.configs


def test_what_is_refused_of_a_request_leaves_the_rest(rig):
    rig.create("u")
    allow(rig, creation(WRITE, *ON_TOPIC), creation(READ, TOPIC, "t"), creation(DELETE, TOPIC, "t"))
    client = named(rig)
    body = topics.DeleteTopicsRequest(topic_names=("u", "t"), timeout_ms=1000)
    found = {each.name: each.error_code for each in client.ask(body, 5).responses}
    assert found == {"u": TOPIC_FAILED, "t": 0}
    assert set(rig.broker.image.topics) >= {"u"}
    assert "t" not in rig.broker.image.topics
    rig.create("t")
    u_id = rig.client().ask(metadata("u"), 12).topics[0].topic_id
    by_id = topics.DeleteTopicsRequest(topics=(topics.DeleteTopicState(name=None, topic_id=u_id),), timeout_ms=1000)
    [result] = client.ask(by_id, 6).responses
    assert (result.error_code, result.name, result.topic_id) == (TOPIC_FAILED, None, u_id)
    allow(rig, creation(DESCRIBE, TOPIC, "u"))
    [result] = client.ask(by_id, 6).responses
    assert (result.error_code, result.name) == (TOPIC_FAILED, "u")
    partitions = transactional.AddPartitionsToTxnRequest(
        **OF_TRANSACTION,
        topics=tuple(transactional.AddPartitionsToTxnTopic(name=each, partitions=(0,)) for each in ("t", "u")),
    )
    allow(rig, creation(WRITE, *ON_ID))
    answer = client.ask(partitions, 3)
    assert [each.results_by_partition[0].partition_error_code for each in answer.results_by_topic] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        TOPIC_FAILED,
    ]


def test_records_of_a_transaction_need_its_id(rig):
    """Whoever may write to the topic cannot add to the transaction of somebody else."""
    allow(rig, creation(WRITE, *ON_TOPIC))
    client = named(rig)
    batch = a_batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    answer = client.ask(produce("t", batch), 9)
    assert refusals_in(answer) == {ID_FAILED}


def test_a_produce_without_an_answer_closes_the_connection(rig):
    end = rig.replica("t").log.log_end
    client = named(rig)
    client.send(produce("t", a_batch(b"x"), acks=0), 9)
    assert client.is_cut_off()
    allow(rig, creation(WRITE, *ON_TOPIC))
    client = named(rig)
    client.send(produce("t", a_batch(b"x"), acks=0, transactional_id="id"), 9)
    assert client.is_cut_off()
    assert rig.replica("t").log.log_end == end


def test_a_client_is_no_follower(rig):
    allow(rig, creation(Operation.ALL, *ON_CLUSTER), creation(Operation.ALL, *ON_TOPIC))
    body = attrs.evolve(fetch(), replica_id=2)
    assert named(rig).ask(body, 12).error_code == CLUSTER_FAILED


# ------------------------------------------------------------------------------------------------------------- lists


def test_lists_are_described_as_they_were_created(rig):
    rows = (
        creation(READ, TOPIC, "t", host="10.0.0.1"),
        creation(WRITE, TOPIC, "app-", "User:bob", allows=False, pattern=Pattern.PREFIXED),
    )
    allow(rig, *rows)
    client = rig.client()
    every = DescribeAclsRequest(**ANY_ACLS, pattern_type_filter=1)
    resources = client.ask(every, 3).resources
    assert [(each.resource_type, each.resource_name, each.pattern_type) for each in resources] == [
        (TOPIC, "app-", Pattern.PREFIXED),
        (TOPIC, "t", Pattern.LITERAL),
    ]
    [bob], [alice] = (each.acls for each in resources)
    assert (bob.principal, bob.host, bob.operation, bob.permission_type) == ("User:bob", "*", WRITE, 2)
    assert (alice.principal, alice.host, alice.operation, alice.permission_type) == (ALICE, "10.0.0.1", READ, 3)
    # Version 0 knows only literal names.
    assert [each.resource_name for each in client.ask(DescribeAclsRequest(**ANY_ACLS), 0).resources] == ["t"]
    matching = {**ANY_ACLS, "resource_name_filter": "app-1", "pattern_type_filter": 2}
    assert [each.resource_name for each in client.ask(DescribeAclsRequest(**matching), 3).resources] == ["app-"]
    removed = forget_all(rig)
    assert {(each.resource_name, each.principal) for each in removed} == {("t", ALICE), ("app-", "User:bob")}
    assert client.ask(every, 3).resources == ()


def test_lists_survive_a_restart_and_hold_at_once(rig):
    allow(rig, creation(READ, *ON_TOPIC))
    rig.restart()
    client = named(rig)
    assert not refusals_in(client.ask(fetch(), 12))
    forget_all(rig)
    assert refusals_in(client.ask(fetch(), 12)) == {TOPIC_FAILED}


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": 1},
        {"resource_type": 6},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"operation": 0},
        {"permission_type": 1},
        {"principal": "alice"},
        {"resource_name": ""},
        {"resource_type": CLUSTER, "resource_name": "other"},
    ],
)
def test_rows_that_are_none_are_refused_and_the_others_made(rig, change):
    good = creation(READ, *ON_TOPIC)
    results = rig.client().ask(CreateAclsRequest(creations=(attrs.evolve(good, **change), good)), 3).results
    assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert len(forget_all(rig)) == 1


def test_filters_that_are_none_are_refused_and_the_others_done(rig):
    allow(rig, creation(READ, *ON_TOPIC))
    good = DeleteAclsFilter(**{**ANY_ACLS, "principal_filter": ALICE})
    answer = rig.client().ask(DeleteAclsRequest(filters=(attrs.evolve(good, operation=0), good)), 3)
    wrong, right = answer.filter_results
    assert (wrong.error_code, wrong.matching_acls) == (ErrorCode.INVALID_REQUEST, ())
    assert (right.error_code, len(right.matching_acls)) == (0, 1)
    wrong = DescribeAclsRequest(**{**ANY_ACLS, "permission_type": 9})
    assert rig.client().ask(wrong, 3).error_code == ErrorCode.INVALID_REQUEST


# ------------------------------------------------------------------------------------------- the audit log; the start


def test_refusals_are_in_the_audit_log_once_for_each_connection():
    rig = guarded("audit.enable=true\n")
    rig.create("t")
    client = named(rig)
    rig.audit.clear()
    for _ in range(2):
        client.ask(fetch(), 12)
    client.ask(MetadataRequest(topics=None), 12)
    client.ask(produce("t", a_batch(b"x")), 9)
    lines = [line for record in rig.audit for line in record.lines("broker")]
    assert lines == [
        f"user={ALICE}\tip=10.0.0.1\toperation={operation}\tpermission={permission}\tresource=Topic:t\t"
        "reason=no list allows it\tresult=failure"
        for operation, permission in (("fetch", "Read"), ("produce", "Write"))
    ]
    client.ask(CreateAclsRequest(creations=(creation(READ, TOPIC, "x"),)), 3)
    last = next(rig.audit[-1].lines("broker"))
    assert "operation=createAcls\tnames=x\terrors=CLUSTER_AUTHORIZATION_FAILED\tresult=failure" in last


def test_refusals_of_a_connection_have_a_limit(monkeypatch):
    monkeypatch.setattr("zab.partition.requests.permissions.TOLD_MAX", 3)
    rig = guarded("audit.enable=true\n")
    client = named(rig)
    for number in range(10):
        client.ask(fetch(f"t{number}"), 12)
    assert len(rig.audit) == 3


def test_requests_wait_until_the_lists_are_known():
    rig = guarded()
    rig.create("t")
    allow(rig, creation(WRITE, *ON_TOPIC))
    rig.restart(connects=False)
    alice, bob = named(rig), named(rig, "User:bob")
    for client in (alice, bob):
        client.send(produce("t", a_batch(b"x")), 9)
        assert client.taken == b""
        assert not client.is_cut_off()
    assert rig.client().ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).api_keys
    rig.connect()
    assert [refusals_in(answer) for answer in (*alice.answers(), *bob.answers())] == [set(), {TOPIC_FAILED}]


def test_lists_hold_while_the_session_is_lost(rig):
    allow(rig, creation(WRITE, *ON_TOPIC))
    client = named(rig)
    rig.turn(Suspended())
    assert not refusals_in(client.ask(produce("t", a_batch(b"x")), 9))
    assert refusals_in(client.ask(fetch(), 12)) == {TOPIC_FAILED}
    rig.turn(Connected(rig.session))
