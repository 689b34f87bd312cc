"""What can be held, taken and given back in every way: by blocks, by values, in other tasks and threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import pytest
import trio

from tests.client.recipes.workers import until
from tests.client.recipes.world import World, run, trials
from zab.client import Client, aio, sync
from zab.client.recipes import Election, Held, Lease, Lock, LockingQueue, ReadWriteLock, Semaphore, WaitOverError
from zab.client.recipes.owning import Owned
from zab.client.sync import recipes as blocking
from zab.testing import Ensemble

pytestmark = pytest.mark.slow

PATH = "/owned"

Make: TypeAlias = Callable[[Client, str], Owned[Any]]
OWNED: dict[str, Make] = {
    "lock": Lock,
    "write lock": lambda zk, path: ReadWriteLock(zk, path).write,
    "semaphore": lambda zk, path: Semaphore(zk, path, permits=1),
    "lease": lambda zk, path: Lease(zk, path, seconds=60),
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with Ensemble(1) as e:
        yield e.hosts


# On trio, in a world where requests are lost.


async def _by_value(owned: Owned[Any]) -> None:
    held = await owned.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.release)


async def _by_object(owned: Owned[Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(owned.acquire)
    await owned.release()


async def _by_stack(owned: Owned[Any]) -> None:
    stack = contextlib.AsyncExitStack()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stack.enter_async_context, owned)
    await stack.aclose()


async def _by_stack_of_hold(owned: Owned[Any]) -> None:
    stack = contextlib.AsyncExitStack()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stack.enter_async_context, owned.hold(wait_s=60))
    await stack.aclose()


async def _by_block(owned: Owned[Any]) -> None:
    async with owned as held:
        await held.release()


async def _cancelled(owned: Owned[Any]) -> None:
    """While it waits for itself."""
    async with owned:
        with trio.move_on_after(1):
            await owned.acquire()


WAYS = [_by_value, _by_object, _by_stack, _by_stack_of_hold, _by_block, _cancelled]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OWNED)
def test_who_comes_next_gets_it(name: str, way: Callable[[Owned[Any]], Awaitable[None]]) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            await way(OWNED[name](one, PATH))
            async with OWNED[name](two, PATH).hold(wait_s=2) as held:
                assert held.is_held

    run(scenario, World())


@pytest.mark.parametrize("kind", ["request", "answer"])
@pytest.mark.parametrize("name", OWNED)
def test_what_another_task_gives_back_is_free_whatever_is_lost(name: str, kind: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            held = await OWNED[name](one, PATH).acquire()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(held.release)
                nursery.start_soon(held.release)
            async with OWNED[name](two, PATH).hold(wait_s=30):
                pass

    for _ in trials(scenario, kind, names=("one",)):
        pass


def test_a_stack_gives_back_what_was_lost_before_what_is_held() -> None:
    """`async with lock` of two tasks that are over: what another task leaves first is the oldest."""

    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            lock = Lock(one, PATH)
            first, second = contextlib.AsyncExitStack(), contextlib.AsyncExitStack()
            held: list[Held] = []

            async def enter(stack: contextlib.AsyncExitStack) -> None:
                held.append(await stack.enter_async_context(lock))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(enter, first)
            await two.delete(held[0].path)
            await held[0].lost()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(enter, second)
            await second.aclose()
            assert held[1].is_held
            await first.aclose()
            assert not held[1].is_held
            await until(lambda: not world.below(PATH))

    run(scenario, World())


def test_blocks_of_one_semaphore_end_what_their_own_tasks_began() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, trio.open_nursery() as nursery:
            semaphore = Semaphore(one, PATH, permits=3)

            async def work(seconds: float) -> None:
                async with semaphore as held:
                    await trio.sleep(seconds)
                    assert held.is_held
                assert not held.is_held

            for seconds in (3, 1, 2):
                nursery.start_soon(work, seconds)

    run(scenario, World())


# On asyncio.


async def _in_wait_for(owned: Owned[Any]) -> None:
    await asyncio.wait_for(owned.acquire(), 30)
    await owned.release()


async def _in_gather(owned: Owned[Any]) -> None:
    held, _ = await asyncio.gather(owned.acquire(), asyncio.sleep(0))
    await asyncio.gather(held.release(), held.release())


async def _in_gather_that_fails(owned: Owned[Any]) -> None:
    """Nobody has the value: the object gives it back."""

    async def fail() -> None:
        raise ValueError

    taking = asyncio.create_task(owned.acquire())
    with contextlib.suppress(ValueError):
        await asyncio.gather(taking, fail())
    await asyncio.wait([taking])
    await owned.release()


async def _in_a_stack(owned: Owned[Any]) -> None:
    stack = contextlib.AsyncExitStack()
    await asyncio.create_task(stack.enter_async_context(owned))
    await stack.aclose()


async def _in_a_cancelled_task(owned: Owned[Any]) -> None:
    async with owned:
        waiting = asyncio.create_task(owned.acquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])


@pytest.mark.parametrize("way", [_in_wait_for, _in_gather, _in_gather_that_fails, _in_a_stack, _in_a_cancelled_task])
def test_on_asyncio_who_comes_next_gets_it(hosts: str, way: Callable[[Owned[Any]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with aio.connect(hosts) as one, aio.connect(hosts) as two:
            for name, make in OWNED.items():
                path = f"/asyncio/{way.__name__}-{name.replace(' ', '-')}"
                await way(make(one, path))
                async with make(two, path).hold(wait_s=10):
                    pass

    asyncio.run(main())


def test_on_asyncio_other_blocks_end_in_other_tasks_too(hosts: str) -> None:
    async def main() -> None:
        async with aio.connect(hosts) as one, aio.connect(hosts) as two:
            await LockingQueue(one, "/aio-queue").put(b"item")
            for block in (Election(one, "/aio-election").lead(), LockingQueue(one, "/aio-queue").take()):
                stack = contextlib.AsyncExitStack()
                await asyncio.create_task(stack.enter_async_context(block))
                await stack.aclose()
            async with Election(two, "/aio-election").lead(wait_s=10):
                assert (await LockingQueue(two, "/aio-queue").get(wait_s=10)).data == b"item"

    asyncio.run(main())


# In threads.

BLOCKING: dict[str, Callable[[sync.Client, str], Any]] = {
    "lock": blocking.Lock,
    "write lock": lambda zk, path: blocking.ReadWriteLock(zk, path).write,
    "semaphore": lambda zk, path: blocking.Semaphore(zk, path, permits=1),
    "lease": lambda zk, path: blocking.Lease(zk, path, seconds=60),
}


@pytest.mark.parametrize("name", BLOCKING)
def test_a_thread_is_not_taken_for_an_earlier_one(hosts: str, name: str) -> None:
    """The system gives a new thread the identity of one that has ended."""
    with sync.connect(hosts) as zk:
        owned = BLOCKING[name](zk, f"/threads/{name.replace(' ', '-')}")
        held, inside, callers = in_thread(owned.acquire), [], set()

        def work() -> None:
            callers.add(zk.caller)
            with contextlib.suppress(WaitOverError):
                inside.append(owned.acquire(wait_s=0.01))

        for _ in range(5):
            in_thread(work)
        assert (inside, len(callers)) == ([], 5)
        assert held.is_held
        in_thread(held.release)
        in_thread(owned.acquire)
        owned.release()
        with owned:
            pass


def in_thread(work: Callable[[], Any]) -> Any:
    """What it returns, when the thread has ended."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
