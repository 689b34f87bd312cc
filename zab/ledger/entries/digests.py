"""The digests of entries: which there are, how they are computed, how they are stored.

| type | bytes | stored as |
|---|---|---|
| CRC32 | 8 | the checksum of zlib, as a 64-bit number |
| HMAC | 20 | HMAC-SHA1 with the key of the ledger (`keys.py`) |
| CRC32C | 4 | the Castagnoli checksum, as a 32-bit number |
| DUMMY | 0 | nothing |

The checksum of CRC32C comes with `zab[ledgers]`, and is loaded when it is first needed (`zab.wire.checksums`).

A digest covers a header and, after it, a payload. It is between writer and reader: a bookie knows neither its type nor
its key, so it never checks one.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Final, TypeAlias
from zlib import crc32

from zab.ledger.entries.keys import hmac_key
from zab.wire.checksums import crc32c


@enum.unique
class DigestType(enum.IntEnum):
    """The types of digests, by the numbers and names that they have in the metadata of a ledger."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


Computed: TypeAlias = Callable[[bytes | memoryview, bytes | memoryview], bytes]
"""From a header and a payload to their digest, as it is stored."""

DIGEST_BYTES: Final = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}

_EXTRA: Final = "ledgers"

_pack_32 = Struct(">I").pack
_pack_64 = Struct(">Q").pack


def digest_function(digest_type: DigestType, password: bytes) -> Computed:
    """The function that computes digests of this type for a ledger with this password. Raises MissingLibraryError."""
    match digest_type:
        case DigestType.CRC32:
            return _crc32
        case DigestType.HMAC:
            return _hmac(hmac_key(password))
        case DigestType.CRC32C:
            return _crc32c()
        case DigestType.DUMMY:
            return _nothing


def _crc32(header: bytes | memoryview, payload: bytes | memoryview) -> bytes:
    return _pack_64(crc32(payload, crc32(header)))


@cache
def _crc32c() -> Computed:
    checksum = crc32c(_EXTRA)

    def computed(header: bytes | memoryview, payload: bytes | memoryview) -> bytes:
        return _pack_32(checksum(payload, checksum(header)))

    return computed


def _nothing(header: bytes | memoryview, payload: bytes | memoryview) -> bytes:
    return b""


def _hmac(key: bytes) -> Computed:
    keyed = hmac.new(key, digestmod="sha1")

    def computed(header: bytes | memoryview, payload: bytes | memoryview) -> bytes:
        own = keyed.copy()
        own.update(header)
        own.update(payload)
        return own.digest()

    return computed
