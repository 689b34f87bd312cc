"""What bookies take beside load: their memory, a start, and the takeover of a ledger whose writer is gone."""

from __future__ import annotations

import statistics
import time

import trio

from bench.ledgers.cells import ENTRY_BYTES
from bench.ledgers.sides import Side
from bench.process_tree import resident_mib
from tests.rigs.bookie import registered
from tests.rigs.waiting import until
from zab.client import connect
from zab.ledgers import open_store

_OPEN_ENTRIES = 1_000


def memory_mib(side: Side) -> float:
    """The median of the resident memory of the bookies."""
    return statistics.median(resident_mib(bookie.pid) for bookie in side.bookies)


def start_seconds(side: Side, *, is_killed: bool) -> float:
    """From the start of one bookie, ended before as said, until it is registered. One that was killed waits for the end
    of its old session, which is not counted."""
    bookie = side.bookies[0]
    before = registered(side.hosts)
    if is_killed:
        bookie.kill()
    else:
        bookie.stop()
    until(lambda: registered(side.hosts) < before, "the end of the session")
    started = time.monotonic()
    bookie.start()
    until(lambda: registered(side.hosts) == before, "a bookie")
    return time.monotonic() - started


def takeover_seconds(side: Side) -> float:
    """From the call that recovers a ledger of 1,000 entries, whose writer has not closed it, until the first append to
    the next ledger is acknowledged."""

    async def take_over() -> float:
        async with connect(side.hosts) as zk, open_store(zk) as store:
            ledger = await store.create()
            for _ in range(_OPEN_ENTRIES):
                ledger.append_nowait(b"x" * ENTRY_BYTES)
            await ledger.flush()
            began = time.monotonic()
            await store.recover(ledger.id)
            async with store.create() as following:
                await following.append(b"x")
                return time.monotonic() - began

    return trio.run(take_over)
