"""Reading a managed ledger: from a position on, across its ledgers, without taking it over.

A ledger is read up to its end, then the next one of the list. One that bookies no longer have is read from its copy in
an object store (`copies`); so is one that bookies fail to deliver, if it has a copy. While an owner changes there may
be none for a moment: then the list is read again after `GAP_S`. Entries that are not confirmed are never read, so a
takeover takes nothing back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol, Self

from attrs import frozen

from zab.client import Client
from zab.coordination.steps import Steps
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, LogState, Position
from zab.ledger.managed.store import VersionedLog, read_log
from zab.ledgers.copies import CopyEntries, CopyReader, open_copy
from zab.ledgers.driving import Driving
from zab.ledgers.errors import DigestError, EntryLostError, LacUnknownError, NoSuchLedgerError, ReadUnavailableError
from zab.ledgers.log_errors import LogDamagedError, NoSuchLogError, OffloadError, TrimmedError
from zab.ledgers.parts import Parts
from zab.ledgers.reading import Entries, LedgerReader
from zab.ledgers.settings import StoreSettings

GAP_S: Final = 0.05


class StoreOfLogs(Protocol):
    """The store of ledgers, as its logs see it."""

    zk: Client
    settings: StoreSettings
    driving: Driving
    parts: Parts

    async def run(self, begin: Callable[[], Steps[Any]], ledger: int | None = None) -> Any:
        """What this handler returns."""

    async def open_no_recovery(self, ledger: int, password: bytes | None = b"") -> LedgerReader:
        """A reader of what is confirmed."""


@frozen
class LogEntry:
    """One entry of a log."""

    position: Position
    payload: bytes


async def log_info(store: StoreOfLogs, name: str) -> LogInfo:
    """The newest list. Raises NoSuchLogError."""
    found: VersionedLog | None = await store.run(lambda: read_log(store.settings.logs_root, name))
    if found is None:
        raise NoSuchLogError("there is no such log", name)
    return found.info


async def _last_confirmed(reader: LedgerReader) -> int:
    """What bookies prove; those of a new ledger may not have heard of it yet."""
    try:
        return await reader.read_last_confirmed()
    except LacUnknownError as error:
        return error.at_least


def _damaged(name: str, gone: LedgerInfo) -> LogDamagedError:
    text = f"ledger {gone.id} is in its list, but was deleted by somebody else"
    if gone.entries is not None:
        text += f"; its entries are lost, read on after {Position(gone.id, gone.entries - 1)}"
    return LogDamagedError(text, name)


class LogEntries(AsyncIterator[LogEntry]):
    """`async for entry in …`. `after`: the first entry is the one after this position; None: the first that is there.
    `is_following` False: it ends with the last entry that is confirmed when it gets there; else it waits for others,
    until the log is terminated. `known_end`: what the owner knows to be confirmed; others ask bookies, which hear of it
    a little later. Raises TrimmedError if what is next is gone, LogDamagedError if its ledger was deleted while the
    list names it."""

    def __init__(
        self,
        store: StoreOfLogs,
        name: str,
        password: bytes | None,
        after: Position | None,
        *,
        is_following: bool,
        known_end: Callable[[], Position | None] = lambda: None,
    ) -> None:
        self._store = store
        self._name = name
        self._password = password
        self._after = after
        self._is_following = is_following
        self._known_end = known_end
        self._skips: Callable[[Position], bool] = lambda _position: False
        self._reader: LedgerReader | CopyReader | None = None
        self._entries: Entries | CopyEntries | None = None
        self._failed = -1
        """The ledger that bookies did not deliver."""
        self._is_over = False

    def skip(self, skips: Callable[[Position], bool]) -> None:
        """Leave these entries out."""
        self._skips = skips

    @property
    def position(self) -> Position | None:
        """The entry that was read last; None: none yet."""
        return self._after

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogEntry:
        while not self._is_over:
            if self._entries is None and not await self._open():
                break
            assert self._entries is not None
            assert self._reader is not None
            try:
                entry = await anext(self._entries)
            except StopAsyncIteration:
                await self._ledger_is_read()
                continue
            except NoSuchLedgerError:
                self._leave()
                continue
            except (EntryLostError, ReadUnavailableError, DigestError, OffloadError):
                if not await self._is_elsewhere():
                    raise
                self._leave()
                continue
            self._after = position = Position(self._reader.id, entry.entry)
            if not self._skips(position):
                return LogEntry(position, entry.payload)
        self.close()
        raise StopAsyncIteration

    async def _open(self) -> bool:
        """The ledger that is next. False: nothing more is to be read."""
        missing: LedgerInfo | None = None
        while True:
            info = await log_info(self._store, self._name)
            after = self._after or info.first
            if info.trimmed is not None and after < info.trimmed:
                self._after = info.trimmed
                raise TrimmedError(f"{after} is gone, the first entry is after {info.first}", self._name, info.first)
            following = info.next_after(after)
            if following is not None:
                here, first = following
                try:
                    self._reader = await self._open_reader(here)
                except NoSuchLedgerError as error:
                    # A log takes a ledger out of its list in the transaction that deletes it.
                    if here == missing:
                        raise _damaged(self._name, here) from error
                    missing = here
                    await self._store.zk.sleep(GAP_S)
                    continue
                return await self._begin(here.id, first)
            if info.state is LogState.TERMINATED or not self._is_following:
                return False
            await self._store.zk.sleep(GAP_S)

    async def _open_reader(self, here: LedgerInfo) -> LedgerReader | CopyReader:
        copy = here.offload
        if copy is None or not copy.is_done or (copy.is_on_bookies and here.id != self._failed):
            return await self._store.open_no_recovery(here.id, self._password)
        try:
            return await open_copy(self._store.parts, self._name, here.id, copy, self._password)
        except OffloadError:
            now = (await log_info(self._store, self._name)).at(here.id)
            if now is not None and now.offload is not None and now.offload.uid == copy.uid:
                raise
            # It was trimmed meanwhile.
            raise NoSuchLedgerError("it is gone", here.id) from None

    async def _is_elsewhere(self) -> bool:
        """What could not be read is in an object store by now, or is gone."""
        assert self._reader is not None
        here = (await log_info(self._store, self._name)).at(self._reader.id)
        if here is None:
            return True
        if isinstance(self._reader, CopyReader) or here.offload is None or not here.offload.is_done:
            return False
        self._failed = here.id
        return True

    async def _begin(self, ledger: int, first: int) -> bool:
        assert self._reader is not None
        self._after = Position(ledger, first - 1)
        if self._is_following or self._reader.metadata.is_closed:
            self._entries = self._reader.tail(first)
            return True
        assert isinstance(self._reader, LedgerReader)
        end = self._known_end()
        if end is None:
            last = await _last_confirmed(self._reader)
        else:
            last = end.entry if end.ledger == ledger else -1
        if last < first:
            return False
        self._entries = self._reader.entries(first, last, is_unconfirmed=end is not None)
        return True

    async def _ledger_is_read(self) -> None:
        """Everything of this ledger was read, or everything that is confirmed."""
        assert self._reader is not None
        assert self._after is not None
        metadata = self._reader.metadata
        if metadata.is_closed and self._after.entry >= metadata.last:
            # The list may not have its end yet.
            self._after = Position(self._after.ledger, max(self._after.entry, metadata.last))
            self._leave()
            await self._wait_for_next(self._after.ledger)
        else:
            self._is_over = True

    async def _wait_for_next(self, ledger: int) -> None:
        while True:
            info = await log_info(self._store, self._name)
            here = info.at(ledger)
            is_ended = here is None or here.entries is not None
            if is_ended or info.after(ledger) is not None:
                return
            if not self._is_following:
                self._is_over = True
                return
            await self._store.zk.sleep(GAP_S)

    def _leave(self) -> None:
        if self._entries is not None:
            self._entries.close()
        if self._reader is not None:
            self._reader.close()
        self._entries = self._reader = None

    def close(self) -> None:
        """Read no more."""
        self._is_over = True
        self._leave()
