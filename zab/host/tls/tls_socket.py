"""TLS over one non-blocking socket: receives and sends plain bytes like a socket.

    receive(count_max)      like `recv`: BlockingIOError if nothing has come, b"" at the end
    send(data)              like `send`; after BlockingIOError it is called again with the same bytes first
    push()                  sends as much of `sealed_bytes` as the kernel takes
    finish()                tells the peer that nothing follows

Decrypted bytes that were not read yet do not make a socket readable: `has_more` announces them.

Not every client handles that: ZooKeeper's C client waits for its socket, and would read a second answer in the same
record only when something else arrives. So for clients each frame begins a record (`SealedFrames`), as in ZooKeeper.

Limits: `SEAL_BYTES_MAX` are sealed at a time, and kept until the kernel has taken them. At twice that, which only a
peer can cause that requests new TLS keys and reads nothing, the connection ends.

Not here: the handshake (`handshakes`, `tls_stream`); waiting for the socket.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from zab.host.tls.engine import TlsError, TlsSide
from zab.wire.frames import LENGTH_BYTES

SEAL_BYTES_MAX: Final = 256 << 10


class SealedSocket:
    """A TLS socket whose handshake is done."""

    __slots__ = ("_has_said_goodbye", "_sealed", "_sealed_for", "_socket", "idle_bytes", "is_finished", "side")

    def __init__(self, sock: socket.socket, side: TlsSide) -> None:
        self.side = side
        self.idle_bytes = 0
        """Bytes that the last `receive` took from the socket without returning any."""
        self.is_finished = False
        """Whether the peer was told that nothing follows."""
        self._has_said_goodbye = False
        """Whether TLS has been closed on our side."""
        self._socket = sock
        self._sealed = memoryview(b"")
        self._sealed_for = 0
        """How many of the next bytes to send are sealed already."""

    @property
    def sealed_bytes(self) -> int:
        """Bytes that TLS has to send, besides those of its owner."""
        return len(self._sealed)

    @property
    def has_more(self) -> bool:
        """Whether there is something to receive that no socket announces."""
        return (self.side.has_more or self.side.is_closed) and not self._has_said_goodbye

    def receive(self, count_max: int) -> bytes:
        """Receive plain bytes. Raises BlockingIOError, and OSError, including `TlsError`."""
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
        """Send plain bytes; returns how many it took. Raises as `receive` does."""
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
        """The sealed bytes, and how many bytes of `data` they cover. Raises TlsError."""
        return self.side.seal(data), len(data)

    def push(self) -> None:
        if self._sealed:
            with contextlib.suppress(BlockingIOError):
                self._sealed = self._sealed[self._socket.send(self._sealed) :]

    def _control(self, out: bytes) -> None:
        """Send bytes of the TLS protocol itself. Raises TlsError."""
        self._sealed = memoryview(bytes(self._sealed) + out)
        self.push()
        if len(self._sealed) > 2 * SEAL_BYTES_MAX:
            raise TlsError("it does not read what TLS says")

    def finish(self) -> None:
        """Tell the peer that nothing follows. To be called again, once the sealed bytes are sent, until `is_finished`.
        Raises OSError."""
        if not self._has_said_goodbye:
            self._has_said_goodbye = True
            self._control(self.side.finish())
        if not self._sealed:
            self.is_finished = True
            self._socket.shutdown(socket.SHUT_WR)


class SealedFrames(SealedSocket):
    """A TLS socket that sends frames, each after its length. The text answer to a four-letter word passes for a
    frame."""

    __slots__ = ("_left_bytes",)

    def __init__(self, sock: socket.socket, side: TlsSide) -> None:
        super().__init__(sock, side)
        self._left_bytes = 0
        """The unsealed rest of a frame whose beginning is sealed."""

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
