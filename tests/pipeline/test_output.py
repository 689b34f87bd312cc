"""Results as files and directories: formats, what may be replaced, and what is left when something fails."""

from __future__ import annotations

import csv
import datetime
import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from zab.pipeline.errors import PipelineError
from zab.pipeline.output import check_out, write, write_table
from zab.pipeline.places import Place, open_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME = datetime.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
ROWS: list[dict[str, Any]] = [
    {"zxid": 1 << 40, "path": "/a,b\n\"é\"", "data": b"\x00\xff", "time": TIME, "paths": ["/x", "/y"], "share": 0.5},
    {"zxid": -1, "path": "", "data": b"", "time": None, "paths": [], "share": None},
    {"zxid": None, "path": None, "data": None, "time": None, "paths": None, "share": None},
]  # fmt: skip
SCHEMA = pa.schema(
    [
        ("zxid", pa.int64()),
        ("path", pa.string()),
        ("data", pa.binary()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("paths", pa.list_(pa.string())),
        ("share", pa.float64()),
    ]
)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(ROWS, schema=SCHEMA))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# With Spark.


@pytest.mark.spark
def test_parquet_file_has_the_rows_as_they_are(frame: DataFrame, tmp_path: Path) -> None:
    assert write(frame, str(tmp_path / "x.parquet")) == 3
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.to_pylist() == ROWS
    assert [field.type for field in table.schema] == [field.type for field in SCHEMA]
    assert names(tmp_path) == ["x.parquet"]


@pytest.mark.spark
def test_json_file_has_an_object_per_line(frame: DataFrame, tmp_path: Path) -> None:
    assert write(frame, str(tmp_path / "x.json")) == 3
    found = [json.loads(line) for line in (tmp_path / "x.json").read_text().splitlines()]
    assert found == [
        {
            "zxid": 1 << 40, "path": "/a,b\n\"é\"", "data": "AP8=",
            "time": "2026-03-01T12:00:00.250Z", "paths": ["/x", "/y"], "share": 0.5,
        },
        {"zxid": -1, "path": "", "data": "", "time": None, "paths": [], "share": None},
        dict.fromkeys(SCHEMA.names),
    ]  # fmt: skip


@pytest.mark.spark
def test_csv_file_begins_with_the_names(frame: DataFrame, tmp_path: Path) -> None:
    assert write(frame, str(tmp_path / "x.csv")) == 3
    with (tmp_path / "x.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert found == [
        SCHEMA.names,
        [str(1 << 40), "/a,b\n\"é\"", "AP8=", "2026-03-01T12:00:00.250Z", '["/x","/y"]', "0.5"],
        ["-1", "", "", "", "[]", ""],
        [""] * 6,
    ]  # fmt: skip
    assert (tmp_path / "x.csv").read_text().endswith('-1,"","",,"[]",\n,,,,,\n')


@pytest.mark.spark
def test_text_of_a_csv_file_is_no_formula(spark: SparkSession, tmp_path: Path) -> None:
    """A program of tables would run what some client wrote."""
    texts = ["=1+2", "+1", "-1", "@x", "\tx", "/plain", "a=b", "", None]
    rows = [(number, text, [text]) for number, text in enumerate(texts, -1)]
    write(spark.createDataFrame(rows, "number long, path string, paths array<string>"), str(tmp_path / "x.csv"))
    with (tmp_path / "x.csv").open(newline="") as file:
        _, *found = csv.reader(file)
    assert [row[0] for row in found][:2] == ["-1", "0"], "a number is one"
    assert [row[1] for row in found] == ["'=1+2", "'+1", "'-1", "'@x", "'\tx", "/plain", "a=b", "", ""]
    assert found[0][2] == '["=1+2"]'


@pytest.mark.spark
@pytest.mark.parametrize("ending", ["parquet", "json", "csv"])
def test_order_and_count_of_many_parts(spark: SparkSession, tmp_path: Path, ending: str) -> None:
    """One file out of several tasks, some of them without rows, in the order of the frame."""
    many = spark.range(0, 1200, numPartitions=12).where("id % 7 < 5 and (id < 300 or id >= 500)")
    expected = [number for number in range(1200) if number % 7 < 5 and not 300 <= number < 500]
    assert write(many, str(tmp_path / f"x.{ending}")) == len(expected)
    if ending == "parquet":
        found = pq.read_table(tmp_path / "x.parquet")["id"].to_pylist()
    elif ending == "json":
        found = [json.loads(line)["id"] for line in (tmp_path / "x.json").read_text().splitlines()]
    else:
        found = list(map(int, (tmp_path / "x.csv").read_text().splitlines()[1:]))
    assert found == expected


@pytest.mark.spark
def test_directory_of_parts(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    assert write(spark.range(0, 10, numPartitions=3), str(out), "csv") == 10
    assert names(out) == ["part-00000.csv", "part-00001.csv", "part-00002.csv"]
    assert [(out / name).read_text().splitlines()[0] for name in names(out)] == ['"id"'] * 3
    with pytest.raises(PipelineError, match="rows is there already; --overwrite replaces it"):
        write(spark.range(1), str(out), "csv")
    assert write(spark.range(0, 2, numPartitions=1), f"{out}/", "json", overwrite=True) == 2
    assert names(out) == ["part-00000.json"]
    assert spark.read.json(str(out)).count() == 2
    assert names(tmp_path) == ["rows"]


@pytest.mark.spark
def test_nothing_is_written_as_nothing(spark: SparkSession, tmp_path: Path) -> None:
    none = spark.createDataFrame(pa.Table.from_pylist([], schema=SCHEMA)).where("zxid > 0")
    for name in ("x.parquet", "x.json", "x.csv", "rows"):
        assert write(none, str(tmp_path / name)) == 0
    assert pq.read_table(tmp_path / "x.parquet").schema.names == SCHEMA.names
    assert (tmp_path / "x.json").read_bytes() == b""
    assert (tmp_path / "x.csv").read_text() == '"zxid","path","data","time","paths","share"\n'
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 0


@pytest.mark.spark
def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """What was there stays: the job's own error comes through."""
    from zab.pipeline.spark_session import plain_errors

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() >= 500:
                raise PipelineError("the log is damaged")

    bad = spark.range(0, 1000, numPartitions=2).mapInArrow(fail, "id bigint")
    out = tmp_path / "x.json"
    out.write_text("before")
    with pytest.raises(PipelineError, match=r"^the log is damaged$"), plain_errors():
        write(bad, str(out), overwrite=True)
    assert names(tmp_path) == ["x.json"]
    assert out.read_text() == "before"


# Without.


def test_name_says_what_it_holds(tmp_path: Path) -> None:
    def kind(name: str, output_format: str | None = None) -> tuple[str, bool]:
        target = check_out(f"{tmp_path}/{name}", output_format)
        return target.format, target.is_file

    assert kind("x.parquet") == ("parquet", True)
    assert kind("x.JSON") == ("json", True)
    assert kind("x.csv/") == ("csv", False)
    assert kind("x") == ("parquet", False)
    assert kind("x.d", "csv") == ("csv", False)
    with pytest.raises(PipelineError, match="is to hold csv, but its name says json"):
        kind("x.json", "csv")
    with pytest.raises(PipelineError, match="no format xml: it is one of parquet, json, csv"):
        kind("x", "xml")


def test_only_an_earlier_output_is_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "part-00000.json").write_text("{}")
    (data / "myid").write_text("1")
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "y.json").mkdir()
    for out, message in (
        ("data", "data is no earlier output, it holds myid: it is not replaced"),
        ("x.json/", "x.json is a file: it is not replaced by a directory"),
        ("y.json", "y.json is a directory: it is not replaced by a file"),
        ("none/x.json", "there is no directory .*none"),
    ):
        with pytest.raises(PipelineError, match=message):
            check_out(f"{tmp_path}/{out}", overwrite=True)
    with pytest.raises(PipelineError, match=r"x\.json is there already"):
        check_out(str(tmp_path / "x.json"))
    (data / "myid").unlink()
    assert check_out(str(data), overwrite=True).overwrite


class FullStream:
    """Takes some bytes, then none."""

    def __init__(self, stream: Any, room: int) -> None:
        self._stream, self._room = stream, room

    def write(self, content: Any) -> int:
        self._room -= len(memoryview(content))
        if self._room < 0:
            raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")
        return int(self._stream.write(content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class FullDisk:
    """The local file system, with `room` bytes for each file."""

    def __init__(self, room: int) -> None:
        self._local, self._room = fs.LocalFileSystem(), room

    def open_output_stream(self, path: str) -> FullStream:
        return FullStream(self._local.open_output_stream(path), self._room)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.RecordBatch.from_pydict({"line": [f"line {number}\n"] * 100})


@pytest.mark.parametrize("output_format", ["json", "csv"])
def test_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output_format: str) -> None:
    monkeypatch.setattr(Place, "file_system", FullDisk(2000))
    with pytest.raises(PipelineError, match=r"x cannot be written: the disk is full$"):
        write_table(batches(50), open_place(str(tmp_path / "x")), output_format)
    with pytest.raises(PipelineError, match=r"whole cannot be written: the disk is full$"):
        write_table(batches(50), open_place(str(tmp_path / "x")), output_format, part_of=open_place("whole"))


@pytest.mark.spark
def test_full_disk_leaves_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts have room, in the workers, and the file that they are joined to has not."""
    monkeypatch.setattr(Place, "file_system", FullDisk(2000))
    for name in ("x.json", "x.csv"):
        with pytest.raises(PipelineError, match="the disk is full"):
            write(spark.range(1000), str(tmp_path / name))
    assert names(tmp_path) == []


def test_what_the_file_system_says_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"file/x cannot be written: Not a directory$"):
        write_table(batches(1), open_place(str(tmp_path / "file" / "x")), "json")


def test_an_error_of_the_rows_is_not_the_outputs(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        raise OSError(errno.EIO, "of the reader")

    with pytest.raises(OSError, match="of the reader"):
        write_table(failing(), open_place(str(tmp_path / "x")), "json")


class NoRename:
    """An object store: `move` copies one object, and there are no directories to move."""

    type_name = "s3"

    def __init__(self) -> None:
        self._local = fs.LocalFileSystem()

    def move(self, source: str, target: str) -> None:
        assert Path(source).is_file(), "a store moves objects, not directories"
        Path(target).parent.mkdir(exist_ok=True)
        self._local.move(source, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)


@pytest.mark.spark
def test_directory_in_a_store_is_whole_when_it_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Place, "file_system", NoRename())
    out = tmp_path / "rows"
    assert write(spark.range(0, 10, numPartitions=2), str(out), "json") == 10
    assert names(out) == ["_SUCCESS", "part-00000.json", "part-00001.json"]
    assert write(spark.range(0, 3, numPartitions=1), str(out), "json", overwrite=True) == 3
    assert names(out) == ["_SUCCESS", "part-00000.json"]
    assert names(tmp_path) == ["rows"]


@pytest.mark.spark
def test_uri_is_a_place_too(spark: SparkSession, tmp_path: Path) -> None:
    assert write(spark.range(3), f"file://{tmp_path}/x.parquet") == 3
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 3


@pytest.mark.spark
def test_parts_on_disks_of_other_machines_are_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Place, "list", lambda _place: [])
    with pytest.raises(PipelineError, match=r"to disks of their own .* give a directory that all machines share"):
        write(spark.range(3), str(tmp_path / "x.json"))
    assert names(tmp_path) == []


def test_texts_are_written_from_a_slice_of_their_array(tmp_path: Path) -> None:
    whole = next(batches(1))
    place = open_place(str(tmp_path / "x"))
    assert write_table([whole.slice(3, 2), whole.slice(0, 0)], place, "json") == 2
    assert (tmp_path / "x").read_text() == "line 0\n" * 2
    assert write_table([whole.slice(0, 0)], open_place(str(tmp_path / "y")), "json") == 0
    assert names(tmp_path) == ["x"]
