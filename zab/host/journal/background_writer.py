"""Writes records in a thread of its own, without delaying the loop.

    put(record)     called from the loop; if too much waits, the record is lost, and counted
    close(...)      writes what waits, and ends

The thread turns the records into lines and writes them in order. If that fails, it retries, while more records wait, up
to `bytes_max`: a short failure loses nothing. Losses are reported in their place, by a record that `lost` makes from
the count, and to `WriterListener`.

Not here: the content of records, and the file (`rotating_file`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

CHUNK_BYTES: Final = 64 << 10
"""How much is written at once."""
RETRY_SECONDS: Final = 1.0


class Sink(Protocol):
    """The destination of lines."""

    def write(self, chunk: bytes) -> None:
        """Append whole lines, all of them or none. Raises OSError."""
        ...

    def close(self) -> None: ...


class WriterListener(Protocol):
    """Is told about a writer. Calls come one at a time, from any thread."""

    def lost(self, count: int) -> None:
        """`count` more records are lost."""
        ...

    def failed(self, reason: str) -> None:
        """Writing fails from now on, and is retried."""
        ...

    def goes_on(self) -> None:
        """Writing succeeds again."""
        ...


class Held(Protocol):
    """The part of a record that a writer needs."""

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        ...


Record = TypeVar("Record", bound=Held)


class BackgroundWriter(Generic[Record]):
    """`put` and `close` belong to the loop's thread."""

    def __init__(
        self,
        sink: Sink,
        lines: Callable[[Record], Iterator[bytes]],
        lost: Callable[[int], Record],
        listener: WriterListener,
        *,
        bytes_max: int,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """`lines` turns a record into lines with their ends, in the thread. More than one record is held only below
        `bytes_max`."""
        self._sink = sink
        self._lines = lines
        self._lost = lost
        self._listener = listener
        self._bytes_max = bytes_max
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._waiting: list[Record] = []
        self._held_bytes = 0
        """The size of records that wait or are being written."""
        self._lost_count = 0
        """Lost records that are not reported in the file yet."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, record: Record) -> None:
        with self._changed:
            if self._held_bytes >= self._bytes_max:
                self._lose(1)
                return
            if self._lost_count:
                self._append(self._lost(self._lost_count))
                self._lost_count = 0
            self._append(record)
            self._changed.notify()

    def _append(self, record: Record) -> None:
        self._waiting.append(record)
        self._held_bytes += record.held_bytes

    def _lose(self, count: int) -> None:
        self._lost_count += count
        self._listener.lost(count)

    def close(self, patience_seconds: float) -> bool:
        """Write what waits, and end; what cannot be written now is lost. False if that takes too long."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while records := self._next():
                self._write_all(records)
                self._let_go(sum(record.held_bytes for record in records))
        finally:
            # A bug ends the thread, with its traceback; from now on all records are lost, and reported as lost.
            error_in_flight = sys.exception()
            if error_in_flight is not None:
                self._bytes_max = 0
                self._listener.failed(f"{type(error_in_flight).__name__}: {error_in_flight}")
            self._sink.close()

    def _write_all(self, records: list[Record]) -> None:
        chunk: list[bytes] = []
        size = count = 0
        for record in records:
            count += 1
            for line in self._lines(record):
                chunk.append(line)
                size += len(line)
                if size >= CHUNK_BYTES:
                    self._write(b"".join(chunk), count)
                    chunk, size, count = [], 0, 0
        if chunk:
            self._write(b"".join(chunk), count)

    def _next(self) -> list[Record]:
        """Take all waiting records; empty at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            if self._closing and self._lost_count:
                self._append(self._lost(self._lost_count))
                self._lost_count = 0
            records, self._waiting = self._waiting, []
            return records

    def _let_go(self, held_bytes: int) -> None:
        with self._changed:
            self._held_bytes -= held_bytes

    def _write(self, chunk: bytes, count: int) -> None:
        """Write a chunk, however long that takes; but if it fails while closing, its records are lost."""
        has_failed = False
        while True:
            try:
                self._sink.write(chunk)
            except OSError as error:
                if not has_failed:
                    has_failed = True
                    self._listener.failed(error.strerror or str(error))
                with self._changed:
                    if self._closing or self._changed.wait_for(lambda: self._closing, self._retry_seconds):
                        self._listener.lost(max(count, 1))
                        return
            else:
                if has_failed:
                    self._listener.goes_on()
                return
