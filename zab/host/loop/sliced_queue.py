"""The send queue of a client socket whose service sends parts of files between its bytes.

    flush(send, pieces, …)  as `SendQueue.flush`; pieces are bytes or `FileSlice`s, sent in their order

Over a plain socket the kernel copies a slice from the file to the socket (`sendfile`); what precedes it waits for it in
the kernel (`MSG_MORE`), so that both leave in one packet. TLS has to seal the bytes, so there they are read, at most
`READ_BYTES` at a time.

A flush sends at most `FLUSH_BYTES_MAX`, so that a reader of large files does not hold up the others; the loop goes on
with the rest.

A file that turns out to be shorter than its slice cannot give what was announced: `SliceError`, and the connection
ends. The answer was begun, so nothing else can be said.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence

from zab.host.files.open_files import OpenFile, OpenFiles
from zab.host.loop.send_queue import JOIN_BYTES_MAX, Send, SendQueue
from zab.wire.file_slice import FileSlice

FLUSH_BYTES_MAX = 1 << 20
READ_BYTES = 64 << 10


class SliceError(OSError):
    """A file ends before a slice of it does."""


class _Slice:
    """What is left to send of a slice."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile, piece: FileSlice) -> None:
        self.file, self.position, self.length = file, piece.position, piece.length

    def advance(self, count: int) -> None:
        """So many bytes of it were taken. Raises SliceError if there were none."""
        if not count:
            raise SliceError("a file ends before its slice does")
        self.position += count
        self.length -= count


class SlicedQueue(SendQueue):
    """The send side of one socket. `sock` is None where TLS has to seal the bytes."""

    __slots__ = ("_files", "_pieces", "_socket")

    def __init__(self, files: OpenFiles, sock: socket.socket | None) -> None:
        super().__init__()
        self._files = files
        self._socket = sock
        self._pieces: deque[bytes | _Slice] = deque()

    def flush(self, send: Send, pieces: Sequence[bytes | FileSlice] = (), total_bytes: int = 0) -> int:
        """Queue the pieces, whose total length is `total_bytes`, and send what the socket takes; returns how many bytes
        it took. Errors of `send` and of the files pass through, except BlockingIOError."""
        for piece in pieces:
            if isinstance(piece, FileSlice):
                if piece.length:
                    self._pieces.append(_Slice(self._files.get(piece.path), piece))
            elif piece:
                self._pieces.append(piece)
        self.unsent_bytes += total_bytes
        sent_bytes = 0
        try:
            while self.unsent_bytes and sent_bytes < FLUSH_BYTES_MAX:
                wanted, sent = self._send_next(send)
                sent_bytes += sent
                self.unsent_bytes -= sent
                if sent < wanted:
                    break
        except BlockingIOError:
            pass
        return sent_bytes

    def _send_next(self, send: Send) -> tuple[int, int]:
        """How many bytes were offered to the socket, and how many it took."""
        if self._unsent is None:
            data = self._gathered()
            if not data:
                return self._send_slice()
            self._unsent = memoryview(data)
        view = self._unsent
        if self._socket is not None and self._pieces:
            sent = self._socket.send(view, socket.MSG_MORE)
        else:
            sent = send(view)
        self._unsent = view[sent:] if sent < len(view) else None
        return len(view), sent

    def _gathered(self) -> bytes:
        """The bytes at the front, joined; empty if a slice is there that the kernel copies."""
        gathered: list[bytes] = []
        size_bytes = 0
        while self._pieces and size_bytes < JOIN_BYTES_MAX:
            piece = self._pieces[0]
            if isinstance(piece, _Slice):
                if self._socket is None and not gathered:
                    data = os.pread(piece.file.descriptor, min(piece.length, READ_BYTES), piece.position)
                    self._advance(piece, len(data))
                    return data
                break
            gathered.append(piece)
            size_bytes += len(piece)
            self._pieces.popleft()
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def _send_slice(self) -> tuple[int, int]:
        piece = self._pieces[0]
        assert isinstance(piece, _Slice)
        assert self._socket is not None
        wanted = min(piece.length, FLUSH_BYTES_MAX)
        sent = os.sendfile(self._socket.fileno(), piece.file.descriptor, piece.position, wanted)
        self._advance(piece, sent)
        return wanted, sent

    def _advance(self, piece: _Slice, count: int) -> None:
        piece.advance(count)
        if not piece.length:
            self._pieces.popleft()
