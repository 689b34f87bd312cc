"""Where backups are stored: a directory on a disk, or in an object store (a URI that `zab.pipeline.places` accepts).

    open_store("/backup/zab")           or "s3://bucket/zab?region=…"
    store.put(name, data)               all or nothing, durable
    store.put_file(name, path)          the same of a file of this machine
    store.read(name, offset, length)    ...

A name has `/` in it for a directory. What is being written has another name until it is whole, on a disk; an object
store shows an object when it is whole.

Needs zab[backup] for object stores alone. Raises OSError and `StoreUnusableError`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

__all__ = ["LocalStore", "ObjectStore", "Store", "StoreUnusableError", "open_store"]

_URI: Final = re.compile(r"(?!file://)[A-Za-z][A-Za-z0-9+.-]+://")
_PIECE_BYTES: Final = 4 << 20
_ASIDE: Final = ".tmp"
_LOCK: Final = ".lock"


class StoreUnusableError(Exception):
    """The store cannot be used; the text says why, and what to do."""


class Store(Protocol):
    """A place for backups."""

    def names(self) -> list[str]:
        """The names of all complete files."""

    def exists(self, name: str) -> bool: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes: ...

    def put(self, name: str, data: bytes) -> None: ...

    def put_file(self, name: str, path: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def held(self) -> contextlib.AbstractContextManager[None]:
        """While this is open, no other process writes, as far as the store can prevent it."""


def open_store(text: str) -> Store:
    """Open a store without creating anything. Raises StoreUnusableError."""
    if not _URI.match(text):
        return LocalStore(Path(text.removeprefix("file://")).expanduser().absolute())
    try:
        from zab.pipeline.errors import PipelineError
        from zab.pipeline.places import open_place
    except ModuleNotFoundError as error:
        raise StoreUnusableError(f"object stores need {error.name}: pip install 'zab[backup]'") from None
    try:
        return ObjectStore(open_place(text))
    except PipelineError as error:
        raise StoreUnusableError(str(error)) from None


class LocalStore:
    """A directory; only its owner can access it and its contents."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def names(self) -> list[str]:
        found = [path for path in self._root.rglob("*") if path.is_file()]
        return sorted(
            str(path.relative_to(self._root)) for path in found if path.suffix != _ASIDE and path.name != _LOCK
        )

    def exists(self, name: str) -> bool:
        return (self._root / name).is_file()

    def size(self, name: str) -> int:
        return (self._root / name).stat().st_size

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with (self._root / name).open("rb") as file:
            file.seek(offset)
            return file.read() if length is None else file.read(length)

    def put(self, name: str, data: bytes) -> None:
        with self._aside(name) as file:
            file.write(data)

    def put_file(self, name: str, path: str) -> None:
        with self._aside(name) as file, open(path, "rb") as source:
            shutil.copyfileobj(source, file, _PIECE_BYTES)

    @contextlib.contextmanager
    def _aside(self, name: str) -> Iterator[Any]:
        """Write a temporary file, sync it, rename it, and sync the directory."""
        path = self._root / name
        self._make(path.parent)
        aside = path.with_name(path.name + _ASIDE)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync(path.parent)

    def _make(self, directory: Path) -> None:
        if not directory.is_dir():
            self._make(directory.parent)
            directory.mkdir(0o700, exist_ok=True)
            _sync(directory.parent)

    def remove(self, name: str) -> None:
        (self._root / name).unlink()
        _sync((self._root / name).parent)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._make(self._root)
        descriptor = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreUnusableError(f"{self._root}: another backup is being written there") from None
            for path in self._root.rglob(f"*{_ASIDE}"):
                path.unlink()  # what a crash left
            yield
        finally:
            os.close(descriptor)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ObjectStore:
    """A prefix in an object store. Errors name the store as their file."""

    def __init__(self, place: Any) -> None:
        self._place = place

    def __str__(self) -> str:
        return str(self._place)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Make errors in the block name the place."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise OSError(error.errno, reason, str(self)) from None

    def names(self) -> list[str]:
        found = []
        with self._named():
            for entry in self._place.list():
                if entry.is_directory:
                    found += [f"{entry.name}/{below.name}" for below in entry.place.list() if not below.is_directory]
                else:
                    found.append(entry.name)
        return sorted(found)

    def exists(self, name: str) -> bool:
        """Raises StoreUnusableError if neither the prefix nor the bucket exists."""
        with self._named():
            if self._at(name).kind() == "file":
                return True
        bucket = self._place.path.partition("/")[0]
        if bucket and self._is_missing(bucket):
            raise StoreUnusableError(f"{self}: there is no bucket {bucket}; it has to be made first")
        return False

    def _is_missing(self, bucket: str) -> bool:
        """Nothing is known about files that the store does not list."""
        with contextlib.suppress(OSError):
            return not attrs.evolve(self._place, path=bucket).kind()
        return False

    def size(self, name: str) -> int:
        with self._named(), self._at(name).open() as file:
            return int(file.size)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._named():
            return bytes(self._at(name).read(offset, length))

    def put(self, name: str, data: bytes) -> None:
        with self._named(), self._opened(name) as stream:
            stream.write(data)

    def put_file(self, name: str, path: str) -> None:
        with open(path, "rb") as source, self._named(), self._opened(name) as stream:
            while piece := source.read(_PIECE_BYTES):
                stream.write(piece)

    def _opened(self, name: str) -> Any:
        place = self._at(name)
        place.file_system.create_dir(place.parent.path, recursive=True)
        return place.file_system.open_output_stream(place.path)

    def remove(self, name: str) -> None:
        place = self._at(name)
        with self._named():
            place.file_system.delete_file(place.path)

    def _at(self, name: str) -> Any:
        place = self._place
        for part in name.split("/"):
            place = place / part
        return place

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Object stores have no locks: docs/how-to/back-up.md says what happens if two backups run at once."""
        yield
