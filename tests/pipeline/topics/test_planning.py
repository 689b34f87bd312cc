"""Which records a read gives: options, marks, times, transactions, replicas, damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.pipeline.rigs.topic_files import NOW, BrokerFiles, batch, marker, produced, rows_of
from zab.partition.records.batch import Codec
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import TOPIC

ALL = tuple(column.name for column in TOPIC)


def offsets(*args: object, **options: str) -> list[int]:
    return [row["offset"] for row in rows_of(*args, columns=("offset",), **options)]  # type: ignore[arg-type]


@pytest.fixture
def broker(tmp_path: Path) -> BrokerFiles:
    """Forty records of one partition, two in a batch, a second between batches, in some segments."""
    files = BrokerFiles(tmp_path / "one")
    files.add("t", *(batch([b"a%d" % n, b"b%d" % n], timestamp=NOW + 1000 * n) for n in range(20)))
    return files.save()


def test_every_column(tmp_path: Path) -> None:
    files = BrokerFiles(tmp_path / "one", broker=7)
    headers = (("h", b"1"), ("h", None), ("é", b""))
    record = Record(0, NOW, b"k", b"v", headers)
    files.add("t", batch(), bytearray(encode_batch([record, Record(1, NOW + 5, None, None)], Codec.ZSTD)), epoch=3)
    files.add("t", produced(9, 2, 4), marker(9, 2, commits=True), epoch=4)
    plain, first, second, third = rows_of(files.save().root, ALL)
    assert (plain["headers"], plain["key"], plain["value"]) == ([], None, b"value")
    assert first["headers"] == [{"key": name, "value": value} for name, value in headers]
    assert (first["key"], first["value"], second["key"], second["value"]) == (b"k", b"v", None, None)
    assert [row["offset"] for row in (plain, first, second, third)] == [0, 1, 2, 3]
    assert second["timestamp"].timestamp() * 1000 == NOW + 5
    assert [row["leader_epoch"] for row in (plain, third)] == [3, 4]
    assert [third[name] for name in ("producer_id", "producer_epoch", "sequence")] == [9, 2, 4]
    assert [plain[name] for name in ("producer_id", "producer_epoch", "sequence")] == [None, None, None]
    assert {row["broker"] for row in (plain, third)} == {"7"}
    assert (plain["segment"], plain["position"]) == ("00000000000000000000.log", 0)
    assert first["position"] == second["position"] == len(batch())
    assert (plain["topic"], plain["partition"], plain["timestampType"]) == ("t", 0, 0)


def test_the_time_of_the_append_is_that_of_every_record(tmp_path: Path) -> None:
    files = BrokerFiles(tmp_path / "one", message_timestamp_type="LogAppendTime")
    files.add("t", batch([b"1", b"2"], timestamp=5))
    rows = rows_of(files.save().root, ("timestamp", "timestampType"))
    assert [(row["timestamp"].timestamp() * 1000, row["timestampType"]) for row in rows] == [(NOW, 1)] * 2


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(tmp_path: Path, codec: Codec) -> None:
    files = BrokerFiles(tmp_path / "one")
    files.add("t", *(batch([b"v" * 100, b"w"], codec=codec) for _ in range(30)))
    assert [row["value"] for row in rows_of(files.save().root)] == [b"v" * 100, b"w"] * 30


# Ranges.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(40)),
        ({"startingOffsets": '{"t": {"0": 7}}'}, range(7, 40)),
        ({"startingOffsets": '{"t": {"0": -2}}', "ENDINGOFFSETS": '{"t": {"0": 9}}'}, range(9)),
        ({"endingOffsets": '{"t": {"0": -1}}'}, range(40)),
        ({"startingTimestamp": str(NOW + 4000)}, range(8, 40)),
        ({"startingTimestamp": str(NOW + 4001)}, range(9, 40)),
        ({"startingTimestamp": str(NOW + 4002)}, range(10, 40)),
        ({"startingTimestamp": "0", "endingTimestamp": str(NOW + 15_000)}, range(30)),
        ({"endingTimestamp": str(NOW + 99_000)}, range(40)),
        ({"startingOffsetsByTimestamp": json.dumps({"t": {"0": NOW + 19_001}})}, range(39, 40)),
        ({"startingTimestamp": str(NOW + 99_000), "startingOffsetsByTimestampStrategy": "latest"}, ()),
        ({"startingOffsets": '{"t": {"0": 50}}', "failOnDataLoss": "false"}, ()),
        ({"endingOffsets": '{"t": {"0": 50}}', "failOnDataLoss": "false"}, range(40)),
        ({"assign": '{"t": [0]}'}, range(40)),
        ({"subscribePattern": "[s-u]"}, range(40)),
    ],
)
@pytest.mark.parametrize("has_time_index", [True, False])
def test_ranges(broker: BrokerFiles, options: dict[str, str], expected: range, has_time_index: bool) -> None:
    if not has_time_index:
        for file in broker.segments("t"):
            file.with_suffix(".timeindex").unlink(missing_ok=True)
    assert offsets(broker.root, **options) == list(expected)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"colour": "red"}, "unknown option colour"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "give one of the options subscribe, assign"),
        ({"subscribe": "x"}, "no topic x; the topics are t"),
        ({"subscribe": " ,"}, "names no topic"),
        ({"subscribePattern": "x"}, "no topic is chosen; the topics are t"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"t": [1]}'}, "t has no partition 1"),
        ({"assign": "[1]"}, "option assign is like"),
        ({"assign": "{"}, "no JSON"),
        ({"startingOffsets": "latest"}, "no JSON"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "-2 is earliest"),
        ({"startingOffsets": '{"t": {"a": 1}}'}, "startingOffsets is like"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "startingOffsets is like"),
        ({"startingOffsets": '{"t": {"1": 1}}'}, "the starting offsets do not name partition 0 of t"),
        ({"startingOffsets": '{"t": {"0": 41}}'}, "offset 41 is not there, the directories have 0 to 40"),
        ({"endingOffsets": '{"t": {"0": 41}}'}, "offset 41 is not there"),
        ({"startingTimestamp": "soon"}, "no time in ms"),
        ({"startingTimestamp": str(NOW + 99_000)}, "no record has a timestamp of"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"kafka.isolation.level": "snapshot"}, "read_uncommitted or read_committed"),
        ({"replicas": "two"}, "one or all"),
    ],
)
def test_wrong_options_are_refused(broker: BrokerFiles, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence.replace("(", r"\(")):
        offsets(broker.root, **options)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("nowhere", "does not exist"), ("file", "is a file"), ("empty", "has no directories of part")],
)
def test_wrong_directories_are_refused(tmp_path: Path, place: str, sentence: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PipelineError, match=sentence):
        offsets(tmp_path / place)


@pytest.mark.parametrize("task_bytes", [1, 300, 700, 1 << 20])
def test_a_piece_is_cut_and_nothing_is_lost(broker: BrokerFiles, task_bytes: int) -> None:
    assert offsets(broker.root, task_bytes=task_bytes) == list(range(40))
    start = {"startingOffsets": '{"t": {"0": 13}}', "endingOffsets": '{"t": {"0": 21}}'}
    assert offsets(broker.root, task_bytes=task_bytes, **start) == list(range(13, 21))


# Marks.


def test_only_what_is_below_the_high_watermark(broker: BrokerFiles) -> None:
    broker.save(marks={"t": 11}, starts={"t": 3})
    assert offsets(broker.root) == list(range(3, 11))
    assert offsets(broker.root, uncommitted="true") == list(range(3, 40))
    with pytest.raises(PipelineError, match="offset 12 is not there"):
        offsets(broker.root, endingOffsets='{"t": {"0": 12}}')
    with pytest.raises(PipelineError, match="offset 2 is not there, the directories have 3 to 40"):
        offsets(broker.root, startingOffsets='{"t": {"0": 2}}')
    assert offsets(broker.root, startingOffsets='{"t": {"0": 2}}', failOnDataLoss="false") == list(range(3, 11))


def test_a_partition_that_no_checkpoint_names_has_nothing_committed(broker: BrokerFiles) -> None:
    (broker.root / "replication-offset-checkpoint").write_text("0\n0\n")
    assert offsets(broker.root) == []


def test_a_directory_that_does_not_say_what_is_committed(broker: BrokerFiles, tmp_path: Path) -> None:
    shutil.copytree(broker.root / "t-0", tmp_path / "alone" / "t-0")
    alone = tmp_path / "alone" / "t-0"
    with pytest.raises(PipelineError, match="no high watermark in replication-offset-checkpoint"):
        offsets(alone)
    assert offsets(alone, uncommitted="true") == list(range(40))
    assert offsets(alone, endingOffsets='{"t": {"0": 5}}') == list(range(5))
    assert offsets(broker.root / "t-0") == list(range(40)), "the log directory around it says it"


def test_records_below_the_mark_that_are_gone(broker: BrokerFiles) -> None:
    broker.segments("t")[-1].write_bytes(b"")
    end = int(broker.segments("t")[-1].stem)
    with pytest.raises(PipelineError, match=f"ends at offset {end}, and 40 is the high watermark"):
        offsets(broker.root)
    assert offsets(broker.root, failOnDataLoss="false") == list(range(end))


def test_what_is_on_its_way_out_is_not_read(broker: BrokerFiles) -> None:
    shutil.copytree(broker.root / "t-0", broker.root / f"t-1.{'0' * 32}-delete")
    shutil.copy(broker.segments("t")[0], broker.root / "t-0" / "00000000000000000099.log.deleted")
    assert offsets(broker.root) == list(range(40))


def test_a_segment_that_is_being_replaced(broker: BrokerFiles) -> None:
    broker.segments("t")[0].rename(broker.root / "t-0" / "00000000000000000000.log.swap")
    with pytest.raises(PipelineError, match="the cleaner is replacing a segment"):
        offsets(broker.root)


def test_topics_of_the_brokers_are_read_if_they_are_named(broker: BrokerFiles) -> None:
    broker.add("__consumer_offsets", batch([b"1"]))
    broker.save()
    assert offsets(broker.root) == list(range(40))
    assert offsets(broker.root, subscribe="__consumer_offsets") == [0]
    assert offsets(broker.root, subscribePattern=".*") == list(range(40))


def test_kafkas_own_files(broker: BrokerFiles) -> None:
    """A broker of a Raft quorum has another `meta.properties`; an index of an active segment is full of
    zeros; a checkpoint is empty until it is first written."""
    (broker.root / "cleaner-offset-checkpoint").write_bytes(b"")
    (broker.root / "meta.properties").write_text("#\nnode.id=12\nversion=1\ncluster.id=abc\n")
    for suffix in (".index", ".timeindex"):
        file = broker.segments("t")[-1].with_suffix(suffix)
        assert not file.exists()
        file.write_bytes(bytes(96))
    rows = rows_of(broker.root, ("offset", "broker"), startingTimestamp=str(NOW + 1))
    assert [row["offset"] for row in rows] == list(range(1, 40))
    assert {row["broker"] for row in rows} == {"12"}


# Several replicas.


@pytest.fixture
def brokers(broker: BrokerFiles, tmp_path: Path) -> list[BrokerFiles]:
    """A leader, and a follower that has not got everything yet."""
    other = BrokerFiles(tmp_path / "two", broker=2)
    other.add("t", *(batch([b"a%d" % n, b"b%d" % n], timestamp=NOW + 1000 * n) for n in range(15)))
    return [broker, other.save(marks={"t": 28})]


def test_each_record_comes_once(brokers: list[BrokerFiles]) -> None:
    roots = [one.root for one in brokers]
    for dirs in (roots, roots[::-1], [roots[0].parent]):
        rows = rows_of(dirs, ("offset", "broker"))
        assert [row["offset"] for row in rows] == list(range(40))
        assert {row["broker"] for row in rows} == {"1"}


def test_the_records_of_every_replica(brokers: list[BrokerFiles]) -> None:
    rows = rows_of([one.root for one in brokers], ("offset", "broker"), replicas="all")
    assert [(row["broker"], row["offset"]) for row in rows] == [
        *(("1", offset) for offset in range(40)),
        *(("2", offset) for offset in range(30)),
    ]


def test_two_topics_of_one_name(brokers: list[BrokerFiles]) -> None:
    metadata = brokers[1].root / "t-0" / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("dAAA", "dBBB"))
    with pytest.raises(PipelineError, match="belong to two topics named t"):
        offsets([one.root for one in brokers])


def break_batch(files: BrokerFiles, segment: int = 0, at: int = 70) -> Path:
    file = files.segments("t")[segment]
    content = bytearray(file.read_bytes())
    content[at] ^= 0xFF
    file.write_bytes(content)
    return file


def test_damage_is_refused_with_file_and_position(broker: BrokerFiles) -> None:
    file = break_batch(broker, 1)
    with pytest.raises(PipelineError, match=r"checksum.*option damaged=skip") as caught:
        offsets(broker.root)
    assert str(caught.value).startswith(f"{file} is damaged at byte 0: ")
    first = int(file.stem)
    assert offsets(broker.root, damaged="skip") == [one for one in range(40) if one not in (first, first + 1)]


def test_what_is_damaged_comes_from_another_replica(brokers: list[BrokerFiles]) -> None:
    whole = rows_of(brokers[0].root)
    break_batch(brokers[0], 0)
    # The follower does not reach the end, but it has what is damaged.
    (brokers[0].root / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    assert rows_of([one.root for one in brokers]) == whole[:30]
    break_batch(brokers[1], 0)
    with pytest.raises(PipelineError) as caught:
        offsets([one.root for one in brokers])
    assert [str(one.segments("t")[0]) in str(caught.value) for one in brokers] == [True, True]


def test_records_that_do_not_hold_together_are_damage(tmp_path: Path) -> None:
    """The checksum is that of the wrong bytes: a producer sent them."""
    files = BrokerFiles(tmp_path / "one")
    good = batch([b"1", b"2"])
    bad = bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))
    from zab.partition.records.batch import read_header, sealed

    header = read_header(bad)
    files.add("t", good, bytearray(sealed(header, bytes([0x7E, *bad[62:]]))), good)
    with pytest.raises(PipelineError, match=f"byte {len(good)}: record 0 has 63 bytes"):
        offsets(files.save().root)
    assert offsets(files.root, damaged="skip") == [0, 1, 3, 4]


# Transactions.


@pytest.fixture
def transactions(tmp_path: Path) -> BrokerFiles:
    """Offsets: 0-1 committed, 2 its marker, 3 plain, 4 aborted, 5 plain, 6 aborted, 7 its marker, 8 open, 9 plain."""
    files = BrokerFiles(tmp_path / "one", segment_bytes=200)
    files.add("t", produced(1, 0, 0, 2, transactional=True), marker(1, 0, commits=True), batch())
    files.add("t", produced(1, 0, 2, transactional=True), batch(), produced(1, 0, 3, transactional=True))
    files.add("t", marker(1, 0, commits=False), produced(1, 0, 4, transactional=True), batch())
    assert len(files.segments("t")) > 3
    return files.save()


OUTCOMES = {0: False, 1: False, 3: False, 4: True, 5: False, 6: True, 8: None, 9: False}


def test_outcomes_of_transactions(transactions: BrokerFiles) -> None:
    rows = rows_of(transactions.root, ("offset", "aborted", "transactional"))
    assert {row["offset"]: row["aborted"] for row in rows} == OUTCOMES
    assert [row["offset"] for row in rows if row["transactional"]] == [0, 1, 4, 6, 8]


def test_only_what_is_committed(transactions: BrokerFiles) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    assert offsets(transactions.root, **committed) == [0, 1, 3, 5]
    transactions.add("t", marker(1, 0, commits=True))
    assert offsets(transactions.save().root, **committed) == [0, 1, 3, 5, 8, 9]


def test_an_outcome_above_the_end_is_not_known(transactions: BrokerFiles) -> None:
    transactions.save(marks={"t": 7})
    rows = rows_of(transactions.root, ("offset", "aborted"))
    assert [row["offset"] for row in rows if row["aborted"] is None] == [4, 6]
    assert offsets(transactions.root, **{"kafka.isolation.level": "read_committed"}) == [0, 1, 3]


def test_without_snapshots_the_log_tells_what_is_open(transactions: BrokerFiles) -> None:
    for file in (transactions.root / "t-0").glob("*.snapshot"):
        file.unlink()
    rows = rows_of(transactions.root, ("offset", "aborted"))
    assert {row["offset"]: row["aborted"] for row in rows} == OUTCOMES


def test_a_damaged_index_of_transactions_is_refused(transactions: BrokerFiles) -> None:
    (file,) = (transactions.root / "t-0").glob("*.txnindex")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PipelineError, match=r"\.txnindex cannot be used"):
        rows_of(transactions.root, ("aborted",))
    assert len(offsets(transactions.root)) == 8, "nobody asked for it"
