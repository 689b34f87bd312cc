"""The markers that end transactions."""

from __future__ import annotations

import struct

import pytest

from tests.partition.records.some_records import NOW_MS
from tests.partition.records.vectors import COMMIT_MARKER
from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import BatchError, Codec, check_crc, read_header, sealed, walk
from zab.partition.records.builder import BatchBuilder
from zab.partition.records.control import ControlType, EndMarker, decode_marker, encode_marker


def test_the_published_marker_is_read_and_written() -> None:
    marker = EndMarker(ControlType.COMMIT, 3)
    assert decode_marker(COMMIT_MARKER) == marker
    written = encode_marker(marker, offset=5, leader_epoch=2, producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS)
    assert written == COMMIT_MARKER


def test_an_abort_is_another_marker() -> None:
    marker = EndMarker(ControlType.ABORT, 2**31 - 1)
    batch = encode_marker(
        marker, offset=2**40, leader_epoch=9, producer_id=2**50, producer_epoch=2**15 - 1, timestamp_ms=NOW_MS
    )
    ((position, header),) = walk(batch)
    check_crc(batch, position, header)
    assert header.is_control
    assert header.is_transactional
    assert header.codec is Codec.NONE
    assert (header.base_offset, header.last_offset, header.base_sequence) == (2**40, 2**40, -1)
    assert (header.producer_id, header.producer_epoch) == (2**50, 2**15 - 1)
    assert decode_marker(COMMIT_MARKER + batch, len(COMMIT_MARKER)) == marker


def control(key: bytes | None, value: bytes | None, count: int = 1) -> bytes:
    builder = BatchBuilder(producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    for _ in range(count):
        builder.append(key, value, NOW_MS)
    return builder.build()


def test_later_versions_may_be_longer() -> None:
    batch = control(struct.pack(">hh", 1, 0) + b"more", struct.pack(">hi", 1, 4) + b"more")
    assert decode_marker(batch) == EndMarker(ControlType.ABORT, 4)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 99, -1])
def test_control_records_of_others_are_no_markers(number: int) -> None:
    assert decode_marker(control(struct.pack(">hh", 0, number), b"")) is None


def test_a_marker_that_compaction_emptied_is_none() -> None:
    header = read_header(COMMIT_MARKER)
    header.record_count = 0
    assert decode_marker(sealed(header, b"")) is None


KEY, VALUE = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (control(None, VALUE), "key None"),
        (control(KEY[:3], VALUE), "key"),
        (control(struct.pack(">hh", -1, 1), VALUE), "version -1 of a control record"),
        (control(KEY, None), "value None"),
        (control(KEY, VALUE[:5]), "value"),
        (control(KEY, struct.pack(">hi", -1, 3)), "version -1 of an end marker"),
        (control(KEY, VALUE, count=2), "2 records in a control batch"),
    ],
)
def test_a_control_batch_of_another_form_is_damaged(batch: bytes, why: str) -> None:
    with pytest.raises(BatchError, match=why) as caught:
        decode_marker(batch)
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_data_has_no_marker() -> None:
    with pytest.raises(AssertionError):
        decode_marker(_data())


def _data() -> bytes:
    builder = BatchBuilder()
    builder.append(KEY, VALUE, NOW_MS)
    return builder.build()
