"""The entries of a snapshot: sessions, lists of permissions, znodes (the layout is in `datatree.snapshot`)."""

import struct

from datatree.acl import AclList
from datatree.znode import STAT_BYTES

SESSION = struct.Struct(">Bqi")
LIST = struct.Struct(">BII")
ENTRY = struct.Struct(">iII")
ZNODE = struct.Struct(f">BIiIqi{STAT_BYTES}s")
ZNODE_BYTES = ZNODE.size
"""The size of a znode's entry up to the path."""

IS_SESSION, IS_LIST, IS_ZNODE = 1, 2, 3


def pack_list(number: int, acl: AclList) -> bytes:
    """Encode the entry of a list."""
    assert acl is not None
    parts = [LIST.pack(IS_LIST, number, len(acl))]
    for perms, scheme, name in acl:
        parts += ENTRY.pack(perms, len(scheme), len(name)), scheme, name
    return b"".join(parts)


def parse_list(data: bytes, at: int) -> tuple[int, AclList, int]:
    """The list at `at`: its number, the list, and the offset after it."""
    _, number, count = LIST.unpack_from(data, at)
    at += LIST.size
    entries = []
    for _ in range(count):
        perms, scheme_length, id_length = ENTRY.unpack_from(data, at)
        middle = at + ENTRY.size + scheme_length
        entries.append((perms, data[at + ENTRY.size : middle], data[middle : middle + id_length]))
        at = middle + id_length
    return number, tuple(entries), at
