"""Record batches against those of kafka-python, which shares no code with ours: each reads what the other writes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.partition.records.kafka_python import CorruptRecordError, DefaultRecordBatch, DefaultRecordBatchBuilder
from tests.partition.records.record_strategies import record_lists
from tests.partition.records.some_records import MIXED, NOW_MS, TWO
from zab.partition.records.batch import (
    HEADER_BYTES,
    BatchError,
    Codec,
    TimestampType,
    check_crc,
    read_header,
    sealed,
    walk,
)
from zab.partition.records.builder import encode_batch
from zab.partition.records.control import ControlType, EndMarker, encode_marker
from zab.partition.records.record import Record, decode_records

PRODUCER = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 2**31 - 3}


def theirs(records: list[Record], codec: Codec, *, is_transactional: bool = True) -> bytes:
    """The batch that kafka-python builds; it only begins at offset 0."""
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional, **PRODUCER, batch_size=1 << 30)
    for record in records:
        assert builder.append(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
    return bytes(builder.build())


def as_they_read(batch: bytes) -> list[Record]:
    found = DefaultRecordBatch(batch)
    assert found.validate_crc()
    return [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in found]


def moved(records: list[Record]) -> list[Record]:
    """From offset 0."""
    for record in records[::-1]:
        record.offset -= records[0].offset
    return records


@pytest.mark.slow
@settings(max_examples=60)
@given(record_lists(), st.sampled_from(Codec))
def test_what_they_write_is_read(records: list[Record], codec: Codec) -> None:
    batch = theirs(moved(records), codec)
    ((_, header),) = walk(batch)
    check_crc(batch, 0, header)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2**31 - 3)
    assert list(decode_records(batch)) == records


@pytest.mark.slow
@settings(max_examples=60)
@given(record_lists(), st.sampled_from(Codec))
def test_they_read_what_is_written(records: list[Record], codec: Codec) -> None:
    assert as_they_read(encode_batch(records, codec, **PRODUCER)) == records


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_works_both_ways_on_records_that_become_smaller(codec: Codec) -> None:
    """They send records uncompressed if compression does not help."""
    batch = theirs(MIXED, codec)
    assert read_header(batch).codec is codec
    assert list(decode_records(batch)) == MIXED
    assert as_they_read(encode_batch(MIXED, codec)) == MIXED


@pytest.mark.slow
@settings(max_examples=60)
@given(record_lists())
def test_uncompressed_batches_are_the_same_bytes(records: list[Record]) -> None:
    expected = theirs(moved(records), Codec.NONE)
    assert encode_batch(records, partition_leader_epoch=0, is_transactional=True, **PRODUCER) == expected


@pytest.mark.parametrize("codec", Codec)
def test_every_field_of_a_header_is_theirs(codec: Codec) -> None:
    batch = encode_batch(MIXED, codec, partition_leader_epoch=9, append_time_ms=NOW_MS + 1, **PRODUCER)
    ours, other = read_header(batch), DefaultRecordBatch(batch)
    assert ours.timestamp_type is TimestampType.LOG_APPEND
    names = {
        "base_offset": other.base_offset,
        "size_bytes": other.size_in_bytes,
        "partition_leader_epoch": other.leader_epoch,
        "magic": other.magic,
        "crc": other.crc,
        "attributes": other.attributes,
        "last_offset_delta": other.last_offset_delta,
        "last_offset": other.last_offset,
        "codec": other.compression_type,
        "timestamp_type": other.timestamp_type,
        "is_transactional": other.is_transactional,
        "is_control": other.is_control_batch,
        "base_timestamp": other.first_timestamp,
        "max_timestamp": other.max_timestamp,
        "producer_id": other.producer_id,
        "producer_epoch": other.producer_epoch,
        "base_sequence": other.base_sequence,
        "last_sequence": other.last_sequence,
        "record_count": other.records_count,
    }
    assert {name: getattr(ours, name) for name in names} == names
    assert {record.timestamp for record in other} == {NOW_MS + 1}


@pytest.mark.parametrize("type_", ControlType)
def test_they_read_the_markers(type_: ControlType) -> None:
    batch = encode_marker(
        EndMarker(type_, 3), offset=5, leader_epoch=2, producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS
    )
    found = DefaultRecordBatch(batch)
    assert found.validate_crc()
    assert found.is_control_batch
    (record,) = found
    assert (record.abort, record.commit) == (type_ is ControlType.ABORT, type_ is ControlType.COMMIT)


def test_what_they_refuse_is_refused_and_what_both_read_is_the_same() -> None:
    """Every byte of two records is given other values, except for the attributes, which they read as a varint, and
    for keys of headers that are not UTF-8. Ours are stricter: they also refuse offsets that do not rise, lengths below
    -1 and varints of more than 32 bits."""
    good = encode_batch(TWO)
    attributes = (HEADER_BYTES + 1, HEADER_BYTES + 1 + good[HEADER_BYTES] // 2 + 1)
    ours_only = both = 0
    for place in range(HEADER_BYTES, len(good)):
        for value in (0, 1, 2, 3, 4, 5, 0x7F, 0x80, 0x81, good[place] ^ 2, good[place] ^ 4):
            batch = good[:place] + bytes([value]) + good[place + 1 :]
            try:
                ours = list(decode_records(batch))
            except BatchError:
                ours_only += _is_read_by_them(batch)
                continue
            is_text = "".join(name for record in ours for name, _ in record.headers).isprintable()
            if is_text and place not in attributes:
                both += 1
                assert as_they_read(sealed(read_header(batch), batch[HEADER_BYTES:])) == ours
    assert both > 50
    assert 0 < ours_only < 50


def _is_read_by_them(batch: bytes) -> bool:
    try:
        return len(list(DefaultRecordBatch(batch))) > 0
    except (CorruptRecordError, UnicodeDecodeError):
        return False
