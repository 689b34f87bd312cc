"""Closed ledgers of a log go to an object store, through crashes and failures, and are read from there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import evolve, frozen

from tests.ledgers.memory_bookies import MemoryBookies, memory_bookies
from tests.ledgers.memory_objects import MemoryObjects
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS, until_async
from zab.client import connect
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Offload
from zab.ledger.managed.objects import copy_of_name, data_name, index_name
from zab.ledgers import (
    BadPasswordError,
    LedgerStore,
    LogSettings,
    NoSuchLedgerError,
    OffloadDamagedError,
    OffloadError,
    OffloadSettings,
    OffloadUnavailableError,
    Position,
    TrimmedError,
    open_store,
)

URI = "mem://archive"
KEEPS = OffloadSettings(uri=URI, block_bytes=1)
DROPS = OffloadSettings(uri=URI, block_bytes=1, keep_ms=0)
PAYLOADS = [b"a", b"b", b"c", b"d"]


@pytest.fixture(scope="module")
def ensemble():
    with members_here(1) as members:
        yield members


@frozen
class World:
    objects: MemoryObjects
    bookies: MemoryBookies
    one: LedgerStore
    two: LedgerStore

    async def info(self) -> LogInfo:
        return await self.two.log_info("orders")

    async def closed(self) -> list[LedgerInfo]:
        return [each for each in (await self.info()).ledgers if each.entries is not None]

    async def filled(self, **given) -> None:
        """Two closed ledgers of two entries each."""
        async with self.one.open_log("orders", create=True, **given) as log:
            for number, payload in enumerate(PAYLOADS):
                await log.append(payload)
                if number == 1:
                    await log.roll()

    async def offloaded(self, settings: OffloadSettings = KEEPS, store: LedgerStore | None = None, **given) -> int:
        async with (store or self.two).open_log("orders", offload=settings, **given) as log:
            count = await log.offload()
            if settings.keep_ms == 0:
                await log.offload()
        return count

    async def read(self, after: Position | None = None, **given) -> list[bytes]:
        with trio.fail_after(PATIENCE_SECONDS):
            return [entry.payload async for entry in self.two.read_log("orders", after, **given)]

    def copies(self) -> set[tuple[int, str] | None]:
        return {copy_of_name(each.rpartition("/")[2]) for each in self.objects.files}

    async def check_that_all_is_named(self) -> None:
        """The store has the objects of the copies in the list, and no others."""
        named = {(each.id, each.offload.uid) for each in await self.closed() if each.offload is not None}
        assert self.copies() == named
        assert len(self.objects.files) == 2 * len(named)


@asynccontextmanager
async def world(ensemble) -> AsyncIterator[World]:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        objects = MemoryObjects()
        async with memory_bookies(zk, 3) as bookies, open_store(zk) as one, open_store(zk) as two:
            for each in (one, two):
                each.parts.open_objects = objects.open
            with trio.fail_after(PATIENCE_SECONDS):
                yield World(objects, bookies, one, two)


def offload_of(each: LedgerInfo) -> Offload:
    assert each.offload is not None
    return each.offload


async def test_closed_ledgers_are_copied_and_read_from_bookies_first(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        assert await of.offloaded() == 2
        assert [offload_of(each).is_done for each in await of.closed()] == [True, True]
        await of.check_that_all_is_named()
        of.objects.asked.clear()
        assert await of.read() == PAYLOADS
        assert not of.objects.asked
        assert await of.offloaded() == 0


async def test_ledgers_that_bookies_dropped_are_read_from_the_store(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        ledgers = await of.closed()
        assert [each.is_on_bookies for each in ledgers] == [False, False]
        for each in ledgers:
            with pytest.raises(NoSuchLedgerError):
                await of.two.metadata(each.id)
        assert await of.read() == PAYLOADS
        for at in range(4):
            position = Position(ledgers[at // 2].id, at % 2)
            assert await of.read(position) == PAYLOADS[at + 1 :]
        async with of.one.open_log("orders") as log:
            await log.append(b"e")
            cursor = await log.cursor("billing")
            assert [each.payload async for each in cursor.read()] == [*PAYLOADS, b"e"]


async def test_the_open_ledger_is_never_copied(ensemble) -> None:
    async with world(ensemble) as of, of.one.open_log("orders", create=True, offload=DROPS) as log:
        await log.append(b"a")
        assert await log.offload() == 0
        await log.roll()
        await log.append(b"b")
        assert await log.offload() in (0, 1)  # it has begun by itself
        assert [each.offload is not None for each in log.info.ledgers] == [True, False]
        assert [each.payload async for each in log.read()] == [b"a", b"b"]


async def test_a_ledger_stays_on_bookies_for_its_time(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        settings = evolve(KEEPS, keep_ms=50)
        async with of.two.open_log("orders", offload=settings) as log:
            await log.offload()
            await until_async(lambda: [each.is_on_bookies for each in log.info.ledgers] == [False, False, True])
        assert await of.read() == PAYLOADS


async def test_a_reader_that_is_under_way_notices_the_switch(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        entries = of.one.read_log("orders")
        found = [(await anext(entries)).payload]
        await of.offloaded(DROPS)
        for bookie in of.bookies.all.values():
            bookie.ledgers.clear()
        found += [each.payload async for each in entries]
        assert found == PAYLOADS


async def test_what_bookies_lost_is_read_from_the_copy(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded()
        for bookie in of.bookies.all.values():
            bookie.ledgers.clear()
        assert await of.read() == PAYLOADS


@pytest.mark.parametrize("digest", ["HMAC", "CRC32"])
async def test_a_password_is_needed_for_a_copy_too(ensemble, digest) -> None:
    async with world(ensemble) as of:
        await of.filled(password=b"secret")
        await of.offloaded(DROPS, password=b"secret")
        assert await of.read(password=b"secret") == PAYLOADS
        assert await of.read(password=None) == PAYLOADS
        with pytest.raises(BadPasswordError):
            await of.read(password=b"guess")
        assert not any(b"secret" in data for data in of.objects.files.values())


# ------------------------------------------------------------------------------------------- failures and crashes

STEPS = [
    *(("create", "data"), ("write", "data"), ("commit", "data"), ("create", "index"), ("write", "index")),
    *(("commit", "index"), ("size", "index"), ("read", "index"), ("size", "data"), ("read", "data")),
]


def fails_once(of: World, step: str, kind: str) -> None:
    """This step fails the first time."""
    left = [1]

    def before(now: str, name: str) -> None:
        if left and now == step and name.endswith(kind):
            left.clear()
            raise OSError(28, "no space left")

    of.objects.before = before


@pytest.mark.parametrize(("step", "kind"), STEPS)
async def test_a_copy_that_fails_at_any_step_is_made_again_under_another_uid(ensemble, step, kind) -> None:
    async with world(ensemble) as of:
        await of.filled()
        async with of.one.open_log("orders") as log:
            assert log.offload_trouble == ""
        fails_once(of, step, kind)
        async with of.two.open_log("orders", offload=evolve(DROPS, retry_ms=1)) as log:
            with pytest.raises(OffloadError, match="no space left"):
                await log.offload()
            await log.offload()
            await log.offload()
            assert log.offload_trouble == ""
        assert [each.is_on_bookies for each in await of.closed()] == [False, False]
        await of.check_that_all_is_named()
        assert await of.read() == PAYLOADS


@pytest.mark.parametrize(("step", "kind"), STEPS)
async def test_a_crash_at_any_step_leaves_the_log_whole_and_the_next_owner_goes_on(ensemble, step, kind) -> None:
    """The owner hangs at the step for ever, and another one comes. What the first does after that changes nothing."""
    async with world(ensemble) as of:
        await of.filled()
        reached, goes_on = trio.Event(), trio.Event()
        token = trio.lowlevel.current_trio_token()
        is_first = [True]

        def before(now: str, name: str) -> None:
            if is_first and now == step and name.endswith(kind):
                is_first.clear()
                trio.from_thread.run_sync(reached.set, trio_token=token)
                trio.from_thread.run(goes_on.wait, trio_token=token)

        of.objects.before = before
        old = await of.one.open_log("orders", offload=DROPS)
        await reached.wait()
        first = offload_of((await of.closed())[0])
        assert not first.is_done
        assert await of.read() == PAYLOADS
        assert await of.offloaded(DROPS) == 2
        assert offload_of((await of.closed())[0]).uid != first.uid
        assert await of.read() == PAYLOADS
        goes_on.set()
        await old.lost()
        await old.close()
        # The first owner may have written objects after they were swept.
        await of.offloaded(DROPS)
        await of.check_that_all_is_named()
        assert await of.read() == PAYLOADS


@pytest.mark.parametrize("kind", ["data", "index"])
async def test_a_copy_that_is_read_back_damaged_is_not_used(ensemble, kind) -> None:
    async with world(ensemble) as of:
        await of.filled()

        def damage(name: str, data: bytes) -> bytes:
            return data[:-1] + bytes([data[-1] ^ 1]) if name.endswith(kind) else data

        of.objects.damage = damage
        async with of.two.open_log("orders", offload=DROPS) as log:
            with pytest.raises(OffloadError):
                await log.offload()
        assert not offload_of((await of.closed())[0]).is_done
        assert await of.read() == PAYLOADS


@pytest.mark.parametrize("kind", ["data", "index"])
async def test_a_copy_that_is_damaged_or_missing_later_is_told(ensemble, kind) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        first = (await of.closed())[0]
        name = (data_name if kind == "data" else index_name)(first.id, offload_of(first).uid)
        path = f"{offload_of(first).uri}/{name}"
        whole = of.objects.files[path]
        of.objects.files[path] = whole[:-1]
        with pytest.raises(OffloadDamagedError):
            await of.read()
        del of.objects.files[path]
        with pytest.raises(OffloadUnavailableError):
            await of.read()
        of.objects.files[path] = whole
        assert await of.read() == PAYLOADS


# ------------------------------------------------------------------------------------------------- what is removed


async def test_a_trim_removes_the_list_entry_first_and_the_objects_after_it(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        first = (await of.closed())[0]
        entries = of.two.read_log("orders")
        assert (await anext(entries)).payload == b"a"
        listed: list[bool] = []
        token = trio.lowlevel.current_trio_token()

        async def look() -> None:
            listed.append((await of.info()).at(first.id) is not None)

        def before(step: str, _name: str) -> None:
            if step == "remove":
                trio.from_thread.run(look, trio_token=token)

        of.objects.before = before
        async with of.one.open_log("orders", settings=LogSettings(retention_bytes=2)) as log:
            await log.append(b"e")
            await log.trim()
        assert listed == [False] * len(listed)
        assert listed
        assert first.id not in {each[0] for each in of.copies() if each}
        await of.check_that_all_is_named()
        with pytest.raises(TrimmedError):
            async for _ in entries:
                pass


async def test_a_deleted_log_leaves_no_objects(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        assert of.objects.files
        await of.one.delete_log("orders")
        assert not of.objects.files


async def test_what_a_crash_left_is_swept_and_nothing_else(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        kept = dict(of.objects.files)
        uri = offload_of((await of.closed())[0]).uri
        leftovers = [data_name(7, "old"), index_name(7, "old"), data_name(8, "old") + ".tmp"]
        others = ["README", "7-old.parquet"]
        of.objects.files |= {f"{uri}/{name}": b"" for name in (*leftovers, *others)}
        of.objects.files["mem://archive/other/7-old.data"] = b""
        await of.offloaded(DROPS)
        assert of.objects.files.keys() == {
            *kept,
            *(f"{uri}/{name}" for name in others),
            "mem://archive/other/7-old.data",
        }


async def test_objects_that_cannot_be_removed_are_told_and_swept_later(ensemble) -> None:
    async with world(ensemble) as of:
        await of.filled()
        await of.offloaded(DROPS)
        fails_once(of, "remove", "")
        async with of.one.open_log("orders", settings=LogSettings(retention_bytes=2)) as log:
            await log.append(b"e")
            await log.trim()
            assert "no space left" in log.offload_trouble
        await of.offloaded(DROPS)
        await of.check_that_all_is_named()


async def test_a_log_without_an_object_store_says_so(ensemble) -> None:
    async with world(ensemble) as of, of.one.open_log("orders", create=True) as log:
        with pytest.raises(OffloadError, match="no object store"):
            await log.offload()


async def test_a_terminated_log_is_offloaded_to_its_end(ensemble) -> None:
    async with world(ensemble) as of:
        async with of.one.open_log("orders", create=True) as log:
            await log.append(b"a")
            await log.terminate()
        assert await of.offloaded(DROPS) == 1
        assert await of.read() == [b"a"]
