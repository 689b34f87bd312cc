"""The three indexes: their files byte by byte, look-ups against a scan, and files that are damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.log.offset_index import RELATIVE_MAX, IndexDamagedError, OffsetIndex
from zab.partition.log.time_index import TimeIndex, last_entry
from zab.partition.log.transaction_index import (
    AbortedTransaction,
    overlapping,
    pack_transactions,
    parse_transactions,
)

# By hand, from Kafka's formats.
OFFSETS = bytes.fromhex("00000003 000010000000012c 00003000")
TIMES = bytes.fromhex("0000018bcfe56800 000000030000018bcfe56bff 0000012c")
TRANSACTIONS = bytes.fromhex("0000 0000000000000007 000000000000000a 0000000000000014 0000000000000005")


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in entries:
        index.add(offset, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp, offset in entries:
        index.add(timestamp, offset)
    return index


def test_offset_index_file():
    index = offset_index((3, 0x1000), (300, 0x3000))
    assert index.pack() == OFFSETS
    assert index.size_bytes == len(OFFSETS) == 16
    assert OffsetIndex.parse(OFFSETS, 0x3001).entries == [(3, 0x1000), (300, 0x3000)]
    assert OffsetIndex.parse(OFFSETS + bytes(80), 0x3001).entries == index.entries, "Kafka's are allocated ahead"
    assert OffsetIndex.parse(bytes(80), 0).entries == []
    assert len(OffsetIndex.parse(b"", 0)) == 0


def test_time_index_file():
    index = time_index((1_700_000_000_000, 3), (1_700_000_001_023, 300))
    assert index.pack() == TIMES
    assert TimeIndex.parse(TIMES).entries == index.entries == [(1_700_000_000_000, 3), (1_700_000_001_023, 300)]
    assert TimeIndex.parse(TIMES + bytes(120)).entries == index.entries
    assert last_entry(TIMES) == (1_700_000_001_023, 300)
    assert last_entry(b"") is None


def test_transaction_index_file():
    aborted = AbortedTransaction(7, 10, 20, 5)
    assert pack_transactions([aborted]) == TRANSACTIONS
    assert parse_transactions(TRANSACTIONS) == [aborted]


@pytest.mark.parametrize(
    ("data", "log_bytes", "why"),
    [
        (OFFSETS[:-1], 1 << 20, "whole entries"),
        (OFFSETS, 0x3000, "outside"),
        (OFFSETS[8:] + OFFSETS[:8], 1 << 20, "offsets do not ascend"),
        (OFFSETS[:8] + bytes.fromhex("0000012c 00001000"), 1 << 20, "positions do not ascend"),
        (bytes.fromhex("ffffffff 00000001"), 1 << 20, "outside"),
    ],
)
def test_damaged_offset_index(data, log_bytes, why):
    with pytest.raises(IndexDamagedError, match=why):
        OffsetIndex.parse(data, log_bytes)


@pytest.mark.parametrize("data", [TIMES[:-1], TIMES[12:] + TIMES[:12], TIMES[:8] + b"\xff\xff\xff\xff"])
def test_damaged_time_index(data):
    with pytest.raises(IndexDamagedError):
        TimeIndex.parse(data)


@pytest.mark.parametrize(
    "data",
    [
        TRANSACTIONS[:-1],
        b"\0\1" + TRANSACTIONS[2:],
        TRANSACTIONS * 2,
        pack_transactions([AbortedTransaction(7, 21, 20, 5)]),
    ],
)
def test_damaged_transaction_index(data):
    with pytest.raises(IndexDamagedError):
        parse_transactions(data)


ascending = st.sets(st.integers(1, 60)).map(sorted)


@given(ascending, ascending, st.integers(0, 70), st.integers(0, 70))
def test_offset_index_is_a_scan(offsets, positions, offset, position):
    entries = list(zip(offsets, positions, strict=False))
    index = OffsetIndex.parse(offset_index(*entries).pack(), 100)
    assert index.entries == entries
    assert index.floor(offset) == max((at for end, at in entries if end <= offset), default=0)
    assert index.floor_position(position) == max((at for _, at in entries if at <= position), default=0)
    index.truncate(position)
    assert index.entries == [entry for entry in entries if entry[1] < position]


@given(st.lists(st.integers(1, 60)), st.integers(0, 70), st.integers(0, 70))
def test_time_index_is_a_scan(timestamps, timestamp, offset):
    index = TimeIndex.parse(time_index(*[(each << 33, number) for number, each in enumerate(timestamps)]).pack())
    entries = []
    for number, each in enumerate(timestamps):
        if each << 33 > max((entry[0] for entry in entries), default=-1):
            entries.append((each << 33, number))
    assert index.entries == entries
    assert index.floor(timestamp << 33) == max((at for time, at in entries if time <= timestamp << 33), default=-1)
    assert index.last_before(offset) == max((entry for entry in entries if entry[1] < offset), default=None)
    index.truncate(offset)
    assert index.entries == [entry for entry in entries if entry[1] < offset]


def test_largest_relative_offset_fits():
    index = offset_index((RELATIVE_MAX, 1))
    assert OffsetIndex.parse(index.pack(), 10).entries == [(RELATIVE_MAX, 1)]


def test_aborted_transactions_of_a_range_are_searched_until_nothing_older_is_open():
    first = [AbortedTransaction(1, 0, 10, 0), AbortedTransaction(2, 5, 12, 0)]
    second = [AbortedTransaction(3, 15, 20, 21)]
    third = [AbortedTransaction(4, 2, 40, 41)]

    def ids(start: int, end: int) -> list[int]:
        return [each.producer_id for each in overlapping([first, second, third], start, end)]

    assert ids(0, 5) == [1]
    assert ids(0, 15) == [1, 2]
    assert ids(11, 16) == [2, 3]
    assert ids(13, 21) == [3], "the marker at 20 says that everything before 21 has ended"
    assert ids(0, 22) == [1, 2, 3, 4]
