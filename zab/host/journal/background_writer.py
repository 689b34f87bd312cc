"""Records that are written down beside the loop, by a thread of their own, and never hold it up.

    put(record)     from the loop; when too much waits, the record is lost, and counted
    close(...)      write what waits, and end

The thread makes lines of the records and writes them, in their order. Where that fails it tries again and again, while
more gathers, up to `bytes_max`: a short failure loses nothing. What is lost is said where it is missing, in a record
that `lost` makes of the count, and to `WriterListener`.

Not here: what the records say, and where the lines go (`rotating_file`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

CHUNK_BYTES: Final = 64 << 10
"""So much is written at once."""
RETRY_SECONDS: Final = 1.0


class Sink(Protocol):
    """Where lines go."""

    def write(self, chunk: bytes) -> None:
        """Append whole lines, all of them or none. Raises OSError."""
        ...

    def close(self) -> None: ...


class WriterListener(Protocol):
    """What is said about a writer; of one at a time, by any thread."""

    def lost(self, count: int) -> None:
        """So many more records are lost."""
        ...

    def failed(self, reason: str) -> None:
        """Nothing can be written, from now on; it is tried again and again."""
        ...

    def goes_on(self) -> None:
        """It was written again."""
        ...


class Held(Protocol):
    """A record, as far as a writer knows it."""

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
        """`lines` makes them, each with its end, in the thread. More than one record is held only below `bytes_max`."""
        self._sink = sink
        self._lines = lines
        self._lost = lost
        self._listener = listener
        self._bytes_max = bytes_max
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._waiting: list[Record] = []
        self._held_bytes = 0
        """Of what waits, and of what is being written."""
        self._lost_count = 0
        """Not said in what is written yet."""
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
        """Write what waits, and end; what cannot be written now is lost. False when that takes too long."""
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
            # A bug ends the thread, with its traceback; from now on everything is lost, and said to be.
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
        """All that waits; nothing at the end."""
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
        """Write it, however long that takes; but at the end, where it fails, its records are lost."""
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
