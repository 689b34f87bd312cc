"""A log that keeps the feed of changes, on bookies in memory: what its owners append, and what readers get."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio

from tests.ledgers.memory_bookies import memory_bookies
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import Change, ChangeKind, ChangesLostError, Client, Place, connect
from zab.ledgers import (
    LedgerStore,
    LogContentError,
    LogFencedError,
    LogSettings,
    LogTerminatedError,
    NoSuchLogError,
    open_store,
)
from zab.ledgers.change_entries import ENTRY_BYTES, InvalidEntryError, decode_entry, parts_of
from zab.ledgers.kept_changes import CURSOR, SETTINGS, KeptChanges

HISTORY = "0123456789abcdef" * 2
WHOLE = (1 << 31) - 1


def change(zxid: int, part: int = 0, path: str = "/app/a", data: bytes | None = b"x", **given) -> Change:
    kind = given.get("kind", ChangeKind.DATA_CHANGED)
    return Change(zxid, part, 1_700_000_000_000 + zxid, given.get("session", -5), kind, path, data, 3, 0)


def at(zxid: int, part: int = WHOLE, history: str = HISTORY) -> Place:
    return Place(zxid, part, history)


# ---------------------------------------------------------------------------------------------------------- the bytes


def entries_of(begin: Place, end: Place, changes: Sequence[Change]) -> list:
    parts = list(parts_of("/app", begin, end, changes))
    for entry, payload in parts:
        assert decode_entry(payload) == entry
    return parts


@pytest.mark.parametrize("data", [None, b"", b'text \xc3\xa4 "\n', b"\xff\x00", b"\x01" * 100, "😀".encode() * 50])
def test_a_change_is_the_same_after_its_entry(data: bytes | None) -> None:
    changes = [
        change(7, 2, "/app/é 😀", data),
        change(8, 0, data=None, kind=ChangeKind.DELETED, session=(1 << 62) + 1),
    ]
    [(entry, payload)] = entries_of(at(7, 1), at(9), changes)
    assert list(entry.changes) == changes
    assert (entry.begin, entry.end) == (at(7, 1), at(9))
    assert len(payload) < 4 * len(data or b"") + 2_000


def test_data_that_is_text_of_control_characters_takes_a_third_more() -> None:
    [(_, payload)] = entries_of(at(1), at(2), [change(2, data=b"\x01" * 300_000)])
    assert len(payload) < 401_000


def test_many_changes_are_several_entries_that_follow_each_other() -> None:
    changes = [change(zxid, data=bytes(200_000)) for zxid in range(2, 10)]
    parts = entries_of(at(1), at(20), changes)
    assert len(parts) > 1
    assert all(len(payload) < ENTRY_BYTES + 1_000 for _, payload in parts)
    assert [each for entry, _ in parts for each in entry.changes] == changes
    assert parts[0][0].begin == at(1)
    assert parts[-1][0].end == at(20)
    for (one, _), (two, _) in pairwise(parts):
        assert one.end == two.begin == at(one.changes[-1].zxid, 0)


VALID = next(parts_of("/app", at(1), at(5), [change(2), change(3)]))[1].decode()


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "x",
        "[]",
        "{}",
        "[" * 100_000,
        VALID.replace('"changes_format": 1', '"changes_format": 2'),
        VALID.replace('"0x3"', '"0x2"', 1),
        VALID.replace('"0x5"', '"0x2"', 1),
        VALID.replace('"DATA_CHANGED"', '"X"', 1),
        VALID.replace('"encoding": "utf-8"', '"encoding": "latin"', 1),
        VALID.replace('"data": "x", "encoding": "utf-8"', '"data": "!", "encoding": "base64"', 1),
        VALID.replace('"data": "x"', '"data": 5', 1),
        VALID.replace('"path": "/app/a"', '"path": 5', 1),
        VALID.replace('"path": "/app/a"', '"path": "\\ud800"', 1),
        VALID.replace('"prefix": "/app"', '"prefix": null', 1),
        VALID.replace(HISTORY, "xyz"),
    ],
)
def test_what_is_no_entry_is_refused(payload: str) -> None:
    assert payload != VALID
    with pytest.raises(InvalidEntryError):
        decode_entry(payload.encode())


# ----------------------------------------------------------------------------------------------------------- its owner


@pytest.fixture(scope="module")
def ensemble():
    with members_here(1) as members:
        yield members


@asynccontextmanager
async def stored(ensemble) -> AsyncIterator[LedgerStore]:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        with trio.fail_after(PATIENCE_SECONDS):
            async with memory_bookies(zk, 3), open_store(zk) as store:
                yield store


@asynccontextmanager
async def kept(store: LedgerStore, prefix: str = "/app", *, create: bool = False) -> AsyncIterator[KeptChanges]:
    async with store.open_log("tree", create=create, settings=SETTINGS) as log:
        yield KeptChanges(log, prefix)


async def in_log(store: LedgerStore) -> list[Change]:
    entries = [decode_entry(entry.payload) async for entry in store.read_log("tree")]
    for one, two in pairwise(entries):
        assert one.end[:2] == two.begin[:2]
    return [change for entry in entries for change in entry.changes]


async def test_the_next_owner_goes_on_where_the_last_entry_ends(ensemble) -> None:
    async with stored(ensemble) as store:
        async with kept(store, create=True) as first:
            assert await first.begin() is None
            await first.append((), at(1, history=""))
            await first.append([change(2), change(3)], at(4))
        async with kept(store) as second:
            assert await second.begin() == at(4)
            await second.append([change(5)], at(5))
        assert await in_log(store) == [change(2), change(3), change(5)]


async def test_an_owner_that_another_one_follows_appends_nothing_more(ensemble) -> None:
    async with stored(ensemble) as store, store.open_log("tree", create=True) as log:
        first = KeptChanges(log, "/app")
        await first.begin()
        await first.append((), at(1))
        await first.append([change(2)], at(2))
        async with kept(store) as second:
            assert await second.begin() == at(2)
            with pytest.raises(LogFencedError):
                await first.append([change(3)], at(3))
            await second.append([change(3)], at(3))
        assert await in_log(store) == [change(2), change(3)]


async def test_a_log_of_other_changes_or_of_none_is_refused(ensemble) -> None:
    async with stored(ensemble) as store:
        async with kept(store, create=True) as first:
            await first.begin()
            await first.append((), at(1))
            await first.append([change(2)], at(2))
        async with kept(store, "/other") as other:
            with pytest.raises(LogContentError, match="below /app, not /other"):
                await other.begin()
        async with store.open_log("tree") as log:
            await log.append(b"something else")
        async with kept(store) as second:
            with pytest.raises(LogContentError, match="none of a feed of changes"):
                await second.begin()
        async with store.open_log("tree") as log:
            await log.terminate()
        async with kept(store) as third:
            with pytest.raises(LogTerminatedError):
                await third.begin()


async def test_trimming_leaves_the_place(ensemble) -> None:
    trimmed = LogSettings(retention_ms=0)
    async with stored(ensemble) as store:
        async with kept(store, create=True) as first:
            await first.begin()
            await first.append((), at(1))
            for zxid in range(2, 6):
                await first.append([change(zxid)], at(zxid))
        async with kept(store) as second:
            assert await second.begin() == at(5)
            await second.append([change(6)], at(6))
        async with store.open_log("tree", settings=trimmed) as log:
            cursor = await log.cursor(CURSOR)
            assert cursor.backlog <= 2
            await log.trim()
        assert await in_log(store) == [change(6)]
        async with kept(store) as third:
            assert await third.begin() == at(6)


# --------------------------------------------------------------------------------------------------------- its readers


class Servers:
    """The feed of servers that know changes from a place on, in place of `Client.changes`."""

    def __init__(self, changes: Sequence[Change], oldest: int) -> None:
        self.all = list(changes)
        self.oldest = oldest
        self.asked: list[Place] = []

    def changes(self, since: int | Place, _prefix: str) -> Servers.Feed:
        place = since if isinstance(since, Place) else Place(since, WHOLE, "")
        self.asked.append(place)
        return self.Feed(self, place)

    class Feed:
        def __init__(self, servers: Servers, place: Place) -> None:
            self.servers, self.place = servers, place

        async def receive(self) -> Change:
            await trio.lowlevel.checkpoint()
            if self.place.zxid < self.servers.oldest:
                raise ChangesLostError(self.place.zxid, "older", oldest=self.servers.oldest)
            for each in self.servers.all:
                if each[:2] > self.place[:2]:
                    self.place = Place(each.zxid, each.part, HISTORY)
                    return each
            await trio.sleep_forever()
            raise AssertionError


ALL = [change(zxid, part, f"/app/{zxid % 3}") for zxid in range(2, 30) for part in (0, 1)]


@asynccontextmanager
async def logged(
    ensemble, monkeypatch, *, oldest: int, until: int = 25, since: int = 1
) -> AsyncIterator[tuple[LedgerStore, Servers]]:
    """A log with the changes up to one, over several ledgers, and servers that know those from another one on."""
    servers = Servers(ALL, oldest)
    async with stored(ensemble) as store:
        prefix = store.zk.operations.inner("/app").decode()
        async with store.open_log("tree", create=True, settings=SETTINGS) as log:
            keeper = KeptChanges(log, prefix)
            await keeper.begin()
            await keeper.append((), at(since, history=""))
            for zxid in range(since + 1, until + 1):
                found = [each for each in ALL if each.zxid == zxid]
                await keeper.append([each._replace(path=prefix + each.path[4:]) for each in found], at(zxid))
                if zxid % 4 == 0:
                    await log.roll()
        monkeypatch.setattr(Client, "changes", lambda _self, since, prefix: servers.changes(since, prefix))
        yield store, servers


async def first_of(changes, count: int) -> list[Change]:
    return [await changes.receive() for _ in range(count)]


@pytest.mark.parametrize("since", [1, 3, 4, 8, 11, 16, 20, 23, 24])
async def test_the_log_has_what_servers_no_longer_have(ensemble, monkeypatch, since: int) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        wanted = [each for each in ALL if each.zxid > since]
        changes = store.changes("tree", since, "/app")
        for each in wanted:
            assert await changes.receive() == each
            assert changes.place is not None
            assert changes.place[:2] in (each[:2], (each.zxid, WHOLE))
        assert not changes.is_in_log


async def test_two_readers_the_second_from_the_place_of_the_first_get_the_same_as_one(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=20) as (store, _):
        for count in range(1, len(ALL) - 1, 9):
            one = store.changes("tree", 1, "/app")
            first = await first_of(one, count)
            two = store.changes("tree", one.place, "/app")
            assert first + await first_of(two, 2) == ALL[: count + 2]


async def test_only_the_changes_below_the_prefix_are_told(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        changes = store.changes("tree", 1, "/app/2")
        assert await first_of(changes, 16) == [each for each in ALL if each.path == "/app/2"][:16]
        with pytest.raises(LogContentError, match="only the changes below"):
            await store.changes("tree", 1, "/").receive()


async def test_what_is_in_neither_is_lost(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24, until=15) as (store, servers):
        changes = store.changes("tree", 1, "/app")
        assert await first_of(changes, 28) == ALL[:28]
        with pytest.raises(ChangesLostError) as lost:
            await changes.receive()
        assert lost.value.since == 15
        servers.oldest = 15
        assert await changes.receive() == ALL[28]


async def test_a_log_that_begins_later_does_not_hide_that(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24, since=9) as (store, _):
        with pytest.raises(ChangesLostError, match="log tree can tell those from 0x9 on"):
            await store.changes("tree", 5, "/app").receive()
        assert await store.changes("tree", 9, "/app").receive() == next(each for each in ALL if each.zxid == 10)


async def test_a_log_with_a_gap_is_noticed(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=30, until=5) as (store, _):
        prefix = store.zk.operations.inner("/app").decode()
        async with store.open_log("tree") as log:
            [(_, payload)] = parts_of(prefix, at(7), at(8), ())
            await log.append(payload)
        changes = store.changes("tree", 1, "/app")
        assert await first_of(changes, 8) == ALL[:8]
        with pytest.raises(ChangesLostError, match="from 0x7 on"):
            await changes.receive()


async def test_another_history_is_refused(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        with pytest.raises(ChangesLostError, match="another history"):
            await store.changes("tree", at(5, history="ff" * 16), "/app").receive()


async def test_what_is_trimmed_is_lost_and_the_rest_is_told(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        async with store.open_log("tree") as log:
            cursor = await log.cursor("held")
            ledgers = log.info.ledgers
            await cursor.mark_delete(ledgers[2].last)
            await log.delete_cursor(CURSOR)
        async with store.open_log("tree", settings=LogSettings(retention_ms=0)) as log:
            await log.trim()
            assert ledgers[2] not in log.info.ledgers
            assert ledgers[4] in log.info.ledgers
        with pytest.raises(ChangesLostError):
            await store.changes("tree", 3, "/app").receive()
        assert await store.changes("tree", 20, "/app").receive() == next(each for each in ALL if each.zxid == 21)


async def test_a_log_that_is_not_there(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        with pytest.raises(NoSuchLogError):
            await store.changes("gone", 1, "/app").receive()
        assert await store.changes("gone", 24, "/app").receive() == next(each for each in ALL if each.zxid == 25)


async def test_nothing_is_lost_when_a_wait_is_cancelled(ensemble, monkeypatch) -> None:
    async with logged(ensemble, monkeypatch, oldest=24) as (store, _):
        changes = store.changes("tree", 1, "/app")
        found: list[Change] = []
        pause = 0.0
        while len(found) < len(ALL):
            with trio.move_on_after(pause) as scope:
                found.append(await changes.receive())
            pause = pause + 0.0005 if scope.cancelled_caught else 0.0
        assert found == ALL
