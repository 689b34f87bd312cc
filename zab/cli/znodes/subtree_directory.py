"""A subtree exported as directories: one for each znode, with its data as a file, byte for byte.

    DIR/@subtree             {"format": "zab subtree", "version": 1, "root": "/app", "znodes": 2}
    DIR/@acl                 {"acl": [{"scheme": …}]}
    DIR/@data                the data of /app; no file if there is none
    DIR/w%201/@acl, …        /app/w 1

A directory is named after its znode, with `%` and two hexadecimal digits for every byte that is neither a letter, a
digit nor one of `_.-~`. So no name begins with `@`, and none leads elsewhere. `@acl` may have `container` or `ttl_ms`,
like a line (`subtree_lines.py`). `@subtree` is written last: without it, the export was not finished.

The content of a directory is not trusted. Anything that is not as described is a `SubtreeFileError` that says where and
why: links, files with other names, names that are encoded differently, data that is larger than a request.

Only their owner may read the files that are written.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from datatree.paths import is_valid_name
from zab.cli.json_form import json_line
from zab.cli.znodes.json_values import acl_value
from zab.cli.znodes.subtree import child_path
from zab.cli.znodes.subtree_lines import (
    FORMAT,
    VERSION,
    Entry,
    SubtreeFileError,
    acl_of,
    checked_fields,
    checked_header,
    kind_of,
    loaded,
)

__all__ = ["DirectoryWriter", "directory_entries", "directory_header"]

_HEADER: Final = "@subtree"
_ACL: Final = "@acl"
_DATA: Final = "@data"
_ACL_BYTES_MAX: Final = 1024 * 1024
_OURS: Final = {"@subtree", "@acl", "@data"}


class DirectoryWriter:
    """Writes znodes, each after its parent, to a new or empty directory. Raises SubtreeFileError."""

    def __init__(self, directory: Path, root: str) -> None:
        self._directory = directory
        self._root = root
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            if any(directory.iterdir()):
                raise SubtreeFileError(str(directory), "there is something in it; name a directory that is not there")
        except OSError as error:
            raise SubtreeFileError(str(directory), f"it cannot be made: {error.strerror}") from None

    def write(self, entry: Entry) -> None:
        names = entry.path[len(self._root) :].strip("/")
        place = self._directory.joinpath(*(quote(name, safe="") for name in names.split("/") if name))
        try:
            if place != self._directory:
                place.mkdir(mode=0o700)
            _write(place / _ACL, json_line({"acl": acl_value(entry.acl)}).encode() + b"\n")
            if entry.data is not None:
                _write(place / _DATA, entry.data)
        except OSError as error:
            reason = f"{entry.path} cannot be written here: {error.strerror}; without --dir it can"
            raise SubtreeFileError(str(place), reason) from None

    def finish(self, count: int) -> None:
        header = json_line({"format": FORMAT, "version": VERSION, "root": self._root, "znodes": count})
        _write(self._directory / _HEADER, header.encode() + b"\n")


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def directory_header(directory: Path) -> tuple[str, int]:
    """The root of the exported subtree, and its number of znodes."""
    place = directory / _HEADER
    if not place.is_file():
        raise SubtreeFileError(str(directory), f"there is no {_HEADER} in it: no export was finished here")
    header = loaded(_read(place, _ACL_BYTES_MAX), str(place))
    count = header.pop("znodes", None)
    if type(count) is not int:
        raise SubtreeFileError(str(place), "znodes is not their number")
    return checked_header(header, str(place)), count


def directory_entries(directory: Path, data_bytes_max: int) -> Iterator[tuple[str, Entry]]:
    """The exported znodes, each with its place, and each after its parent."""
    root, expected = directory_header(directory)
    pending = [(directory, root)]
    count = 0
    while pending:
        place, path = pending.pop()
        files, below = _listed(place, is_top=place == directory)
        yield str(place), _entry(place, path, files, data_bytes_max)
        count += 1
        pending += [(place / name, child_path(path, _decoded(place, name))) for name in sorted(below, reverse=True)]
    if count != expected:
        raise SubtreeFileError(str(directory), f"there are {count} znodes in it, and not {expected}")


def _listed(place: Path, *, is_top: bool) -> tuple[set[str], list[str]]:
    """The names of files and of directories in it."""
    files, below = set(), []
    try:
        with os.scandir(place) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False):
                    below.append(each.name)
                elif each.is_file(follow_symlinks=False) and each.name in _OURS - (set() if is_top else {_HEADER}):
                    files.add(each.name)
                else:
                    raise SubtreeFileError(str(place / each.name), "it is no part of an exported subtree")
    except OSError as error:
        raise SubtreeFileError(str(place), f"it cannot be read: {error.strerror}") from None
    return files, below


def _decoded(place: Path, name: str) -> str:
    """The znode's name that a directory stands for."""
    try:
        decoded = unquote_to_bytes(name).decode()
    except UnicodeError:
        decoded = ""
    if quote(decoded, safe="") != name or not is_valid_name(decoded.encode()):
        raise SubtreeFileError(str(place / name), "no znode has this name, written so")
    return decoded


def _entry(place: Path, path: str, files: set[str], data_bytes_max: int) -> Entry:
    if _ACL not in files:
        raise SubtreeFileError(str(place), f"there is no {_ACL}")
    value: dict[str, Any] = loaded(_read(place / _ACL, _ACL_BYTES_MAX), str(place / _ACL))
    checked_fields(value, {"acl"}, {"container", "ttl_ms"}, str(place / _ACL))
    container, ttl_ms = kind_of(value, str(place / _ACL))
    data = _read(place / _DATA, data_bytes_max) if _DATA in files else None
    return Entry(path, data, acl_of(value["acl"], str(place / _ACL)), container, ttl_ms)


def _read(path: Path, bytes_max: int) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SubtreeFileError(str(path), "it is no file")
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise SubtreeFileError(str(path), f"it cannot be read: {error.strerror}") from None
    if len(data) > bytes_max:
        raise SubtreeFileError(str(path), f"it is larger than {bytes_max:,} bytes; --jute-maxbuffer allows more")
    return data
