"""Plain CBOR: the part of RFC 8949 that messages use, in its one canonical form.

    decode(payload)     decodes one item: arrays (as lists), integers of 64 bits, byte strings, text,
                        booleans and null
    head(kind, value)   encodes the beginning of an item

The sender is not trusted, so nothing is built before its size is known to be bounded:

- no tags (big numbers, fractions, dates, patterns, shared values: some megabytes of them take minutes), no maps (an
  attacker can make keys collide), no floats, no indefinite lengths;
- at most `ITEMS_MAX` items, nested at most `DEPTH_MAX` arrays deep: with the length of the frame, these bound the time
  of decoding;
- each head in its shortest form, and nothing after the item: equal values are equal bytes.

Not here: which items a message has (`records`), and encoding whole items, for which `cbor2` is used.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from struct import Struct
from typing import Any, Final

ITEMS_MAX: Final = 1 << 16
"""The most items in one message: decoding so many takes some 10 ms."""
DEPTH_MAX: Final = 6

INTEGER: Final = 0
BYTES: Final = 2
_TEXT: Final = 3
ARRAY: Final = 4
"""The kinds of items: bits 7-5 of a head."""
SHORT: Final = 24
"""A head below this is the integer itself."""
_SIMPLE: Final = {0xF4: False, 0xF5: True, 0xF6: None}
# For each head that is followed by its value: how to read the value, its length, and the least value for which this
# form is the shortest. Bits 7-5 are the kind: the two of integers, byte string, text, array.
_WIDE: Final = {
    kind << 5 | form: (Struct(layout).unpack_from, length, least)
    for kind in range(ARRAY + 1)
    for form, layout, length, least in (
        (24, ">xB", 2, 24),
        (25, ">xH", 3, 1 << 8),
        (26, ">xI", 5, 1 << 16),
        (27, ">xQ", 9, 1 << 32),
    )
}
_NARROW_HEADS: Final = [bytes([head]) for head in range(1 << 8)]
_pack_1, _pack_2, _pack_4, _pack_8 = (Struct(layout).pack for layout in (">BB", ">BH", ">BI", ">BQ"))
WIDE_COUNTS: Final = {head: form for head, form in _WIDE.items() if head >> 5 == 0}
"""The heads of integers that are not negative."""


class PlainError(ValueError):
    """The bytes are not plain CBOR; the text says why."""


@lru_cache(maxsize=1024)
def head(kind: int, value: int) -> bytes:
    """The head of an item of this kind, in its shortest form. The value is a length, a number of items, or an integer
    of at most 64 bits that is not negative."""
    if value < SHORT:
        return _NARROW_HEADS[kind << 5 | value]
    if value < 1 << 8:
        return _pack_1(kind << 5 | 24, value)
    if value < 1 << 16:
        return _pack_2(kind << 5 | 25, value)
    if value < 1 << 32:
        return _pack_4(kind << 5 | 26, value)
    return _pack_8(kind << 5 | 27, value)


def decode(payload: bytes) -> Any:
    """Decode the one item in `payload`. Raises `PlainError`."""
    size = len(payload)
    at = item_count = 0
    # The arrays around the one that is being filled, and how many items each still lacks.
    around: list[tuple[list[Any], int]] = []
    array: list[Any] = []
    lacking = 1
    item: Any
    try:
        while True:
            while not lacking:
                if not around:
                    if at != size:
                        raise PlainError("bytes follow the item")
                    return array[0]
                array, lacking = around.pop()
            lacking -= 1
            first = payload[at]
            kind, value = first >> 5, first & 31
            if value < SHORT and kind <= ARRAY:
                at += 1
            elif first in _WIDE:
                read, length, least = _WIDE[first]
                (value,) = read(payload, at)
                if value < least:
                    raise PlainError("a head is not in its shortest form")
                at += length
            elif first in _SIMPLE:
                array.append(_SIMPLE[first])
                at += 1
                continue
            else:
                raise PlainError(f"the head {first:#04x} is not plain CBOR")
            if not kind:
                array.append(value)
            elif kind == 1:
                array.append(-1 - value)
            elif kind <= _TEXT:
                end = at + value
                if end > size:
                    raise PlainError("it ends too early")
                item = payload[at:end]
                array.append(_text(item) if kind == _TEXT else item)
                at = end
            else:
                item_count += value
                if item_count > ITEMS_MAX:
                    raise PlainError(f"it has more than {ITEMS_MAX} items")
                if len(around) == DEPTH_MAX:
                    raise PlainError(f"it is deeper than {DEPTH_MAX} arrays")
                item = []
                array.append(item)
                around.append((array, lacking))
                array, lacking = item, value
    except (IndexError, struct.error):
        raise PlainError("it ends too early") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PlainError("a text is not UTF-8") from None
