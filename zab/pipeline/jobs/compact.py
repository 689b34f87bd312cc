"""Writes new transactions of logs to Parquet, each once: `zab pipeline compact DIRS --out OUT`.

    compact(spark, dirs, out) -> list[Compacted]         what was added, by ensemble
    spark.read.parquet(out)                              the rows of LOG, and `day`

The output (`compact_output`) is partitioned by ensemble, epoch and day (UTC). A run begins after the last zxid in the
output and ends with the last one that may be shown (`reading.visible`). Each task reads one stretch of the logs and
writes its files itself, so no row passes through Spark's own memory. Rows are in the order of the history.

Nothing is silently left out. If transactions are missing that no given member has, the run fails before it changes
anything and says which, unless `allow_holes` is set; then the manifest lists them.

Invariants: a row is in the output once, whichever process is killed at any time. A task's memory holds some row groups.
A transaction that arrives later than others of its day is in a file of its own, in the same partition.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import define, evolve, field, frozen

from zab.pipeline.decoding.arrays import Integers
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.transactions import record_batches
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.jobs.compact_output import Done, Output, partition
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.places import Place
from zab.pipeline.reading.covering import Cover
from zab.pipeline.reading.missing import is_missing
from zab.pipeline.reading.planning import Range, Task, plan, read_task
from zab.pipeline.schema import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COLUMNS", "Compacted", "compact", "compact_with"]

COLUMNS: Final = tuple(column.name for column in LOG if column.name not in ("ensemble", "epoch"))
"""The columns of the files; ensemble and epoch are in the names of their directories."""

_ROWS_PER_GROUP: Final = 128 << 10
_BYTES_PER_GROUP: Final = 32 << 20
_FILES_OPEN_MAX: Final = 16
_US_PER_DAY: Final = 86_400_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SLICES_MAX: Final = 4_096


@frozen
class Compacted:
    """What a run added for one ensemble; `first` and `last` zxid are None if nothing was new."""

    ensemble: str
    first: int | None = None
    last: int | None = None
    transactions: int = 0
    rows: int = 0
    files: int = 0
    holes: tuple[tuple[int, int], ...] = ()


@frozen
class WriteTask:
    """One stretch of the logs, and the directory to write it to."""

    ensemble: str
    task: Task
    aside: Place


@frozen
class Part:
    """One file that was written: its name in the aside directory, and what is in it."""

    name: str
    epoch: int
    day: str
    rows: int
    first: int
    last: int


@define
class TaskReport:
    """What a task wrote. `runs`: zxids, (first, last) of one epoch without a hole. `transactions`: how many."""

    ensemble: str
    parts: list[Part] = field(factory=list)
    runs: list[tuple[int, int]] = field(factory=list)
    transactions: int = 0


Write: TypeAlias = Callable[[Sequence[WriteTask]], list[TaskReport]]


def compact(
    spark: "SparkSession", dirs: Dirs, out: str, *, uncommitted: bool = False, allow_holes: bool = False
) -> list[Compacted]:
    """Add to `out` what is new in these directories. Raises PipelineError; then `out` is as it was."""
    context = spark.sparkContext

    def write_all(tasks: Sequence[WriteTask]) -> list[TaskReport]:
        slices = max(1, min(len(tasks), _SLICES_MAX))
        return list(context.parallelize(tasks, slices).map(write_task).collect())

    return compact_with(write_all, dirs, out, uncommitted=uncommitted, allow_holes=allow_holes)


def write_here(tasks: Sequence[WriteTask]) -> list[TaskReport]:
    """Write in this process, one task after the other."""
    return [write_task(task) for task in tasks]


def compact_with(
    write_all: Write, dirs: Dirs, out: str, *, uncommitted: bool = False, allow_holes: bool = False
) -> list[Compacted]:
    """Do what `compact` does, with `write_all` running the tasks."""
    found = inventory(dirs)
    output = Output(out)
    aside = output.begin()
    with ExitStack() as undo:
        undo.callback(output.abandon, aside)
        tasks: list[WriteTask] = []
        for ensemble, members in found.ensembles.items():
            done = _checked(output, ensemble, members)
            wanted = Range.of(None if done is None else done.last + 1, None, None, None)
            own = Inventory(members, [str(member.directory) for member in members])
            listed = plan(own, wanted, members="one", uncommitted=uncommitted)
            tasks += [WriteTask(ensemble, task, aside) for task in listed]
        reports = write_all(tasks) if tasks else []
        moves: list[tuple[str, str]] = []
        ensembles: dict[str, Done] = {}
        results = []
        for ensemble, members in found.ensembles.items():
            mine = [report for report in reports if report.ensemble == ensemble]
            before = output.manifest.ensembles.get(ensemble)
            covers = [one.task.cover for one in tasks if one.ensemble == ensemble and one.task.cover is not None]
            result, done = _added(ensemble, members, mine, before, covers)
            if result.holes and not allow_holes:
                raise PipelineError(_missing(result))
            results.append(result)
            if done is not None:
                ensembles[ensemble] = done
            moves += [
                (part.name, f"{partition(ensemble, part.epoch, part.day)}/{part.first:016x}-{part.last:016x}.parquet")
                for report in mine
                for part in report.parts
            ]
        if moves:
            output.commit(aside, moves, ensembles)
            undo.pop_all()
    return results


def _checked(output: Output, ensemble: str, members: Sequence[MemberFiles]) -> Done | None:
    """What the output has of an ensemble. Raises PipelineError if it belongs to another ensemble."""
    partition(ensemble, 0, "")
    done = output.manifest.ensembles.get(ensemble)
    if done is None:
        return None
    lineage = _lineage(members)
    if done.kind != members[0].kind or (done.lineage and lineage and done.lineage != lineage):
        other = f"{done.kind}, lineage {done.lineage}" if done.lineage else done.kind
        raise PipelineError(
            f"{output.place} has the history of another ensemble {ensemble} ({other}): give this one another name, as "
            "NAME=DIR"
        )
    return done


def _lineage(members: Sequence[MemberFiles]) -> str | None:
    return next((member.lineage.hex() for member in members if member.lineage is not None), None)


def _added(
    ensemble: str,
    members: Sequence[MemberFiles],
    reports: Sequence[TaskReport],
    before: Done | None,
    covers: Sequence[Cover],
) -> tuple[Compacted, Done | None]:
    """What the tasks wrote for an ensemble, and what the output has of it then; None if nothing changed. covers: what
    the tasks were to read."""
    runs = sorted(run for report in reports for run in report.runs)
    starts = [(before.last, before.last), *runs] if before is not None else runs
    ends = dict(covers[-1].ends) if covers else {}
    holes = tuple((one[1], other[0]) for one, other in pairwise(starts) if is_missing(one[1], other[0], ends))
    # What is missing at the end may still come: it is no hole in what is written.
    last = starts[-1][1] if starts else 0
    beyond = max((zxid for zxid in ends.values() if last < zxid <= covers[-1].until), default=None)
    missing = holes if beyond is None or not starts else (*holes, (last, beyond + 1))
    if not runs:
        return Compacted(ensemble, holes=missing), None
    counts = {
        "transactions": sum(report.transactions for report in reports),
        "rows": sum(part.rows for report in reports for part in report.parts),
        "files": sum(len(report.parts) for report in reports),
    }
    result = Compacted(ensemble, runs[0][0], runs[-1][1], holes=missing, **counts)
    if before is None:
        return result, Done(members[0].kind, _lineage(members), runs[0][0], runs[-1][1], holes=holes, **counts)
    totals = {name: getattr(before, name) + count for name, count in counts.items()}
    lineage = before.lineage or _lineage(members)
    return result, evolve(before, lineage=lineage, last=runs[-1][1], holes=before.holes + holes, **totals)


def _missing(result: Compacted) -> str:
    after, following = result.holes[0]
    more = f" and {len(result.holes) - 1} more stretches" if len(result.holes) > 1 else ""
    return (
        f"{result.ensemble}: what is between zxids {after:#x} and {following:#x}{more} is missing in the logs given: "
        "give more members' directories, or go on without it (--allow-holes)"
    )


# ------------------------------------------------------------------------------------------------------- in the workers


def write_task(task: WriteTask) -> TaskReport:
    """Write the transactions of one stretch. Raises PipelineError."""
    run = _Writing(task)
    try:
        for span, found in read_task(task.task):
            if not isinstance(found, Damage):
                for batch in record_batches(found, span.source, COLUMNS):
                    run.add(batch)
        run.finish()
    except OSError as error:
        raise PipelineError(f"{task.aside.parent} cannot be written: {error.strerror or error}") from None
    finally:
        run.close()
    return run.report


class _Writing:
    def __init__(self, task: WriteTask) -> None:
        self.report = TaskReport(task.ensemble)
        self._aside = task.aside
        self._open: dict[tuple[int, int], _PartFile] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in the order of the history."""
        zxids = batch.column("zxid").to_numpy()
        if not len(zxids):
            return
        self._count(zxids)
        days = batch.column("time").cast(pa.int64()).to_numpy() // _US_PER_DAY
        epochs = zxids >> 32
        if (epochs == epochs[0]).all() and (days == days[0]).all():
            self._append(int(epochs[0]), int(days[0]), batch)
            return
        for epoch, day in np.unique(np.stack([epochs, days], axis=1), axis=0).tolist():
            self._append(epoch, day, batch.filter(pa.array((epochs == epoch) & (days == day))))

    def _count(self, zxids: Integers) -> None:
        runs = self.report.runs
        last = runs[-1][1] if runs else None
        before = np.concatenate((zxids[:1] - 1 if last is None else np.array([last], zxids.dtype), zxids[:-1]))
        is_new = zxids != before
        follows = zxids - before <= 1
        follows[0] |= last is None
        starts = [0, *np.flatnonzero(~follows).tolist()]
        ends = [*(start - 1 for start in starts[1:]), len(zxids) - 1]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end < start:
                continue
            if number == 0 and runs and follows[0]:
                runs[-1] = runs[-1][0], int(zxids[end])
            else:
                runs.append((int(zxids[start]), int(zxids[end])))
        self.report.transactions += int(is_new.sum())

    def _append(self, epoch: int, day: int, rows: pa.RecordBatch) -> None:
        found = self._open.get((epoch, day))
        if found is None:
            if len(self._open) >= _FILES_OPEN_MAX:
                self.finish()
            found = self._open[epoch, day] = _PartFile(self._aside, rows.schema)
        found.append(rows)

    def finish(self) -> None:
        """Complete the files that are open."""
        while self._open:
            (epoch, day), file = self._open.popitem()
            self.report.parts.append(file.finish(epoch, _day(day)))

    def close(self) -> None:
        for file in self._open.values():
            file.close()


class _PartFile:
    """A file being written: rows are collected into row groups."""

    def __init__(self, aside: Place, schema: pa.Schema) -> None:
        import secrets

        # A task that is retried writes other files; the driver gets the names of one attempt only.
        self._name = f"{secrets.token_hex(8)}.parquet"
        self._stream: Any = aside.file_system.open_output_stream((aside / self._name).path)
        self._writer: Any = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._group_rows = self._group_bytes = 0
        self._first = self._last = 0

    def append(self, rows: pa.RecordBatch) -> None:
        zxids = rows.column("zxid")
        self._first = self._first or zxids[0].as_py()
        self._last = zxids[-1].as_py()
        self._gathered.append(rows)
        self._group_rows += rows.num_rows
        self._group_bytes += rows.nbytes
        if self._group_rows >= _ROWS_PER_GROUP or self._group_bytes >= _BYTES_PER_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered), row_group_size=self._group_rows)
        self._rows += self._group_rows
        self._gathered, self._group_rows, self._group_bytes = [], 0, 0

    def finish(self, epoch: int, day: str) -> Part:
        self._write_group()
        self._writer.close()
        self._stream.close()
        return Part(self._name, epoch, day, self._rows, self._first, self._last)

    def close(self) -> None:
        """Close a file that is not to be finished."""
        if not self._stream.closed:
            self._stream.close()


def _day(number: int) -> str:
    """The UTC day so many days after 1970; a day beyond the calendar becomes its first or last one."""
    return date.fromordinal(min(max(number + _EPOCH_DAY, 1), date.max.toordinal())).isoformat()
