r"""An ACL as the text of a column, and back.

    world:anyone:cdrwa                                       the open list
    digest:ann:6DY5WhzOfGsWQ1XFuIyzxkpwdPo=:cdrwa,world:anyone:r
    x509:CN=ann\,O=example:r                                 a comma inside an entry

One entry is scheme:id:permissions, the form that `zab acl set` takes. A comma or a backslash inside an entry, and a
colon inside a scheme, is escaped with a backslash: so no id can be read as further entries. Permissions are letters of
cdrwa; permissions with a bit that has no letter are written as a number.

Invariants: `parse_acl_text(acl_text(acl)) == acl` for every list whose texts are UTF-8; the empty list is "".
"""

import re
from functools import lru_cache
from typing import Final

from datatree.record import Acl, AclList

__all__ = ["OPEN_ACL_TEXT", "acl_text", "parse_acl_text"]

OPEN_ACL_TEXT: Final = "world:anyone:cdrwa"

_OPEN: Final = ((31, b"world", b"anyone"),)
_LETTERS: Final = (("c", 4), ("d", 8), ("r", 1), ("w", 2), ("a", 16))
_BITS: Final = dict(_LETTERS)
_ALL: Final = 31
_IN_SCHEME: Final = re.compile(r"([\\,:])")
_IN_ID: Final = re.compile(r"([\\,])")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
# (?:[^\\,]|\\.)* is one entry, however it is escaped.
_ENTRY: Final = re.compile(r"((?:[^\\,:]|\\.)*):((?:[^\\,]|\\.)*):([cdrwa]*|-?\d+)(?:,|\Z)", re.DOTALL)


@lru_cache(maxsize=4096)
def acl_text(acl: AclList) -> str:
    """The text of a list; None stands for the open list. Bytes that are not UTF-8 become replacement characters."""
    if acl is None:
        return OPEN_ACL_TEXT
    return ",".join(map(_entry_text, acl))


def _entry_text(entry: Acl) -> str:
    permissions, scheme, identity = entry
    letters = "".join(letter for letter, bit in _LETTERS if permissions & bit)
    if permissions & ~_ALL:
        letters = str(permissions)
    name = _IN_SCHEME.sub(r"\\\1", scheme.decode("utf-8", "replace"))
    owner = _IN_ID.sub(r"\\\1", identity.decode("utf-8", "replace"))
    return f"{name}:{owner}:{letters}"


@lru_cache(maxsize=4096)
def parse_acl_text(text: str) -> AclList:
    """The list that a text describes, None for the open list. Raises ValueError."""
    entries: list[Acl] = []
    at = 0
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is None or (match[0].endswith(",") and match.end() == len(text)):
            raise ValueError(f"no ACL: {text!r}")
        scheme, identity, letters = match.groups()
        entries.append((_permissions(letters), _unescaped(scheme), _unescaped(identity)))
        at = match.end()
    acl = tuple(entries)
    return None if acl == _OPEN else acl


def _permissions(letters: str) -> int:
    if letters.lstrip("-").isdecimal():
        return int(letters)
    bits = 0
    for letter in letters:
        bits |= _BITS[letter]
    return bits


def _unescaped(text: str) -> bytes:
    return _ESCAPED.sub(r"\1", text).encode()
