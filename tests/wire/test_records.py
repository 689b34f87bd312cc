"""Records are declared once; what a codec does not know, or a check does not hold for, is refused by name."""

from typing import ClassVar

import attrs
import cbor2
import pytest

from zab.wire.records import COUNT, Codec, MessageError, checked, is_bytes, is_int, is_list_of, is_row, is_text


@attrs.define
class Seek:
    TYPE: ClassVar[int] = 1
    ledger: int = checked(COUNT)
    name: str = checked(is_text(3))


@attrs.define
class Found:
    TYPE: ClassVar[int] = 2
    rows: list[list[object]] = checked(is_list_of(is_row(is_int(-1, 1), is_bytes(2, 2))))


CODEC: Codec[Seek | Found] = Codec((Seek, Found))


def test_a_record_is_its_type_and_its_fields_in_their_order() -> None:
    payload = CODEC.encode(Seek(7, "abc"))
    assert cbor2.loads(payload) == [1, 7, "abc"]
    assert CODEC.decode(payload) == Seek(7, "abc")
    assert CODEC.decode(cbor2.dumps([2, [[-1, b"xy"]]])) == Found([[-1, b"xy"]])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([1, -1, "abc"], r"Seek\.ledger is out of range"),
        ([1, True, "abc"], r"Seek\.ledger is out of range"),
        ([1, 1, "abcd"], r"Seek\.name is out of range"),
        ([1, 1], "Seek has 2 fields, not 1"),
        ([2, [[-2, b"xy"]]], r"Found\.rows is out of range"),
        ([2, [[0, b"xyz"]]], r"Found\.rows is out of range"),
        ([2, [[0]]], r"Found\.rows is out of range"),
        ([3, 1], "no message of type 3 may come here"),
        ([1 << 20_000, 1], "no plain CBOR"),
        ([-1 << 20_000, 1], "no plain CBOR"),
        ([1 << 63, 1], "starts with its type"),
        ([], "starts with its type"),
        (["1", 1, "abc"], "starts with its type"),
        ({1: 2}, "no plain CBOR"),
    ],
)
def test_what_does_not_hold_is_refused_by_name(fields: object, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        CODEC.decode(cbor2.dumps(fields))


def test_two_kinds_with_one_number_are_no_codec() -> None:
    with pytest.raises(AssertionError, match="share a type number"):
        Codec((Seek, Seek))


@pytest.mark.parametrize("bad", [None, b"", b"four", "ab", 2, bytearray(b"ab"), [b"ab"]])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_list_of_bytes_holds_when_each_of_them_does(bad: object, count: int) -> None:
    """All are looked at together, wherever the wrong one stands."""
    check, each = is_list_of(is_bytes(1, 3)), is_bytes(1, 3)
    good: list[object] = [b"a", b"abc", b"ab"][:count]
    assert check(good)
    assert not check(tuple(good))
    for at in range(count + 1):
        values = [*good[:at], bad, *good[at:]]
        assert not check(values)
        assert check(values) == all(map(each, values))
