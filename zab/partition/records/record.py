"""The records inside a batch: reading and skipping them.

Format of a record; lengths and counts are varints, -1 is null (KIP-98, KIP-82):

    length           varint   bytes after it
    attributes       i8       unused
    timestamp_delta  varlong  to base_timestamp; may be negative
    offset_delta     varint   to base_offset
    key              length and bytes; null: none
    value            length and bytes; null: a tombstone
    headers          count; each: length and bytes of a key in UTF-8, never null; length and bytes of a value

The records of a batch are compressed as a whole. The offsets in a producer's batch are consecutive; compaction leaves
gaps, so offset deltas only have to rise, up to last_offset_delta.

A reader believes no count and no length: each is compared with the bytes that are there before anything is done with
it, and every byte must belong to a record. The key of a header that is not UTF-8 keeps its bytes (surrogateescape).

Measured in processor time (CPython 3.11), 148 records of 100 bytes: decoding
200 µs, skimming 140 µs; with a key and a header each, 460 µs.
"""

from collections.abc import Iterator
from typing import Final

from attrs import define

from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import (
    HEADER_BYTES,
    BatchError,
    BatchHeader,
    Data,
    TimestampType,
    read_header,
)
from zab.partition.records.codecs import OUTPUT_BYTES_MAX, decompress
from zab.partition.records.varints import read_varint, read_varlong

__all__ = ["RECORD_BYTES_MIN", "Headers", "Record", "Skimmed", "decode_records", "records_of", "skim"]

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN: Final = 7
"""A record without key, value and headers, its length included."""
HEADER_ENTRY_BYTES_MIN: Final = 2
_NULL: Final = 1
"""The length -1."""

Skimmed = tuple[int, int, int, int, int, int, int, int]
"""A record as places in the decompressed records: (timestamp delta, offset delta, start and end of the key, start and
end of the value, start and count of the headers). A start of -1: null."""


@define
class Record:
    """One record of a log. `timestamp_ms` is since 1970; `value` is None for a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_records(batch: Data, position: int = 0, output_bytes_max: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at `position`, in their order; the checksum is not looked at.

    `output_bytes_max` limits what compressed records may become. With LogAppendTime every record has the append time.
    Raises BatchError: CORRUPT_MESSAGE for what cannot be read, MESSAGE_TOO_LARGE above the limit.
    """
    header = read_header(batch, position)
    data = records_of(batch, position, header, output_bytes_max)
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND else None
    for timestamp_delta, offset_delta, key_start, key_end, value_start, value_end, at, count in skim(data, header):
        yield Record(
            header.base_offset + offset_delta,
            header.base_timestamp + timestamp_delta if append_time is None else append_time,
            data[key_start:key_end] if key_start >= 0 else None,
            data[value_start:value_end] if value_start >= 0 else None,
            _headers(data, at, count) if count else (),
        )


def records_of(batch: Data, position: int, header: BatchHeader, output_bytes_max: int = OUTPUT_BYTES_MAX) -> bytes:
    """The bytes of all records of a batch, decompressed. Raises BatchError, as `decode_records` does."""
    end = position + header.size_bytes
    if end > len(batch):
        text = f"batch of {header.size_bytes} bytes at byte {position}, of which {len(batch) - position} are there"
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, text)
    return decompress(header.codec, bytes(memoryview(batch)[position + HEADER_BYTES : end]), output_bytes_max)


def skim(data: bytes, header: BatchHeader) -> Iterator[Skimmed]:
    """Each record of these decompressed records, without a copy of keys and values.

    Raises BatchError (CORRUPT_MESSAGE) unless the records fill the data exactly, as many as the header says, with
    offset deltas that rise up to last_offset_delta.
    """
    position, end, before = 0, len(data), -1
    if not 0 <= header.record_count * RECORD_BYTES_MIN <= end:
        raise _damaged(f"{header.record_count} records in {end} bytes")
    for index in range(header.record_count):
        try:
            length, start = read_varint(data, position)
            position = start + length
            if length < 0 or position > end:
                raise _damaged(f"record {index} has {length} bytes, of which {end - start} are there")
            skimmed = _skimmed(data, start, position)
        except (IndexError, ValueError) as error:
            raise _damaged(f"record {index} is cut or damaged: {error}") from None
        if not before < skimmed[1] <= header.last_offset_delta:
            raise _damaged(f"record {index} has the offset delta {skimmed[1]} after {before}")
        before = skimmed[1]
        yield skimmed
    if position != end:
        raise _damaged(f"{end - position} bytes after the last of {header.record_count} records")


def _skimmed(data: bytes, start: int, stop: int) -> Skimmed:
    """One record from its attributes to `stop`. Single bytes, which most varints are, are read without a call."""
    position = start + 2
    byte = data[start + 1]
    if byte < 0x80:
        timestamp_delta = (byte >> 1) ^ -(byte & 1)
    else:
        timestamp_delta, position = read_varlong(data, start + 1)
    offset_delta, position = read_varint(data, position)
    if data[position] == _NULL:
        key_start = key_end = -1
        position += 1
    else:
        key_start, key_end, position = _span(data, position)
    value_start, value_end, position = _span(data, position)
    if data[position] == 0 and position + 1 == stop:
        return timestamp_delta, offset_delta, key_start, key_end, value_start, value_end, stop, 0
    count, headers_start = read_varint(data, position)
    position = _headers_end(data, headers_start, count, stop)
    if position != stop:
        raise ValueError(f"its fields end at byte {position}, its length says {stop}")
    return timestamp_delta, offset_delta, key_start, key_end, value_start, value_end, headers_start, count


def _headers_end(data: bytes, position: int, count: int, stop: int) -> int:
    """Where so many headers end, of which every one has a key."""
    if not 0 <= count * HEADER_ENTRY_BYTES_MIN <= stop - position:
        raise ValueError(f"{count} headers in {stop - position} bytes")
    for _ in range(count):
        name_start, _, position = _span(data, position)
        if name_start < 0:
            raise ValueError("a header without a key")
        _, _, position = _span(data, position)
    return position


def _span(data: bytes, position: int) -> tuple[int, int, int]:
    """(start, end, position after it) of bytes with a length; start -1: null. They may end after the data."""
    length, start = read_varint(data, position)
    if length >= 0:
        end = start + length
        return start, end, end
    if length == -1:
        return -1, -1, start
    raise ValueError(f"length {length}")


def _headers(data: bytes, position: int, count: int) -> Headers:
    found = []
    for _ in range(count):
        name_start, name_end, position = _span(data, position)
        start, end, position = _span(data, position)
        name = data[name_start:name_end].decode(errors="surrogateescape")
        found.append((name, data[start:end] if start >= 0 else None))
    return tuple(found)


def _damaged(text: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, text)
