"""The only way from the replicated state to files: what a disk does, without saying which one.

The service hands in the real one, the simulator one in memory that loses what was not synced. Paths are `str`, relative
to the directory that the disk was opened on, with at most one directory in them ("version-1/log.100000001").

What each call promises about power loss stands at the call; where nothing is said, nothing is promised: the change
may survive or not, wholly or sector by sector, in any order with other such changes. Every failure is an `OSError`, and
after one the file that it happened on is not to be trusted: the kernel may have marked the pages clean, so a second
sync proves nothing. Not here: any retry.
"""

import errno
from typing import Protocol


def is_full(error: OSError) -> bool:
    """Whether that was for want of room: nothing else is wrong with the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether the process or the system had none left to open a file: nothing was done, and in a moment it may go."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class File(Protocol):
    """A file that grows at its end; one writer."""

    @property
    def size(self) -> int:
        """Where the next write goes, in bytes from the start."""
        ...

    def write(self, data: bytes) -> None:
        """Write at the end."""
        ...

    def write_durable(self, data: bytes) -> None:
        """Write at the end; when it returns, these bytes (not necessarily earlier ones) survive. One system call."""
        ...

    def sync(self) -> None:
        """When it returns, all that was written to this file survives. Its name in the directory may not."""
        ...

    def close(self) -> None:
        """Give back what was preallocated and not used. Syncs nothing."""
        ...


class Disk(Protocol):
    """Files by path. May be used from several threads on different files."""

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> File:
        """Open for writing at `offset`. With `create` the file must not exist, without it must."""
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Up to `length` bytes (None: all) from `offset`; fewer at the end of the file."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Make `data` the content of `path`, all or nothing; durable, the name included, when it returns."""
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Write `data` at the start of `path`, in place; creates it. Promises nothing about power loss. For the few
        files that are written again and again: the disk may keep them open."""
        ...

    def preallocate(self, path: str, size: int) -> None:
        """Make a file of `size` zero bytes that have their blocks (no hole), in the place of any that is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename, in the place of any file named `new`. Another directory is made where it is not there, durably; the
        new name stays for sure once both directories are synced, and until then the file has one of its names."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, which must exist."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Cut a file down to `size` bytes; durable when it returns."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted; empty when there is no such directory."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def sync_directory(self, directory: str) -> None:
        """When it returns, every name created, renamed or removed in the directory so far stays so."""
        ...

    def forget_cached(self, path: str) -> None:
        """Let what is read next of this file come from the medium, where that can be had: it is a hint."""
        ...

    def free_bytes(self) -> int:
        """How much more can be written."""
        ...
