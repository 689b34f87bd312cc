"""The client on real bookies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.rigs.waiting import PATIENCE_SECONDS, until_async
from zab.client import connect
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest
from zab.ledger.wire.messages import AddEntry, ReadEntry
from zab.ledger.wire.status import Status
from zab.ledgers import (
    AppendUnknownError,
    BadPasswordError,
    DigestError,
    LedgerFencedError,
    LedgerState,
    LedgerStore,
    NoSuchLedgerError,
    OffloadSettings,
    SealedError,
    StoreSettings,
    WriterSettings,
    open_store,
)
from zab.ledgers.tools import check_ledger, replicas_of
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


@asynccontextmanager
async def stored(bookies: Bookies, **settings) -> AsyncIterator[LedgerStore]:
    async with connect(bookies.ensemble.hosts) as zk, open_store(zk, settings=StoreSettings(**settings)) as store:
        yield store


def number_of(bookies: Bookies, bookie: str) -> int:
    [number] = [number for number, each in bookies.members.items() if bookie in (each.address, f"b{number}")]
    return number


def files_in(directory: Path) -> list[Path]:
    return [each for each in directory.rglob("*") if each.is_file()]


async def payloads(reader) -> list[bytes]:
    return [entry.payload async for entry in reader.entries()]


@pytest.mark.parametrize("protocol", ["v2", "v3"])
async def test_what_is_appended_is_read(started: Bookies, protocol: str) -> None:
    wanted = [b"%d" % each * (each % 50) for each in range(500)]
    async with stored(started, protocol=protocol) as store:
        async with store.create(4, 3, 2, password=b"pw") as ledger:
            for each in wanted:
                ledger.append_nowait(each)
        async with await store.open(ledger.id, b"pw") as reader:
            assert await payloads(reader) == wanted
            assert [entry.payload async for entry in reader.tail(490)] == wanted[490:]


async def test_a_bookie_is_killed_under_load(started: Bookies) -> None:
    """Its place is taken; every entry that was acknowledged is read, also when the bookie is back."""
    acknowledged = []
    async with stored(started) as store:
        async with store.create() as ledger, trio.open_nursery() as nursery:

            async def append(task: int) -> None:
                while len(ledger.metadata.fragments) == 1:
                    payload = b"%d %d" % (task, len(acknowledged))
                    acknowledged.append((await ledger.append(payload), payload))

            for task in range(20):
                nursery.start_soon(append, task)
            await until_async(lambda: len(acknowledged) > 200)
            victim = ledger.metadata.last_fragment.ensemble[0]
            await trio.to_thread.run_sync(started.kill, number_of(started, victim))
            await until_async(lambda: len(ledger.metadata.fragments) > 1)
        for _ in range(2):
            found = await payloads(await store.open(ledger.id))
            assert [found[entry] for entry, _ in acknowledged] == [payload for _, payload in acknowledged]
            await trio.to_thread.run_sync(started.start)
        assert (await check_ledger(store, ledger.id, await store.metadata(ledger.id))).lost == 0


async def test_a_second_client_recovers_and_fences_the_first(started: Bookies) -> None:
    async with stored(started) as store, stored(started) as theirs:
        ledger = await store.create()
        ids = [await ledger.append(b"%d" % each) for each in range(50)]
        tickets = [ledger.append_nowait(b"late") for _ in range(20)]
        metadata = await theirs.recover(ledger.id)
        assert metadata.last >= ids[-1]
        outcomes = {}
        for ticket in tickets:
            try:
                outcomes[await ticket.done()] = True
            except LedgerFencedError as error:
                resolved = await error.resolve()
                assert resolved.last == metadata.last
                outcomes[ticket.entry] = ticket.entry in resolved.written
        assert outcomes == {entry: entry <= metadata.last for entry in outcomes}
        with pytest.raises(LedgerFencedError):
            await ledger.append(b"more")
        found = await payloads(await theirs.open(ledger.id))
        assert found[:50] == [b"%d" % each for each in range(50)]
        assert set(found[50:]) <= {b"late"}
        assert len(found) == metadata.last + 1


async def test_what_was_definitely_not_appended_is_never_read(started: Bookies) -> None:
    """Two bookies of four are gone, so nobody takes their places: the ledger is sealed. When they are back, no other
    entries are in it."""
    async with stored(started, writer=WriterSettings(reconnect_ms=50)) as store:
        ledger = await store.create(4, 4, 3)
        assert await ledger.append(b"first") == 0
        lost = [number_of(started, each) for each in ledger.metadata.last_fragment.ensemble[:2]]
        await trio.to_thread.run_sync(started.kill, *lost)
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(SealedError) as caught:
            await ledger.append(b"never")
        assert caught.value.definite
        await trio.to_thread.run_sync(started.start)
        assert await payloads(await store.open(ledger.id)) == [b"first"]


async def test_a_bookie_that_stands_still_is_replaced(started: Bookies) -> None:
    async with stored(started, writer=WriterSettings(add_timeout_ms=300)) as store:
        async with store.create(3, 3, 3) as ledger:
            await ledger.append(b"a")
            still = ledger.metadata.last_fragment.ensemble[0]
            await trio.to_thread.run_sync(started.pause, number_of(started, still))
            try:
                assert await ledger.append(b"b") == 1
            finally:
                await trio.to_thread.run_sync(started.resume, number_of(started, still))
            assert still not in ledger.metadata.last_fragment.ensemble
        assert await payloads(await store.open(ledger.id)) == [b"a", b"b"]


async def test_a_ledger_is_deleted_under_its_reader(started: Bookies) -> None:
    """The reader goes on as long as bookies have the entries, or learns that the ledger is gone."""
    async with stored(started) as store:
        async with store.create() as ledger:
            for each in range(300):
                ledger.append_nowait(b"%d" % each * 100)
        reader = await store.open(ledger.id)
        entries = reader.entries()
        assert (await anext(entries)).payload == b"0" * 100
        await store.delete(ledger.id)
        found = 1
        try:
            async for entry in entries:
                assert entry.payload == b"%d" % found * 100
                found += 1
        except NoSuchLedgerError:
            assert found < 300
        else:
            assert found == 300
        with pytest.raises(NoSuchLedgerError):
            await store.open(ledger.id)


async def test_bookies_that_know_another_password(started: Bookies) -> None:
    """Somebody has used this id with another key: the writer ends, and does not know."""
    other = Digest(DigestType.CRC32C, b"other").master_key
    async with stored(started) as store:
        ledger = await store.create(3, 3, 3)
        for bookie in ledger.metadata.last_fragment.ensemble:
            await store.ask(bookie, ReadEntry(ledger.id, 0, key=other, is_fencing=True))
        with pytest.raises((AppendUnknownError, LedgerFencedError)) as caught:
            await ledger.append(b"a")
        assert not caught.value.definite
        with pytest.raises(BadPasswordError):
            await store.open(ledger.id, b"wrong")


@pytest.mark.parametrize("copies", [1, 3])
async def test_digests_that_do_not_match(started: Bookies, copies: int) -> None:
    """One damaged copy is passed over, three are an error that names the bookies."""
    async with stored(started) as store:
        async with store.create(3, 3, 3) as ledger:
            await ledger.append(b"payload")
        key = Digest(DigestType.CRC32C, b"").master_key
        bookies = ledger.metadata.last_fragment.ensemble
        envelope = (await store.ask(bookies[0], ReadEntry(ledger.id, 0))).envelope
        for bookie in bookies[:copies]:
            damaged = AddEntry(ledger.id, 0, key, envelope[:-1] + b"X", is_recovery=True)
            assert (await store.ask(bookie, damaged)).status is Status.OK
        reader = await store.open(ledger.id)
        if copies == 1:
            assert (await reader.read(0)).payload == b"payload"
        else:
            with pytest.raises(DigestError) as caught:
                await reader.read(0)
            assert caught.value.bookies == frozenset(bookies)


async def test_appends_are_cancelled(started: Bookies) -> None:
    """Whatever is cancelled when: what was acknowledged is read, in the order of the calls."""
    acknowledged = {}
    async with stored(started) as store:
        async with store.create() as ledger:
            for number in range(100):
                with trio.move_on_after(0.0005 * (number % 4)):
                    acknowledged[await ledger.append(b"%d" % number)] = b"%d" % number
            await ledger.flush()
        found = await payloads(await store.open(ledger.id))
        assert {entry: found[entry] for entry in acknowledged} == acknowledged
        assert sorted(found, key=int) == found


async def test_a_tail_of_another_client(started: Bookies) -> None:
    found = []
    async with stored(started, writer=WriterSettings(explicit_lac_ms=20)) as store, stored(started) as theirs:
        async with store.create() as ledger, trio.open_nursery() as nursery:

            async def follow() -> None:
                async with await theirs.open_no_recovery(ledger.id) as reader:
                    async for entry in reader.tail():
                        found.append(entry.payload)

            nursery.start_soon(follow)
            for each in range(20):
                await ledger.append(b"%d" % each)
                await until_async(lambda each=each: len(found) > each)
            await ledger.close()
        assert found == [b"%d" % each for each in range(20)]


async def test_what_bookies_say_of_a_ledger(started: Bookies) -> None:
    async with stored(started) as store:
        async with store.create(4, 2, 2) as ledger:
            for each in range(40):
                ledger.append_nowait(b"%d" % each)
        metadata = await store.metadata(ledger.id)
        assert metadata.state is LedgerState.CLOSED
        replicas = await replicas_of(store, ledger.id, metadata)
        assert [each.count for each in replicas] == [20] * 4
        assert (await check_ledger(store, ledger.id, metadata)).is_whole
        assert (await check_ledger(store, ledger.id, metadata, sample=5)).checked == 10
        await trio.to_thread.run_sync(started.kill, 1)
        assert len((await check_ledger(store, ledger.id, metadata)).silent) == 1


async def test_closed_ledgers_of_a_log_move_to_a_directory(started: Bookies, tmp_path: Path) -> None:
    wanted = [b"%d" % each * (each % 50) for each in range(300)]
    archive = OffloadSettings(uri=str(tmp_path / "archive"), keep_ms=0, block_bytes=1000)
    async with stored(started) as store:
        async with store.open_log("moved", create=True, offload=archive) as log:
            for number, each in enumerate(wanted):
                log.append_nowait(each)
                if number % 100 == 99:
                    await log.flush()
                    await log.roll()
            await until_async(lambda: sum(not each.is_on_bookies for each in log.info.ledgers) == 3)
            assert log.offload_trouble == ""
        for each in (await store.log_info("moved")).ledgers[:3]:
            with pytest.raises(NoSuchLedgerError):
                await store.metadata(each.id)
        assert [each.payload async for each in store.read_log("moved")] == wanted
        assert len(files_in(tmp_path)) == 6
        await store.delete_log("moved")
        assert not files_in(tmp_path)
