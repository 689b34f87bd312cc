"""The limit on what all clients have sent: large requests wait for each other, and those with most are closed."""

import pytest

from tests.partition.one_broker import OneBroker, a_batch, metadata, produce
from zab.kafka.frames import request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.partition.settings.broker_config import BrokerConfigError, read_config
from zab.wire.frames import LENGTH
from zab.wire.large_frames import LARGE_FRAME_BYTES, PATIENCE_MS

LIMIT = 600_000
LINES = f"socket.request.max.bytes=300000\nqueued.max.request.bytes={LIMIT}"
BATCH = a_batch(bytes(200_000))


def rig_with_topic():
    rig = OneBroker(LINES)
    rig.create("t")
    return rig


def begun(rig, host="10.0.0.1", size=200_000):
    """A client that has sent half of a request, and the rest of it."""
    client = rig.client(host)
    whole = LENGTH.pack(size) + bytes(size)
    client.send_bytes(whole[: size // 2])
    return client, whole[size // 2 :]


def produce_in_two(rig):
    client = rig.client()
    client._asked.append((0, 9, 1))
    whole = request_frame(RequestHeader(0, 9, 1, "test"), produce("t", BATCH))
    client.send_bytes(whole[:100_000])
    return client, whole[100_000:]


def waiting_fetch(topic):
    partition = FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    topics = (FetchTopic(topic=topic, partitions=(partition,)),)
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=topics)


def test_large_requests_go_on_one_after_the_other_and_are_answered():
    rig = rig_with_topic()
    told, send = set(), rig._send
    rig._send = lambda dirty: (told.update(dirty), send(dirty))
    writers = [produce_in_two(rig) for _ in range(3)]
    assert [client.connection.paused for client, _ in writers] == [False, True, True]
    assert rig.client().ask(metadata("t"), 12).topics[0].name == "t"
    for number, (client, rest) in enumerate(writers):
        assert not client.connection.paused
        told.clear()
        client.send_bytes(rest)
        [answer] = client.answers()
        assert answer.responses[0].partition_responses[0].base_offset == number
        assert [each.connection.paused for each, _ in writers[number + 1 :]] == [False, True][: 2 - number]
        for released, _ in writers[number + 1 : number + 2]:
            assert released.connection in told, "its socket is told that it may read again"


def test_who_does_not_go_on_with_its_request_is_closed_while_others_wait():
    rig = rig_with_topic()
    slow, _ = begun(rig)
    rig.pass_time(10 * PATIENCE_MS)
    assert not slow.is_cut_off()
    other, _ = begun(rig)
    assert other.connection.paused
    rig.pass_time(PATIENCE_MS - 1000)
    assert not slow.is_cut_off()
    rig.pass_time(4000)
    assert slow.is_cut_off()
    assert not other.connection.paused


def test_who_leaves_gives_its_room_back():
    rig = rig_with_topic()
    (first, _), (second, _), (third, _) = begun(rig), begun(rig), begun(rig)
    second.leave()
    assert third.connection.paused
    first.leave()
    assert not third.connection.paused
    assert rig.broker._clients._inputs._large.bytes == 200_004


def test_the_largest_request_has_room_alone():
    rig = rig_with_topic()
    client, _ = begun(rig, size=300_000)
    assert not client.connection.paused


def test_above_the_limit_the_address_with_most_loses_its_connections():
    rig = rig_with_topic()
    size = LARGE_FRAME_BYTES - 10
    other, _ = begun(rig, "10.0.0.9", size)
    many = [begun(rig, size=size)[0] for _ in range(2 * LIMIT // size - 2)]
    assert not any(each.is_cut_off() for each in many)
    for _ in range(5):
        many.append(begun(rig, size=size)[0])
    assert any(each.is_cut_off() for each in many)
    assert not other.is_cut_off()
    assert rig.broker._clients._inputs.bytes <= LIMIT
    assert "there is too much that clients have sent" in rig.reports[0]


def test_requests_that_are_held_count_until_they_are_answered():
    rig = rig_with_topic()
    holding = rig.client()
    holding.send(waiting_fetch("t"), 12)
    holding.send(produce("t", BATCH), 9)
    assert holding.connection.held_bytes > len(BATCH)
    large, _ = begun(rig, size=250_000)
    assert large.connection.paused, "held requests and large ones have half of the limit"
    rig.client().ask(produce("t", a_batch(b"1")), 9)
    assert len(holding.answers()) == 2
    assert not large.connection.paused
    assert rig.broker._clients._inputs._held_bytes == 0


def test_many_requests_that_are_held_are_closed_above_the_limit():
    rig = rig_with_topic()
    clients = [rig.client() for _ in range(4)]
    for client in clients:
        client.send(waiting_fetch("t"), 12)
        client.send(produce("t", BATCH), 9)
    assert [client.is_cut_off() for client in clients].count(True) >= 1
    assert rig.broker._clients._inputs.bytes <= LIMIT


@pytest.mark.parametrize("lines", ["queued.max.request.bytes=209715199", "socket.request.max.bytes=134217729"])
def test_the_largest_request_has_to_have_room(lines):
    with pytest.raises(BrokerConfigError, match=r"queued\.max\.request\.bytes"):
        read_config(lines)
