"""Counters count exactly, with a loss at every request."""

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.workers import until
from tests.client.recipes.world import World, run, trials
from zab.client import Client, ConnectionLossError, SessionExpiredError
from zab.client.recipes.counter import DIGITS_MAX, Counter
from zab.client.recipes.errors import BadDataError

pytestmark = pytest.mark.slow

PATH = "/counters/a"


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("kind", ["request", "answer", "connection"])
def test_each_add_counts_once_whatever_is_lost(kind: str, is_old: bool) -> None:
    async def scenario(world: World) -> None:
        values: list[int] = []

        async def work(name: str) -> None:
            async with world.connect(name) as zk:
                counter = Counter(zk, PATH)
                for _ in range(2):
                    values.append(await counter.add())

        async with trio.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(work, name)
        assert sorted(values) == [1, 2, 3, 4]

    for world in trials(scenario, kind, is_old=is_old):
        assert world.znodes() == {"/counters": b"", PATH: b"4"}


@pytest.mark.parametrize("kind", ["session", "late"])
def test_a_session_that_is_over_leaves_one_add_open_at_most(kind: str) -> None:
    async def scenario(world: World) -> None:
        counted = 0
        lost = False
        for name in ("one", "two"):
            try:
                async with world.connect(name) as zk:
                    counter = Counter(zk, PATH)
                    for _ in range(2):
                        await counter.add()
                        counted += 1
            except SessionExpiredError:
                lost = True
        assert counted <= int(world.znodes().get(PATH) or 0) <= counted + lost

    for world in trials(scenario, kind):
        assert [path for path in world.znodes() if path not in ("/counters", PATH)] == []


def test_callers_of_one_counter_take_turns() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            counter = Counter(zk, PATH, default=10)
            assert await counter.value() == 10
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(counter.add, 3)
                # One that waits for its turn, and gives up.
                with trio.move_on_after(0):
                    await counter.add(1000)
            assert await counter.value() == 25
            assert await counter.compare_and_set(25, -1)
            assert not await counter.compare_and_set(25, 7)
            assert await counter.value() == -1

    run(scenario, World())


@pytest.mark.parametrize(
    "data", [b"x", b"1.0", b"1_0", b" 1", b"+1", b"1\n", b"-", b"\xff", "٣".encode(), b"9" * (DIGITS_MAX + 2)]
)
def test_what_is_no_number_is_named(data: bytes) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.create("/a", data)
            with pytest.raises(BadDataError, match=r"/a: it holds b.*, which is no whole number"):
                await Counter(zk, "/a").add()
            assert (await zk.get("/a"))[0] == data

    run(scenario, World())


def test_a_number_has_a_limit() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            counter = Counter(zk, "/a", default=10**DIGITS_MAX - 1)
            with pytest.raises(ValueError, match="1,000 digits at most"):
                await counter.add()
            assert await counter.add(-1) == 10**DIGITS_MAX - 2

    run(scenario, World())


def test_a_receipt_that_somebody_deletes_is_made_again() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            counter = Counter(zk, PATH)
            await counter.add()
            await _delete_receipts(zk)
            assert await counter.add() == 2
            assert len(world.below(PATH)) == 1

    run(scenario, World())


def test_what_a_deleted_receipt_would_have_told_stays_unknown() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            counter = Counter(one, PATH)
            await counter.add()
            world.refuse("one", 2)
            lost = world.lose("one", OpCode.MULTI, "answer")
            async with trio.open_nursery() as nursery:

                async def add() -> None:
                    with pytest.raises(ConnectionLossError):
                        await counter.add()

                nursery.start_soon(add)
                await until(lambda: lost.happened)
                await _delete_receipts(two)
            assert await counter.add() == 3

    run(scenario, World())


async def _delete_receipts(zk: Client) -> None:
    for name in await zk.get_children(PATH):
        await zk.delete(f"{PATH}/{name}")
