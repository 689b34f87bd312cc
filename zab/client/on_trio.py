"""The client on trio: `connect`, and the tasks that move bytes between streams and the core.

    connect()                   the caller's block; owns the nursery, closes the session when the block is left
    └─ OnTrio.run               as long as the session lives: carries out the core's wishes, and polls it in time
       ├─ _link                 one attempt: dials, then reads; a HangUp cancels it
       │  └─ _write             what the core has to send -> stream; sleeps while there is nothing
       └─ _probe                asks another server with `isro`

A task never raises what a server did: it tells the core. What `run` raises is a bug or a cancellation.
"""

import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, Unpack

import trio

from zab.client.building import Options, addresses_in, connect_wait_ms, context_of, new_runtime
from zab.client.client import Client
from zab.client.connecting import Connecting
from zab.client.core.hosts import Host, Place
from zab.client.core.runtime import Runtime
from zab.client.core.servers import PROBE_WAIT_S, Dial, HangUp, Probe, Wish
from zab.client.forks import Origin
from zab.client.nursery import hidden_nursery
from zab.client.tls import ENDED

__all__ = ["Dialler", "connect"]

Dialler: TypeAlias = Callable[[Host], Awaitable[trio.abc.Stream]]

RECEIVE_BYTES: Final = 65536


def connect(hosts: str, *, dial: Dialler | None = None, **options: Unpack[Options]) -> Connecting:
    """A client on trio, whose session lives as long as the block. See `Options` for the keywords and what is raised.

    dial: opens the streams instead of TCP. Raises RuntimeError if trio does not run.
    """
    return Connecting(_connect(hosts, dial, options))


@asynccontextmanager
async def _connect(hosts: str, dial: Dialler | None, options: Options) -> AsyncIterator[Client]:
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "zab.client needs trio: run it with trio.run(main), not with asyncio.run(main); "
            "zab.client.aio is the same for asyncio, zab.client.sync for threads"
        )
    backend = (
        OnTrio(tcp(context_of(options)), resolves=True) if dial is None else OnTrio(_by_host(dial), resolves=False)
    )
    runtime = new_runtime(backend, hosts, options)
    async with hidden_nursery() as nursery:
        nursery.start_soon(backend.run, runtime)
        try:
            await runtime.wait_connected(connect_wait_ms(runtime))
            yield Client(runtime)
        finally:
            if backend.origin.is_forked:
                runtime.abandon()
            else:
                await runtime.close()


class AddressDialler(Protocol):
    """address: one of those that the host's name stands for; None: let the name be resolved."""

    def __call__(self, host: Host, address: str | None = None, /) -> Awaitable[trio.abc.Stream]: ...


class _Waiter:
    """Something that happens once, for one task."""

    __slots__ = ("_task", "is_woken")

    def __init__(self) -> None:
        self.is_woken = False
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            if self._task is not None:
                trio.lowlevel.reschedule(self._task)
                self._task = None

    async def wait(self) -> None:
        if self.is_woken:
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class _Scope:
    """A time limit."""

    def __init__(self, seconds: float | None, shield: bool) -> None:
        self._scope = trio.CancelScope(shield=shield)
        self._seconds = seconds

    @property
    def is_over(self) -> bool:
        return self._scope.cancelled_caught

    async def __aenter__(self) -> Self:
        if self._seconds is not None:
            self._scope.deadline = trio.current_time() + self._seconds
        self._scope.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(self._scope.__exit__(kind, error, traceback))


class OnTrio:
    """The backend of trio (`zab.client.core.backends`), and what drives the core.

    dial: opens streams. resolves: whether to resolve names, and dial each of their addresses.
    """

    def __init__(self, dial: AddressDialler, *, resolves: bool) -> None:
        self.origin = Origin()
        self._dial = dial
        self._resolves = resolves
        self._scopes: dict[int, trio.CancelScope] = {}
        self._has_attention = False
        self._attending = trio.lowlevel.ParkingLot()
        self._unsent = trio.lowlevel.ParkingLot()

    # The backend.

    @property
    def caller(self) -> trio.lowlevel.Task:
        return trio.lowlevel.current_task()

    def check(self) -> None:
        self.origin.check()

    def now(self) -> float:
        return trio.current_time()

    def waiter(self) -> _Waiter:
        return _Waiter()

    def move_on_after(self, seconds: float | None, *, shield: bool = False) -> _Scope:
        return _Scope(seconds, shield)

    async def checkpoint_if_cancelled(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    async def checkpoint(self) -> None:
        await trio.lowlevel.checkpoint()

    def attend(self) -> None:
        self._has_attention = True
        self._attending.unpark()

    def flush(self) -> None:
        self._unsent.unpark()

    # The tasks.

    async def run(self, runtime: Runtime) -> None:
        """Runs until the session is over. A cancelled block still has to close its session, which takes these tasks."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                todo = runtime.poll(_now_ms())
                while True:
                    if not self.origin.is_forked:
                        for wish in todo.wishes:
                            self._carry_out(runtime, wish, nursery)
                    if todo.is_over:
                        break
                    await self._rest(todo.poll_at)
                    todo = runtime.poll(_now_ms())
                nursery.cancel_scope.cancel()

    def _carry_out(self, runtime: Runtime, wish: Wish, nursery: trio.Nursery) -> None:
        match wish:
            case Dial(attempt, host, address):
                scope = self._scopes[attempt] = trio.CancelScope()
                nursery.start_soon(self._link, runtime, attempt, host, address, scope)
            case HangUp(attempt):
                self._scopes.pop(attempt).cancel()
            case Probe(attempt, place):
                nursery.start_soon(self._probe, runtime, attempt, place)

    async def _rest(self, until: float | None) -> None:
        """Waits until the core is to be polled again."""
        if not self._has_attention:
            with trio.move_on_at(float("inf") if until is None else until):
                await self._attending.park()
        self._has_attention = False

    async def _link(
        self, runtime: Runtime, attempt: int, host: Host, address: str | None, scope: trio.CancelScope
    ) -> None:
        with scope:
            try:
                if address is None and self._resolves:
                    found = addresses_in(await trio.socket.getaddrinfo(*host, type=trio.socket.SOCK_STREAM))
                    address = runtime.found(attempt, found, _now_ms())
                    if address is None:
                        return
                stream = await self._dial(host, address)
            except (OSError, UnicodeError, trio.BrokenResourceError) as error:
                runtime.not_dialled(attempt, error, _now_ms())
                return
            try:
                if runtime.dialled(attempt, _now_ms()):
                    self.origin.socket = _socket_of(stream)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write, runtime, attempt, stream)
                        await self._read(runtime, attempt, stream)
            finally:
                self.origin.socket = None
                await trio.aclose_forcefully(stream)

    async def _read(self, runtime: Runtime, attempt: int, stream: trio.abc.Stream) -> None:
        while True:
            try:
                data = await stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return runtime.broke(attempt, error, _now_ms())
            if not data:
                return runtime.broke(attempt, None, _now_ms())
            runtime.received(attempt, bytes(data), _now_ms())

    async def _write(self, runtime: Runtime, attempt: int, stream: trio.abc.Stream) -> None:
        while True:
            data = runtime.take(_now_ms())
            if not data:
                await self._unsent.park()
                continue
            try:
                await stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return runtime.broke(attempt, error, _now_ms())

    async def _probe(self, runtime: Runtime, attempt: int, place: Place) -> None:
        is_writable = False
        with trio.move_on_after(PROBE_WAIT_S), suppress(OSError, UnicodeError, trio.BrokenResourceError):
            address = place.address
            if self._resolves:
                found = addresses_in(await trio.socket.getaddrinfo(*place.host, type=trio.socket.SOCK_STREAM))
                place = runtime.found_other(attempt, place, found)
                address = place.address or found[0]
            async with await self._dial(place.host, address) as stream:
                await stream.send_all(b"isro")
                is_writable = await stream.receive_some(8) == b"rw"
        runtime.probed(attempt, place, is_writable, _now_ms())


def _now_ms() -> int:
    return int(trio.current_time() * 1000)


def _socket_of(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """The socket below the stream; None if there is none."""
    inner = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    return inner.socket if isinstance(inner, trio.SocketStream) else None


def _by_host(dial: Dialler) -> AddressDialler:
    return lambda host, _address=None: dial(host)


def tcp(context: ssl.SSLContext | None) -> AddressDialler:
    """Dials a server over TCP, or over TLS if there is a context: then it returns after the handshake."""

    async def dial(host: Host, address: str | None = None) -> trio.abc.Stream:
        try:
            stream = await trio.open_tcp_stream(address or host.name, host.port)
        except OSError as error:
            raise _told(error) from None
        if context is None:
            return stream
        secured = trio.SSLStream(stream, context, server_hostname=host.name, https_compatible=True)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error.__cause__, ssl.SSLError) and not isinstance(error.__cause__, ssl.SSLEOFError):
                raise
            raise ConnectionAbortedError(ENDED) from None
        except trio.Cancelled:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    return dial


def _told(error: OSError) -> OSError:
    """Why there is no connection: trio wraps several attempts in one error, and its text repeats the address."""
    inner: BaseException | None = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    found = inner if isinstance(inner, OSError) else error
    if found.errno is None or isinstance(found, socket.gaierror):
        return found
    return OSError(found.errno, os.strerror(found.errno))
