"""What writes the journal over a `Disk`, and answers when it is durable.

One `perform` is one group commit: everything that waits becomes one frame, which one system call writes and syncs. Load
makes the groups by itself, without a timer. A file that is full is closed, and the next one begun: a file that was
prepared beside the work (`entry_files.py`), or one that is preallocated here.

An `OSError` is final: it is raised, and the bookie has to end, since a second sync proves nothing.

It satisfies `zab.host.storage.log_thread.Performer`, and belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from datatree.log.disk import Disk, File
from zab.ledger.bookie.config import BookieConfig, Identity
from zab.ledger.bookie.events import AppendJournal, JournalDurable
from zab.ledger.bookie.frames import (
    DIRECTORY,
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    PREPARED,
    journal_path,
    pack_frame_header,
    pack_header,
    tag_of,
)
from zab.ledger.bookie.records import END_RECORD


class JournalFiles:
    """The journal of one bookie, for writing. It begins with a new file, `sequence`."""

    def __init__(self, disk: Disk, config: BookieConfig, identity: Identity, sequence: int) -> None:
        self._disk = disk
        self._file_bytes = config.journal_file_bytes
        self._identity = identity
        self._sequence = sequence
        self._file: File | None = None
        self._tag = tag_of(identity, sequence)
        self._end = 0
        self._previous_end = 0
        self._is_marked = True
        """Whether the file says how far it is synced: to its end."""

    def perform(self, effects: Sequence[AppendJournal]) -> list[JournalDurable]:
        """Write everything as one frame, durably. Raises OSError: final."""
        parts = effects[0].parts if len(effects) == 1 else [part for effect in effects for part in effect.parts]
        self._write(b"".join(parts))
        self._is_marked = False
        return [JournalDurable(effects[-1].number, (self._sequence, self._end))]

    def is_awaited(self, answer: JournalDurable) -> bool:
        """Requests wait for it."""
        return True

    def idle(self) -> None:
        """Say how far the file is synced, once."""
        if not self._is_marked:
            self._is_marked = True
            self._write(b"")

    def close(self) -> None:
        """Note that it ends in good order, close the file, and release what it did not use."""
        if self._file is not None:
            self._write(END_RECORD)
            self._file.close()
            self._file = None

    def _write(self, payload: bytes) -> None:
        length = FRAME_HEADER_BYTES + len(payload)
        if self._file is not None and self._end + length > self._file_bytes and payload:
            self._file.close()
            self._file = None
            self._previous_end, self._end = self._end, 0
            self._sequence += 1
            self._tag = tag_of(self._identity, self._sequence)
        crc = crc32(payload)
        if self._file is None:
            self._file = self._begin()
            head = pack_header(self._identity, self._sequence, self._previous_end)
            head += pack_frame_header(self._tag, HEADER_BYTES, 0, len(payload), crc)
        else:
            head = pack_frame_header(self._tag, self._end, self._end, len(payload), crc)
        self._file.write_durable(head + payload)
        self._end += len(head) + len(payload)

    def _begin(self) -> File:
        """Open the next file, whose name is durable then."""
        path = journal_path(self._sequence)
        if not self._disk.exists(PREPARED):
            self._disk.preallocate(f"{path}.tmp", self._file_bytes)
            self._disk.rename(f"{path}.tmp", path)
        else:
            self._disk.rename(PREPARED, path)
        self._disk.sync_directory(DIRECTORY)
        return self._disk.open_append(path, create=False)
