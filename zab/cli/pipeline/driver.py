"""The Spark driver in a command of `zab pipeline`: its one session, Ctrl-C, and the display of progress.

    with Driver(options) as driver, ExitStack() as block:
        block.push(driver.notice_interrupts)
        driver.spark.range(5).count()

Spark starts when it is first needed, and serves all jobs until the outer block ends.

Invariants: Spark, pyarrow and pandas are imported when `spark` is first used, not before, so wrong usage is reported at
once. An interrupt ends the block in which it comes, whatever becomes of the job there.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from attrs import frozen

from zab.cli.pipeline.interrupts import Interrupts
from zab.cli.pipeline.progress import StageProgress, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zab.pipeline.inventory import Inventory

__all__ = ["Driver", "SparkOptions"]

SHORT_BYTES_MAX: Final = 64 << 20
"""With logs and snapshots up to this size, starting Spark and planning take most of a job's time."""


@frozen
class SparkOptions:
    """url: of a cluster; by default this machine. memory: of the driver. log: level of Spark's log on stderr."""

    url: str | None = None
    memory: str = "2g"
    log: str = "off"


class Driver:
    """One session for all jobs of a command, which starts when it is first needed."""

    def __init__(self, options: SparkOptions, dirs: Sequence[str] = ()) -> None:
        """dirs: all directories that the jobs will read; empty if that is not known."""
        self._options = options
        self._dirs = dirs
        self._seen: dict[tuple[str, ...], Inventory] = {}
        self._stack = contextlib.ExitStack()
        self._interrupts: Interrupts | None = None
        self._session: SparkSession | None = None
        self._progress: StageProgress | None = None

    @property
    def is_started(self) -> bool:
        return self._session is not None

    @property
    def spark(self) -> "SparkSession":
        """The session, made at the first access. Raises PipelineError."""
        if self._session is None:
            from zab.pipeline.spark_session import job_session

            if not logging.getLogger().handlers:
                # Py4J logs the calls that an interrupt broke off, with stack traces, to the root logger.
                logging.getLogger().addHandler(logging.NullHandler())
            self._interrupts = self._stack.enter_context(Interrupts())
            options = self._options
            with waiting("starting Spark"):
                is_short = 0 < self._bytes_read() <= SHORT_BYTES_MAX
                session = job_session(options.url, memory=options.memory, log_level=options.log, is_short=is_short)
                self._session = self._stack.enter_context(session)
                self._seen.clear()
            self._stack.enter_context(self._interrupts.cancelling(self._session.sparkContext))
            self._progress = self._stack.enter_context(StageProgress(self._session))
        return self._session

    def look(self, dirs: Sequence[str]) -> "Inventory":
        """The inventory of these directories; until Spark has started, each is read once. Raises PipelineError."""
        from zab.pipeline.inventory import inventory

        found = self._seen.get(tuple(dirs)) or inventory(dirs)
        if not self.is_started:
            self._seen[tuple(dirs)] = found
        return found

    def _bytes_read(self) -> int:
        """The size of the logs and snapshots that the jobs will read; 0 if it is not known. Errors are ignored: the
        job itself will report them."""
        if not self._dirs:
            return 0
        from zab.pipeline.errors import PipelineError

        try:
            found = self.look(self._dirs)
        except (PipelineError, OSError):
            return 0
        logs = sum(log.size for member in found.members for log in member.logs)
        return logs + sum(snapshot.size for member in found.members for snapshot in member.snapshots)

    def notice_interrupts(self, _kind: object, error: BaseException | None, _where: object) -> None:
        """An exit callback for the stack of a block: if an interrupt came, the block ends with KeyboardInterrupt."""
        if self._interrupts is not None:
            self._interrupts.check(error)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the display of progress during the block, which prints something."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        yield
        self._progress.start()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
