"""The newest offset of each key in the part of a log that is being compacted, in bounded memory.

A key is its BLAKE2b hash of 16 bytes, so a map needs `ENTRY_BYTES` for each, however long keys are. A map that is full
knows the keys up to an offset, and no key above it: the rest is compacted in the next round.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

ENTRY_BYTES: Final = 200
"""What an entry needs in Python, with the free part of the table: measured."""
LOAD_FACTOR: Final = 0.9
_HASH_BYTES: Final = 16


class OffsetMap:
    """Hash of a key → offset."""

    def __init__(self, bytes_max: int, load_factor: float = LOAD_FACTOR) -> None:
        """At least one key fits."""
        self.count_max = max(1, int(bytes_max * load_factor) // ENTRY_BYTES)
        self.latest_offset = -1
        """It knows everything up to this offset."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note the newest record of a key. False: there is no room, and nothing more may be noted."""
        if len(self._offsets) >= self.count_max:
            return False
        self._offsets[_hash(key)] = offset
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The newest offset; -1 if the key is not known."""
        return self._offsets.get(_hash(key), -1)

    def reach(self, offset: int) -> None:
        """Everything up to this offset has been noted."""
        self.latest_offset = max(self.latest_offset, offset)


def _hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_BYTES).digest()
