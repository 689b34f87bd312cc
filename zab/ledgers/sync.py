"""A store of ledgers for threads that block: `with zab.ledgers.sync.open_store(zk) as store`, with a client of
`zab.client.sync`.

    with store.create() as ledger:
        ledger.append(b"…")
    with store.open(ledger.id) as reader:
        for entry in reader.entries(): …

The names, arguments, results and errors are those of `zab.ledgers`, but nothing is awaited. A store may be used by any
number of threads at once. Exceptions and types are in `zab.ledgers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import zab.ledgers.reading as awaited_reading
import zab.ledgers.store as awaited_store
import zab.ledgers.writing as awaited_writing
from zab.client.sync import Client
from zab.client.sync.blocking import Blocking, Entered, Iterated, blocking, immediate, iterator
from zab.ledger.entries.envelope import Entry
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.store.bookies import RegisteredBookies
from zab.ledgers.on_threads import ThreadLoop
from zab.ledgers.settings import StoreSettings, settings_of

__all__ = ["Entries", "LedgerReader", "LedgerStore", "LedgerWriter", "Ticket", "open_store"]


@contextmanager
def open_store(
    zk: Client,
    *,
    settings: StoreSettings | None = None,
    root: str | None = None,
    has_root: bool = True,
    random: Random | None = None,
) -> Iterator[LedgerStore]:
    """The ledgers below a znode, over the session of this client: see `zab.ledgers.open_store`."""
    of = settings_of(settings, root)
    waiting = zk.waiting
    loop = ThreadLoop(lambda: int(waiting.now() * 1000), zk.alone)
    store = awaited_store.LedgerStore(waiting, loop, of, random or Random())
    loop.begin(store.driving.turn)
    try:
        zk.run(store.begin(has_root=has_root))
        yield LedgerStore(zk, store)
    finally:
        try:
            zk.run(_end(store, of.close_wait_ms / 1000))
        finally:
            loop.end()


async def _end(store: awaited_store.LedgerStore, seconds: float) -> None:
    try:
        async with store.zk.move_on_after(seconds):
            await store.end()
    finally:
        store.close()


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

    done = blocking(awaited_writing.Ticket.done)


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
    def length(self) -> int:
        """The bytes of all entries that have an id."""
        return self.waiting.length

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

    entries = immediate(awaited_reading.LedgerReader.entries, Entries)
    tail = immediate(awaited_reading.LedgerReader.tail, Entries)
    read = blocking(awaited_reading.LedgerReader.read)
    read_last_confirmed = blocking(awaited_reading.LedgerReader.read_last_confirmed)
    close = immediate(awaited_reading.LedgerReader.close)


class LedgerStore(Blocking[awaited_store.LedgerStore]):
    """Made by `open_store`."""

    create = blocking(awaited_store.LedgerStore.new_ledger, LedgerWriter)
    open = blocking(awaited_store.LedgerStore.open, LedgerReader)
    open_no_recovery = blocking(awaited_store.LedgerStore.open_no_recovery, LedgerReader)
    recover = blocking(awaited_store.LedgerStore.recover)
    metadata = blocking(awaited_store.LedgerStore.metadata)
    delete = blocking(awaited_store.LedgerStore.delete)
    ledgers = iterator(awaited_store.LedgerStore.ledgers)
    format = blocking(awaited_store.LedgerStore.format)
    ask = blocking(awaited_store.LedgerStore.ask)

    @property
    def bookies(self) -> RegisteredBookies:
        """The bookies that are registered now."""
        return self.waiting.bookies
