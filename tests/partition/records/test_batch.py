"""The header of a record batch: published vectors, walks, stamps, and every way in which it can be cut or lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.partition.records.vectors import COMMIT_MARKER, ONE_RECORD
from zab.kafka.errors import ErrorCode
from zab.partition.records import batch
from zab.partition.records.batch import (
    HEADER_BYTES,
    BatchError,
    BatchHeader,
    Codec,
    TimestampType,
    check_crc,
    read_header,
    stamp,
    stamp_append_time,
    walk,
)


def test_the_fields_of_a_data_batch() -> None:
    header = read_header(ONE_RECORD)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=67,
        partition_leader_epoch=-1,
        magic=2,
        crc=0x9973141F,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    assert header.size_bytes == len(ONE_RECORD) == 79
    assert (header.last_offset, header.codec, header.timestamp_type) == (0, Codec.NONE, TimestampType.CREATE)
    flags = [header.is_transactional, header.is_control, header.has_delete_horizon, header.has_producer_id]
    assert not any(flags)
    assert header.last_sequence == -1
    check_crc(ONE_RECORD, 0, header)


def test_the_fields_of_a_control_batch() -> None:
    header = read_header(COMMIT_MARKER)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (5, 5, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, -1)
    assert header.is_transactional
    assert header.is_control
    assert header.has_producer_id
    check_crc(COMMIT_MARKER, 0, header)


@pytest.mark.parametrize("data", [ONE_RECORD, COMMIT_MARKER])
def test_a_header_is_packed_as_it_was_read(data: bytes) -> None:
    assert read_header(data).packed() == data[:HEADER_BYTES]


integers = {size: st.integers(-(2 ** (size - 1)), 2 ** (size - 1) - 1) for size in (16, 32, 64)}


@given(
    st.builds(
        BatchHeader,
        integers[64],
        st.integers(49, 2**31 - 1),
        integers[32],
        st.just(2),
        st.integers(0, 2**32 - 1),
        integers[16],
        integers[32],
        integers[64],
        integers[64],
        integers[64],
        integers[16],
        integers[32],
        integers[32],
    )
)
def test_every_header_survives_packing(header: BatchHeader) -> None:
    packed = header.packed()
    assert len(packed) == HEADER_BYTES
    assert read_header(b"before" + packed, 6) == header


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_walk_finds_every_batch(kind: type) -> None:
    data = kind(ONE_RECORD + COMMIT_MARKER + ONE_RECORD)
    found = list(walk(data))
    assert [position for position, _ in found] == [0, 79, 157]
    assert [header.base_offset for _, header in found] == [0, 5, 0]
    for position, header in found:
        check_crc(data, position, header)


def test_a_walk_of_nothing_finds_nothing() -> None:
    assert list(walk(b"")) == []


@pytest.mark.parametrize("length", range(1, len(ONE_RECORD)))
def test_a_walk_refuses_a_batch_that_is_cut(length: int) -> None:
    walking = walk(ONE_RECORD + ONE_RECORD[:length])
    assert next(walking)[0] == 0
    with pytest.raises(BatchError, match=f"{length} (bytes|are there)") as caught:
        next(walking)
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [*range(49), -1, -12, -(2**31)])
def test_a_length_that_has_no_room_for_a_header_is_refused(length: int) -> None:
    """Among them those with which a walk would never end."""
    lying = ONE_RECORD[:8] + length.to_bytes(4, "big", signed=True) + ONE_RECORD[12:]
    with pytest.raises(BatchError, match=f"batch_length {length} at byte 0 is below 49") as caught:
        list(walk(lying))
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


def test_the_shortest_batch_is_a_header_alone() -> None:
    emptied = ONE_RECORD[:8] + (49).to_bytes(4, "big") + ONE_RECORD[12:61]
    ((_, header),) = walk(emptied)
    assert header.size_bytes == HEADER_BYTES


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_named_so_that_nobody_sends_them_again(magic: int) -> None:
    """Also those that are shorter than a header of this format."""
    for size in (17, 26, 79):
        with pytest.raises(BatchError, match=f"record format {magic} at byte 0 is not supported") as caught:
            read_header(ONE_RECORD[:16] + bytes([magic]) + ONE_RECORD[17:size])
        assert caught.value.error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_of_no_format_is_damage(magic: int) -> None:
    """It is outside the checksum: a flipped bit must not end a producer."""
    with pytest.raises(BatchError, match=f"unknown magic {magic}") as caught:
        read_header(ONE_RECORD[:16] + bytes([magic]) + ONE_RECORD[17:])
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


def test_every_flipped_bit_that_the_checksum_covers_is_noticed() -> None:
    for place in range(17, len(ONE_RECORD)):
        for bit in range(8):
            damaged = bytearray(ONE_RECORD)
            damaged[place] ^= 1 << bit
            with pytest.raises(BatchError, match="CRC-32C") as caught:
                check_crc(damaged, 0, read_header(damaged))
            assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


def test_a_stamp_changes_offset_and_epoch_and_no_checksum() -> None:
    buffer = bytearray(COMMIT_MARKER + ONE_RECORD + COMMIT_MARKER)
    stamp(memoryview(buffer), 78, 2**62, 41)
    header = read_header(buffer, 78)
    check_crc(buffer, 78, header)
    assert (header.base_offset, header.partition_leader_epoch) == (2**62, 41)
    stamp(buffer, 78, 0, -1)
    assert buffer == COMMIT_MARKER + ONE_RECORD + COMMIT_MARKER


def test_the_append_time_changes_what_it_must_and_the_checksum() -> None:
    buffer = bytearray(COMMIT_MARKER + ONE_RECORD + COMMIT_MARKER)
    header = stamp_append_time(buffer, 78, 1_800_000_000_123)
    assert header == read_header(buffer, 78)
    check_crc(buffer, 78, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND
    assert header.max_timestamp == 1_800_000_000_123
    before = read_header(ONE_RECORD)
    before.crc, before.attributes, before.max_timestamp = header.crc, 8, 1_800_000_000_123
    assert header == before
    assert buffer[78 + HEADER_BYTES : -78] == ONE_RECORD[HEADER_BYTES:]
    assert (buffer[:78], buffer[-78:]) == (COMMIT_MARKER, COMMIT_MARKER)


@pytest.mark.parametrize(("number", "codec"), [(each.value, each) for each in Codec])
def test_the_codec_is_in_three_bits(number: int, codec: Codec) -> None:
    header = read_header(ONE_RECORD)
    header.attributes = 0x78 | number
    assert header.codec is codec


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_codec_that_nobody_knows_has_its_own_error(number: int) -> None:
    header = read_header(ONE_RECORD)
    header.attributes = number
    with pytest.raises(BatchError, match=f"unknown codec {number}") as caught:
        _ = header.codec
    assert caught.value.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_each_attribute_is_one_bit() -> None:
    header = read_header(ONE_RECORD)
    seen = []
    for bit in range(3, 7):
        header.attributes = 1 << bit
        seen.append(
            (
                header.timestamp_type is TimestampType.LOG_APPEND,
                header.is_transactional,
                header.is_control,
                header.has_delete_horizon,
            )
        )
    assert seen == [tuple(place == bit for place in range(4)) for bit in range(4)]


@pytest.mark.parametrize(("base", "delta", "last"), [(0, 0, 0), (2**31 - 2, 1, 2**31 - 1), (2**31 - 1, 3, 2)])
def test_sequence_numbers_begin_again_after_the_last(base: int, delta: int, last: int) -> None:
    header = read_header(ONE_RECORD)
    header.base_sequence, header.last_offset_delta = base, delta
    assert header.last_sequence == last


def test_constants_are_those_of_the_format() -> None:
    assert (HEADER_BYTES, batch.LENGTH_END) == (61, 12)
