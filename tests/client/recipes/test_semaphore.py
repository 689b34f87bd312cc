"""Semaphores: never more holders than permits, with a loss at every request."""

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.resource import Resource
from tests.client.recipes.workers import Together, again_and_again, hold_for, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import Client
from zab.client.recipes.errors import BadDataError, WaitOverError
from zab.client.recipes.semaphore import Semaphore

pytestmark = pytest.mark.slow

PATH = "/semaphores/a"
LEFT = {"/semaphores": b"", PATH: b"2", f"{PATH}/leases": b"", f"{PATH}/locks": b""}


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_no_more_than_the_permits_hold_it_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        resource, together = Resource(2), Together(3)
        turns = {"one": 1, "two": 1, "three": 1}

        async def work(name: str, zk: Client) -> None:
            semaphore = Semaphore(zk, PATH, permits=2, name=name)
            while turns[name]:
                async with semaphore as held:
                    await hold_for(held, resource, name)
                turns[name] -= 1
            await together.done()
            await until(lambda: not [path for path in world.below(PATH) if "/" in path])

        async with trio.open_nursery() as nursery:
            for name in turns:
                nursery.start_soon(again_and_again, world, name, lambda zk, name=name: work(name, zk))

    for world in trials(scenario, kind):
        assert world.znodes() == LEFT


def test_who_is_cancelled_or_waits_too_long_leaves_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            scope = world.scopes["two"] = trio.CancelScope()
            async with Semaphore(one, PATH, permits=2), Semaphore(one, PATH, permits=2):
                with scope, pytest.raises(WaitOverError):
                    await Semaphore(two, PATH, permits=2).acquire(wait_s=1)
                await until(lambda: len([path for path in world.below(PATH) if "/" in path]) == 2)
            await until(lambda: not [path for path in world.below(PATH) if "/" in path])

    for world in trials(scenario, "cancel"):
        assert world.znodes() == LEFT


def test_permits_are_for_all_and_each_acquire_is_one() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            first = Semaphore(one, PATH, permits=2, name="first")
            permits = [await first.acquire(), await first.acquire()]
            assert permits[0].token < permits[1].token
            assert await first.holders() == ["first", "first"]
            with pytest.raises(BadDataError, match=r"the semaphore has b'2' permits, not 3"):
                await Semaphore(two, PATH, permits=3).acquire()
            second = Semaphore(two, PATH, permits=2, name="second")
            with pytest.raises(WaitOverError):
                await second.acquire(wait_s=1)
            with pytest.raises(RuntimeError, match="held 2 times by this object"):
                await first.release()
            await permits[0].release()
            await permits[0].release()
            async with second:
                assert await second.holders() == ["first", "second"]
            await first.release()
            with pytest.raises(RuntimeError, match="not held by this object"):
                await first.release()

    run(scenario, World())


def test_of_those_who_wait_one_looks_at_the_permits() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("holder") as zk:
            semaphore = Semaphore(zk, PATH, permits=1)
            await semaphore.acquire()
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(_hold, world, str(number))
                await until(lambda: len(world.below(f"{PATH}/locks")) == 4)
                await trio.sleep(1)
                asked = len(world.requests)
                await semaphore.release()
                await trio.sleep(0.5)
                woken = {name for name, opcode in world.requests[asked:] if opcode is OpCode.GET_CHILDREN}
                # One of them got it, and the next one took its place.
                assert len(woken) == 2
                nursery.cancel_scope.cancel()

    run(scenario, World())


async def _hold(world: World, name: str) -> None:
    async with world.connect(name) as zk, Semaphore(zk, PATH, permits=1):
        await trio.sleep(1)


def test_a_semaphore_has_a_permit() -> None:
    with pytest.raises(ValueError, match="lets nobody in"):
        Semaphore(None, PATH, permits=0)  # type: ignore[arg-type]
