"""Jute's primitives, each against bytes written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.jute import LENGTH_MAX, JuteError, Reader, Writer

# Method of Reader and Writer, value, bytes.
PRIMITIVES = [
    ("bool", True, "01"),
    ("bool", False, "00"),
    ("int", 0, "00000000"),
    ("int", 258, "00000102"),
    ("int", -1, "ffffffff"),
    ("int", -(2**31), "80000000"),
    ("long", 1, "0000000000000001"),
    ("long", -(2**63), "8000000000000000"),
    ("buffer", b"", "00000000"),
    ("buffer", b"ab", "000000026162"),
    ("buffer", None, "ffffffff"),
    ("string", "ä".encode(), "00000002c3a4"),
    ("string", b"", "00000000"),
    ("string", None, "ffffffff"),
]


@pytest.mark.parametrize(("method", "value", "encoded"), PRIMITIVES)
def test_a_primitive_is_written_and_read_as_its_bytes(method, value, encoded):
    raw = bytes.fromhex(encoded)
    assert getattr(Writer(), method)(value).getvalue() == raw
    reader = Reader(b"\xaa" + raw + b"\xbb", 1)
    assert getattr(reader, method)() == value
    assert reader.offset == 1 + len(raw)
    assert reader.remaining == 1


@pytest.mark.parametrize(("method", "value", "encoded"), PRIMITIVES)
def test_every_prefix_of_a_primitive_is_refused_and_moves_nothing(method, value, encoded):
    raw = bytes.fromhex(encoded)
    for length in range(len(raw)):
        reader = Reader(raw[:length])
        with pytest.raises(JuteError):
            getattr(reader, method)()
        assert reader.offset == 0


def test_any_byte_but_zero_reads_as_true():
    assert Reader(b"\x02").bool() is True


def test_a_memoryview_reads_as_bytes_do():
    reader = Reader(memoryview(b"\x00\x00\x00\x02ab\x01"))
    assert reader.string() == b"ab"
    assert reader.bool() is True


def test_raw_takes_bytes_as_they_are_but_not_beyond_the_end():
    reader = Reader(b"abcd")
    assert reader.raw(3) == b"abc"
    with pytest.raises(JuteError, match="at offset 3 needs 2 bytes, but 1 are left"):
        reader.raw(2)


@pytest.mark.parametrize("length", [-2, -(2**31), LENGTH_MAX + 1, 2**31 - 1])
def test_an_unreasonable_length_is_refused_whatever_is_left(length):
    with pytest.raises(JuteError, match="unreasonable length"):
        Reader(length.to_bytes(4, "big", signed=True) + b"x" * 10).buffer()


def test_the_length_limit_is_inclusive_and_an_argument():
    raw = Writer().buffer(b"xxx").getvalue()
    assert Reader(raw, length_max=3).buffer() == b"xxx"
    with pytest.raises(JuteError, match="unreasonable length 3"):
        Reader(raw, length_max=2).buffer()


def test_a_vector_is_a_count_and_its_elements():
    raw = Writer().vector([b"a", None, b"bc"], Writer.string).getvalue()
    assert raw == bytes.fromhex("000000030000000161ffffffff000000026263")
    assert Reader(raw).vector(Reader.string) == [b"a", None, b"bc"]


def test_a_null_vector_is_none_and_other_negative_counts_are_empty():
    assert Writer().vector(None, Writer.string).getvalue() == b"\xff\xff\xff\xff"
    assert Reader(b"\xff\xff\xff\xff").vector(Reader.string) is None
    assert Reader(b"\xff\xff\xff\xfe").vector(Reader.string) == []


def test_a_hostile_count_is_refused_before_anything_is_read():
    calls = []
    with pytest.raises(JuteError, match="count 2147483647"):
        Reader(b"\x7f\xff\xff\xff" + bytes(64)).vector(calls.append)
    assert not calls
    with pytest.raises(JuteError, match="count 3 at offset 0, but 35 bytes are left"):
        Reader(b"\x00\x00\x00\x03" + bytes(35)).vector(calls.append, item_bytes_min=12)


VALUES = st.lists(
    st.one_of(
        st.tuples(st.just("bool"), st.booleans()),
        st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.sampled_from(["buffer", "string"]), st.none() | st.binary(max_size=20)),
    ),
    max_size=12,
)


@given(VALUES)
def test_what_was_written_reads_back_in_order(values):
    writer = Writer()
    for method, value in values:
        getattr(writer, method)(value)
    reader = Reader(writer.getvalue())
    assert [getattr(reader, method)() for method, _ in values] == [value for _, value in values]
    assert reader.remaining == 0
