"""Spark's data sources `zab.log` and `zab.damage`, and the functions that hide them."""

from __future__ import annotations

import json
import random
import re
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from datatree.log.batch import HEADER_BYTES
from tests.pipeline.rigs.log_builder import FIRST, in_batches, random_txns, write_native
from zab.pipeline import PipelineError, read_damage, read_log
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.errors import WholeLogWarning
from zab.pipeline.inventory import inventory
from zab.pipeline.member_files import LogFile
from zab.pipeline.places import open_place
from zab.pipeline.reading.log_source import damage_rows, plan_of
from zab.pipeline.reading.options import Options
from zab.pipeline.reading.planning import Range, plan, task_batches
from zab.pipeline.reading.spans import Span
from zab.pipeline.schema import DAMAGE, LOG, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [column.name for column in LOG]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members; a byte in the middle of the first one's log is wrong."""
    found = tmp_path_factory.mktemp("members")
    txns = random_txns(random.Random(1), 300)
    for member in (1, 2):
        write_native(found / str(member), [in_batches(txns[:150], 3), in_batches(txns[150:], 3)], member=member)
    path = found / "1" / "version-1" / f"log.{FIRST:x}"
    data = bytearray(path.read_bytes())
    data[in_the_middle(bytes(data))] ^= 1
    path.write_bytes(data)
    return found


def in_the_middle(log: bytes) -> int:
    """In the body of a batch."""
    return log.index(b"ZB\1\0", len(log) // 2) + HEADER_BYTES + 30


def plain(root: Path, **options: Any) -> list[dict[str, Any]]:
    """The rows without Spark."""
    tasks = plan(inventory(root), Range(), **options)
    return [row for task in tasks for batch in task_batches(task, NAMES) for row in batch.to_pylist()]


def by_place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["member"], row["zxid"], -1 if row["part"] is None else row["part"]


@pytest.mark.spark
def test_a_frame_has_the_rows_that_tasks_have(spark: SparkSession, root: Path) -> None:
    frame = read_log(spark, root)
    assert [(name, kind) for name, kind in frame.dtypes] == [(column.name, column.type) for column in LOG]
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        row["data"] = None if row["data"] is None else bytes(row["data"])
        row["time"] = row["time"].replace(tzinfo=UTC) if row["time"].tzinfo is None else row["time"]
    assert sorted(rows, key=by_place) == sorted(plain(root), key=by_place)
    assert len({row["zxid"] for row in rows if row["member"] == "1"}) < 300


@pytest.mark.spark
def test_columns_ranges_and_members(spark: SparkSession, root: Path) -> None:
    frame = read_log(
        spark, root.as_uri(), columns=["path", "zxid"], zxid_min=FIRST + 10, zxid_max=FIRST + 200, members="one"
    )
    assert frame.columns == ["path", "zxid"]
    assert {row["zxid"] for row in frame.collect()} == set(range(FIRST + 10, FIRST + 201))
    assert read_log(spark, root, zxid_min=FIRST + 5000).count() == 0
    # A filter on one use of the frame changes nothing for another.
    some = frame.where(frame["zxid"] < FIRST + 20)
    assert (some.count() < frame.count(), some.union(frame).count()) == (True, some.count() + frame.count())


@pytest.mark.spark
def test_a_large_plan_without_a_range_warns(spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_log(spark, root)
        monkeypatch.setattr("zab.pipeline.reading.log_source.WARNED_BYTES", 1000)
        for bounds in ({"zxid_min": FIRST}, {"zxid_max": FIRST}, {"time_min": 0}, {"time_max": 1 << 40}):
            read_log(spark, root, **bounds)
    with pytest.warns(WholeLogWarning, match="whatever is filtered afterwards: give zxid_min") as told:
        read_log(spark, root)
    assert told[0].filename == __file__


def test_the_format_is_there_for_sql_and_others(spark: SparkSession, root: Path) -> None:
    reader = (
        spark.read.format("zab.log").option("dirs", f"{root / '1'},{root / '2'}").option("zxidMin", hex(FIRST + 290))
    )
    assert reader.load().count() == reader.option("dirs", json.dumps([str(root)])).load().count() > 20
    chosen = reader.schema("zxid bigint, member string").option("members", "one").load()
    assert {tuple(row) for row in chosen.collect()} == {(zxid, "1") for zxid in range(FIRST + 290, FIRST + 300)}
    damage = spark.read.format("zab.damage").load(str(root))
    assert {row["kind"] for row in damage.collect()} == {"damaged", "gap"}


@pytest.mark.spark
def test_damage_has_its_place(spark: SparkSession, root: Path) -> None:
    frame = read_damage(spark, root)
    assert [(name, kind) for name, kind in frame.dtypes] == [(column.name, column.type) for column in DAMAGE]
    first = frame.where("kind = 'damaged'").collect()[0]
    path = root / "1" / "version-1" / f"log.{FIRST:x}"
    assert (first["member"], first["file"]) == ("1", str(path))
    assert first["offset"] < in_the_middle(path.read_bytes()) < first["end"]
    assert "checksum" in first["reason"]
    assert read_damage(spark, root, members="one").count() == 0


@pytest.mark.spark
def test_what_is_wrong_is_said_before_spark_starts(spark: SparkSession, root: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere does not exist"):
        read_log(spark, root / "nowhere")
    with pytest.raises(PipelineError, match="there is no column colour; there are ensemble, member"):
        read_log(spark, root, columns=["zxid", "colour"])
    with pytest.raises(PipelineError, match="zxids from 0x2 to 0x1 is empty"):
        read_damage(spark, root, zxid_min=2, zxid_max=1)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("option", "value", "schema", "reason"),
    [
        ("colour", "red", None, "unknown option colour"),
        ("zxidMin", "first", None, "'first' is no zxid"),
        ("members", "few", None, 'members is "all" or "one"'),
        ("uncommitted", "true", "zxid string", "zab.log has no column zxid string"),
    ],
)
def test_wrong_options_are_told(
    spark: SparkSession, root: Path, option: str, value: str, schema: str | None, reason: str
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.read.format("zab.log").option("dirs", str(root)).option(option, value)
    with pytest.raises(PySparkException, match=reason) as told:
        (reader if schema is None else reader.schema(schema)).load().count()
    # Nothing of the worker that found it: neither its stack nor its files.
    assert "Traceback" not in str(told.value)
    assert len(str(told.value).strip().splitlines()) <= 2


@pytest.mark.spark
def test_the_stack_of_what_a_user_did_not_do_is_there(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    def fail(batches: Any) -> Any:
        raise ValueError("a mistake in the worker")

    with pytest.raises(PySparkException, match=r"(?s)Traceback.*a mistake in the worker"):
        spark.range(4).mapInArrow(fail, "id bigint").count()


@pytest.mark.spark
def test_a_plan_shows_what_is_pruned(spark: SparkSession, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns by the schema, transactions by the options: what Spark selects and filters comes after the scan."""

    def scan(frame: Any) -> tuple[str, str]:
        frame.explain()
        lines = capsys.readouterr().out.splitlines()
        (found,) = (line for line in lines if "BatchScan" in line)
        return found, "\n".join(lines)

    every = spark.read.format("zab.log").load(str(root))
    pruned = spark.read.format("zab.log").schema("zxid bigint").option("zxidMin", hex(FIRST + 290)).load(str(root))
    chosen, shown = scan(every.where(f"zxid >= {FIRST + 290}").select("zxid"))
    assert re.search(r"\bFilter \(", shown)
    assert all(f"{name}#" in chosen for name in NAMES)
    own, shown = scan(pruned)
    assert [name for name in NAMES if f"{name}#" in own] == ["zxid"]
    assert not re.search(r"\bFilter \(", shown)
    assert 0 < pruned.count() < every.count()


@pytest.mark.spark
def test_a_file_that_is_gone_by_now_is_not_left_out(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    txns = random_txns(random.Random(1), 30)
    for member in (1, 2):
        write_native(tmp_path / str(member), [in_batches(txns, 3)], member=member)
    once = read_log(spark, tmp_path, members="one")
    every = read_log(spark, tmp_path)
    (tmp_path / "1" / "version-1" / f"log.{FIRST:x}").unlink()
    assert {row["member"] for row in once.collect()} == {"2"}
    with pytest.raises(PySparkException, match=r"cannot be read: .*; read the directory again"):
        every.collect()
    assert {row["member"] for row in read_log(spark, tmp_path).collect()} == {"2"}


# Without Spark.


def test_options_in_any_case_and_form() -> None:
    given = {"DIRS": "/a, b=/c ,s3://x/y", "zxidmin": "0x100000001", "zxidMax": "5000000000", "uncommitted": "True"}
    found = Options.parse(given | {"timeMin": "5", "timeMax": "2026-01-02T03:04:05.678+00:00", "members": "one"})
    assert found.dirs == ("/a", "b=/c", "s3://x/y")
    assert found.wanted == Range(FIRST, 5_000_000_000, 5, 1_767_323_045_678)
    assert (found.members, found.uncommitted) == ("one", True)
    assert Options.parse({"path": json.dumps(["/a,b"])}) == Options(("/a,b",), Range())
    assert Options.parse({"dirs": "/a", "maxRows": "5"}, also=["maxRows"]).dirs == ("/a",)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, '"dirs" is missing'),
        ({"dirs": "[1"}, "no JSON list"),
        ({"dirs": "/a", "zxidmax": "0xg"}, "'0xg' is no zxid"),
        ({"dirs": "/a", "timemin": "yesterday"}, "'yesterday' is no time"),
        ({"dirs": "/a", "timemin": "5", "timemax": "4"}, "is empty"),
        ({"dirs": "/a", "uncommitted": "perhaps"}, "uncommitted is true or false"),
    ],
)
def test_options_that_say_nothing_are_told(given: dict[str, str], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        Options.parse(given)


def test_a_plan_of_options(root: Path) -> None:
    options = Options.parse({"dirs": str(root), "zxidmin": hex(FIRST + 160)})
    spans = [span for task in plan_of(options) for span in task.spans]
    assert [(span.member, span.file.first) for span in spans] == [("1", FIRST + 150), ("2", FIRST + 150)]
    every = [span for task in plan_of(Options((str(root),), Range()), whole_files=True) for span in task.spans]
    assert len(every) == 4


def test_damage_as_rows() -> None:
    file = LogFile(open_place("s3://key:secret@bucket/1/version-1?region=eu-central-1") / "log.5", "native", 5, 100)
    batch = damage_rows(Span("e", "1", file), [Damage(7, None, "torn", "cut short")])
    assert batch.to_pylist() == [
        {
            "ensemble": "e",
            "member": "1",
            "file": "s3://bucket/1/version-1/log.5",
            "offset": 7,
            "end": None,
            "kind": "torn",
            "reason": "cut short",
        }
    ]
    assert ddl(DAMAGE).startswith("ensemble string, member string")


def test_times_without_a_zone_are_refused() -> None:
    """Python takes one for local, Spark for one of its session, and the log has UTC."""
    with pytest.raises(PipelineError, match="2020-01-01T00:00:00 has no time zone; write 2020-01-01T00:00:00Z if it"):
        Range.of(None, None, None, datetime(2020, 1, 1))
    with pytest.raises(PipelineError, match="2020-01-01T05:00:00 has no time zone"):
        Options.parse({"dirs": "/a", "timeMin": "2020-01-01 05:00"})


def test_a_plan_of_options_without_a_range_says_what_it_reads(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab.pipeline.reading.log_source.WARNED_BYTES", 1000)
    plan_of(Options.parse({"dirs": str(root), "zxidmin": hex(FIRST)}))
    assert capsys.readouterr().err == ""
    plan_of(Options.parse({"dirs": str(root)}))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zab: this reads all of 0.0 GiB of logs")
