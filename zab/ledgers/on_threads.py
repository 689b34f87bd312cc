"""The I/O of a store for threads that block: trio in a thread of its own, which takes the client's monitor.

    a caller's thread       runs the coroutines of the store, as it runs those of its client
    zab-ledgers             turns, sockets, timers
    zab-ledgers-task        a coroutine that the store runs beside everything else, such as a copy of a ledger
    zab-ledgers-files       one call of a file system, which blocks; the others go on meanwhile

Every call into the store holds the monitor of the client, whichever thread makes it: so between two waits a caller is
alone, as on trio and asyncio.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, ParamSpec, TypeVar

import trio

from zab.client.core.backends import Waiter
from zab.client.sync import Client
from zab.ledgers.connection import BookieConnection
from zab.ledgers.on_trio import TrioLoop, TrioTransport

P = ParamSpec("P")
T = TypeVar("T")


class ThreadLoop(TrioLoop):
    """See the docstring of the module."""

    def __init__(self, zk: Client) -> None:
        super().__init__(lambda: int(zk.waiting.now() * 1000))
        self._zk = zk
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_told = False
        self._tasks = 0
        self._waiters: list[Waiter] = []

    def begin(self, turn: Callable[[], int | None]) -> None:
        """Start the thread."""
        has_begun = threading.Event()

        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            has_begun.set()
            await self.run(turn)

        def live() -> None:
            is_done = False
            try:
                trio.run(main)
                is_done = True
            finally:
                if not is_done:
                    # It is raised where the store is closed.
                    self._failure = sys.exception()
                has_begun.set()

        self._thread = threading.Thread(target=live, name="zab-ledgers", daemon=True)
        self._thread.start()
        has_begun.wait()

    def end(self) -> None:
        """Ends the thread. Raises what went wrong in it. Called without the monitor."""
        assert self._token is not None
        assert self._thread is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(super().stop)
        self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def soon(self) -> None:
        """From any thread that holds the monitor."""
        if not self._is_told and self._token is not None:
            self._is_told = True
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(super().soon)

    def dial(self, connection: BookieConnection, host: str, port: int) -> TrioTransport:
        assert self._token is not None
        transport = ThreadTransport(self, connection, self._token)
        self._token.run_sync_soon(self.in_nursery, lambda: transport.serve(host, port))
        return transport

    def call(self, do: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        with self._zk.alone():
            self._is_told = False
            return do(*given, **options)

    # ----------------------------------------------------------------------------------------------- beside the callers

    def start(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks += 1
        # The caller holds the monitor, which the task needs to begin.
        _begin("zab-ledgers-task", lambda: self._zk.run(task())).add_done_callback(self._task_is_over)

    def _task_is_over(self, task: Future[None]) -> None:
        with self._zk.alone():
            self._failure = self._failure or task.exception()
            self._tasks -= 1
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.wake()

    async def settled(self) -> None:
        """Returns when all that was started is over. A thread cannot be cancelled: it ends by itself."""
        while self._tasks:
            waiter = self._zk.waiting.waiter()
            self._waiters.append(waiter)
            await waiter.wait()

    async def in_thread(self, do: Callable[[], T]) -> T:
        waiter = self._zk.waiting.waiter()

        def work() -> T:
            try:
                return do()
            finally:
                with self._zk.alone():
                    waiter.wake()

        future = _begin("zab-ledgers-files", work)
        await waiter.wait()
        return future.result()


def _begin(name: str, do: Callable[[], T]) -> Future[T]:
    """Do this in a thread of its own, for which the end of the process does not wait: a file system may hang."""
    future: Future[T] = Future()

    def failed(_kind: object, error: BaseException | None, _traceback: object) -> bool:
        if error is not None:
            future.set_exception(error)
        return True

    def live() -> None:
        with ExitStack() as stack:
            stack.push(failed)
            future.set_result(do())

    threading.Thread(target=live, name=name, daemon=True).start()
    return future


class ThreadTransport(TrioTransport):
    """A transport that any thread may close."""

    def __init__(self, loop: ThreadLoop, connection: BookieConnection, token: trio.lowlevel.TrioToken) -> None:
        super().__init__(loop, connection)
        self._token = token

    def close(self) -> None:
        self._is_closed = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
