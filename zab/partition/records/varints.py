"""Varint and varlong: zigzag, seven bits to a byte, lowest first; the highest bit says that another byte follows.

    0 -> 00 | -1 -> 01 | 1 -> 02 | 63 -> 7e | -64 -> 7f | 64 -> 80 01 | 300 -> d8 04

A varint is an i32 in at most 5 bytes, a varlong an i64 in at most 10. Readers accept forms that are longer than
necessary, as Kafka does, and refuse bits above the 32nd or 64th, which Kafka drops.
"""

from typing import Final

__all__ = ["append_varlong", "read_varint", "read_varlong", "varlong_bytes"]

_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64


def append_varlong(out: bytearray, value: int) -> None:
    """Append an i64; a varint of the same value has the same bytes."""
    assert -(2**63) <= value < 2**63, value
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def varlong_bytes(value: int) -> bytes:
    """The bytes of an i64, or of an i32."""
    out = bytearray()
    append_varlong(out, value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it). Raises IndexError where the data ends too early, ValueError above 32 bits."""
    # Most varints of a batch have one byte or two: these take a third of the time that the loop takes.
    low = data[position]
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), position + 1
    high = data[position + 1]
    if high < 0x80:
        return ((low & 0x7F) >> 1 | high << 6) ^ -(low & 1), position + 2
    return _read(data, position, _VARINT_BITS)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it). Raises IndexError where the data ends too early, ValueError above 64 bits."""
    return _read(data, position, _VARLONG_BITS)


def _read(data: bytes, position: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while shift < bits:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError(f"varint of more than {bits} bits before byte {position}")
