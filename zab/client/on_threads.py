"""The client for threads that block: the backend of threads, and the thread that drives the core.

    backend = OnThreads(context)
    backend.start(runtime)
    data, stat = backend.run(zk.get("/a"))      # from any thread

A coroutine of a client awaits nothing but its backend, and the waits of this backend block. So it runs from its first
step to its end in the thread that calls it, and the coroutines written for trio and asyncio work here as well.

    a caller's thread           runs coroutines; sends their requests, as far as the socket takes them
    zab-client                  reads the socket, keeps time, sends the rest
    zab-client-dial             one for each attempt: resolves, connects, does the TLS handshake, ends

A thread that runs code of the client holds the monitor, and releases it while it waits: so between two waits a caller
is alone, as on trio and asyncio.

Threads that are woken together send their next requests together. So a request is sent by the last of the threads that
were woken and have not run yet: many requests in one system call, and in one packet. It waits for them at most
GATHER_S_MAX.

A `KeyboardInterrupt` and a time limit end a wait, as a cancellation does on trio and asyncio.

Limits: a thread that dials a server that does not answer outlives a closed client by its share of the session timeout;
it is a daemon.
"""

import os
import selectors
import socket
import ssl
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from zab.client.building import addresses_in
from zab.client.core.hosts import Host, Place
from zab.client.core.runtime import Runtime, Todo
from zab.client.core.servers import PROBE_WAIT_S, Dial, HangUp, Probe, Wish
from zab.client.forks import Origin
from zab.client.tls import ENDED

__all__ = ["OnThreads", "Scope"]

T = TypeVar("T")

RECEIVE_BYTES: Final = 65536
GATHER_S_MAX: Final = 0.005
"""A request that waits for woken threads is sent by the first thread that runs after this time."""
# threading.Lock takes no longer timeout; nothing waits this long.
WAIT_S_MAX: Final = threading.TIMEOUT_MAX


class _OverError(BaseException):
    """The time of a scope is over: unwinds to the scope, as a cancellation does."""

    def __init__(self, scope: "Scope") -> None:
        super().__init__("a limit of time is over")
        self.scope = scope


class _Waiter:
    """Something that happens once, for one thread."""

    __slots__ = ("_backend", "is_awaited", "is_woken", "lock")

    def __init__(self, backend: "OnThreads") -> None:
        self.is_woken = False
        self.is_awaited = False
        self.lock = threading.Lock()
        self.lock.acquire()
        self._backend = backend

    def wake(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            if self.is_awaited:
                self._backend.woken_count += 1
            self.lock.release()

    async def wait(self) -> None:
        if not self.is_woken:
            self._backend.wait(self)


class Scope:
    """A time limit of the thread that enters it."""

    def __init__(self, backend: "OnThreads", seconds: float | None) -> None:
        self.is_over = False
        self.deadline = WAIT_S_MAX
        self._backend = backend
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        if self._seconds is not None:
            self.deadline = self._backend.now() + self._seconds
        self._backend.scopes.append(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._backend.scopes.remove(self)
        self.is_over = isinstance(error, _OverError) and error.scope is self
        return self.is_over


class _Alone:
    """Holds the monitor of a backend within its block."""

    __slots__ = ("_backend",)

    def __init__(self, backend: "OnThreads") -> None:
        self._backend = backend

    def __enter__(self) -> None:
        self._backend.enter()

    def __exit__(self, *_: object) -> None:
        self._backend.leave()


class OnThreads:
    """The backend of threads (`zab.client.core.backends`), and what drives the core."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.origin = Origin()
        self._context = context
        self.woken_count = 0
        """How many threads were woken and have not run since."""
        self._monitor = threading.Lock()
        self._alone = _Alone(self)
        self._local = threading.local()
        self._runtime: Runtime | None = None
        self._thread = threading.Thread(target=self._live, name="zab-client", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._alarm_in, self._alarm_out = os.pipe()
        os.set_blocking(self._alarm_in, False)
        self._is_alarmed = False
        self._attends = False
        self._flushes = False
        self._gathers_since: float | None = None
        self._attempt = 0
        self._socket: socket.socket | None = None
        self._unsent = b""
        self._asks_for_room = False
        self._failure: BaseException | None = None

    # The backend.

    @property
    def caller(self) -> object:
        """An object of this thread alone: the system gives the identity of a thread to a later one."""
        return self._local.__dict__.setdefault("caller", object())

    def check(self) -> None:
        self.origin.check()

    def now(self) -> float:
        return time.monotonic()

    def waiter(self) -> _Waiter:
        return _Waiter(self)

    def move_on_after(self, seconds: float | None, *, shield: bool = False) -> Scope:
        return Scope(self, seconds)

    async def checkpoint_if_cancelled(self) -> None:
        self._raise_if_late()

    async def checkpoint(self) -> None:
        self._raise_if_late()

    def attend(self) -> None:
        self._attends = True

    def flush(self) -> None:
        self._flushes = True

    # Callers.

    @property
    def scopes(self) -> list[Scope]:
        """The scopes that this thread is in, the innermost last."""
        scopes: list[Scope] = self._local.__dict__.setdefault("scopes", [])
        return scopes

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine to its end in this thread."""
        if self.origin.is_forked:
            coroutine.close()
        with self.alone():
            try:
                coroutine.send(None)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                coroutine.close()
        raise RuntimeError("only what waits for the client alone runs here: it awaited something else")

    def alone(self) -> AbstractContextManager[None]:
        """No other thread runs code of the client meanwhile."""
        return self._alone

    def enter(self) -> None:
        """Takes the monitor; an interrupt is raised once it is held. Raises ForkedError in a fork, where the thread
        that held the monitor does not exist."""
        self.origin.check()
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                self._monitor.acquire()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def leave(self) -> None:
        """Sends what is due, wakes the core's thread if it has something to do, and releases the monitor."""
        try:
            self._settle()
        finally:
            self._monitor.release()

    def _settle(self) -> None:
        if self._flushes and not self._gathers():
            self._send()
        if self._attends and not self._is_alarmed and threading.current_thread() is not self._thread:
            self._is_alarmed = True
            os.write(self._alarm_out, b"!")

    def _gathers(self) -> bool:
        """Whether a thread that was woken will soon run, and send what there is."""
        if not self.woken_count:
            return False
        now = self.now()
        if self._gathers_since is None:
            self._gathers_since = now
        return now - self._gathers_since < GATHER_S_MAX

    def wait(self, waiter: _Waiter) -> None:
        """Waits until it is woken. Raises _OverError if the time of a scope is over before."""
        scope = min(self.scopes, key=lambda scope: scope.deadline, default=None)
        seconds = -1.0 if scope is None or scope.deadline >= WAIT_S_MAX else max(scope.deadline - self.now(), 0)
        waiter.is_awaited = True
        self.leave()
        try:
            waiter.lock.acquire(timeout=min(seconds, WAIT_S_MAX))
        finally:
            self._enter_after(waiter)
        if not waiter.is_woken:
            assert scope is not None
            raise _OverError(scope)

    def _enter_after(self, waiter: _Waiter) -> None:
        """Takes the monitor after a wait, even if the wait was interrupted."""
        try:
            self.enter()
        finally:
            waiter.is_awaited = False
            self.woken_count -= waiter.is_woken

    def _raise_if_late(self) -> None:
        for scope in self.scopes:
            if scope.deadline <= self.now():
                raise _OverError(scope)

    # The core's thread.

    def start(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._selector.register(self._alarm_in, selectors.EVENT_READ)
        self._thread.start()

    def end(self) -> None:
        """Everything is closed when it returns, except for threads that dial. Raises what went wrong in the core's
        thread."""
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _live(self) -> None:
        runtime = self._runtime
        assert runtime is not None
        is_done = False
        try:
            todo = self._turn(runtime, [])
            while not todo.is_over:
                seconds = None if todo.poll_at is None else max(todo.poll_at - self.now(), 0)
                todo = self._turn(runtime, self._selector.select(seconds))
            is_done = True
        finally:
            with self.alone():
                if not is_done:
                    self._failure = sys.exception()
                    runtime.abandon()
                self._hang_up()
                # From here on the thread cannot be woken.
                self._is_alarmed = True
            self._selector.close()
            os.close(self._alarm_in)
            os.close(self._alarm_out)

    def _turn(self, runtime: Runtime, ready: list[tuple[selectors.SelectorKey, int]]) -> Todo:
        """Does what there is to do."""
        with self.alone():
            for key, events in ready:
                if key.fileobj == self._alarm_in:
                    self._is_alarmed = False
                    os.read(self._alarm_in, 64)
                elif key.fileobj is self._socket:
                    if events & selectors.EVENT_WRITE:
                        self._send()
                    if events & selectors.EVENT_READ:
                        self._receive(runtime)
            self._attends = False
            todo = runtime.poll(_now_ms())
            for wish in todo.wishes:
                self._carry_out(runtime, wish)
            return todo

    def _carry_out(self, runtime: Runtime, wish: Wish) -> None:
        match wish:
            case Dial(attempt, host, address):
                work = threading.Thread(
                    target=self._dial, args=(runtime, attempt, host, address), name="zab-client-dial", daemon=True
                )
                work.start()
            case HangUp(attempt):
                if attempt == self._attempt:
                    self._hang_up()
            case Probe(attempt, place):
                work = threading.Thread(
                    target=self._probe, args=(runtime, attempt, place), name="zab-client-dial", daemon=True
                )
                work.start()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self.origin.socket = None
            self._socket.close()
            self._socket = None
            self._unsent = b""

    def _send(self) -> None:
        """Sends as much as the socket takes; the rest when it takes more."""
        self._flushes = False
        self._gathers_since = None
        runtime = self._runtime
        assert runtime is not None
        try:
            while self._socket is not None:
                self._unsent = self._unsent or runtime.take(_now_ms())
                if not self._unsent:
                    break
                sent = self._socket.send(self._unsent)
                self._unsent = self._unsent[sent:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            runtime.broke(self._attempt, error, _now_ms())
            return
        self._listen()

    def _listen(self) -> None:
        """Asks the selector for readable data, and for room to write if something is unsent."""
        if self._socket is not None and self._asks_for_room is not bool(self._unsent):
            self._asks_for_room = bool(self._unsent)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._asks_for_room else 0)
            self._selector.modify(self._socket, events)

    def _receive(self, runtime: Runtime) -> None:
        """Reads what is there, once; with TLS all that is decrypted already, of which no selector knows."""
        while self._socket is not None:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                runtime.broke(self._attempt, error, _now_ms())
                return
            if not data:
                runtime.broke(self._attempt, None, _now_ms())
                return
            runtime.received(self._attempt, data, _now_ms())
            if not isinstance(self._socket, ssl.SSLSocket) or not self._socket.pending():
                return

    # Threads that dial.

    def _dial(self, runtime: Runtime, attempt: int, host: Host, address: str | None) -> None:
        try:
            if address is None:
                found = addresses_in(socket.getaddrinfo(*host, type=socket.SOCK_STREAM))
                with self.alone():
                    address = runtime.found(attempt, found, _now_ms())
            if address is None:
                return
            opened = self._open(host, address, runtime.patience_ms / 1000)
        except (OSError, UnicodeError) as error:
            with self.alone():
                failure = error if isinstance(error, OSError) else OSError(str(error))
                runtime.not_dialled(attempt, failure, _now_ms())
            return
        with self.alone():
            if self._thread.is_alive() and runtime.dialled(attempt, _now_ms()):
                opened.setblocking(False)
                self._socket, self._attempt, self._unsent, self._asks_for_room = opened, attempt, b"", False
                self.origin.socket = opened
                self._selector.register(opened, selectors.EVENT_READ)
                self._attends = self._flushes = True
                return
        opened.close()

    def _open(self, host: Host, address: str, limit: float) -> socket.socket:
        opened = socket.create_connection((address, host.port), timeout=limit)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        if self._context is None:
            return opened
        try:
            return self._context.wrap_socket(opened, server_hostname=host.name)
        except (ssl.SSLEOFError, ConnectionResetError):
            opened.close()
            raise ConnectionAbortedError(ENDED) from None
        except OSError:
            opened.close()
            raise

    def _probe(self, runtime: Runtime, attempt: int, place: Place) -> None:
        is_writable = False
        with suppress(OSError, UnicodeError):
            found = addresses_in(socket.getaddrinfo(*place.host, type=socket.SOCK_STREAM))
            with self.alone():
                place = runtime.found_other(attempt, place, found)
            with self._open(place.host, place.address or found[0], PROBE_WAIT_S) as opened:
                opened.sendall(b"isro")
                is_writable = opened.recv(8) == b"rw"
        with self.alone():
            runtime.probed(attempt, place, is_writable, _now_ms())


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
