"""Messages between brokers: each is read as it was written, and nothing else is read."""

import json

import pytest

from zab.kafka.errors import ErrorCode
from zab.partition.controller import requests
from zab.partition.controller.effects import (
    PartitionStates,
    PartitionUpdate,
    StoppedReplica,
    StopReplica,
    ToBroker,
    TopicUpdate,
)
from zab.partition.controller.requests import Answer, CreateTopics, NewTopic, PartitionOutcome, StopReplicaAnswered
from zab.partition.controller.znodes import Assignment, Broker, PartitionState, TopicPartition
from zab.partition.links.messages import (
    SAID_BYTES_MAX,
    Answered,
    Asked,
    Ended,
    FollowerAnswered,
    FollowerAsked,
    Marked,
    Taken,
    Told,
    Verified,
    Verifying,
    decode,
    encode,
)
from zab.partition.transactions.marker import Marker
from zab.partition.transactions.requests import Verify
from zab.wire.records import MessageError

STATE = PartitionState(1, 5, (1, 2), elr=(3,), partition_epoch=7)
WHERE = TopicPartition("t", 0)
STATES = PartitionStates(
    3,
    False,
    (Broker(1, ("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"}, "r", 9, -1),),
    (TopicUpdate("t", "i", (PartitionUpdate(0, STATE, Assignment((1, 2), (2,)), 2, True),), {"a": "b"}),),
    ("gone",),
)
MESSAGES = [
    FollowerAsked(b"asked"),
    FollowerAnswered((b"answered",)),
    Asked(1, CreateTopics(None, (NewTopic("t", assignments={0: (1, 2)}, config={"a": "b"}),))),
    Asked(1, requests.AlterPartition(None, 1, 2, {"i": (requests.PartitionChange(0, 1, 2, ((1, -1),)),)})),
    Asked(1, requests.ListPartitionReassignments(None, None)),
    Asked(1, requests.AlterPartitionReassignments(None, {WHERE: None, TopicPartition("u", 1): (1,)})),
    Answered(2, Answer(None, ErrorCode.NONE, "text", states={("i", 0): PartitionOutcome(ErrorCode.NONE, STATE, 1)})),
    Answered(2, Answer(None, remaining=(WHERE,), producer_ids=(0, 1000), reassignments={WHERE: Assignment((1,))})),
    Told(3, 2, ToBroker(1, 2, 3, 4, STATES)),
    Told(3, 0, ToBroker(1, 2, 3, 4, StopReplica((StoppedReplica(WHERE, "i", -2, True),)))),
    Taken(4, ErrorCode.STALE_BROKER_EPOCH),
    Taken(4, ErrorCode.NONE, StopReplicaAnswered(1, 2, 3, {WHERE: ErrorCode.NONE})),
    Ended(5, Marker(topic="t", index=0, producer_id=7, producer_epoch=1, commits=True, coordinator_epoch=2)),
    Marked(5, ErrorCode.NONE),
    Verifying(6, Verify(transactional_id="x", producer_id=7, epoch=1, partitions=(("t", 0), ("u", 1)))),
    Verified(6, (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message):
    assert decode(encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES[2:], ids=lambda message: type(message).__name__)
def test_what_is_cut_or_longer_is_no_message(message):
    data = encode(message)
    for cut in range(len(data)):
        with pytest.raises(MessageError):
            decode(data[:cut] if cut else b"")
    with pytest.raises(MessageError):
        decode(data + b"]")


@pytest.mark.parametrize(
    "value",
    [
        ["ControlledShutdown", "1", 2],
        ["ControlledShutdown", True, 2],
        ["ControlledShutdown", 1 << 63, 2],
        ["ControlledShutdown", 1.0, 2],
        ["ControlledShutdown", 1],
        ["ControlledShutdown", 1, 2, 3],
        ["Answer", 1, 2],
        ["os.system", 1],
        [["ControlledShutdown"], 1, 2],
        {"ControlledShutdown": 1},
        [],
        None,
    ],
)
def test_what_has_other_types_is_no_message(value):
    head = encode(Asked(1, requests.ControlledShutdown(None, 1, 2)))[:17]
    assert decode(head + b'["ControlledShutdown",1,2]')
    with pytest.raises(MessageError):
        decode(head + json.dumps(value).encode())


def test_what_is_deep_or_long_is_no_message():
    head = encode(Marked(1, ErrorCode.NONE))[:17]
    for data in (b"[" * 100_000, b" " * SAID_BYTES_MAX, b"9" * 10_000, b"\xff"):
        with pytest.raises(MessageError):
            decode(head + data)
    with pytest.raises(MessageError, match="ErrorCode"):
        decode(head + b'["Marked",1,12345]')
