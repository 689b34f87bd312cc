"""The I/O of a store for threads that block: trio in a thread of its own, which takes the client's monitor.

    a caller's thread       runs the coroutines of the store, as it runs those of its client
    zab-ledgers             turns, sockets, timers

Every call into the store holds the monitor of the client, whichever thread makes it: so between two waits a caller is
alone, as on trio and asyncio.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, ParamSpec, TypeVar

import trio

from zab.ledgers.connection import BookieConnection
from zab.ledgers.on_trio import TrioLoop, TrioTransport

P = ParamSpec("P")
T = TypeVar("T")


class ThreadLoop(TrioLoop):
    """`alone`: holds the monitor of the client in its block."""

    def __init__(self, now_ms: Callable[[], int], alone: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__(now_ms)
        self._alone = alone
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_told = False

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
        self._token.run_sync_soon(self.start, lambda: transport.serve(host, port))
        return transport

    def call(self, do: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        with self._alone():
            self._is_told = False
            return do(*given, **options)


class ThreadTransport(TrioTransport):
    """A transport that any thread may close."""

    def __init__(self, loop: ThreadLoop, connection: BookieConnection, token: trio.lowlevel.TrioToken) -> None:
        super().__init__(loop, connection)
        self._token = token

    def close(self) -> None:
        self._is_closed = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
