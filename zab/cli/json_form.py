"""The one form of what `--json` prints: each line is one object; docs/reference/json.md lists the fields of each
command.

zxid, session, digest   hexadecimal text, "0x100000005": JavaScript and jq round numbers of more than 53 bits
session, owner          null for none
time                    ISO 8601, UTC, milliseconds, "2026-11-20T22:00:16.123Z"; null outside of the years 1 to 9999
data                    `data`, and how it is written in `encoding`: "utf-8" as text, "base64" where it is not UTF-8;
                        both null where there is none
ACL                     a list of objects: scheme, id, and permissions as letters of cdrwa
durations, sizes        numbers, with the unit in the name: ttl_ms

Names are those of `zab.client`. A field is there whether it has a value or not.

Deliberately not here: which fields a command has (its module), and the tables of `zab pipeline`.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

import typer

from zab.wire.visible import UNSEEN

__all__ = ["JsonOption", "acl_entry", "data_fields", "hexadecimal", "json_line", "owner_or_none", "time_text"]

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNSIGNED: Final = 0xFFFF_FFFF_FFFF_FFFF
# The letters in their order, and by their bits.
_LETTERS: Final = "cdrwa"
_BITS: Final = "rwcda"
# Those that JSON does not escape by itself.
_CONTROL: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *UNSEEN)}


def hexadecimal(value: int) -> str:
    """64 bits, without a sign."""
    return f"{value & _UNSIGNED:#x}"


def owner_or_none(session: int) -> str | None:
    """A session, of which 0 is none."""
    return hexadecimal(session) if session else None


def time_text(time_ms: int) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def data_fields(data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {"data": None, "encoding": None}
    try:
        return {"data": data.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(data).decode(), "encoding": "base64"}


def acl_entry(permissions: int, scheme: str, name: str) -> dict[str, str]:
    letters = "".join(letter for letter in _LETTERS if permissions >> _BITS.index(letter) & 1)
    return {"scheme": scheme, "id": name, "permissions": letters}


def json_line(fields: Mapping[str, Any]) -> str:
    """One object on one line, without control characters and without a line end."""
    return json.dumps(fields, ensure_ascii=False).translate(_CONTROL)
