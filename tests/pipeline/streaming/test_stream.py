"""`spark.readStream.format("zab.log")`: its offsets without Spark, and a few streams with it."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.log_writer import History, LogWriter
from zab.pipeline.errors import PipelineError
from zab.pipeline.streaming import stream
from zab.pipeline.streaming.stream import LogStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERYTHING = ReadAllAvailable()


def reader_of(*dirs: Path | str, **options: str) -> LogStreamReader:
    return LogStreamReader({"dirs": json.dumps([str(path) for path in dirs]), **options}, ("zxid", "data"))


def zxids(offset: dict[str, Any]) -> dict[str, int]:
    return {name: one["zxid"] for name, one in offset["ensembles"].items()}


def begun(reader: LogStreamReader) -> dict[str, Any]:
    offset = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert reader.partitions(reader.initialOffset(), offset) == [], "the first batch is empty"
    return offset


def read(reader: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """As Spark does: offsets and partitions travel, and readers are made again."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [zxid for batch in batches for zxid in batch.column("zxid").to_pylist()]


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def writer(tmp_path: Path, history: History) -> LogWriter:
    """Three files of ten transactions, all committed."""
    writer = LogWriter(tmp_path / "one")
    for _ in range(3):
        writer.log.append([history.add(4), history.add(6)])
        writer.log.roll()
    writer.log.set_mark(history.zxid)
    return writer


NAME = bytes(range(16)).hex()


# -------------------------------------------------------------------------------------------------------- without Spark


def test_offsets_are_zxids_and_batches_are_what_lies_between(history: History, writer: LogWriter) -> None:
    reader = reader_of(writer.directory)
    at, seen = begun(reader), []
    assert zxids(at) == {NAME: 0}
    while (end := reader.latestOffset(at, ReadMaxRows(7))) != at:
        seen.append(read(reader, at, end))
        at = end
    assert [len(batch) for batch in seen] == [7, 7, 7, 7, 2]
    assert [zxid for batch in seen for zxid in batch] == history.zxids()
    assert reader.latestOffset(at, EVERYTHING) is at, "an unchanged offset is the same text"
    writer.log.append([history.add(3), history.add(1)])
    end = reader.latestOffset(at, EVERYTHING)
    assert read(reader, at, end) == history.zxids()[30:33]


def test_a_batch_is_the_same_after_a_restart(history: History, writer: LogWriter) -> None:
    reader = reader_of(writer.directory)
    start = begun(reader)
    middle = reader.latestOffset(start, ReadMaxRows(13))
    end = reader.latestOffset(middle, ReadMaxRows(9))
    writer.log.append([history.add(2), history.add(1)])
    assert read(reader_of(writer.directory), middle, end) == history.zxids()[13:22]
    assert read(reader_of(writer.directory), start, middle) == history.zxids()[:13]


def test_starts_where_it_is_told(history: History, writer: LogWriter) -> None:
    all_of_them = history.zxids()
    assert zxids(begun(reader_of(writer.directory, startingZxid="latest"))) == {NAME: history.zxid}
    reader = reader_of(writer.directory, startingZxid=hex(all_of_them[11]))
    start = begun(reader)
    assert read(reader, start, reader.latestOffset(start, EVERYTHING)) == all_of_them[11:]
    reader = reader_of(writer.directory, startingZxid=str(history.zxid + 1))
    start = begun(reader)
    assert reader.latestOffset(start, EVERYTHING) == start


def test_a_start_outside_of_what_is_kept_is_named(history: History, writer: LogWriter) -> None:
    writer.path(0).unlink()
    with pytest.raises(PipelineError, match=r"zxid 0x10000000a of .* older than what is kept: .* from 0x10000000a"):
        begun(reader_of(writer.directory, startingZxid="0x10000000a"))
    assert zxids(begun(reader_of(writer.directory, startingZxid="0x10000000b"))) == {NAME: 0x10000000A}
    with pytest.raises(PipelineError, match=r"zxid 0x100000020 of .* is not there: the logs end at 0x10000001e"):
        begun(reader_of(writer.directory, startingZxid="0x100000020"))


def test_a_checkpoint_older_than_what_is_kept_fails(writer: LogWriter) -> None:
    reader = reader_of(writer.directory)
    start = begun(reader)
    end = reader.latestOffset(start, ReadMaxRows(5))
    writer.path(0).unlink()
    with pytest.raises(PipelineError, match="what follows zxid 0x100000005 is no longer kept"):
        reader_of(writer.directory).latestOffset(end, EVERYTHING)
    with pytest.raises(PipelineError, match="what follows zxid 0x0 is no longer kept"):
        read(reader_of(writer.directory), start, end)


def test_a_missing_file_is_waited_for_and_then_an_error(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reader_of(writer.directory)
    start = begun(reader)
    missing = writer.path(1)
    missing.rename(tmp_path / "elsewhere")
    at = reader.latestOffset(start, EVERYTHING)
    assert zxids(at) == {NAME: 0x10000000A}
    assert reader.latestOffset(at, EVERYTHING) is at
    monkeypatch.setattr(stream, "OBSTACLE_SECONDS", 0.0)
    with pytest.raises(PipelineError, match=r"no member has what follows zxid 0x10000000a: .*log\.100000015 goes on"):
        reader.latestOffset(at, EVERYTHING)
    monkeypatch.undo()
    (tmp_path / "elsewhere").rename(missing)
    assert zxids(reader.latestOffset(at, EVERYTHING)) == {NAME: 0x10000001E}


def test_available_now_is_what_was_there_when_it_began(history: History, writer: LogWriter) -> None:
    reader = reader_of(writer.directory)
    reader.prepareForTriggerAvailableNow()
    at, seen = begun(reader), []
    last = history.zxid
    while (end := reader.latestOffset(at, ReadMaxRows(8))) != at:
        writer.log.append([history.add(5), history.add(1)])
        seen += read(reader, at, end)
        at = end
    assert seen == history.zxids()[:30]
    assert zxids(at) == {NAME: last}


def test_available_now_does_not_wait_for_what_is_missing(writer: LogWriter) -> None:
    writer.path(1).unlink()
    reader = reader_of(writer.directory)
    reader.prepareForTriggerAvailableNow()
    start = begun(reader)
    at = reader.latestOffset(start, EVERYTHING)
    with pytest.raises(PipelineError, match="no member has what follows zxid 0x10000000a"):
        reader.latestOffset(at, EVERYTHING)


def test_several_ensembles_share_a_batch(tmp_path: Path) -> None:
    histories, dirs = {}, []
    for name, count in (("busy", 40), ("idle", 2), ("quiet", 9)):
        histories[name] = History()
        writer = LogWriter(tmp_path / name)
        writer.log.append([histories[name].add(count)])
        writer.log.set_mark(histories[name].zxid)
        dirs.append(f"{name}={writer.directory}")
    reader = reader_of(*dirs)
    at = begun(reader)
    counts = []
    while (end := reader.latestOffset(at, ReadMaxRows(12))) != at:
        counts.append({name: zxids(end)[name] - zxids(at)[name] & 0xFFFFFFFF for name in histories})
        at = end
    assert [sum(one.values()) for one in counts] == [12, 12, 12, 12, 3]
    assert counts[0] == {"busy": 6, "idle": 2, "quiet": 4}
    assert zxids(at) == {name: history.zxid for name, history in histories.items()}


def test_an_ensemble_that_appears_is_followed_from_its_beginning(
    history: History, writer: LogWriter, zookeeper_directories: Directories
) -> None:
    top = writer.directory.parent
    reader = reader_of(top)
    at = reader.latestOffset(begun(reader), EVERYTHING)
    shutil.copytree(zookeeper_directories.members[0].parent.parent, top / "more")
    end = reader.latestOffset(at, EVERYTHING)
    assert zxids(end) == {**zxids(at), "more": 0x100000000}
    assert read(reader, at, end) == []
    at = reader.latestOffset(end, EVERYTHING)
    assert zxids(at) == {NAME: history.zxid, "more": zookeeper_directories.last_zxid}
    assert len(read(reader, end, at)) > len(zookeeper_directories.writes)


@pytest.mark.parametrize("name", ["zab_directories", "zookeeper_directories"])
def test_a_checkpoint_of_another_history_is_refused(
    name: str, request: pytest.FixtureRequest, writer: LogWriter, tmp_path: Path
) -> None:
    directories: Directories = request.getfixturevalue(name)
    dirs = [f"here={path}" for path in directories.members]
    start = begun(reader_of(*dirs))
    with pytest.raises(
        PipelineError, match=r"follows here of lineage (unknown|[0-9a-f]{32}), and the directories hold"
    ):
        reader_of(f"here={writer.directory}").latestOffset(start, EVERYTHING)
    with pytest.raises(
        PipelineError, match=f"follows the ensemble here, which is not in {writer.directory}, only {NAME}"
    ):
        reader_of(writer.directory).latestOffset(start, EVERYTHING)


def test_a_checkpoint_of_another_zookeeper_is_refused(zookeeper_directories: Directories) -> None:
    dirs = [f"here={path}" for path in zookeeper_directories.members]
    start = begun(reader_of(*dirs))
    start["ensembles"]["here"]["begins"] = "00" * 12
    with pytest.raises(PipelineError, match=r"another ensemble of the name here: .*log\.100000001 does not begin"):
        reader_of(*dirs).latestOffset(start, EVERYTHING)


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        ({"version": 2}, "has version 2"),
        ({"version": 1}, "not one of a stream"),
        ({"topic": {"0": 1}}, "not one of a stream"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(offset: dict[str, Any], reason: str, writer: LogWriter) -> None:
    with pytest.raises(PipelineError, match=reason):
        reader_of(writer.directory).latestOffset(offset, EVERYTHING)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingZxid": "now"}, "neither earliest, latest nor a zxid"),
        ({"startingZxid": "-5"}, "is no zxid"),
        ({"maxRowsPerTrigger": "0"}, "no number of rows"),
        ({"zxidMin": "0x1"}, "a stream has no end and no range"),
        ({"members": "all"}, "each transaction once"),
        ({"colour": "red"}, "unknown option colour"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], reason: str, writer: LogWriter) -> None:
    with pytest.raises(PipelineError, match=reason):
        reader_of(writer.directory, **options)


def test_a_file_that_turns_out_to_be_damaged_is_read_from_another_member(
    zab_directories: Directories, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    whole = reader_of(*zab_directories.members)
    start = begun(whole)
    end = whole.latestOffset(start, EVERYTHING)
    reader = reader_of(*copy.members)
    reader.following.poll()
    for ensemble in reader.following.ensembles.values():
        ensemble._preferred = "1"
    parts = reader.partitions(start, end)
    injected = damage.flip_byte(copy, where="record")
    assert injected.zxids is not None
    rows = [zxid for part in parts for batch in reader.read(part) for zxid in batch.column("zxid").to_pylist()]
    assert rows == read(whole, start, end)
    with pytest.raises(PipelineError, match=rf"{injected.file.name} is damaged at offset \d+.*no other member has"):
        read(reader_of(copy.members[0]), start, end)


# ----------------------------------------------------------------------------------------------------------- with Spark


def follow_now(spark: "SparkSession", directories: Directories, tmp_path: Path, **options: str) -> "DataFrame":
    dirs = json.dumps([str(path) for path in directories.members])
    rows = spark.readStream.format("zab.log").options(dirs=dirs, **options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress is not None
    return spark.read.parquet(str(tmp_path / "rows"))


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["zab_directories", pytest.param("zookeeper_directories", marks=[pytest.mark.java, pytest.mark.long])]
)
def test_a_stream_has_the_rows_of_the_log(
    name: str, request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path
) -> None:
    from zab.pipeline.reading.frames import read_log

    directories: Directories = request.getfixturevalue(name)
    columns = ["zxid", "part", "operation", "path", "data", "session", "owner", "checksum"]
    rows = follow_now(spark, directories, tmp_path, maxRowsPerTrigger="4000").select(columns)
    expected = read_log(spark, [str(path) for path in directories.members], columns=columns, members="one")
    assert rows.count() == expected.count() > len(directories.writes)
    where = "operation <> 'error'"
    assert rows.where(where).exceptAll(expected.where(where)).count() == 0
    assert follow_now(spark, directories, tmp_path).count() == expected.count(), "nothing comes a second time"


@pytest.mark.spark
def test_a_failure_of_a_stream_is_a_sentence(
    spark: "SparkSession", zab_directories: Directories, tmp_path: Path
) -> None:
    from zab.pipeline.spark_session import plain_errors

    beyond = hex(zab_directories.last_zxid + 2)
    sentence = rf"^zxid {beyond} of [0-9a-f]+ is not there: the logs end at 0x\w+$"
    with pytest.raises(PipelineError, match=sentence), plain_errors():
        follow_now(spark, zab_directories, tmp_path, startingZxid=beyond)
