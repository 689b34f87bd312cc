"""The three faces of the client, for tests that are the same on each: a test is a coroutine over a client.

    def test_…(backend: OnFace) -> None:
        backend.run(hosts, body)               # `body(zk, backend)` with a client that is connected

`backend.together` runs coroutines beside each other, in tasks or threads, as a user of that library would.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypeAlias, TypeVar

import trio

from zab.client import Changes, ChildNames, Client, StateChanges, Transaction, Watcher, aio, connect, on_threads, sync
from zab.client.znodes import Znodes

T = TypeVar("T")
Body: TypeAlias = Callable[..., Coroutine[Any, Any, T]]


class OnFace:
    """One of them. `run(hosts, body, count=n)` hands n clients to the body."""

    name: str

    def run(self, hosts: str, body: Body[T], *, count: int = 1, **options: Any) -> T:
        raise NotImplementedError

    async def together(self, *bodies: Callable[[], Awaitable[Any]]) -> list[Any]:
        """The results, in their order."""
        raise NotImplementedError

    async def pause(self, seconds: float) -> None:
        """The library's own sleep."""
        raise NotImplementedError


class Trio(OnFace):
    name = "trio"

    def run(self, hosts: str, body: Body[T], *, count: int = 1, **options: Any) -> T:
        async def main() -> T:
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connect(hosts, **options)) for _ in range(count)]
                return await body(*clients, self)

        return trio.run(main)

    async def together(self, *bodies: Callable[[], Awaitable[Any]]) -> list[Any]:
        results: list[Any] = [None] * len(bodies)

        async def one(index: int, body: Callable[[], Awaitable[Any]]) -> None:
            results[index] = await body()

        async with trio.open_nursery() as nursery:
            for index, body in enumerate(bodies):
                nursery.start_soon(one, index, body)
        return results

    async def pause(self, seconds: float) -> None:
        await trio.sleep(seconds)


class Asyncio(OnFace):
    name = "asyncio"

    def run(self, hosts: str, body: Body[T], *, count: int = 1, **options: Any) -> T:
        async def main() -> T:
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(aio.connect(hosts, **options)) for _ in range(count)]
                return await body(*clients, self)

        return asyncio.run(main())

    async def together(self, *bodies: Callable[[], Awaitable[Any]]) -> list[Any]:
        return await asyncio.gather(*(body() for body in bodies))

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Threads(OnFace):
    name = "threads"

    def run(self, hosts: str, body: Body[T], *, count: int = 1, **options: Any) -> T:
        with ExitStack() as stack:
            clients = [stack.enter_context(sync.connect(hosts, **options)) for _ in range(count)]
            result: T = finished(body(*map(awaited, clients), self))
            return result

    async def together(self, *bodies: Callable[[], Awaitable[Any]]) -> list[Any]:
        with ThreadPoolExecutor(max_workers=len(bodies)) as threads:
            return list(threads.map(lambda body: finished(body()), bodies))

    async def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)


def finished(coroutine: Any) -> Any:
    """Its result, where it waits for nothing but what blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        coroutine.close()
    raise AssertionError("it waited")


# What blocks, and what has the same names to be awaited.
_WAITING: dict[type, type] = {
    sync.Changes: Changes,
    sync.ChildNames: ChildNames,
    sync.Client: Client,
    sync.Scope: on_threads.Scope,
    sync.StateChanges: StateChanges,
    sync.Transaction: Transaction,
    sync.Watcher: Watcher,
    sync.Znodes: Znodes,
}


class _Awaited:
    """What blocks, in the clothes of what is awaited: a test that is written once runs on it."""

    def __init__(self, blocking: Any, waiting: type) -> None:
        self.blocking = blocking
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.blocking, name)
        if not callable(found):
            return found
        if not inspect.iscoroutinefunction(getattr(self._waiting, name)):
            return lambda *given, **options: awaited(found(*map(_blocking, given), **_blocking_of(options)))

        async def call(*given: Any, **options: Any) -> Any:
            return awaited(found(*map(_blocking, given), **_blocking_of(options)))

        return call

    def __aiter__(self) -> _Awaited:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self.blocking)
        except StopIteration:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Any:
        return awaited(self.blocking.__enter__())

    async def __aexit__(self, *raised: object) -> Any:
        return self.blocking.__exit__(*raised)

    def __len__(self) -> int:
        return len(self.blocking)


def awaited(found: Any) -> Any:
    waiting = _WAITING.get(type(found))
    if waiting is None and hasattr(found, "__enter__") and not hasattr(found, "__aenter__"):
        waiting = type(found)
    return found if waiting is None else _Awaited(found, waiting)


def _blocking(given: Any) -> Any:
    return given.blocking if isinstance(given, _Awaited) else given


def _blocking_of(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _blocking(given) for name, given in options.items()}


FACES: list[OnFace] = [Trio(), Asyncio(), Threads()]
