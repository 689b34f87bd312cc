"""The entries of a log that keeps the feed of changes: bytes to values and back. Pure.

An entry is one object in JSON, with some changes, and the places before and after them:

    {"changes_format": 1, "prefix": "/app", "from": PLACE, "to": PLACE, "changes": [CHANGE, …]}

Entries follow each other: each begins where the one before has ended. So a reader notices when one is missing. The last
entry says how far the log is; the next owner needs nothing else. Paths are those of the servers, with any chroot.

    parts_of(changes, …)     entries of at most ENTRY_BYTES bytes, or one larger change
    decode_entry(payload)    raises InvalidEntryError for everything else
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from zab.client import Change, ChangeKind, Place
from zab.client.places import place_fields, place_of

FORMAT: Final = 1
ENTRY_BYTES: Final = 512 * 1024
"""An entry with more than one change has no more."""
PREFIX_CHARS_MAX: Final = 1000

_UNSIGNED: Final = 0xFFFF_FFFF_FFFF_FFFF


class InvalidEntryError(ValueError):
    """The payload is no entry of this format."""


@frozen
class ChangesEntry:
    """`begin`, `end`: the places before and after the changes."""

    prefix: str
    begin: Place
    end: Place
    changes: tuple[Change, ...] = ()


def same_history(one: Place, another: Place) -> bool:
    """A place that was given as a zxid has no history yet."""
    return not one.history_id or not another.history_id or one.history_id == another.history_id


def parts_of(prefix: str, begin: Place, end: Place, changes: Iterable[Change]) -> Iterator[tuple[ChangesEntry, bytes]]:
    """Entries with these changes, in order, and their bytes; one without changes if there are none."""
    held: list[Change] = []
    texts: list[str] = []
    size = 0
    for change in changes:
        text = _change_text(change)
        if held and size + len(text) > ENTRY_BYTES:
            middle = Place(held[-1].zxid, held[-1].part, end.history_id)
            yield _entry(prefix, begin, middle, held, texts)
            begin, held, texts, size = middle, [], [], 0
        held.append(change)
        texts.append(text)
        size += len(text)
    yield _entry(prefix, begin, end, held, texts)


def _entry(
    prefix: str, begin: Place, end: Place, changes: list[Change], texts: list[str]
) -> tuple[ChangesEntry, bytes]:
    head = {"changes_format": FORMAT, "prefix": prefix, "from": place_fields(begin), "to": place_fields(end)}
    text = f'{json.dumps(head)[:-1]}, "changes": [{", ".join(texts)}]}}'
    return ChangesEntry(prefix, begin, end, tuple(changes)), text.encode("ascii")


def _change_text(change: Change) -> str:
    fields = {
        "zxid": f"{change.zxid:#x}",
        "part": change.part,
        "time_ms": change.time,
        "session": f"{change.session & _UNSIGNED:#x}",
        "kind": change.kind.name,
        "path": change.path,
        **_data_fields(change.data),
        "version": change.version,
        "ephemeral_owner": f"{change.ephemeral_owner & _UNSIGNED:#x}",
    }
    return json.dumps(fields)


def _data_fields(data: bytes | None) -> dict[str, str | None]:
    """As text where it is text, and where that is not longer than in base64."""
    if data is None:
        return {"data": None, "encoding": None}
    encoded = base64.b64encode(data).decode()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"data": encoded, "encoding": "base64"}
    if len(json.dumps(text)) > len(encoded) + 2:
        return {"data": encoded, "encoding": "base64"}
    return {"data": text, "encoding": "utf-8"}


def decode_entry(payload: bytes) -> ChangesEntry:
    """Raises InvalidEntryError."""
    try:
        fields = json.loads(payload)
        if not isinstance(fields, dict) or fields.get("changes_format") != FORMAT:
            raise InvalidEntryError("it has no changes of this format")
        prefix, begin, end = fields["prefix"], place_of(fields["from"]), place_of(fields["to"])
        changes = tuple(map(_change, fields["changes"]))
    except InvalidEntryError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidEntryError(f"it is malformed: {error!r}"[:200]) from None
    if not isinstance(prefix, str):
        raise InvalidEntryError("its prefix is no path")
    order = [begin[:2], *(change[:2] for change in changes)]
    if not all(one < another for one, another in pairwise(order)) or order[-1] > end[:2]:
        raise InvalidEntryError("its changes are not in order")
    return ChangesEntry(prefix, begin, end, changes)


def _change(fields: Any) -> Change:
    path = fields["path"]
    path.encode()
    return Change(
        int(fields["zxid"], 16),
        int(fields["part"]),
        int(fields["time_ms"]),
        _signed(fields["session"]),
        ChangeKind[fields["kind"]],
        path,
        _data(fields["data"], fields["encoding"]),
        int(fields["version"]),
        _signed(fields["ephemeral_owner"]),
    )


def _data(text: Any, encoding: Any) -> bytes | None:
    if text is None:
        return None
    if encoding == "utf-8":
        return bytes(text.encode())
    if encoding != "base64":
        raise InvalidEntryError(f"data is not encoded in {str(encoding)[:40]!r}")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidEntryError(f"data: {error}") from None


def _signed(text: str) -> int:
    value = int(text, 16) & _UNSIGNED
    return value - (1 << 64) if value >> 63 else value
