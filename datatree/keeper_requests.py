"""ClickHouse Keeper's requests with a limit or a Stat, which ZooKeeper does not have (`datatree.requests`)."""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from attrs import define

from datatree.jute import JuteError, Reader, Writer
from datatree.znode import STAT_LAYOUT

__all__ = ["CheckStat", "PathLimit", "check_stat", "path_limit"]

_UNSIGNED: Final = Struct(">I")


@define
class PathLimit:
    """removeRecursive and listRecursive, with a limit on the number of znodes."""

    path: bytes
    limit: int

    def encode(self) -> bytes:
        return Writer().string(self.path).raw(_UNSIGNED.pack(self.limit)).getvalue()


@define
class CheckStat:
    """checkStat, in a multi: the znode must have this version, and this Stat; -1 matches any value."""

    path: bytes
    version: int
    stat: Sequence[int]
    """In the order of its layout (`datatree.znode`)."""

    def encode(self) -> bytes:
        return Writer().string(self.path).int(self.version).raw(STAT_LAYOUT.pack(*self.stat)).getvalue()


def check_stat(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    reader = Reader(buffer, at)
    path, version = reader.string(), reader.int()
    if path is None:
        raise JuteError(f"null path at offset {at}")
    return (path, version, STAT_LAYOUT.unpack_from(buffer, reader.offset)), reader.offset + STAT_LAYOUT.size


def path_limit(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    reader = Reader(buffer, at)
    path = reader.string()
    if path is None:
        raise JuteError(f"null path at offset {at}")
    (limit,) = _UNSIGNED.unpack_from(buffer, reader.offset)
    return (path, limit), reader.offset + 4
