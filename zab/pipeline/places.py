"""Files and directories on local disks and in object stores alike, through `pyarrow.fs`.

A place is named by a path (`/var/lib/zab`) or by a URI that `pyarrow.fs.FileSystem.from_uri` takes: `file:///backup`,
`s3://bucket/prefix?region=eu-central-1`, `gs://…`, `hdfs://host:port/…`. Access to a store is configuration of the
store's own (environment variables, instance roles, the query of the URI). Places travel to Spark's workers as text;
each process makes a file system once.

Invariants: a URI is printed without credentials and query. An error of the file system is an `OSError`; a place that no
file system serves raises `PipelineError`. Nothing here writes.
"""

import os
import re
from functools import lru_cache
from typing import Any, Final, Self

import pyarrow as pa
from attrs import field, frozen
from pyarrow import fs

from zab.pipeline.errors import PipelineError

__all__ = ["Entry", "OpenFile", "Place", "open_place", "shown", "without_query"]

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@lru_cache(maxsize=64)
def _file_system(root: str) -> tuple[Any, str]:
    """(file system, path in it) of a path or URI."""
    try:
        if _URI.match(root):
            system, path = fs.FileSystem.from_uri(root)
            return system, path.rstrip("/") or path
    except (pa.ArrowException, ValueError, OSError) as error:
        raise PipelineError(f"{_shown(root)} cannot be opened: {_reason(error)}") from None
    return fs.LocalFileSystem(), root


def _shown(root: str) -> str:
    """A URI without user, password and query."""
    return re.sub(r"//[^/@]*@", "//", root.partition("?")[0])


def _reason(error: BaseException) -> str:
    """The first line of what an error says, without credentials."""
    return _shown((str(error).splitlines() or [type(error).__name__])[0]).rstrip(".")


@frozen
class Place:
    """A file or directory: `path` in the file system that serves `root`."""

    root: str
    path: str

    @property
    def name(self) -> str:
        """The last component."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "Place":
        return Place(self.root, self.path.rpartition("/")[0] or "/")

    def __truediv__(self, name: str) -> "Place":
        return Place(self.root, f"{self.path.rstrip('/')}/{name}")

    def __str__(self) -> str:
        if not _URI.match(self.root):
            return self.path
        return f"{self.root.partition('://')[0].lower()}://{self._authority()}{self.path}"

    def _authority(self) -> str:
        """The part of a URI between its scheme and the path in the file system, such as the host of an HDFS."""
        _, own = _file_system(self.root)
        rest = _shown(self.root).partition("://")[2].rstrip("/")
        return rest[: len(rest) - len(own)] if rest.endswith(own) else ""

    @property
    def file_system(self) -> Any:
        """The file system of `pyarrow.fs` that serves it; the same for all places with the same root."""
        return _file_system(self.root)[0]

    def list(self) -> "list[Entry]":
        """The entries of the directory, by name; empty if there is no such directory. Raises OSError."""
        found = self.file_system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        entries = [
            Entry(self / info.base_name, info.type == fs.FileType.Directory, info.size or 0, info.mtime_ns or 0)
            for info in found
            if info.type in (fs.FileType.File, fs.FileType.Directory)
        ]
        return sorted(entries, key=lambda entry: entry.place.path)

    def kind(self) -> str:
        """`file`, `directory` or, when there is nothing, the empty string. Raises OSError."""
        found = self.file_system.get_file_info(self.path).type
        return {fs.FileType.File: "file", fs.FileType.Directory: "directory"}.get(found, "")

    def open(self) -> "OpenFile":
        """Raises OSError."""
        return OpenFile(self.file_system.open_input_file(self.path))

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Up to `length` bytes from `offset` (None: all). Raises OSError."""
        with self.open() as file:
            return file.read(offset, file.size if length is None else length)


@frozen
class Entry:
    """One entry of a directory. `size`: in bytes, of a file. `modified_ns`: the time of its last change, if the store
    says it."""

    place: Place
    is_directory: bool
    size: int
    modified_ns: int

    @property
    def name(self) -> str:
        return self.place.name


@frozen
class OpenFile:
    """A file that is read at offsets; a context manager."""

    _file: Any = field(repr=False)

    @property
    def size(self) -> int:
        size: int = self._file.size()
        return size

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer at the end of the file. Raises OSError."""
        if length <= 0:
            return b""
        found: bytes = self._file.read_at(length, offset)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def without_query(text: str) -> str:
    """A path as it is, a URI without what follows its path."""
    return text.partition("?")[0] if _URI.match(text) else text


def shown(text: str) -> str:
    """A path as it is, a URI without user, password and query."""
    return _shown(text) if _URI.match(text) else text


def open_place(text: str) -> Place:
    """The place that a path (relative ones from the working directory on) or URI names. Raises PipelineError."""
    if not text:
        raise PipelineError("the name of a directory is empty")
    if _URI.match(text):
        return Place(text, _file_system(text)[1])
    return Place("", os.path.abspath(os.path.expanduser(text)))
