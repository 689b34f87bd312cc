"""ZooKeeper's log files in windows, against `datatree.zookeeper.log.LogReader`."""

from __future__ import annotations

import random
import struct
from functools import lru_cache
from zlib import adler32

import pytest

from datatree.record import Txn
from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.log import LOG_HEADER, LogEnd, LogReader, encode_record
from tests.pipeline.rigs.log_builder import FIRST, Bytes, random_txns, version2_bytes
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.version2_log import RecordBlock, RecordScan

Found = tuple[list[int], list[tuple[int, int | None, str]]]


@lru_cache
def transactions(seed: int = 1, count: int = 150) -> tuple[Txn, ...]:
    return tuple(random_txns(random.Random(seed), count, native=False))


def offsets(txns: tuple[Txn, ...]) -> list[int]:
    found, at = [], len(LOG_HEADER)
    for txn in txns:
        found.append(at)
        at += len(version2_bytes([txn])) - len(LOG_HEADER)
    return found


def read(data: bytes, window: int = 1 << 20, previous: int | None = FIRST - 1) -> Found:
    """(offsets of the records, damage)."""
    places: list[int] = []
    damage = []
    for found in RecordScan(Bytes(data), len(data), previous, window_bytes=window):
        if isinstance(found, Damage):
            damage.append((found.offset, found.end, found.kind))
        else:
            places += (found.base + found.at).tolist()
    return places, damage


def expected(data: bytes) -> Found:
    """The expected rows by datatree's reader, which stops at damage and is started again after it."""
    places: list[int] = []
    damage: list[tuple[int, int | None, str]] = []
    at = len(LOG_HEADER)
    while True:
        reader = LogReader([data[at:]], "log.1", at)
        try:
            for offset, intact, payload in reader.payloads():
                if intact and len(payload) >= 32:
                    places.append(offset)
                else:
                    damage.append((offset, offset + len(payload) + 13, "damaged"))
        except ZooKeeperFileError as error:
            following = int(error.reason.rpartition(" ")[2])
            damage.append((error.offset, following, "damaged"))
            at = following
            continue
        if reader.end is LogEnd.TORN:
            damage.append((reader.offset, None, "torn"))
        return places, damage


@pytest.mark.parametrize("window", [1, 100, 3000, 1 << 20])
@pytest.mark.parametrize("padding", [0, 3, 12, 5000])
def test_all_records_are_found_in_any_window(window: int, padding: int) -> None:
    txns = transactions()
    assert read(version2_bytes(txns, padding), window) == (offsets(txns), [])


def test_the_end_of_what_is_readable_is_told() -> None:
    data = version2_bytes(transactions())
    found = RecordScan(Bytes(data + bytes(9000)), len(data) + 9000, FIRST - 1, window_bytes=777)
    blocks = [one for one in found if isinstance(one, RecordBlock)]
    assert (found.stop, found.last) == (len(data), transactions()[-1].zxid)
    assert [zxid for block in blocks for zxid in block.zxid.tolist()] == [txn.zxid for txn in transactions()]
    assert all(block.last is block.zxid for block in blocks)


@pytest.mark.parametrize("cut", [5, 11, 12, 40])
def test_a_cut_record_is_torn_and_read_on_from_there_later(cut: int) -> None:
    txns = transactions()
    whole, places = version2_bytes(txns), offsets(txns)
    data = whole[: places[-1] + cut]
    assert read(data + bytes(300)) == (places[:-1], [(places[-1], None, "torn")])
    first = RecordScan(Bytes(data), len(data), FIRST - 1)
    assert len(list(first)) == 2
    later = RecordScan(Bytes(whole), len(whole), first.last, first.stop)
    (block,) = later
    assert isinstance(block, RecordBlock)
    assert (block.base + block.at).tolist() == places[-1:]


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_what_zookeepers_rules_say(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(version2_bytes(transactions(seed % 5), rng.choice((0, 200))))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(LOG_HEADER), len(data))
        match rng.randrange(3):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                size = min(rng.choice((1, 30, 512)), len(data) - at)
                data[at : at + size] = bytes(size)
            case 2:
                del data[at:]
    broken = bytes(data)
    places, damage = expected(broken)
    for window in (50, 1111, 1 << 20):
        found, told = read(broken, window)
        assert found == places
        assert [one for one in told if one[2] != "gap"] == damage


def test_every_missing_record_is_a_gap() -> None:
    txns = transactions()
    left = (*txns[:10], *txns[11:40], *txns[43:])
    places, damage = read(version2_bytes(left), 900)
    assert places == offsets(left)
    assert damage == [(offsets(left)[at], offsets(left)[at], "gap") for at in (10, 39)]


def test_a_record_that_stands_in_the_wrong_place_is_not_shown() -> None:
    txns = transactions()
    moved = (*txns[:10], txns[20], *txns[10:20], *txns[21:])
    places, damage = read(version2_bytes(moved))
    shown = [place for place, txn in zip(offsets(moved), moved, strict=True) if txn not in txns[10:20]]
    assert places == shown
    at = offsets(moved)
    assert damage == [(at[10], at[10], "gap"), (at[11], at[21], "damaged")]


def test_a_new_epoch_begins_with_its_first_transaction() -> None:
    second = tuple(random_txns(random.Random(2), 5, (2 << 32) + 1, native=False))
    assert read(version2_bytes((*transactions(), *second)))[1] == []
    assert [kind for _, _, kind in read(version2_bytes((*transactions(), *second[1:])))[1]] == ["gap"]


@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 30) + 1, (1 << 31) - 1])
def test_an_absurd_length_asks_for_no_memory(length: int) -> None:
    txns = transactions()
    data = bytearray(version2_bytes(txns))
    at = offsets(txns)[50]
    data[at + 8 : at + 12] = struct.pack(">i", length)
    source = Bytes(bytes(data))
    found = RecordScan(source, len(data), FIRST - 1, window_bytes=2000)
    damage = [one for one in found if isinstance(one, Damage) and one.kind != "gap"]
    assert [(one.offset, one.end) for one in damage] == [(at, offsets(txns)[51])]
    assert source.largest <= 4000


def test_a_checksum_of_more_than_32_bits_is_wrong() -> None:
    txns = transactions()
    data = bytearray(version2_bytes(txns))
    at = offsets(txns)[7]
    data[at + 3] = 1
    places, damage = read(bytes(data))
    assert at not in places
    assert (at, offsets(txns)[8], "damaged") in damage


def test_a_payload_without_a_header_is_damage() -> None:
    payload = b"short"
    record = struct.pack(">qi", adler32(payload), len(payload)) + payload + b"B"
    txns = transactions()
    places, damage = read(version2_bytes(txns) + record)
    assert places == offsets(txns)
    end = len(version2_bytes(txns))
    assert damage == [(end, end + len(record), "damaged")]


def test_memory_is_a_window_or_the_largest_record() -> None:
    txns = list(transactions())
    txns[20] = txns[20]._replace(type=5, number=1, path=b"/large", data=bytes(100_000), rest=None)
    data = version2_bytes(txns)
    source = Bytes(data)
    found = RecordScan(source, len(data), FIRST - 1, window_bytes=5000)
    assert sum(len(one) for one in found if isinstance(one, RecordBlock)) == len(txns)
    assert source.largest <= len(encode_record(txns[20], 1))


def test_what_looks_like_a_record_after_a_torn_one_is_none() -> None:
    txns = transactions()
    places = offsets(txns)
    data = version2_bytes(txns)[: places[-1] + 40] + struct.pack(">qi", 12345, 40) + b"x" * 40 + b"B"
    assert read(data) == expected(data) == (places[:-1], [(places[-1], None, "torn")])
