"""Plain CBOR is what `cbor2` writes of messages; everything else is refused before anything is built of it."""

from __future__ import annotations

from time import thread_time

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.wire.plain import ARRAY, BYTES, DEPTH_MAX, INTEGER, ITEMS_MAX, PlainError, decode, head

SCALARS = st.one_of(
    st.integers(-(1 << 64), (1 << 64) - 1), st.binary(max_size=300), st.text(max_size=100), st.booleans(), st.none()
)
ITEMS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=30), max_leaves=60)


def depth(value: object) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(ITEMS)
def test_what_cbor2_writes_of_plain_values_is_read_as_they_are(value: object) -> None:
    payload = cbor2.dumps(value)
    if depth(value) <= DEPTH_MAX:
        assert decode(payload) == value
    else:
        with pytest.raises(PlainError, match="deeper"):
            decode(payload)


@given(ITEMS, st.data())
def test_a_part_of_an_item_and_an_item_with_more_are_none(value: object, data: st.DataObject) -> None:
    payload = cbor2.dumps(value)
    with pytest.raises(PlainError):
        decode(payload[: data.draw(st.integers(0, len(payload) - 1))])
    with pytest.raises(PlainError):
        decode(payload + data.draw(st.binary(min_size=1, max_size=9)))


@given(st.integers(0, (1 << 64) - 1) | st.sampled_from([23, 24, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32]))
def test_a_head_is_the_one_that_cbor2_writes(value: int) -> None:
    assert head(INTEGER, value) == cbor2.dumps(value)
    for kind, item in ((BYTES, bytes), (ARRAY, list)):
        if value <= 1 << 16:
            payload = cbor2.dumps(item(value) if item is bytes else [0] * value)
            assert payload[: len(payload) - value] == head(kind, value)


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_they_are_the_only_ones_for_their_value(payload: bytes) -> None:
    try:
        value = decode(payload)
    except PlainError:
        return
    assert cbor2.dumps(value) == payload


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xa0", id="a map"),
        pytest.param(b"\xc2\x41\x01", id="a tag: a big number"),
        pytest.param(b"\xd8\x1e\x82\x01\x02", id="a tag: a fraction"),
        pytest.param(b"\xfb" + bytes(8), id="a float"),
        pytest.param(b"\xf7", id="undefined"),
        pytest.param(b"\xe0", id="a simple value"),
        pytest.param(b"\xf8\x20", id="a wide simple value"),
        pytest.param(b"\x9f\x01\xff", id="an array of indefinite length"),
        pytest.param(b"\x5f\x41a\xff", id="bytes of indefinite length"),
        pytest.param(b"\xff", id="a break"),
        pytest.param(b"\x1c", id="a reserved head"),
        pytest.param(b"\x18\x17", id="a number of one byte that needs none"),
        pytest.param(b"\x19\x00\xff", id="a number of two bytes that needs one"),
        pytest.param(b"\x1a\x00\x00\xff\xff", id="a number of four bytes that needs two"),
        pytest.param(b"\x1b" + bytes(4) + b"\xff" * 4, id="a number of eight bytes that needs four"),
        pytest.param(b"\x58\x01a", id="a length of one byte that needs none"),
        pytest.param(b"\x98\x01\x01", id="a count of one byte that needs none"),
        pytest.param(b"\x61\xff", id="text that is not UTF-8"),
    ],
)
def test_what_is_not_plain_is_refused(payload: bytes) -> None:
    with pytest.raises(PlainError):
        decode(payload)


def array(count: int) -> bytes:
    return b"\x9a" + count.to_bytes(4, "big")


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(array(33_000_000) + b"\x80" * 33_000_000, id="millions of empty arrays"),
        pytest.param(array((1 << 32) - 1), id="an array of which only the count is there"),
        pytest.param((b"\x82" + b"\x80") * 16_000_000, id="arrays in arrays in arrays"),
        pytest.param(b"\x81" * 16_000_000, id="deep arrays"),
        pytest.param(b"\xc6" * 16_000_000, id="deep tags"),
        pytest.param(b"\xd8\x1e\x82" + (b"\xc2\x5a\x00\x0f\x42\x40" + b"\xfe" * 1_000_000) * 2, id="a huge fraction"),
        pytest.param(b"\xbb" + bytes(3) + b"\xff" * 5, id="a map of which only the count is there"),
        pytest.param(b"\x5b" + b"\xff" * 8, id="bytes of which only the length is there"),
    ],
)
def test_a_bomb_is_refused_before_it_costs_anything(payload: bytes) -> None:
    began = thread_time()
    with pytest.raises(PlainError):
        decode(payload)
    # Of this thread's own processor time; a bomb that goes off takes seconds to minutes.
    assert thread_time() - began < 0.5


def test_as_many_items_as_there_may_be_are_read() -> None:
    assert decode(array(ITEMS_MAX) + b"\x00" * ITEMS_MAX) == [0] * ITEMS_MAX
    with pytest.raises(PlainError, match="more than"):
        decode(array(ITEMS_MAX + 1) + b"\x00" * (ITEMS_MAX + 1))
    half = ITEMS_MAX // 2
    with pytest.raises(PlainError, match="more than"):
        decode(cbor2.dumps([[0] * half, [0] * half]))
