"""Jute, ZooKeeper's serialization: the primitive types, read from and written to whole buffers.

Format (all integers big-endian, two's complement; a record is its fields one after the other, with no tag, length,
padding or version):

    bool      1 byte, written as 0 or 1; any value but 0 reads as true
    int       4 bytes
    long      8 bytes
    buffer    int length, then that many bytes; length -1 is null
    string    as buffer, the bytes being UTF-8
    vector    int count, then the elements; count -1 is null, any other negative count reads as empty

Strings stay bytes here: a path is compared, hashed and stored as the UTF-8 that arrived; code that needs characters
(path validation, the command line) decodes them once.

Invariants:
- `Reader.offset` never passes the end of the buffer: a read that would do so raises `JuteError` and moves nothing.
- A length is compared with the bytes that are left before anything is allocated for it, and a vector's count with the
  least number of bytes that its elements need, so a hostile number costs nothing.

Deliberately not here: the records made of these types (`datatree.requests`, `zab.jute.replies`), frames
(`zab.jute.framing`), and the types that ZooKeeper's records never use (float, double, map).
"""

import builtins
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeVar

__all__ = ["LENGTH_MAX", "NULL", "JuteError", "Reader", "Writer"]

T = TypeVar("T")

# ZooKeeper's own bound: jute.maxbuffer (0xfffff bytes) plus as much again for what the server adds.
LENGTH_MAX: Final = 2 * 0xFFFFF

# The four bytes of a null string, buffer or vector.
NULL: Final = b"\xff\xff\xff\xff"

INT: Final = Struct(">i")
LONG: Final = Struct(">q")


class JuteError(Exception):
    """The bytes are not what the record's layout demands; the text says what and where."""


class Reader:
    """Reads primitives one after the other out of `buffer`, from `offset` on.

    `length_max` (bytes) bounds each string and buffer. Every read raises `JuteError` when the bytes do not suffice.
    """

    __slots__ = ("_buffer", "_end", "_length_max", "offset")

    def __init__(
        self, buffer: bytes | memoryview, offset: builtins.int = 0, *, length_max: builtins.int = LENGTH_MAX
    ) -> None:
        assert 0 <= offset <= len(buffer)
        self._buffer = buffer
        self._end = len(buffer)
        self._length_max = length_max
        self.offset = offset

    @property
    def remaining(self) -> builtins.int:
        """Bytes not yet read."""
        return self._end - self.offset

    def bool(self) -> builtins.bool:
        at = self._advance(1, "bool")
        return self._buffer[at] != 0

    def int(self) -> builtins.int:
        at = self._advance(4, "int")
        value: builtins.int = INT.unpack_from(self._buffer, at)[0]
        return value

    def long(self) -> builtins.int:
        at = self._advance(8, "long")
        value: builtins.int = LONG.unpack_from(self._buffer, at)[0]
        return value

    def buffer(self) -> bytes | None:
        start = self.offset
        length = self.int()
        if length == -1:
            return None
        if length < 0 or length > self._length_max:
            self.offset = start
            raise JuteError(f"unreasonable length {length} at offset {start}")
        if length > self._end - self.offset:
            self.offset = start
            raise JuteError(f"length {length} at offset {start}, but {self._end - start - 4} bytes are left")
        at = self._advance(length, "buffer")
        return bytes(self._buffer[at : at + length])

    def raw(self, count: builtins.int) -> bytes:
        """The next `count` bytes as they are, for a record of fixed width that is not taken apart, such as a Stat."""
        at = self._advance(count, "record")
        return bytes(self._buffer[at : at + count])

    def string(self) -> bytes | None:
        """The raw UTF-8 bytes; not checked here, since what to do about malformed text differs by field."""
        return self.buffer()

    def vector(self, read_item: Callable[["Reader"], T], *, item_bytes_min: builtins.int = 4) -> list[T] | None:
        """A list of what `read_item(self)` returns; an element takes at least `item_bytes_min` bytes (4: a string)."""
        count = self.count(item_bytes_min)
        return None if count is None else [read_item(self) for _ in range(count)]

    def count(self, item_bytes_min: builtins.int = 4) -> builtins.int | None:
        """How many elements follow, each of which takes at least so many bytes; None for a null vector."""
        assert item_bytes_min > 0
        start = self.offset
        count = self.int()
        if count == -1:
            return None
        if count * item_bytes_min > self._end - self.offset:
            self.offset = start
            raise JuteError(f"count {count} at offset {start}, but {self._end - start - 4} bytes are left")
        return count

    def _advance(self, count: builtins.int, what: str) -> builtins.int:
        at = self.offset
        if count > self._end - at:
            raise JuteError(f"{what} at offset {at} needs {count} bytes, but {self._end - at} are left")
        self.offset = at + count
        return at


class Writer:
    """Collects primitives; `getvalue` joins them once. Methods return the writer: a record is one expression."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def bool(self, value: builtins.bool) -> "Writer":
        self._parts.append(b"\x01" if value else b"\x00")
        return self

    def int(self, value: builtins.int) -> "Writer":
        self._parts.append(INT.pack(value))
        return self

    def long(self, value: builtins.int) -> "Writer":
        self._parts.append(LONG.pack(value))
        return self

    def buffer(self, value: bytes | None) -> "Writer":
        if value is None:
            self._parts.append(NULL)
        else:
            self._parts.append(INT.pack(len(value)))
            self._parts.append(value)
        return self

    def string(self, value: bytes | None) -> "Writer":
        return self.buffer(value)

    def vector(self, items: Iterable[T] | None, write_item: Callable[["Writer", T], object]) -> "Writer":
        """Null for None, else the count and each element through `write_item(self, item)`."""
        if items is None:
            self._parts.append(NULL)
            return self
        listed = list(items)
        self.int(len(listed))
        for item in listed:
            write_item(self, item)
        return self

    def raw(self, encoded: bytes) -> "Writer":
        """Bytes that are in jute form already, such as a Stat."""
        self._parts.append(encoded)
        return self

    def getvalue(self) -> bytes:
        return b"".join(self._parts)
