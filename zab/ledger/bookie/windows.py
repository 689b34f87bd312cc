"""Reading the files of a bookie piece by piece, while it may run: nothing is written, and no file is held in memory.

`Files` is what is needed of a `Disk`; a reader of object stores has it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol
from zlib import crc32

PIECE_BYTES: Final = 1 << 20
"""So much is read at a time."""


class Files(Protocol):
    """Files by path, relative to the directory of a bookie."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Up to `length` bytes (None: all) from `offset`; fewer at the end of the file."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted; empty if there is no such directory."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...


class Window:
    """One file that is read forwards. It keeps one piece of it."""

    def __init__(self, files: Files, path: str, *, piece_bytes: int = PIECE_BYTES) -> None:
        """Raises OSError."""
        self._files = files
        self.path = path
        self.size = files.size(path)
        """The bytes that the file had at first; what is written later is not read."""
        self._piece_bytes = piece_bytes
        self._piece = b""
        self._start = 0

    def again(self) -> Window:
        """Another one on the same file, for what lies elsewhere in it."""
        return Window(self._files, self.path, piece_bytes=self._piece_bytes)

    def read(self, offset: int, length: int) -> bytes:
        """These bytes; fewer at the end of the file. Raises OSError."""
        length = max(min(length, self.size - offset), 0)
        at = offset - self._start
        if at < 0 or at + length > len(self._piece):
            wanted = min(max(length, self._piece_bytes), self.size - offset)
            self._piece = self._files.read(self.path, offset, wanted) if wanted > 0 else b""
            self._start, at = offset, 0
        return self._piece[at : at + length]

    def pieces(self, offset: int, end: int) -> Iterator[bytes]:
        """The bytes in [offset, end), in pieces; they end early at the end of the file. Raises OSError."""
        while offset < end:
            piece = self.read(offset, min(self._piece_bytes, end - offset))
            if not piece:
                return
            yield piece
            offset += len(piece)

    def crc(self, offset: int, end: int) -> int | None:
        """The CRC-32 of these bytes; None if the file ends before. Raises OSError."""
        crc, count = 0, 0
        for piece in self.pieces(offset, end):
            crc, count = crc32(piece, crc), count + len(piece)
        return crc if count == end - offset else None
