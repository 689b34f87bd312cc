"""Checks many small stored checksums in one pass over all the bytes that they cover.

A call of `zlib.crc32` on a hundred bytes costs more than the hundred bytes. The checksum of a concatenation follows
from the checksums of its pieces, so the pieces are joined, summed in one call, and compared with what the stored
checksums say the sum must be:

    CRC-32    crc(a ‖ b) = shift(crc(a), len(b)) ^ crc(b), where shift multiplies by x^(8n) modulo the polynomial
    Adler-32  its low half is 1 plus the sum of the bytes, its high half the sum of all the low halves on the way

Both are linear and both shifts can be undone, so one wrong piece always shows. Several wrong ones cancel out with a
chance of 2^-32. On a mismatch, one call for each piece finds the wrong one.

Invariant: `crcs_match(data, lengths, crcs)` says whether every piece has its checksum, up to that chance.
"""

from functools import lru_cache
from typing import Final, TypeAlias
from zlib import adler32, crc32

import numpy as np
import numpy.typing as npt

__all__ = ["adlers_match", "combined_crc", "crcs_match", "equal_crcs_match"]

Crcs: TypeAlias = npt.NDArray[np.uint32]
Integers: TypeAlias = npt.NDArray[np.int64]

_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 0x80000000
"""The polynomial 1: bits are reflected."""
_STRIDE: Final = 256
_ADLER: Final = 65521


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo the one of CRC-32."""
    product = 0
    bit = _ONE
    while bit:
        if a & bit:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
        bit >>= 1
    return product


def _power(count: int) -> int:
    """x^(8 * count): the factor by which `count` more bytes multiply a checksum."""
    result, square = _ONE, _ONE >> 8
    while count:
        if count & 1:
            result = _multiply(result, square)
        square = _multiply(square, square)
        count >>= 1
    return result


@lru_cache(maxsize=256)
def _shift_table(count: int) -> Crcs:
    """For each of the four bytes of a checksum, from the lowest, what it becomes by `count` more bytes: (4, 256)."""
    factor = _power(count)
    bits = np.array([_multiply(1 << bit, factor) for bit in range(32)], dtype=np.uint32)
    table = np.zeros((4, 256), dtype=np.uint32)
    for byte in range(4):
        for bit in range(8):
            table[byte, 1 << bit : 2 << bit] = table[byte, : 1 << bit] ^ bits[8 * byte + bit]
    table.flags.writeable = False
    return table


@lru_cache(maxsize=1)
def _small_shifts() -> Crcs:
    """The tables of 0 to 255 bytes: (256, 4, 256)."""
    return np.stack([_shift_table.__wrapped__(count) for count in range(_STRIDE)])


def _shifted(crcs: Crcs, count: int) -> Crcs:
    table = _shift_table(count)
    octets = np.ascontiguousarray(crcs, dtype="<u4").view(np.uint8).reshape(-1, 4)
    result: Crcs = table[0].take(octets[:, 0])
    for byte in range(1, 4):
        result ^= table[byte].take(octets[:, byte])
    return result


def _combined_equal(crcs: Crcs, length: int) -> int:
    """The checksum of concatenated pieces of equal length: pairs are combined, then pairs of pairs, …"""
    while len(crcs) > 1:
        if len(crcs) % 2:
            crcs = np.concatenate((np.zeros(1, dtype=np.uint32), crcs))
        crcs = _shifted(crcs[0::2], length) ^ crcs[1::2]
        length *= 2
    return int(crcs[0]) if len(crcs) else 0


def combined_crc(crcs: Crcs, lengths: Integers) -> int:
    """The CRC-32 of the pieces one after the other."""
    after = np.cumsum(lengths[::-1])[::-1] - lengths
    small = after % _STRIDE
    octets = np.ascontiguousarray(crcs, dtype="<u4").view(np.uint8).reshape(-1, 4)
    tables = _small_shifts().reshape(-1)
    row = small * 1024
    near = tables.take(row + octets[:, 0])
    for byte in range(1, 4):
        near ^= tables.take(row + (256 * byte + octets[:, byte].astype(np.int64)))
    # Now each piece is as if a whole number of strides came after it.
    stride = after // _STRIDE
    starts = np.flatnonzero(np.diff(stride, prepend=-1))
    far = np.zeros(int(stride.max(initial=0)) + 1, dtype=np.uint32)
    if len(starts):
        far[stride[starts]] = np.bitwise_xor.reduceat(near, starts)
    return _combined_equal(far[::-1], _STRIDE)


def crcs_match(data: bytes | memoryview, lengths: Integers, crcs: Crcs) -> bool:
    """Whether the pieces that `data` consists of have these checksums."""
    return crc32(data) == combined_crc(crcs, lengths)


def equal_crcs_match(data: bytes | memoryview, length: int, crcs: Crcs, begun_with: int = 0) -> bool:
    """Whether the pieces, all of this length, have these checksums, each of which was seeded with `begun_with`."""
    if begun_with:
        crcs = crcs ^ np.uint32(int(_shifted(np.array([begun_with], dtype=np.uint32), length)[0]))
    return crc32(data) == _combined_equal(crcs, length)


def adlers_match(data: bytes | memoryview, lengths: Integers, adlers: Crcs) -> bool:
    """Whether the pieces that `data` consists of have these Adler-32 checksums."""
    low = (adlers & np.uint32(0xFFFF)).astype(np.int64)
    high = (adlers >> np.uint32(16)).astype(np.int64)
    if (low >= _ADLER).any() or (high >= _ADLER).any():
        return False
    after = (np.cumsum(lengths[::-1])[::-1] - lengths) % _ADLER
    # A piece begins at 1; in the whole, at what came before it, which each of its bytes adds once to the high half.
    plain = (low - 1) % _ADLER
    total_low = (1 + int(plain.sum())) % _ADLER
    total_high = (int((high - lengths).sum()) + int((plain * after % _ADLER).sum()) + int(lengths.sum())) % _ADLER
    return adler32(data) == total_high << 16 | total_low
