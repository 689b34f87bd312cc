"""The list of segments: which ones have to be there. Without it the loss of a whole file would look like the absence of
its entries, which a bookie may only say of what it never had.

    segments     replaced as a whole, durably, whenever segments come or go

A segment is durable before it is listed, and it is listed before a checkpoint counts on it. It is no longer listed
before its file goes. So what is listed is there, and what is there may be in no list yet, after a crash.

Numbers are big-endian: magic "BSGL", version 1 (4), instance (16), uuid (16), count (8), the numbers, 8 each,
ascending; CRC-32 of everything before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final
from zlib import crc32

from zab.ledger.bookie.config import Identity

SEGMENT_LIST: Final = "segments"
_HEADER: Final = Struct(">4sI16s16sQ")
_CRC: Final = Struct(">I")
_VERSION: Final = 1


def pack_list(identity: Identity, numbers: Iterable[int]) -> bytes:
    """The content of the file."""
    listed = sorted(numbers)
    head = _HEADER.pack(b"BSGL", _VERSION, identity.instance, identity.uuid, len(listed))
    body = head + b"".join(number.to_bytes(8) for number in listed)
    return body + _CRC.pack(crc32(body))


def parse_list(data: bytes) -> tuple[Identity, frozenset[int]] | None:
    """Whose list this is, and the numbers of the segments; None if it is damaged."""
    body = data[: -_CRC.size]
    if len(body) < _HEADER.size or _CRC.pack(crc32(body)) != data[-_CRC.size :]:
        return None
    magic, version, instance, uuid, count = _HEADER.unpack_from(body)
    if (magic, version) != (b"BSGL", _VERSION) or len(body) != _HEADER.size + 8 * count:
        return None
    numbers = (int.from_bytes(body[at : at + 8]) for at in range(_HEADER.size, len(body), 8))
    return Identity(instance, uuid), frozenset(numbers)
