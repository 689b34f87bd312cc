"""One broker without a host: what producers and consumers ask, and what they are told, also after a restart."""

from collections import deque
from random import Random

import attrs
import pytest

from tests.partition.one_broker import WALL_MS, OneBroker, a_batch, metadata, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.handshake import ApiVersionsRequest
from zab.kafka.messages.metadata import MetadataRequest
from zab.kafka.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from zab.kafka.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from zab.kafka.messages.transactions import InitProducerIdRequest
from zab.kafka.primitives import Uuid
from zab.partition.controller.effects import PartitionStates, ToBroker
from zab.partition.records.record import decode_records
from zab.partition.requests.connection import HELD_BYTES_MAX, WAITING_MAX
from zab.partition.requests.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from zab.wire.frames import frame


def fetch(topic, offset, *, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, version_of_topic=None, **others):
    partition = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=others.pop("partition_max_bytes", 1 << 20),
        current_leader_epoch=others.pop("current_leader_epoch", -1),
        last_fetched_epoch=others.pop("last_fetched_epoch", -1),
    )
    named = {"topic_id": version_of_topic} if version_of_topic is not None else {"topic": topic}
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(FetchTopic(partitions=(partition,), **named),),
        **others,
    )


def values_of(data):
    """The values of all batches that a fetch gave."""
    values, position = [], 0
    records = bytes(data.records or b"")
    while position < len(records):
        values += [record.value for record in decode_records(records, position)]
        position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
    return values


def produced(answer):
    [topic] = answer.responses
    [partition] = topic.partition_responses
    return partition


def fetched(answer):
    assert not answer.error_code
    [topic] = answer.responses
    [partition] = topic.partitions
    return partition


def offsets(client, topic, timestamp, version=7, **others):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),), **others)
    [topic_answer] = client.ask(request, version).topics
    return topic_answer.partitions[0]


# ------------------------------------------------------------------------------------------------- produce and fetch


def test_what_is_produced_is_fetched_with_its_offsets():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    answer = produced(client.ask(produce("t", a_batch(b"1", b"2")), 9))
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 0, 0)
    assert produced(client.ask(produce("t", a_batch(b"3")), 9)).base_offset == 2
    data = fetched(client.ask(fetch("t", 0), 12))
    assert (values_of(data), data.high_watermark, data.log_start_offset) == ([b"1", b"2", b"3"], 3, 0)
    assert values_of(fetched(client.ask(fetch("t", 2), 12))) == [b"3"]
    assert values_of(fetched(client.ask(fetch("t", 3), 12))) == []


@pytest.mark.parametrize("acks", [1, -1])
def test_nobody_is_told_before_it_is_stored_and_nobody_reads_it(acks):
    rig = OneBroker()
    rig.create("t")
    writer, reader = rig.client(), rig.client()
    rig.holds = True
    writer.send(produce("t", a_batch(b"1"), acks=acks), 9)
    assert writer.answers() == []
    data = fetched(reader.ask(fetch("t", 0), 12))
    assert (values_of(data), data.high_watermark) == ([], 0)
    rig.let_go()
    [answer] = writer.answers()
    assert produced(answer).base_offset == 0
    assert values_of(fetched(reader.ask(fetch("t", 0), 12))) == [b"1"]


def test_with_acks_0_there_is_no_answer_and_an_error_closes_the_connection():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.send(produce("t", a_batch(b"1"), acks=0), 9)
    client.send(metadata("t"), 12)
    [answer] = client.answers_without(0)
    assert answer.topics[0].name == "t"
    assert rig.replica("t").log.log_end == 1
    client.send(produce("nobody", a_batch(b"1"), acks=0), 9)
    assert client.is_cut_off()


@pytest.mark.parametrize(
    ("change", "version", "error"),
    [
        ({"topic": "nobody"}, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 1}, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 2}, 9, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"topic": "__consumer_offsets"}, 9, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"batch": b""}, 9, ErrorCode.INVALID_RECORD),
        ({"batch": None}, 9, ErrorCode.INVALID_RECORD),
        ({"batch": a_batch(b"1")[:-1]}, 9, ErrorCode.CORRUPT_MESSAGE),
        ({"batch": a_batch(b"1")[:-1] + b"?"}, 9, ErrorCode.CORRUPT_MESSAGE),
        ({"batch": a_batch(bytes(3000))}, 9, ErrorCode.MESSAGE_TOO_LARGE),
        ({"batch": a_batch(b"1", producer_id=7, producer_epoch=0, base_sequence=-1)}, 9, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_cannot_be_appended_is_refused_with_its_code_and_nothing_is_written(change, version, error):
    rig = OneBroker()
    rig.create("t", max_message_bytes=2000)
    arguments = {"topic": "t", "batch": a_batch(b"1"), **change}
    answer = produced(rig.client().ask(produce(**arguments), version))
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert answer.error_message
    assert rig.replica("t").log.log_end == 0


def test_a_producer_that_repeats_a_batch_is_told_where_it_is():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    producer = client.ask(asked, 4)
    assert (producer.error_code, producer.producer_epoch) == (0, 0)
    assert client.ask(asked, 4).producer_id == producer.producer_id + 1
    batches = [
        a_batch(b"%d" % number, producer_id=producer.producer_id, producer_epoch=0, base_sequence=number)
        for number in range(3)
    ]
    assert [produced(client.ask(produce("t", batch), 9)).base_offset for batch in batches] == [0, 1, 2]
    assert produced(client.ask(produce("t", batches[1]), 9)).base_offset == 1
    gap = a_batch(b"9", producer_id=producer.producer_id, producer_epoch=0, base_sequence=9)
    assert produced(client.ask(produce("t", gap), 9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.replica("t").log.log_end == 3


def test_ids_of_producers_are_never_given_twice():
    rig = OneBroker()
    seen = set()
    for _ in range(3):
        client = rig.client()
        for _ in range(1200):
            asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            seen.add(client.ask(asked, 2).producer_id)
        rig.restart()
    assert len(seen) == 3600


def test_a_fetch_waits_for_data_and_is_answered_when_it_is_stored():
    rig = OneBroker()
    rig.create("t")
    reader, writer = rig.client(), rig.client()
    reader.send(fetch("t", 0, max_wait_ms=5000), 12)
    assert reader.answers() == []
    writer.ask(produce("t", a_batch(b"1")), 9)
    [answer] = reader.answers()
    assert values_of(fetched(answer)) == [b"1"]


def test_a_fetch_is_answered_with_what_there_is_when_its_time_is_over():
    rig = OneBroker()
    rig.create("t")
    reader = rig.client()
    rig.client().ask(produce("t", a_batch(b"1")), 9)
    reader.send(fetch("t", 0, max_wait_ms=500, min_bytes=100_000), 12)
    rig.pass_time(499)
    assert reader.answers() == []
    rig.pass_time(2)
    [answer] = reader.answers()
    assert values_of(fetched(answer)) == [b"1"]


def test_what_is_wrong_is_not_waited_with():
    rig = OneBroker()
    rig.create("t")
    answer = fetched(rig.client().ask(fetch("t", 7, max_wait_ms=5000), 12))
    assert (answer.error_code, bytes(answer.records)) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")


def test_a_connection_that_ends_leaves_nothing_that_waits():
    rig = OneBroker()
    rig.create("t")
    reader = rig.client()
    for _ in range(50):
        reader.send(fetch("t", 0, max_wait_ms=2**31 - 1), 12)
    assert len(rig.broker._waiting) == 1, "the others are not looked at before it is answered"
    reader.leave()
    assert len(rig.broker._waiting) == 0


def test_answers_come_in_the_order_of_the_requests():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.send(fetch("t", 0, max_wait_ms=5000), 12)
    client.send(metadata("t"), 12)
    assert client.answers() == []
    rig.client().ask(produce("t", a_batch(b"1")), 9)
    first, second = client.answers()
    assert values_of(fetched(first)) == [b"1"]
    assert second.topics[0].name == "t"


def test_what_waits_holds_up_the_next_requests_of_its_connection_and_produces_do_not():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.send(fetch("t", 0, max_wait_ms=5000), 12)
    client.send(produce("t", a_batch(b"late")), 9)
    assert rig.replica("t").log.log_end == 0
    rig.client().ask(produce("t", a_batch(b"1")), 9)
    first, second = client.answers()
    assert values_of(fetched(first)) == [b"1"]
    assert produced(second).base_offset == 1
    rig.holds = True
    for number in range(5):
        client.send(produce("t", a_batch(b"%d" % number)), 9)
    client.send(metadata("t"), 12)
    assert rig.replica("t").log.log_end == 7
    rig.let_go()
    assert [produced(answer).base_offset for answer in client.answers()[:5]] == [2, 3, 4, 5, 6]


def test_a_connection_with_too_many_requests_is_not_read_from():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    rig.holds = True
    for _ in range(WAITING_MAX - 1):
        client.send(produce("t", a_batch(b"1")), 9)
    assert client.connection not in rig.told
    client.send(produce("t", a_batch(b"1")), 9)
    assert client.connection.paused
    assert client.connection in rig.told, "its socket asks whether it is paused"
    rig.let_go()
    assert not client.connection.paused
    client.answers()
    client.send(fetch("t", 10_000_000, max_wait_ms=0), 12)
    client.send(fetch("t", WAITING_MAX, max_wait_ms=5000), 12)
    client.send_bytes(frame(bytes(HELD_BYTES_MAX + 1)))
    assert client.connection.paused


def test_a_fetch_asks_for_so_many_partitions():
    rig = OneBroker()
    rig.create("t")
    partitions = tuple(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1) for _ in range(10_001))
    topic = FetchTopic(topic="t", partitions=partitions)
    client = rig.client()
    answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,)), 12)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_so_many_topics_are_created_on_the_way_at_a_time():
    rig = OneBroker()
    client = rig.client()
    client.ask(metadata(*(f"t{number}" for number in range(150))), 12)
    assert len(rig.broker.image.topics) == 100
    client.ask(metadata(*(f"t{number}" for number in range(150))), 12)
    assert len(rig.broker.image.topics) == 150


def test_the_first_batch_is_given_however_small_the_limits_are():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    for value in (bytes(1000), bytes(10)):
        client.ask(produce("t", a_batch(value)), 9)
    assert values_of(fetched(client.ask(fetch("t", 0, max_bytes=1), 12))) == [bytes(1000)]
    assert values_of(fetched(client.ask(fetch("t", 0, partition_max_bytes=1), 12))) == [bytes(1000)]
    assert values_of(fetched(client.ask(fetch("t", 1, max_bytes=1), 12))) == [bytes(10)]


def test_a_topic_that_was_created_again_is_another_one():
    rig = OneBroker()
    old = rig.create("t")
    client = rig.client()
    client.ask(produce("t", a_batch(b"old")), 9)
    assert values_of(fetched(client.ask(fetch("t", 0, version_of_topic=old), 13))) == [b"old"]
    answer = client.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 5)
    assert [each.error_code for each in answer.responses] == [0]
    new = rig.create("t")
    assert new != old
    assert fetched(client.ask(fetch("t", 0, version_of_topic=old), 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values_of(fetched(client.ask(fetch("t", 0, version_of_topic=new), 13))) == []
    rig.pass_time(120_000)
    assert [name for name in rig.disk.directories() if "delete" in name] == []


def test_readers_that_wait_for_a_topic_are_told_that_it_is_gone():
    rig = OneBroker()
    topic_id = rig.create("t")
    reader = rig.client()
    reader.send(fetch("t", 0, max_wait_ms=60_000), 12)
    removed = DeleteTopicState(name=None, topic_id=topic_id)
    [answer] = rig.client().ask(DeleteTopicsRequest(topics=(removed,), timeout_ms=1000), 6).responses
    assert answer.error_code == 0
    [told] = reader.answers()
    assert fetched(told).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# ----------------------------------------------------------------------------------------------------------- epochs


def test_readers_are_fenced_by_the_leader_epoch():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.ask(produce("t", a_batch(b"1")), 9)
    assert fetched(client.ask(fetch("t", 0, current_leader_epoch=0), 12)).error_code == 0
    answer = fetched(client.ask(fetch("t", 0, current_leader_epoch=1), 12))
    assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    rig.begin_epoch("t")
    answer = fetched(client.ask(fetch("t", 0, current_leader_epoch=0), 12))
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    epoch = rig.replica("t").leader.epoch
    assert values_of(fetched(client.ask(fetch("t", 0, current_leader_epoch=epoch), 12))) == [b"1"]


def test_a_reader_whose_history_is_another_one_is_told_where_it_parts():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.ask(produce("t", a_batch(b"1", b"2")), 9)
    epoch = rig.replica("t").leader.epoch
    answer = fetched(client.ask(fetch("t", 1, last_fetched_epoch=epoch), 12))
    assert (answer.diverging_epoch.epoch, values_of(answer)) == (-1, [b"1", b"2"])
    rig.begin_epoch("t")
    client.ask(produce("t", a_batch(b"3")), 9)
    answer = fetched(client.ask(fetch("t", 3, last_fetched_epoch=epoch), 12))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (epoch, 2)
    assert not answer.records
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(asked,)),))
    [topic] = client.ask(request, 4).topics
    assert (topic.partitions[0].leader_epoch, topic.partitions[0].end_offset) == (epoch, 2)


# ---------------------------------------------------------------------------------------------------------- offsets


def test_where_a_partition_begins_and_ends_and_where_a_time_is():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    assert (offsets(client, "t", LATEST).offset, offsets(client, "t", EARLIEST).offset) == (0, 0)
    for number in range(3):
        client.ask(produce("t", a_batch(b"a", b"b", timestamp=WALL_MS + number * 1000)), 9)
    assert (offsets(client, "t", LATEST).offset, offsets(client, "t", EARLIEST).offset) == (6, 0)
    found = offsets(client, "t", WALL_MS + 1)
    assert (found.offset, found.timestamp, found.error_code) == (2, WALL_MS + 1000, 0)
    assert offsets(client, "t", WALL_MS + 2001).offset == -1
    assert offsets(client, "t", MAX_TIMESTAMP).offset == 4
    assert offsets(client, "t", MAX_TIMESTAMP, version=6).error_code == ErrorCode.INVALID_REQUEST
    assert offsets(client, "t", -7).error_code == ErrorCode.INVALID_REQUEST
    assert offsets(client, "nobody", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(client, "t", LATEST, version=3).leader_epoch == -1


def test_records_are_deleted_up_to_an_offset():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    client.ask(produce("t", a_batch(b"1", b"2", b"3")), 9)

    def delete(offset):
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(asked,)),), timeout_ms=1000)
        [topic] = client.ask(request, 2).topics
        return topic.partitions[0].error_code, topic.partitions[0].low_watermark

    assert delete(2) == (0, 2)
    assert offsets(client, "t", EARLIEST).offset == 2
    assert delete(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(-1) == (0, 3)
    assert fetched(client.ask(fetch("t", 0), 12)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ------------------------------------------------------------------------------------------------------------ lives


def test_a_clean_stop_is_trusted_and_everything_is_there():
    rig = OneBroker()
    topic_id = rig.create("t", 3)
    client = rig.client()
    client.ask(produce("t", a_batch(b"1"), index=2), 9)
    rig.restart()
    assert rig.reports == [text for text in rig.reports if "controller" in text]
    answer = rig.client().ask(metadata("t"), 12).topics[0]
    assert (answer.topic_id, len(answer.partitions)) == (topic_id, 3)
    assert rig.replica("t", 2).log.log_end == 1


@pytest.mark.parametrize("seed", range(10))
def test_what_was_acknowledged_survives_a_loss_of_power_where_the_topic_is_synced(seed):
    rng = Random(seed)
    rig = OneBroker()
    rig.create("t", flush_mode="batch", segment_bytes=400)
    told = []
    for life in range(4):
        client, asked = rig.client(), deque()
        for number in range(rng.randrange(12)):
            asked.append(b"%d.%d" % (life, number))
            rig.holds = rng.random() < 0.3
            client.send(produce("t", a_batch(asked[-1])), 9)
            if rig.holds and rng.random() < 0.5:
                rig.let_go()
            told += [(produced(answer).base_offset, asked.popleft()) for answer in client.answers()]
        rig.holds = False
        rig.restart(crashes=rng)
        client = rig.client()
        for offset, value in told:
            assert values_of(fetched(client.ask(fetch("t", offset), 12)))[0] == value
    assert told


def test_a_log_whose_storage_fails_is_not_used_and_the_others_go_on():
    rig = OneBroker()
    rig.create("bad")
    rig.create("good")
    client = rig.client()
    client.ask(produce("bad", a_batch(b"1")), 9)
    rig.disk.fail_after(1)
    answer = produced(client.ask(produce("bad", a_batch(b"2")), 9))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    rig.disk.fail_after(None)
    assert produced(client.ask(produce("bad", a_batch(b"3")), 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client.ask(produce("good", a_batch(b"4")), 9)).error_code == 0
    assert any("bad-0 is not used any longer" in text for text in rig.reports)


def test_old_segments_go_and_the_log_begins_later():
    rig = OneBroker()
    rig.create("t", segment_bytes=300, retention_bytes=700)
    client = rig.client()
    for _ in range(20):
        client.ask(produce("t", a_batch(bytes(100))), 9)
    rig.pass_time(300_001)
    start = offsets(client, "t", EARLIEST).offset
    assert 0 < start < 20
    assert len(values_of(fetched(client.ask(fetch("t", start), 12)))) >= 1
    rig.pass_time(120_000)
    assert [name for name in rig.disk.list("t-0") if name.endswith(".deleted")] == []


# ----------------------------------------------------------------------------------------------------------- topics


def test_a_topic_is_created_on_the_way_once():
    rig = OneBroker("num.partitions=2\n")
    client = rig.client()
    assert client.ask(metadata("new"), 12).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    [topic] = client.ask(metadata("new"), 12).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 2)
    rig = OneBroker("auto.create.topics.enable=false\n")
    assert rig.client().ask(metadata("new"), 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_gets_more_partitions():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    wanted = CreatePartitionsTopic(name="t", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=(wanted,), timeout_ms=1000, validate_only=False)
    assert [each.error_code for each in client.ask(request, 3).results] == [0]
    assert produced(client.ask(produce("t", a_batch(b"1"), index=2), 9)).error_code == 0
    assert [each.error_code for each in client.ask(request, 3).results] == [ErrorCode.INVALID_PARTITIONS]


# ---------------------------------------------------------------------------------------------------- hostile bytes


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        frame(b"\x00\x12"),
        frame(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff"),
        frame(b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff"),
        frame(b"\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff" + bytes(20)),
        frame(b"\x00\x04\x00\x07\x00\x00\x00\x01\xff\xff\x00" + bytes(20)),
        frame(b"\x00\x03\x00\x04\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff"),
    ],
)
def test_what_cannot_be_read_closes_its_connection_and_no_other(data):
    rig = OneBroker()
    rig.create("t")
    other, hostile = rig.client(), rig.client()
    hostile.send_bytes(data)
    assert hostile.is_cut_off()
    assert any("is closed" in text for text in rig.reports)
    assert other.ask(metadata("t"), 12).topics[0].error_code == 0


def test_versions_are_asked_for_in_any_version():
    rig = OneBroker()
    client = rig.client()
    answer = client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert listed[0] == (0, 10)
    assert 4 not in listed, "only what is served is listed"
    wrong = client.ask(ApiVersionsRequest(client_software_name="", client_software_version="-"), 3)
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    client.send_bytes(frame(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01c\x00"))
    reply = client.taken
    assert reply[4:10] == b"\x00\x00\x00\x07\x00\x23"
    assert not client.is_cut_off()


def test_so_many_connections_are_served():
    rig = OneBroker("max.connections=3\nmax.connections.per.ip=2\n")
    first = [rig.client("10.0.0.1"), rig.client("10.0.0.1")]
    assert rig.client("10.0.0.1").is_cut_off()
    assert not rig.client("10.0.0.2").is_cut_off()
    assert rig.client("10.0.0.3").is_cut_off()
    first[0].leave()
    assert not rig.client("10.0.0.1").is_cut_off()


def test_a_silent_connection_is_closed():
    rig = OneBroker("connections.max.idle.ms=1000\n")
    silent, busy = rig.client(), rig.client()
    rig.pass_time(999)
    busy.ask(MetadataRequest(topics=()), 1)
    rig.pass_time(2)
    assert silent.is_cut_off()
    assert not busy.is_cut_off()


def test_an_unknown_topic_id_is_refused():
    rig = OneBroker()
    answer = rig.client().ask(fetch("", 0, version_of_topic=Uuid(b"?" * 16)), 13)
    assert fetched(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


# -------------------------------------------------------------------------------------------------- the controller


def test_an_old_controller_and_one_of_a_former_life_are_not_obeyed():
    rig = OneBroker()
    rig.create("t")
    broker = rig.broker
    nothing = PartitionStates(1, True, (), ())
    old = ToBroker(1, broker.epoch, 9, broker._arrivals.controller_epoch - 1, nothing)
    former = ToBroker(1, broker.epoch - 1, 9, broker._arrivals.controller_epoch + 1, nothing)
    for message in (old, former):
        broker._own_controller._take_own(message)
        assert set(broker.image.topics) == {"t"}
    broker._own_controller._take_own(ToBroker(1, broker.epoch, 9, broker._arrivals.controller_epoch + 1, nothing))
    assert broker.image.topics == {}


def test_an_answer_in_line_does_not_outlive_its_log():
    """Its slice names a file that another log of that name may soon have."""
    rig = OneBroker()
    rig.create("t")
    rig.create("other")
    client = rig.client()
    rig.client().ask(produce("t", a_batch(b"1")), 9)
    rig.holds = True
    client.send(produce("other", a_batch(b"2")), 9)
    client.send(fetch("t", 0), 12)
    assert client.connection.has_slices_of("t-0")
    rig.client().ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 5)
    assert client.is_cut_off()


def test_a_topic_with_another_id_is_not_taken_for_the_one_before():
    rig = OneBroker()
    rig.create("t")
    rig.client().ask(produce("t", a_batch(b"old")), 9)
    topic = rig.broker.image.topics["t"]
    other = attrs.evolve(topic, id=Uuid(b"o" * 16))
    rig.broker._local.follow({"t": other}, rig.now, rig.wall)
    rig.turn()
    replica = rig.replica("t")
    assert (replica.topic_id, replica.log.log_end) == (other.id, 0)


def test_who_creates_a_topic_is_told_all_its_settings():
    """Kafka's client in Java reads them from the answer."""
    client = OneBroker().client()
    topic = CreatableTopic(
        name="events",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(CreatableTopicConfig(name="retention.ms", value="5000"),),
    )
    again = client.ask(CreateTopicsRequest(topics=(topic,)), 7), client.ask(CreateTopicsRequest(topics=(topic,)), 7)
    [made], [refused] = (answer.topics for answer in again)
    told = {each.name: (each.value, each.config_source) for each in made.configs}
    assert told["retention.ms"] == ("5000", 1)
    assert told["segment.bytes"] == ("1073741824", 5)
    assert (refused.error_code, refused.configs) == (ErrorCode.TOPIC_ALREADY_EXISTS, ())


def test_a_partition_has_no_more_replicas_than_there_are_brokers():
    client = OneBroker().client()
    topics = (
        CreatableTopic(name="two", num_partitions=1, replication_factor=2, assignments=(), configs=()),
        CreatableTopic(
            name="assigned",
            num_partitions=-1,
            replication_factor=-1,
            assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2)),),
            configs=(),
        ),
    )
    answer = client.ask(CreateTopicsRequest(topics=topics), 7)
    assert {each.name: each.error_code for each in answer.topics} == {
        "two": ErrorCode.INVALID_REPLICATION_FACTOR,
        "assigned": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }


# ------------------------------------------------------------------------------------------------------------- clocks


def test_a_wall_clock_that_is_set_back_delays_no_registration(monkeypatch):
    """The broker waits for the end of its former life, which a clock that an operator corrects does not prolong."""
    rig = OneBroker()
    former, rig.session = rig.session, None
    rig._begin()
    assert rig.broker.epoch == -1
    monkeypatch.setattr(OneBroker, "wall", property(lambda rig: WALL_MS + rig.now - 3_600_000))
    rig.tree.end_session(former)
    rig.pass_time(500)
    assert rig.broker.epoch >= 0


def test_a_wall_clock_that_is_set_forward_times_no_registration_out(monkeypatch):
    rig = OneBroker()
    former, rig.session = rig.session, None
    rig._begin()
    monkeypatch.setattr(OneBroker, "wall", property(lambda rig: WALL_MS + rig.now + 3_600_000))
    rig.pass_time(500)
    assert rig.failure is None
    rig.tree.end_session(former)
    rig.pass_time(500)
    assert rig.broker.epoch >= 0
