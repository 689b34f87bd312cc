"""Managed ledgers through the client, on bookies in memory: what owners, readers and cursors get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.ledgers.memory_bookies import memory_bookies
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import connect, parse_acl
from zab.ledgers import (
    LedgerError,
    LedgerStore,
    LogClosedError,
    LogDamagedError,
    LogFencedError,
    LogSettings,
    LogTerminatedError,
    NoSuchCursorError,
    NoSuchLogError,
    Position,
    TrimmedError,
    open_store,
)


@pytest.fixture(scope="module")
def ensemble():
    with members_here(1) as members:
        yield members


@asynccontextmanager
async def stored(ensemble, stores: int = 1) -> AsyncIterator[list[LedgerStore]]:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        async with memory_bookies(zk, 3), open_store(zk) as one, open_store(zk) as two:
            yield [one, two][:stores]


async def payloads(entries) -> list[bytes]:
    with trio.fail_after(PATIENCE_SECONDS):
        return [entry.payload async for entry in entries]


async def test_a_log_is_read_as_it_was_appended_across_ledgers_and_owners(ensemble) -> None:
    async with stored(ensemble) as (store,):
        async with store.open_log("orders", create=True) as log:
            first = await log.append(b"a")
            await log.roll()
            second = await log.append(b"b")
            assert first < second
            assert second.ledger > first.ledger
            assert log.last_confirmed == second
        async with store.open_log("orders") as log:
            assert log.epoch == 2
            tickets = [log.append_nowait(b"%d" % number) for number in range(5)]
            await log.flush()
            assert [(await each.done()).entry for each in tickets] == list(range(5))
            assert len(await payloads(log.read())) == 7
        found = await payloads(store.read_log("orders"))
        assert found == [b"a", b"b", b"0", b"1", b"2", b"3", b"4"]
        assert await payloads(store.read_log("orders", first)) == found[1:]
        assert await store.logs() == ("orders",)
        info = await store.log_info("orders")
        assert [each.entries for each in info.ledgers] == [1, 1, 5]
        assert info.open_ledger is None


async def test_the_old_owner_is_told_when_another_one_takes_over(ensemble) -> None:
    async with stored(ensemble, 2) as (one, two):
        old = await one.open_log("orders", create=True)
        await old.append(b"a")
        async with two.open_log("orders") as new:
            with trio.fail_after(PATIENCE_SECONDS):
                assert isinstance(await old.lost(), LogFencedError)
            with pytest.raises(LogFencedError) as told:
                await old.append(b"b")
            assert told.value.definite
            await new.append(b"c")
        await old.close()
        assert await payloads(two.read_log("orders")) == [b"a", b"c"]


async def test_a_reader_follows_the_log_over_a_takeover_to_its_end(ensemble) -> None:
    async with stored(ensemble, 2) as (one, two):
        found: list[bytes] = []

        async def follow() -> None:
            async for entry in one.read_log("orders", follow=True):
                found.append(entry.payload)

        old = await one.open_log("orders", create=True)
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                await old.append(b"a")
                async with two.open_log("orders") as new:
                    await new.append(b"b")
                    await new.roll()
                    last = await new.append(b"c")
                    assert await new.terminate() == last
                    with pytest.raises(LogTerminatedError):
                        await new.append(b"d")
        assert found == [b"a", b"b", b"c"]
        async with two.open_log("orders") as ended:
            with pytest.raises(LogTerminatedError):
                await ended.append(b"d")


async def test_a_cursor_goes_on_after_a_takeover(ensemble) -> None:
    async with stored(ensemble, 2) as (one, two):
        old = await one.open_log("orders", create=True)
        positions = [await old.append(b"%d" % number) for number in range(6)]
        cursor = await old.cursor("billing")
        assert cursor.backlog == 6
        cursor.acknowledge(positions[0])
        cursor.acknowledge(positions[3], positions[4].entry)
        cursor.set_properties({"by": "me"})
        await cursor.flush()
        assert cursor.mark == positions[0]
        assert cursor.backlog == 3
        async with two.open_log("orders") as new:
            assert new.cursors == ("billing",)
            again = await new.cursor("billing")
            assert again.mark == positions[0]
            assert again.properties == {"by": "me"}
            assert await payloads(again.read()) == [b"1", b"2", b"5"]
            await again.mark_delete(positions[5])
            assert again.backlog == 0
            await new.delete_cursor("billing")
            with pytest.raises(NoSuchCursorError):
                await new.delete_cursor("billing")


async def test_a_cursor_of_a_log_that_was_deleted_brings_no_part_of_it_back(ensemble) -> None:
    async with stored(ensemble, 2) as (one, two):
        log = await one.open_log("orders", create=True, settings=LogSettings(watches=False))
        await two.delete_log("orders")
        with pytest.raises(LogFencedError):
            await log.cursor("billing")
        assert await two.logs() == ()
        async with two.open_log("orders", create=True) as again:
            assert again.epoch == 1


async def test_properties_of_a_cursor_that_cannot_be_stored_are_refused(ensemble) -> None:
    async with stored(ensemble) as (store,), store.open_log("orders", create=True) as log:
        cursor = await log.cursor("billing")
        cursor.set_properties({"k": "v" * (16 * 1024 - 1)})
        with pytest.raises(ValueError, match="16385 bytes, at most 16384"):
            cursor.set_properties({"k": "v" * 16 * 1024})
        with pytest.raises(TypeError, match="texts"):
            cursor.set_properties({"k": 5})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="surrogates"):
            cursor.set_properties({"k": "\ud800"})
        await cursor.flush()
        assert len(cursor.properties["k"]) == 16 * 1024 - 1


async def test_a_cursor_that_the_service_keeps_is_not_said_to_be_deleted(ensemble) -> None:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        async with memory_bookies(zk, 3), open_store(zk) as store:
            log = await store.open_log("orders", create=True)
            await log.cursor("billing")
            await zk.set_acl("/logs/orders/cursors", parse_acl("world:anyone:r"))
            with pytest.raises(LedgerError, match="/logs/orders/cursors/billing: NOAUTH"):
                await log.delete_cursor("billing")
            assert await zk.exists("/logs/orders/cursors/billing")


async def test_a_cursor_cannot_be_beyond_the_end(ensemble) -> None:
    async with stored(ensemble) as (store,), store.open_log("orders", create=True) as log:
        position = await log.append(b"a")
        cursor = await log.cursor("billing")
        await cursor.mark_delete(Position(position.ledger, 7))
        cursor.acknowledge(Position(position.ledger + 1, 0))
        assert cursor.mark == Position(position.ledger, -1)
        cursor.acknowledge(position, 100)
        assert cursor.mark == position
        latest = await log.cursor("latest", earliest=False)
        assert latest.backlog == 0


async def test_ledgers_that_all_cursors_have_consumed_are_trimmed(ensemble) -> None:
    async with stored(ensemble) as (store,):
        settings = LogSettings(retention_ms=0)
        async with store.open_log("orders", create=True, settings=settings) as log:
            cursor = await log.cursor("billing")
            first = await log.append(b"a")
            await log.roll()
            second = await log.append(b"b")
            assert (await log.trim()).ledgers == 0
            await cursor.mark_delete(first)
            trimmed = await log.trim()
            assert trimmed.ledgers == 1
            assert trimmed.first == Position(second.ledger, -1)
            assert first.ledger not in [info.id async for info in store.ledgers()]
            with pytest.raises(TrimmedError) as told:
                await payloads(store.read_log("orders", Position(first.ledger, -1)))
            assert told.value.first == trimmed.first
            assert await payloads(log.read()) == [b"b"]


async def test_a_reader_is_told_of_a_ledger_that_was_deleted_without_its_log(ensemble) -> None:
    async with stored(ensemble) as (store,):
        async with store.open_log("orders", create=True) as log:
            first = await log.append(b"a")
            await log.roll()
            await log.append(b"b")
        await store.delete(first.ledger)
        for is_following in (False, True):
            with pytest.raises(LogDamagedError, match=f"ledger {first.ledger} .* read on after {first}"):
                await payloads(store.read_log("orders", follow=is_following))
        assert await payloads(store.read_log("orders", first)) == [b"b"]


async def test_a_log_is_deleted_with_everything_that_it_has(ensemble) -> None:
    async with stored(ensemble) as (store,):
        log = await store.open_log("orders", create=True)
        cursor = await log.cursor("billing")
        await cursor.mark_delete(await log.append(b"a"))
        await log.roll()
        await log.append(b"b")
        await log.delete()
        with pytest.raises(LogClosedError):
            await log.append(b"c")
        assert await store.logs() == ()
        assert [info.metadata.state.name async for info in store.ledgers()] in ([], ["OPEN"])
        for failing in (store.open_log("orders"), store.log_info("orders"), store.delete_log("orders")):
            with pytest.raises(NoSuchLogError):
                await failing


async def test_a_log_is_deleted_by_name(ensemble) -> None:
    async with stored(ensemble) as (store,):
        async with store.open_log("a/b c", create=True) as log:
            await log.append(b"a")
        assert await store.logs() == ("a/b c",)
        await store.delete_log("a/b c")
        assert await store.logs() == ()
        assert [info async for info in store.ledgers()] == []


async def test_an_append_that_is_cancelled_while_it_waits_is_not_in_the_log(ensemble) -> None:
    async with stored(ensemble) as (store,):
        async with store.open_log("orders", create=True) as log:
            await log.append(b"a")
            with trio.CancelScope() as scope:
                scope.cancel()
                await log.append(b"b")
            await log.append(b"c")
        assert (await payloads(store.read_log("orders"))) in ([b"a", b"c"], [b"a", b"b", b"c"])


async def test_a_terminated_log_is_trimmed_by_an_owner_that_comes_later(ensemble) -> None:
    async with stored(ensemble, 2) as (one, two):
        async with one.open_log("orders", create=True) as log:
            await log.append(b"a")
            await log.roll()
            await log.append(b"b")
            await log.terminate()
        async with two.open_log("orders", settings=LogSettings(retention_bytes=1)) as log:
            await log.trim()
            assert len(log.info.ledgers) == 1
            await log.trim()
        assert await payloads(two.read_log("orders")) == [b"b"]
