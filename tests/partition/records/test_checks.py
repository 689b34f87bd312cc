"""What a leader refuses of a produce: each rule, its error code, and the order of the rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
    stamp_max_timestamp,
)
from zab.partition.records.builder import encode_batch
from zab.partition.records.checks import RECORD_ERRORS_MAX, Checked, ProduceRules, RecordsError, check_produced
from zab.partition.records.record import Record
from zab.partition.records.varints import varlong_bytes

HOUR_MS = 3_600_000
FULL = ProduceRules(validates_records=True)
COMPACTED = ProduceRules(is_compacted=True)


def check(data: bytes, rules: ProduceRules | None = None, version: int = 9, now_ms: int = NOW_MS) -> Checked:
    return check_produced(memoryview(data), rules or ProduceRules(), version, now_ms)


def refusal(data: bytes, rules: ProduceRules | None = None, version: int = 9, now_ms: int = NOW_MS) -> BatchError:
    with pytest.raises(BatchError) as caught:
        check(data, rules, version, now_ms)
    return caught.value


def with_header(change: Callable[[BatchHeader], object], data: bytes = ONE_RECORD) -> bytes:
    """The batch with another header, and the checksum of that."""
    header = read_header(data)
    change(header)
    return sealed(header, data[HEADER_BYTES:])


def setting(**fields: int) -> bytes:
    return with_header(lambda header: [setattr(header, name, value) for name, value in fields.items()])


@pytest.mark.parametrize("rules", [ProduceRules(), FULL, COMPACTED])
@pytest.mark.parametrize("codec", Codec)
def test_good_batches_are_accepted(codec: Codec, rules: ProduceRules) -> None:
    records = [Record(index, NOW_MS + index, b"key", b"value") for index in range(10)]
    data = encode_batch(records, codec, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert check(data, rules) == Checked([(0, read_header(data))], [])


def test_several_batches_are_accepted_if_the_first_is_not_compressed() -> None:
    compressed = encode_batch(TWO, Codec.GZIP)
    found = check(ONE_RECORD + compressed + ONE_RECORD)
    assert [position for position, _ in found.batches] == [0, 79, 79 + len(compressed)]
    refused = refusal(compressed + ONE_RECORD)
    assert refused.error is ErrorCode.INVALID_RECORD
    assert "2 batches, of which the first is compressed" in str(refused)


def test_no_batch_at_all_is_refused() -> None:
    assert refusal(b"").error is ErrorCode.INVALID_RECORD


def test_the_size_of_a_batch_has_a_limit_which_is_inclusive() -> None:
    assert check(ONE_RECORD, ProduceRules(max_message_bytes=79))
    refused = refusal(ONE_RECORD, ProduceRules(max_message_bytes=78))
    assert refused.error is ErrorCode.MESSAGE_TOO_LARGE
    assert str(refused) == "batch of 79 bytes at byte 0: max.message.bytes is 78"


CODES = {
    "cut": (ONE_RECORD[:-1], ErrorCode.CORRUPT_MESSAGE, "of which 78 are there"),
    "format 1": (ONE_RECORD[:16] + b"\1" + ONE_RECORD[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "format 1"),
    "checksum": (ONE_RECORD[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE, "CRC-32C"),
    "base offset": (b"\0" * 7 + b"\1" + ONE_RECORD[8:], ErrorCode.INVALID_RECORD, "base offset 1 instead of 0"),
    "last offset": (setting(last_offset_delta=-1, record_count=0), ErrorCode.INVALID_RECORD, "the last offset -1"),
    "no records": (setting(record_count=0), ErrorCode.INVALID_RECORD, "0 records"),
    "fewer": (
        setting(record_count=1, last_offset_delta=1),
        ErrorCode.INVALID_RECORD,
        "1 records and the last offset 1",
    ),
    "more": (setting(record_count=2), ErrorCode.INVALID_RECORD, "2 records and the last offset 0"),
    "negative": (setting(record_count=-1, last_offset_delta=-2), ErrorCode.INVALID_RECORD, "-1 records"),
    "control": (setting(attributes=0x20), ErrorCode.INVALID_RECORD, "control batch"),
    "no sequence": (setting(producer_id=0), ErrorCode.INVALID_RECORD, "producer 0 has no sequence number"),
    "no producer": (setting(attributes=0x10), ErrorCode.INVALID_RECORD, "without a producer id"),
    "codec 5": (setting(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "unknown codec 5"),
    "codec 7": (setting(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "unknown codec 7"),
    "too many": (setting(record_count=3, last_offset_delta=2), ErrorCode.INVALID_RECORD, "3 records in 18 bytes"),
    "append time": (setting(attributes=8), ErrorCode.INVALID_TIMESTAMP, "says LogAppendTime"),
    "late": (setting(max_timestamp=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP, "has the timestamp"),
}


@pytest.mark.parametrize("name", CODES)
def test_what_is_refused_and_with_which_code(name: str) -> None:
    data, code, why = CODES[name]
    for batches in (data, ONE_RECORD + data):
        refused = refusal(batches)
        assert refused.error is code
        assert why in str(refused)


def test_a_transaction_needs_a_producer_and_a_sequence_needs_none() -> None:
    assert check(setting(attributes=0x10, producer_id=0, producer_epoch=0, base_sequence=0))
    assert check(setting(base_sequence=4))


def test_rules_of_all_batches_come_in_steps() -> None:
    """A damaged second batch is found before the control bit of the first, that before an unknown codec, and that
    before a timestamp."""
    late = {"max_timestamp": NOW_MS + 2 * HOUR_MS}
    data = setting(attributes=0x25, **late)
    assert refusal(data + ONE_RECORD[:-1] + b"x").error is ErrorCode.CORRUPT_MESSAGE
    assert refusal(data).error is ErrorCode.INVALID_RECORD
    assert refusal(setting(attributes=5, **late)).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(setting(**late)).error is ErrorCode.INVALID_TIMESTAMP


def test_the_first_step_has_an_order() -> None:
    too_large = ProduceRules(max_message_bytes=70)
    moved = b"\1" + ONE_RECORD[1:]
    assert refusal(moved[:-1] + b"x", too_large).error is ErrorCode.CORRUPT_MESSAGE
    assert refusal(moved, too_large).error is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(moved).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("version", "is_accepted"), [(3, False), (6, False), (7, True), (10, True)])
def test_zstd_needs_a_produce_that_knows_it(version: int, is_accepted: bool) -> None:
    data = encode_batch(TWO, Codec.ZSTD)
    if is_accepted:
        assert check(data, version=version)
    else:
        assert refusal(data, version=version).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(encode_batch(TWO, Codec.LZ4), version=version)


@pytest.mark.parametrize("rules", [ProduceRules(), FULL])
def test_timestamps_have_limits_which_are_inclusive(rules: ProduceRules) -> None:
    assert check(ONE_RECORD, rules, now_ms=NOW_MS - HOUR_MS)
    assert refusal(ONE_RECORD, rules, now_ms=NOW_MS - HOUR_MS - 1).error is ErrorCode.INVALID_TIMESTAMP
    old = ProduceRules(timestamp_before_max_ms=500, validates_records=rules.validates_records)
    assert check(ONE_RECORD, old, now_ms=NOW_MS + 500)
    assert refusal(ONE_RECORD, old, now_ms=NOW_MS + 501).error is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("rules", [ProduceRules(timestamp_before_max_ms=5), FULL])
def test_no_timestamp_is_allowed(rules: ProduceRules) -> None:
    data = encode_batch([Record(0, -1, b"k", b"v")])
    assert check(data, rules).max_timestamps == []


def test_a_topic_with_append_time_looks_at_no_timestamp() -> None:
    for validates in (False, True):
        rules = ProduceRules(has_append_time=True, timestamp_before_max_ms=1, validates_records=validates)
        assert check(ONE_RECORD, rules, now_ms=NOW_MS + 10 * HOUR_MS)
        assert check(setting(attributes=8), rules)
        assert check(setting(max_timestamp=5), rules).max_timestamps == []


# ---- The records themselves


def record(offset_delta: int = 0, key: bytes = b"\x02k", timestamp_delta: int = 0) -> bytes:
    body = b"\0" + varlong_bytes(timestamp_delta) + varlong_bytes(offset_delta) + key + b"\x01\0"
    return varlong_bytes(len(body)) + body


def batch(*records: bytes) -> bytes:
    header = read_header(ONE_RECORD)
    header.record_count, header.last_offset_delta = len(records), len(records) - 1
    return sealed(header, b"".join(records))


LIES = {
    "offset that is missing": batch(record(0), record(2), record(2)),
    "offset that comes twice": batch(record(0), record(0)),
    "bytes that are no records": batch(b"\xff" * 14, b""),
}


@pytest.mark.parametrize("name", LIES)
def test_records_that_are_not_as_the_header_says_are_believed_unless_they_are_read(name: str) -> None:
    assert check(LIES[name])
    refused = refusal(LIES[name], FULL)
    assert refused.error is ErrorCode.INVALID_RECORD, "a producer must not send it again"
    assert refusal(LIES[name], COMPACTED).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_damaged_compression_with_a_right_checksum_is_refused_for_good(codec: Codec) -> None:
    header = read_header(encode_batch(TWO, codec))
    data = sealed(header, b"\0\1\2\3\4\5\6\7")
    assert check(data)
    assert refusal(data, FULL).error is ErrorCode.INVALID_RECORD


@pytest.mark.slow
def test_compressed_records_that_become_too_long_are_refused() -> None:
    data = encode_batch([Record(0, NOW_MS, b"k", bytes(65 << 20))], Codec.ZSTD)
    assert len(data) < 10_000
    assert check(data)
    assert refusal(data, FULL).error is ErrorCode.MESSAGE_TOO_LARGE
    assert check(data, ProduceRules(validates_records=True, max_message_bytes=7 << 20))


def test_records_without_a_key_are_named_in_a_compacted_topic() -> None:
    data = encode_batch([Record(i, NOW_MS, b"" if i % 3 else None, b"v") for i in range(7)])
    assert check(data)
    assert check(data, FULL)
    refused = refusal(data, COMPACTED)
    assert isinstance(refused, RecordsError)
    assert refused.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [0, 3, 6]
    assert str(refused) == "a record of a compacted topic needs a key: record 0 has none"


def test_the_records_that_are_named_have_a_limit() -> None:
    data = encode_batch([Record(i, NOW_MS, None, b"v") for i in range(RECORD_ERRORS_MAX + 5)])
    refused = refusal(data, COMPACTED)
    assert isinstance(refused, RecordsError)
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


def test_a_timestamp_that_only_a_record_has_is_found_when_it_is_read() -> None:
    late = HOUR_MS + 1
    data = batch(record(0), record(1, timestamp_delta=late), record(2), record(3, timestamp_delta=-NOW_MS - 1))
    assert check(data)
    refused = refusal(data, FULL)
    assert isinstance(refused, RecordsError)
    assert refused.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]


def test_a_wrong_max_timestamp_is_for_the_caller_to_correct() -> None:
    good = encode_batch(MIXED[:3])
    wrong = with_header(lambda header: setattr(header, "max_timestamp", NOW_MS + 1), good)
    assert check(wrong).max_timestamps == []
    assert check(good, FULL).max_timestamps == []
    found = check(ONE_RECORD + wrong, FULL)
    assert found.max_timestamps == [(79, NOW_MS + 100_000)]
    buffer = bytearray(ONE_RECORD + wrong)
    ((position, right),) = found.max_timestamps
    header = stamp_max_timestamp(buffer, position, right)
    check_crc(buffer, position, header)
    assert buffer == ONE_RECORD + good
