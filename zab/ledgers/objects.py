"""Where the copies of ledgers are stored: a directory on a disk, or in an object store (a URI that `pyarrow.fs` takes).

    objects = open_objects("/archive")          or "s3://bucket/archive?region=…"
    file = objects.create(name)                 then file.write(data) …, and file.commit() or file.abort()
    objects.read(name, offset, length)          fewer bytes at the end
    objects.names(), objects.size(name), objects.remove(name)

An object is there whole after `commit`, and is durable then. On a disk it has another name before; an object store
shows it when it is whole. Everything blocks, and raises OSError; object stores need `zab[backup]`, and raise
MissingLibraryError without it.

Not here: which objects there are (`zab.ledger.managed.objects`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from zab.wire.checksums import MissingLibraryError

ASIDE: Final = ".tmp"
"""Ends the name of a file that is not whole."""
_EXTRA: Final = "backup"


class NewObject(Protocol):
    """An object that is being written."""

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None:
        """It is whole."""

    def abort(self) -> None:
        """It is not wanted."""


class Objects(Protocol):
    """One directory."""

    def names(self) -> list[str]:
        """What is in it; nothing if it is not there."""

    def size(self, name: str) -> int:
        """Raises FileNotFoundError."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Raises FileNotFoundError."""

    def create(self, name: str) -> NewObject: ...

    def remove(self, name: str) -> None:
        """No-op if it is not there."""


def open_objects(uri: str) -> Objects:
    """Open a directory, without making it. Raises OSError, MissingLibraryError."""
    if "://" not in uri or uri.startswith("file://"):
        return LocalObjects(Path(uri.removeprefix("file://")))
    return _in_store(uri)


# ---------------------------------------------------------------------------------------------------------------- disk


class LocalObjects:
    """A directory; only its owner can access what is made in it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []

    def size(self, name: str) -> int:
        return (self._root / name).stat().st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        with (self._root / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def create(self, name: str) -> LocalObject:
        _make(self._root)
        return LocalObject(self._root / name)

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)


class LocalObject:
    """A file beside its place, until it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_name(path.name + ASIDE)
        descriptor = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self) -> None:
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._aside, self._path)
        _sync(self._path.parent)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._aside.unlink(missing_ok=True)


def _make(directory: Path) -> None:
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(0o700, exist_ok=True)
        _sync(directory.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------------------------------------- a store


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import fs
    except ImportError:
        raise MissingLibraryError("pyarrow", _EXTRA) from None
    return pyarrow, fs


@lru_cache(maxsize=64)
def _in_store(uri: str) -> StoreObjects:
    _, fs = _pyarrow()
    with _named(uri):
        system, path = fs.FileSystem.from_uri(uri)
    return StoreObjects(system, path.rstrip("/"), uri)


@contextlib.contextmanager
def _named(uri: str) -> Iterator[None]:
    """Errors of the library in the block are errors of this place."""
    pyarrow, _ = _pyarrow()
    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise OSError(getattr(error, "errno", None) or 0, _shown(reason), _shown(uri.partition("?")[0])) from None


def _shown(text: str) -> str:
    """Without user and password."""
    return re.sub(r"//[^/@]*@", "//", text)


class StoreObjects:
    """A prefix in an object store. `system`: a file system of `pyarrow.fs`."""

    def __init__(self, system: Any, path: str, uri: str) -> None:
        self._system, self._path, self._uri = system, path, uri

    def names(self) -> list[str]:
        _, fs = _pyarrow()
        with _named(self._uri):
            found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(each.base_name for each in found if each.type == fs.FileType.File)

    def size(self, name: str) -> int:
        with _named(self._uri), self._system.open_input_file(self._at(name)) as file:
            return int(file.size())

    def read(self, name: str, offset: int, length: int) -> bytes:
        with _named(self._uri), self._system.open_input_file(self._at(name)) as file:
            return bytes(file.read_at(length, offset))

    def create(self, name: str) -> StoreObject:
        with _named(self._uri):
            self._system.create_dir(self._path, recursive=True)
            return StoreObject(self, name, self._system.open_output_stream(self._at(name)), self._uri)

    def remove(self, name: str) -> None:
        _, fs = _pyarrow()
        with _named(self._uri):
            if self._system.get_file_info(self._at(name)).type == fs.FileType.File:
                self._system.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


class StoreObject:
    """An upload, which ends with its stream."""

    def __init__(self, objects: StoreObjects, name: str, stream: Any, uri: str) -> None:
        self._objects, self._name, self._stream, self._uri = objects, name, stream, uri

    def write(self, data: bytes) -> None:
        with _named(self._uri):
            self._stream.write(data)

    def commit(self) -> None:
        with _named(self._uri):
            self._stream.close()

    def abort(self) -> None:
        """The library knows no other end than a whole object, which goes then."""
        self.commit()
        self._objects.remove(self._name)
