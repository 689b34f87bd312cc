"""The journals of members that run in this process, kept in memory: the lines of each member.

    with kept():                    while any group of members is open
    whose.set(Lines())              in the context of a member: lines logged there, and in its tasks and threads, are
                                    kept here

Members log like servers, to the loggers below `zab`. While a group is open, their lines do not reach the handlers of
the process: they would flood the reports of every test. Lines that the client library and others log below `zab` are
handled as usual.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from zab.host.journal.journal import LineFormatter

LINES_MAX: Final = 5_000
"""How many of the newest lines of a member are kept."""


class Lines:
    """The journal of one member, over all its starts."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def append(self, line: str) -> None:
        self._lines.append(line)

    def __str__(self) -> str:
        return "\n".join(list(self._lines))


whose: ContextVar[Lines | None] = ContextVar("whose", default=None)


class _RecordHandler(logging.Handler):
    """Sorts the lines logged below `zab`."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._logger = logger
        self._level_before = logger.level
        self._propagate_before = logger.propagate
        self._effective_before = logger.getEffectiveLevel()
        logger.addHandler(self)
        logger.propagate = False
        logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        lines = whose.get()
        if lines is not None:
            lines.append(self.format(record))
        elif self._propagate_before and record.levelno >= self._effective_before:
            logging.getLogger().callHandlers(record)

    def leave(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagate_before
        self._logger.setLevel(self._level_before)
        self.close()


class _Open:
    """How many groups of members are open in this process, and the handler that they share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.handler: _RecordHandler | None = None


_open = _Open()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keep the lines of members within this context."""
    with _open.lock:
        _open.count += 1
        if _open.handler is None:
            _open.handler = _RecordHandler(logging.getLogger("zab"))
    try:
        yield
    finally:
        with _open.lock:
            _open.count -= 1
            if not _open.count:
                _open.handler.leave()
                _open.handler = None
