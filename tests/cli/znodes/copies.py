"""Trees to be copied, and two servers to copy between."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.client.running import KINDS_OF_LONGEST, running
from zab.client import Acl, Client, Permission, Stat, connect

ADMIN = (Acl(Permission.READ | Permission.ADMIN, "world", "anyone"),)

MASKED = (Acl(Permission.READ, "world", "anyone"), Acl(Permission.ALL, "digest", "bob:eHh4"))


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as ensemble:
        yield ensemble.hosts


@pytest.fixture
def hosts(servers: str, tmp_path: Path) -> str:
    """Below a chroot of the test's own."""

    async def make() -> None:
        async with connect(servers) as zk:
            await zk.create(f"/{tmp_path.name}")

    trio.run(make)
    return f"{servers}/{tmp_path.name}"


def does(hosts: str, act: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with connect(hosts) as zk:
            return await act(zk)

    return trio.run(main)


async def make_app(zk: Client) -> None:
    await zk.create("/app", b"\x00\xff")
    await zk.create("/app/null", None)
    await zk.create("/app/empty", b"")
    await zk.create("/app/a", b"one")
    await zk.create("/app/a/b", b"two", ADMIN)


async def make_many(zk: Client) -> None:
    await zk.create("/many")
    for number in range(40):
        await zk.create(f"/many/{number:02}", b"x" * 100)


async def all_of(zk: Client, path: str) -> dict[str, tuple[bytes | None, tuple[Acl, ...]]]:
    """Data and ACL by the path below `path`."""
    found, pending = {}, [path]
    while pending:
        at = pending.pop()
        found[at[len(path) :]] = (await zk.get(at))[0], (await zk.get_acl(at))[0]
        pending += [f"{at}/{name}" for name in await zk.get_children(at)]
    return found


async def stat_of(zk: Client, path: str) -> Stat | None:
    return await zk.exists(path)


def exists(hosts: str, path: str) -> bool:
    return does(hosts, lambda zk: stat_of(zk, path)) is not None
