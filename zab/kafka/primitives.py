"""The primitive values of Kafka's protocol, read from bytes and written to them.

| value | in older versions | in flexible versions |
|---|---|---|
| bool, int8 … int64 | fixed width, big-endian, two's complement; a bool is true if its byte is not 0 | the same |
| uuid | 16 bytes, the most significant half first | the same |
| string | int16 length, UTF-8; length -1: null | uvarint length + 1; 0: null |
| bytes, records | int32 length; -1: null | uvarint length + 1; 0: null |
| array | int32 count; -1: null | uvarint count + 1; 0: null |
| uvarint | | 7 bits a byte, the low group first; at most 5 bytes |

Invariants:
- Every read is checked against the end of the message before a byte is touched, and a count of elements is checked
  against the bytes that are left before anything is allocated for them.
- What bytes of others can cause is one exception, `ProtocolError`; it says what was wrong and at which byte.

Not here: versions, fields, tagged fields (`codec.py`); the signed varints of records (`zab/partition/records`).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from struct import Struct
from typing import Final, NewType

Uuid = NewType("Uuid", bytes)
"""16 bytes, the most significant half first."""

UUID_BYTES: Final = 16
ZERO_UUID: Final = Uuid(bytes(UUID_BYTES))
"""No id."""

ELEMENTS_MAX: Final = 1 << 20
"""The limit for the elements of all arrays of one message. An element may be as short as a byte, but no object is so
small: without a limit, 100 MB of them would become gigabytes. Answers about 100,000 partitions stay below."""

INT16_MAX: Final = 0x7FFF
UINT32_MAX: Final = 0xFFFF_FFFF

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")

_read_int8 = _INT8.unpack_from
_read_int16 = _INT16.unpack_from
_read_int32 = _INT32.unpack_from
_read_int64 = _INT64.unpack_from
_read_float64 = Struct(">d").unpack_from


class ProtocolError(ValueError):
    """The bytes break the protocol, or a value does not fit into a message. The text says what is wrong, and where."""


class Reader:
    """Reads values from `data`, one after the other, from `at` on.

    `end` is where the message ends; nothing at or after it is read. `elements_left` is how many elements of arrays may
    still come. Every method raises ProtocolError.
    """

    __slots__ = ("at", "data", "elements_left", "end")

    def __init__(self, data: bytes | memoryview, at: int = 0, elements_max: int = ELEMENTS_MAX) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.elements_left = elements_max

    def error(self, what: str) -> ProtocolError:
        """The error `what`, at the present byte."""
        return ProtocolError(f"{what} at byte {self.at}")

    def short(self, what: str, size: int) -> ProtocolError:
        """The error that `what`, of `size` bytes, is longer than what is left."""
        return self.error(f"{what} of {size} bytes, but {max(self.end - self.at, 0)} are left,")

    def skip(self, size: int) -> None:
        if not 0 <= size <= self.end - self.at:
            raise self.short("a field", size)
        self.at += size

    # ------------------------------------------------------------------------------------------------ fixed width

    def boolean(self) -> bool:
        return self.int8() != 0

    def int8(self) -> int:
        at = self.at
        if at >= self.end:
            raise self.short("an int8", 1)
        self.at = at + 1
        value: int = _read_int8(self.data, at)[0]
        return value

    def int16(self) -> int:
        at = self.at
        if at + 2 > self.end:
            raise self.short("an int16", 2)
        self.at = at + 2
        value: int = _read_int16(self.data, at)[0]
        return value

    def int32(self) -> int:
        at = self.at
        if at + 4 > self.end:
            raise self.short("an int32", 4)
        self.at = at + 4
        value: int = _read_int32(self.data, at)[0]
        return value

    def int64(self) -> int:
        at = self.at
        if at + 8 > self.end:
            raise self.short("an int64", 8)
        self.at = at + 8
        value: int = _read_int64(self.data, at)[0]
        return value

    def float64(self) -> float:
        at = self.at
        if at + 8 > self.end:
            raise self.short("a float64", 8)
        self.at = at + 8
        value: float = _read_float64(self.data, at)[0]
        return value

    def uuid(self) -> Uuid:
        return Uuid(bytes(self._slice("a uuid", UUID_BYTES)))

    # --------------------------------------------------------------------------------------------- variable width

    def uvarint(self) -> int:
        """An unsigned number of 32 bits, in at most 5 bytes."""
        at = self.at
        end = self.end
        if at < end:
            byte = self.data[at]
            if byte < 0x80:
                self.at = at + 1
                return byte
        value = shift = 0
        while shift < 35:
            if at >= end:
                raise self.error("a truncated varint")
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > UINT32_MAX:
                    break
                self.at = at
                return value
            shift += 7
        raise self.error("a varint of more than 32 bits")

    def string(self) -> str:
        size = self.int16()
        if size < 0:
            raise self._null("a string", size)
        return self._text(size)

    def nullable_string(self) -> str | None:
        size = self.int16()
        if size < 0:
            self._check_null("a string", size)
            return None
        return self._text(size)

    def compact_string(self) -> str:
        size = self.uvarint()
        if not size:
            raise self._null("a string", -1)
        return self._text(size - 1)

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        return self._text(size - 1) if size else None

    def byte_string(self) -> bytes:
        size = self.int32()
        if size < 0:
            raise self._null("bytes", size)
        return bytes(self._slice("bytes", size))

    def nullable_byte_string(self) -> bytes | None:
        size = self.int32()
        if size < 0:
            self._check_null("bytes", size)
            return None
        return bytes(self._slice("bytes", size))

    def compact_byte_string(self) -> bytes:
        size = self.uvarint()
        if not size:
            raise self._null("bytes", -1)
        return bytes(self._slice("bytes", size - 1))

    def compact_nullable_byte_string(self) -> bytes | None:
        size = self.uvarint()
        return bytes(self._slice("bytes", size - 1)) if size else None

    def nullable_records(self) -> memoryview | None:
        """A view of the message's bytes, not a copy."""
        size = self.int32()
        if size < 0:
            self._check_null("records", size)
            return None
        return memoryview(self._slice("records", size, view=True))

    def compact_nullable_records(self) -> memoryview | None:
        """A view of the message's bytes, not a copy."""
        size = self.uvarint()
        return memoryview(self._slice("records", size - 1, view=True)) if size else None

    def count(self, element_bytes: int) -> int:
        """The number of elements of an array whose elements have at least `element_bytes` bytes each; -1: null."""
        count = self.int32()
        if count < 0:
            self._check_null("an array", count)
            return -1
        return self._checked_count(count, element_bytes)

    def compact_count(self, element_bytes: int) -> int:
        """`count`, in flexible versions."""
        count = self.uvarint()
        return self._checked_count(count - 1, element_bytes) if count else -1

    # ------------------------------------------------------------------------------------------------------ checks

    def _checked_count(self, count: int, element_bytes: int) -> int:
        left = self.end - self.at
        if count * element_bytes > left:
            raise self.error(f"an array of {count} elements of at least {element_bytes} bytes, but {left} are left,")
        self.elements_left -= count
        if self.elements_left < 0:
            raise self.error("more elements than a message may have")
        return count

    def _text(self, size: int) -> str:
        at = self.at
        end = at + size
        if end > self.end:
            raise self.short("a string", size)
        try:
            text = str(self.data[at:end], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"a string that is not UTF-8 ({error.reason})") from None
        self.at = end
        return text

    def _slice(self, what: str, size: int, *, view: bool = False) -> bytes | memoryview:
        at = self.at
        end = at + size
        if end > self.end:
            raise self.short(what, size)
        self.at = end
        return memoryview(self.data)[at:end] if view else self.data[at:end]

    def _null(self, what: str, size: int) -> ProtocolError:
        return self.error(f"{what} must not be null, but has length {size},")

    def _check_null(self, what: str, size: int) -> None:
        if size != -1:
            raise self.error(f"{what} of length {size}")


def long_uvarint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of 2 to 4 bytes, and where it ends; 0, which no such number is, if it is longer or shorter.
    Raises IndexError if it is truncated."""
    value = data[at] & 0x7F | (data[at + 1] & 0x7F) << 7
    if data[at + 1] < 0x80:
        return value, at + 2
    value |= (data[at + 2] & 0x7F) << 14
    if data[at + 2] < 0x80:
        return value, at + 3
    value |= data[at + 3] << 21
    return (value, at + 4) if data[at + 3] < 0x80 else (0, at)


# ---------------------------------------------------------------------------------------------------------------- write


def write_uvarint(out: bytearray, value: int) -> None:
    """At most 5 bytes for 32 bits."""
    assert 0 <= value <= UINT32_MAX
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_uuid(out: bytearray, value: Uuid) -> None:
    if len(value) != UUID_BYTES:
        raise ProtocolError(f"a uuid of {len(value)} bytes")
    out += value


def write_string(out: bytearray, value: str) -> None:
    data = value.encode()
    if len(data) > INT16_MAX:
        raise ProtocolError(f"a string of {len(data)} bytes")
    out += _INT16.pack(len(data))
    out += data


def write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    data = value.encode()
    if len(data) > INT16_MAX:
        raise ProtocolError(f"a string of {len(data)} bytes")
    if len(data) < 0x7F:
        out.append(len(data) + 1)
    else:
        write_uvarint(out, len(data) + 1)
    out += data


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: bytearray, value: bytes | memoryview) -> None:
    out += _INT32.pack(len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: bytes | memoryview | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: bytes | memoryview) -> None:
    write_uvarint(out, len(value) + 1)
    out += value


def write_compact_nullable_bytes(out: bytearray, value: bytes | memoryview | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_count(out: bytearray, count: int) -> None:
    """The number of elements of an array; -1: null."""
    out += _INT32.pack(count)


def write_compact_count(out: bytearray, count: int) -> None:
    """`write_count`, in flexible versions."""
    write_uvarint(out, count + 1)


# ------------------------------------------------------------------------------------------------------------ text form


def uuid_text(value: Uuid) -> str:
    """22 characters: base64url without padding, as Kafka writes ids into files and messages for people."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()
