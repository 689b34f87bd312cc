"""Files that are open for reading, so that a slice of one costs no `open`.

    get(path)       the file, opened at most once while it is kept
    forget(path)    before the path is renamed, removed, or made again: the next `get` opens what is there then

At most `files_max` are kept, those used last. A file that left stays open for as long as somebody has a reference to
it: what is being sent is sent from the file that the slice meant, whatever became of its name.

All of it belongs to one thread.
"""

from __future__ import annotations

import os
from collections import OrderedDict

FILES_MAX = 512


class OpenFile:
    """One file. It is closed with its last reference."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # Absent if it could not be opened.
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class OpenFiles:
    """The open files below one directory."""

    def __init__(self, directory: str, files_max: int = FILES_MAX) -> None:
        self._directory = directory
        self._files_max = files_max
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def get(self, path: str) -> OpenFile:
        """The file at this path, relative to the directory. Raises OSError."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = OpenFile(os.path.join(self._directory, path))
            if len(self._files) > self._files_max:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(path)
        return file

    def forget(self, path: str) -> None:
        """Keep this file no longer."""
        self._files.pop(path, None)

    def forget_directory(self, directory: str) -> None:
        """Keep no file of this directory any longer."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            del self._files[path]

    def close(self) -> None:
        """Keep none."""
        self._files.clear()
