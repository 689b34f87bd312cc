"""The journal of a server: one line per event, a sentence and its key=value pairs, on standard error or in a file.

    2026-11-20T22:00:16.123Z INFO  zab.links link is up sid=2 link=7 inbound=true
    {"time": "2026-11-20T22:00:16.123Z", "level": "INFO", "logger": "zab.links", "sentence": "link is up", "values": …}

A line is made where the event happens and written by a thread of its own, so that a terminal that stopped reading
never stops the server. The queue between them holds `LINES_MAX` lines. Further lines are dropped and counted, and the
count is reported when there is room.

Repeated warnings and errors are limited to `LINES_AT_ONCE` of each sentence, then one in `REPEAT_SECONDS`. Those that
unauthenticated clients cause, who could fill a disk with them, are limited to one in `SELDOM_SECONDS`. The next line of
that sentence says how many were left out, as `left_out`.

Format: time in UTC with milliseconds, level padded to five, the logger's name, the sentence, then the pairs in the
given order. A value with white space, quotes or `=` is written as a JSON string; None is `-`,
booleans are `true` and `false`, bytes are hexadecimal. In JSON, numbers, booleans and None keep their types.

Not here: which events have a line (their modules), metrics, the audit log (`audit_log`).
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TextIO

from zab.host.journal.background_writer import Sink

LINES_MAX = 10_000
LINES_AT_ONCE: Final = 20
REPEAT_SECONDS: Final = 10.0
SELDOM_SECONDS: Final = 1.0
SENTENCES_MAX: Final = 200
"""How many sentences of a journal are remembered; a further one replaces the oldest."""
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_STOP_SECONDS = 1.0


class Journal:
    """The lines of one module. The sentence says what happened and what follows; values are in the pairs.

    `is_of_strangers`: the events are caused by unauthenticated clients."""

    def __init__(
        self, name: str, *, is_of_strangers: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logging.getLogger(f"zab.{name}")
        rate = (1, SELDOM_SECONDS) if is_of_strangers else (LINES_AT_ONCE, REPEAT_SECONDS)
        self._repeats = Repeats(*rate, monotonic)

    def debug(self, sentence: str, **pairs: object) -> None:
        self._log(logging.DEBUG, sentence, pairs)

    def info(self, sentence: str, **pairs: object) -> None:
        self._log(logging.INFO, sentence, pairs)

    def warning(self, sentence: str, **pairs: object) -> None:
        self._log_seldom(logging.WARNING, sentence, pairs)

    def error(self, sentence: str, **pairs: object) -> None:
        self._log_seldom(logging.ERROR, sentence, pairs)

    def _log_seldom(self, level: int, sentence: str, pairs: dict[str, object]) -> None:
        left_out_count = self._repeats.admit(sentence)
        if left_out_count is not None:
            self._log(level, sentence, {**pairs, "left_out": left_out_count} if left_out_count else pairs)

    def _log(self, level: int, sentence: str, pairs: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            text = sentence + "".join(f" {key}={written(pairs[key])}" for key in pairs)
            self._logger.log(level, "%s", text, extra={"sentence": sentence, "pairs": pairs})


class Repeats:
    """Limits a sentence to `count` times at once, then once in `seconds`. Called from any thread."""

    def __init__(self, count: int, seconds: float, monotonic: Callable[[], float]) -> None:
        self._count = count
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sentences: dict[str, tuple[float, float, int]] = {}
        """For each sentence: how often it may still be written, since when, and how often it was left out; the newest
        last."""

    def admit(self, sentence: str) -> int | None:
        """None: leave this line out. Otherwise how many were left out since the last written one."""
        now = self._monotonic()
        with self._lock:
            allowance, since, left_out_count = self._sentences.pop(sentence, (float(self._count), now, 0))
            allowance = min(allowance + (now - since) / self._seconds, self._count)
            is_said = allowance >= 1
            after = (allowance - 1, now, 0) if is_said else (allowance, now, left_out_count + 1)
            self._sentences[sentence] = after
            if len(self._sentences) > SENTENCES_MAX:
                del self._sentences[next(iter(self._sentences))]
        return left_out_count if is_said else None


def written(value: object) -> str:
    """A value as written after `key=`."""
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


def _moment(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


class LineFormatter(logging.Formatter):
    """One record as a line of the journal."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname:<5} {record.name} {record.getMessage()}"
        # One event is one line, even if a path or a peer's text has line breaks.
        line = line.replace("\n", "\\n").replace("\r", "\\r")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        sentence, pairs = getattr(record, "sentence", record.getMessage()), getattr(record, "pairs", {})
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "sentence": sentence,
            "values": {key: _plain(value) for key, value in pairs.items()},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)


class JournalWriter(logging.Handler):
    """Hands finished lines to the writing thread. `close` waits at most a second for the last ones."""

    def __init__(self, stream: TextIO, sink: Sink | None = None, *, as_json: bool = False) -> None:
        """`sink` replaces `stream`; a line that it cannot write is lost, and counted."""
        super().__init__()
        self.setFormatter(JsonFormatter() if as_json else LineFormatter())
        self._stream = stream
        self._sink = sink
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._dropped_count = 0
        self._thread = threading.Thread(target=self._write_lines, name="journal", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() >= LINES_MAX:
            self._dropped_count += 1
            return
        if self._dropped_count:
            count, self._dropped_count = self._dropped_count, 0
            self._lines.put(self._said(f"{count} lines were dropped here: nobody read them fast enough"))
        self._lines.put(self.format(record))

    def _said(self, sentence: str) -> str:
        """A line of the journal about itself."""
        return self.format(logging.LogRecord("zab.journal", logging.WARNING, "", 0, sentence, (), None))

    def _write_lines(self) -> None:
        lost_count = 0
        while (line := self._lines.get()) is not None:
            try:
                if self._sink is None:
                    self._stream.write(line + "\n")
                    self._stream.flush()
                    continue
                if lost_count:
                    line = self._said(f"{lost_count} lines are lost here: the file could not be written") + "\n" + line
                self._sink.write((line + "\n").encode(errors="backslashreplace"))
                lost_count = 0
            except (OSError, ValueError):
                if self._sink is None:
                    # There is nowhere to report this; the server does not depend on its journal.
                    return
                lost_count += 1
        if self._sink is not None:
            self._sink.close()

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join(_STOP_SECONDS)
        super().close()


def open_journal(
    level: int = logging.INFO, stream: TextIO | None = None, sink: Sink | None = None, *, as_json: bool = False
) -> JournalWriter:
    """Send every line of the `zab` loggers to `sink`, or to `stream` (default: standard error). Close the returned
    writer at the end."""
    writer = JournalWriter(sys.stderr if stream is None else stream, sink, as_json=as_json)
    logger = logging.getLogger("zab")
    logger.propagate = False
    logger.setLevel(level)
    logger.handlers[:] = [writer]
    return writer
