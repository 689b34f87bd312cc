"""Fields at many offsets, and records one after the other, against the way that is plain to see."""

import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from zab.pipeline.decoding.arrays import gather, integers, text_or_none, walk


def test_fields_are_gathered_at_any_offset() -> None:
    data = random.Random(1).randbytes(1000)
    at = np.array([0, 3, 501, 992], dtype=np.int64)
    assert integers(data, at, ">q").tolist() == [struct.unpack_from(">q", data, offset)[0] for offset in at]
    assert gather(data, at, "V5").tolist() == [data[offset : offset + 5] for offset in at]
    assert len(gather(b"", np.empty(0, np.int64), ">i8")) == 0


@pytest.mark.parametrize("offset", [-2001, 993, 5000])
def test_nothing_outside_of_the_buffer_is_read(offset: int) -> None:
    with pytest.raises(IndexError):
        integers(bytes(1000), np.array([offset], dtype=np.int64), ">i8")
    with pytest.raises(IndexError):
        integers(b"1234567", np.array([0], dtype=np.int64), ">i8")


def plain_walk(data: bytes, start: int, end: int, length_at: int, overhead: int) -> tuple[list[int], int]:
    found, at = [], start
    while at + overhead <= end:
        (length,) = struct.unpack_from(">I", data, at + length_at)
        if not 0 < length <= end - at - overhead:
            break
        found.append(at)
        at += overhead + length
    return found, at


@pytest.mark.parametrize("regions", [0, 1, 23, 24, 200])
@pytest.mark.parametrize("most", [1, 8, 300])
def test_a_walk_finds_the_records_of_each_region(regions: int, most: int) -> None:
    rng = random.Random(regions * most)
    data, starts, ends = b"", [], []
    for _ in range(regions):
        data += rng.randbytes(rng.randrange(4))
        starts.append(len(data))
        for _ in range(rng.randrange(most)):
            length = rng.randint(1, 20)
            data += b"ab" + struct.pack(">I", length) + rng.randbytes(length)
        # Something may be left that is no whole record, or an absurd length.
        data += rng.choice((b"", b"ab\0", b"ab\0\0\0\x09abc", b"ab" + b"\xff" * 4, b"ab" + bytes(4)))
        ends.append(len(data))
    found, of, stops = walk(data, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), 2, 6)
    expected = [plain_walk(data, start, end, 2, 6) for start, end in zip(starts, ends, strict=True)]
    assert found.tolist() == [offset for offsets, _ in expected for offset in offsets]
    assert of.tolist() == [region for region, (offsets, _) in enumerate(expected) for _ in offsets]
    assert stops.tolist() == [stop for _, stop in expected]


@pytest.mark.parametrize(
    ("values", "is_text"),
    [
        ([], True),
        ([b"/a"], True),
        (["/ä".encode(), None], True),
        ([b"/a", b"/\xc3"], False),
        ([b"\xed\xa0\x80"], False),
    ],
)
def test_text_is_utf8(values: list[bytes | None], is_text: bool) -> None:
    found = text_or_none(pa.array(values, pa.binary()))
    assert (found is not None) == is_text
    if found is not None:
        assert found.to_pylist() == [None if value is None else value.decode() for value in values]
