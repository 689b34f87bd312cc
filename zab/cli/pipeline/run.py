"""One job of `zab pipeline` while it runs: what its function gets.

    with running(call, driver) as run:
        frame = run.log(COLUMNS)

`zab.cli.pipeline.endings` handles errors in the block.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from zab.cli.pipeline.driver import Driver
from zab.cli.pipeline.endings import plain_end
from zab.cli.pipeline.options import Range
from zab.cli.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zab.pipeline.inventory import Inventory

__all__ = ["Run", "in_order", "running"]

DAMAGE_TOLD: Final = 3
"""How many unreadable places are reported."""
_BOUNDS: Final = ("zxid_min", "zxid_max", "time_min", "time_max")


@define
class Run:
    """What a job's function gets.

    dirs: as given, with the ensemble's name in front. label: the beginning of its lines on standard error. shown: the
    columns of a table on the terminal, which the function may set; files have all columns."""

    driver: Driver
    dirs: list[str]
    range: Range
    uncommitted: bool
    label: str = ""
    shown: tuple[str, ...] = ()
    _stack: contextlib.ExitStack = field(factory=contextlib.ExitStack, repr=False)
    _uses_spark: bool = False
    _has_read: bool = False
    _extent: list[str] = field(factory=list)

    @property
    def spark(self) -> "SparkSession":
        """The session, which starts with the first job that needs it. Raises PipelineError."""
        session = self.driver.spark
        if not self._uses_spark:
            from zab.pipeline.spark_session import plain_errors

            self._stack.enter_context(plain_errors())
            self._uses_spark = True
        return session

    def look(self) -> "Inventory":
        """The inventory of the directories. Called before Spark starts, so that errors are reported at once. Raises
        PipelineError."""
        return self.driver.look(self.dirs)

    def cached(self, frame: "DataFrame") -> "DataFrame":
        """`frame`, kept once it is computed, until the run ends."""
        kept = frame.cache()
        self._stack.callback(kept.unpersist)
        return kept

    def log_arguments(self, *, past: bool = False) -> dict[str, Any]:
        """The bounds as arguments of `read_log`. past: without the lower ones, for a job that needs what was before."""
        bounds = self.range
        return {
            "zxid_min": None if past else bounds.zxid_min,
            "zxid_max": bounds.zxid_max,
            "time_min": None if past else bounds.since,
            "time_max": bounds.until,
            "uncommitted": self.uncommitted,
        }

    def log(self, columns: Iterable[str] | None = None, *, past: bool = False) -> "DataFrame":
        """The transactions within the bounds, each once, a multi as a row for each part. Raises PipelineError."""
        from zab.pipeline.reading.frames import read_log
        from zab.pipeline.reading.log_source import large_size
        from zab.pipeline.reading.planning import Range as ZxidsAndTimes

        self._has_read = True
        found, arguments = self.look(), self.log_arguments(past=past)
        self.note_extent()
        size = large_size(found, ZxidsAndTimes.of(*(arguments[name] for name in _BOUNDS)))
        if size is not None:
            options = "--zxid-max or --until" if past else "--zxid-min, --zxid-max, --since or --until"
            self.note(f"this reads all of {size} of logs: give {options} to read less")
        with _without_warning():
            return read_log(self.spark, self.dirs, columns=columns, members="one", **arguments)

    def check_bounds(self) -> None:
        """Raise PipelineError if nothing that is kept can lie within the bounds; this does not need Spark."""
        from zab.pipeline.reading.kept import check_range
        from zab.pipeline.reading.planning import Range as ZxidsAndTimes

        arguments = self.log_arguments()
        uncommitted = arguments.pop("uncommitted")
        check_range(self.dirs, ZxidsAndTimes.of(**arguments), uncommitted=uncommitted)

    def tell_damage(self) -> None:
        """Report what the rows lack: what could not be read of the logs and no other member has."""
        if not self._has_read:
            return
        from zab.pipeline.decoding.damage import TORN
        from zab.pipeline.reading.frames import read_damage

        columns = ("file", "offset", "kind", "reason")
        with _without_warning():
            damage = read_damage(self.spark, self.dirs, columns=columns, members="one", **self.log_arguments())
        rows = damage.where(damage["kind"] != TORN).limit(DAMAGE_TOLD + 1).collect()
        for row in rows[:DAMAGE_TOLD]:
            self.note(f"the rows lack what cannot be read: {row['file']} at offset {row['offset']}: {row['reason']}")
        if len(rows) > DAMAGE_TOLD:
            self.note("and there is more that cannot be read; zab pipeline verify shows all")

    def note_extent(self) -> None:
        """Note what the logs keep, before they are read; `tell_extent` reports it at the end. Raises PipelineError."""
        from zab.pipeline.reading.kept import kept

        found = kept(self.dirs, uncommitted=self.uncommitted)
        self._extent = [f"{one}, {'from its beginning' if one.is_whole else 'and nothing older'}" for one in found]

    def tell_extent(self) -> None:
        """Report how much of the history the logs had: nothing older can be in the rows."""
        for line in self._extent:
            self.note(line)

    def before(self, columns: Iterable[str], *, sessions: bool = False) -> "DataFrame | None":
        """Rows of the snapshots that show what there was when the logs begin. Raises PipelineError."""
        spark = self.spark
        from zab.pipeline.state.before_the_log import read_before

        return read_before(spark, self.dirs, columns=columns, sessions=sessions)

    @property
    def may_have_bare_closes(self) -> bool:
        """The argument of `zab.pipeline.jobs.znode_changes`. Raises PipelineError."""
        from zab.pipeline.state.before_the_log import may_have_bare_closes

        return may_have_bare_closes(self.dirs)

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Hide the display of progress during the block, which prints something."""
        return self.driver.paused()

    def note(self, text: str) -> None:
        """A line on standard error."""
        with self.paused():
            sys.stdout.flush()
            say(f"zab: {self.label}{text}", sys.stderr)


@contextlib.contextmanager
def _without_warning() -> Iterator[None]:
    """`Run.log` says in words of the command line that all of a large log is read."""
    from zab.pipeline.errors import WholeLogWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WholeLogWarning)
        yield


def in_order(frame: "DataFrame", names: Iterable[str]) -> "DataFrame":
    """Sort by these columns; "-writes" means falling."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    return frame.orderBy(*(F.desc(name[1:]) if name.startswith("-") else F.asc(name) for name in names))


@contextlib.contextmanager
def running(driver: Driver, dirs: list[str], bounds: Range, *, uncommitted: bool, label: str = "") -> Iterator[Run]:
    """A run for the block."""
    run = Run(driver, dirs, bounds, uncommitted, label)
    with plain_end(label), run._stack as stack:
        stack.push(driver.notice_interrupts)
        yield run
