"""What is said to programs that hand over something of a wrong kind: what is wanted in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from zab.client import OPEN_ACL, Client, aio, connect
from zab.client import sync as blocking
from zab.client.recipes import Lock
from zab.client.sync import recipes as blocking_recipes
from zab.testing import Ensemble

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with Ensemble(1) as e:
        yield e.hosts


OPTIONS = [
    ({"timeout": 10}, "connect has no keyword timeout. Did you mean session_timeout_ms?"),
    ({"sesion_timeout_ms": 10}, "connect has no keyword sesion_timeout_ms. Did you mean session_timeout_ms?"),
    ({"wombat": 1}, r"connect has no keyword wombat$"),
    ({"auth": "digest:bob:pw"}, "auth is a list of pairs"),
    ({"auth": ["digest:bob:pw"]}, "auth is a list of pairs"),
]


@pytest.mark.parametrize(("options", "said"), OPTIONS)
def test_keywords_of_each_face(options: dict[str, object], said: str) -> None:
    async def on_trio() -> None:
        async with connect(NOWHERE, **options):  # type: ignore[misc, arg-type]
            pass

    async def on_asyncio() -> None:
        async with aio.connect(NOWHERE, **options):  # type: ignore[misc, arg-type]
            pass

    for run in (
        lambda: trio.run(on_trio),
        lambda: asyncio.run(on_asyncio()),
        lambda: blocking.connect(NOWHERE, **options),  # type: ignore[misc, arg-type]
    ):
        with pytest.raises(TypeError, match=said):
            run()


MISUSES: list[tuple[Callable[[Client], Awaitable[object]], str]] = [
    (lambda zk: zk.get(None), "a path is a str, not NoneType"),  # type: ignore[arg-type]
    (lambda zk: zk.get(b"/a"), "a path is a str, not bytes"),  # type: ignore[arg-type]
    (lambda zk: zk.create(7), "a path is a str, not int"),  # type: ignore[arg-type]
    (lambda zk: zk.create("/a", b"", None), "an ACL is a list of Acl, such as .*OPEN_ACL, not NoneType"),  # type: ignore[arg-type]
    (lambda zk: zk.create("/a", b"", "world:anyone:r"), "an ACL is a list of Acl, .* not str"),  # type: ignore[arg-type]
    (lambda zk: zk.set_acl("/", ["world:anyone:r"]), "not one of something else"),  # type: ignore[list-item]
    (lambda zk: zk.set("/", b"", version="1"), "version is an int, such as stat.version, .*, not str"),  # type: ignore[arg-type]
    (lambda zk: zk.delete("/a", 1.0), "version is an int, .* not float"),  # type: ignore[arg-type]
    (lambda zk: zk.set_acl("/", OPEN_ACL, None), "version is an int, .* not NoneType"),  # type: ignore[arg-type]
    (lambda zk: _checked(zk), "version is an int, .* not str"),
    (lambda zk: zk.reconfig(leaving="1", version="1"), "version is an int, .* not str"),  # type: ignore[arg-type]
    (lambda zk: zk.get("/", watch=print), "watch is a watcher, as zk.watcher.. makes one, not a function"),  # type: ignore[arg-type]
    (lambda zk: zk.add_watch("/", print), "watch is a watcher"),  # type: ignore[arg-type]
    (lambda zk: _changes(zk), "since is a zxid, .* not str"),
]


async def _checked(zk: Client) -> None:
    async with zk.transaction() as t:
        t.create("/a", b"")
        t.check("/a", "1")  # type: ignore[arg-type]


async def _changes(zk: Client) -> None:
    zk.changes(since="0x1")  # type: ignore[arg-type]


@pytest.mark.parametrize(("misuse", "said"), MISUSES)
async def test_arguments(hosts: str, misuse: Callable[[Client], Awaitable[object]], said: str) -> None:
    async with connect(hosts) as zk:
        with pytest.raises(TypeError, match=said):
            await misuse(zk)
        assert await zk.create("/it-goes-on", b"", OPEN_ACL)
        await zk.delete("/it-goes-on")


def test_arguments_of_blocking_calls(hosts: str) -> None:
    with blocking.connect(hosts) as zk:
        with pytest.raises(TypeError, match="watch is a watcher"):
            zk.get("/", watch=print)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="watch is a watcher"):
            zk.add_watch("/", print)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"takes a client that is awaited, not of zab\.client\.sync\.client"):
            Lock(zk, "/l")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"takes a client of zab\.client\.sync, not of zab\.client\.client"):
            blocking_recipes.Lock(zk.waiting, "/l")  # type: ignore[arg-type]


def test_the_client_for_asyncio_under_trio() -> None:
    async def main() -> None:
        async with aio.connect(NOWHERE):
            pass

    with pytest.raises(RuntimeError, match=r"zab\.client\.aio needs asyncio"):
        trio.run(main)


FORGOTTEN: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (
        lambda connecting: connecting.get("/"),
        AttributeError,
        "no client yet, and has no get; write: async with connect",
    ),
    (lambda connecting: connecting.wombat, AttributeError, "Connecting has no attribute wombat"),
    (lambda connecting: connecting.__enter__(), TypeError, "takes async with"),
    (lambda connecting: connecting.__await__(), TypeError, "connect is not awaited"),
]


@pytest.mark.parametrize(("use", "kind", "said"), FORGOTTEN)
@pytest.mark.parametrize("connecting", [connect(NOWHERE), aio.connect(NOWHERE)])
def test_forgetting_async_with(connecting: Any, use: Callable[[Any], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        use(connecting)
    with pytest.raises(TypeError, match="not of zab"):
        Lock(connecting, "/l")
