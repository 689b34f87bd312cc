"""The only way from the replicated state to files: what a disk does, without saying which one.

The server provides the real disk, the simulator one in memory that loses what was not synced. Paths are `str`, relative
to the directory that the disk was opened on, with at most one directory in them ("version-1/log.100000001").

What each call promises about power loss is in its docstring; without a statement, nothing is promised: the change may
survive or not, wholly or sector by sector, in any order with other such changes. Every failure is an `OSError`, and
after one the file that it happened on cannot be trusted: the kernel may have marked the pages clean, so a second sync
proves nothing. Not here: any retry.
"""

import errno
from collections.abc import Callable
from typing import Protocol, TypeAlias

Then: TypeAlias = Callable[[], None]
"""What waits until bytes are durable, and is short."""


def is_full(error: OSError) -> bool:
    """Whether the cause was lack of room: nothing else is wrong with the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether the process or the system had no descriptor left to open a file: nothing was done, and it may soon
    work."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class File(Protocol):
    """A file that grows at its end; one writer."""

    @property
    def size(self) -> int:
        """The offset of the next write, in bytes."""
        ...

    def write(self, data: bytes) -> None:
        """Write at the end."""
        ...

    def write_durable(self, data: bytes, then: Then | None = None) -> None:
        """Write at the end; once it returns, these bytes (not necessarily earlier ones) survive. One system call.
        `then` is called as soon as they do."""
        ...

    def sync(self) -> None:
        """Once it returns, everything written to this file survives. Its name in the directory may not."""
        ...

    def close(self) -> None:
        """Release what was preallocated and not used. Syncs nothing."""
        ...


class Disk(Protocol):
    """Files by path. May be used from several threads on different files."""

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> File:
        """Open for writing at `offset`. With `create` the file must not exist, without it must. With `create` a missing
        directory is created, durably."""
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Up to `length` bytes (None: all) from `offset`; fewer at the end of the file."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of `path` by `data`, all or nothing; durable, including the name, once it returns. A
        missing directory is created, durably."""
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Write `data` at the start of `path`, in place; creates it. Promises nothing about power loss. For the few
        files that are rewritten often: the disk may keep them open."""
        ...

    def preallocate(self, path: str, size: int) -> None:
        """Create a file of `size` zero bytes with allocated blocks (no hole), replacing any existing one."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing any file named `new`. A missing target directory is created, durably. The new name is
        durable once both directories are synced; until then the file has one of its names."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, which must exist."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Cut a file down to `size` bytes; durable when it returns."""
        ...

    def directories(self) -> list[str]:
        """The names of the directories, sorted. One without files may be missing."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted; empty when there is no such directory."""
        ...

    def rename_directory(self, old: str, new: str) -> None:
        """Rename a directory with all its files, all or nothing; durable once it returns. There must be no `new`."""
        ...

    def remove_directory(self, directory: str) -> None:
        """Remove a directory and its files, in any order; none of it need be there."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def sync_directory(self, directory: str) -> None:
        """Once it returns, every name created, renamed or removed in the directory so far is durable."""
        ...

    def forget_cached(self, path: str) -> None:
        """A hint to read this file from the medium next time, rather than from a cache."""
        ...

    def free_bytes(self) -> int:
        """How many more bytes can be written."""
        ...
