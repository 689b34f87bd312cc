"""A znode as the tree holds it, and the layout of its stat.

A znode is a plain tuple of atoms, so that the garbage collector forgets it after its first look, and a write replaces
it, so that a copy of the path map is an exact snapshot:

    (data, acl id, stat, owner, cversion, digest)

- data: bytes or None, as the client gave it.
- acl id: into the tree's `AclTable`; -1 is world:anyone with all permissions. Ids never leave the server.
- stat: the 68 bytes that a client sees, big-endian, so that a read is a join:

        0 czxid 8 | 8 mzxid 8 | 16 ctime 8 | 24 mtime 8 | 32 version 4 | 36 cversion 4 | 40 aversion 4
        44 ephemeralOwner 8 | 52 dataLength 4 | 56 numChildren 4 | 60 pzxid 8

- owner: the stored ephemeralOwner: 0 for a persistent znode, the session of an ephemeral one, the least 64-bit integer
  for a container, and for a TTL znode ff, 00 00, then the TTL in ms in 40 bits. A client sees it only if it is a
  session.
- cversion: the internal one, the count of children ever created (32 bits, signed, wrapping). A client sees
  2 * cversion - numChildren, which is creations plus deletions. Sequence numbers come from the internal one.
- digest: the znode's part of the tree's digest (`datatree.digest`).

Invariant: `stat` agrees with the other fields; only `datatree.apply` and `DataTree.install` make znodes.
"""

import struct
from typing import Final, TypeAlias

__all__ = [
    "ACL",
    "CONTAINER_OWNER",
    "CVERSION",
    "DATA",
    "DIGEST",
    "INT_MAX",
    "OWNER",
    "STAT",
    "STAT_LAYOUT",
    "TTL_MS_MAX",
    "Znode",
    "is_ephemeral",
    "is_ttl",
    "next_version",
    "ttl_ms",
    "ttl_owner",
    "visible_cversion",
    "visible_owner",
    "wrapped",
]

Znode: TypeAlias = tuple[bytes | None, int, bytes, int, int, int]

DATA: Final = 0
ACL: Final = 1
STAT: Final = 2
OWNER: Final = 3
CVERSION: Final = 4
DIGEST: Final = 5

STAT_LAYOUT: Final = struct.Struct(">qqqqiiiqiiq")
STAT_BYTES: Final = 68

# What setData keeps of a stat, and the stat put together again around mzxid, mtime, version and dataLength.
KEPT_BY_SET_DATA: Final = struct.Struct(">8s8x8s12x16s4x12s")
AFTER_SET_DATA: Final = struct.Struct(">8sq8sqi16si12s")
# The same for a change among the children: cversion, numChildren and pzxid.
KEPT_BY_CHILDREN: Final = struct.Struct(">36s4x16s12x")
AFTER_CHILDREN: Final = struct.Struct(">36si16siq")
# version, aversion, dataLength, numChildren: what a later request is checked against.
CHECKED: Final = struct.Struct(">32xi4xi8xii8x")

VERSION_AT: Final = 32
AVERSION_AT: Final = 40
LENGTH_AT: Final = 52
CHILDREN_AT: Final = 56
PZXID_AT: Final = 60
INT: Final = struct.Struct(">i")

CONTAINER_OWNER: Final = -(1 << 63)
TTL_MS_MAX: Final = (1 << 40) - 1

INT_MAX: Final = (1 << 31) - 1
_TTL_TOP: Final = -(1 << 56)


def wrapped(value: int) -> int:
    """`value` as a signed 32-bit integer, as Java's int arithmetic leaves it."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def next_version(version: int) -> int:
    """The version after `version`; never -1, which stands for any version in a request (ZOOKEEPER-4743)."""
    if version == INT_MAX:
        return -INT_MAX - 1
    return version + 1 if version != -2 else 0


def visible_cversion(cversion: int, children_count: int) -> int:
    """What a client sees of the internal `cversion`: creations plus deletions of children."""
    return wrapped(2 * cversion - children_count)


def is_ttl(owner: int) -> bool:
    """The top byte of `owner` is ff. Sessions with such an id are refused, so this needs no setting to decide."""
    return _TTL_TOP <= owner < 0


def is_ephemeral(owner: int) -> bool:
    """`owner` is a session."""
    return owner > 0 or CONTAINER_OWNER < owner < _TTL_TOP


def ttl_owner(ttl: int) -> int:
    """The stored owner of a znode with a TTL of `ttl` ms."""
    assert 0 < ttl <= TTL_MS_MAX, ttl
    return _TTL_TOP + ttl


def ttl_ms(owner: int) -> int:
    """The TTL in ms that a TTL znode's owner holds."""
    assert is_ttl(owner), owner
    return owner & TTL_MS_MAX


def visible_owner(owner: int) -> int:
    """The ephemeralOwner that a client sees."""
    return owner if is_ephemeral(owner) else 0
