"""The feed of changes, which goes on in a log where servers no longer have it.

    async for change in store.changes("tree", since=zxid, prefix="/app"): …

The log is a managed ledger that `zab changes --to-log` keeps. Servers are asked first: they have what is newest. Once
they say that the changes from there on are older than what they have, the log is read, from the ledger that has the
place. At its end servers are asked again. Each change is returned once, in order, whichever of the two tells it.

What is in the log was told to the one that wrote it: everybody who can read the log gets what that identity may read.

Not here: the bytes of an entry (`change_entries`), the feed of servers (`zab.client.core.changes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Self

from datatree.txn_changes import WHOLE
from zab.client import Change, ChangesLostError, ClientClosedError, Place
from zab.ledger.managed.log_info import Position
from zab.ledgers.change_entries import ChangesEntry, InvalidEntryError, decode_entry, same_history
from zab.ledgers.log_errors import LogContentError, TrimmedError
from zab.ledgers.log_reading import LogEntries, LogEntry, StoreOfLogs, log_info


class LoggedChanges(AsyncIterator[Change]):
    """Made by `LedgerStore.changes`, for one task at a time. Iteration ends when the client is closed.

    Raises ChangesLostError where neither the servers nor the log have what is next, or both have another history;
    LogContentError if the log is not one of changes, or not of this prefix; NoSuchLogError; otherwise as `Changes` and
    `LogEntries`.
    """

    def __init__(
        self, store: StoreOfLogs, log: str, since: int | Place | None, prefix: str, password: bytes | None
    ) -> None:
        self._store = store
        self._log = log
        self._password = password
        self._prefix = prefix
        self._inner_prefix = store.zk.operations.inner(prefix)
        self._place = Place(since, WHOLE, "") if isinstance(since, int) else since
        self._servers = store.zk.changes(since, prefix)
        self._entries: LogEntries | None = None
        self._is_in_log = False
        self._held: deque[Change] = deque()
        self._end: Place | None = None
        """After those that are held."""
        self._lost_at: Place | None = None
        """Where servers could not go on: if that is still the place after the log, it does not have what is next."""

    @property
    def place(self) -> Place | None:
        """After the last change returned. None until the start of a `since` of None is known."""
        return self._place if self._is_in_log else self._servers.place

    @property
    def is_in_log(self) -> bool:
        """Whether the last change came from the log."""
        return self._is_in_log

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        try:
            return await self.receive()
        except ClientClosedError:
            raise StopAsyncIteration from None

    async def receive(self) -> Change:
        """The next change; waits for it. Cancelling loses nothing."""
        while not self._held:
            if self._is_in_log:
                await self._read_log()
                continue
            try:
                return await self._servers.receive()
            except ChangesLostError as error:
                place = self._servers.place
                if error.oldest is None or place == self._lost_at:
                    raise
                self._place = self._lost_at = place
                self._is_in_log = True
        change = self._held.popleft()
        self._place = Place(change.zxid, change.part, self._history) if self._held else self._end
        return change

    @property
    def _history(self) -> str:
        assert self._end is not None
        return self._end.history_id

    def _leave_log(self) -> None:
        """At its end: servers go on from the place."""
        self.close()
        self._is_in_log = False
        self._servers = self._store.zk.changes(self._place, self._prefix)

    def close(self) -> None:
        """Read no more of the log."""
        entries, self._entries = self._entries, None
        if entries is not None:
            entries.close()

    async def _read_log(self) -> None:
        """Hold the changes of the next entry."""
        assert self._place is not None
        if self._entries is None:
            after = await self._before(self._place)
            self._entries = self._store_entries(after)
        try:
            entry = await anext(self._entries)
        except TrimmedError:
            # It goes on after what is gone; whether that was needed, the next entry says.
            return
        except StopAsyncIteration:
            self._leave_log()
            return
        self._take(self._decoded(entry))

    def _take(self, entry: ChangesEntry) -> None:
        place = self._place
        assert place is not None
        if not _is_below(self._inner_prefix, entry.prefix.encode("utf-8", "replace")):
            raise LogContentError(f"it has only the changes below {entry.prefix}", self._log)
        if not same_history(place, entry.end):
            raise ChangesLostError(place.zxid, f"log {self._log} has another history")
        if entry.end[:2] <= place[:2]:
            return
        if entry.begin[:2] > place[:2]:
            reason = f"log {self._log} can tell those from {entry.begin.zxid:#x} on"
            raise ChangesLostError(place.zxid, reason, oldest=entry.begin.zxid)
        for change in entry.changes:
            path = change.path.encode()
            if change[:2] > place[:2] and _is_below(path, self._inner_prefix):
                self._held.append(change._replace(path=self._store.zk.operations.outer(path)))
        self._end = entry.end
        if not self._held:
            self._place = entry.end

    async def _before(self, place: Place) -> Position | None:
        """Before the last ledger that begins at the place or earlier; None: before the first."""
        ledgers = (await log_info(self._store, self._log)).ledgers
        low, high = 0, len(ledgers)
        while low < high:
            middle = (low + high) // 2
            if await self._begins_by(place, ledgers[middle].id):
                low = middle + 1
            else:
                high = middle
        return Position(ledgers[low - 1].id, -1) if low else None

    async def _begins_by(self, place: Place, ledger: int) -> bool:
        entries = self._store_entries(Position(ledger, -1))
        try:
            first = await anext(entries)
        except TrimmedError:
            return True
        except StopAsyncIteration:
            return False
        finally:
            entries.close()
        return first.position.ledger == ledger and self._decoded(first).begin[:2] <= place[:2]

    def _store_entries(self, after: Position | None) -> LogEntries:
        return LogEntries(self._store, self._log, self._password, after, is_following=False)

    def _decoded(self, entry: LogEntry) -> ChangesEntry:
        try:
            return decode_entry(entry.payload)
        except InvalidEntryError as error:
            raise LogContentError(f"entry {entry.position} is none of a feed of changes: {error}", self._log) from None


def _is_below(path: bytes, prefix: bytes) -> bool:
    return prefix == b"/" or path == prefix or path.startswith(prefix + b"/")
