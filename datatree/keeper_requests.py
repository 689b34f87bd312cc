"""Requests for writes that ZooKeeper does not have: ClickHouse Keeper's (`datatree.requests`)."""

from struct import Struct
from typing import Any, Final

from attrs import define

from datatree.jute import JuteError, Reader, Writer

__all__ = ["PathLimit", "path_limit"]

_UNSIGNED: Final = Struct(">I")


@define
class PathLimit:
    """removeRecursive: of no more znodes than that."""

    path: bytes
    limit: int

    def encode(self) -> bytes:
        return Writer().string(self.path).raw(_UNSIGNED.pack(self.limit)).getvalue()


def path_limit(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    reader = Reader(buffer, at)
    path = reader.string()
    if path is None:
        raise JuteError(f"null path at offset {at}")
    (limit,) = _UNSIGNED.unpack_from(buffer, reader.offset)
    return (path, limit), reader.offset + 4
