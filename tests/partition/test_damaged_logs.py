"""A log whose files are damaged where nobody has looked since the start: who reads there is told, others are served."""

import errno

import pytest

from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FIRST = f"t-0/{0:020d}.log"
MAGIC = 16
"""Where a batch says in which format it is."""


@pytest.fixture
def rig():
    """A broker after a clean restart, whose first segment has two batches."""
    found = OneBroker()
    found.create("t", segment_bytes="300")
    for number in range(4):
        assert not produced(found, number).error_code
    found.restart()
    return found


def produced(rig, number):
    batch = a_batch(bytes(60), timestamp=1_700_000_000_000 + number)
    return rig.client().ask(produce("t", batch), 9).responses[0].partition_responses[0]


def fetched(rig, offset):
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="t", partitions=(asked,)),))
    return rig.client().ask(body, 12).responses[0].partitions[0]


def listed(rig, timestamp):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    body = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(asked,)),))
    return rig.client().ask(body, 7).topics[0].partitions[0]


def test_a_damaged_header_is_told_to_who_reads_there(rig):
    assert fetched(rig, 1).error_code == ErrorCode.NONE
    rig.disk.corrupt(FIRST, MAGIC, b"\0")
    assert fetched(rig, 0).error_code == ErrorCode.CORRUPT_MESSAGE
    assert fetched(rig, 2).error_code == ErrorCode.NONE
    assert listed(rig, 1_700_000_000_000).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produced(rig, 4).error_code == ErrorCode.NONE


def test_a_file_that_cannot_be_read_is_told_to_who_reads_there(rig):
    rig.disk.fail_reads(FIRST, errno.EIO)
    assert fetched(rig, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert listed(rig, 1_700_000_000_000).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(rig, 4).error_code == ErrorCode.NONE
