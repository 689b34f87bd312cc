"""The state of ensembles at one moment, out of their directories, with Spark.

    found = state_of(spark, dirs, at=…)
    found.znodes       DataFrame of ZNODES
    found.sessions     DataFrame of SESSIONS
    found.moments      what each ensemble's state is put together from
    state_of_members(spark, members, at=…)       the same of one ensemble, as the inventory has it

`at` is a zxid, a time, or None for the end of what is kept (`zab.pipeline.state.moment` has the rules). With several
ensembles, each has its own moment; a zxid is then one of each.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

from attrs import frozen

from zab.pipeline.inventory import Dirs, Inventory, MemberFiles, inventory
from zab.pipeline.reading.log_source import LogSource, pack_plan
from zab.pipeline.reading.options import PLAN
from zab.pipeline.reading.planning import Range, plan
from zab.pipeline.reading.snapshot_source import SnapshotTask, read_tasks
from zab.pipeline.schema import LOG, ddl
from zab.pipeline.sql import DataFrame, F
from zab.pipeline.state.frames import LOG_COLUMNS, first_znodes, session_state, state
from zab.pipeline.state.moment import Epoch, Moment, ensembles_of, moment_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StateAt", "state_of", "state_of_members"]

_BEGAN: Final = datetime(1970, 1, 1, tzinfo=UTC)


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
        found = Inventory(list(self.members), [str(member.directory) for member in self.members])
        tasks = plan(found, wanted, members="one", uncommitted=self.uncommitted)
        types = {column.name: column for column in LOG}
        self.spark.dataSource.register(LogSource)
        reader = self.spark.read.format(LogSource.name()).schema(ddl(types[name] for name in columns))
        return reader.option(PLAN, pack_plan(tasks)).load()

    def last_at(self, time_ms: int) -> int | None:
        row = self.read(("zxid",), Range(time_max=time_ms)).agg(F.max("zxid")).first()
        return None if row is None else row[0]

    def epochs(self, after: int, until: int) -> list[Epoch]:
        if until <= after:
            return []
        rows = self.read(("zxid", "part", "time", "operation", "paths"), Range.of(after + 1, until, None, None))
        is_unlisted = (F.col("operation") == "closeSession") & F.col("paths").isNull()
        found = (
            rows.where(F.coalesce("part", F.lit(0)) == 0)
            .groupBy(F.shiftright("zxid", 32).alias("epoch"))
            .agg(
                F.min("zxid"),
                F.max("zxid"),
                F.count("zxid"),
                F.unix_micros(F.max_by("time", "zxid")),
                F.sum(is_unlisted.cast("int")),
            )
        )
        return [
            Epoch(first, last, count, _BEGAN + timedelta(microseconds=time_us), unlisted)
            for _, first, last, count, time_us, unlisted in sorted(found.collect())
        ]


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
        log = logs.read(LOG_COLUMNS, Range.of(after + 1, moment.zxid, None, None))
    else:
        log = logs.spark.createDataFrame([], ddl(column for column in LOG if column.name in LOG_COLUMNS))
    rows = state(
        log,
        znodes,
        at=moment.zxid,
        base_zxid=after,
        exact=moment.kind == "native",
        is_closing_listed=moment.is_closing_listed,
        label=label,
    )
    return rows, session_state(log, sessions, at=moment.zxid, base_zxid=after, label=label)
