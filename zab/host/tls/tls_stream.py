"""TLS over a trio stream, beside the loop: for slow exchanges, and for handshakes.

    secured = await dialled_tls(stream, context)            does the handshake of a stream that we dialled
    secured = await accepted_tls(stream, context, steps)    does the handshake of an inbound stream
    TlsStream(stream, side)                                 after a handshake that was done elsewhere

`steps` is a lock that all handshakes of a port share: its holder takes one step, and lets all other tasks run before
the next one. So a flood of handshakes costs the thread one step at a time (`handshakes` has the cost of a step).

Not here: TLS itself (`engine`), deadlines: callers cancel.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Final

import trio

from zab.host.tls.engine import FIRST_BYTE, TlsError, TlsSide

_RECEIVE_BYTES: Final = 16 << 10
_SEAL_BYTES_MAX: Final = 256 << 10
_FAREWELL_SECONDS: Final = 1.0


class TlsStream(trio.abc.HalfCloseableStream):
    """A TLS stream whose handshake is done. One task may receive while others send."""

    def __init__(self, stream: trio.SocketStream, side: TlsSide) -> None:
        self.stream = stream
        self.side = side
        self._sending = trio.Lock()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises trio.BrokenResourceError."""
        view = memoryview(data)
        async with self._sending:
            for begin in range(0, len(view), _SEAL_BYTES_MAX):
                try:
                    sealed = self.side.seal(view[begin : begin + _SEAL_BYTES_MAX])
                except TlsError as error:
                    raise trio.BrokenResourceError(str(error)) from error
                await self.stream.send_all(sealed)

    async def wait_send_all_might_not_block(self) -> None:
        async with self._sending:
            await self.stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        async with self._sending:
            await self.stream.send_all(self.side.finish())
            await self.stream.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Raises trio.BrokenResourceError."""
        wanted = max_bytes or _RECEIVE_BYTES
        side = self.side
        while not side.is_closed:
            data = b"" if side.has_more else bytes(await self.stream.receive_some(_RECEIVE_BYTES))
            if not data and not side.has_more:
                break
            try:
                plain, out = side.feed(data, wanted)
            except TlsError as error:
                await _say_farewell(self.stream, error)
                raise trio.BrokenResourceError(str(error)) from error
            if out:
                async with self._sending:
                    await self.stream.send_all(out)
            if plain:
                await trio.lowlevel.checkpoint()
                return plain
        await trio.lowlevel.checkpoint()
        return b""

    async def aclose(self) -> None:
        """Close at once: bytes that are still being sent may be lost."""
        await self.stream.aclose()


async def dialled_tls(stream: trio.SocketStream, context: ssl.SSLContext) -> TlsStream:
    """Do the handshake of a stream that we dialled. Raises OSError, including `TlsError`; then the stream is closed."""
    side = TlsSide(context, has_dialled=True)
    async with _closed_on_failure(stream):
        await stream.send_all(side.feed(b"", 0)[1])
        while not side.is_ready:
            await _step(stream, side, await _next(stream))
    return TlsStream(stream, side)


async def accepted_tls(stream: trio.SocketStream, context: ssl.SSLContext, steps: trio.Lock) -> TlsStream:
    """Do the handshake of an inbound stream. Raises as `dialled_tls` does."""
    side = TlsSide(context)
    async with _closed_on_failure(stream):
        while not side.is_ready:
            data = await _next(stream)
            async with steps:
                _, out = side.feed(data, 0)
                await trio.lowlevel.checkpoint()
            if out:
                # Outside the lock: a peer that reads nothing delays only itself.
                await stream.send_all(out)
    return TlsStream(stream, side)


async def speaks_tls(stream: trio.SocketStream) -> bool:
    """Whether the peer begins with TLS. Takes nothing from the stream. Raises OSError."""
    return await stream.socket.recv(1, trio.socket.MSG_PEEK) == FIRST_BYTE


@contextlib.asynccontextmanager
async def _closed_on_failure(stream: trio.SocketStream) -> AsyncIterator[None]:
    with contextlib.ExitStack() as undo:
        # A handshake that fails or is cancelled must not leave the socket to the garbage collector.
        undo.callback(stream.socket.close)
        try:
            yield
        except TlsError as error:
            await _say_farewell(stream, error)
            raise
        except trio.BrokenResourceError:
            raise ConnectionError("the connection broke during the TLS handshake") from None
        undo.pop_all()


async def _next(stream: trio.SocketStream) -> bytes:
    data = bytes(await stream.receive_some(_RECEIVE_BYTES))
    if not data:
        raise ConnectionAbortedError("it closed the connection within the handshake, as a port without TLS does")
    return data


async def _step(stream: trio.SocketStream, side: TlsSide, data: bytes) -> None:
    _, out = side.feed(data, 0)
    if out:
        await stream.send_all(out)


async def _say_farewell(stream: trio.SocketStream, error: TlsError) -> None:
    """Tell the peer why the handshake failed, and wait until it closes: closing with unread bytes would reset the
    connection and lose the reason."""
    if error.farewell:
        with trio.move_on_after(_FAREWELL_SECONDS), contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(error.farewell)
            await stream.send_eof()
            while await stream.receive_some(_RECEIVE_BYTES):
                pass
