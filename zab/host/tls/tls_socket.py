"""TLS over one socket that does not block: it receives and sends as the socket would, in clear.

    receive(count_max)      as `recv`: BlockingIOError where nothing has come, b"" at the end
    send(data)              as `send`; one that would block is called again with the same bytes first
    push()                  send of `sealed_bytes` what the kernel takes
    finish()                tell the other side that nothing follows

What is decrypted and not taken yet makes no socket readable: `has_more` says that it is there.

Not every client knows that: ZooKeeper's in C waits for its socket, and would find what came in the record of an answer
before only when something else comes. So for clients each frame begins a record (`SealedFrames`), as ZooKeeper does it.

Limits: `SEAL_BYTES_MAX` are sealed at a time, and kept until the kernel has taken them. At twice that, which only the
other side brings about, by asking for new keys of TLS and reading nothing, it is over.

Not here: the handshake (`handshakes`, `tls_stream`); who waits for the socket.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from zab.host.tls.engine import TlsError, TlsSide
from zab.wire.frames import LENGTH_BYTES

SEAL_BYTES_MAX: Final = 256 << 10


class SealedSocket:
    """One whose handshake is done."""

    __slots__ = ("_has_said_goodbye", "_sealed", "_sealed_for", "_socket", "idle_bytes", "is_finished", "side")

    def __init__(self, sock: socket.socket, side: TlsSide) -> None:
        self.side = side
        self.idle_bytes = 0
        """What the last `receive` took from the socket without giving anything."""
        self.is_finished = False
        """The other side was told that nothing follows."""
        self._has_said_goodbye = False
        """TLS takes and gives nothing more."""
        self._socket = sock
        self._sealed = memoryview(b"")
        self._sealed_for = 0
        """The first so many bytes of what is to be sent are sealed already, whether or not they are sent."""

    @property
    def sealed_bytes(self) -> int:
        """What TLS has to send beyond what its owner has."""
        return len(self._sealed)

    @property
    def has_more(self) -> bool:
        """There is something to receive that no socket announces."""
        return (self.side.has_more or self.side.is_closed) and not self._has_said_goodbye

    def receive(self, count_max: int) -> bytes:
        """Raises BlockingIOError, and OSError, of which `TlsError` is one."""
        side = self.side
        self.idle_bytes = 0
        if self._has_said_goodbye:
            return self._socket.recv(count_max)
        if side.is_closed:
            return b""
        data = b""
        if not side.has_more:
            data = self._socket.recv(count_max)
            if not data:
                return b""
        try:
            plain, out = side.feed(data, count_max)
        except TlsError as error:
            self._sealed = memoryview(bytes(self._sealed) + error.farewell)
            self.push()
            raise
        if out:
            self._control(out)
        if not plain and not side.is_closed:
            self.idle_bytes = len(data)
            raise BlockingIOError
        return plain

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes it took. Raises as `receive` does."""
        self.push()
        if not self._sealed and not self._sealed_for:
            sealed, self._sealed_for = self._seal(memoryview(data)[:SEAL_BYTES_MAX])
            self._sealed = memoryview(sealed)
            self.push()
        if self._sealed:
            raise BlockingIOError
        sent, self._sealed_for = self._sealed_for, 0
        return sent

    def _seal(self, data: memoryview) -> tuple[bytes, int]:
        """What is to be sent, and for how many bytes of `data`. Raises TlsError."""
        return self.side.seal(data), len(data)

    def push(self) -> None:
        if self._sealed:
            with contextlib.suppress(BlockingIOError):
                self._sealed = self._sealed[self._socket.send(self._sealed) :]

    def _control(self, out: bytes) -> None:
        """What the protocol itself has to say. Raises TlsError."""
        self._sealed = memoryview(bytes(self._sealed) + out)
        self.push()
        if len(self._sealed) > 2 * SEAL_BYTES_MAX:
            raise TlsError("it does not read what TLS says")

    def finish(self) -> None:
        """Until `is_finished`, to be called again once what is sealed is sent. Raises OSError."""
        if not self._has_said_goodbye:
            self._has_said_goodbye = True
            self._control(self.side.finish())
        if not self._sealed:
            self.is_finished = True
            self._socket.shutdown(socket.SHUT_WR)


class SealedFrames(SealedSocket):
    """What is sent are frames, each with its length before it. An answer to a word of four letters is text, and passes
    for one."""

    __slots__ = ("_left_bytes",)

    def __init__(self, sock: socket.socket, side: TlsSide) -> None:
        super().__init__(sock, side)
        self._left_bytes = 0
        """Of the frame whose beginning is sealed."""

    def _seal(self, data: memoryview) -> tuple[bytes, int]:
        pieces = []
        at = 0
        while at < len(data):
            if not self._left_bytes:
                length = data[at : at + LENGTH_BYTES]
                if at and len(length) < LENGTH_BYTES:
                    break
                self._left_bytes = LENGTH_BYTES + int.from_bytes(length, "big")
            piece = data[at : at + self._left_bytes]
            pieces.append(piece)
            self._left_bytes -= len(piece)
            at += len(piece)
        return self.side.seal(*pieces), at
