"""Snapshots as DataFrames: `read_snapshot`, and Spark's data source `zab.snapshot`.

    read_snapshot(spark, dirs, at=zxid)
    spark.read.format("zab.snapshot").option("dirs", "/a,/b").option("at", "0x100000a3f").load()

    option     meaning
    dirs       as for `zab.log`: directories, comma between them, or a JSON list
    at         zxid, decimal or 0x…: the newest whole snapshot at or below it; none: the newest
    members    one (default): one snapshot of each ensemble; all: one of each member
    sessions   true: rows of SESSIONS instead of ZNODES

One task reads one file. Only the columns of the requested schema are made. The files are chosen when the DataFrame is
made, and each is read as a whole then: an older one is taken in place of a damaged one, which `snapshot_damage`
reports. A file that is damaged later makes the job fail.
"""

import base64
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zab.pipeline.decoding.snapshot_rows import Label, SnapshotDamageError
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.member_files import MemberFiles, SnapshotFile
from zab.pipeline.reading.options import told_plainly
from zab.pipeline.reading.snapshot_choice import Problem, choose, examine, opened
from zab.pipeline.schema import DAMAGE, SESSIONS, ZNODES, Column, arrow_schema, ddl
from zab.pipeline.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Members", "SnapshotSource", "SnapshotTask", "read_snapshot", "read_tasks", "snapshot_damage"]

Members: TypeAlias = Literal["all", "one"]
PLAN: Final = "zab.plan"
"""The option with a choice made in advance, so that a wrong directory is reported before Spark starts anything."""
_OPTIONS: Final = frozenset({"dirs", "path", "at", "members", "sessions", PLAN})


@frozen
class SnapshotTask:
    """One file to read, and the label of its rows."""

    file: SnapshotFile
    label: Label


def choose_tasks(found: Inventory, at: int | None, members: Members) -> list[SnapshotTask]:
    """One task for each ensemble or member. Raises PipelineError if there is no whole snapshot."""
    if members not in ("all", "one"):
        raise PipelineError(f'members is "all" or "one", not {members!r}')
    tasks = []
    for name, group in found.ensembles.items():
        for one in [group] if members == "one" else [[member] for member in group]:
            choice = choose(one, at)
            if choice.chosen is not None:
                tasks.append(SnapshotTask(choice.chosen.file, choice.chosen.label))
            elif members == "one" or any(member.snapshots for member in one):
                raise PipelineError(_nothing(name, one, at, choice.problems))
    if not tasks:
        raise PipelineError(_nothing(", ".join(found.ensembles), found.members, at, ()))
    return tasks


def _nothing(name: str, members: Sequence[MemberFiles], at: int | None, problems: Sequence[Problem]) -> str:
    kept = sorted({file.zxid for member in members for file in member.snapshots})
    reach = "" if at is None else f" at or below {at:#x}"
    said = f"; there are {', '.join(map(hex, kept))}" if kept else ""
    wrong = f" ({problems[0]})" if problems else ""
    return f"no whole snapshot of {name}{reach}{said}{wrong}"


def read_snapshot(
    spark: "SparkSession",
    dirs: Dirs,
    *,
    at: int | None = None,
    columns: Iterable[str] | None = None,
    members: Members = "one",
    sessions: bool = False,
) -> "DataFrame":
    """The newest whole snapshot at or below the zxid `at` (None: the newest) in these directories, a row of
    `schema.ZNODES` for each znode; with `sessions`, a row of `schema.SESSIONS` for each session.

    `columns` are the names that are needed; fewer cost less. `members`: "one" snapshot of each ensemble, or one
    of "all" members. Raises PipelineError."""
    found = inventory(dirs)
    tasks = choose_tasks(found, at, members)
    return read_tasks(spark, tasks, columns=columns, sessions=sessions)


def read_tasks(
    spark: "SparkSession",
    tasks: Sequence[SnapshotTask],
    *,
    columns: Iterable[str] | None = None,
    sessions: bool = False,
) -> "DataFrame":
    """The rows of these files. Raises PipelineError."""
    known = {column.name: column for column in (SESSIONS if sessions else ZNODES)}
    chosen = list(known) if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise PipelineError(f"there is no column {name}; there are {', '.join(known)}")
    spark.dataSource.register(SnapshotSource)
    reader = spark.read.format(SnapshotSource.name()).schema(ddl(known[name] for name in chosen))
    packed = base64.b64encode(pickle.dumps(tuple(tasks))).decode()
    return reader.option("sessions", str(sessions).lower()).option(PLAN, packed).load()


def snapshot_damage(dirs: Dirs) -> Iterator[dict[str, Any]]:
    """The damage in the snapshots in these directories, as rows of `schema.DAMAGE`. Reads all of them."""
    for member in inventory(dirs).members:
        for file in member.snapshots:
            found = examine(member, file)
            if isinstance(found, Problem):
                row: dict[str, Any] = {
                    "ensemble": member.ensemble,
                    "member": member.member,
                    "file": str(file.place),
                    "end": None,
                }
                row |= {"offset": found.offset, "kind": "damaged", "reason": found.reason}
                yield {column.name: row[column.name] for column in DAMAGE}


class SnapshotSource(DataSource):
    """Znodes, as rows of `schema.ZNODES`, or sessions, as rows of `schema.SESSIONS`."""

    @classmethod
    def name(cls) -> str:
        return "zab.snapshot"

    @told_plainly()
    def schema(self) -> str:
        begin_task()
        return ddl(self._columns())

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        begin_task()
        types = {column.name: column for column in self._columns()}
        for field in schema.fields:
            if field.name not in types or types[field.name].type != field.dataType.simpleString():
                named = ", ".join(f"{column.name} {column.type}" for column in types.values())
                raise PipelineError(
                    f"zab.snapshot has no column {field.name} {field.dataType.simpleString()}; it has {named}"
                )
        wanted = arrow_schema(types[name] for name in schema.names)
        return _SnapshotReader(wanted, self._tasks(), is_sessions=self._is_sessions())

    def _given(self) -> Mapping[str, str]:
        given = {name.lower(): value for name, value in dict(self.options).items()}
        unknown = given.keys() - _OPTIONS
        if unknown:
            raise PipelineError(f"unknown option {', '.join(sorted(unknown))}")
        return given

    def _is_sessions(self) -> bool:
        return self._given().get("sessions", "false").lower() == "true"

    def _columns(self) -> tuple[Column, ...]:
        return SESSIONS if self._is_sessions() else ZNODES

    def _tasks(self) -> list[SnapshotTask]:
        given = self._given()
        if PLAN in given:
            return list(pickle.loads(base64.b64decode(given[PLAN])))
        dirs = given.get("dirs") or given.get("path")
        if not dirs:
            raise PipelineError('option "dirs" is missing: the directories to read')
        members: Any = given.get("members", "one")
        return choose_tasks(inventory(_split(dirs)), _zxid(given.get("at")), members)


def _split(dirs: str) -> list[str]:
    if not dirs.startswith("["):
        return [part.strip() for part in dirs.split(",") if part.strip()]
    try:
        return [str(part) for part in json.loads(dirs)]
    except ValueError:
        raise PipelineError(f'option "dirs" is no JSON list: {dirs}') from None


def _zxid(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        raise PipelineError(f"option at: {text!r} is no zxid; write it as 0x100000001 or in decimal") from None


class _SnapshotReader(DataSourceReader):
    """One partition for each file."""

    def __init__(self, schema: pa.Schema, tasks: list[SnapshotTask], *, is_sessions: bool) -> None:
        self._schema = schema
        self._tasks = tasks
        self._is_sessions = is_sessions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin_task()
        # Spark makes a partition without a value out of no partitions.
        task: SnapshotTask | None = partition.value
        if task is None:
            return
        try:
            rows = opened(task.file)
            read = rows.sessions if self._is_sessions else rows.znodes
            yield from read(self._schema, task.label)
        except SnapshotDamageError as error:
            raise PipelineError(f"{error}; it was whole when it was chosen") from None
