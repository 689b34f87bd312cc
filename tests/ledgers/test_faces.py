"""Stores on asyncio and on threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import zab.client.aio
import zab.client.sync
import zab.ledgers
import zab.ledgers.aio
import zab.ledgers.sync
from tests.ledgers.memory_bookies import memory_bookies_beside
from tests.ledgers.memory_objects import MemoryObjects
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.ledgers import (
    EntryTooLargeError,
    LedgerClosedError,
    LogFencedError,
    LogTerminatedError,
    NoSuchCursorError,
    NoSuchLedgerError,
    NoSuchLogError,
    OffloadError,
    OffloadSettings,
    Position,
    StoreSettings,
    WriterSettings,
)

SMALL = StoreSettings(writer=WriterSettings(entry_bytes_max=10))
DROPS = OffloadSettings(uri="mem://archive", block_bytes=1, keep_ms=0)


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


# --------------------------------------------------------------------------------------------------- logs on threads


@contextmanager
def stores(hosts: str, count: int = 1) -> Iterator[list[Any]]:
    with zab.client.sync.connect(hosts) as zk, zab.ledgers.sync.open_store(zk) as one:
        if count == 1:
            yield [one]
            return
        with zab.client.sync.connect(hosts) as other, zab.ledgers.sync.open_store(other) as two:
            yield [one, two]


def payloads(entries: Any) -> list[bytes]:
    return [entry.payload for entry in entries]


def test_a_log_on_threads_is_appended_rolled_trimmed_and_read(hosts: str) -> None:
    with stores(hosts) as (store,):
        with pytest.raises(NoSuchLogError):
            store.open_log("rolled")
        with store.open_log("rolled", create=True) as log:
            with ThreadPoolExecutor(8) as threads:
                positions = sorted(threads.map(lambda each: log.append(b"%d" % each), range(50)))
            assert [each.entry for each in positions] == list(range(50))
            log.roll()
            ticket = log.append_nowait(b"last")
            log.flush()
            assert ticket.is_over
            assert ticket.done() == log.last_confirmed > positions[-1]
            entries = log.read(positions[-1])
            assert payloads(entries) == [b"last"]
            assert entries.position == ticket.done()
            assert log.trim().ledgers == 0
        assert sorted(payloads(store.read_log("rolled"))) == sorted([b"%d" % each for each in range(50)] + [b"last"])
        assert [each.entries for each in store.log_info("rolled").ledgers] == [50, 1]
        assert "rolled" in store.logs()
        store.delete_log("rolled")
        assert "rolled" not in store.logs()


def test_a_thread_that_waits_for_the_loss_of_its_log_is_told_of_a_takeover(hosts: str) -> None:
    with stores(hosts, 2) as (one, two):
        old = one.open_log("taken", create=True)
        old.append(b"a")
        with ThreadPoolExecutor(1) as threads:
            lost = threads.submit(old.lost)
            with two.open_log("taken") as new:
                assert isinstance(lost.result(PATIENCE_SECONDS), LogFencedError)
                with pytest.raises(LogFencedError) as told:
                    old.append(b"b")
                assert told.value.definite
                new.append(b"c")
                assert (old.epoch, new.epoch) == (1, 2)
        old.close()
        assert payloads(two.read_log("taken")) == [b"a", b"c"]


def test_a_thread_follows_a_log_over_a_takeover_to_its_end(hosts: str) -> None:
    with stores(hosts, 2) as (one, two), ThreadPoolExecutor(1) as threads:
        old = one.open_log("followed", create=True)
        found = threads.submit(lambda: payloads(one.read_log("followed", follow=True)))
        old.append(b"a")
        with two.open_log("followed") as new:
            new.append(b"b")
            new.roll()
            last = new.append(b"c")
            assert new.terminate() == last
            with pytest.raises(LogTerminatedError):
                new.append(b"d")
        assert found.result(PATIENCE_SECONDS) == [b"a", b"b", b"c"]


def test_a_cursor_on_threads_goes_on_after_a_takeover(hosts: str) -> None:
    with stores(hosts, 2) as (one, two):
        old = one.open_log("consumed", create=True)
        positions = [old.append(b"%d" % each) for each in range(6)]
        cursor = old.cursor("billing")
        cursor.acknowledge(positions[0])
        cursor.acknowledge(positions[3], positions[4].entry)
        assert cursor.is_acknowledged(positions[4])
        cursor.set_properties({"by": "me"})
        cursor.flush()
        assert (cursor.mark, cursor.backlog) == (positions[0], 3)
        with two.open_log("consumed") as new:
            assert new.cursors == ("billing",)
            again = new.cursor("billing")
            assert again.properties == {"by": "me"}
            assert payloads(again.read()) == [b"1", b"2", b"5"]
            again.mark_delete(positions[5])
            assert again.backlog == 0
            new.delete_cursor("billing")
            with pytest.raises(NoSuchCursorError):
                new.delete_cursor("billing")


def test_an_exception_in_the_block_of_a_log_on_threads_closes_it(hosts: str) -> None:
    def fails(log: Any) -> None:
        with log:
            log.append(b"a")
            raise ZeroDivisionError

    with stores(hosts) as (store,):
        with pytest.raises(ZeroDivisionError):
            fails(store.open_log("failed", create=True))
        assert store.log_info("failed").open_ledger is None


def test_the_end_of_a_store_on_threads_closes_its_logs(hosts: str) -> None:
    with stores(hosts) as (store,):
        store.open_log("left", create=True).append(b"a")
    with stores(hosts) as (store,):
        assert store.log_info("left").open_ledger is None


def test_ledgers_go_to_an_object_store_from_threads_and_come_back(hosts: str) -> None:
    objects = MemoryObjects()
    with stores(hosts) as (store,):
        store.waiting.parts.open_objects = objects.open
        with store.open_log("archived", create=True) as log:
            positions = [log.append(b"%d" % each) for each in range(3)]
        with store.open_log("archived", offload=DROPS) as log:
            assert log.offload() == 1
            log.offload()
            assert [each.is_on_bookies for each in log.info.ledgers] == [False, True]
            assert log.offload_trouble == ""
        with pytest.raises(NoSuchLedgerError):
            store.metadata(positions[0].ledger)
        assert payloads(store.read_log("archived")) == [b"0", b"1", b"2"]
        store.delete_log("archived")
    assert objects.files == {}


def test_others_go_on_while_a_file_system_blocks_a_thread(hosts: str) -> None:
    objects = MemoryObjects()
    begun, may_go_on = threading.Event(), threading.Event()

    def blocks(step: str, _name: str) -> None:
        if step == "commit":
            begun.set()
            assert may_go_on.wait(PATIENCE_SECONDS)
            raise OSError("no space")

    with stores(hosts) as (store,), ThreadPoolExecutor(1) as threads:
        store.waiting.parts.open_objects = objects.open
        store.open_log("blocked", create=True).close()
        with store.open_log("blocked", offload=DROPS) as log:
            log.append(b"a")
            log.roll()
            objects.before = blocks
            copied = threads.submit(log.offload)
            assert begun.wait(PATIENCE_SECONDS)
            assert log.append(b"b") == Position(log.info.ledgers[-1].id, 0)
            may_go_on.set()
            with pytest.raises(OffloadError, match="no space"):
                copied.result(PATIENCE_SECONDS)


def test_a_bug_beside_the_callers_is_raised_at_the_end_of_the_store(hosts: str) -> None:
    begun = threading.Event()

    def fails(_uri: str) -> Any:
        begun.set()
        raise ZeroDivisionError

    def uses() -> None:
        with stores(hosts) as (store,):
            store.waiting.parts.open_objects = fails
            log = store.open_log("buggy", create=True, offload=DROPS)
            log.append(b"a")
            log.roll()
            assert begun.wait(PATIENCE_SECONDS)

    with pytest.raises(ZeroDivisionError):
        uses()


def test_changes_on_threads_come_from_the_servers_where_they_have_them(hosts: str) -> None:
    with zab.client.sync.connect(hosts) as zk, zab.ledgers.sync.open_store(zk) as store:
        changes = store.changes("changes", zk.last_zxid, "/watched")
        zk.create("/watched", b"")
        first = next(changes)
        assert (first.path, changes.is_in_log) == ("/watched", False)
        assert changes.place is not None
        assert changes.place.zxid == first.zxid
        zk.set("/watched", b"1")
        assert changes.receive().zxid > first.zxid
        changes.close()


OWN = {"call", "complete", "driving", "error_of", "forget", "on_end", "outcome", "waiter"}
NOT_THERE = {
    "LedgerReader": {"ask"},
    "LedgerStore": {"begin", "close", "create_metadata", "end", "new_ledger", "run"},
    "LedgerWriter": {"has_ended"},
    "LogEntries": {"skip"},
    "ManagedLog": {"apply", "core", "opened", "password", "tell"},
}
"""What parts of the store use among themselves."""
OF_SAME_NAME = [name for name in zab.ledgers.sync.__all__ if inspect.isclass(getattr(zab.ledgers.sync, name))]


@pytest.mark.parametrize("name", OF_SAME_NAME)
def test_threads_have_the_same_names_and_arguments(name: str) -> None:
    theirs, ours = getattr(zab.ledgers, name), getattr(zab.ledgers.sync, name)
    for public in (found for found in vars(theirs) if not found.startswith("_")):
        if public in OWN or public in NOT_THERE.get(name, ()):
            continue
        assert hasattr(ours, public), f"{name}.{public}"
        if callable(given := getattr(theirs, public)):
            assert arguments(given) == arguments(getattr(ours, public)), f"{name}.{public}"


def arguments(given: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(given).parameters.values()]
