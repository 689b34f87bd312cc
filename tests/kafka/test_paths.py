"""Produce and Fetch by hand against the codec: the same instances from all bytes, and the same bytes from instances."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka.random_messages import instance
from zab.kafka.api_key import ApiKey
from zab.kafka.codec import decode, encoded
from zab.kafka.fetch_request_path import decode_fetch_request
from zab.kafka.fetch_response_path import decode_fetch_response, fetch_response_pieces
from zab.kafka.frames import response_frame
from zab.kafka.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from zab.kafka.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from zab.kafka.primitives import ProtocolError, Reader
from zab.kafka.produce_path import decode_produce_request, encode_produce_response

Decode = Callable[[int, Reader], Any]
PATHS: list[tuple[Any, Decode, range]] = [
    (ProduceRequest, decode_produce_request, range(3, 11)),
    (FetchRequest, decode_fetch_request, range(4, 17)),
    (FetchResponse, decode_fetch_response, range(4, 17)),
]
CASES = [
    pytest.param(cls, by_hand, version, id=f"{cls.__name__}-{version}")
    for cls, by_hand, versions in PATHS
    for version in versions
]
EXAMPLES = 40
SEEDS = st.integers(0, (1 << 32) - 1)


def outcome(read: Callable[[Reader], Any], data: bytes, elements_max: int = 1000) -> tuple[Any, ...]:
    """What was read, and where the reader is then; or the text of the error."""
    reader = Reader(data, elements_max=elements_max)
    try:
        return read(reader), reader.at, reader.elements_left
    except ProtocolError as error:
        return (str(error),)


def usual(one: Any) -> Any:
    """An instance without what is read by the codec: null records, other tagged fields, forgotten topics."""
    if isinstance(one, ProduceRequest):
        topics = tuple(
            attrs.evolve(
                topic,
                partition_data=tuple(attrs.evolve(each, records=each.records or b"") for each in topic.partition_data),
            )
            for topic in one.topic_data
        )
        return attrs.evolve(one, topic_data=topics)
    if isinstance(one, FetchRequest):
        return attrs.evolve(one, cluster_id=None, forgotten_topics_data=())
    topics = tuple(
        attrs.evolve(topic, partitions=tuple(map(_usual_partition, topic.partitions))) for topic in one.responses
    )
    return attrs.evolve(one, responses=topics, node_endpoints=())


def _usual_partition(each: FetchPartitionData) -> FetchPartitionData:
    plain = FetchPartitionData(partition_index=0, error_code=0, high_watermark=0, aborted_transactions=())
    return attrs.evolve(
        each,
        records=each.records or b"",
        diverging_epoch=plain.diverging_epoch,
        current_leader=plain.current_leader,
        snapshot_id=plain.snapshot_id,
    )


@pytest.mark.parametrize(("cls", "by_hand", "version"), CASES)
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS, is_usual=st.booleans())
def test_both_read_the_same(cls: Any, by_hand: Decode, version: int, seed: int, is_usual: bool) -> None:
    random = Random(seed)
    one = instance(cls, version, random)
    data = bytearray(encoded(usual(one) if is_usual else one, version) + random.choice((b"", b"rest")))
    for _ in range(random.choice((0, 0, 1, 3))):
        data[random.randrange(len(data))] = random.choice((0, 1, 2, 13, 127, 128, 255, random.randrange(256)))
    cut = bytes(data[: random.choice((len(data), len(data), random.randrange(len(data) + 1)))])
    elements_max = random.choice((1000, 1000, 2, 4))

    expected = outcome(lambda reader: decode(cls, version, reader), cut, elements_max)
    assert outcome(lambda reader: by_hand(version, reader), cut, elements_max) == expected


PRODUCE = ProduceRequest(
    transactional_id="t",
    acks=-1,
    timeout_ms=5,
    topic_data=(
        TopicProduceData(
            name="topic",
            partition_data=(
                PartitionProduceData(index=0, records=b"r" * 61),
                PartitionProduceData(index=1, records=b"r" * 100_000),
            ),
        ),
    ),
)
FETCH = FetchRequest(
    replica_id=-1,
    max_wait_ms=500,
    min_bytes=1,
    topics=(
        FetchTopic(partitions=(FetchPartition(partition=3, fetch_offset=9, partition_max_bytes=1 << 20),) * 3),
        FetchTopic(partitions=()),
    ),
)
FETCHED_PARTITION = FetchPartitionData(
    partition_index=3,
    error_code=0,
    high_watermark=9,
    last_stable_offset=9,
    aborted_transactions=None,
    records=b"r" * 100_000,
)
FETCHED = FetchResponse(
    responses=(
        FetchableTopicResponse(
            partitions=(FETCHED_PARTITION, attrs.evolve(FETCHED_PARTITION, aborted_transactions=()))
        ),
        FetchableTopicResponse(partitions=()),
    ),
)
SHORT: dict[Any, Any] = {
    ProduceRequest: ProduceRequest(
        transactional_id="t",
        acks=-1,
        timeout_ms=5,
        topic_data=(
            TopicProduceData(name="a", partition_data=(PartitionProduceData(index=0, records=b"\0\0"),) * 2),
            TopicProduceData(name="b", partition_data=()),
        ),
    ),
    FetchRequest: FETCH,
    FetchResponse: FetchResponse(
        responses=(
            FetchableTopicResponse(
                partitions=(
                    attrs.evolve(FETCHED_PARTITION, records=b"\0\0"),
                    attrs.evolve(FETCHED_PARTITION, records=b"\0", aborted_transactions=()),
                )
            ),
            FetchableTopicResponse(partitions=()),
        ),
    ),
}
"""With records of zeros, which also end what they should not."""
USUAL: dict[Any, Any] = {ProduceRequest: PRODUCE, FetchRequest: FETCH, FetchResponse: FETCHED}


@pytest.mark.parametrize(("cls", "by_hand", "version"), CASES)
def test_what_is_usual_is_read_by_hand(
    cls: Any, by_hand: Decode, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("read by the codec")

    monkeypatch.setattr(f"{by_hand.__module__}.decode", refuse)
    assert by_hand(version, Reader(encoded(USUAL[cls], version))) == USUAL[cls]


@pytest.mark.parametrize(("cls", "by_hand", "version"), CASES)
def test_each_byte_may_be_another(cls: Any, by_hand: Decode, version: int) -> None:
    """Every count, length, tag and mark, and each limit of them: both read the same, or say the same."""
    for one in (SHORT[cls], shorter(SHORT[cls])):
        data = encoded(one, version)
        for at in range(len(data)):
            for byte in (0, 1, 2, 3, 127, 128, 255):
                other = data[:at] + bytes([byte]) + data[at + 1 :]
                expected = outcome(lambda reader: decode(cls, version, reader), other)
                assert outcome(lambda reader: by_hand(version, reader), other) == expected, (at, byte)
        for elements_max in range(8):
            expected = outcome(lambda reader: decode(cls, version, reader), data, elements_max)
            assert outcome(lambda reader: by_hand(version, reader), data, elements_max) == expected


def shorter(one: Any) -> Any:
    """Without its second topic, so that nothing follows the records."""
    field = {ProduceRequest: "topic_data", FetchRequest: "topics", FetchResponse: "responses"}[type(one)]
    return attrs.evolve(one, **{field: getattr(one, field)[:1]})


def test_a_follower_is_usual_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.kafka.fetch_request_path.decode", None)
    follower = attrs.evolve(FETCH, replica_state=ReplicaState(replica_id=2, replica_epoch=7))
    assert decode_fetch_request(16, Reader(encoded(follower, 16))) == follower


@pytest.mark.parametrize("version", [3, 8, 9, 10])
def test_records_are_views_of_the_request(version: int) -> None:
    data = encoded(PRODUCE, version)
    request = decode_produce_request(version, Reader(data))
    for each in request.topic_data[0].partition_data:
        assert isinstance(each.records, memoryview)
        assert each.records.obj is data


# ----------------------------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize("version", range(3, 11))
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_a_response_to_produce_has_the_same_bytes(version: int, seed: int) -> None:
    random = Random(seed)
    response = instance(ProduceResponse, random.choice((version, version, 10)), random)
    out = bytearray(b"before")
    try:
        expected: object = b"before" + encoded(response, version)
    except ProtocolError as error:
        expected = str(error)
    try:
        encode_produce_response(response, version, out)
        found: object = bytes(out)
    except ProtocolError as error:
        found = str(error)
    assert found == expected


@pytest.mark.parametrize("version", range(3, 11))
def test_a_usual_response_to_produce(version: int) -> None:
    good = PartitionProduceResponse(index=1, error_code=0, base_offset=7, log_append_time_ms=8)
    moved = attrs.evolve(good, error_code=6, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3))
    topics = (
        TopicProduceResponse(name="a", partition_responses=(good, good)),
        TopicProduceResponse(name="b", partition_responses=(moved, good) if version == 10 else ()),
    )
    response = ProduceResponse(responses=topics, throttle_time_ms=9)
    out = bytearray()
    encode_produce_response(response, version, out)
    assert out == encoded(response, version)


def test_a_response_to_produce_that_does_not_fit() -> None:
    wrong = PartitionProduceResponse(index=1 << 31, error_code=0, base_offset=7)
    response = ProduceResponse(responses=(TopicProduceResponse(name="a", partition_responses=(wrong,)),))
    with pytest.raises(ProtocolError, match=r"^ProduceResponse v9: responses: partition_responses: index: "):
        encode_produce_response(response, 9, bytearray())


def records_of(response: FetchResponse) -> list[bytes | memoryview | None]:
    return [each.records for topic in response.responses for each in topic.partitions]


def sizes_of(response: FetchResponse) -> list[int]:
    return [-1 if records is None else len(records) for records in records_of(response)]


@pytest.mark.parametrize("version", range(4, 17))
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_a_response_to_fetch_in_pieces_is_the_whole_frame(version: int, seed: int) -> None:
    random = Random(seed)
    response = instance(FetchResponse, random.choice((version, version, 16)), random)
    try:
        expected: object = response_frame(ApiKey.FETCH, version, 77, response)
    except ProtocolError:
        expected = None
    try:
        pieces = fetch_response_pieces(77, version, response, sizes_of(response))
    except ProtocolError:
        assert expected is None
        return
    between = [records or b"" for records in records_of(response)]
    assert len(pieces) == len(between) + 1
    assert b"".join(part for pair in zip(pieces, [*between, b""], strict=True) for part in pair) == expected


@pytest.mark.parametrize("version", range(4, 17))
def test_the_records_of_a_response_are_not_looked_at(version: int) -> None:
    """Each piece ends with the length of what follows, which may be a slice of a file."""
    response = attrs.evolve(
        FETCHED, responses=(FetchableTopicResponse(partitions=(attrs.evolve(FETCHED_PARTITION, records=None),) * 2),)
    )
    first, second, last = fetch_response_pieces(1, version, response, [300, 0])
    assert int.from_bytes(first[:4], "big") + 4 == len(first) + len(second) + len(last) + 300
    assert first.endswith(b"\xad\x02" if version > 11 else b"\0\0\x01\x2c")
    assert second.endswith(b"\x01" if version > 11 else b"\0\0\0\0")


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (6, {"session_id": 1}),
        (15, {"node_endpoints": (NodeEndpoint(node_id=1, host="h", port=9092),)}),
    ],
)
def test_what_a_version_of_a_response_cannot_say(version: int, change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="not in this version"):
        fetch_response_pieces(1, version, attrs.evolve(FETCHED, **change), sizes_of(FETCHED))
    fetch_response_pieces(1, version + 1, attrs.evolve(FETCHED, **change), sizes_of(FETCHED))


@pytest.mark.parametrize(
    ("version", "change"),
    [(10, {"preferred_read_replica": 1}), (11, {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=2)})],
)
def test_what_a_version_of_a_partition_cannot_say(version: int, change: dict[str, Any]) -> None:
    partition = attrs.evolve(FETCHED_PARTITION, **change)
    response = attrs.evolve(FETCHED, responses=(FetchableTopicResponse(partitions=(partition,)),))
    with pytest.raises(ProtocolError, match="not in this version"):
        fetch_response_pieces(1, version, response, [0])
    fetch_response_pieces(1, version + 1, response, [0])


def test_a_response_to_fetch_that_does_not_fit() -> None:
    wrong = attrs.evolve(FETCHED_PARTITION, high_watermark=1 << 63)
    response = attrs.evolve(FETCHED, responses=(FetchableTopicResponse(partitions=(wrong,)),))
    with pytest.raises(ProtocolError, match="FetchResponse v16"):
        fetch_response_pieces(1, 16, response, [0])


def test_there_is_one_size_for_each_partition() -> None:
    with pytest.raises(AssertionError, match="one size for each partition"):
        fetch_response_pieces(1, 16, FETCHED, [0, 0, 0])
