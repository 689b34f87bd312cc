"""Shows the progress of a long command, while it runs and when it ends early, on standard error.

    with progress("deleted") as told:
        for batch in batches:
            ...
            told.add(len(batch))

On a terminal a line counts, from `QUIET_SECONDS` on, and is gone at the end. It is left out where the lines of the
command itself come to a terminal. A command that ends early, by an interrupt, its time limit or an error, says how far
it came, unless it says so itself.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from zab.cli.terminal import count_of, say

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Told", "progress"]

BatchT = TypeVar("BatchT", bound=Sized)

QUIET_SECONDS: Final = 0.5
_LINE_SECONDS: Final = 0.1
"""The time between two updates of the line."""


class Told:
    """What was done so far. `done` says what: deleted, copied, …"""

    def __init__(self, done: str, unit: str, *, is_shown: bool) -> None:
        self.count = 0
        self._done = done
        self._unit = unit
        self._shown_from = time.monotonic() + QUIET_SECONDS if is_shown else math.inf
        self._line: Progress | None = None

    def add(self, count: int = 1) -> None:
        self.reach(self.count + count)

    def reach(self, count: int) -> None:
        self.count = count
        now = time.monotonic()
        if now < self._shown_from:
            return
        self._shown_from = now + _LINE_SECONDS
        if self._line is None:
            self._line = _line(str(self))
        else:
            self._line.update(self._line.task_ids[0], description=str(self))

    def over(self, batches: Iterable[BatchT]) -> Iterator[BatchT]:
        """Each of them; what is in it counts when the next one is asked for."""
        self.reach(0)
        for batch in batches:
            yield batch
            self.add(len(batch))

    def end(self) -> None:
        """Remove the line."""
        self._shown_from = math.inf
        if self._line is not None:
            self._line.stop()
            self._line = None

    def __str__(self) -> str:
        return f"{count_of(self.count, self._unit)} {self._done}"


@contextmanager
def progress(
    done: str, unit: str = "znode", *, prints_lines: bool = False, tells_end: bool = True, tells_errors: bool = True
) -> Iterator[Told]:
    """prints_lines: the command prints while it works. tells_end: False, where it says itself how far it came.
    tells_errors: False if an error leaves no partial result, so that only an interrupt is reported."""
    is_shown = sys.stderr.isatty() and not (prints_lines and sys.stdout.isatty())
    told = Told(done, unit, is_shown=is_shown)
    is_done = False
    try:
        yield told
        is_done = True
    finally:
        told.end()
        is_error = isinstance(sys.exc_info()[1], Exception | SystemExit)
        if tells_end and told.count and not is_done and (tells_errors or not is_error):
            sys.stdout.flush()
            say(f"zab: not finished: {told}", sys.stderr, flush=True)


def _line(text: str) -> "Progress":
    # It takes a while to load, and most commands show none.
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    line = Progress(*columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False)
    line.add_task(text, total=None)
    line.start()
    return line
