"""One call of a command of `zab pipeline`: its Spark session, its progress, and how it ends.

    with running(options) as run:       `run` is what the job's function gets
        frame = run.log(COLUMNS)

Invariants: Spark, pyarrow and pandas are imported when `run.spark` is first asked for, not before, so wrong usage is
answered at once. Whatever goes wrong with the user's directories, ranges, outputs or cluster ends in one sentence on
standard error and exit code 1; Spark's own exceptions become one sentence as well.

Progress is shown on standard error, while that is a terminal: what Spark's stages have done, asked four times a second.
"""

import contextlib
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zab.cli.exits import fail
from zab.cli.pipeline.interrupts import Interrupts
from zab.cli.pipeline.options import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Run", "in_order", "running", "spark_sentence"]

POLL_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 0.5
DAMAGE_TOLD: Final = 3
"""How many places that cannot be read are named."""
_NO_SPACE: Final = "No space left on device"
_CAUSE: Final = re.compile(r"^(?:E\s+)?(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_ERROR_CLASS: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
# Packages of the extra zab[pipeline], which may be missing.
_EXTRA: Final = {"pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "py4j"}


@define
class Run:
    """What a job's function gets.

    dirs: as given, with the ensemble's name in front. url, memory, spark_log: of the session. shown: the function may
    say which columns suffice for a table on the terminal; files have all."""

    dirs: list[str]
    range: Range
    uncommitted: bool
    url: str | None
    memory: str
    spark_log: str
    shown: tuple[str, ...] = ()
    _stack: contextlib.ExitStack = field(factory=contextlib.ExitStack, repr=False)
    _spark: "SparkSession | None" = None
    _progress: "_StageProgress | None" = None
    _has_read: bool = False
    _extent: list[str] = field(factory=list)

    @property
    def spark(self) -> "SparkSession":
        """The session, made at the first access. Raises PipelineError."""
        if self._spark is None:
            from zab.pipeline.spark_session import job_session

            if not logging.getLogger().handlers:
                # Py4J logs the calls that an interrupt broke off, with stack traces, to the root logger.
                logging.getLogger().addHandler(logging.NullHandler())
            interrupts = self._stack.enter_context(Interrupts())
            with _waiting("starting Spark"):
                session = job_session(self.url, memory=self.memory, log_level=self.spark_log)
                self._spark = self._stack.enter_context(session)
            self._stack.enter_context(interrupts.cancelling(self._spark.sparkContext))
            self._progress = self._stack.enter_context(_StageProgress(self._spark))
        return self._spark

    def log_arguments(self, *, past: bool = False) -> dict[str, Any]:
        """The bounds as `read_log` takes them. past: without the lower ones, for a job that needs what was before."""
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
        from zab.pipeline.errors import WholeLogWarning
        from zab.pipeline.inventory import inventory
        from zab.pipeline.reading.frames import read_log

        self._has_read = True
        if self._spark is None:
            # What is wrong with the directories is said before Spark takes its time to start.
            inventory(self.dirs)
        self.note_extent()
        with warnings.catch_warnings():
            # Jobs say what they read at their end.
            warnings.simplefilter("ignore", WholeLogWarning)
            return read_log(self.spark, self.dirs, columns=columns, members="one", **self.log_arguments(past=past))

    def check_bounds(self) -> None:
        """Raises PipelineError when nothing that is kept can lie within them; Spark is not needed for it."""
        from zab.pipeline.reading.kept import check_range
        from zab.pipeline.reading.planning import Range as ZxidsAndTimes

        arguments = self.log_arguments()
        uncommitted = arguments.pop("uncommitted")
        check_range(self.dirs, ZxidsAndTimes.of(**arguments), uncommitted=uncommitted)

    def tell_damage(self) -> None:
        """Say what could not be read of the logs, and no other member has, if they were read: the rows lack it."""
        if not self._has_read:
            return
        from zab.pipeline.decoding.damage import TORN
        from zab.pipeline.reading.frames import read_damage

        columns = ("file", "offset", "kind", "reason")
        damage = read_damage(self.spark, self.dirs, columns=columns, members="one", **self.log_arguments())
        rows = damage.where(damage["kind"] != TORN).limit(DAMAGE_TOLD + 1).collect()
        for row in rows[:DAMAGE_TOLD]:
            self.note(f"the rows lack what cannot be read: {row['file']} at offset {row['offset']}: {row['reason']}")
        if len(rows) > DAMAGE_TOLD:
            self.note("and there is more that cannot be read; zab pipeline verify shows all")

    def note_extent(self) -> None:
        """To be called before logs are read: `tell_extent` says at the end what they have now. Raises PipelineError."""
        from zab.pipeline.reading.kept import kept

        found = kept(self.dirs, uncommitted=self.uncommitted)
        self._extent = [f"{one}, {'from its beginning' if one.is_whole else 'and nothing older'}" for one in found]

    def tell_extent(self) -> None:
        """Say how much of the history the logs had that were read: nothing older can be in the rows."""
        for line in self._extent:
            self.note(line)

    def before(self, columns: Iterable[str], *, sessions: bool = False) -> "DataFrame | None":
        """Rows of the snapshots that tell what was there when the logs begin. Raises PipelineError."""
        spark = self.spark
        from zab.pipeline.state.before_the_log import read_before

        return read_before(spark, self.dirs, columns=columns, sessions=sessions)

    @property
    def may_have_bare_closes(self) -> bool:
        """As `zab.pipeline.jobs.znode_changes` wants to know it. Raises PipelineError."""
        from zab.pipeline.state.before_the_log import may_have_bare_closes

        return may_have_bare_closes(self.dirs)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Without the display of progress, for output of the block's own."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        yield
        self._progress.start()

    def note(self, text: str) -> None:
        """A line on standard error."""
        with self.paused():
            sys.stdout.flush()
            print(f"zab: {text}", file=sys.stderr)


def in_order(frame: "DataFrame", names: Iterable[str]) -> "DataFrame":
    """Sorted by these columns; by "-writes" falling."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    return frame.orderBy(*(F.desc(name[1:]) if name.startswith("-") else F.asc(name) for name in names))


@contextlib.contextmanager
def running(
    dirs: list[str], bounds: Range, *, uncommitted: bool, url: str | None, memory: str, spark_log: str
) -> Iterator[Run]:
    """A run for the block, and an end as described above for what is raised in it."""
    run = Run(dirs, bounds, uncommitted, url, memory, spark_log)
    with _plain_end(), run._stack:
        yield run


@contextlib.contextmanager
def _plain_end() -> Iterator[None]:
    """Turns what the user can do something about into a sentence and exit code 1."""
    try:
        yield
    except _refusals() as error:
        fail(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        fail(f"the pipeline needs {error.name}: pip install 'zab[pipeline]'")
    except BrokenPipeError:
        # Whoever read standard output has enough: `zab.cli.main` ends the command.
        raise
    except OSError as error:
        fail(error)
    except _spark_errors() as error:
        from zab.pipeline.spark_session import whole_text

        fail(spark_sentence(whole_text(error)))


def _refusals() -> tuple[type[BaseException], ...]:
    """The pipeline's own error. Without the extra, no part of it can be imported."""
    if "zab.pipeline.errors" not in sys.modules:
        return ()
    from zab.pipeline.errors import PipelineError

    return (PipelineError,)


def _spark_errors() -> tuple[type[BaseException], ...]:
    """What Spark raises; nothing as long as it was not imported."""
    if "pyspark" not in sys.modules:
        return ()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def spark_sentence(text: str) -> str:
    """What an exception of Spark's, stack traces and all, says to a user."""
    if _NO_SPACE in text:
        return "the disk with Spark's temporary files is full; SPARK_LOCAL_DIRS names another"
    if "OutOfMemoryError" in text or "SparkOutOfMemory" in text:
        return "Spark ran out of memory; --memory gives it more"
    causes = [found[1] for found in _CAUSE.finditer(text)]
    reason = next((cause for cause in reversed(causes) if not cause.startswith("Job aborted")), "")
    reason = reason or next((line for line in text.splitlines() if line.strip()), "")
    reason = _ERROR_CLASS.sub("", reason).strip().rstrip(".")
    return f"Spark failed: {reason or 'it did not say why'}; --spark-log error shows more"


@contextlib.contextmanager
def _waiting(text: str) -> Iterator[None]:
    """A line with what is going on, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"[dim]{text}…"):
        yield


class _StageProgress:
    """A bar for the tasks of what Spark runs at the moment; a context manager."""

    def __init__(self, spark: "SparkSession", console: Console | None = None) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._console = console or Console(stderr=True)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        if self._console.is_terminal and self._thread is None:
            self._ending.clear()
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._ending.set()
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        """Shows nothing for what is done in a moment."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        if self._ending.wait(QUIET_SECONDS):
            return
        with Progress(*columns, console=self._console, transient=True) as progress:
            shown = progress.add_task("planning", total=None)
            while True:
                try:
                    done, total = self.count()
                except OSError:
                    return
                except _spark_errors():
                    # The session ends; the command itself says why.
                    return
                description = "running" if total else "planning"
                progress.update(shown, description=description, completed=done, total=total or None)
                if self._ending.wait(POLL_SECONDS):
                    return

    def count(self) -> tuple[int, int]:
        """Tasks done, and all tasks, of the stages that run now."""
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        there = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in there), sum(stage.numTasks for stage in there)
