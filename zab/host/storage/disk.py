"""The real disk of one server: `datatree.log.disk.Disk` on a data directory.

It creates `version-1` below `dataDir` and, if it differs, below `dataLogDir` (for transaction logs), and holds an
exclusive `flock` on `version-1/lock` in each while it exists: two processes on one directory would each truncate the
other's log. A tool that only reads opens it with `lock=False`; a service with another layout names its `lock_file`.

An append is one system call, `pwritev` with RWF_DSYNC, if the platform has it; otherwise a write and an fdatasync (on
macOS F_FULLFSYNC, the only call that reaches the medium). With the native part, a held message leaves between this
call and the return to Python. Nothing is retried and no error is caught, except that a
short write continues where it stopped, and that an open waits a little for a descriptor if none is left.
"""

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from zab.host.loop.held_message import HeldMessage
from zab.host.loop.link import Prepared
from zab.native import load

LOCK_FILE = "version-1/lock"
_FILE_MODE = 0o600
"""No other user on the machine may read the data, whatever the umask is."""
_DIRECTORY_MODE = 0o700

DESCRIPTOR_TRIES = 20
DESCRIPTOR_WAIT_SECONDS = 0.05
"""How long an open waits for a descriptor. Some are reserved (`zab.host.process.descriptors`), so one is soon free;
otherwise the error is final."""

_native = load("durable")

_RWF_DSYNC: int = getattr(os, "RWF_DSYNC", 0)


class DirectoryInUseError(OSError):
    """Another process holds the lock of the data directory."""


def _open(path: str, flags: int) -> int:
    """Open a file. Raises OSError."""
    for _ in range(DESCRIPTOR_TRIES):
        try:
            return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        time.sleep(DESCRIPTOR_WAIT_SECONDS)
    return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)


def _fsync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _fdatasync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def _allocate(fd: int, size: int) -> None:
    """Allocate blocks for the first `size` bytes."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    block = bytes(1 << 20)
    for offset in range(0, size, len(block)):
        os.pwrite(fd, block[: size - offset], offset)


class RealFile:
    """One file open for appending."""

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self.size = offset

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, self.size)
            self.size += written
            view = view[written:]

    def write_durable(self, data: bytes, then: Callable[[], None] | None = None) -> None:
        if _native is not None and isinstance(then, HeldMessage):
            prepared = then.prepared()
            if prepared is not None:
                self._write_then_send(data, then, prepared)
                return
        self._write_durable(data)
        if then is not None:
            then()

    def _write_then_send(self, data: bytes, held: HeldMessage[Any], prepared: Prepared) -> None:
        """Write these bytes, and send what was held until they are durable, without the interpreter's lock."""
        assert _native is not None
        link, number, frame = prepared
        is_taken, is_left = _native.write_then_send(self._fd, data, self.size, link.gate, number, frame)
        self.size += len(data)
        if not is_taken:
            held()
        elif is_left:
            held.left(link)

    if _RWF_DSYNC:

        def _write_durable(self, data: bytes) -> None:
            written = os.pwritev(self._fd, (data,), self.size, _RWF_DSYNC)
            self.size += written
            while written < len(data):
                more = os.pwritev(self._fd, (memoryview(data)[written:],), self.size, _RWF_DSYNC)
                self.size += more
                written += more

    else:

        def _write_durable(self, data: bytes) -> None:
            self.write(data)
            _fdatasync(self._fd)

    def sync(self) -> None:
        _fdatasync(self._fd)

    def close(self) -> None:
        if os.fstat(self._fd).st_size > self.size:
            os.ftruncate(self._fd, self.size)
        os.close(self._fd)


class RealDisk:
    """The files of one server. Raises DirectoryInUseError if another process uses them."""

    def __init__(
        self, directory: str, log_directory: str | None = None, *, lock: bool = True, lock_file: str = LOCK_FILE
    ) -> None:
        self.directory = directory
        self.log_directory = log_directory or directory
        self._roots = list(dict.fromkeys((self.directory, self.log_directory)))
        self._in_place: dict[str, int] = {}
        self._locks: list[int] = []
        if lock:
            self._take_locks(lock_file)

    def _take_locks(self, lock_file: str) -> None:
        for root in self._roots:
            path = os.path.join(root, lock_file)
            os.makedirs(os.path.dirname(path), _DIRECTORY_MODE, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            self._locks.append(fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.close()
                raise DirectoryInUseError(error.errno, "another process uses this data directory", path) from None
            with self._opened(root, os.O_RDONLY) as parent:
                _fsync(parent)

    def close(self) -> None:
        """Release the locks and close open files."""
        for fd in [*self._in_place.values(), *self._locks]:
            os.close(fd)
        self._in_place.clear()
        self._locks.clear()

    def _absolute(self, path: str) -> str:
        is_log = path.rpartition("/")[2].startswith(("log.", "reserve"))
        return os.path.join(self.log_directory if is_log else self.directory, path)

    @contextlib.contextmanager
    def _opened(self, absolute: str, flags: int) -> Iterator[int]:
        fd = _open(absolute, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> RealFile:
        flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if create else 0)
        if create:
            self._ensure_directory(path)
        return RealFile(_open(self._absolute(path), flags), offset)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        with open(_open(self._absolute(path), os.O_RDONLY), "rb") as file:
            file.seek(offset)
            return file.read() if length is None else file.read(length)

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        self._ensure_directory(path)
        with self._opened(self._absolute(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            RealFile(fd, 0).write(data)
            _fsync(fd)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def overwrite(self, path: str, data: bytes) -> None:
        fd = self._in_place.get(path)
        if fd is None:
            fd = self._in_place[path] = _open(self._absolute(path), os.O_WRONLY | os.O_CREAT)
        RealFile(fd, 0).write(data)

    def preallocate(self, path: str, size: int) -> None:
        with self._opened(self._absolute(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            _allocate(fd, size)
            _fsync(fd)

    def rename(self, old: str, new: str) -> None:
        self._forget(old, new)
        if os.path.dirname(old) != os.path.dirname(new):
            self._ensure_directory(new)
        os.rename(self._absolute(old), self._absolute(new))

    def _ensure_directory(self, path: str) -> None:
        """Create the directory of this file durably if it is missing."""
        place = os.path.dirname(self._absolute(path))
        if not os.path.isdir(place):
            os.makedirs(place, _DIRECTORY_MODE)
            with self._opened(os.path.dirname(place), os.O_RDONLY) as parent:
                _fsync(parent)

    def remove(self, path: str) -> None:
        self._forget(path)
        os.remove(self._absolute(path))

    def _forget(self, *paths: str) -> None:
        """Close the files that `overwrite` keeps open under these names, which are about to name other files."""
        for path in paths:
            if path in self._in_place:
                os.close(self._in_place.pop(path))

    def truncate(self, path: str, size: int) -> None:
        with self._opened(self._absolute(path), os.O_WRONLY) as fd:
            os.ftruncate(fd, size)
            _fsync(fd)

    def directories(self) -> list[str]:
        names: set[str] = set()
        for root in self._roots:
            with contextlib.suppress(FileNotFoundError), os.scandir(root) as entries:
                names.update(entry.name for entry in entries if entry.is_dir())
        return sorted(names)

    def list(self, directory: str) -> list[str]:
        names: set[str] = set()
        for root in self._roots:
            with contextlib.suppress(FileNotFoundError):
                names.update(os.listdir(os.path.join(root, directory)))
        return sorted(names)

    def rename_directory(self, old: str, new: str) -> None:
        for root in self._roots:
            path = os.path.join(root, old)
            if os.path.isdir(path):
                os.rename(path, os.path.join(root, new))
        self.sync_directory("")

    def remove_directory(self, directory: str) -> None:
        for root in self._roots:
            path = os.path.join(root, directory)
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(path):
                    self._forget(f"{directory}/{name}")
                    os.remove(os.path.join(path, name))
                os.rmdir(path)

    def size(self, path: str) -> int:
        return os.stat(self._absolute(path)).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute(path))

    def sync_directory(self, directory: str) -> None:
        paths = [os.path.join(root, directory) for root in self._roots]
        # Files are set aside in their own root: the other root may not have such a directory.
        for path in list(filter(os.path.isdir, paths)) or paths:
            with self._opened(path, os.O_RDONLY) as fd:
                _fsync(fd)

    def forget_cached(self, path: str) -> None:
        if hasattr(os, "posix_fadvise"):
            with self._opened(self._absolute(path), os.O_RDONLY) as fd:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def free_bytes(self) -> int:
        return min(self._free(root) for root in self._roots)

    def _free(self, root: str) -> int:
        state = os.statvfs(root)
        return state.f_bavail * state.f_frsize
