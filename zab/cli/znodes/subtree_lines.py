"""A subtree exported as lines of JSON objects: text in, znodes out, and the reverse; no I/O.

    {"format": "zab subtree", "version": 1, "root": "/app"}                          the first line
    {"path": "/app", "data": "hello", "encoding": "utf-8", "acl": [{"scheme": …}]}   a line for each znode
    {"znodes": 1}                                                                    the last line: nothing is missing

Data and ACLs have the form of `zab.cli.json_form`. Every znode except the root comes after its parent. A line of a
znode may also have `container` (true) or `ttl_ms`, for the kind that it will get; an export has neither, since servers
do not tell clients.

The content of a file is not trusted. Anything that is not as described is a `SubtreeFileError` that names the line and
the reason: no JSON, a repeated, unknown or missing field, a malformed or repeated path, a path outside of the root or
without its parent, lines after the last.

Not here: the other form, a directory (`subtree_directory.py`).
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from datatree.paths import is_valid
from datatree.znode import TTL_MS_MAX
from zab.cli.json_form import data_fields, json_line
from zab.cli.znodes.json_values import acl_value
from zab.client import Acl, Permission, ZabError

__all__ = [
    "Entry",
    "SubtreeFileError",
    "acl_of",
    "checked_fields",
    "checked_header",
    "entries_of",
    "entry_line",
    "first_line",
    "kind_of",
    "last_line",
    "line_bytes_max",
    "loaded",
]

FORMAT: Final = "zab subtree"
VERSION: Final = 1
_HEADER: Final = {"format", "version", "root"}
_FIELDS: Final = {"path", "data", "encoding", "acl"}
_KINDS: Final = {"container", "ttl_ms"}
_ACL_FIELDS: Final = {"scheme", "id", "permissions"}
_ESCAPED_BYTES: Final = 6
"""A control character of data in JSON."""


class SubtreeFileError(ZabError):
    """The file cannot be imported. place: the line, or the path of a file in the directory."""

    def __init__(self, place: str, reason: str) -> None:
        # The name of a file may have bytes that are not text.
        super().__init__(f"{place}: {reason}".encode("utf-8", "backslashreplace").decode())


class Entry(NamedTuple):
    """A znode in the file."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    container: bool = False
    ttl_ms: int | None = None


def line_bytes_max(request_bytes_max: int) -> int:
    """The longest line for a znode that fits in a request."""
    return _ESCAPED_BYTES * request_bytes_max + 64 * 1024


def first_line(root: str) -> str:
    return json_line({"format": FORMAT, "version": VERSION, "root": root})


def entry_line(entry: Entry) -> str:
    return json_line({"path": entry.path, **data_fields(entry.data), "acl": acl_value(entry.acl)})


def last_line(count: int) -> str:
    return json_line({"znodes": count})


def loaded(text: bytes, place: str) -> dict[str, Any]:
    """The object of a line."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SubtreeFileError(place, "a field stands twice in one object")
        return found

    try:
        value = json.loads(text.decode(), object_pairs_hook=once)
    except UnicodeDecodeError:
        raise SubtreeFileError(place, "it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise SubtreeFileError(place, f"it is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise SubtreeFileError(place, "it is no object")
    return value


def checked_header(header: dict[str, Any], place: str) -> str:
    """The path of the root."""
    if header.get("format") != FORMAT:
        raise SubtreeFileError(place, f'a subtree begins with {{"format": "{FORMAT}", …}}; zab export writes one')
    checked_fields(header, _HEADER, set(), place)
    if type(header["version"]) is not int or header["version"] != VERSION:
        raise SubtreeFileError(place, f"it has version {header['version']!r}; this program knows {VERSION}")
    return _checked_path(header["root"], place)


def entries_of(lines: Iterable[tuple[str, bytes]], root: str) -> Iterator[tuple[str, Entry]]:
    """The znodes of the lines after the first, each with its place. lines: each with its place."""
    seen: set[str] = set()
    count: int | None = None
    place = "the end"
    for place, line in lines:
        if count is not None:
            raise SubtreeFileError(place, "the line before says that it is the last")
        value = loaded(line, place)
        if value.keys() == {"znodes"}:
            count = value["znodes"]
            if not seen:
                raise SubtreeFileError(place, "there is no znode in the file")
            if type(count) is not int or count != len(seen):
                raise SubtreeFileError(place, f"there are {len(seen)} znodes in the file, and not {count!r}")
            continue
        entry = _entry(value, place)
        _check_place(entry.path, root, seen, place)
        yield place, entry
    if count is None:
        raise SubtreeFileError(place, 'the file is cut short: its last line is not {"znodes": …}')


def _entry(value: dict[str, Any], place: str) -> Entry:
    checked_fields(value, _FIELDS, _KINDS, place)
    container, ttl_ms = kind_of(value, place)
    path = _checked_path(value["path"], place)
    return Entry(
        path, _data_of(value["data"], value["encoding"], place), acl_of(value["acl"], place), container, ttl_ms
    )


def checked_fields(value: dict[str, Any], wanted: set[str], possible: set[str], place: str) -> None:
    """Checks that all required fields are there, and no unknown ones."""
    missing = sorted(wanted - value.keys())
    if missing:
        raise SubtreeFileError(place, f"there is no {missing[0]}")
    unknown = sorted(value.keys() - wanted - possible)
    if unknown:
        raise SubtreeFileError(place, f"{unknown[0]!r} is not known here")


def _checked_path(path: Any, place: str) -> str:
    if not isinstance(path, str):
        raise SubtreeFileError(place, f"{path!r} is no path")
    try:
        if is_valid(path.encode()):
            return path
    except UnicodeEncodeError:
        pass
    raise SubtreeFileError(place, f"{path!r} is no path of a znode")


def _check_place(path: str, root: str, seen: set[str], place: str) -> None:
    """Checks the path, and adds it to those seen."""
    if path in seen:
        raise SubtreeFileError(place, f"{path} was there before")
    if path == root:
        pass
    elif not path.startswith(root if root == "/" else f"{root}/"):
        raise SubtreeFileError(place, f"{path} is not below {root}")
    elif (path.rpartition("/")[0] or "/") not in seen:
        raise SubtreeFileError(place, f"what is above {path} was not there before")
    seen.add(path)


def kind_of(value: dict[str, Any], place: str) -> tuple[bool, int | None]:
    """Whether it will be a container, and its TTL."""
    container, ttl_ms = value.get("container", False), value.get("ttl_ms")
    if not isinstance(container, bool):
        raise SubtreeFileError(place, f"container is true or false, not {container!r}")
    is_ttl = ttl_ms is None or (isinstance(ttl_ms, int) and not isinstance(ttl_ms, bool) and 0 < ttl_ms <= TTL_MS_MAX)
    if not is_ttl:
        raise SubtreeFileError(place, f"ttl_ms is between 1 and {TTL_MS_MAX}, not {ttl_ms!r}")
    if container and ttl_ms is not None:
        raise SubtreeFileError(place, "a container has no ttl_ms")
    return container, ttl_ms


def _data_of(data: Any, encoding: Any, place: str) -> bytes | None:
    if data is None and encoding is None:
        return None
    if not isinstance(data, str):
        raise SubtreeFileError(place, "data and its encoding are text, or both null")
    if encoding not in ("utf-8", "base64"):
        raise SubtreeFileError(place, f"the encoding of data is utf-8 or base64, not {encoding!r}")
    try:
        return data.encode() if encoding == "utf-8" else base64.b64decode(data, validate=True)
    except UnicodeEncodeError:
        raise SubtreeFileError(place, "data has half of a character") from None
    except (binascii.Error, ValueError) as error:
        raise SubtreeFileError(place, f"data is no base64: {error}") from None


def acl_of(acl: Any, place: str) -> tuple[Acl, ...]:
    """The ACL of a znode in the file."""
    if not isinstance(acl, list) or not acl:
        raise SubtreeFileError(place, "acl is a list of objects, and not empty")
    return tuple(_acl_entry(entry, place) for entry in acl)


def _acl_entry(entry: Any, place: str) -> Acl:
    if not isinstance(entry, dict) or not all(isinstance(each, str) for each in entry.values()):
        raise SubtreeFileError(place, "an entry of acl is an object of texts")
    checked_fields(entry, _ACL_FIELDS, set(), place)
    try:
        permissions = Permission.from_letters(entry["permissions"])
        acl = Acl(permissions, entry["scheme"], entry["id"])
        acl.to_wire()
    except UnicodeEncodeError:
        raise SubtreeFileError(place, "an entry of acl has half of a character") from None
    except ValueError as error:
        raise SubtreeFileError(place, str(error)) from None
    return acl
