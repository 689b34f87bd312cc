"""The form of paths, and what is computed from them."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datatree.errors import ErrorCode, Refused
from datatree.paths import (
    LONG_INDEX_MAX,
    LONG_ZXID_MAX,
    RESERVED,
    is_valid,
    is_valid_name,
    long_sequential_name,
    name,
    parent,
    sequential_name,
    text_of,
    validate,
)
from tests.rigs.quiet_core import quiet_ms, thread_ns

SLICE_MS = 20

VALID = [
    "/",
    "/a",
    "/a/b",
    "/a.b/..c/...",
    "/.hidden",
    "/a b",
    "/zookeeper/quota",
    "/ä/日本",
    "/a\u00a0",
    "/a\uffef",
    "/\uf900",
    "/~",
]
INVALID = [
    "",
    "a",
    "a/b",
    "/a/",
    "//",
    "//a",
    "/a//b",
    "/.",
    "/..",
    "/a/./b",
    "/a/../b",
    "/a/.",
    "/a\0b",
    "/a\x01",
    "/a\x1f",
    "/a\x7f",
    "/a\u0080",
    "/a\u009f",
    "/\ue000",
    "/\uf8ff",
    "/a\ufff0",
    "/a\uffff",
    "/a\U0001f600",
]


@pytest.mark.parametrize("path", VALID)
def test_valid(path: str) -> None:
    assert is_valid(path.encode())
    validate(path.encode())


@pytest.mark.parametrize("path", INVALID)
def test_invalid(path: str) -> None:
    assert not is_valid(path.encode())
    with pytest.raises(Refused) as refused:
        validate(path.encode())
    assert refused.value.code == ErrorCode.BADARGUMENTS


@pytest.mark.parametrize("path", [b"/\xff", b"/a/\xc3", b"/\xed\xa0\x80"])
def test_what_is_not_utf8_is_invalid(path: bytes) -> None:
    assert not is_valid(path)


def twin(path: str) -> bool:
    """The rules one by one, over UTF-16 units as ZooKeeper has them."""
    if path == "/":
        return True
    if not path.startswith("/") or path.endswith("/"):
        return False
    if any(component in ("", ".", "..") for component in path.split("/")[1:]):
        return False
    raw = path.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    bad = ((0, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0xFFFF))
    return not any(low <= unit <= high for unit in units for low, high in bad)


letters = st.sampled_from("/////..ab\0\x1f\x20\x7e\x7f\x9f\xa0\ud7ff\uf8ff\uf900\uffef\ufff0\U00010000")


@given(st.text(letters, max_size=9))
def test_agrees_with_the_rules_one_by_one(path: str) -> None:
    assert is_valid(path.encode()) == twin(path)
    assert is_valid(b"/" + path.encode()) == twin("/" + path)


@given(st.text(letters, max_size=6))
def test_a_name_is_valid_where_the_path_with_it_is(component: str) -> None:
    assert is_valid_name(component.encode()) == ("/" not in component and twin("/a/" + component))


@pytest.mark.parametrize(
    ("path", "above", "last"),
    [(b"/a", b"/", b"a"), (b"/a/b", b"/a", b"b"), (b"/", b"/", b""), (b"/a/", b"/a", b""), (b"/a//b", b"/a/", b"b")],
)
def test_parent_and_name(path: bytes, above: bytes, last: bytes) -> None:
    assert parent(path) == above
    assert name(path) == last


@pytest.mark.parametrize(
    ("number", "suffix"),
    [
        (0, b"0000000000"),
        (42, b"0000000042"),
        (2**31 - 1, b"2147483647"),
        (-(2**31), b"-2147483648"),
        (-1, b"-000000001"),
    ],
)
def test_sequence_numbers_have_ten_digits_and_keep_their_sign(number: int, suffix: bytes) -> None:
    assert sequential_name(b"/q/n-", number) == b"/q/n-" + suffix


def test_the_reserved_znodes() -> None:
    assert {b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config"} == RESERVED


def test_long_numbers_are_above_all_others_as_text_and_as_numbers() -> None:
    order = [(1, 0), (1, 1), (1, LONG_INDEX_MAX), (2, 0), (0x1_0000_0001, 0), (LONG_ZXID_MAX, LONG_INDEX_MAX)]
    made = [long_sequential_name(b"", zxid, index) for zxid, index in order]
    numbers = [sequential_name(b"", 2**31 - 1), *made]
    assert numbers == sorted(numbers)
    assert list(map(int, numbers)) == sorted(set(map(int, numbers)))
    assert {len(number) for number in made} == {19}
    assert int(numbers[-1]) < 2**63


HALF_PAIR = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
near_half_pairs = st.sampled_from([bytes([byte]) for byte in b"a\x7f\x80\x9f\xa0\xbf\xc0\xe2\xed\xfe\xff"])


@given(st.lists(near_half_pairs, max_size=12).map(b"".join))
@example(b"\xed\xa0\x80\xed\xbf\xbf")
@example(b"\xed\xa0a\xed\xa0\xc0")
@example(b"\xed\x9f\xbf\xed\x80\x80")
@example(b"\xfe\xed\xa0\x80\xfe")
@example(b"\x80\xa0\xed\xa0")
def test_bytes_become_the_text_that_java_decodes(sent: bytes) -> None:
    """One U+FFFD for half of a surrogate pair, and what Python makes of all other bytes."""
    assert text_of(sent) == HALF_PAIR.sub(b"\xff", sent).decode(errors="replace").encode()


@pytest.mark.parametrize("unit", [b"\xed\xa0\x80", b"\xed\xa0\x80a", b"\xed", b"\xff", b"\xed\xa0"])
def test_a_megabyte_of_bytes_that_are_no_text_is_read_in_a_slice(unit: bytes) -> None:
    """A regular expression took 45 ms of the processor for half pairs between letters; this takes 9 ms."""
    sent = unit * ((1 << 20) // len(unit))
    assert quiet_ms(lambda: thread_ns(lambda: text_of(sent))) < SLICE_MS
