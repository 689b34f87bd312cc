"""The client on asyncio: `async with zab.client.aio.connect("host:port,…") as zk: …`; the same names as on trio.

    connect()                   the caller's block; closes the session when the block is left
    └─ OnAsyncio                callbacks of the loop: there is no task between a caller and the socket
       ├─ _Wire                 one attempt's protocol: bytes in, to the core; tells when the transport takes more
       ├─ _dial                 a task while an attempt dials
       └─ _probe                a task that asks another server with `isro`

All requests of one turn of the loop are sent together at its end.

A bug in this module or in the core must not end in the loop's log, where nobody sees it: it ends the client, and is
raised at the end of the block.
"""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, Unpack

from zab.client.building import Options, addresses_in, connect_wait_ms, context_of, new_runtime
from zab.client.client import Client
from zab.client.connecting import Connecting
from zab.client.core.hosts import Host, Place
from zab.client.core.runtime import Runtime
from zab.client.core.servers import PROBE_WAIT_S, Dial, HangUp, Probe, Wish
from zab.client.forks import Descriptor, Origin
from zab.client.tls import ENDED

__all__ = ["connect"]


def connect(hosts: str, **options: Unpack[Options]) -> Connecting:
    """A client on asyncio, whose session lives as long as the block. See `Options` for the keywords."""
    return Connecting(_connect(hosts, options))


@asynccontextmanager
async def _connect(hosts: str, options: Options) -> AsyncIterator[Client]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "zab.client.aio needs asyncio: run it with asyncio.run(main()); zab.client is the same for trio, "
            "zab.client.sync for threads"
        ) from None
    backend = OnAsyncio(context_of(options))
    runtime = new_runtime(backend, hosts, options)
    backend.start(runtime)
    try:
        await runtime.wait_connected(connect_wait_ms(runtime))
        yield Client(runtime)
    finally:
        if backend.origin.is_forked:
            runtime.abandon()
        else:
            await runtime.close()
            await backend.end()


class _Waiter:
    """Something that happens once, for one task."""

    __slots__ = ("_future", "_loop", "is_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_woken = False
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            if self._future is not None and not self._future.done():
                self._future.set_result(None)

    async def wait(self) -> None:
        if not self.is_woken:
            self._future = self._loop.create_future()
            await self._future


class _Scope:
    """A time limit. A cancellation from outside cannot be deferred in asyncio."""

    def __init__(self, seconds: float | None) -> None:
        self.is_over = False
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        self._timeout = asyncio.timeout(self._seconds)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._timeout is not None
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            self.is_over = True
        return self.is_over


class OnAsyncio:
    """The backend of asyncio (`zab.client.core.backends`), and what drives the core."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.origin = Origin()
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._runtime: Runtime | None = None
        self._wire: _Wire | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None

    # The backend.

    @property
    def caller(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task()

    def check(self) -> None:
        self.origin.check()

    def now(self) -> float:
        return self._loop.time()

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def waiter(self) -> _Waiter:
        return _Waiter(self._loop)

    def move_on_after(self, seconds: float | None, *, shield: bool = False) -> _Scope:
        return _Scope(seconds)

    async def checkpoint_if_cancelled(self) -> None:
        """asyncio cancels only where a caller waits."""

    async def checkpoint(self) -> None:
        """asyncio cancels only where a caller waits."""

    def attend(self) -> None:
        self._loop.call_soon(self._attend)

    def flush(self) -> None:
        self._loop.call_soon(self._flush)

    # The loop's callbacks.

    def start(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.attend()

    async def end(self) -> None:
        """Closes everything before it returns. Raises what went wrong in a callback."""
        self._attend()
        tasks = [*self._tasks.values(), *self._probes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        if self._failure is not None:
            raise self._failure

    def guarded(self, step: Callable[[Runtime], None]) -> None:
        """Runs a step of the core. An exception is a bug, and ends the client."""
        runtime = self._runtime
        assert runtime is not None
        is_done = False
        try:
            step(runtime)
            is_done = True
        finally:
            if not is_done:
                self._failure = sys.exception()
                runtime.abandon()

    def _attend(self) -> None:
        self.guarded(self._step)

    def _step(self, runtime: Runtime) -> None:
        if self.origin.is_forked:
            return
        todo = runtime.poll(self.now_ms())
        for wish in todo.wishes:
            self._carry_out(runtime, wish)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if todo.poll_at is not None:
            self._timer = self._loop.call_at(todo.poll_at, self._attend)

    def _carry_out(self, runtime: Runtime, wish: Wish) -> None:
        match wish:
            case Dial(attempt, host, address):
                self._tasks[attempt] = self._loop.create_task(self._dial(runtime, attempt, host, address))
            case HangUp(attempt):
                task = self._tasks.pop(attempt, None)
                if task is not None:
                    task.cancel()
                if self._wire is not None and self._wire.attempt == attempt:
                    self._wire.abort()
                    self._wire = None
            case Probe(attempt, place):
                task = self._loop.create_task(self._probe(runtime, attempt, place))
                self._probes.add(task)
                task.add_done_callback(self._probes.discard)

    def _flush(self) -> None:
        if self._wire is not None and self._wire.takes_more:
            self.guarded(self._send)

    def _send(self, runtime: Runtime) -> None:
        assert self._wire is not None
        data = runtime.take(self.now_ms())
        if data:
            self._wire.write(data)

    # Attempts.

    async def _dial(self, runtime: Runtime, attempt: int, host: Host, address: str | None) -> None:
        wire = _Wire(self, attempt, self._loop.create_future())
        name = None if self._context is None else host.name
        try:
            if address is None:
                found = addresses_in(await self._loop.getaddrinfo(*host, type=socket.SOCK_STREAM))
                address = runtime.found(attempt, found, self.now_ms())
            if address is None:
                return
            await self._loop.create_connection(
                lambda: wire, address, host.port, ssl=self._context, server_hostname=name
            )
        except (OSError, UnicodeError) as error:
            self._tasks.pop(attempt, None)
            failure = _told(error) if isinstance(error, OSError) else error
            self.guarded(lambda runtime: runtime.not_dialled(attempt, failure, self.now_ms()))
            return
        self._closing.add(wire.closed)
        wire.closed.add_done_callback(self._closing.discard)
        self._tasks.pop(attempt, None)
        if not runtime.dialled(attempt, self.now_ms()):
            wire.abort()
            return
        self._wire = wire
        self.origin.socket = wire.socket
        wire.begin()
        self._flush()

    async def _probe(self, runtime: Runtime, attempt: int, place: Place) -> None:
        is_writable = False
        with suppress(OSError, UnicodeError):
            async with asyncio.timeout(PROBE_WAIT_S):
                found = addresses_in(await self._loop.getaddrinfo(*place.host, type=socket.SOCK_STREAM))
                place = runtime.found_other(attempt, place, found)
                is_writable = await self._is_writable(place.host, place.address or found[0])
        self.guarded(lambda runtime: runtime.probed(attempt, place, is_writable, self.now_ms()))

    async def _is_writable(self, host: Host, address: str) -> bool:
        writer: asyncio.StreamWriter | None = None
        name = None if self._context is None else host.name
        try:
            async with asyncio.timeout(PROBE_WAIT_S):
                reader, writer = await asyncio.open_connection(
                    address, host.port, ssl=self._context, server_hostname=name
                )
                writer.write(b"isro")
                return await reader.read(8) == b"rw"
        except (OSError, UnicodeError):
            return False
        finally:
            if writer is not None:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


class _Wire(asyncio.Protocol):
    """One attempt's connection. `closed` is done once it is fully closed."""

    def __init__(self, backend: OnAsyncio, attempt: int, closed: "asyncio.Future[None]") -> None:
        self.attempt = attempt
        self.closed = closed
        self._backend = backend
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._is_ended = False
        self._error: Exception | None = None
        self._is_begun = False
        self._is_paused = False

    @property
    def socket(self) -> Descriptor | None:
        found: Descriptor | None = None if self._transport is None else self._transport.get_extra_info("socket")
        return found

    @property
    def takes_more(self) -> bool:
        return self._transport is not None and not self._is_paused

    def begin(self) -> None:
        """The core has accepted the connection: hands it what was received meanwhile."""
        self._is_begun = True
        for data in self._early:
            self.data_received(data)
        if self._is_ended:
            self._tell_end()

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_begun:
            self._backend.guarded(lambda runtime: runtime.received(self.attempt, data, self._backend.now_ms()))
        else:
            self._early.append(data)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._backend.flush()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._transport = None
        self._is_ended, self._error = True, error
        if self._is_begun:
            self._tell_end()

    def _tell_end(self) -> None:
        self._backend.guarded(lambda runtime: runtime.broke(self.attempt, self._error, self._backend.now_ms()))


def _told(error: OSError) -> OSError:
    """Why there is no connection. An end during the TLS handshake is not a fault of TLS."""
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError) and not error.errno:
        return ConnectionAbortedError(ENDED)
    if error.errno is not None and not isinstance(error, ssl.SSLError | socket.gaierror):
        # asyncio's text repeats the address, and does not say what happened.
        return OSError(error.errno, os.strerror(error.errno))
    return error
