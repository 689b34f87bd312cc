"""Compaction on a whole broker: when a log is compacted, and those who read meanwhile."""

from random import Random

import pytest

from tests.partition.one_broker import WALL_MS, OneBroker, metadata, produce
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from zab.kafka.messages.topics import DeleteTopicsRequest
from zab.partition.cleaning import clean
from zab.partition.log.checkpoints import CLEANED_ENDS, TopicPartition, parse_offsets
from zab.partition.records.batch import walk
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record, decode_records

BACKOFF_MS = 15_000
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": 500}


def fetch(topic, offset, *, max_wait_ms=0, max_bytes=1 << 20):
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    topics = (FetchTopic(topic=topic, partitions=(partition,)),)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)


def fetched(answer):
    [topic] = answer.responses
    [partition] = topic.partitions
    assert not partition.error_code
    return partition


def with_offsets(rig):
    """The topic of offsets is there."""
    client = rig.client()
    for _ in range(2):
        client.ask(FindCoordinatorRequest(key="g", key_type=0), 2)


def commit(offset):
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="md")
    topics = (OffsetCommitRequestTopic(name="t", partitions=(asked,)),)
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)


def committed(client):
    topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    [topic] = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 7).topics
    return [(each.committed_offset, each.metadata) for each in topic.partitions]


def keyed(key, value=b""):
    return encode_batch([Record(0, WALL_MS, key, value)])


def filled(count=20, lines="", **settings):
    """A broker with a compacted topic of two keys."""
    rig = OneBroker(lines)
    rig.create("t", **{**COMPACTED, **settings})
    client = rig.client()
    for number in range(count):
        client.ask(produce("t", keyed(b"%d" % (number % 2), b"%d" % number)), 9)
    return rig


def pairs_in(data):
    found, position, records = [], 0, bytes(data.records or b"")
    while position < len(records):
        found += [(each.offset, each.key, each.value) for each in decode_records(records, position)]
        position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
    return found


def consumed(rig, topic="t"):
    """What a consumer gets from the beginning on."""
    client, found, offset = rig.client(), [], 0
    while (data := fetched(client.ask(fetch(topic, offset), 12))).records:
        found += pairs_in(data)
        offset = [header.last_offset + 1 for _, header in walk(bytes(data.records))][-1]
    return found


def test_a_log_is_compacted_and_consumers_get_the_newest_of_each_key():
    rig = filled()
    log = rig.replica("t").log
    before, active = consumed(rig), log.segments[-1].base_offset
    assert len(before) == 20
    rig.pass_time(BACKOFF_MS)
    left = [pair for pair in consumed(rig) if pair[0] < active]
    assert left == [(active - 2, *before[active - 2][1:]), (active - 1, *before[active - 1][1:])]
    assert parse_offsets(rig.disk.read(CLEANED_ENDS)) == {TopicPartition("t", 0): active}
    assert not [name for name in rig.disk.list("t-0") if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_what_is_clean_is_known_after_a_restart():
    rig = filled()
    rig.pass_time(BACKOFF_MS)
    end, found = rig.replica("t").log.cleaned_end, consumed(rig)
    for crashes in (None, Random(1)):
        rig.restart(crashes=crashes)
        assert rig.replica("t").log.cleaned_end == end
        assert consumed(rig) == found


def test_topics_that_are_deleted_and_switched_off_compaction_keep_every_record():
    rig = filled(cleanup_policy="delete")
    off = filled(lines="log.cleaner.enable=false")
    for each in (rig, off):
        each.pass_time(4 * BACKOFF_MS)
        assert len(consumed(each)) == 20


def test_with_both_policies_old_segments_go_too():
    rig = filled(cleanup_policy="compact,delete", retention_ms="60000")
    rig.pass_time(BACKOFF_MS)
    assert rig.replica("t").log.log_start == 0
    rig.pass_time(300_000)
    assert rig.replica("t").log.log_start == 20


def test_the_log_with_the_largest_dirty_part_is_first():
    rig = filled(lines="log.cleaner.io.max.bytes.per.second=1")
    rig.create("u", **COMPACTED)
    rig.replica("t").log.cleaned_end = rig.replica("t").log.segments[1].base_offset
    client = rig.client()
    for number in range(20):
        client.ask(produce("u", keyed(b"%d" % (number % 2))), 9)
    rig.pass_time(BACKOFF_MS)
    assert rig.broker._cleaning._round.replica is rig.replica("u")


def test_the_rate_is_kept():
    rig = filled(lines="log.cleaner.io.max.bytes.per.second=100")
    log = rig.replica("t").log
    bytes_to_do = sum(segment.size for segment in log.segments[:-1])
    rig.pass_time(BACKOFF_MS + 2 * bytes_to_do // 100 * 1000 - 2000)
    assert not log.cleaned_end
    rig.pass_time(bytes_to_do // 100 * 1000)
    assert log.cleaned_end


def steps(rig):
    """Compact step by step: what comes between two is up to the test."""
    held, carry_out = [], rig._carry_out

    def hold(effects):
        held.extend(effects.cleans)
        effects.cleans = []
        carry_out(effects)

    rig._carry_out = hold
    rig.now += BACKOFF_MS
    rig.turn()
    while held:
        yield
        rig.turn(clean(held.pop(), rig.disk))


def test_who_reads_all_the_time_never_gets_an_old_record_after_a_newer_one():
    rig = filled(60)
    log, seen = rig.replica("t").log, []
    for _ in steps(rig):
        found = consumed(rig)
        assert [pair[0] for pair in found] == sorted({pair[0] for pair in found})
        assert {key: value for _, key, value in found} == {b"0": b"58", b"1": b"59"}
        seen.append(len(found))
    assert log.cleaned_end
    assert seen[0] == 60 > seen[-1]


def test_while_files_are_replaced_a_reader_waits_for_them():
    rig = filled()
    log, client = rig.replica("t").log, rig.client()
    rig.holds = True
    for _ in steps(rig):
        if log.segments[0].is_awaited:
            break
    assert log.segments[0].is_awaited
    client.send(fetch("t", 0, max_wait_ms=10_000), 12)
    assert client.answers() == []
    rig.let_go()
    [answer] = client.answers()
    assert fetched(answer).records


def test_an_answer_that_waits_behind_another_ends_its_connection_when_its_file_is_replaced():
    rig = filled()
    rig.create("other")
    client = rig.client()
    rig.holds = True
    client.send(produce("other", keyed(b"k"), timeout_ms=60_000), 9)
    client.send(fetch("t", 0), 12)
    assert client.connection.has_slices_of("t-0/00000000000000000000.log")
    for _ in steps(rig):
        pass
    assert client.is_cut_off()
    rig.let_go()


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_meanwhile_leaves_nothing(again):
    rig = filled()
    for number, _ in enumerate(steps(rig)):
        if number == 3:
            rig.client().ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 3)
            assert rig.replica("t") is None
            if again:
                rig.create("t", **COMPACTED)
    assert rig.broker._cleaning._round is None
    if again:
        assert not [name for name in rig.disk.list("t-0") if name.endswith(".cleaned")]
        assert rig.replica("t").log.log_end == 0
    else:
        assert "t-0" not in rig.disk.directories()


def test_retention_ends_a_round_whose_segments_it_deletes():
    rig = filled(60, cleanup_policy="compact,delete")
    log = rig.replica("t").log
    for number, _ in enumerate(steps(rig)):
        if number == 4:
            log.log_start = log.segments[2].base_offset
            assert log.apply_retention(rig.wall) == 2
    assert not [name for name in rig.disk.list("t-0") if name.endswith((".cleaned", ".swap"))]
    assert consumed_keys(rig) == {b"0", b"1"}


def consumed_keys(rig):
    client, log = rig.client(), rig.replica("t").log
    return {key for _, key, _ in pairs_in(fetched(client.ask(fetch("t", log.log_start, max_bytes=1 << 20), 12)))}


def test_a_damaged_log_is_reported_once_and_left_alone():
    rig = filled()
    path = rig.replica("t").log.segments[0].path
    data = bytearray(rig.disk.read(path))
    data[-1] ^= 1
    rig.disk.replace(path, bytes(data))
    rig.pass_time(10 * BACKOFF_MS)
    assert len([text for text in rig.reports if "is not compacted any longer" in text]) == 1
    assert not rig.replica("t").log.cleaned_end


def test_without_room_on_the_disk_nothing_is_begun():
    rig = filled()
    rig.broker._cleaning._free_bytes = lambda: 10
    rig.pass_time(BACKOFF_MS)
    assert "no room" in rig.reports[-1]
    assert rig.broker._cleaning._round is None


def test_a_time_is_looked_up_in_a_compacted_log():
    rig = filled()
    rig.pass_time(BACKOFF_MS)
    asked = ListOffsetsPartition(partition_index=0, timestamp=WALL_MS, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(asked,)),))
    [answer] = rig.client().ask(request, 7).topics
    assert answer.partitions[0].offset == consumed(rig)[0][0]


def test_the_offsets_of_groups_are_compacted_and_read_after_a_restart():
    lines = "offsets.topic.segment.bytes=2000\noffsets.topic.num.partitions=1\noffsets.topic.replication.factor=1"
    rig = OneBroker(lines)
    rig.create("t")
    client = rig.client()
    with_offsets(rig)
    for offset in range(200):
        client.ask(commit(offset), 7)
    log = rig.replica("__consumer_offsets").log
    before = log.size_bytes
    rig.pass_time(2 * BACKOFF_MS)
    assert log.size_bytes < before / 5
    for crashes in (None, Random(3)):
        rig.restart(crashes=crashes)
        client = rig.client()
        assert client.ask(metadata("t"), 12).topics[0].name == "t"
        assert committed(client) == [(199, "md")]


def test_a_load_waits_for_files_that_are_being_replaced():
    rig = OneBroker(
        "offsets.topic.segment.bytes=2000\noffsets.topic.num.partitions=1\noffsets.topic.replication.factor=1"
    )
    rig.create("t")
    client = rig.client()
    with_offsets(rig)
    for offset in range(50):
        client.ask(commit(offset), 7)
    log = rig.replica("__consumer_offsets").log
    rig.holds = True
    for _ in steps(rig):
        if log.segments[0].is_awaited:
            break
    assert log.segments[0].is_awaited
    rig.begin_epoch("__consumer_offsets")
    assert rig.broker._coordinators._group_log._loading
    rig.let_go()
    assert not rig.broker._coordinators._group_log._loading
    assert committed(client) == [(49, "md")]
