"""A store of ledgers for threads that block: `with zab.ledgers.sync.open_store(zk) as store`, with a client of
`zab.client.sync`.

    with store.create() as ledger:
        ledger.append(b"…")
    with store.open(ledger.id) as reader:
        for entry in reader.entries(): …
    with store.open_log("orders", create=True) as log:
        log.append(b"…")

The names, arguments, results and errors are those of `zab.ledgers`, but nothing is awaited. A store may be used by any
number of threads at once. Exceptions and types are in `zab.ledgers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

import zab.ledgers.log_reading as awaited_log_reading
import zab.ledgers.logged_changes as awaited_changes
import zab.ledgers.logs as awaited_logs
import zab.ledgers.reading as awaited_reading
import zab.ledgers.store as awaited_store
import zab.ledgers.writing as awaited_writing
from zab.client import Change, Place
from zab.client.sync import Client
from zab.client.sync.blocking import Blocking, Entered, Iterated, blocking, immediate, iterator
from zab.ledger.entries.envelope import Entry
from zab.ledger.managed.events import OwnerState
from zab.ledger.managed.log_info import LogInfo, Position
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.store.bookies import RegisteredBookies
from zab.ledger.writer.events import WriterState
from zab.ledgers.log_reading import LogEntry
from zab.ledgers.on_threads import ThreadLoop
from zab.ledgers.settings import StoreSettings, settings_of

__all__ = [
    "Entries",
    "LedgerReader",
    "LedgerStore",
    "LedgerWriter",
    "LogCursor",
    "LogEntries",
    "LogTicket",
    "LoggedChanges",
    "ManagedLog",
    "Ticket",
    "open_store",
]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@contextmanager
def open_store(
    zk: Client,
    *,
    settings: StoreSettings | None = None,
    root: str | None = None,
    has_root: bool = True,
    random: Random | None = None,
) -> Iterator[LedgerStore]:
    """The ledgers below a znode, over the session of this client: see `zab.ledgers.open_store`. Its end also waits for
    copies to object stores that are under way, for `close_wait_ms` at most."""
    of = settings_of(settings, root)
    loop = ThreadLoop(zk)
    store = awaited_store.LedgerStore(zk.waiting, loop, of, random or Random())
    loop.begin(store.driving.turn)
    try:
        zk.run(store.begin(has_root=has_root))
        yield LedgerStore(zk, store)
    finally:
        try:
            zk.run(_end(store, loop, of.close_wait_ms / 1000))
        finally:
            loop.end()


async def _end(store: awaited_store.LedgerStore, loop: ThreadLoop, seconds: float) -> None:
    try:
        async with store.zk.move_on_after(seconds):
            await store.end()
            await loop.settled()
    finally:
        store.close()


def _opened(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """A method whose result may be entered, or awaited, which is what a thread does at once."""

    @wraps(method)
    async def opened(self: S, /, *given: P.args, **options: P.kwargs) -> T:
        return await method(self, *given, **options)

    return opened


class Ticket(Blocking[awaited_writing.Ticket]):
    """An append under way."""

    def __repr__(self) -> str:
        return repr(self.waiting)

    @property
    def entry(self) -> int | None:
        """Its id, if it has one."""
        return self.waiting.entry

    @property
    def is_over(self) -> bool:
        """Whether `done` returns or raises at once."""
        return self.waiting.is_over

    @property
    def is_refused(self) -> bool:
        """Whether it is certain that it is not in the ledger."""
        return self.waiting.is_refused

    done = blocking(awaited_writing.Ticket.done)
    result = immediate(awaited_writing.Ticket.result)


class LedgerWriter(Entered[awaited_writing.LedgerWriter]):
    """The one writer of a new ledger. Threads may share it."""

    def __repr__(self) -> str:
        return repr(self.waiting)

    @property
    def id(self) -> int:
        """The id of the ledger."""
        return self.waiting.id

    @property
    def metadata(self) -> LedgerMetadata:
        """As this writer knows them."""
        return self.waiting.metadata

    @property
    def last_confirmed(self) -> int:
        """The last entry that was acknowledged, -1: none."""
        return self.waiting.last_confirmed

    @property
    def last_pushed(self) -> int:
        """The last entry that has an id, -1: none."""
        return self.waiting.last_pushed

    @property
    def length(self) -> int:
        """The bytes of all entries that have an id."""
        return self.waiting.length

    @property
    def state(self) -> WriterState:
        return self.waiting.state

    append = blocking(awaited_writing.LedgerWriter.append)
    append_nowait = immediate(awaited_writing.LedgerWriter.append_nowait, Ticket)
    flush = blocking(awaited_writing.LedgerWriter.flush)
    close = blocking(awaited_writing.LedgerWriter.close)
    resolve = blocking(awaited_writing.LedgerWriter.resolve)
    seal = immediate(awaited_writing.LedgerWriter.seal)


class Entries(Iterated[Entry]):
    """`for entry in …`: entries in order, for one thread at a time."""

    waiting: awaited_reading.Entries

    close = immediate(awaited_reading.Entries.close)


class LedgerReader(Entered[awaited_reading.LedgerReader]):
    """Reads one ledger. Threads may share it."""

    def __repr__(self) -> str:
        return repr(self.waiting)

    @property
    def id(self) -> int:
        """The id of the ledger."""
        return self.waiting.id

    @property
    def metadata(self) -> LedgerMetadata:
        """The newest that were seen."""
        return self.waiting.metadata

    @property
    def last_confirmed(self) -> int:
        """The last entry that this reader knows to be confirmed, -1: none."""
        return self.waiting.last_confirmed

    @property
    def mismatches(self) -> int:
        """How many copies of entries were damaged."""
        return self.waiting.mismatches

    entries = immediate(awaited_reading.LedgerReader.entries, Entries)
    tail = immediate(awaited_reading.LedgerReader.tail, Entries)
    read = blocking(awaited_reading.LedgerReader.read)
    read_last_confirmed = blocking(awaited_reading.LedgerReader.read_last_confirmed)
    close = immediate(awaited_reading.LedgerReader.close)


class LogTicket(Blocking[awaited_logs.LogTicket]):
    """An append to a log under way."""

    @property
    def is_over(self) -> bool:
        """Whether `done` returns or raises at once."""
        return self.waiting.is_over

    done = blocking(awaited_logs.LogTicket.done)


class LogEntries(Iterated[LogEntry]):
    """`for entry in …`: entries of a log in order, for one thread at a time; see `zab.ledgers.LogEntries`."""

    waiting: awaited_log_reading.LogEntries

    @property
    def position(self) -> Position | None:
        """The entry that was read last; None: none yet."""
        return self.waiting.position

    close = immediate(awaited_log_reading.LogEntries.close)


class LogCursor(Blocking[awaited_logs.LogCursor]):
    """A durable place in a log: what was consumed, in any order. It belongs to the log's owner."""

    __repr__ = immediate(awaited_logs.LogCursor.__repr__)

    @property
    def name(self) -> str:
        return self.waiting.name

    @property
    def mark(self) -> Position:
        """Everything up to it is consumed."""
        with self._runner.alone():
            return self.waiting.mark

    @property
    def backlog(self) -> int:
        """How many entries are not consumed."""
        with self._runner.alone():
            return self.waiting.backlog

    @property
    def properties(self) -> Mapping[str, str]:
        with self._runner.alone():
            return self.waiting.properties

    set_properties = immediate(awaited_logs.LogCursor.set_properties)
    is_acknowledged = immediate(awaited_logs.LogCursor.is_acknowledged)
    acknowledge = immediate(awaited_logs.LogCursor.acknowledge)
    mark_delete = blocking(awaited_logs.LogCursor.mark_delete)
    flush = blocking(awaited_logs.LogCursor.flush)
    read = immediate(awaited_logs.LogCursor.read, LogEntries)


class ManagedLog(Entered[awaited_logs.ManagedLog]):
    """A log that this process owns, made by `LedgerStore.open_log`. Threads may share it; leaving the block closes it,
    see `zab.ledgers.ManagedLog`."""

    __repr__ = immediate(awaited_logs.ManagedLog.__repr__)

    @property
    def name(self) -> str:
        return self.waiting.name

    @property
    def state(self) -> OwnerState:
        return self.waiting.state

    @property
    def epoch(self) -> int:
        """Counts the owners of the log; this one's number."""
        return self.waiting.epoch

    @property
    def info(self) -> LogInfo:
        """The list of its ledgers, as this owner knows it."""
        return self.waiting.info

    @property
    def last_confirmed(self) -> Position:
        """The last entry that was acknowledged, by this owner or one before; before everything if there is none."""
        with self._runner.alone():
            return self.waiting.last_confirmed

    @property
    def cursors(self) -> tuple[str, ...]:
        """The names of all cursors."""
        with self._runner.alone():
            return self.waiting.cursors

    @property
    def offload_trouble(self) -> str:
        """Why the last copy failed, or the last objects could not be removed; empty if nothing is wrong."""
        return self.waiting.offload_trouble

    append = blocking(awaited_logs.ManagedLog.append)
    append_nowait = immediate(awaited_logs.ManagedLog.append_nowait, LogTicket)
    flush = blocking(awaited_logs.ManagedLog.flush)
    roll = blocking(awaited_logs.ManagedLog.roll)
    trim = blocking(awaited_logs.ManagedLog.trim)
    offload = blocking(awaited_logs.ManagedLog.offload)
    terminate = blocking(awaited_logs.ManagedLog.terminate)
    delete = blocking(awaited_logs.ManagedLog.delete)
    close = blocking(awaited_logs.ManagedLog.close)
    seal = immediate(awaited_logs.ManagedLog.seal)
    lost = blocking(awaited_logs.ManagedLog.lost)
    cursor = blocking(awaited_logs.ManagedLog.cursor, LogCursor)
    delete_cursor = blocking(awaited_logs.ManagedLog.delete_cursor)
    read = immediate(awaited_logs.ManagedLog.read, LogEntries)


class LoggedChanges(Iterated[Change]):
    """`for change in …`: the feed of changes, for one thread at a time; see `zab.ledgers.LoggedChanges`."""

    waiting: awaited_changes.LoggedChanges

    @property
    def place(self) -> Place | None:
        """After the last change returned. None until the start of a `since` of None is known."""
        with self._runner.alone():
            return self.waiting.place

    @property
    def is_in_log(self) -> bool:
        """Whether the last change came from the log."""
        return self.waiting.is_in_log

    receive = blocking(awaited_changes.LoggedChanges.receive)
    close = immediate(awaited_changes.LoggedChanges.close)


class LedgerStore(Blocking[awaited_store.LedgerStore]):
    """Made by `open_store`."""

    create = blocking(_opened(awaited_store.LedgerStore.create), LedgerWriter)
    open = blocking(awaited_store.LedgerStore.open, LedgerReader)
    open_no_recovery = blocking(awaited_store.LedgerStore.open_no_recovery, LedgerReader)
    recover = blocking(awaited_store.LedgerStore.recover)
    metadata = blocking(awaited_store.LedgerStore.metadata)
    delete = blocking(awaited_store.LedgerStore.delete)
    ledgers = iterator(awaited_store.LedgerStore.ledgers)
    format = blocking(awaited_store.LedgerStore.format)
    ask = blocking(awaited_store.LedgerStore.ask)

    open_log = blocking(_opened(awaited_store.LedgerStore.open_log), ManagedLog)
    delete_log = blocking(awaited_store.LedgerStore.delete_log)
    read_log = immediate(awaited_store.LedgerStore.read_log, LogEntries)
    changes = immediate(awaited_store.LedgerStore.changes, LoggedChanges)
    log_info = blocking(awaited_store.LedgerStore.log_info)
    logs = blocking(awaited_store.LedgerStore.logs)

    @property
    def bookies(self) -> RegisteredBookies:
        """The bookies that are registered now."""
        return self.waiting.bookies
