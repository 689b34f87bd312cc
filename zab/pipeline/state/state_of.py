"""The state of ensembles at one moment, out of their directories, with Spark.

    found = state_of(spark, dirs, at=…)
    found.znodes       DataFrame of ZNODES
    found.sessions     DataFrame of SESSIONS
    found.moments      what each ensemble's state is put together from
    state_of_members(spark, members, at=…)       the same of one ensemble, as the inventory has it

`at` is a zxid, a time, or None for the end of what is kept (`zab.pipeline.state.moment` has the rules). With several
ensembles, each has its own moment; a zxid is then one of each.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from attrs import frozen

from zab.pipeline.inventory import Dirs, Inventory, MemberFiles, inventory
from zab.pipeline.reading.log_source import LogSource, pack_plan
from zab.pipeline.reading.options import PLAN
from zab.pipeline.reading.planning import Range, Task, plan, task_batches
from zab.pipeline.reading.snapshot_source import SnapshotTask, read_tasks
from zab.pipeline.schema import LOG, ddl
from zab.pipeline.sql import DataFrame, F
from zab.pipeline.state.condense import COLUMNS, condensed
from zab.pipeline.state.epochs import Epoch, epochs_in, joined
from zab.pipeline.state.frames import SESSION_COLUMNS, first_znodes, session_state, state
from zab.pipeline.state.moment import Moment, ensembles_of, moment_of
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StateAt", "state_of", "state_of_members"]

SLICE_TASKS: Final = 32
"""Tasks of one slice, where there are so many that every core has some."""


def _read_changes(batches: Iterable[pa.RecordBatch], *, exact: bool) -> Iterator[pa.RecordBatch]:
    """What a worker makes of slices of tasks."""
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            rows = (found for task in pickle.loads(packed) for found in task_batches(task, COLUMNS))
            yield from condensed(rows, exact=exact)


@frozen
class StateAt:
    """The rows of all ensembles, and the moment of each."""

    znodes: DataFrame
    sessions: DataFrame
    moments: tuple[Moment, ...]


@frozen
class _SparkLogs:
    """The logs of one ensemble, read by Spark (`zab.pipeline.state.moment.Logs`)."""

    spark: "SparkSession"
    members: tuple[MemberFiles, ...]
    uncommitted: bool

    def read(self, columns: Sequence[str], wanted: Range) -> DataFrame:
        """Each transaction once. Raises PipelineError."""
        types = {column.name: column for column in LOG}
        self.spark.dataSource.register(LogSource)
        reader = self.spark.read.format(LogSource.name()).schema(ddl(types[name] for name in columns))
        return reader.option(PLAN, pack_plan(self._tasks(wanted))).load()

    def _tasks(self, wanted: Range) -> list[Task]:
        found = Inventory(list(self.members), [str(member.directory) for member in self.members])
        return plan(found, wanted, members="one", uncommitted=self.uncommitted)

    def last_at(self, time_ms: int) -> int | None:
        row = self.read(("zxid",), Range(time_max=time_ms)).agg(F.max("zxid")).first()
        return None if row is None else row[0]

    def epochs(self, after: int, until: int) -> list[Epoch]:
        if until <= after:
            return []
        slices = self._slices(Range.of(after + 1, until, None, None))
        found = self.spark.sparkContext.parallelize(slices, max(1, len(slices))).map(epochs_in).collect()
        return joined(epoch for epochs in found for epoch in epochs)

    def changes(self, after: int, until: int, *, exact: bool) -> DataFrame:
        """What the transactions above `after` up to `until` come to (`zab.pipeline.state.condense`)."""
        slices = [(pickle.dumps(tasks),) for tasks in self._slices(Range.of(after + 1, until, None, None))]
        packed = self.spark.sparkContext.parallelize(slices, max(1, len(slices)))
        rows = self.spark.createDataFrame(packed, "tasks binary")
        types = {column.name: column for column in LOG}
        return map_batches(rows, partial(_read_changes, exact=exact), ddl(types[name] for name in COLUMNS))

    def _slices(self, wanted: Range) -> list[list[Task]]:
        """Tasks that come one after the other, together: what one worker reads at a time. The fewer slices there are,
        the less is left of each."""
        tasks = self._tasks(wanted)
        count = max(self.spark.sparkContext.defaultParallelism, len(tasks) // SLICE_TASKS)
        bounds = [len(tasks) * number // count for number in range(count + 1)]
        return [tasks[begin:end] for begin, end in pairwise(bounds) if end > begin]


def state_of(
    spark: "SparkSession", dirs: Dirs, at: int | datetime | None = None, *, uncommitted: bool = False
) -> StateAt:
    """The state of each ensemble in these directories. Raises PipelineError."""
    found = [state_of_members(spark, members, at, uncommitted=uncommitted) for members in ensembles_of(inventory(dirs))]
    return StateAt(
        reduce(DataFrame.unionByName, (one.znodes for one in found)),
        reduce(DataFrame.unionByName, (one.sessions for one in found)),
        tuple(moment for one in found for moment in one.moments),
    )


def state_of_members(
    spark: "SparkSession",
    members: Sequence[MemberFiles],
    at: int | datetime | None = None,
    *,
    uncommitted: bool = False,
) -> StateAt:
    """The state of the one ensemble that these are the members of; only files that they name count.

    Raises PipelineError."""
    logs = _SparkLogs(spark, tuple(members), uncommitted)
    moment = moment_of(logs, members, at, uncommitted=uncommitted)
    znodes, sessions = _frames(logs, moment)
    return StateAt(znodes, sessions, (moment,))


def _frames(logs: _SparkLogs, moment: Moment) -> tuple[DataFrame, DataFrame]:
    base = moment.base
    if base is None:
        znodes, sessions = first_znodes(logs.spark, moment.kind), None
    else:
        tasks = [SnapshotTask(base.file, base.label)]
        znodes, sessions = read_tasks(logs.spark, tasks), read_tasks(logs.spark, tasks, sessions=True)
    after, label = moment.base_zxid, moment.label
    if moment.txn_count:
        changes = logs.changes(after, moment.zxid, exact=moment.is_exact)
        log = logs.read(SESSION_COLUMNS, Range.of(after + 1, moment.zxid, None, None))
    else:
        changes = log = logs.spark.createDataFrame([], ddl(column for column in LOG if column.name in COLUMNS))
    rows = state(
        changes,
        znodes,
        at=moment.zxid,
        base_zxid=after,
        exact=moment.kind == "native",
        is_closing_listed=moment.is_closing_listed,
        label=label,
    )
    return rows, session_state(log, sessions, at=moment.zxid, base_zxid=after, label=label)
