"""Files that hold secrets: they must belong to the user of this process, or to root, and be inaccessible to others.

Not here: the content of each file (`secret_file`, `users_file`, `tls_stores`; the directories of `zab certs`), and
reading files again (`watched`).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from zab.tls.private import why_not_private


class PrivateFileError(Exception):
    """The file cannot be used; the text says why, and what to do. It never shows the content."""


def read_private(path: str, bytes_max: int, limit_reason: str) -> bytes:
    """Read a whole file. `limit_reason` explains the limit in the error for a larger file. Raises
    `PrivateFileError`."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise PrivateFileError(f"{path}: it cannot be read: {error.strerror or error}") from None
    if data:  # An empty file has no secret in it.
        _demand(path, status)
    if len(data) > bytes_max:
        raise PrivateFileError(f"{path}: it has more than {bytes_max} bytes; {limit_reason}")
    return data


def demand_private(path: str) -> None:
    """Check a file that another module reads. Raises `PrivateFileError`."""
    try:
        _demand(path, os.stat(path))
    except OSError as error:
        raise PrivateFileError(f"{path}: it cannot be read: {error.strerror or error}") from None


def _demand(path: str, status: os.stat_result) -> None:
    reason = why_not_private(path, status)
    if reason is not None:
        raise PrivateFileError(reason)


def write_private(path: str | Path, content: bytes) -> None:
    """Write a new file, and sync it. Raises FileExistsError, and other OSError."""
    _put(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), content)


def append_private(path: str | Path, content: bytes) -> None:
    """Append to an existing file, and sync it. Raises OSError."""
    _put(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), content)


def replace_private(path: str | Path, content: bytes) -> None:
    """Replace a file atomically. Raises OSError."""
    path = Path(path)
    aside = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        write_private(aside, content)
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
