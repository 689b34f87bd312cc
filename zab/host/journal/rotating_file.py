"""A file of lines that grows up to a size, then is renamed to FILE.1, FILE.2 and so on; the oldest is removed.

- It has mode 0600 and is a plain file: no link is followed, no pipe is written to.
- A chunk is written completely or not at all: if a write fails in the middle, its beginning is cut off again.
- If another program renames or removes it, as log rotators do, the next chunk creates a new file; a truncated file
  continues from its beginning.

Lines are not synced: a power cut may lose the newest. Not here: the thread that writes (`background_writer`).
"""

from __future__ import annotations

import contextlib
import os
import stat

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o600


class RotatingFile:
    """A rotating file. Raises OSError if it cannot be opened or written."""

    def __init__(self, path: str, bytes_max: int, files_count: int) -> None:
        """Keep at most `files_count` files, each of `bytes_max`, or of one larger chunk."""
        assert files_count > 0
        self._path = path
        self._bytes_max = bytes_max
        self._files_count = files_count
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, _FLAGS, _MODE)
        try:
            state = os.fstat(self._fd)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(0, "it is not a plain file", self._path)
            if stat.S_IMODE(state.st_mode) != _MODE:
                os.fchmod(self._fd, _MODE)
        except OSError:
            os.close(self._fd)
            raise
        self._place = (state.st_dev, state.st_ino)
        self._size = state.st_size

    def write(self, chunk: bytes) -> None:
        """Append whole lines."""
        if not self._is_in_place():
            os.close(self._fd)
            self._open()
        if self._size and self._size + len(chunk) > self._bytes_max:
            self._rotate()
        view = memoryview(chunk)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(chunk)

    def _is_in_place(self) -> bool:
        try:
            state = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        self._size = min(self._size, state.st_size)
        return (state.st_dev, state.st_ino) == self._place

    def _rotate(self) -> None:
        last = self._files_count - 1
        for number in range(last, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number - 1}", f"{self._path}.{number}")
        if last:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.remove(self._path)
        os.close(self._fd)
        self._open()

    def close(self) -> None:
        os.close(self._fd)
