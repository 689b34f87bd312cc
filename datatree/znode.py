"""A znode as the tree stores it, and the layout of its stat.

A znode is one bytes object. The garbage collector tracks neither znodes nor the maps that hold them; a million znodes
are a million objects and no more. A write replaces the object, so a copy of the path map is an exact snapshot:

     0 acl id 8 | 8 owner 8 | 16 cversion 4 | 20 digest 8 | 28 kind 1 | 29 stat 68 | 97 data

- acl id: into the tree's `AclTable`; -1 is world:anyone with all permissions. Ids never leave the server, and are never
  reused.
- owner: the stored ephemeralOwner: 0 for a persistent znode, the session of an ephemeral one, the least 64-bit integer
  for a container, and for a TTL znode ff, 00 00, then the TTL in ms in 40 bits. A client sees it only if it is a
  session.
- cversion: the internal one, the count of children ever created (32 bits, signed, wrapping). A client sees
  2 * cversion - numChildren, which is creations plus deletions. Sequence numbers come from the internal one.
- digest: the znode's part of the tree's digest (`datatree.digest`).
- kind of the data: HERE, at the end of the znode; NULL, if the client gave none, which differs from empty; LARGE, in a
  separate map, so that other changes do not copy it.
- stat: the 68 bytes that a client sees, so that a read is a join:

        0 czxid 8 | 8 mzxid 8 | 16 ctime 8 | 24 mtime 8 | 32 version 4 | 36 cversion 4 | 40 aversion 4
        44 ephemeralOwner 8 | 52 dataLength 4 | 56 numChildren 4 | 60 pzxid 8

- data: as the client gave it, up to LARGE_BYTES.

All numbers are big-endian. Invariant: `stat` agrees with the other fields; only `datatree.apply` and `DataTree.install`
make znodes.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = [
    "ACL_ID",
    "CONTAINER_OWNER",
    "DATA_AT",
    "HEAD",
    "HEAD_AND_STAT",
    "HERE",
    "INT_MAX",
    "KIND_AT",
    "LARGE",
    "LARGE_BYTES",
    "NULL",
    "STAT_AT",
    "STAT_BYTES",
    "STAT_LAYOUT",
    "TTL_MS_MAX",
    "TTL_TOP",
    "Znode",
    "acl_id_of",
    "data_of",
    "is_ephemeral",
    "is_ttl",
    "length_of",
    "next_version",
    "stat_of",
    "ttl_ms",
    "ttl_owner",
    "visible_cversion",
    "visible_owner",
    "wrapped",
]

Znode: TypeAlias = bytes

HEAD: Final = struct.Struct(">qqiQB")
"""acl id, owner, cversion, digest, kind of the data."""
HEAD_AND_STAT: Final = struct.Struct(">qqiQB68s")
KIND_AT: Final = 28
STAT_AT: Final = 29
STAT_BYTES: Final = 68
DATA_AT: Final = 97

HERE: Final = 0
NULL: Final = 1
LARGE: Final = 2
LARGE_BYTES: Final = 16 << 10
"""More data than this is stored separately: few enough znodes have that much for one map, and other changes copy at
most this much."""

STAT_LAYOUT: Final = struct.Struct(">qqqqiiiqiiq")

# The parts of a stat that setData keeps; and the stat reassembled around mzxid, mtime, version and dataLength.
KEPT_BY_SET_DATA: Final = struct.Struct(">8s8x8s12x16si12s")
AFTER_SET_DATA: Final = struct.Struct(">8sq8sqi16si12s")
# Likewise for a change among the children: cversion, numChildren and pzxid.
KEPT_BY_CHILDREN: Final = struct.Struct(">36s4x16s12x")
AFTER_CHILDREN: Final = struct.Struct(">36si16siq")
# The fields that later requests are checked against: all except cversion and ephemeralOwner, which are in the head.
CHECKED: Final = struct.Struct(">qqqqi4xi8xiiq")

VERSION_AT: Final = 32
AVERSION_AT: Final = 40
LENGTH_AT: Final = 52
CHILDREN_AT: Final = 56
PZXID_AT: Final = 60
INT: Final = struct.Struct(">i")
ACL_ID: Final = struct.Struct(">q")

CONTAINER_OWNER: Final = -(1 << 63)
TTL_MS_MAX: Final = (1 << 40) - 1

INT_MAX: Final = (1 << 31) - 1
TTL_TOP: Final = -(1 << 56)
"""Stored owners from here up to -1 belong to TTL znodes."""


def acl_id_of(znode: Znode) -> int:
    """The id of its permission list."""
    acl_id: int = ACL_ID.unpack_from(znode)[0]
    return acl_id


def stat_of(znode: Znode) -> bytes:
    """Its stat as a client sees it."""
    return znode[STAT_AT:DATA_AT]


def data_of(path: bytes, znode: Znode, large: Mapping[bytes, bytes]) -> bytes | None:
    """Its data; None if it has none. `large` is the tree's separate map."""
    kind = znode[KIND_AT]
    if kind == HERE:
        return znode[DATA_AT:]
    return None if kind == NULL else large[path]


def length_of(znode: Znode) -> int:
    """The length of its data, in bytes."""
    length: int = INT.unpack_from(znode, STAT_AT + LENGTH_AT)[0]
    return length


def wrapped(value: int) -> int:
    """`value` as a signed 32-bit integer, as Java's int arithmetic leaves it."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def next_version(version: int) -> int:
    """The version after `version`; never -1, which matches any version in a request (ZOOKEEPER-4743)."""
    if version == INT_MAX:
        return -INT_MAX - 1
    return version + 1 if version != -2 else 0


def visible_cversion(cversion: int, children_count: int) -> int:
    """What a client sees of the internal `cversion`: creations plus deletions of children."""
    return wrapped(2 * cversion - children_count)


def is_ttl(owner: int) -> bool:
    """Whether the top byte of `owner` is ff. Sessions with such an id are refused, so this does not depend on a
    setting."""
    return TTL_TOP <= owner < 0


def is_ephemeral(owner: int) -> bool:
    """Whether `owner` is a session."""
    return owner > 0 or CONTAINER_OWNER < owner < TTL_TOP


def ttl_owner(ttl: int) -> int:
    """The stored owner of a znode with a TTL of `ttl` ms."""
    assert 0 < ttl <= TTL_MS_MAX, ttl
    return TTL_TOP + ttl


def ttl_ms(owner: int) -> int:
    """The TTL in ms in the owner of a TTL znode."""
    assert is_ttl(owner), owner
    return owner & TTL_MS_MAX


def visible_owner(owner: int) -> int:
    """The ephemeralOwner that a client sees."""
    return owner if is_ephemeral(owner) else 0
