"""The znodes as Kafka 3.x writes them, byte by byte; what is newer is ignored, what is malformed is refused."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.kafka.primitives import Uuid, uuid_text
from zab.partition.controller import znodes
from zab.partition.controller.znodes import (
    Assignment,
    Broker,
    MalformedError,
    PartitionState,
    ProducerIdBlock,
    TopicPartition,
    TopicZnode,
)

PARTITION = TopicPartition("t", 0)
ID = "8_iyZkuBTIeIuX96zxvy8w"

WRITTEN = [
    (
        Broker(1, ("PLAINTEXT://h1:9092",), {"PLAINTEXT": "PLAINTEXT"}).encode(5),
        (
            '{"version":5,"host":"h1","port":9092,"endpoints":["PLAINTEXT://h1:9092"],"listener_security_protocol_map":'
            '{"PLAINTEXT":"PLAINTEXT"},"jmx_port":-1,"timestamp":"5","features":{}}'
        ),
    ),
    (
        Broker(1, ("SSL://[::1]:93", "PLAINTEXT://[::1]:92"), {}, rack="r", previous_epoch=-1).encode(5),
        (
            '{"version":5,"host":"::1","port":92,"endpoints":["SSL://[::1]:93","PLAINTEXT://[::1]:92"],'
            '"listener_security_protocol_map":{},"jmx_port":-1,"timestamp":"5","features":{},"rack":"r",'
            '"previous_broker_epoch":-1}'
        ),
    ),
    (znodes.encode_controller(3, 7), '{"version":2,"brokerid":3,"timestamp":"7","kraftControllerEpoch":-1}'),
    (znodes.encode_cluster_id("x"), '{"version":"1","id":"x"}'),
    (
        TopicZnode(ID, {1: Assignment((2, 3)), 0: Assignment((1, 2, 3), (1,), (3,))}).encode(),
        (
            '{"version":3,"topic_id":"8_iyZkuBTIeIuX96zxvy8w","partitions":{"0":[1,2,3],"1":[2,3]},'
            '"adding_replicas":{"0":[1]},"removing_replicas":{"0":[3]}}'
        ),
    ),
    (
        PartitionState(1, 5, (1, 2), 2).encode(),
        '{"version":1,"leader":1,"leader_epoch":5,"controller_epoch":2,"isr":[1,2]}',
    ),
    (
        PartitionState(-1, 5, (1,), 2, True, (2,), (3,)).encode(),
        (
            '{"version":1,"leader":-1,"leader_epoch":5,"controller_epoch":2,"isr":[1],"leader_recovery_state":1,'
            '"elr":[2],"last_known_elr":[3]}'
        ),
    ),
    (znodes.encode_config({"k": "v"}), '{"version":1,"config":{"k":"v"}}'),
    (znodes.encode_config_change("topics/t"), '{"version":2,"entity_path":"topics/t"}'),
    (
        znodes.encode_reassignment({PARTITION: (1, 2)}),
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    ),
    (znodes.encode_partitions([PARTITION]), '{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (ProducerIdBlock(1, 0, 999).encode(), '{"version":1,"broker":1,"block_start":"0","block_end":"999"}'),
]


@pytest.mark.parametrize(("data", "text"), WRITTEN)
def test_znodes_are_written_as_kafka_does(data, text):
    assert data.decode() == text


def test_what_is_written_is_read():
    broker = Broker(1, ("SSL://h:93",), {"SSL": "SSL"}, rack="r", epoch=77, previous_epoch=70)
    assert Broker.decode(1, broker.encode(5), 77) == broker
    topic = TopicZnode(ID, {0: Assignment((1, 2, 3), (1,), (3,)), 1: Assignment((2,))})
    assert TopicZnode.decode("t", topic.encode()) == topic
    state = PartitionState(-1, 5, (1,), 2, True, (2,), (3,), partition_epoch=9)
    assert PartitionState.decode(PARTITION, state.encode(), 9) == state
    block = ProducerIdBlock(1, 1000, 1999)
    assert ProducerIdBlock.decode(block.encode()) == block
    targets = {PARTITION: (1, 2)}
    assert znodes.decode_reassignment(znodes.encode_reassignment(targets)) == targets
    assert znodes.decode_config("/c", znodes.encode_config({"k": "v"})) == {"k": "v"}
    assert znodes.decode_controller(znodes.encode_controller(3, 7)) == 3
    assert znodes.decode_broker_epoch(1, znodes.encode_broker_epoch(2**40)) == 2**40


def test_what_kafka_3_9_1_writes_is_read():
    """Taken from the znodes of a broker of Kafka 3.9.1 with one topic."""
    broker = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:39192"],"rack":"r1","jmx_port":-1,"port":39192,"host":"127.0.0.1",'
        b'"version":5,"timestamp":"1795950303941"}'
    )
    assert Broker.decode(1, broker, 7) == Broker(
        1, ("PLAINTEXT://127.0.0.1:39192",), {"PLAINTEXT": "PLAINTEXT"}, rack="r1", epoch=7
    )
    topic = (
        b'{"partitions":{"0":[1],"1":[1]},"topic_id":"DFbanLq0SzyX0_aDxWP8PA","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}'
    )
    assert TopicZnode.decode("t1", topic) == TopicZnode(
        "DFbanLq0SzyX0_aDxWP8PA", {0: Assignment((1,)), 1: Assignment((1,))}
    )
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    assert PartitionState.decode(PARTITION, state, 0) == PartitionState(1, 0, (1,), 1)
    controller = b'{"version":2,"brokerid":1,"timestamp":"1795950304676","kraftControllerEpoch":-1}'
    assert znodes.decode_controller(controller) == 1
    cluster = b'{"version":"1","id":"8sIkDDQiQp6VYCCaldlpXQ"}'
    assert znodes.decode_cluster_id(cluster) == "8sIkDDQiQp6VYCCaldlpXQ"
    assert znodes.decode_config("/c", b'{"version":1,"config":{"retention.ms":"5000"}}') == {"retention.ms": "5000"}


def test_older_and_newer_writers_are_read():
    old = b'{"version":1,"host":"h","port":92,"jmx_port":-1,"timestamp":"1"}'
    assert Broker.decode(1, old, 5).endpoints == ("PLAINTEXT://h:92",)
    assert Broker.decode(1, old, 5).previous_epoch is None
    first = b'{"version":1,"partitions":{"0":[1]},"from_tomorrow":[{}]}'
    assert TopicZnode.decode("t", first) == TopicZnode(None, {0: Assignment((1,))})
    newer = b'{"version":9,"leader":1,"leader_epoch":5,"controller_epoch":2,"isr":[1],"more":null}'
    assert PartitionState.decode(PARTITION, newer, 3).leader == 1
    assert znodes.decode_config_change("/n", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"
    assert znodes.decode_controller(b'{"version":1,"brokerid":0,"timestamp":"1"}') == 0
    assert ProducerIdBlock.decode(b'{"version":1,"broker":1,"block_start":0,"block_end":999}').last == 999


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"null", b"\xff", b"[" * 5000, b'{"version":3}', b'{"partitions":{}}'),
        b'{"partitions":{"0":[]}}',
        b'{"partitions":{"0":[1,1]}}',
        b'{"partitions":{"0":[-1]}}',
        b'{"partitions":{"0":[true]}}',
        b'{"partitions":{"0":[4294967296]}}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"1":[1]}}',
        b'{"partitions":{"0":"1"}}',
        b'{"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"partitions":{"0":[1]},"topic_id":7}',
        b'{"partitions":{"0":[1]},"adding_replicas":{"0":[2]}}',
        b'{"partitions":{"0":[1]},"removing_replicas":{"0":[1]}}',
        b'{"partitions":{"0":[1,2]},"adding_replicas":{"0":[1]},"removing_replicas":{"0":[1]}}',
        b'{"partitions":{"0":[1]},"adding_replicas":{"0":1}}',
    ],
)
def test_a_malformed_topic_is_refused_with_its_path(data):
    with pytest.raises(MalformedError, match=r"^/brokers/topics/t: .") as refused:
        TopicZnode.decode("t", data)
    assert refused.value.path == "/brokers/topics/t"


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"leader": -2},
            {"leader": None},
            {"leader_epoch": -1},
            {"leader_epoch": 2**31},
            {"isr": None},
            {"isr": [1, 1]},
        ),
        *({"isr": ["1"]}, {"elr": [1]}, {"controller_epoch": 1.5}, {"leader_recovery_state": "1"}),
    ],
)
def test_a_malformed_state_is_refused(change):
    value = {"version": 1, "leader": 1, "leader_epoch": 5, "controller_epoch": 2, "isr": [1], **change}
    with pytest.raises(MalformedError, match=r"^/brokers/topics/t/partitions/0/state: "):
        PartitionState.decode(PARTITION, json.dumps(value).encode(), 0)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"endpoints":["x"]}',
        b'{"endpoints":[1]}',
        b'{"endpoints":["A://b:1"],"rack":3}',
        b'{"host":"h","port":-1}',
    ],
)
def test_a_malformed_broker_is_refused(data):
    with pytest.raises(MalformedError, match=r"^/brokers/ids/4: "):
        Broker.decode(4, data, 1)


KEYS = (
    *("version", "partitions", "topic_id", "adding_replicas", "removing_replicas", "0", "1", "isr", "leader", "elr"),
    *("leader_epoch", "controller_epoch", "endpoints", "host", "port", "config", "topic", "partition", "replicas"),
    *("block_start", "block_end", "broker", "brokerid", "entity_path"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON)
def test_any_json_is_read_or_refused(value):
    data = json.dumps(value).encode()
    for read in (
        lambda: TopicZnode.decode("t", data),
        lambda: PartitionState.decode(PARTITION, data, 0),
        lambda: Broker.decode(1, data, 1),
        lambda: ProducerIdBlock.decode(data),
        lambda: znodes.decode_config("/c", data),
        lambda: znodes.decode_config_change("/c", data),
        lambda: znodes.decode_reassignment(data),
        lambda: znodes.decode_partitions("/p", data),
        lambda: znodes.decode_controller(data),
        lambda: znodes.decode_log_dir_event("/l", data),
    ):
        with suppress(MalformedError):
            read()


def test_ids_of_topics_are_22_characters():
    value = bytes(range(240, 256))
    assert uuid_text(Uuid(value)) == "8PHy8_T19vf4-fr7_P3-_w"
    assert znodes.uuid_bytes("8PHy8_T19vf4-fr7_P3-_w") == value
    with pytest.raises(ValueError, match="uuid"):
        znodes.uuid_bytes("8PHy8_T19vf4-fr7_P3-")


def test_names_in_paths():
    assert znodes.config_path("users", "a b/c*") == "/config/users/a%20b%2Fc%2A"
    assert znodes.config_path("brokers", "<default>") == "/config/brokers/<default>"
    assert znodes.config_path("topics", "a.b_c-1") == "/config/topics/a.b_c-1"


def test_an_assignment_leads_to_its_target_and_back():
    running = Assignment((1, 2)).reassigned_to((3, 1))
    assert running == Assignment((3, 1, 2), (3,), (2,))
    assert (running.target, running.original) == ((3, 1), (1, 2))
    assert running.reassigned_to(running.original) == Assignment((1, 2))
    # One that replaces another keeps the first original.
    assert running.reassigned_to((4,)) == Assignment((4, 1, 2), (4,), (1, 2))
    # The order is the order of preference.
    assert Assignment((1, 2)).reassigned_to((2, 1)) == Assignment((2, 1))
