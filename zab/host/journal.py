"""The journal of a server: one line per event on standard error, a sentence and its key=value pairs.

    2026-11-20T22:00:16.123Z INFO  zab.links link is up sid=2 link=7 inbound=true

A line is made where the event happens and written by a thread of its own, so that a terminal that stopped reading
never stops the server. The queue between them holds `LINES_MAX` lines. What comes on top is counted, and the count is
said when there is room.

Format: time in UTC with milliseconds, level padded to five, the logger's name, the sentence, then the pairs in the
order they were given. A value with white space, quotes or `=` in it is written as a JSON string; None is `-`,
booleans are `true` and `false`, bytes are hexadecimal.

Not here: which events are worth a line (their modules), metrics, the audit log (a `trail`).
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

LINES_MAX = 10_000
SELDOM_SECONDS = 1.0
_STOP_SECONDS = 1.0


class Journal:
    """The lines of one module. The sentence says what happened and what follows; values stand in the pairs."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"zab.{name}")

    def debug(self, sentence: str, **pairs: object) -> None:
        self._log(logging.DEBUG, sentence, pairs)

    def info(self, sentence: str, **pairs: object) -> None:
        self._log(logging.INFO, sentence, pairs)

    def warning(self, sentence: str, **pairs: object) -> None:
        self._log(logging.WARNING, sentence, pairs)

    def error(self, sentence: str, **pairs: object) -> None:
        self._log(logging.ERROR, sentence, pairs)

    def _log(self, level: int, sentence: str, pairs: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", sentence + "".join(f" {key}={written(pairs[key])}" for key in pairs))


class SeldomJournal:
    """Lines about those who have proven nothing, and so could fill a disk with them: one of each sentence in
    `SELDOM_SECONDS`. The next one says how many were left out."""

    def __init__(self, journal: Journal, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._monotonic = monotonic
        self._next_at: dict[str, float] = {}
        self._left_out_counts: dict[str, int] = {}

    def warning(self, sentence: str, **pairs: object) -> None:
        now = self._monotonic()
        if now < self._next_at.get(sentence, now):
            self._left_out_counts[sentence] = self._left_out_counts.get(sentence, 0) + 1
            return
        self._next_at[sentence] = now + SELDOM_SECONDS
        left_out_count = self._left_out_counts.pop(sentence, 0)
        if left_out_count:
            pairs["left_out"] = left_out_count
        self._journal.warning(sentence, **pairs)


def written(value: object) -> str:
    """A value as it stands after `key=`."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    text = str(value)
    if not text or any(character.isspace() or character in '"=' for character in text):
        return json.dumps(text, ensure_ascii=False)
    return text


class LineFormatter(logging.Formatter):
    """One record as a line of the journal."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = f"{moment}.{int(record.msecs):03d}Z {record.levelname:<5} {record.name} {record.getMessage()}"
        # One event is one line, whatever a peer or a path put into it.
        line = line.replace("\n", "\\n").replace("\r", "\\r")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JournalWriter(logging.Handler):
    """Hands finished lines to the writing thread. `close` waits a second at most for the last ones."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._stream = stream
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._dropped_count = 0
        self._thread = threading.Thread(target=self._write_lines, name="journal", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() >= LINES_MAX:
            self._dropped_count += 1
            return
        if self._dropped_count:
            self._lines.put(f"{self._dropped_count} lines were dropped here: nobody read them fast enough")
            self._dropped_count = 0
        self._lines.put(self.format(record))

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                # Nobody is left to tell; the server's work does not depend on its journal.
                return

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join(_STOP_SECONDS)
        super().close()


def open_journal(level: int = logging.INFO, stream: TextIO | None = None) -> JournalWriter:
    """Send every line of the `zab` loggers to `stream` (standard error). Close the returned writer at the end."""
    writer = JournalWriter(sys.stderr if stream is None else stream)
    logger = logging.getLogger("zab")
    logger.propagate = False
    logger.setLevel(level)
    logger.handlers[:] = [writer]
    return writer
