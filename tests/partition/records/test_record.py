"""Records: what is written is read again, and nothing that a hostile producer writes is believed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.partition.records.record_strategies import record_lists
from tests.partition.records.some_records import MIXED, NOW_MS, TWO
from tests.partition.records.vectors import ONE_RECORD
from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import (
    HEADER_BYTES,
    BatchError,
    BatchHeader,
    Codec,
    check_crc,
    read_header,
    sealed,
    stamp,
    walk,
)
from zab.partition.records.builder import BatchBuilder, encode_batch
from zab.partition.records.record import Record, decode_records, skim
from zab.partition.records.varints import varlong_bytes

COUNT_AT = 57


def test_the_published_batch_is_read_and_written() -> None:
    records = [Record(0, NOW_MS, b"k", b"hello", (("h", b"hv"),))]
    assert list(decode_records(ONE_RECORD)) == records
    assert encode_batch(records) == ONE_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_what_is_written_is_read(codec: Codec) -> None:
    batch = encode_batch(MIXED, codec, partition_leader_epoch=4, producer_id=9, producer_epoch=1, base_sequence=70)
    ((position, header),) = walk(batch)
    check_crc(batch, position, header)
    assert (header.codec, header.record_count, header.last_offset_delta) == (codec, 4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 100_000)
    assert (header.partition_leader_epoch, header.producer_id, header.producer_epoch) == (4, 9, 1)
    assert (header.base_sequence, header.last_sequence) == (70, 73)
    assert list(decode_records(batch)) == MIXED


@pytest.mark.slow
@settings(max_examples=60)
@given(record_lists(), st.sampled_from(Codec), st.booleans())
def test_every_batch_survives(records: list[Record], codec: Codec, is_transactional: bool) -> None:
    batch = encode_batch(records, codec, is_transactional=is_transactional)
    ((_, header),) = walk(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    assert header.is_transactional is is_transactional
    assert list(decode_records(memoryview(b"before" + batch), 6)) == records


def test_a_stamp_moves_the_records() -> None:
    batch = bytearray(encode_batch(MIXED))
    stamp(batch, 0, 1_000, 3)
    assert [record.offset for record in decode_records(batch)] == [1_000, 1_001, 1_002, 1_003]


def test_with_append_time_every_record_has_it() -> None:
    batch = encode_batch(MIXED, append_time_ms=NOW_MS + 7)
    assert {record.timestamp_ms for record in decode_records(batch)} == {NOW_MS + 7}


def test_gaps_that_compaction_leaves_are_read() -> None:
    """Also one in front of the first record, and one after the last."""
    records = [Record(12, NOW_MS, b"a", b"1"), Record(17, NOW_MS, b"b", b"2")]
    batch = bytearray(encode_batch(records, base_offset=10))
    batch[23:27] = (9).to_bytes(4, "big")
    assert read_header(batch).last_offset == 19
    assert list(decode_records(batch)) == records


def test_a_batch_without_records_has_none() -> None:
    header = read_header(ONE_RECORD)
    header.record_count = 0
    assert list(decode_records(sealed(header, b""))) == []


def test_the_key_of_a_header_keeps_bytes_that_are_not_utf_8() -> None:
    batch = ONE_RECORD.replace(b"\x02h\x04hv", b"\x02\xff\x04hv")
    ((name, content),) = next(decode_records(batch)).headers
    assert (name.encode(errors="surrogateescape"), content) == (b"\xff", b"hv")
    assert encode_batch(decode_records(batch))[HEADER_BYTES:] == batch[HEADER_BYTES:]


def test_a_builder_knows_its_size_and_its_offsets() -> None:
    builder = BatchBuilder(base_offset=5)
    assert builder.size_bytes == HEADER_BYTES
    assert builder.append(b"a", b"b", NOW_MS) == 5
    assert builder.append(None, None, NOW_MS, offset=8) == 8
    assert builder.append(None, None, NOW_MS) == 9
    assert builder.count == 3
    assert builder.size_bytes == len(builder.build())
    with pytest.raises(AssertionError):
        builder.append(None, None, NOW_MS, offset=9)


def test_a_builder_without_records_builds_nothing() -> None:
    with pytest.raises(AssertionError, match="at least one record"):
        BatchBuilder().build()


# ---- Hostile batches


def of_records(records: bytes, **fields: int) -> bytes:
    """A batch of these bytes, with a header that says so, except for `fields`."""
    header = read_header(encode_batch(TWO))
    for name, value in fields.items():
        setattr(header, name, value)
    return sealed(header, records)


def records_or_nothing(batch: bytes) -> list[Record] | None:
    """Any error other than CORRUPT_MESSAGE fails the test."""
    try:
        return list(decode_records(batch))
    except BatchError as error:
        if error.error is not ErrorCode.CORRUPT_MESSAGE:
            raise
        return None


PLAIN = encode_batch(TWO)[HEADER_BYTES:]


def test_records_that_are_cut_anywhere_are_refused() -> None:
    for length in range(len(PLAIN)):
        assert records_or_nothing(of_records(PLAIN[:length])) is None, length
    assert records_or_nothing(of_records(PLAIN)) == TWO


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_records_that_are_cut_anywhere_are_refused(codec: Codec) -> None:
    whole = encode_batch(TWO, codec)[HEADER_BYTES:]
    for length in range(len(whole)):
        assert records_or_nothing(of_records(whole[:length], attributes=codec)) is None, length


@pytest.mark.parametrize("after", [b"\0", b"\x80", PLAIN])
def test_bytes_after_the_last_record_are_refused(after: bytes) -> None:
    assert records_or_nothing(of_records(PLAIN + after)) is None


@pytest.mark.parametrize("length", range(1, len(ONE_RECORD) - HEADER_BYTES + 1))
def test_a_batch_whose_end_is_not_there_is_refused(length: int) -> None:
    with pytest.raises(BatchError, match=f"of which {79 - length} are there"):
        list(decode_records(ONE_RECORD[:-length]))


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 3, 4, 2**31 - 1])
def test_a_number_of_records_that_lies_is_refused(count: int) -> None:
    assert records_or_nothing(of_records(PLAIN, record_count=count)) is None


def test_a_huge_number_of_records_is_refused_before_the_first_is_read() -> None:
    with pytest.raises(BatchError, match=f"2147483647 records in {len(PLAIN)} bytes"):
        next(decode_records(of_records(PLAIN, record_count=2**31 - 1)))


def every_byte_changed() -> Iterator[bytes]:
    for place in range(len(PLAIN)):
        for value in range(256):
            yield PLAIN[:place] + bytes([value]) + PLAIN[place + 1 :]


@pytest.mark.slow
def test_no_changed_byte_gets_past_the_bounds() -> None:
    """Every byte of two records is given every value: what is read has the right number of records and possible
    offsets, and its bytes are those that were there."""
    refused = read = 0
    for records in every_byte_changed():
        found = records_or_nothing(of_records(records))
        if found is None:
            refused += 1
            continue
        read += 1
        assert [record.offset for record in found] == [0, 1]
        written = sum(len(part or b"") for record in found for part in (record.key, record.value))
        assert written + sum(len(name) + len(content or b"") for r in found for name, content in r.headers) < len(PLAIN)
    assert refused > 3_000
    assert read > 2_000


LENGTHS = [-(2**31), -2, -1, 0, 1, 2, 20, 21, 22, 2**31 - 1]


def lying_records() -> Iterator[tuple[str, int, bytes]]:
    """(field, what it says, record): one record in which one length or count is replaced, while the length of the
    record itself is that of its bytes, unless it is the one that lies."""
    parts = {
        "key": (3, b"key"),
        "value": (5, b"value"),
        "headers": (1, b""),
        "header key": (1, b"h"),
        "header value": (2, b"hv"),
    }
    for lying in [*parts, "record"]:
        for says in LENGTHS:
            if lying in parts and says == parts[lying][0]:
                continue
            body = b"\0\0\0"
            for name, (right, content) in parts.items():
                body += varlong_bytes(says if name == lying else right) + content
            yield lying, says, varlong_bytes(says if lying == "record" else len(body)) + body


def test_no_length_and_no_count_is_believed() -> None:
    lies = list(lying_records())
    assert len(lies) == 6 * len(LENGTHS) - 3
    for field, says, record in lies:
        assert records_or_nothing(of_records(record, record_count=1, last_offset_delta=0)) is None, (field, says)


NULL, BELOW_NULL = varlong_bytes(-1), varlong_bytes(-2)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (BELOW_NULL + NULL + b"\0", "length -2"),
        (NULL + BELOW_NULL + b"\0", "length -2"),
        (NULL + NULL + b"\x02\x02h" + BELOW_NULL, "length -2"),
        (NULL + NULL + b"\x02" + BELOW_NULL + NULL, "length -2"),
        (NULL + NULL + b"\x02" + NULL + NULL, "a header without a key"),
    ],
)
def test_lengths_below_null_and_keys_that_are_null_are_refused(fields: bytes, why: str) -> None:
    """Every other byte is as it should be."""
    body = b"\0\0\0" + fields
    with pytest.raises(BatchError, match=why):
        list(decode_records(of_records(varlong_bytes(len(body)) + body, record_count=1, last_offset_delta=0)))


def test_many_headers_are_refused_before_the_first_is_read() -> None:
    record = b"\0\0\0\x01\x01" + varlong_bytes(2**31 - 1)
    batch = of_records(varlong_bytes(len(record)) + record, record_count=1)
    with pytest.raises(BatchError, match="2147483647 headers in 0 bytes"):
        next(decode_records(batch))


def skimmed(offset_deltas: list[int], last_offset_delta: int) -> list[int]:
    records = b""
    for delta in offset_deltas:
        body = b"\0\0" + varlong_bytes(delta) + b"\x01\x01\0"
        records += varlong_bytes(len(body)) + body
    header = BatchHeader(0, 0, -1, 2, 0, 0, last_offset_delta, 0, 0, -1, -1, -1, len(offset_deltas))
    return [offset_delta for _, offset_delta, *_ in skim(records, header)]


@pytest.mark.parametrize("deltas", [[-1], [0, 0], [1, 0], [0, 3], [0, 1, 4], [2**31 - 1], [-(2**31)]])
def test_offsets_that_do_not_rise_within_the_batch_are_refused(deltas: list[int]) -> None:
    with pytest.raises(BatchError, match="has the offset delta"):
        skimmed(deltas, 2)


def test_offsets_may_rise_to_the_last() -> None:
    assert skimmed([0, 1, 2], 2) == [0, 1, 2]
    assert skimmed([2], 2) == [2]


@given(st.binary(max_size=60), st.integers(0, 8), st.sampled_from(range(8)))
def test_no_bytes_end_a_reader_otherwise(records: bytes, count: int, codec: int) -> None:
    try:
        found = list(decode_records(of_records(records, record_count=count, attributes=codec), 0, 1_000_000))
    except BatchError:
        return
    assert len(found) == count
