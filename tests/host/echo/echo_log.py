"""The log of the echo service, in one file over a `Disk`.

An entry is a frame (`zab.wire.frames`) of a CRC-32, 4 bytes, big-endian, and the entry. What follows the last entry
that checks was being written when the process ended: nobody was answered, and it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

import attrs

from datatree.log.disk import Disk, File
from tests.host.echo.echo import ENTRY_BYTES_MAX, Durable
from zab.wire.frames import FrameError, FrameReader, frame

LOG_FILE = "version-1/log.echo"
_CHECKSUM = Struct(">I")


@attrs.frozen
class StorageFailed:
    reason: str


class EchoLog:
    """See `zab.host.storage.log_thread.Performer`. Raises OSError: final."""

    def __init__(self, disk: Disk) -> None:
        """Recover what is there. What counts was written again and synced, whatever became of it before."""
        self.entries = _entries(disk.read(LOG_FILE)) if disk.exists(LOG_FILE) else []
        data = b"".join(map(_record, self.entries))
        disk.replace(LOG_FILE, data)
        self.count = len(self.entries)
        self._file: File = disk.open_append(LOG_FILE, create=False, offset=len(data))

    def perform(self, effects: Sequence[list[bytes]]) -> list[Durable]:
        """Append the entries of all turns in one write."""
        entries = [entry for entries in effects for entry in entries]
        self._file.write_durable(b"".join(map(_record, entries)))
        self.count += len(entries)
        return [Durable(self.count)]

    def is_awaited(self, answer: Durable) -> bool:
        """Clients wait for it."""
        return True

    def idle(self) -> None:
        """Everything is written down already."""

    def close(self) -> None:
        self._file.close()


def _record(entry: bytes) -> bytes:
    return frame(_CHECKSUM.pack(crc32(entry)) + entry)


def _entries(data: bytes) -> list[bytes]:
    try:
        payloads = FrameReader(ENTRY_BYTES_MAX + _CHECKSUM.size).feed(data)
    except FrameError as error:
        payloads = error.frames
    entries = []
    for payload in payloads:
        entry = payload[_CHECKSUM.size :]
        if payload[: _CHECKSUM.size] != _CHECKSUM.pack(crc32(entry)):
            break
        entries.append(entry)
    return entries
