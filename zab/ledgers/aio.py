"""A store of ledgers on asyncio: `async with zab.ledgers.aio.open_store(zk) as store`, with a client of
`zab.client.aio`; the same names as on trio.

    open_store                  the caller's block
    └─ AsyncioLoop              callbacks of the loop: turns, timers
       └─ AsyncioTransport      one connection to one bookie: a protocol, and the task that dials

A bug must not end in the loop's log, where nobody sees it: it ends the block, and is raised at its end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any, ParamSpec, TypeVar

from zab.client import Client
from zab.ledgers.connection import BookieConnection
from zab.ledgers.settings import StoreSettings, settings_of
from zab.ledgers.store import LedgerStore

__all__ = ["open_store"]

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def open_store(
    zk: Client,
    *,
    settings: StoreSettings | None = None,
    root: str | None = None,
    has_root: bool = True,
    random: Random | None = None,
) -> AsyncIterator[LedgerStore]:
    """The ledgers below a znode, over the session of this client: see `zab.ledgers.open_store`."""
    of = settings_of(settings, root)
    loop = AsyncioLoop(lambda: int(zk.now() * 1000))
    store = LedgerStore(zk, loop, of, random or Random())
    loop.begin(store.driving.turn)
    try:
        await store.begin(has_root=has_root)
        yield store
    finally:
        try:
            async with zk.move_on_after(of.close_wait_ms / 1000):
                await store.end()
        finally:
            store.close()
            await loop.end()


class AsyncioLoop:
    """The I/O of a driving."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._turn: Callable[[], int | None] = lambda: None
        self._is_woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms: int | None = None
        self._failure: BaseException | None = None
        self._task = asyncio.current_task()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, turn: Callable[[], int | None]) -> None:
        self._turn = turn
        self.soon()

    async def end(self) -> None:
        """Raises what went wrong in a callback."""
        self._turn = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def soon(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self.call, self._take_turn)

    def dial(self, connection: BookieConnection, host: str, port: int) -> AsyncioTransport:
        transport = AsyncioTransport(self, connection)
        task = self._loop.create_task(self._open(transport, host, port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return transport

    def start(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        started = self._loop.create_task(task())
        self._tasks.add(started)
        started.add_done_callback(self._started_is_over)

    def _started_is_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.call(task.result)

    async def in_thread(self, do: Callable[[], T]) -> T:
        return await asyncio.to_thread(do)

    async def _open(self, transport: AsyncioTransport, host: str, port: int) -> None:
        try:
            await self._loop.create_connection(lambda: transport, host, port)
        except (OSError, UnicodeError):
            self.call(transport.failed, self.now_ms())

    def _take_turn(self) -> None:
        self._is_woken = False
        due_ms = self._turn()
        if due_ms is not None and (self._armed_ms is None or due_ms < self._armed_ms):
            if self._timer is not None:
                self._timer.cancel()
            self._armed_ms = due_ms
            # The clock is read in whole milliseconds, rounded down.
            seconds = max(due_ms + 1 - self.now_ms(), 0) / 1000
            self._timer = self._loop.call_later(seconds, self._is_due)

    def _is_due(self) -> None:
        self._timer = self._armed_ms = None
        self.soon()

    def call(self, do: Callable[P, object], *given: P.args, **options: P.kwargs) -> None:
        """Everything that belongs to the store is called from here."""
        is_done = False
        try:
            do(*given, **options)
            is_done = True
        finally:
            if not is_done and self._failure is None and self._task is not None:
                self._failure = sys.exception()
                self._task.cancel()


class AsyncioTransport(asyncio.Protocol):
    """One connection to one bookie."""

    def __init__(self, loop: AsyncioLoop, connection: BookieConnection) -> None:
        self._loop = loop
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._is_closed = False

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def failed(self, now_ms: int) -> None:
        if not self._is_closed:
            self._connection.failed(now_ms)

    # The protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._is_closed:
            transport.abort()
        else:
            self._loop.call(self._connection.opened)

    def data_received(self, data: bytes) -> None:
        if not self._is_closed:
            self._loop.call(self._connection.received, data)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.call(self._connection.broke, self._loop.now_ms())
