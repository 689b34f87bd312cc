"""The I/O of a store on trio: the turns of its `Driving`, and its connections to bookies.

    run              one task: turns, when something happened or is due
    └─ _serve        one for each connection: dials, then reads
       └─ _drain     while the socket takes no more

Bytes are sent by the turn itself as far as the socket takes them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

import trio

from zab.ledgers.connection import BookieConnection

RECEIVE_BYTES: Final = 256 * 1024
SEND_BYTES: Final = 1024 * 1024
"""What waits to be sent goes to the socket in pieces of this size."""

P = ParamSpec("P")
T = TypeVar("T")


class TrioLoop:
    """See the docstring of the module."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._nursery: trio.Nursery | None = None
        self._parked = trio.lowlevel.ParkingLot()
        self._is_woken = False
        self._is_over = False

    # The loop of a driving.

    def soon(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._parked.unpark()

    def dial(self, connection: BookieConnection, host: str, port: int) -> TrioTransport:
        assert self._nursery is not None
        transport = TrioTransport(self, connection)
        self._nursery.start_soon(transport.serve, host, port)
        return transport

    def start(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.in_nursery(task)

    async def in_thread(self, do: Callable[[], T]) -> T:
        # A file system may hang for minutes; nobody waits for it at the end of the store.
        return await trio.to_thread.run_sync(do, abandon_on_cancel=True)

    # The task.

    async def run(
        self, turn: Callable[[], int | None], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Until `stop`. A cancelled block has to close its ledgers, which takes this task: it shields itself."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                while not self._is_over:
                    with trio.CancelScope() as timer:
                        await self._turns(turn, timer)
                self._nursery.cancel_scope.cancel()

    async def _turns(self, turn: Callable[[], int | None], timer: trio.CancelScope) -> None:
        """Turns, until the timer is due. It may be early: the next turn sets it again."""
        armed_ms: int | None = None
        while not self._is_over:
            self._is_woken = False
            due_ms = self.call(turn)
            if due_ms is not None and (armed_ms is None or due_ms < armed_ms):
                armed_ms = due_ms
                timer.deadline = trio.current_time() + max(due_ms + 1 - self.now_ms(), 0) / 1000
            if self._is_woken:
                await trio.lowlevel.cancel_shielded_checkpoint()
            else:
                await self._parked.park()

    def stop(self) -> None:
        """End `run`."""
        self._is_over = True
        TrioLoop.soon(self)

    def call(self, do: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        """Everything that belongs to the store is called from here."""
        return do(*given, **options)

    def in_nursery(self, task: Callable[[], Awaitable[object]]) -> None:
        """Begin a task of trio, in whose thread this is called."""
        assert self._nursery is not None
        self._nursery.start_soon(task)


class TrioTransport:
    """One connection to one bookie."""

    def __init__(self, loop: TrioLoop, connection: BookieConnection) -> None:
        self._loop = loop
        self._connection = connection
        self._scope = trio.CancelScope()
        self._fd = -1
        self._unsent = bytearray()
        self._is_draining = False
        self._is_closed = False

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        if self._is_closed:
            return
        if not self._unsent:
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError:
                # The reader notices, too, and tells.
                return
            if sent == len(data):
                return
            data = data[sent:]
        self._unsent += data
        if not self._is_draining:
            self._is_draining = True
            self._loop.in_nursery(self._drain)

    def close(self) -> None:
        self._is_closed = True
        self._scope.cancel()

    async def serve(self, host: str, port: int) -> None:
        """Dial, then read until it ends."""
        loop, connection = self._loop, self._connection
        with self._scope:
            try:
                stream = await trio.open_tcp_stream(host, port)
            except (OSError, UnicodeError, trio.BrokenResourceError):
                if not self._is_closed:
                    loop.call(connection.failed, loop.now_ms())
                return
            self._fd = stream.socket.fileno()
            try:
                if not self._is_closed:
                    loop.call(connection.opened)
                    await self._read()
            finally:
                self._fd = -1
                self._is_closed = True
                await trio.aclose_forcefully(stream)

    async def _read(self) -> None:
        loop, connection, fd = self._loop, self._connection, self._fd
        while True:
            await trio.lowlevel.wait_readable(fd)
            try:
                data = os.read(fd, RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if self._is_closed:
                return
            if not data:
                loop.call(connection.broke, loop.now_ms())
                return
            loop.call(connection.received, data)

    async def _drain(self) -> None:
        """Send the rest as the socket takes it."""
        try:
            while self._unsent and not self._is_closed:
                try:
                    await trio.lowlevel.wait_writable(self._fd)
                    sent = os.write(self._fd, self._unsent[:SEND_BYTES])
                except BlockingIOError:
                    continue
                except (OSError, trio.ClosedResourceError):
                    return
                del self._unsent[:sent]
        finally:
            self._is_draining = False
