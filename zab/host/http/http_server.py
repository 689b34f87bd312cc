"""HTTP for an ASGI application, with bounds on connections, times and requests.

    serve(listening)    serves until cancelled; then closes the socket, and all connections at once

Hypercorn speaks HTTP/1.1 on each connection, in tasks beside the loop. This module adds the limits that it lacks:

    connections_max   further connections are closed at once
    idle_ms           the time for a handshake; then for the whole head of a request, even if it trickles; and for the
                      client to read some of an answer
    HEAD_BYTES_MAX    the size of a request's first line and headers

HTTP/2 and WebSocket are not supported: they would need limits of their own.

Not here: the answers; the certificate.
"""

from __future__ import annotations

import errno
import socket
import ssl
from functools import partial
from typing import Any, Final, cast

import attrs
import h11
import trio
import wsproto.utilities
from h2.exceptions import H2Error
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from zab.host.journal.journal import Journal
from zab.host.tls.engine import sentence_of

HEAD_BYTES_MAX: Final = 16 << 10
PAUSE_SECONDS: Final = 0.1
_HANDSHAKE: Final = b"\x16"
"""The first byte of TLS."""
_HTTP_2: Final = b"PRI * HTTP/2"
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

OF_STRANGERS: Final = (
    *(OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError, trio.TooSlowError),
    *(h11.ProtocolError, H2Error, wsproto.utilities.ProtocolError),
    *(ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError),
)
"""Exceptions that the bytes of an unauthenticated client may cause in libraries: they end its connection, and nothing
else."""

journal = Journal("http")
of_strangers = Journal("http", is_of_strangers=True)


class BoundedStream(trio.abc.HalfCloseableStream):
    """A socket that waits at most `seconds` for its peer to read something. `socket` is for Hypercorn, which may
    continue for a while after the connection has ended; `ended` says so."""

    def __init__(self, sock: trio.socket.SocketType, seconds: float) -> None:
        self.socket = sock
        self._stream = trio.SocketStream(sock)
        self._seconds = seconds
        self._is_first = True
        self.ended = trio.Event()
        self.answering_count = 0
        self.quiet_since = trio.current_time()
        """When the last answer was sent."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with trio.move_on_after(self._seconds):
            await self._stream.send_all(data)
            return
        self.ended.set()
        raise trio.BrokenResourceError("it takes nothing")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._stream.receive_some(max_bytes)
        if not data or (self._is_first and data.startswith(_HTTP_2)):
            self.ended.set()
            return b""
        self._is_first = False
        return bytes(data)

    async def end_when_quiet(self) -> None:
        """End the connection if nothing was answered for `seconds`: it is idle, or sends no valid request."""
        while not self.ended.is_set():
            due = self.quiet_since + self._seconds
            if self.answering_count:
                due = trio.current_time() + self._seconds
            elif due <= trio.current_time():
                self.ended.set()
            await trio.sleep_until(due)

    async def aclose(self) -> None:
        self.ended.set()
        await self._stream.aclose()


@attrs.define
class HttpServer:
    """One port. `application` is an ASGI application; an exception of it ends the connection."""

    application: Any
    idle_ms: int
    connections_max: int
    context: ssl.SSLContext | None = None
    """The TLS context of new connections. None: no TLS."""
    takes_plain: bool = True
    """With a context: whether connections without TLS are also accepted."""
    _open: dict[trio.socket.SocketType, None] = attrs.field(factory=dict, init=False)

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled. Owns the socket."""
        config = self._configuration()
        listener = trio.socket.from_stdlib_socket(listening)
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        sock, (host, *_) = await listener.accept()
                    except OSError as error:
                        if error.errno in _OUT_OF_RESOURCES:
                            await trio.sleep(PAUSE_SECONDS)
                        continue  # otherwise that connection was gone before it was accepted
                    if len(self._open) >= self.connections_max:
                        sock.close()
                        continue
                    self._open[sock] = None
                    nursery.start_soon(self._converse, sock, host, config)
        finally:
            listener.close()

    def _configuration(self) -> Config:
        config = Config()
        config.keep_alive_timeout = config.ssl_handshake_timeout = self.idle_ms / 1000
        config.h11_max_incomplete_size = HEAD_BYTES_MAX
        config.h2_max_concurrent_streams = 1
        config.include_server_header = False
        config.errorlog = config.accesslog = None
        return config

    async def _converse(self, sock: trio.socket.SocketType, host: str, config: Config) -> None:
        try:
            bounded = BoundedStream(sock, self.idle_ms / 1000)
            stream = await self._secured(bounded)
            if stream is not None and await self._is_let_in(stream, host):
                bounded.quiet_since = trio.current_time()
                state: Any = ConnectionState({})
                application = ASGIWrapper(partial(self._answer, bounded))
                server = TCPServer(application, config, WorkerContext(None), state, cast(Any, stream))
                # Hypercorn sends in a shielded scope: it ends at once when the socket is closed.
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(bounded.end_when_quiet)
                    nursery.start_soon(_close_when_over, bounded, nursery.cancel_scope)
                    await server.run()
                    nursery.cancel_scope.cancel()
        except* OF_STRANGERS as errors:
            journal.warning("an HTTP connection was ended by an error", reason=repr(errors.exceptions[0]))
        finally:
            self._open.pop(sock, None)
            sock.close()

    async def _answer(self, stream: BoundedStream, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["http_version"] not in ("1.0", "1.1"):
            stream.ended.set()  # an upgrade, to WebSocket or to HTTP/2
            return
        stream.answering_count += 1
        try:
            await self.application(scope, receive, send)
        finally:
            stream.answering_count -= 1
            stream.quiet_since = trio.current_time()

    async def _secured(self, stream: BoundedStream) -> BoundedStream | trio.SSLStream[BoundedStream] | None:
        """The stream after the handshake; None: it is refused."""
        if self.context is None:
            return stream
        if self.takes_plain:
            with trio.move_on_after(self.idle_ms / 1000):
                first = await stream.socket.recv(1, socket.MSG_PEEK)
                if first and first != _HANDSHAKE:
                    return stream
                if not first:
                    return None
        return trio.SSLStream(stream, self.context, server_side=True, https_compatible=True)

    async def _is_let_in(self, stream: BoundedStream | trio.SSLStream[BoundedStream], host: str) -> bool:
        """Whether the handshake succeeds, if there is one. Connections that send nothing, as health checks do, are not
        logged."""
        if isinstance(stream, BoundedStream):
            return True
        try:
            with trio.fail_after(self.idle_ms / 1000):
                await stream.do_handshake()
            return True
        except trio.TooSlowError:
            reason = "the handshake took too long"
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            if not isinstance(cause, ssl.SSLError) or isinstance(cause, ssl.SSLEOFError):
                return False
            reason = sentence_of(cause)
        of_strangers.warning("TLS handshake failed -> connection is closed", client=host, reason=reason)
        return False


async def _close_when_over(stream: BoundedStream, scope: trio.CancelScope) -> None:
    try:
        await stream.ended.wait()
        scope.cancel()
    finally:
        stream.socket.close()
