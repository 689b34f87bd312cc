"""Stores on asyncio and on threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import zab.client.aio
import zab.client.sync
import zab.ledgers.aio
import zab.ledgers.sync
from tests.ledgers.memory_bookies import memory_bookies_beside
from tests.rigs.in_process import members_here
from zab.ledgers import EntryTooLargeError, LedgerClosedError, NoSuchLedgerError, StoreSettings, WriterSettings

SMALL = StoreSettings(writer=WriterSettings(entry_bytes_max=10))


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hosts():
    with members_here(1) as members, memory_bookies_beside(members.hosts, 3) as found:
        yield found


def test_on_asyncio(hosts: str) -> None:
    async def main() -> None:
        async with zab.client.aio.connect(hosts) as zk, zab.ledgers.aio.open_store(zk, settings=SMALL) as store:
            async with store.create() as ledger:
                assert await asyncio.gather(*(ledger.append(b"%d" % each) for each in range(100))) == list(range(100))
                ticket = ledger.append_nowait(b"100")
                await ledger.flush()
                assert ticket.is_over
                with pytest.raises(EntryTooLargeError):
                    await ledger.append(b"x" * 11)
            with pytest.raises(LedgerClosedError):
                await ledger.append(b"late")
            reader = await store.open(ledger.id)
            assert [entry.payload async for entry in reader.entries()] == [b"%d" % each for each in range(101)]
            assert [each.id async for each in store.ledgers() if each.id == ledger.id] == [ledger.id]
            with pytest.raises(NoSuchLedgerError):
                await store.open(ledger.id + 1000)

    asyncio.run(main())


def test_an_append_on_asyncio_may_be_cancelled(hosts: str) -> None:
    async def main() -> None:
        async with zab.client.aio.connect(hosts) as zk, zab.ledgers.aio.open_store(zk) as store:
            async with store.create() as ledger:
                task = asyncio.create_task(ledger.append(b"a"))
                await asyncio.sleep(0)
                task.cancel()
                assert await ledger.append(b"b") in (0, 1)
            reader = await store.open(ledger.id)
            found = [entry.payload async for entry in reader.entries()]
            assert found in ([b"b"], [b"a", b"b"])

    asyncio.run(main())


def test_on_threads(hosts: str) -> None:
    with zab.client.sync.connect(hosts) as zk, zab.ledgers.sync.open_store(zk, settings=SMALL) as store:
        with store.create() as ledger:
            with ThreadPoolExecutor(8) as threads:
                ids = list(threads.map(lambda each: ledger.append(b"%d" % each), range(100)))
            assert sorted(ids) == list(range(100))
            ticket = ledger.append_nowait(b"100")
            assert ticket.entry == 100
            assert ticket.done() == 100
            with pytest.raises(EntryTooLargeError):
                ledger.append(b"x" * 11)
        with pytest.raises(LedgerClosedError):
            ledger.append(b"late")
        with store.open(ledger.id) as reader:
            found = {entry.id: entry.payload for entry in reader.entries()}
        assert [found[entry] for entry in ids] == [b"%d" % each for each in range(100)]
        assert ledger.id in [each.id for each in store.ledgers()]
        store.delete(ledger.id)
        with pytest.raises(NoSuchLedgerError):
            store.metadata(ledger.id)
