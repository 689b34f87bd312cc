"""Metadata and DescribeCluster, from an image."""

from types import SimpleNamespace

import pytest

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from zab.kafka.primitives import ZERO_UUID, Uuid
from zab.partition.image.cluster_image import Broker, ClusterImage, Topic
from zab.partition.image.partition_state import NO_LEADER, PartitionState
from zab.partition.meters.meters import Meters
from zab.partition.requests.connection import ClientConnection, Place
from zab.partition.requests.metadata import MetadataRequests
from zab.partition.requests.request import Request
from zab.partition.settings.listeners import Endpoint
from zab.partition.settings.topic_names import collide, is_valid
from zab.wire.frames import FrameReader

ID = Uuid(b"i" * 16)
OTHER_ID = Uuid(b"o" * 16)


def a_broker(number, *listeners, rack=None):
    endpoints = {name: Endpoint(name, f"host{number}", port) for name, port in listeners}
    return Broker(id=number, epoch=100 + number, endpoints=endpoints, rack=rack)


def a_state(leader, replicas=(1, 2), isr=(1,)):
    return PartitionState(leader=leader, leader_epoch=4, partition_epoch=0, isr=isr, replicas=replicas)


IMAGE = ClusterImage(cluster_id="cluster", controller=2).changed(
    brokers={1: a_broker(1, ("A", 11), ("B", 12), rack="r"), 2: a_broker(2, ("A", 21))},
    topics=[
        Topic(name="t", id=ID, partitions={1: a_state(2), 0: a_state(1, (1, 3))}),
        Topic(name="__consumer_offsets", id=OTHER_ID, partitions={0: a_state(NO_LEADER)}),
    ],
)


def asking(*names, **others):
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names), **others)


def requests(created=None):
    return MetadataRequests(lambda: IMAGE, None if created is None else created.append)


def answered(body, version, listener, created=None):
    connection = ClientConnection(1, "10.0.0.1", 1, listener, FrameReader(1000))
    header, meters = RequestHeader(ApiKey.METADATA, version, 1, "test"), Meters()
    meter = meters.came(ApiKey.METADATA, version, 0, is_of_broker=False)
    request = Request(connection, header, body, Place(), {}, meters, meter, 0)
    return requests(created).answer(request)


def test_clients_are_told_the_addresses_of_their_listener():
    answer = answered(asking("t"), 12, "A")
    assert [(each.node_id, each.host, each.port, each.rack) for each in answer.brokers] == [
        (1, "host1", 11, "r"),
        (2, "host2", 21, None),
    ]
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 2)
    [topic] = answer.topics
    first, second = topic.partitions
    assert (topic.name, topic.topic_id, topic.error_code, topic.is_internal) == ("t", ID, 0, False)
    assert (first.partition_index, first.leader_id, first.leader_epoch, first.error_code) == (0, 1, 4, 0)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ((1, 3), (1,), (3,))
    assert second.leader_id == 2


def test_a_leader_that_does_not_listen_there_is_none():
    answer = answered(asking("t"), 12, "B")
    assert [each.node_id for each in answer.brokers] == [1]
    assert [(each.leader_id, each.error_code) for each in answer.topics[0].partitions] == [
        (1, ErrorCode.NONE),
        (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE),
    ]


def test_all_topics_or_none():
    assert {each.name for each in answered(MetadataRequest(topics=None), 1, "A").topics} == set(IMAGE.topics)
    assert answered(MetadataRequest(topics=()), 1, "A").topics == ()
    answer = answered(MetadataRequest(topics=()), 0, "A")
    assert [(each.name, each.is_internal) for each in answer.topics] == [("t", False), ("__consumer_offsets", True)]
    assert answer.topics[1].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("asked", "version", "error"),
    [
        (MetadataRequestTopic(name=None, topic_id=ID), 12, ErrorCode.NONE),
        (MetadataRequestTopic(name="", topic_id=ID), 12, ErrorCode.NONE),
        (MetadataRequestTopic(name=None, topic_id=Uuid(b"?" * 16)), 12, ErrorCode.UNKNOWN_TOPIC_ID),
        (MetadataRequestTopic(name=None, topic_id=ID), 11, ErrorCode.INVALID_REQUEST),
        (MetadataRequestTopic(name="t", topic_id=Uuid(b"?" * 16)), 10, ErrorCode.NONE),
        (MetadataRequestTopic(name="a/b", topic_id=ZERO_UUID), 12, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (MetadataRequestTopic(name="new", topic_id=ZERO_UUID), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_a_topic_is_asked_for_by(asked, version, error):
    [topic] = answered(MetadataRequest(topics=(asked,)), version, "A").topics
    assert topic.error_code == error


def test_a_topic_is_created_on_the_way_where_broker_and_client_want_it():
    created = []
    [topic] = answered(asking("new"), 12, "A", created).topics
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    answered(asking("refused", allow_auto_topic_creation=False), 12, "A", created)
    answered(asking("a/b"), 12, "A", created)
    assert created == ["new"]


def test_administrators_ask_for_the_brokers():
    answer = requests().description(DescribeClusterRequest(include_cluster_authorized_operations=False), "A")
    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 11), (2, 21)]
    wrong = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    assert requests().description(wrong, "A").error_code == ErrorCode.INVALID_REQUEST


def test_an_image_forgets_and_replaces_topics():
    image = IMAGE.changed(topics=[Topic(name="t", id=OTHER_ID, partitions={})], gone=["__consumer_offsets"])
    assert set(image.topics) == {"t"}
    assert image.topic_of(OTHER_ID) is image.topics["t"]
    assert image.topic_of(ID) is None
    assert IMAGE.topic_of(ID) is IMAGE.topics["t"], "an image never changes"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "é", "a" * 250, "a\n"])
def test_names_that_no_topic_may_have(name):
    assert not is_valid(name)


def test_names_that_would_be_taken_for_each_other():
    assert is_valid("a.b_c-D9")
    assert is_valid("a" * 249)
    assert collide("a.b", "a_b")
    assert not collide("a.b", "a.b")
    assert not collide("a.b", "a.c")


def test_a_broker_that_was_not_told_of_any_broker_sends_clients_elsewhere():
    """An answer without brokers had librdkafka forget those that it knew, and wait for ever."""
    closed = []
    asked = SimpleNamespace(close=closed.append)
    untold = MetadataRequests(lambda: ClusterImage(cluster_id="cluster", controller=2), None)
    untold.metadata(asked)
    untold.describe_cluster(asked)
    assert closed == ["this broker does not know the cluster yet"] * 2
