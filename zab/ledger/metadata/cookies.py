"""The cookie of a bookie: which bookie of which cluster a directory belongs to.

The same bytes are in the znode `cookies/<bookie>` and in a file of every directory of the bookie. The first line is the
version, the rest is text:

| version | the rest |
|---|---|
| 5, which is written; 4 | protocol buffers as text |
| 3 | lines: bookie, journal directories, ledger directories |

Journal directories are joined by commas; ledger and index directories are a number, then that many, each after a tab.

Not here: what a bookie does at its start if a cookie is missing or differs.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.text_format import parse_text, print_text, string_of
from zab.ledger.wire.protobuf import message_classes

VERSION: Final = 5
_OLDEST: Final = 3

_FORMAT: Final = message_classes(
    "cookie",
    {
        "CookieFormat": [
            *("bookieHost 1 bytes", "journalDir 2 bytes", "ledgerDirs 3 bytes", "instanceId 4 bytes opt"),
            "indexDirs 5 bytes opt",
        ]
    },
)["CookieFormat"]


@attrs.frozen
class Cookie:
    """What a cookie says. Directories are absolute paths without commas and tabs."""

    bookie: BookieId
    journal_directories: tuple[str, ...]
    ledger_directories: tuple[str, ...]
    instance_id: str | None = None
    """The cluster, as `INSTANCEID` has it; None in cookies of old bookies."""
    index_directories: tuple[str, ...] | None = None
    """None: those of the ledgers."""

    def differences(self, other: Cookie) -> list[str]:
        """The names of the fields that differ: any of them refuses a start."""
        return [field.name for field in attrs.fields(Cookie) if getattr(self, field.name) != getattr(other, field.name)]


def encode_cookie(cookie: Cookie) -> bytes:
    """The bytes of a cookie, in version 5. Raises InvalidMetadataError if a directory cannot be written."""
    message = _FORMAT(
        bookieHost=cookie.bookie.encode(),
        journalDir=_joined(cookie.journal_directories, ",").encode(),
        ledgerDirs=_counted(cookie.ledger_directories).encode(),
    )
    if cookie.instance_id is not None:
        message.instanceId = cookie.instance_id.encode()
    if cookie.index_directories is not None:
        message.indexDirs = _counted(cookie.index_directories).encode()
    return b"%d\n%b" % (VERSION, print_text(message))


def decode_cookie(data: bytes) -> Cookie:
    """The cookie in these bytes. Raises InvalidMetadataError."""
    version, _, rest = data.partition(b"\n")
    if not version.isdigit() or len(version) > 9 or int(version) < _OLDEST:
        raise InvalidMetadataError(f"a cookie of version {version[:20]!r}")
    if int(version) == _OLDEST:
        return _from_lines(string_of(rest, "cookie").split("\n"))
    return _from_message(parse_text(_FORMAT, rest))


def _from_message(message: Any) -> Cookie:
    indexes = string_of(message.indexDirs, "index directories") if message.HasField("indexDirs") else None
    return Cookie(
        _bookie(string_of(message.bookieHost, "name of the bookie")),
        tuple(string_of(message.journalDir, "journal directories").split(",")),
        _directories(string_of(message.ledgerDirs, "ledger directories")),
        string_of(message.instanceId, "id of the instance") if message.HasField("instanceId") else None,
        None if indexes is None else _directories(indexes),
    )


def _from_lines(lines: list[str]) -> Cookie:
    if len(lines) < 3 or any(lines[3:]):
        raise InvalidMetadataError(f"a cookie of version 3 with {len(lines)} lines")
    return Cookie(_bookie(lines[0]), tuple(lines[1].split(",")), _directories(lines[2]))


def _bookie(text: str) -> BookieId:
    if not is_bookie_id(text):
        raise InvalidMetadataError(f"{text[:60]!r} is no name of a bookie")
    return BookieId(text)


def _joined(directories: tuple[str, ...], separator: str) -> str:
    if not directories or any("\t" in each or "," in each or "\n" in each or not each for each in directories):
        raise InvalidMetadataError(f"the directories {directories} cannot be written into a cookie")
    return separator.join(directories)


def _counted(directories: tuple[str, ...]) -> str:
    return f"{len(directories)}\t{_joined(directories, chr(9))}"


def _directories(text: str) -> tuple[str, ...]:
    count, *directories = text.split("\t")
    if count != str(len(directories)) or not all(directories):
        raise InvalidMetadataError(f"a cookie with {count[:20]!r} directories, of which {len(directories)} are there")
    return tuple(directories)
