"""What Spark does at the moment, on standard error, while that is a terminal: asked four times a second."""

import contextlib
import threading
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


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """A line with what is going on, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"[dim]{text}…"):
        yield


class StageProgress:
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
                except spark_errors():
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
