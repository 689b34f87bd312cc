"""Writes the audit log of a service to a file: the records of turns, and those of its start and stop.

The audit log never delays the loop. If it cannot be written, or too much waits, records are lost and the service
continues. The audit log, the journal and a counter of the service say how many were lost.

An unauthenticated client may cause any number of refusals. At most `REFUSALS_PER_SECOND` of each operation are written,
and the next one says how many were left out, as `left_out`.

Not here: the lines (`zab.service.audit`), the file (`zab.host.journal.rotating_file`).
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from zab.configuration.blocks.audit import AuditSettings
from zab.host.journal.background_writer import BackgroundWriter, Sink
from zab.host.journal.journal import Journal
from zab.host.journal.rotating_file import RotatingFile
from zab.service.audit import FAILURE, INVOKED, SERVER_START, SERVER_STOP, SUCCESS, Lost, Record, Refusal, ServerEvent
from zab.service.failure import CONFIG_ERROR, ServerFailedError

HELD_BYTES_MAX: Final = 32 << 20
"""The limit for records that wait to be written."""
REFUSALS_PER_SECOND: Final = 10
STOP_SECONDS: Final = 2.0

journal = Journal("audit")
of_losses = Journal("audit", is_of_strangers=True)


@attrs.define(eq=False)
class _Timed:
    """A record, and when it was made (ms since 1970)."""

    record: Record
    wall_ms: int

    @property
    def held_bytes(self) -> int:
        return self.record.held_bytes


class AuditLog:
    """The port `zab.service.ports.Audit`. Belongs to the loop's thread."""

    def __init__(
        self,
        sink: Sink,
        own_user: str,
        wall_ms: Callable[[], int],
        count_lost: Callable[[int], None],
        *,
        bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        """`wall_ms` returns milliseconds since 1970. `count_lost` gets the number of records, each time
        that some are lost."""
        self._count_lost = count_lost
        self._lost_count = 0
        self._wall_ms = wall_ms
        self._own_user = own_user
        self._refusals = Refusals()
        self._trail: BackgroundWriter[_Timed] = BackgroundWriter(
            sink, self._lines, lambda count: _Timed(Lost(count), self._wall_ms()), self, bytes_max=bytes_max
        )
        self._trail.start()

    def write(self, records: Iterable[Record]) -> None:
        now_ms = self._wall_ms()
        for record in records:
            if isinstance(record, Refusal):
                seen = self._refusals.admit(record.operation, now_ms)
                if seen is None:
                    continue
                record.left_out_count = seen
            self._trail.put(_Timed(record, now_ms))

    def started(self) -> None:
        self.write((ServerEvent(SERVER_START, SUCCESS),))

    def start_failed(self) -> None:
        """Close the log, since the server does not start."""
        self._close(ServerEvent(SERVER_START, FAILURE))

    def stop(self) -> None:
        """Close the log, since the server stops."""
        self._close(ServerEvent(SERVER_STOP, INVOKED))

    def _close(self, last: Record) -> None:
        self.write((last,))
        if not self._trail.close(STOP_SECONDS):
            journal.error("the audit log does not close in time -> stop without it")

    def _lines(self, timed: _Timed) -> Iterator[bytes]:
        seconds, milliseconds = divmod(timed.wall_ms, 1000)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        for line in timed.record.lines(self._own_user):
            level = "ERROR" if line.endswith(f"result={FAILURE}") else "INFO "
            yield f"{moment}.{milliseconds:03d}Z {level} zab.audit: {line}\n".encode()

    # Called by the writer.

    def lost(self, count: int) -> None:
        self._lost_count += count
        self._count_lost(count)
        of_losses.warning("audit records are lost", count=self._lost_count)

    def failed(self, reason: str) -> None:
        journal.error("the audit log cannot be written -> try again; new records wait meanwhile", reason=reason)

    def goes_on(self) -> None:
        journal.info("the audit log is written again")


class Refusals:
    """Counts written and left-out refusals by operation, per second."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}
        self._left_out_counts: dict[str, int] = {}

    def admit(self, operation: str, now_ms: int) -> int | None:
        """None: leave this refusal out. Otherwise how many were left out since the last written one."""
        second, count = self._counts.get(operation, (0, 0))
        if second != now_ms // 1000:
            second, count = now_ms // 1000, 0
        if count >= REFUSALS_PER_SECOND:
            self._left_out_counts[operation] = self._left_out_counts.get(operation, 0) + 1
            return None
        self._counts[operation] = second, count + 1
        return self._left_out_counts.pop(operation, 0)


def own_user() -> str:
    """The user of this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def open_audit_log(
    settings: AuditSettings,
    file: str,
    wall_ms: Callable[[], int],
    count_lost: Callable[[int], None],
    *,
    config_file: str,
) -> AuditLog | None:
    """Open the audit log in `file`; None if the settings switch it off. Raises ServerFailedError, which names
    `config_file`."""
    if not settings.enabled:
        return None
    try:
        sink = RotatingFile(file, settings.file_bytes_max, settings.files_count)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ServerFailedError(CONFIG_ERROR, f"{config_file}: audit.file={file}: {reason}") from error
    journal.info("audit is enabled", file=file)
    return AuditLog(sink, own_user(), wall_ms, count_lost)
