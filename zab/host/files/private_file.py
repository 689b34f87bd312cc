"""Files that hold secrets: they belong to the user that runs this, or to root, and nobody else may use them.

Not here: what stands in which file (`secret_file`, `users_file`, `tls_stores`; the directories of `zab certs`), and
reading one again (`watched`).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from zab.tls.private import why_not_private


class PrivateFileError(Exception):
    """The file cannot be used; the text says why, and what to do. It never shows what is in it."""


def read_private(path: str, bytes_max: int, limit_reason: str) -> bytes:
    """All of it. `limit_reason` says what a file is for that has more than `bytes_max`. Raises `PrivateFileError`."""
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
    """Of a file that somebody else reads. Raises `PrivateFileError`."""
    try:
        _demand(path, os.stat(path))
    except OSError as error:
        raise PrivateFileError(f"{path}: it cannot be read: {error.strerror or error}") from None


def _demand(path: str, status: os.stat_result) -> None:
    reason = why_not_private(path, status)
    if reason is not None:
        raise PrivateFileError(reason)


def write_private(path: str | Path, content: bytes) -> None:
    """A new file, whole on the disk. Raises FileExistsError, and other OSError."""
    _put(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), content)


def append_private(path: str | Path, content: bytes) -> None:
    """More of a file that is there. Raises OSError."""
    _put(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), content)


def replace_private(path: str | Path, content: bytes) -> None:
    """Something else in the place of a file, all at once. Raises OSError."""
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
    """So that the names in it are on the disk. Raises OSError."""
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
