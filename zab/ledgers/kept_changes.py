"""A log that keeps the feed of changes: who owns it appends to it, each change once, across ends of the owner.

    async with store.open_log("tree") as log:
        kept = KeptChanges(log, "/app")
        place = await kept.begin()              None: nothing was kept yet
        await kept.append((), place)            it begins here
        await kept.append(changes, place)       the changes, and the place after them

The place is in the entry with the changes: both are in the log, or neither. Whoever opens the log next fences this
owner and recovers its last ledger, so that the last entry says how far the log is, for good. One append is under way at
a time: if one is not in the log, none after it is.

A cursor, `CURSOR`, stays before the last entry, so that trimming never deletes the place.

Not here: the bytes of an entry (`change_entries`), reading (`logged_changes`), the feed (`zab.client.core.changes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zab.client import Change, Place
from zab.ledger.managed.events import OwnerState
from zab.ledger.managed.log_info import Position
from zab.ledger.managed.settings import LAC_MS, LogSettings
from zab.ledger.writer.settings import ENTRY_BYTES_MAX, WriterSettings
from zab.ledgers.change_entries import ChangesEntry, InvalidEntryError, decode_entry, parts_of
from zab.ledgers.errors import EntryTooLargeError
from zab.ledgers.log_errors import LogContentError, LogTerminatedError
from zab.ledgers.logs import LogCursor, ManagedLog

CURSOR: Final = "zab-changes"
SETTINGS: Final = LogSettings(writer=WriterSettings(entry_bytes_max=ENTRY_BYTES_MAX, explicit_lac_ms=LAC_MS))
"""What the log is opened with: one change may need a larger entry than others do."""


class KeptChanges:
    """`prefix`: the znode whose changes it keeps, and those below it; the servers' path, with any chroot."""

    def __init__(self, log: ManagedLog, prefix: str) -> None:
        self._log = log
        self._prefix = prefix
        self._place: Place | None = None
        self._last: Position | None = None
        """The position of the last entry."""
        self._cursor: LogCursor | None = None

    @property
    def is_trimmed(self) -> bool:
        """Whether there were entries, and all are gone."""
        return self._place is None and self._log.info.trimmed is not None

    async def begin(self) -> Place | None:
        """How far the log is. Raises LogContentError if it is none of these changes, LogTerminatedError."""
        if self._log.state is OwnerState.TERMINATED:
            raise LogTerminatedError("it is terminated", self._log.name)
        last = self._log.last_confirmed
        if last.entry >= 0:
            self._place = (await self._read(last)).end
            self._last = last
        self._cursor = await self._log.cursor(CURSOR)
        before = None if self._last is None else Position(last.ledger, last.entry - 1)
        if before is not None and self._cursor.mark < before:
            await self._cursor.mark_delete(before)
        return self._place

    async def _read(self, position: Position) -> ChangesEntry:
        entries = self._log.read(Position(position.ledger, position.entry - 1))
        try:
            found = await anext(entries)
            entry = decode_entry(found.payload)
        except InvalidEntryError as error:
            raise LogContentError(f"entry {position} is none of a feed of changes: {error}", self._log.name) from None
        finally:
            entries.close()
        if entry.prefix != self._prefix:
            raise LogContentError(f"it keeps the changes below {entry.prefix}, not {self._prefix}", self._log.name)
        return entry

    async def append(self, changes: Sequence[Change], place: Place) -> None:
        """Returns when they are in the log, with the place after them. The first call for a log has no changes: it says
        where the log begins. After an error `begin` of the next owner says
        which of them are. Raises as `ManagedLog.append`; EntryTooLargeError names the change."""
        assert self._cursor is not None, "it was begun"
        assert self._place is not None or not changes, "it is known where the log begins"
        for entry, payload in parts_of(self._prefix, self._place or place, place, changes):
            try:
                position = await self._log.append(payload)
            except EntryTooLargeError as error:
                if not entry.changes:
                    raise
                change = entry.changes[0]
                raise EntryTooLargeError(f"{change.path} (zxid {change.zxid:#x}): {error}") from None
            self._place = entry.end
            last, self._last = self._last, position
            if last is not None:
                self._cursor.acknowledge(last)
