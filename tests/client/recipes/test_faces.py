"""The recipes on every backend: coroutines on trio and asyncio, and the same names for threads that block."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import zab.client.recipes as waiting
import zab.client.sync.recipes as blocking
from tests.client.faces import FACES, OnFace
from tests.rigs.in_process import members_here
from zab.client import ClientClosedError, sync
from zab.testing.ensemble import Ensemble

pytestmark = pytest.mark.slow

# What a recipe hands out, by the name of the class there and here.
OF_SAME_NAME = [name for name in blocking.__all__ if inspect.isclass(getattr(blocking, name))]
ITERATORS = {"Following"}


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with members_here(1) as running:
        yield running


@pytest.fixture
def hosts(ensemble: Ensemble, request: pytest.FixtureRequest) -> str:
    """A place of the test's own: every path is below it."""
    root = f"/{request.node.name.replace('[', '-').rstrip(']')}"
    with sync.connect(ensemble.hosts) as zk:
        zk.create(root)
    return ensemble.hosts + root


@pytest.mark.parametrize("backend", FACES[:2], ids=lambda backend: backend.name)
def test_callers_beside_each_other_hold_in_turns(backend: OnFace, hosts: str) -> None:
    async def body(one: Any, two: Any, backend: OnFace) -> None:
        inside: list[str] = []
        tokens: list[int] = []
        counter = waiting.Counter(one, "/counter")

        async def turns(zk: Any, name: str, lock: Any) -> None:
            for _ in range(3):
                async with lock as held:
                    assert inside == []
                    inside.append(name)
                    await backend.pause(0.01)
                    inside.remove(name)
                    tokens.append(held.token)
                await counter.add()

        shared = waiting.Lock(one, "/lock")
        await backend.together(
            lambda: turns(one, "one", shared),
            lambda: turns(one, "another task of one", shared),
            lambda: turns(two, "two", waiting.Lock(two, "/lock")),
        )
        assert tokens == sorted(set(tokens))
        assert await counter.value() == 9
        with pytest.raises(TimeoutError):
            async with waiting.Lock(one, "/lock"):
                await waiting.Lock(two, "/lock").acquire(wait_s=0.05)
        assert await one.get_children("/lock") == []

    backend.run(hosts, body, count=2)


@pytest.mark.parametrize("backend", FACES[:2], ids=lambda backend: backend.name)
def test_the_recipes_work(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        async with waiting.Cache(zk, "/") as cache:
            queue = waiting.LockingQueue(zk, "/queue")
            await queue.put_all([b"a", b"b"])
            async with queue.take() as item:
                assert item.data == b"a"
                await item.consume()
            async with waiting.Semaphore(zk, "/semaphore", permits=2), waiting.Lease(zk, "/lease", seconds=9) as leased:
                await leased.renew()
            async with waiting.ReadWriteLock(zk, "/shared").write as held:
                assert held.is_held
            async with waiting.Party(zk, "/party", "me") as party:
                assert await party.members() == ["me"]
            async with waiting.DoubleBarrier(zk, "/barrier", count=1):
                pass
            await zk.create("/config", b"x = 1")
            async with waiting.Configuration(zk, "/config", waiting.from_toml) as config:
                assert config.value == {"x": 1}
            await cache.settled()
            assert cache["/config"].data == b"x = 1"
        async with waiting.Election(zk, "/election", "me").lead() as leadership:
            async for leader in waiting.Election(zk, "/election").leaders():
                assert leader == "me"
                break
            await zk.delete(leadership.path)
            await leadership.lost()
        async for found in waiting.data_of(zk, "/config"):
            assert found[0] == b"x = 1"
            break

    backend.run(hosts, body)


def test_threads_hold_in_turns_and_hear_of_a_loss(hosts: str) -> None:
    with sync.connect(hosts) as zk, sync.connect(hosts) as other:
        inside: list[int] = []
        lock, counter = blocking.Lock(zk, "/lock"), blocking.Counter(zk, "/counter")

        def turns(number: int) -> None:
            for _ in range(5):
                with lock as held:
                    assert held.is_held
                    assert inside == []
                    inside.append(number)
                    inside.remove(number)
                counter.add()

        threads = [threading.Thread(target=turns, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counter.value() == 20
        with lock as held:
            assert blocking.Lock(other, "/lock").try_acquire() is None
            with pytest.raises(waiting.WaitOverError):
                blocking.Lock(other, "/lock").acquire(wait_s=0.05)
            other.delete(held.path)
            held.lost()
            with pytest.raises(waiting.LostError):
                held.check()
        assert other.get_children("/lock") == []


def test_the_recipes_work_for_threads(hosts: str) -> None:
    with sync.connect(hosts) as zk, blocking.Cache(zk, "/") as cache:
        queue = blocking.LockingQueue(zk, "/queue")
        queue.put(b"a")
        with queue.take() as item:
            assert (item.data, queue.count()) == (b"a", 1)
            item.consume()
        assert queue.try_get() is None
        plain = blocking.Queue(zk, "/plain")
        plain.put_all([b"b", b"c"])
        assert (plain.get(), plain.try_get(), plain.count()) == (b"b", b"c", 0)
        with blocking.Semaphore(zk, "/semaphore", permits=2, name="me") as held:
            assert held.token
        with blocking.Lease(zk, "/lease", seconds=9).hold(wait_s=5) as leased:
            leased.renew()
            assert leased.ends_at > zk.waiting.now()
        shared = blocking.ReadWriteLock(zk, "/shared")
        writing = shared.write.acquire()
        assert writing.is_held
        shared.downgrade(writing).release()
        assert writing.is_released
        with blocking.Election(zk, "/election", "me").lead() as leadership:
            assert "held" in repr(leadership)
            assert next(blocking.Election(zk, "/election").leaders()) == "me"
        barrier = blocking.Barrier(zk, "/closed")
        barrier.create()
        barrier.remove()
        barrier.wait()
        with blocking.DoubleBarrier(zk, "/barrier", count=1) as together:
            assert together.members() == [""]
        with blocking.Party(zk, "/party", "me") as party:
            assert party.members() == next(party.following()) == ["me"]
        discovery = blocking.Discovery(zk, "/services")
        with discovery.register("web", waiting.Instance(id="a", port=80)) as instance:
            assert discovery.instances("web") == next(discovery.following("web")) == [instance]
            assert discovery.names() == ["web"]
        zk.create("/config", b'{"a": 1}')
        with blocking.Configuration(zk, "/config", waiting.from_json) as config:
            assert config.value == next(config.following()) == {"a": 1}
            assert config.error is None
        with blocking.Configuration.of_children(zk, "/", len) as count:
            assert count.value == len(zk.get_children("/"))
        found = next(blocking.data_of(zk, "/config"))
        assert found is not None
        assert found[0] == b'{"a": 1}'
        assert next(blocking.children_of(zk, "/config")) == []
        cache.settled()
        assert cache["/config"].data == b'{"a": 1}'
        assert cache.children("/") == zk.get_children("/")
        assert next(cache.deltas()).path in cache
        assert len(cache) == len(list(cache)) == len(cache.items()) == len(cache.values())


@pytest.mark.parametrize("name", OF_SAME_NAME)
def test_both_have_the_same_names_and_arguments(name: str) -> None:
    theirs, ours = getattr(waiting, name), getattr(blocking, name)
    for public in (found for found in vars(theirs) if not found.startswith("_") and name not in ITERATORS):
        given = getattr(theirs, public)
        assert hasattr(ours, public), f"{name}.{public}"
        if callable(given):
            assert arguments(given) == arguments(getattr(ours, public)), f"{name}.{public}"
    assert arguments(theirs.__init__) == arguments(ours.__init__) or issubclass(
        ours, blocking.Held | blocking.Following
    )


def arguments(given: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(given).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters if one.name not in ("kinds",)]


def test_blocks_are_with_blocks(hosts: str) -> None:
    with sync.connect(hosts) as zk:
        with blocking.Lock(zk, "/e").hold() as held:
            assert type(held) is blocking.Held
        with blocking.Lease(zk, "/f", seconds=9) as leased:
            assert type(leased) is blocking.Leased
        for made in (
            blocking.Lock(zk, "/a").hold(),
            blocking.Election(zk, "/b").lead(),
            blocking.LockingQueue(zk, "/c").take(wait_s=0),
            blocking.Discovery(zk, "/d").register("web", waiting.Instance()),
        ):
            assert isinstance(made, AbstractContextManager)
        with pytest.raises(waiting.WaitOverError), blocking.LockingQueue(zk, "/c").take(wait_s=0):
            raise AssertionError
    with pytest.raises(ClientClosedError):
        blocking.Lock(zk, "/a").acquire()
