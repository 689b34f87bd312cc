"""Paths: ZooKeeper's rules of form, and the arithmetic of parents, names and sequence numbers.

A path is UTF-8 bytes. It is valid if it starts with "/", does not end with it (except "/" itself), and has no empty
component, none that is "." or "..", and no character in the ranges U+0000 to U+001F, U+007F to U+009F, U+D800 to
U+F8FF, U+FFF0 to U+FFFF. ZooKeeper checks UTF-16 units, so every character above U+FFFF, a pair of surrogates there, is
refused as well. A path that is not UTF-8 is refused everywhere: the transaction record holds text.

Reserved znodes are in every tree and cannot be deleted.
"""

import re
from typing import Final

from datatree.errors import ErrorCode, Refused

__all__ = [
    "CONFIG",
    "LONG_INDEX_MAX",
    "LONG_ZXID_MAX",
    "QUOTA",
    "RESERVED",
    "ROOT",
    "ZOOKEEPER",
    "is_text",
    "is_valid",
    "is_valid_name",
    "long_sequential_name",
    "missing",
    "name",
    "parent",
    "sequential_name",
    "text_of",
    "validate",
]

ROOT: Final = b"/"
ZOOKEEPER: Final = b"/zookeeper"
QUOTA: Final = b"/zookeeper/quota"
CONFIG: Final = b"/zookeeper/config"
RESERVED: Final = frozenset({ROOT, ZOOKEEPER, QUOTA, CONFIG})
"""The znodes of every tree that cannot be deleted."""

# Nearly all paths are printable ASCII and are decided without decoding them.
_PLAIN_NAME: Final = re.compile(rb"(?!\.{1,2}\Z)[ -.0-~]+").fullmatch
_PLAIN_PATH: Final = re.compile(rb"(?:/(?!\.{1,2}(?:/|\Z))[ -.0-~]+)+").fullmatch
_FORBIDDEN: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]").search
_HALF_PAIR_BYTES: Final = bytes(
    (byte == 0xED) | (0xA0 <= byte <= 0xBF) << 1 | (0x80 <= byte <= 0xBF) << 2 for byte in range(256)
)
"""For each byte, which of the three bytes of a half pair it may be: a bit for each."""
_NOT_FE: Final = bytes(range(0xFE)) + b"\xff\xff"
"""Replaces the byte FE by FF: neither occurs in UTF-8."""


def is_text(path: bytes) -> bool:
    """Whether `path` is UTF-8."""
    if path.isascii():
        return True
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(name: bytes) -> bytes:
    """`name` as ZooKeeper reads it: U+FFFD replaces bytes that are not UTF-8. At most three times as long."""
    if name.isascii():
        return name
    if b"\xed" in name:
        name = _without_half_pairs(name)
    return name.decode(errors="replace").encode()


def _without_half_pairs(name: bytes) -> bytes:
    """`name` with one invalid byte, FF, for each half pair: a surrogate of UTF-16 that is encoded like a character.
    Java decodes its three bytes to one U+FFFD, Python to three.

    A client may send a megabyte of them. A regular expression takes 45 ms for 260,000 half pairs, so all bytes are
    compared at once, as one long integer: its lowest byte is the first byte of `name`.
    """
    kinds = int.from_bytes(name.translate(_HALF_PAIR_BYTES), "little")
    firsts = kinds & kinds >> 9 & kinds >> 18 & int.from_bytes(b"\1" * len(name), "little")
    others = firsts << 8 | firsts << 16
    all_three = firsts | others
    # The first byte becomes FF; the other two become FE, and are dropped.
    marked = (int.from_bytes(name.translate(_NOT_FE), "little") | (all_three << 8) - all_three) ^ others
    return marked.to_bytes(len(name), "little").translate(None, b"\xfe")


def is_valid_name(component: bytes) -> bool:
    """Whether `component` may follow the last "/" of a path whose parent is valid."""
    if _PLAIN_NAME(component):
        return True
    if not component or component in (b".", b"..") or b"/" in component or not is_text(component):
        return False
    return _FORBIDDEN(component.decode()) is None


def is_valid(path: bytes) -> bool:
    """Whether `path` has the form that this module describes."""
    if path == ROOT or _PLAIN_PATH(path):
        return True
    return path.startswith(b"/") and all(is_valid_name(component) for component in path[1:].split(b"/"))


def validate(path: bytes) -> None:
    """Raise Refused(BADARGUMENTS) unless `path` is valid."""
    if not is_valid(path):
        raise Refused(ErrorCode.BADARGUMENTS)


def parent(path: bytes) -> bytes:
    """What precedes the last "/"; the root for a path directly below it and for itself. `path` has a "/"."""
    return path[: path.rindex(b"/")] or ROOT


def name(path: bytes) -> bytes:
    """What follows the last "/"."""
    return path[path.rindex(b"/") + 1 :]


def sequential_name(path: bytes, number: int) -> bytes:
    """`path` with the sequence number appended: ten digits, zeros in front, the sign (after the wrap) among the ten."""
    return path + b"%010d" % number


LONG_INDEX_MAX: Final = (1 << 13) - 1
LONG_ZXID_MAX: Final = (1 << 49) - 1
_LONG_FIRST: Final = 3_000_000_000_000_000_000


def long_sequential_name(path: bytes, zxid: int, index: int) -> bytes:
    """`path` with a 64-bit number appended, of 19 digits: greater than all numbers of ten digits, as text and as a
    number, and than those of lower zxids and indexes. `index` counts the names with this zxid, up to `LONG_INDEX_MAX`;
    the zxid is at most `LONG_ZXID_MAX`."""
    assert 0 <= index <= LONG_INDEX_MAX
    assert 0 < zxid <= LONG_ZXID_MAX
    return path + b"%d" % (_LONG_FIRST + (zxid << 13 | index))


def missing(path: bytes) -> Refused:
    """Why there is no znode at `path`. An existing znode has a valid path, so only missing ones are checked."""
    return Refused(ErrorCode.NONODE if is_valid(path) else ErrorCode.BADARGUMENTS)
