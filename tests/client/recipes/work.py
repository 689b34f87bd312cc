"""What clients do while members fail, and what has to be true at the end whatever failed."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.client.recipes.resource import Resource
from zab.client import Client
from zab.client.recipes.cache import Cache, DeltaKind
from zab.client.recipes.counter import Counter
from zab.client.recipes.election import Election
from zab.client.recipes.errors import WaitOverError
from zab.client.recipes.lease import Lease
from zab.client.recipes.lock import Lock, ReadWriteLock
from zab.client.recipes.party import Party
from zab.client.recipes.queue import LockingQueue, Queue
from zab.client.recipes.semaphore import Semaphore

LEASE_SECONDS = 90
"""Longer than a client with a session of a minute takes to find that its server has lost power."""


class Work:
    """What three clients do until members were killed often enough, and what they saw."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_over = False
        self.told: dict[str, bytes | None] = {}
        """By a cache."""
        self.added = 0
        self.put: list[bytes] = []
        self.taken: list[bytes] = []
        self.consumed: list[bytes] = []
        self.locked, self.led, self.leased, self.written = Resource(), Resource(), Resource(), Resource()
        self.shared = Resource(2)

    async def steps_more(self, count: int) -> None:
        wanted = self.steps + count
        while self.steps < wanted:  # noqa: ASYNC110
            await trio.sleep(0.02)

    async def count(self, zk: Client, name: str) -> None:
        counter = Counter(zk, "/counter")
        while not self.is_over:
            await counter.add()
            self.added += 1
            self.steps += 1

    async def lock(self, zk: Client, name: str) -> None:
        lock, steady = Lock(zk, "/lock", name=name), zk.retrying()
        while not self.is_over:
            async with lock as held:
                self.locked.enter(name, held)
                # Nobody else writes: a version that is not the one read would say so.
                data, stat = await steady.get("/locked")
                await steady.set("/locked", b"%d" % (int(data or b"0") + 1), stat.version)
                self.locked.leave(name)
            self.steps += 1

    async def write(self, zk: Client, name: str) -> None:
        lock = ReadWriteLock(zk, "/readers", name=name)
        while not self.is_over:
            async with lock.write as held:
                self.written.enter(name, held)
                await zk.sleep(0.005)
                self.written.leave(name)
            async with lock.read:
                assert not self.written.holders
            self.steps += 1

    async def share(self, zk: Client, name: str) -> None:
        semaphore = Semaphore(zk, "/semaphore", permits=2, name=name)
        while not self.is_over:
            async with semaphore as held:
                self.shared.enter(name, held)
                await zk.sleep(0.005)
                self.shared.leave(name)
            self.steps += 1

    async def lead(self, zk: Client, name: str) -> None:
        while not self.is_over:
            async with Election(zk, "/election", name).lead() as leadership:
                self.led.enter(name, leadership)
                await zk.sleep(0.005)
                self.led.leave(name)
            self.steps += 1

    async def lease(self, zk: Client, name: str) -> None:
        while not self.is_over:
            async with Lease(zk, "/lease", seconds=LEASE_SECONDS, name=name) as held:
                self.leased.enter(name, held)
                await held.renew()
                self.leased.leave(name)
            self.steps += 1

    async def queue(self, zk: Client, name: str) -> None:
        queue, number = Queue(zk, "/queue"), 0
        while not self.is_over:
            item = f"{name} {number}".encode()
            await queue.put(item)
            self.put.append(item)
            self.taken.append(await queue.get())
            number += 1
            self.steps += 1

    async def consume(self, zk: Client, name: str) -> None:
        queue, number = LockingQueue(zk, "/locking", name=name), 0
        while not self.is_over:
            await queue.put(f"{name} {number}".encode())
            async with queue.take() as item:
                await item.consume()
                self.consumed.append(item.data)
            number += 1
            self.steps += 1

    async def join(self, zk: Client, name: str) -> None:
        while not self.is_over:
            async with Party(zk, "/party", name) as party:
                assert name in await party.members()
            self.steps += 1

    async def follow(self, cache: Cache) -> None:
        """Keeps what the cache tells."""
        async for delta in cache.deltas():
            if delta.kind is DeltaKind.REMOVED:
                del self.told[delta.path]
            else:
                self.told[delta.path] = delta.entry.data

    async def check(self, zk: Client, cache: Cache, cached_by: Client) -> None:
        """Judges by what is there, once all of them have stopped and their sessions live on. cached_by: the client of
        the cache, whose server may lag behind that of `zk`."""
        steady = zk.retrying()
        assert await Counter(zk, "/counter").value() == self.added
        assert (await steady.get("/locked"))[0] == b"%d" % len(self.locked.turns)
        queue = Queue(zk, "/queue")
        while (left := await queue.try_get()) is not None:
            self.taken.append(left)
        assert sorted(self.taken) == sorted(self.put)
        assert len(set(self.consumed)) == len(self.consumed)
        with pytest.raises(WaitOverError):
            await LockingQueue(zk, "/locking").get(wait_s=0.1)
        # What is gone was removed, and nobody holds or waits for anything.
        for place in ("/lock", "/readers", "/semaphore/leases", "/election", "/lease", "/party", "/locking/waiting"):
            while await steady.get_children(place):  # noqa: ASYNC110
                await trio.sleep(0.1)
        await cached_by.retrying().sync()
        await cache.settled()
        for path, entry in cache.items():
            assert (await steady.get(path))[0] == entry.data
        while self.told != {path: entry.data for path, entry in cache.items()}:  # noqa: ASYNC110
            await trio.sleep(0.02)


async def work_together(work: Work, zks: list[Client], fail: Callable[[], Awaitable[None]]) -> None:
    """Three clients do all of it until `fail` returns; then it is judged."""
    await zks[0].retrying().create("/locked", b"0")
    async with Cache(zks[2], "/") as cache, trio.open_nursery() as following:
        following.start_soon(work.follow, cache)
        async with trio.open_nursery() as nursery:
            for number, zk in enumerate(zks):
                for step in (work.count, work.lock, work.share, work.queue, work.consume, work.join):
                    nursery.start_soon(step, zk, f"client {number}")
            for step in (work.write, work.lead, work.lease):
                for number in (0, 1):
                    nursery.start_soon(step, zks[number], f"client {number}")
            await fail()
            work.is_over = True
        await work.check(zks[0], cache, zks[2])
        following.cancel_scope.cancel()
