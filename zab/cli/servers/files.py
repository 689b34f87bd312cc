"""Files with secrets, and directories of them: their owner's alone, and whole on the disk when they have their name.

    write(path, content)        one that is not there yet
    append(path, content)       to one that is
    replace(path, content)      one as a whole
    new_directory(directory)    everything in it at once

All raise OSError.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["append", "new_directory", "replace", "write"]


def write(path: Path, content: bytes) -> None:
    _put(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), content)


def append(path: Path, content: bytes) -> None:
    _put(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), content)


def replace(path: Path, content: bytes) -> None:
    aside = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        write(aside, content)
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextlib.contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A directory aside, which becomes `directory` at the end. FileExistsError where there is something."""
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} is there already, and is not overwritten")
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
    aside.mkdir(mode=0o700)
    try:
        yield aside
        _sync(aside)
        os.rename(aside, directory)
        _sync(directory.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _put(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
