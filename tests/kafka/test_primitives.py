"""Values at their limits, and every way in which bytes can be too short, too long or wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.kafka import primitives
from zab.kafka.primitives import ProtocolError, Reader, Uuid, long_uvarint, uuid_text

Read = Callable[[Reader], Any]
COMPLETE: list[tuple[str, Read, str, Any]] = [
    ("boolean", Reader.boolean, "01", True),
    ("any other boolean", Reader.boolean, "02", True),
    ("int8", Reader.int8, "80", -128),
    ("int16", Reader.int16, "8000", -(1 << 15)),
    ("int32", Reader.int32, "80000000", -(1 << 31)),
    ("int64", Reader.int64, "8000000000000000", -(1 << 63)),
    ("uuid", Reader.uuid, "000102030405060708090a0b0c0d0e0f", bytes(range(16))),
    ("uvarint", Reader.uvarint, "ffffffff0f", (1 << 32) - 1),
    ("string", Reader.string, "0002c3bc", "\u00fc"),
    ("nullable string", Reader.nullable_string, "000161", "a"),
    ("compact string", Reader.compact_string, "03c3bc", "\u00fc"),
    ("compact nullable string", Reader.compact_nullable_string, "0261", "a"),
    ("bytes", Reader.byte_string, "00000002ff00", b"\xff\0"),
    ("nullable bytes", Reader.nullable_byte_string, "00000001ff", b"\xff"),
    ("compact bytes", Reader.compact_byte_string, "02ff", b"\xff"),
    ("compact nullable bytes", Reader.compact_nullable_byte_string, "02ff", b"\xff"),
    ("records", Reader.nullable_records, "00000001ff", b"\xff"),
    ("compact records", Reader.compact_nullable_records, "02ff", b"\xff"),
]
ROWS = [pytest.param(read, bytes.fromhex(data), value, id=name) for name, read, data, value in COMPLETE]


@pytest.mark.parametrize(("read", "data", "value"), ROWS)
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_value_is_read_from_its_bytes_and_no_more(read: Read, data: bytes, value: Any, kind: Any) -> None:
    reader = Reader(kind(b"\x55" + data + b"\x55"), at=1)
    assert read(reader) == value
    assert reader.at == 1 + len(data)


@pytest.mark.parametrize(("read", "data", "value"), ROWS)
def test_a_value_that_is_cut_off_is_an_error(read: Read, data: bytes, value: Any) -> None:
    for size in range(len(data)):
        with pytest.raises(ProtocolError, match="at byte"):
            read(Reader(data[:size]))
        bounded = Reader(data)
        bounded.end = size
        with pytest.raises(ProtocolError, match="at byte"):
            read(bounded)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (Reader.nullable_string, "ffff"),
        (Reader.compact_nullable_string, "00"),
        (Reader.nullable_byte_string, "ffffffff"),
        (Reader.compact_nullable_byte_string, "00"),
        (Reader.nullable_records, "ffffffff"),
        (Reader.compact_nullable_records, "00"),
    ],
)
def test_null(read: Read, data: str) -> None:
    assert read(Reader(bytes.fromhex(data))) is None


@pytest.mark.parametrize(
    ("read", "data", "said"),
    [
        (Reader.string, "ffff", "a string must not be null"),
        (Reader.compact_string, "00", "a string must not be null"),
        (Reader.byte_string, "ffffffff", "bytes must not be null"),
        (Reader.compact_byte_string, "00", "bytes must not be null"),
        (Reader.nullable_string, "fffe", "a string of length -2"),
        (Reader.nullable_byte_string, "80000000", "bytes of length -2147483648"),
        (Reader.nullable_records, "fffffffe", "records of length -2"),
        (Reader.string, "0002c328", "not UTF-8"),
        (Reader.compact_string, "04eda080", "not UTF-8"),
        (Reader.uvarint, "ffffffff1f", "more than 32 bits"),
        (Reader.uvarint, "8080808080", "more than 32 bits"),
        (lambda reader: reader.count(1), "fffffffe", "an array of length -2"),
    ],
)
def test_what_no_value_is(read: Read, data: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        read(Reader(bytes.fromhex(data)))


def test_a_count_is_checked_against_the_bytes_that_are_left() -> None:
    assert Reader(bytes.fromhex("00000002") + bytes(8)).count(4) == 2
    assert Reader(b"\x03" + bytes(8)).compact_count(4) == 2
    assert Reader(bytes.fromhex("ffffffff")).count(4) == -1
    assert Reader(b"\0").compact_count(4) == -1
    with pytest.raises(ProtocolError, match="an array of 2 elements of at least 4 bytes, but 7 are left, at byte 4"):
        Reader(bytes.fromhex("00000002") + bytes(7)).count(4)
    with pytest.raises(ProtocolError, match="an array of 2147483647 elements"):
        Reader(bytes.fromhex("7fffffff") + bytes(7)).count(1)
    with pytest.raises(ProtocolError, match="an array of 4294967294 elements"):
        Reader(bytes.fromhex("ffffffff0f") + bytes(7)).compact_count(1)


def test_a_message_has_a_limit_for_the_elements_of_all_its_arrays() -> None:
    reader = Reader(bytes.fromhex("0000000300000002") + bytes(100), elements_max=4)
    assert reader.count(1) == 3
    with pytest.raises(ProtocolError, match="more elements than a message may have"):
        reader.count(1)


def test_skipping_stays_inside() -> None:
    reader = Reader(bytes(4))
    reader.skip(4)
    for size in (1, -1):
        with pytest.raises(ProtocolError):
            reader.skip(size)


def test_records_are_a_view_and_no_copy() -> None:
    frame = bytes.fromhex("00000003616263")
    assert Reader(frame).nullable_records().obj is frame


@given(st.integers(128, (1 << 32) - 1))
def test_long_uvarints_are_read_alike(value: int) -> None:
    out = bytearray()
    primitives.write_uvarint(out, value)
    assert Reader(bytes(out)).uvarint() == value
    assert long_uvarint(bytes(out), 0) == ((value, len(out)) if len(out) < 5 else (0, 0))


@pytest.mark.parametrize(
    ("write", "value", "said"),
    [
        (primitives.write_string, "x" * 32768, "a string of 32768 bytes"),
        (primitives.write_compact_string, "\u00fc" * 16384, "a string of 32768 bytes"),
        (primitives.write_uuid, b"x" * 15, "a uuid of 15 bytes"),
    ],
)
def test_what_does_not_fit_is_not_written(write: Any, value: Any, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        write(bytearray(), value)


def test_ids_as_text() -> None:
    value = Uuid(bytes(range(0xF0, 0x100)))
    assert uuid_text(value) == "8PHy8_T19vf4-fr7_P3-_w"
