"""A store of ledgers on trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import trio

from zab.client import Client
from zab.client.nursery import hidden_nursery
from zab.ledgers.on_trio import TrioLoop
from zab.ledgers.settings import StoreSettings, settings_of
from zab.ledgers.store import LedgerStore


@asynccontextmanager
async def open_store(
    zk: Client,
    *,
    settings: StoreSettings | None = None,
    root: str | None = None,
    has_root: bool = True,
    random: Random | None = None,
) -> AsyncIterator[LedgerStore]:
    """The ledgers below a znode, over the session of this client: `async with open_store(zk) as store`.

    `root`: shorthand for that field of `settings`. `has_root` False: the root may be missing, to be formatted. Leaving
    the block closes the ledgers that are still open, without what is not acknowledged, for `close_wait_ms` at most.
    Raises NoSuchRootError, MetadataUnavailableError.
    """
    of = settings_of(settings, root)
    loop = TrioLoop(lambda: int(zk.now() * 1000))
    store = LedgerStore(zk, loop, of, random or Random())
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "zab.ledgers needs trio; zab.ledgers.aio is the same for asyncio, zab.ledgers.sync for threads"
        )
    async with hidden_nursery() as nursery:
        await nursery.start(loop.run, store.driving.turn)
        try:
            await store.begin(has_root=has_root)
            yield store
        finally:
            with trio.move_on_after(of.close_wait_ms / 1000, shield=True):
                await store.end()
            store.close()
            loop.stop()
