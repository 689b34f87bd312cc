"""The client on bookies in memory: what callers get and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.ledgers.memory_bookies import MemoryBookies, memory_bookies
from tests.rigs.in_process import members_here
from zab.client import connect
from zab.ledgers import LedgerStore, StoreSettings, open_store


@pytest.fixture(scope="module")
def ensemble():
    with members_here(1) as members:
        yield members


@asynccontextmanager
async def stored(ensemble, count: int = 3, **settings) -> AsyncIterator[tuple[LedgerStore, MemoryBookies]]:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        async with memory_bookies(zk, count) as bookies, open_store(zk, settings=StoreSettings(**settings)) as store:
            yield store, bookies


async def test_entries_are_read_as_they_were_appended(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        async with store.create() as ledger:
            assert await ledger.append(b"a") == 0
            ticket = ledger.append_nowait(b"b")
            assert ticket.entry == 1
            assert await ticket.done() == 1
        reader = await store.open(ledger.id)
        assert [(entry.id, entry.payload) async for entry in reader.entries()] == [(0, b"a"), (1, b"b")]
