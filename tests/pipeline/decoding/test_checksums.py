"""Checksums of many pieces, checked with one call."""

import random
from zlib import adler32, crc32

import numpy as np
import pytest

from zab.pipeline.decoding.checksums import adlers_match, combined_crc, crcs_match, equal_crcs_match


def pieces(rng: random.Random, count: int, most: int) -> list[bytes]:
    return [rng.randbytes(rng.randrange(most)) for _ in range(count)]


def lengths(found: list[bytes]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([len(piece) for piece in found], dtype=np.int64)


@pytest.mark.parametrize(("count", "most"), [(0, 2), (1, 5), (2, 300), (3, 1), (1000, 300), (50, 70_000)])
def test_right_checksums_match_and_any_wrong_bit_shows(count: int, most: int) -> None:
    rng = random.Random(count)
    found = pieces(rng, count, most)
    for checksum, match in ((crc32, crcs_match), (adler32, adlers_match)):
        stored = np.array([checksum(piece) for piece in found], dtype=np.uint32)
        assert match(b"".join(found), lengths(found), stored)
        for _ in range(min(count, 20)):
            wrong = stored.copy()
            wrong[rng.randrange(count)] ^= np.uint32(1 << rng.randrange(32))
            assert not match(b"".join(found), lengths(found), wrong)


def test_any_flipped_byte_shows() -> None:
    rng = random.Random(5)
    found = pieces(rng, 100, 300)
    whole = b"".join(found)
    for checksum, match in ((crc32, crcs_match), (adler32, adlers_match)):
        stored = np.array([checksum(piece) for piece in found], dtype=np.uint32)
        for _ in range(50):
            at = rng.randrange(len(whole))
            flipped = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
            assert not match(flipped, lengths(found), stored)


def test_the_combination_is_the_checksum_of_the_whole() -> None:
    found = pieces(random.Random(6), 300, 2000)
    stored = np.array([crc32(piece) for piece in found], dtype=np.uint32)
    assert combined_crc(stored, lengths(found)) == crc32(b"".join(found))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 1001])
def test_pieces_of_one_length_may_be_begun_with_a_checksum(count: int) -> None:
    rng = random.Random(count)
    found = [rng.randbytes(24) for _ in range(count)]
    stored = np.array([crc32(piece, 77) for piece in found], dtype=np.uint32)
    assert equal_crcs_match(b"".join(found), 24, stored, 77)
    if count:
        assert not equal_crcs_match(b"".join(found), 24, stored, 78)
        stored[-1] ^= np.uint32(1)
        assert not equal_crcs_match(b"".join(found), 24, stored, 77)


def test_an_adler_that_no_bytes_have_does_not_match() -> None:
    # 65521 is 0 modulo the prime, and must not pass for it.
    (piece,) = [bytes([255] * 256 + [240])]
    assert adler32(piece) & 0xFFFF == 0
    one = np.array([257], dtype=np.int64)
    assert adlers_match(piece, one, np.array([adler32(piece)], dtype=np.uint32))
    assert not adlers_match(piece, one, np.array([adler32(piece) + 65521], dtype=np.uint32))
