"""Records of many batches at once are those that the broker's own reader finds, one batch after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from zab.partition.records.batch import BatchError, read_header
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Headers, Record, decode_records, records_of, skim
from zab.pipeline.decoding.arrays import Integers
from zab.pipeline.decoding.topic_records import ABREAST_MIN, Records, RecordsDamagedError, decode

ABREAST = ABREAST_MIN + 3


def a_batch(rng: random.Random, count: int, *, has_headers: bool = True) -> bytes:
    def content() -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 5, 63, 64, 300)))

    def headers() -> Headers:
        return tuple((f"h{n}", content()) for n in range(rng.choice((0, 0, 1, 3)))) if has_headers else ()

    offset, records = 0, []
    for _ in range(count):
        records.append(Record(offset, rng.randrange(1 << 42), content(), content(), headers()))
        offset += rng.choice((1, 1, 1, 200))
    return encode_batch(records)


def columns(batches: list[bytes]) -> tuple[bytes, Integers, Integers, Integers, Integers]:
    regions = [records_of(each, 0, read_header(each)) for each in batches]
    ends = np.cumsum([len(each) for each in regions], dtype=np.int64)
    starts = ends - np.array([len(each) for each in regions], np.int64)
    headers = [read_header(each) for each in batches]
    counts = np.array([header.record_count for header in headers], np.int64)
    return b"".join(regions), starts, ends, counts, np.array([one.last_offset_delta for one in headers], np.int64)


def as_records(data: bytes, batches: list[bytes], found: Records) -> list[Record]:
    result = []
    bounds = np.concatenate(([0], np.cumsum(found.header_counts)))
    for row in range(len(found.batch)):
        header = read_header(batches[found.batch[row]])
        values = []
        for (starts, ends), has in ((found.key, found.has_key), (found.value, found.has_value)):
            values.append(data[starts[row] : ends[row]] if has[row] else None)
        headers = tuple(
            (
                data[found.header_name[0][at] : found.header_name[1][at]].decode(),
                data[found.header_value[0][at] : found.header_value[1][at]] if found.header_has_value[at] else None,
            )
            for at in range(bounds[row], bounds[row + 1])
        )
        offset = header.base_offset + int(found.offset_delta[row])
        result.append(Record(offset, header.base_timestamp + int(found.timestamp_delta[row]), *values, headers))
    return result


@pytest.mark.parametrize("has_headers", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, ABREAST, 80])
def test_records_of_many_batches_are_those_of_each(count: int, has_headers: bool) -> None:
    rng = random.Random(count)
    batches = [a_batch(rng, rng.randrange(1, 60), has_headers=has_headers) for _ in range(count)]
    data, *bounds = columns(batches)
    found = as_records(data, batches, decode(data, *bounds))
    assert found == [record for each in batches for record in decode_records(each)]


@pytest.mark.parametrize("count", [1, ABREAST])
def test_the_first_batch_that_cannot_be_read_is_the_one_that_the_broker_refuses(count: int) -> None:
    rng = random.Random(7)
    refused = 0
    for _ in range(300):
        batches = [a_batch(rng, rng.randrange(1, 5)) for _ in range(count)]
        data, starts, ends, counts, deltas = columns(batches)
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            counts[rng.randrange(count)] += rng.choice((-1, 1))
        expected = None
        for number, each in enumerate(batches):
            header = read_header(each)
            header.record_count = int(counts[number])
            try:
                list(skim(bytes(changed[starts[number] : ends[number]]), header))
            except BatchError:
                expected = number
                break
        try:
            decode(bytes(changed), starts, ends, counts, deltas)
            actual = None
        except RecordsDamagedError as error:
            actual = error.batch
        assert actual == expected
        refused += expected is not None
    assert refused > 30


@pytest.mark.parametrize("count", [1, ABREAST])
def test_a_number_of_more_bits_is_refused(count: int) -> None:
    """The offset delta of the last record has 33 bits."""
    record = b"\x00\x00" + b"\x80\x80\x80\x80\x20" + b"\x01\x01\x00"
    data = (bytes([2 * len(record)]) + record) * count
    ends = np.arange(1, count + 1, dtype=np.int64) * (len(record) + 1)
    ones = np.ones(count, np.int64)
    with pytest.raises(RecordsDamagedError):
        decode(data, ends - len(record) - 1, ends, ones, ones << 40)


@pytest.mark.parametrize("count", [1, ABREAST])
def test_a_header_without_a_name_is_refused(count: int) -> None:
    record = b"\x00\x00\x00\x01\x01\x02" + b"\x01" + b"\x00"
    data = (bytes([2 * len(record)]) + record) * count
    ends = np.arange(1, count + 1, dtype=np.int64) * (len(record) + 1)
    ones = np.ones(count, np.int64)
    with pytest.raises(RecordsDamagedError):
        decode(data, ends - len(record) - 1, ends, ones, ones)
    decode(data.replace(b"\x02\x01\x00", b"\x02\x00\x01"), ends - len(record) - 1, ends, ones, ones)
