"""The digest of a tree: one 64-bit sum that two members compare to know that their trees are equal.

Definition, version 1, all sums modulo 2**64, all integers big-endian:

    checksum(znode) = CRC-32 of path, then data (nothing for null)
    part(znode)     = checksum << 32 | crc
        crc         = CRC-32, continued from checksum, of the 68 bytes of the stat; if the checksum of the ACL is not 0,
                      the owner negative or the data null, then also of owner 8, checksum of the ACL 4, null 1
    checksum(ACL)   = 0 for the open list, else CRC-32 of each entry: permissions 4, length of scheme 4, length of id 4,
                      scheme, id
    part(session)   = CRC-32 of (id 8, timeout 4) << 32 | CRC-32 of (timeout 4, id 8)
    digest(tree)    = sum of the parts of all znodes and sessions

It covers path, data, stat, stored owner, the content of the ACL, and the sessions with their timeouts. The data of
zookeeper_stats and of an unconfigured /zookeeper/config is rendered on reading and not stored, so it is not covered.

A znode stores its part, whose upper half is the checksum of its path and data: a change of the stat does not read the
data again, and removing a znode from the sum costs one subtraction. A sum does not depend on order; it guards against
accidents, not against deliberate collisions.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final
from zlib import crc32

from datatree.znode import HEAD, Znode, data_of, stat_of

__all__ = ["DIGEST_VERSION", "MASK", "part", "recompute", "session_part"]

DIGEST_VERSION: Final = 1
MASK: Final = (1 << 64) - 1

SUFFIX: Final = struct.Struct(">qIB")
_ID_FIRST: Final = struct.Struct(">qi")
_TIMEOUT_FIRST: Final = struct.Struct(">iq")


def part(checksum: int, stat: bytes, owner: int, acl_checksum: int, null: bool) -> int:
    """A znode's part of the digest, by the definition above."""
    crc = crc32(stat, checksum)
    if acl_checksum or owner < 0 or null:
        crc = crc32(SUFFIX.pack(owner, acl_checksum, null), crc)
    return checksum << 32 | crc


def session_part(session: int, timeout_ms: int) -> int:
    """A session's part of the digest."""
    return crc32(_ID_FIRST.pack(session, timeout_ms)) << 32 | crc32(_TIMEOUT_FIRST.pack(timeout_ms, session))


def recompute(
    znodes: Iterable[tuple[bytes, Znode]],
    large: Mapping[bytes, bytes],
    sessions: dict[int, int],
    acl_checksums: dict[int, int],
) -> int:
    """The digest computed from the content alone: the incremental one must equal it."""
    total = 0
    for path, znode in znodes:
        acl_id, owner, _, _, _ = HEAD.unpack_from(znode)
        data = data_of(path, znode, large)
        checksum = crc32(data or b"", crc32(path))
        total += part(checksum, stat_of(znode), owner, acl_checksums[acl_id], data is None)
    for session, timeout_ms in sessions.items():
        total += session_part(session, timeout_ms)
    return total & MASK
