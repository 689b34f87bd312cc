"""Writes the result of a job: a file or a directory of parts, as Parquet, JSON or CSV, on a disk or in an object store.

    write(frame, "changes.parquet")               one file; the ending says what it holds
    write(frame, "s3://bucket/changes", "csv")    a directory of parts, part-00000.csv and on

Spark's tasks write their parts in parallel, through `pyarrow.fs`, into a directory beside the target. The driver then
gives it the target's name, or joins the parts to one file. The rows are in the order of the frame.

JSON is one object per line, with every column; CSV begins with the names. Times are text in UTC, to the millisecond;
binary is base64 in both, as `zab log --json` has it; a list is JSON text in CSV. In CSV, null is an empty field and the
empty text is "".

Invariants: nothing has the target's name until everything is written, and a failure leaves no files. On a disk and in
HDFS, one rename gives it the name; object stores cannot rename, so a directory there is complete when its `_SUCCESS`
exists. Nothing is replaced unless the caller asks for it, and then only what looks like an earlier output.
"""

import contextlib
import errno
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.places import Place, open_place, shown, without_query
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FORMATS", "Target", "check_out", "write", "write_table"]

FORMATS: Final = ("parquet", "json", "csv")

_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
_DONE: Final = "_SUCCESS"
_FORMULA: Final = r"^[=+\-@\t\r]"
"""How a text begins that a spreadsheet would take for a formula. In CSV a quotation mark is put before it."""
_PART: Final = re.compile(r"part-\d{5,}\.(parquet|json|csv)")
_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_LINE: Final = "line"
_COPY_BYTES: Final = 4 << 20


@frozen
class Target:
    """Where a result goes. `is_file`: one file, else a directory of parts."""

    place: Place
    format: str
    is_file: bool
    overwrite: bool

    def write(self, frame: "DataFrame") -> int:
        """Write all rows; return how many. Raises PipelineError, and the errors of the job."""
        self.check()
        system = self.place.file_system
        aside = self.place.parent / f".{self.place.name}.{secrets.token_hex(4)}.tmp"
        try:
            with _plainly(self.place):
                system.create_dir(aside.path)
            prepared = _PREPARE[self.format](frame)
            writer = partial(_write_part, target=self, aside=aside)
            found = map_batches(prepared, writer, "number int, name string, rows bigint").collect()
            parts = [aside / row["name"] for row in sorted(found, key=lambda row: row["number"])]
            with _plainly(self.place):
                self._check_parts(aside, parts)
                self._finish(aside, parts, _schema(prepared))
        finally:
            with contextlib.suppress(OSError):
                system.delete_dir(aside.path)
        return sum(row["rows"] for row in found)

    def write_bytes(self, data: bytes) -> None:
        """Write a file that is not a table. Raises PipelineError."""
        assert self.is_file
        self.check()
        system = self.place.file_system
        aside = self.place.parent / f".{self.place.name}.{secrets.token_hex(4)}.tmp"
        try:
            with _plainly(self.place):
                with system.open_output_stream(aside.path) as stream:
                    stream.write(data)
                system.move(aside.path, self.place.path)
        finally:
            with contextlib.suppress(OSError):
                system.delete_file(aside.path)

    def check(self) -> None:
        """Raises PipelineError if the target may not be written, or cannot be."""
        place = self.place
        with _plainly(place):
            kind, parent = place.kind(), place.parent.kind()
        is_local = place.file_system.type_name == "local"
        if is_local and parent != "directory":
            raise PipelineError(f"{place} cannot be written: there is no directory {place.parent}")
        if not kind:
            return
        if not self.overwrite:
            raise PipelineError(f"{place} is there already; --overwrite replaces it")
        if (kind == "file") != self.is_file:
            wanted = "a file" if self.is_file else "a directory"
            raise PipelineError(f"{place} is a {kind}: it is not replaced by {wanted}")
        if not self.is_file and (other := _other_than_parts(place)):
            raise PipelineError(f"{place} is no earlier output, it holds {other}: it is not replaced")

    def _check_parts(self, aside: Place, parts: list[Place]) -> None:
        there = {entry.name for entry in aside.list()}
        missing = [part.name for part in parts if part.name not in there]
        if missing:
            raise PipelineError(
                f"the workers wrote parts of {self.place} to disks of their own ({missing[0]} is not on this machine): "
                "give a directory that all machines share, or the URI of a store"
            )

    def _finish(self, aside: Place, parts: list[Place], schema: pa.Schema) -> None:
        if self.is_file:
            whole = aside / self.place.name
            _JOIN[self.format](whole, parts, schema)
            self.place.file_system.move(whole.path, self.place.path)
            return
        if not parts:
            parts = [aside / "empty"]
            _JOIN[self.format](parts[0], [], schema)
        self._give_name(aside, parts)

    def _give_name(self, aside: Place, parts: list[Place]) -> None:
        system = self.place.file_system
        names = [f"part-{number:05}.{self.format}" for number in range(len(parts))]
        if system.type_name in _OBJECT_STORES:
            self._clear()
            for part, name in zip(parts, names, strict=True):
                system.move(part.path, (self.place / name).path)
            with system.open_output_stream((self.place / _DONE).path):
                pass
            return
        inner = aside / "parts"
        system.create_dir(inner.path)
        for part, name in zip(parts, names, strict=True):
            system.move(part.path, (inner / name).path)
        if self.place.kind():
            system.move(self.place.path, (aside / "replaced").path)
        system.move(inner.path, self.place.path)

    def _clear(self) -> None:
        """Delete an earlier output, its mark first, so that what is left of it does not look complete."""
        entries = sorted(self.place.list(), key=lambda entry: entry.name != _DONE)
        for entry in entries:
            self.place.file_system.delete_file(entry.place.path)


def check_out(out: str, format: str | None = None, *, overwrite: bool = False) -> Target:  # noqa: A002 - Spark's name
    """The target that `out` names. A name that ends in .parquet, .json or .csv is one file; any other name, and one
    with a slash at its end, is a directory, of Parquet unless `format` says otherwise.

    Raises PipelineError if it exists and may not be replaced, or cannot be written."""
    path = without_query(out)
    ending = path.rstrip("/").rpartition(".")[2].lower()
    of_name = ending if ending in FORMATS else None
    chosen = format or of_name or FORMATS[0]
    if chosen not in FORMATS:
        raise PipelineError(f"there is no format {chosen}: it is one of {', '.join(FORMATS)}")
    if of_name is not None and chosen != of_name:
        raise PipelineError(f"{shown(out)} is to hold {chosen}, but its name says {of_name}")
    is_file = of_name is not None and not path.endswith("/")
    target = Target(open_place(out.rstrip("/") or out), chosen, is_file, overwrite)
    target.check()
    return target


def write(frame: "DataFrame", out: str, format: str | None = None, *, overwrite: bool = False) -> int:  # noqa: A002
    """Write all rows of a frame to the target that `check_out` finds; return how many. Raises PipelineError."""
    return check_out(out, format, overwrite=overwrite).write(frame)


@contextlib.contextmanager
def _plainly(place: Place) -> Iterator[None]:
    """Turn an error of the file system into a PipelineError with one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PipelineError(f"{place} cannot be written: the disk is full") from None
        raise PipelineError(f"{place} cannot be written: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    """The operating system's own words, with which Arrow's errors end."""
    text = str(error).partition("\n")[0]
    found = re.search(r"\[errno \d+\] (.+?)\.?$", text)
    return (found[1] if found else error.strerror or text).rstrip(".")


def _other_than_parts(place: Place) -> str:
    """The first name in a directory that is in no output of this module; "" if there is none."""
    for entry in place.list():
        if entry.is_directory or not (_PART.fullmatch(entry.name) or entry.name == _DONE):
            return entry.name
    return ""


def _schema(frame: "DataFrame") -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return schema


# Into columns that a format can hold.


def _as_it_is(frame: "DataFrame") -> "DataFrame":
    return frame


def _json_lines(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    options = {"timestampFormat": _ISO, "ignoreNullFields": "false", "timeZone": "UTC"}
    whole = F.to_json(F.struct(*(F.col(f"`{name}`") for name in frame.columns)), options)
    return frame.select(F.concat(whole, F.lit("\n")).alias(_LINE))


def _texts(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    def text(field: T.StructField) -> "Column":
        column = F.col(f"`{field.name}`")
        if isinstance(field.dataType, T.TimestampType):
            column = F.date_format(F.to_utc_timestamp(column, F.current_timezone()), _ISO)
        elif isinstance(field.dataType, T.BinaryType):
            column = F.base64(column)
        elif isinstance(field.dataType, T.ArrayType | T.MapType | T.StructType):
            column = F.to_json(column)
        if not isinstance(field.dataType, T.NumericType | T.BooleanType):
            # A spreadsheet would take the text for a formula, and execute what a client wrote.
            column = F.when(column.rlike(_FORMULA), F.concat(F.lit("'"), column)).otherwise(column)
        return column.alias(field.name)

    return frame.select(*map(text, frame.schema.fields))


_PREPARE: Final[dict[str, Callable[["DataFrame"], "DataFrame"]]] = {
    "parquet": _as_it_is,
    "json": _json_lines,
    "csv": _texts,
}

# In the workers: one part for each task that has rows.


def _write_part(batches: Iterable[pa.RecordBatch], *, target: Target, aside: Place) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "parts are written by tasks"
    # A task that is retried writes another file; the driver gets the name of one of them.
    name = f"{task.partitionId()}-{task.taskAttemptId()}"
    rows = write_table(batches, aside / name, target.format, part_of=target.place)
    if rows:
        yield pa.RecordBatch.from_pylist(
            [{"number": task.partitionId(), "name": name, "rows": rows}],
            schema=pa.schema([("number", pa.int32()), ("name", pa.string()), ("rows", pa.int64())]),
        )


def write_table(
    batches: Iterable[pa.RecordBatch],
    place: Place,
    format: str,  # noqa: A002
    *,
    part_of: Place | None = None,
) -> int:
    """Write the rows of these batches to one file, which is not created if there are none; return how many.

    Raises PipelineError. part_of: the output that the error names, if the file is only a part of it."""
    rows = 0
    named = part_of or place
    with contextlib.ExitStack() as opened:
        write_batch: Callable[[pa.RecordBatch], None] | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            # An error of the producer of the batches is not an error of the output.
            with _plainly(named):
                if write_batch is None:
                    write_batch = opened.enter_context(_OPEN[format](place, batch.schema))
                write_batch(batch)
            rows += batch.num_rows
        with _plainly(named):
            opened.close()
    return rows


@contextlib.contextmanager
def _parquet_writer(place: Place, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    with (
        place.file_system.open_output_stream(place.path) as stream,
        pa.parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        yield writer.write_batch


@contextlib.contextmanager
def _json_writer(place: Place, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    with place.file_system.open_output_stream(place.path) as stream:
        yield lambda batch: stream.write(_all_bytes(batch.column(0)))


def _all_bytes(texts: pa.Array) -> pa.Buffer:
    """The bytes of all texts, concatenated as they are in memory."""
    _, offsets, data = texts.buffers()
    at = memoryview(offsets).cast("i")
    begin, end = at[texts.offset], at[texts.offset + len(texts)]
    return data[begin:end] if data is not None else pa.py_buffer(b"")


@contextlib.contextmanager
def _csv_writer(
    place: Place, schema: pa.Schema, *, with_names: bool = False
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    options = pa.csv.WriteOptions(include_header=with_names)
    with (
        place.file_system.open_output_stream(place.path) as stream,
        pa.csv.CSVWriter(stream, schema, write_options=options) as writer,
    ):
        yield writer.write_batch


_OPEN: Final[dict[str, Callable[[Place, pa.Schema], Any]]] = {
    "parquet": _parquet_writer,
    "json": _json_writer,
    "csv": partial(_csv_writer, with_names=True),
}

# In the driver: the parts as one file.


def _join_parquet(whole: Place, parts: list[Place], schema: pa.Schema) -> None:
    if parts:
        with pa.parquet.ParquetFile(parts[0].path, filesystem=parts[0].file_system) as first:
            schema = first.schema_arrow
    with _parquet_writer(whole, schema) as write_batch:
        for part in parts:
            with pa.parquet.ParquetFile(part.path, filesystem=part.file_system) as file:
                for batch in file.iter_batches():
                    write_batch(batch)


def _join_json(whole: Place, parts: list[Place], schema: pa.Schema) -> None:
    with whole.file_system.open_output_stream(whole.path) as stream:
        for part in parts:
            _append(stream, part)


def _join_csv(whole: Place, parts: list[Place], schema: pa.Schema) -> None:
    """Join the parts. Every part begins with the column names, which are written once."""
    names = pa.BufferOutputStream()
    with pa.csv.CSVWriter(names, schema):
        pass
    head = names.getvalue().to_pybytes()
    with whole.file_system.open_output_stream(whole.path) as stream:
        stream.write(head)
        for part in parts:
            _append(stream, part, len(head))


def _append(stream: Any, part: Place, start: int = 0) -> None:
    with part.open() as file:
        while chunk := file.read(start, _COPY_BYTES):
            stream.write(chunk)
            start += len(chunk)


_JOIN: Final[dict[str, Callable[[Place, list[Place], pa.Schema], None]]] = {
    "parquet": _join_parquet,
    "json": _join_json,
    "csv": _join_csv,
}
