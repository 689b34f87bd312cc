"""Records are declared once; what a codec does not know, or a check does not hold for, is refused by name."""

from typing import ClassVar

import attrs
import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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


@attrs.define
class Told:
    TYPE: ClassVar[int] = 3
    mark: int = checked(COUNT)
    lag: int = checked(is_int(-5, 300))


@attrs.define
class Carried:
    TYPE: ClassVar[int] = 5
    pieces: list[bytes] = checked(is_list_of(is_bytes(1, 1 << 20)))


CODEC: Codec[Seek | Found | Told | Carried] = Codec((Seek, Found, Told, Carried))


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
        ([4, 1], "a message of type 4 is not expected here"),
        ([1 << 20_000, 1], "not plain CBOR"),
        ([-1 << 20_000, 1], "not plain CBOR"),
        ([1 << 63, 1], "starts with its type"),
        ([], "starts with its type"),
        (["1", 1, "abc"], "starts with its type"),
        ({1: 2}, "not plain CBOR"),
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


INTEGERS = st.integers(-6, 301) | st.sampled_from([1 << 16, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, -(1 << 64)])


@given(
    st.lists(INTEGERS | st.booleans() | st.none() | st.binary(max_size=2), max_size=4),
    st.binary(max_size=2),
    st.tuples(st.integers(0, 20), st.integers(0, 255)) | st.none(),
)
@example([1, 2], b"\0", None)
@example([1, 301], b"", None)
@example([1 << 63, 2], b"", None)
def test_integers_alone_are_read_as_among_other_fields(
    fields: list[object], behind: bytes, changed: tuple[int, int] | None
) -> None:
    """What is read in one pass is what the usual way makes of it, whatever the bytes are."""
    payload = bytearray(cbor2.dumps([3, *fields]) + behind)
    if changed is not None and changed[0] < len(payload):
        payload[changed[0]] = changed[1]
    usual: Codec[Told] = Codec((Told,))
    usual._of_integers.clear()
    quick: Codec[Told] = Codec((Told,))
    assert quick._of_integers
    outcomes = []
    for codec in (usual, quick):
        try:
            outcomes.append(codec.decode(bytes(payload)))
        except MessageError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


OF_EACH_FORM = pytest.mark.parametrize(
    ("mark", "lag"),
    [(0, 0), (23, 24), (255, 256), (1 << 16, 300), ((1 << 32) - 1, 5), (1 << 32, 23), ((1 << 63) - 1, 0)],
)


@OF_EACH_FORM
def test_integers_alone_are_written_as_among_other_fields(mark: int, lag: int) -> None:
    assert CODEC.encode(Told(mark, lag)) == cbor2.dumps([3, mark, lag])
    assert CODEC.encode(Told(mark, -5)) == cbor2.dumps([3, mark, -5])
    assert CODEC.encode(Told(1 << 64, lag)) == cbor2.dumps([3, 1 << 64, lag]), "a test that lies says so"


SIZES = st.integers(0, 30) | st.sampled_from([23, 24, 255, 256, 65_535, 65_536])


@given(st.lists(SIZES.map(bytes), max_size=30), st.lists(st.integers(0, (1 << 64) - 1), min_size=2, max_size=2))
def test_what_is_written_without_cbor2_is_what_it_would_write(pieces: list[bytes], integers: list[int]) -> None:
    payload = CODEC.encode(Carried(pieces))
    assert payload == cbor2.dumps([5, pieces])
    if all(pieces):
        assert CODEC.decode(payload) == Carried(pieces)
    assert CODEC.encode(Told(*integers)) == cbor2.dumps([3, *integers])


@pytest.mark.parametrize("message", [Carried([b"x" * 300]), Told(1 << 63, 24)], ids=["byte strings", "integers"])
def test_frequent_messages_are_written_without_cbor2(message: Carried | Told, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = CODEC.encode(message)
    monkeypatch.setattr("zab.wire.records.cbor2.dumps", None)
    assert CODEC.encode(message) == expected


@OF_EACH_FORM
def test_integers_alone_are_read_in_one_pass(mark: int, lag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.wire.plain.decode", None)
    assert CODEC.decode(cbor2.dumps([3, mark, lag])) == Told(mark, lag)
