"""Shows on standard error what Spark does: a bar on a terminal, updated four times a second; elsewhere, such as in the
log of a scheduler, a line each minute."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zab.cli.pipeline.endings import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StageProgress", "waiting"]

POLL_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 0.5
LINE_SECONDS: Final = 60.0
"""Between lines where there is no terminal, and before the first one."""


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a line during the block, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"[dim]{text}…"):
        yield


class StageProgress:
    """The tasks of what Spark runs at the moment; a context manager."""

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
        if self._thread is None:
            self._ending.clear()
            show = self._show if self._console.is_terminal else self._tell
            self._thread = threading.Thread(target=show, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._ending.set()
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        """Show a bar, but not for work that is done in a moment."""
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
            while (counts := self._counts()) is not None:
                done, total = counts
                description = "running" if total else "planning"
                progress.update(shown, description=description, completed=done, total=total or None)
                if self._ending.wait(POLL_SECONDS):
                    return

    def _tell(self) -> None:
        began = time.monotonic()
        while not self._ending.wait(LINE_SECONDS) and (counts := self._counts()) is not None:
            done, total = counts
            what = f"{done} of {total} tasks are done" if total else "Spark plans"
            print(f"zab: {what}, after {time.monotonic() - began:.0f} s", file=self._console.file, flush=True)

    def _counts(self) -> tuple[int, int] | None:
        """`count`; None once the session ends, whose reason the command itself reports."""
        try:
            return self.count()
        except OSError:
            return None
        except spark_errors():
            return None

    def count(self) -> tuple[int, int]:
        """How many tasks are done, and how many there are, in the stages that run now."""
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        there = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in there), sum(stage.numTasks for stage in there)
