"""A malformed path is refused where it is given: by an error for the caller, never by a client that ends."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.client.recipes.world import World, run
from zab.client import BadArgumentsError, Client, NoAuthError
from zab.client.core.records import Acl, Permission
from zab.client.recipes import (
    Barrier,
    Cache,
    Configuration,
    Counter,
    Discovery,
    DoubleBarrier,
    Election,
    Instance,
    Lease,
    Lock,
    LockingQueue,
    Party,
    Queue,
    ReadWriteLock,
    Semaphore,
    children_of,
    data_of,
    from_json,
)

pytestmark = pytest.mark.slow

USES: dict[str, Callable[[Client, str], Any]] = {
    "barrier": lambda zk, path: Barrier(zk, path).wait(),
    "cache": lambda zk, path: Cache(zk, path).start(),
    "children": lambda zk, path: anext(children_of(zk, path)),
    "configuration": lambda zk, path: Configuration(zk, path, from_json).start(),
    "counter": lambda zk, path: Counter(zk, path).add(),
    "data": lambda zk, path: anext(data_of(zk, path)),
    "discovery": lambda zk, path: Discovery(zk, path).register("web", Instance()).__aenter__(),
    "double barrier": lambda zk, path: DoubleBarrier(zk, path, count=1).enter(),
    "election": lambda zk, path: Election(zk, path).lead().__aenter__(),
    "lease": lambda zk, path: Lease(zk, path, seconds=1).acquire(),
    "lock": lambda zk, path: Lock(zk, path).acquire(),
    "locking queue": lambda zk, path: LockingQueue(zk, path).put(b""),
    "party": lambda zk, path: Party(zk, path).join(),
    "queue": lambda zk, path: Queue(zk, path).put(b""),
    "read lock": lambda zk, path: ReadWriteLock(zk, path).read.acquire(),
    "semaphore": lambda zk, path: Semaphore(zk, path, permits=1).acquire(),
}


@pytest.mark.parametrize("path", ["", "a", "/a//b", "/a/../b", "/a\x00"])
@pytest.mark.parametrize("use", list(USES))
def test_a_malformed_path_is_refused_and_the_client_lives_on(use: str, path: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            with pytest.raises(BadArgumentsError):
                await USES[use](zk, path)
            await zk.sleep(1)
            assert await zk.exists("/") is not None

    run(scenario, World())


@pytest.mark.parametrize("use", list(USES))
def test_what_is_forbidden_is_an_error_and_the_client_lives_on(use: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create("/secret", acl=[Acl(Permission.ADMIN, "world", "anyone")])
            if use == "barrier":
                # It asks whether the znode exists, which nobody is forbidden.
                await Barrier(zk, "/secret/a").wait()
            else:
                with pytest.raises(NoAuthError):
                    await USES[use](zk, "/secret")
            await zk.sleep(1)
            assert await zk.exists("/") is not None

    run(scenario, World())
