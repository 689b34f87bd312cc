"""The locks: with a loss at every request, and what each promises."""

import re

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.resource import Resource
from tests.client.recipes.workers import Together, again_and_again, hold_for, until
from tests.client.recipes.world import DELAY_S_MAX, KINDS, World, of_each, run, trials
from zab.client import Client, SessionExpiredError
from zab.client.recipes.contender import Contender, rivals
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.lock import Lock, ReadWriteLock

pytestmark = pytest.mark.slow

PATH = "/locks/a"


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("kind", of_each(KINDS))
def test_one_at_a_time_holds_a_lock_whatever_is_lost(kind: str, is_old: bool) -> None:
    async def scenario(world: World) -> None:
        resource, together = Resource(), Together(2)
        turns = {"one": 2, "two": 2}

        async def work(name: str, zk: Client) -> None:
            lock = Lock(zk, PATH, name=name)
            while turns[name]:
                async with lock as held:
                    await hold_for(held, resource, name)
                turns[name] -= 1
            await together.done()
            # Their sessions live, so it is not their end that removed it.
            await until(lambda: not world.below(PATH))

        async with trio.open_nursery() as nursery:
            for name in turns:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))

    for world in trials(scenario, kind, is_old=is_old):
        assert world.znodes() == {"/locks": b"", PATH: b""}


def test_who_is_cancelled_while_it_waits_leaves_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            world.scopes["two"] = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hold, one, trio.Event(), 1.0)
                nursery.start_soon(_in_scope, world.scopes["two"], two)
            await until(lambda: not world.below(PATH))

    for world in trials(scenario, "cancel"):
        assert world.znodes() == {"/locks": b"", PATH: b""}


async def _in_scope(scope: trio.CancelScope, zk: Client) -> None:
    with scope:
        await _hold(zk, trio.Event(), 0.1)


async def _hold(zk: Client, has_it: trio.Event, seconds: float) -> None:
    async with Lock(zk, PATH):
        has_it.set()
        await trio.sleep(seconds)


def test_callers_of_one_object_are_rivals_and_who_would_wait_for_itself_is_told() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            lock = Lock(zk, PATH)
            order = []

            async def other() -> None:
                async with lock:
                    order.append("other")

            async with trio.open_nursery() as nursery:
                async with lock as held:
                    nursery.start_soon(other)
                    await until(lambda: len(world.below(PATH)) == 2)
                    with pytest.raises(RuntimeError, match="would wait for itself"):
                        async with lock:
                            pass
                    with pytest.raises(RuntimeError, match="would wait for itself"):
                        async with lock.hold():
                            pass
                    with pytest.raises(WaitOverError):
                        async with lock.hold(wait_s=1):
                            pass
                    order.append("first")
                assert not held.is_held
            assert order == ["first", "other"]
            with pytest.raises(RuntimeError, match="not held by this object"):
                await lock.release()
            with pytest.raises(RuntimeError, match="no block of /locks/a was entered"):
                await lock.__aexit__(None, None, None)

    run(scenario, World())


def test_a_wait_has_a_limit_and_leaves_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            async with Lock(one, PATH, name="first"):
                lock = Lock(two, PATH, name="second")
                with pytest.raises(WaitOverError, match=r"/locks/a: it did not come within 1.5 s"):
                    await lock.acquire(wait_s=1.5)
                assert await lock.try_acquire() is None
                assert await lock.contenders() == ["first"]
                assert len(world.below(PATH)) == 1
            held = await lock.try_acquire()
            assert held is not None
            await held.release()
            assert await lock.contenders() == []

    run(scenario, World())


def test_a_holder_hears_at_once_that_its_znode_is_gone() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            lock = Lock(one, PATH)
            async with lock as held:
                await two.delete(held.path)
                with trio.fail_after(0.1):
                    await held.lost()
                assert not held.is_held
                with pytest.raises(LostError, match="its znode is gone"):
                    held.check()
                with pytest.raises(LostError):
                    async with lock:
                        pass
                async with lock.hold(wait_s=1) as beside:
                    assert beside.token > held.token
            async with lock as anew:
                assert anew.token > beside.token

    run(scenario, World())


def test_a_holder_without_a_server_gives_up_before_the_server_gives_the_lock_to_another() -> None:
    async def scenario(world: World) -> None:
        times = {}
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:

            async def second() -> None:
                async with Lock(two, PATH):
                    times["taken"] = trio.current_time()

            async with Lock(one, PATH) as held:
                nursery.start_soon(second)
                await until(lambda: len(world.below(PATH)) == 2)
                await trio.sleep(1)
                world.cut("one")
                assert held.is_held, "the session may live on"
                await held.lost()
                times["lost"] = trio.current_time()
                assert "no server was heard" in repr(held)
            with pytest.raises(SessionExpiredError):
                await one.retrying().exists("/")
        assert times["lost"] < times["taken"]

    run(scenario, World())


def test_a_waiter_whose_znode_somebody_deleted_is_told() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            lock = Lock(one, PATH)
            held = await lock.acquire()

            async def wait() -> None:
                with pytest.raises(LostError, match="somebody deleted"):
                    await Lock(two, PATH).acquire()

            nursery.start_soon(wait)
            await until(lambda: len(world.below(PATH)) == 2)
            for name in world.below(PATH):
                if not held.path.endswith(name):
                    await one.delete(f"{PATH}/{name}")
            await held.release()

    run(scenario, World())


def test_nobody_wakes_in_vain() -> None:
    async def scenario(world: World) -> None:
        events: dict[int, int] = {}
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(_watched_turn, world, number, events)
        assert sorted(events.values()) == [0, 1, 1, 1, 1]

    run(scenario, World())


async def _watched_turn(world: World, number: int, events: dict[int, int]) -> None:
    async with world.connect(str(number)) as zk:
        asked = len(world.requests)
        async with Lock(zk, PATH):
            await trio.sleep(5)
        own = [opcode for name, opcode in world.requests[asked:] if name == str(number)]
        # One list when it came, and one for each time that it woke.
        events[number] = own.count(OpCode.GET_CHILDREN) - 1


@pytest.mark.parametrize("kind", ["request", "answer"])
def test_a_contender_is_created_once(kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            await zk.ensure_path(PATH)
            lost = world.lose("one", OpCode.CREATE2, kind)
            async with Lock(zk, PATH):
                assert lost.happened
                assert len(world.below(PATH)) == 1

    run(scenario, World())


def test_a_contender_whose_create_comes_late_stands_where_it_came_first() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            lock = Lock(one, PATH)
            contender = Contender(one, PATH, ("lock-",))
            await contender.enter()
            assert contender.path is not None
            # What a create does that was under way, and that the search did not see.
            late = await one.create(contender.path[:-10], ephemeral=True, sequence=True)
            await one.delete(contender.path)
            await one.create(contender.path, ephemeral=True)
            contender.path = late
            assert await contender.ahead() == []
            assert contender.path < late
            assert await Lock(two, PATH).try_acquire() is None
            await contender.leave()
            assert world.below(PATH) == []
            async with lock:
                pass

    run(scenario, World())


def test_the_names_are_those_of_curators_recipes() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk, Lock(zk, PATH), ReadWriteLock(zk, "/shared").write:
            mark = r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-"
            assert re.fullmatch(mark + r"lock-\d{10}", world.below(PATH)[0])
            assert re.fullmatch(mark + r"__WRIT__\d{10}", world.below("/shared")[0])

    run(scenario, World())


def test_a_lock_waits_for_kazoos_too() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            await one.ensure_path(PATH)
            theirs = await one.create(f"{PATH}/0123456789abcdef__lock__", b"kazoo", ephemeral=True, sequence=True)
            lock = Lock(two, PATH, name="ours")
            assert await lock.try_acquire() is None
            assert await lock.contenders() == ["kazoo"]
            await one.delete(theirs)
            async with lock:
                assert await lock.contenders() == ["ours"]

    run(scenario, World())


def test_numbers_are_compared_on_a_circle() -> None:
    names = ["b-lock--2147483648", "lock-0000000001x", "a-lock-2147483647", "c-lock--000000001", "seven", "lock-٣"]
    first, second, third = rivals(names, ("lock-",))
    assert [rival.number for rival in (first, second, third)] == [2147483647, -2147483648, -1]
    assert first.precedes(second)
    assert not second.precedes(first)
    assert not first.precedes(first)
    around = rivals(["x-lock-0000000000", "c-lock--000000001"], ("lock-",))
    assert [rival.number for rival in around] == [-1, 0]


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_readers_share_and_writers_do_not_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        writing, reading, together = Resource(), Resource(9), Together(3)
        wanted = {"reader one": 1, "reader two": 1, "writer": 1}

        async def work(name: str, zk: Client) -> None:
            lock = ReadWriteLock(zk, PATH, name=name)
            while wanted[name]:
                if name == "writer":
                    async with lock.write as held:
                        assert not reading.holders
                        await hold_for(held, writing, name)
                        reader = await lock.downgrade(held)
                        assert reader.token == held.token
                    await hold_for(reader, reading, name)
                    await reader.release()
                else:
                    async with lock.read as held:
                        assert not writing.holders
                        await hold_for(held, reading, name)
                wanted[name] -= 1
            await together.done()
            await until(lambda: not world.below(PATH))

        async with trio.open_nursery() as nursery:
            for name in wanted:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))

    for world in trials(scenario, kind):
        assert world.znodes() == {"/locks": b"", PATH: b""}


def test_readers_hold_at_once_and_a_writer_waits_for_all_of_them() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, world.connect("three") as three:
            first, second, third = (ReadWriteLock(zk, PATH) for zk in (one, two, three))
            reading = await first.read.acquire()
            async with second.read:
                assert await third.write.try_acquire() is None
                await reading.release()
                assert await third.write.try_acquire() is None
                with pytest.raises(RuntimeError, match="who holds the read lock cannot get the write lock"):
                    async with second.write:
                        pass
            async with third.write:
                assert await first.read.try_acquire() is None
                with pytest.raises(RuntimeError, match="gets the read lock by downgrade"):
                    async with third.read:
                        pass

    run(scenario, World())


def test_who_downgrades_keeps_out_the_writers_who_wait() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            first, second = ReadWriteLock(one, PATH), ReadWriteLock(two, PATH)
            written = trio.Event()
            writing = await first.write.acquire()

            async def write() -> None:
                async with second.write:
                    written.set()

            nursery.start_soon(write)
            await until(lambda: len(world.below(PATH)) == 2)
            reading = await first.downgrade(writing)
            with pytest.raises(RuntimeError, match="given back already"):
                await first.downgrade(writing)
            await trio.sleep(1)
            assert reading.is_held
            assert not writing.is_held
            assert not written.is_set()
            await reading.release()
            await written.wait()

    run(scenario, World())


def test_who_is_cancelled_while_it_downgrades_holds_one_of_both() -> None:
    """The write lock, where `downgrade` raises; else the read lock."""

    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            first, second = ReadWriteLock(one, PATH), ReadWriteLock(two, PATH)
            held = await first.write.acquire()
            scope = world.scopes["one"] = trio.CancelScope()
            with scope:
                held = await first.downgrade(held)
            await held.release()
            async with second.write.hold(wait_s=1):
                pass

    for _ in trials(scenario, "cancel", ("one",)):
        pass


def test_who_lost_the_write_lock_gets_no_read_lock_beside_its_successor() -> None:
    """Whenever it asks: before it hears that somebody deleted its znode, or after."""
    refused: set[str] = set()

    async def scenario(world: World) -> None:
        writing, reading = Resource(), Resource(9)
        async with world.connect("one") as one, world.connect("two") as two, trio.open_nursery() as nursery:
            first = ReadWriteLock(one, PATH)
            held = await first.write.acquire()

            async def write() -> None:
                async with ReadWriteLock(two, PATH).write as theirs:
                    assert not reading.holders
                    await hold_for(theirs, writing, "two")

            nursery.start_soon(write)
            await until(lambda: len(world.below(PATH)) == 2)
            await trio.sleep(1)
            nursery.start_soon(two.delete, held.path)
            await trio.sleep(world.random.uniform(0, 3 * DELAY_S_MAX))
            try:
                read = await first.downgrade(held)
            except LostError as error:
                refused.add(error.reason)
            else:
                assert not writing.holders
                await hold_for(read, reading, "one")
                await read.release()
            await held.release()

    for seed in range(60):
        run(scenario, World(seed=seed))
    assert refused == {"its znode is gone", "its znode went before the read lock came"}
