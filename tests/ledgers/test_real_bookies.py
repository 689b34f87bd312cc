"""The client on real bookies."""

from __future__ import annotations

import pytest

from zab.client import connect
from zab.ledgers import (
    StoreSettings,
    open_store,
)
from zab.testing.bookies import Bookies

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bookies():
    with Bookies(4) as running:
        yield running


@pytest.fixture
def started(bookies: Bookies) -> Bookies:
    """All of them run."""
    bookies.start()
    return bookies


@pytest.mark.parametrize("protocol", ["v2", "v3"])
async def test_what_is_appended_is_read(started: Bookies, protocol: str) -> None:
    wanted = [b"%d" % each * (each % 50) for each in range(500)]
    async with (
        connect(started.ensemble.hosts) as zk,
        open_store(zk, settings=StoreSettings(protocol=protocol)) as store,
    ):
        async with store.create(4, 3, 2, password=b"pw") as ledger:
            for each in wanted:
                ledger.append_nowait(each)
        async with await store.open(ledger.id, b"pw") as reader:
            assert [entry.payload async for entry in reader.entries()] == wanted
            assert [entry.payload async for entry in reader.tail(490)] == wanted[490:]
