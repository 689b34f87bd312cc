"""Caches end up as the tree is, and tell how it came to that, with a loss at every request."""

import gc
from random import Random
from typing import Any

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.workers import until
from tests.client.recipes.world import World, run, trials
from zab.client import (
    Client,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Permission,
    ReplyTooLongError,
    SessionExpiredError,
)
from zab.client.core.operations import Operation
from zab.client.core.records import Acl
from zab.client.recipes.cache import Cache, DeltaKind, Depth
from zab.client.recipes.copy import Copy

pytestmark = pytest.mark.slow

PATH = "/app"
NAMES = ("", "/a", "/b", "/a/x", "/a/x/deep", "/b/y")


async def change(zk: Client, random: Random, count: int) -> None:
    """Random changes of a few znodes."""
    for number in range(count):
        path = PATH + random.choice(NAMES)
        try:
            match random.randrange(3):
                case 0:
                    await zk.create(path, b"%d" % number)
                case 1:
                    await zk.set(path, b"%d" % number)
                case 2:
                    await zk.delete_all(path)
        except (NoNodeError, NodeExistsError, NotEmptyError):
            continue


def expected(world: World, depth: Depth) -> dict[str, bytes | None]:
    return {
        path: data
        for path, data in world.znodes().items()
        if (path == PATH or path.startswith(PATH + "/")) and path.removeprefix(PATH).count("/") <= depth
    }


@pytest.mark.parametrize("is_old", [False, True, "silent"])
@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("kind", ["request", "answer", "connection"])
def test_a_cache_is_as_the_tree_is_whatever_is_lost(kind: str, depth: Depth, is_old: bool | str) -> None:
    async def scenario(world: World) -> None:
        random = Random(world.random.random())
        told: dict[str, bytes | None] = {}

        async def follow(cache: Cache) -> None:
            async for delta in cache.deltas():
                assert (delta.path in told) == (delta.kind is not DeltaKind.ADDED)
                if delta.kind is DeltaKind.REMOVED:
                    del told[delta.path]
                else:
                    told[delta.path] = delta.entry.data

        def is_the_same(cache: Cache) -> bool:
            have = {path: entry.data for path, entry in cache.items()}
            return have == told == expected(world, depth) and cache.is_current

        async with world.connect("writer") as writer, world.connect("cache") as zk:
            await change(writer, random, 6)
            async with Cache(zk, PATH, depth) as cache, trio.open_nursery() as nursery:
                nursery.start_soon(follow, cache)
                for _ in range(3):
                    await change(writer, random, 4)
                    await until(lambda: is_the_same(cache))
                nursery.cancel_scope.cancel()

    for _ in trials(scenario, kind, ("cache",), is_old=is_old):
        pass


@pytest.mark.parametrize("kind", ["session", "late"])
def test_a_cache_says_that_its_session_is_over(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("writer") as writer, world.connect("cache") as zk:
            await writer.create(PATH, b"1")
            try:
                async with Cache(zk, PATH) as cache:
                    async for delta in cache.deltas():
                        assert delta.entry.data == b"1"
                        # One more request, which may be the one that is lost.
                        await zk.retrying().exists(PATH)
                        if world.loss is None or not world.loss.happened:
                            return
            except SessionExpiredError:
                return
            raise AssertionError("it ended as if the client had been closed")

    for _ in trials(scenario, kind, ("cache",)):
        pass


def test_a_cache_reads_without_requests_and_shows_what_it_has() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.ensure_path(f"{PATH}/a/x")
            await zk.set(f"{PATH}/a", b"1")
            async with Cache(zk, PATH) as cache:
                asked = len(world.requests)
                assert list(cache) == [PATH, f"{PATH}/a", f"{PATH}/a/x"]
                assert cache[f"{PATH}/a"].data == b"1"
                assert cache.children(PATH) == ["a"]
                assert cache.children(f"{PATH}/a") == ["x"]
                assert f"{PATH}/none" not in cache
                assert cache.is_current
                assert len(world.requests) == asked
                stat = await zk.set(f"{PATH}/a", b"2")
                await cache.settled()
                assert cache[f"{PATH}/a"].stat == stat
            await zk.set(f"{PATH}/a", b"3")
            assert cache[f"{PATH}/a"].data == b"2"
            with pytest.raises(RuntimeError, match="/app is followed no more"):
                await cache.start()
            assert not await zk.check_watches(PATH)

    run(scenario, World())


def test_items_and_values_of_a_cache_are_those_of_one_moment() -> None:
    """An entry that went while the caller waited within the loop was a KeyError."""

    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.ensure_path(f"{PATH}/a")
            async with Cache(zk, PATH) as cache:
                items, values = iter(cache.items()), iter(cache.values())
                assert next(items)[0] == PATH
                assert next(values).stat.num_children == 1
                await zk.delete(f"{PATH}/a")
                await until(lambda: f"{PATH}/a" not in cache)
                assert [path for path, _ in items] == [f"{PATH}/a"]
                assert [entry.data for entry in values] == [b""]
                assert [path for path, _ in cache.items()] == [PATH]

    run(scenario, World())


def test_a_closed_cache_ends_its_deltas() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create(PATH)
            cache = Cache(zk, PATH)
            await cache.start()
            deltas = cache.deltas()
            cache.close()
            assert [delta.path async for delta in deltas] == [PATH]
            deltas.close()
            deltas.close()

    run(scenario, World())


def test_deltas_that_are_closed_tell_nothing_more() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk, Cache(zk, "/") as cache, trio.open_nursery() as nursery:
            deltas, untold = cache.deltas(), cache.deltas()
            ended = trio.Event()

            async def follow() -> None:
                async for _ in deltas:
                    pass
                ended.set()

            nursery.start_soon(follow)
            await trio.sleep(1)
            for one in (deltas, untold):
                one.close()
            await ended.wait()
            assert [delta async for delta in untold] == []

    run(scenario, World())


def test_a_cache_of_a_chroot_has_its_paths() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.ensure_path("/deep/down/app")
            within = zk.with_chroot("/deep/down")
            async with Cache(within, "/") as cache:
                await zk.create("/deep/down/app/a", b"1")
                await until(lambda: "/app/a" in cache)
                assert list(cache) == ["/", "/app", "/app/a"]
                await zk.set("/deep/down/app/a", b"2")
                await until(lambda: cache["/app/a"].data == b"2")

    run(scenario, World())


def test_what_may_not_be_read_is_not_in_the_cache_and_for_the_root_is_an_error() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create(PATH)
            await zk.create(f"{PATH}/secret", acl=[Acl(Permission.DELETE, "world", "anyone")])
            async with Cache(zk, PATH) as cache:
                assert list(cache) == [PATH]
            with pytest.raises(NoAuthError):
                await Cache(zk, f"{PATH}/secret").start()

    run(scenario, World())


@pytest.mark.parametrize("when", ["there before", "later"])
def test_what_is_too_long_to_be_read_ends_the_cache_with_one_error(when: str) -> None:
    """It was read again and again, on a new connection each time."""

    async def scenario(world: World) -> None:
        async with world.connect("writer") as writer, world.connect("reader", reply_bytes_max=2_000) as zk:
            for name in ("a", "b", "c"):
                await writer.ensure_path(f"{PATH}/{name}")
            if when == "there before":
                await writer.set(f"{PATH}/b", bytes(3_000))
                with pytest.raises(ReplyTooLongError, match=f"CONNECTIONLOSS {PATH}/b: .* announced an answer of 3,"):
                    await Cache(zk, PATH).start()
            else:
                async with Cache(zk, PATH) as cache:
                    await writer.set(f"{PATH}/b", bytes(3_000))
                    with pytest.raises(ReplyTooLongError):
                        async for _ in cache.deltas():
                            pass
            with pytest.raises(ReplyTooLongError):
                await zk.retrying().get(f"{PATH}/b")
            assert len([opcode for name, opcode in world.requests if name == "reader"]) < 40

    run(scenario, World())


def test_a_slow_reader_is_told_the_difference() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create(PATH)
            async with Cache(zk, PATH) as cache:
                deltas = cache.deltas()
                assert (await anext(deltas)).kind is DeltaKind.ADDED
                await zk.create(f"{PATH}/a")
                await cache.settled()
                await zk.delete(f"{PATH}/a")
                for number in range(5):
                    await zk.set(PATH, b"%d" % number)
                await zk.create(f"{PATH}/b")
                await until(lambda: cache.is_current and f"{PATH}/b" in cache)
                found = [await anext(deltas), await anext(deltas)]
                assert {(delta.kind, delta.path, delta.entry.data) for delta in found} == {
                    (DeltaKind.CHANGED, PATH, b"4"),
                    (DeltaKind.ADDED, f"{PATH}/b", b""),
                }

    run(scenario, World())


def test_what_came_and_went_untold_takes_no_room_and_who_is_dropped_is_told_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create(PATH)
            copy = Copy(zk, PATH, Depth.SUBTREE)
            await copy.begin()
            reader = copy.reader()
            assert reader.take(copy.entries) is not None
            for number in range(3):
                await zk.create(f"{PATH}/{number}")
                await until(lambda number=number: f"{PATH}/{number}" in copy.entries)
                await zk.delete(f"{PATH}/{number}")
                await until(lambda number=number: f"{PATH}/{number}" not in copy.entries)
            assert len(reader) == 0
            await zk.create(f"{PATH}/a")
            await until(lambda: f"{PATH}/a" in copy.entries)
            assert len(reader) == 1
            del reader
            gc.collect()
            assert copy.readers_count == 0
            copy.stop()

    run(scenario, World())


def test_who_is_cancelled_while_it_enters_a_cache_follows_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.ensure_path(f"{PATH}/a")
            scope = world.scopes["zk"] = trio.CancelScope()
            has_entered = False
            with scope:
                async with Cache(zk, PATH):
                    has_entered = True
            asked = len(world.requests)
            await zk.set(f"{PATH}/a", b"1")
            await trio.sleep(1)
            told = [opcode for _, opcode in world.requests[asked:] if opcode is not OpCode.REMOVE_WATCHES]
            assert has_entered or told == [OpCode.SET_DATA]
            assert not await zk.check_watches(PATH)

    for _ in trials(scenario, "cancel"):
        pass


def test_no_more_than_so_many_reads_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.client.recipes.copy.READS_MAX", 3)
    most = 0

    class Counted(Copy):
        def next(self) -> Operation[Any] | None:
            nonlocal most
            operation = super().next()
            most = max(most, len(self._asked))
            return operation

    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            for number in range(20):
                await zk.ensure_path(f"{PATH}/{number}")
            copy = Counted(zk, PATH, Depth.CHILDREN)
            zk.undertake(copy)
            await until(lambda: copy.is_there)
            assert len(copy.entries) == 21

    run(scenario, World())
    assert most == 3
