"""Varints: published vectors, every value at an edge, what is cut or too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.records.varints import append_varlong, read_varint, read_varlong, varlong_bytes

VECTORS = [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")]
VECTORS += [(2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f")]
LONG_VECTORS = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_a_varint_is_as_published(value: int, text: str) -> None:
    assert varlong_bytes(value).hex() == text
    assert read_varint(bytes.fromhex(text), 0) == (value, len(text) // 2)
    assert read_varlong(b"\xff" + bytes.fromhex(text), 1) == (value, 1 + len(text) // 2)


@pytest.mark.parametrize(("value", "text"), LONG_VECTORS)
def test_a_varlong_is_as_published(value: int, text: str) -> None:
    assert varlong_bytes(value).hex() == text
    assert read_varlong(bytes.fromhex(text), 0) == (value, len(text) // 2)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_every_varint_is_read_as_it_was_written(value: int, before: bytes, after: bytes) -> None:
    data = bytearray(before)
    append_varlong(data, value)
    assert read_varint(bytes(data) + after, len(before)) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_varlong_is_read_as_it_was_written(value: int) -> None:
    data = varlong_bytes(value)
    assert read_varlong(data, 0) == (value, len(data))
    for length in range(len(data)):
        with pytest.raises(IndexError):
            read_varlong(data[:length], 0)


@pytest.mark.parametrize("text", ["8000", "fe8000", "ff80808000"])
def test_a_form_that_is_too_long_is_read(text: str) -> None:
    data = bytes.fromhex(text)
    assert read_varint(data, 0) == read_varlong(data, 0)


@pytest.mark.parametrize("text", ["ffffffff10", "ffffffff7f", "808080808000", "ffffffffffffffffff01"])
def test_a_varint_of_more_than_32_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 32 bits"):
        read_varint(bytes.fromhex(text), 0)


@pytest.mark.parametrize("text", ["ffffffffffffffffff02", "8080808080808080808000"])
def test_a_varlong_of_more_than_64_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_varlong(bytes.fromhex(text), 0)
