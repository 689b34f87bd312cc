"""What the leader checks on the batches that a producer sends for one partition, in Kafka's order.

The batches of one partition are accepted or refused together, so nothing may be appended before all checks are done:

    1  every batch is whole                            CORRUPT_MESSAGE
       it has format 2                                 UNSUPPORTED_FOR_MESSAGE_FORMAT for the formats 0 and 1
       it has the checksum that it says                CORRUPT_MESSAGE
       it is at most max.message.bytes long            MESSAGE_TOO_LARGE
       its base_offset is 0                            INVALID_RECORD
    2  there is a batch; one only, if it is compressed INVALID_RECORD
       it has records, as many as offsets              INVALID_RECORD
       it is not a control batch                       INVALID_RECORD
       an idempotent producer numbers it               INVALID_RECORD
       only an idempotent producer has transactions    INVALID_RECORD
    3  its codec is known, and known to this Produce   UNSUPPORTED_COMPRESSION_TYPE
    4  its timestamps are within the limits            INVALID_TIMESTAMP
    5  its records, where they are read at all         INVALID_RECORD, INVALID_TIMESTAMP, CORRUPT_MESSAGE

`record.validation` says whether step 5 is done. With `header`, the default, the leader believes max_timestamp and the
number of records of a batch whose checksum is correct, because reading the 148 records of a batch of 16 KiB takes some
160 µs and the steps before 5 µs. What a producer can then do by lying: break time look-ups in its own topic, and make
its consumers fail. It cannot break offsets. The records of a compacted topic are always read: each needs a key.

With `full`, every record is read; offset deltas that are not 0, 1, 2 … are refused, where Kafka rewrites the batch. A
wrong max_timestamp is not refused: the caller corrects it (`Checked.max_timestamps`).

Sequence numbers and epochs of producers are checked against the log's state, after this.
"""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    BatchError,
    BatchHeader,
    Codec,
    Data,
    TimestampType,
    check_crc,
    walk,
)
from zab.partition.records.codecs import output_limit
from zab.partition.records.record import RECORD_BYTES_MIN, records_of, skim

__all__ = ["Checked", "ProduceRules", "RecordsError", "check_produced"]

ZSTD_VERSION_MIN: Final = 7
"""The version of Produce with which a client says that it knows zstd (KIP-110)."""
NO_TIMESTAMP: Final = -1
RECORD_ERRORS_MAX: Final = 100
"""A batch can have millions of records without a key: an answer names so many."""


@frozen
class ProduceRules:
    """What the settings of a topic say about its batches.

    `max_message_bytes` is max.message.bytes; `validates_records` is record.validation = full; `has_append_time` is
    message.timestamp.type = LogAppendTime; the limits are message.timestamp.before.max.ms and .after.max.ms.
    """

    max_message_bytes: int = 1_048_588
    is_compacted: bool = False
    validates_records: bool = False
    has_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000


@frozen
class Checked:
    """Batches that may be appended: where each begins, and its header.

    `max_timestamps`: (position, right value) of those whose max_timestamp is not that of their records; the caller
    corrects them with `stamp_max_timestamp` before it appends. With LogAppendTime there are none.
    """

    batches: list[tuple[int, BatchHeader]]
    max_timestamps: list[tuple[int, int]]


class RecordsError(BatchError):
    """Some records are not allowed. `record_errors` says which, for an answer: (index in the batch, why)."""

    def __init__(self, error: ErrorCode, text: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(error, text)
        self.record_errors = record_errors


def check_produced(data: Data, rules: ProduceRules, produce_version: int, now_ms: int) -> Checked:
    """The batches in the records field of one partition, if all of them may be appended.

    `produce_version` is that of the request, `now_ms` the wall clock since 1970. Raises BatchError, whose `error` and
    text are the answer; RecordsError also says which records are not allowed.
    """
    batches = list(_whole(data, rules))
    if not batches:
        raise _invalid("there is no batch")
    if len(batches) > 1 and batches[0][1].attributes & CODEC_MASK:
        raise _invalid(f"{len(batches)} batches, of which the first is compressed")
    for position, header in batches:
        _check_header(position, header)
        _check_codec(position, header, produce_version)
        if not rules.has_append_time:
            _check_timestamps(position, header, rules, now_ms)
    if not (rules.validates_records or rules.is_compacted):
        return Checked(batches, [])
    found = [(position, header, _check_records(data, position, header, rules, now_ms)) for position, header in batches]
    if rules.has_append_time:
        return Checked(batches, [])
    return Checked(batches, [(position, right) for position, header, right in found if right != header.max_timestamp])


def _whole(data: Data, rules: ProduceRules) -> Iterator[tuple[int, BatchHeader]]:
    """Step 1, for all batches before step 2 of the first."""
    for position, header in walk(data):
        check_crc(data, position, header)
        if header.size_bytes > rules.max_message_bytes:
            text = (
                f"batch of {header.size_bytes} bytes at byte {position}: max.message.bytes is {rules.max_message_bytes}"
            )
            raise BatchError(ErrorCode.MESSAGE_TOO_LARGE, text)
        if header.base_offset != 0:
            raise _invalid(f"batch at byte {position} has the base offset {header.base_offset} instead of 0")
        yield position, header


def _check_header(position: int, header: BatchHeader) -> None:
    count = header.record_count
    if header.last_offset_delta < 0 or count <= 0 or count != header.last_offset_delta + 1:
        raise _invalid(f"batch at byte {position} has {count} records and the last offset {header.last_offset_delta}")
    if header.is_control:
        raise _invalid(f"batch at byte {position} is a control batch, which only brokers write")
    if header.has_producer_id:
        if header.base_sequence < 0:
            raise _invalid(f"batch at byte {position} of producer {header.producer_id} has no sequence number")
    elif header.is_transactional:
        raise _invalid(f"transactional batch at byte {position} without a producer id")


def _check_codec(position: int, header: BatchHeader, produce_version: int) -> None:
    codec = header.attributes & CODEC_MASK
    if codec == Codec.NONE:
        size = header.size_bytes - HEADER_BYTES
        if header.record_count * RECORD_BYTES_MIN > size:
            raise _invalid(f"batch at byte {position} has {header.record_count} records in {size} bytes")
    elif header.codec is Codec.ZSTD and produce_version < ZSTD_VERSION_MIN:
        text = f"zstd needs Produce {ZSTD_VERSION_MIN} or later, this is {produce_version}"
        raise BatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)


def _check_timestamps(position: int, header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    """The header says when the first record was made, and the latest."""
    if header.timestamp_type is TimestampType.LOG_APPEND:
        text = f"batch at byte {position} says LogAppendTime, which only a broker sets"
        raise BatchError(ErrorCode.INVALID_TIMESTAMP, text)
    for timestamp_ms in (header.base_timestamp, header.max_timestamp):
        if not _is_within(timestamp_ms, rules, now_ms):
            text = f"batch at byte {position} has the timestamp {timestamp_ms}, now is {now_ms}"
            raise BatchError(ErrorCode.INVALID_TIMESTAMP, text)


def _is_within(timestamp_ms: int, rules: ProduceRules, now_ms: int) -> bool:
    age_ms = now_ms - timestamp_ms
    is_within = -rules.timestamp_after_max_ms <= age_ms <= rules.timestamp_before_max_ms
    return is_within or timestamp_ms == NO_TIMESTAMP


def _check_records(data: Data, position: int, header: BatchHeader, rules: ProduceRules, now_ms: int) -> int:
    """Step 5; returns the latest timestamp of the records.

    There are as many records as offsets, so that offset deltas which rise to the last one are 0, 1, 2 …
    """
    latest = NO_TIMESTAMP
    keyless: list[tuple[int, str]] = []
    untimely: list[tuple[int, str]] = []
    try:
        records = records_of(data, position, header, output_limit(rules.max_message_bytes))
        for index, (timestamp_delta, _, key_start, *_) in enumerate(skim(records, header)):
            timestamp_ms = header.base_timestamp + timestamp_delta
            latest = max(latest, timestamp_ms)
            if rules.is_compacted and key_start < 0 and len(keyless) < RECORD_ERRORS_MAX:
                keyless.append((index, "a record of a compacted topic needs a key"))
            is_timely = rules.has_append_time or _is_within(timestamp_ms, rules, now_ms)
            if not is_timely and len(untimely) < RECORD_ERRORS_MAX:
                untimely.append((index, f"timestamp {timestamp_ms}, now is {now_ms}"))
    except BatchError as error:
        # The checksum is correct, so its producer made it like this: it must not send it again.
        if error.error is ErrorCode.CORRUPT_MESSAGE:
            raise _invalid(f"batch at byte {position}: {error}") from None
        raise
    if keyless:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{keyless[0][1]}: record {keyless[0][0]} has none", keyless)
    if untimely:
        text = f"record {untimely[0][0]} has the {untimely[0][1]}"
        raise RecordsError(ErrorCode.INVALID_TIMESTAMP, text, untimely)
    return latest


def _invalid(text: str) -> BatchError:
    return BatchError(ErrorCode.INVALID_RECORD, text)
