"""Native log files in windows, by frames and by index: what is found must be what `datatree.log.frame.scan` finds."""

from __future__ import annotations

import random
from functools import lru_cache
from zlib import crc32

import pytest

from datatree.log.batch import HEADER_BYTES, Batch, BatchError, parse
from datatree.log.frame import FRAME_HEADER_BYTES, MAGIC, Frame, pack_frame, scan, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, Index, SegmentHeader
from tests.pipeline.rigs.log_builder import (
    FIRST,
    LINEAGE,
    START,
    Bytes,
    NativeFile,
    cut_anywhere,
    in_batches,
    random_txns,
)
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.native_log import Block, FrameScan, IndexScan, load_index

Found = tuple[list[int], list[tuple[int, int | None, str]]]


@lru_cache
def made(seed: int = 1, count: int = 300, most: int = 7, per_frame: int = 2) -> NativeFile:
    rng = random.Random(seed)
    return NativeFile.build(cut_anywhere(rng, random_txns(rng, count), most), per_frame=per_frame)


def read(found: FrameScan | IndexScan) -> Found:
    """(first zxids of the batches, damage)."""
    firsts: list[int] = []
    damage = []
    for one in found:
        if isinstance(one, Damage):
            damage.append((one.offset, one.end, one.kind))
        else:
            firsts += one.first.tolist()
    return firsts, damage


def by_frames(data: bytes, *, newest: bool = False, window: int = 1 << 20, previous: int | None = 0) -> Found:
    return read(FrameScan(Bytes(data), FIRST, len(data), previous, newest, window_bytes=window))


def expected(data: bytes, *, newest: bool = False) -> Found:
    """The expected rows by datatree's own reader, and a second implementation of the rules for torn and damaged."""
    found = scan(data, FIRST, SEGMENT_HEADER_BYTES)
    batches: list[Batch] = []
    damage: list[tuple[int, int | None, str]] = []
    for part in found.parts:
        if isinstance(part, Frame):
            batches += part.batches
            continue
        # Recovery gives up what is intact in a torn frame, too; a reader shows it, as uncommitted.
        batches += part.kept
        if newest and part.offset >= found.synced:
            damage.append((part.at, None, "torn"))
            break
        at = part.at
        while (length := body_length(data, at, part.end)) is not None:
            # Recovery gives up the rest of the frame; a reader goes on after a body that is damaged.
            end = at + HEADER_BYTES + length
            try:
                batches.append(parse(data[:end], at))
            except BatchError:
                damage.append((at, end, "damaged"))
            at = end
        if at < part.end:
            damage.append((at, part.end, "damaged"))
    return [batch.first for batch in batches], damage


def body_length(data: bytes, at: int, end: int) -> int | None:
    """How long the body of the batch at `at` is, if its header is right and it ends before `end`."""
    head = data[at : min(at + HEADER_BYTES, end)]
    if len(head) < HEADER_BYTES or head[:2] != b"ZB" or crc32(head[:80]) != int.from_bytes(head[80:], "big"):
        return None
    length = int.from_bytes(head[4:8], "big")
    return length if at + HEADER_BYTES + length <= end else None


def without_gaps(found: Found, size: int) -> Found:
    """The end of the file as an end of damage is the same as none."""
    firsts, damage = found
    return firsts, [(offset, None if end == size else end, kind) for offset, end, kind in damage if kind != "gap"]


@pytest.mark.parametrize("window", [200, 1000, 5000, 1 << 20])
def test_all_batches_are_found_in_any_window(window: int) -> None:
    file = made()
    assert by_frames(file.data, window=window) == ([batch.first for batch in file.batches], [])


@pytest.mark.parametrize("window", [300, 1 << 20])
@pytest.mark.parametrize("padding", [0, 5, 28, 700])
def test_zeros_are_preallocated_space(window: int, padding: int) -> None:
    file = made()
    firsts, damage = by_frames(file.data + bytes(padding), window=window, newest=True)
    assert (len(firsts), damage) == (len(file.batches), [])


def test_the_end_of_what_is_readable_is_told() -> None:
    file = made()
    found = FrameScan(Bytes(file.data + bytes(5000)), FIRST, len(file.data) + 5000, 0, True, window_bytes=999)
    for _ in found:
        pass
    assert (found.stop, found.last) == (len(file.data), file.last[0])
    assert found.synced == len(file.data) - FRAME_HEADER_BYTES


def test_a_scan_goes_on_from_where_another_one_stopped() -> None:
    file = made()
    for cut in (100, file.frames[5], file.frames[5] + 10, file.frames[9] + 200):
        first = FrameScan(Bytes(file.data[:cut]), FIRST, cut, 0, True)
        before, _ = read(first)
        assert first.stop in file.frames
        after, damage = read(FrameScan(Bytes(file.data), FIRST, len(file.data), first.last, True, first.stop))
        assert damage == []
        assert sorted({*before, *after}) == [batch.first for batch in file.batches]


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_damage_is_what_recovery_says(seed: int, newest: bool) -> None:
    rng = random.Random(seed)
    file = made(seed % 7, 120, rng.choice((1, 3, 20)), rng.choice((1, 2, 5)))
    data = bytearray(file.data + bytes(rng.choice((0, 100))))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(SEGMENT_HEADER_BYTES, len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                size = rng.choice((1, 30, 512))
                data[at : at + size] = bytes(min(size, len(data) - at))
            case 2:
                data[at : at + 4] = MAGIC[: len(data) - at]
            case 3:
                del data[at:]
    broken = bytes(data)
    right = without_gaps(expected(broken, newest=newest), len(broken))
    for window in (150, 1111, 1 << 20):
        assert without_gaps(by_frames(broken, newest=newest, window=window), len(broken)) == right


def test_every_missing_batch_is_a_gap() -> None:
    file = made()
    batches = [batch for number, batch in enumerate(file.batches) if number not in (10, 30)]
    broken = NativeFile.of(file.header, batches)
    firsts, damage = by_frames(broken.data)
    assert firsts == [batch.first for batch in batches]
    assert [(offset, kind) for offset, _, kind in damage] == [(broken.offsets[10], "gap"), (broken.offsets[29], "gap")]


def test_the_first_batch_has_to_continue_the_file_before() -> None:
    file = made()
    later = NativeFile.of(SegmentHeader(LINEAGE, START, FIRST), file.batches[10:])
    last = file.batches[9].zxid
    assert by_frames(later.data, previous=last)[1] == []
    assert by_frames(later.data, previous=last - 1)[1] == [(later.offsets[0], later.offsets[0], "gap")]
    assert by_frames(later.data, previous=None)[1] == []


def test_a_batch_that_comes_twice_is_shown_once() -> None:
    file = made()
    batches = [*file.batches[:20], *file.batches[15:]]
    firsts, damage = by_frames(NativeFile.of(file.header, batches).data, window=700)
    assert firsts == [batch.first for batch in file.batches]
    assert {kind for _, _, kind in damage} == {"damaged"}


def test_a_stretch_out_of_order_is_told_once() -> None:
    file = made()
    moved = [*file.batches[:10], file.batches[50], *file.batches[10:]]
    broken = NativeFile.of(file.header, moved)
    firsts, damage = by_frames(broken.data)
    assert firsts == [batch.first for batch in (*file.batches[:10], *file.batches[50:])]
    end = broken.offsets[51] + len(file.batches[50].raw)
    assert damage == [(broken.offsets[10], broken.offsets[10], "gap"), (broken.offsets[11], end, "damaged")]


def test_a_count_that_the_body_is_too_short_for_takes_one_batch() -> None:
    file = made(most=1)
    raw = bytearray(file.batches[7].raw)
    raw[12:16] = (0x7FFFFFFF).to_bytes(4, "big")
    raw[80:84] = crc32(raw[:80]).to_bytes(4, "big")
    batches = list(file.batches)
    batches[7] = Batch(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, b"", bytes(raw))
    firsts, damage = by_frames(rewritten(file, batches))
    assert firsts == [batch.first for batch in file.batches if batch is not file.batches[7]]
    assert damage[0] == (file.offsets[7], file.offsets[7] + len(raw), "damaged")
    assert [kind for _, _, kind in damage] == ["damaged", "gap"]


def test_frames_of_another_file_are_none() -> None:
    """A stale frame of an earlier file of the same place has another seed."""
    file = made()
    stale = pack_frame(seed_of(FIRST + 1), len(file.data), 0, [file.batches[0].raw])
    assert by_frames(file.data + stale, newest=True)[1] == [(len(file.data), None, "torn")]


@pytest.mark.parametrize("length", [0, 1, (64 << 20) + 1, 0xFFFFFFFF])
def test_an_absurd_length_asks_for_no_memory(length: int) -> None:
    file = made()
    raw = bytearray(file.batches[7].raw)
    raw[4:8] = length.to_bytes(4, "big")
    raw[80:84] = crc32(raw[:80]).to_bytes(4, "big")
    batches = list(file.batches)
    batches[7] = Batch(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, b"", bytes(raw))
    data = rewritten(file, batches)
    source = Bytes(data)
    found = FrameScan(source, FIRST, len(data), 0, window_bytes=500)
    firsts, damage = read(found)
    assert file.batches[7].first not in firsts
    assert damage[0][2] == "damaged"
    assert source.largest <= max(500, *(len(batch.raw) for batch in file.batches)) + FRAME_HEADER_BYTES


def rewritten(file: NativeFile, batches: list[Batch]) -> bytes:
    pieces, end = [file.header.pack()], SEGMENT_HEADER_BYTES
    for number in range(0, len(batches), 2):
        pieces.append(pack_frame(seed_of(FIRST), end, end, [batch.raw for batch in batches[number : number + 2]]))
        end += len(pieces[-1])
    return b"".join(pieces)


def test_memory_is_a_window_or_the_largest_batch() -> None:
    file = made(count=3000, most=40)
    for window in (1, 4000, 20_000):
        source = Bytes(file.data)
        found = FrameScan(source, FIRST, len(file.data), 0, window_bytes=window)
        assert len(read(found)[0]) == len(file.batches)
        assert source.largest <= max(window, *(len(batch.raw) for batch in file.batches))


# By index.


def by_index(file: NativeFile, data: bytes | None = None, *, window: int = 1 << 20, **limits: int) -> Found:
    held = file.data if data is None else data
    index = load_index(file.index, crc32(file.data[:60]), len(file.data))
    assert index is not None
    return read(IndexScan(Bytes(held), index, 0, window_bytes=window, **limits))


@pytest.mark.parametrize("window", [1, 999, 1 << 20])
def test_the_index_leads_to_the_same_batches(window: int) -> None:
    file = made()
    assert by_index(file, window=window) == ([batch.first for batch in file.batches], [])


@pytest.mark.parametrize("seed", range(40))
def test_a_range_reads_only_its_batches(seed: int) -> None:
    rng = random.Random(seed)
    file = made(seed % 5)
    low, high = sorted(rng.sample(range(FIRST - 5, FIRST + 310), 2))
    inside = [batch for batch in file.batches if batch.zxid > low and batch.first <= high]
    assert by_index(file, after=low, until=high, window=500)[0] == [batch.first for batch in inside]
    times = sorted(batch.time for batch in file.batches)
    since, until = sorted((rng.choice(times) + rng.randint(-1, 1), rng.choice(times)))
    timed = [batch.first for batch in file.batches if since <= batch.time <= until]
    assert by_index(file, time_min=since, time_max=until)[0] == timed
    index = load_index(file.index, crc32(file.data[:60]), len(file.data))
    assert index is not None
    source = Bytes(file.data)
    read(IndexScan(source, index, 0, after=low, until=high))
    assert source.total <= sum(len(batch.raw) for batch in inside) + FRAME_HEADER_BYTES * len(inside)


def test_a_range_of_times_has_all_of_it_where_a_clock_was_wrong_for_a_while() -> None:
    file = made()
    index = load_index(file.index, crc32(file.data[:60]), len(file.data))
    assert index is not None
    index.times[20:50] += 10 * 365 * 86_400_000
    before, wrong, after = (int(index.times[number]) for number in (10, 30, 60))
    timed = [(batch.first, int(time)) for batch, time in zip(file.batches, index.times, strict=True)]
    found = read(IndexScan(Bytes(file.data), index, 0, time_min=wrong))[0]
    assert found == [first for first, time in timed if time >= wrong]
    found = read(IndexScan(Bytes(file.data), index, 0, time_min=before, time_max=after))[0]
    assert {first for first, time in timed if before <= time <= after} <= set(found)


@pytest.mark.parametrize("seed", range(30))
def test_damage_takes_its_batch_alone_where_there_is_an_index(seed: int) -> None:
    rng = random.Random(seed)
    file = made(seed % 5)
    number = rng.randrange(len(file.batches))
    start = file.offsets[number]
    at = start + rng.randrange(len(file.batches[number].raw))
    data = bytearray(file.data)
    data[at] ^= 1 << rng.randrange(8)
    firsts, damage = by_index(file, bytes(data), window=rng.choice((400, 1 << 20)))
    assert firsts == [batch.first for batch in file.batches if batch is not file.batches[number]]
    assert (start, "damaged") in [(offset, kind) for offset, _, kind in damage]


def test_a_file_shorter_than_its_index_is_damaged_there() -> None:
    file = made()
    firsts, damage = by_index(file, file.data[: file.offsets[50] + 100], window=2000)
    assert firsts == [batch.first for batch in file.batches[:50]]
    assert [offset for offset, _, _ in damage] == file.offsets[50:]


def test_an_index_that_is_not_of_the_file_is_none() -> None:
    file = made()
    crc = crc32(file.data[:60])
    assert load_index(file.index, crc, len(file.data)) is not None
    assert load_index(file.index, crc ^ 1, len(file.data)) is None
    assert load_index(file.index[:-1], crc, len(file.data)) is None
    assert load_index(b"", crc, len(file.data)) is None
    # It covers more than the file holds.
    assert load_index(file.index, crc, len(file.data) - 1) is None


@pytest.mark.parametrize("wrong", ["offsets", "zxids", "times", "end", "start"])
def test_an_index_that_says_what_cannot_be_is_none(wrong: str) -> None:
    file = made()
    index = Index(0, len(file.data))
    for offset, batch in zip(file.offsets, file.batches, strict=True):
        index.add(offset, batch)
    match wrong:
        case "offsets":
            index.offsets[3] = index.offsets[4]
        case "zxids":
            index.zxids[3] = index.zxids[2]
        case "times":
            index.times[3] = -1
        case "end":
            index.end = index.offsets[-1]
        case "start":
            index.offsets[0] = 10
    assert load_index(index.pack(5), 5, len(file.data)) is None


def test_fields_that_no_leader_writes_are_damage_whatever_their_checksums() -> None:
    file = made(count=30, most=1)
    good = file.batches[5]
    for name, at, value in (
        ("version", 2, 2), ("flags", 3, 4), ("count", 15, 0), ("epoch", 11, 9), ("counter", 23, 0), ("mark", 32, 0x7F),
        ("first", 16, 0x80), ("magic", 0, 1),
    ):  # fmt: skip
        raw = bytearray(good.raw)
        raw[at] = value
        raw[80:84] = crc32(raw[:80]).to_bytes(4, "big")
        batches = list(file.batches)
        batches[5] = Batch(1, good.first, 1, good.first, 0, 0, 0, 0, 0, 0, b"", bytes(raw))
        firsts, damage = by_frames(rewritten(file, batches))
        assert good.first not in firsts, name
        assert damage[0][2] == "damaged", name


def test_a_block_has_the_headers_in_columns() -> None:
    file = NativeFile.build(in_batches(random_txns(random.Random(3), 50), 4))
    (block,) = FrameScan(Bytes(file.data), FIRST, len(file.data), 0)
    assert isinstance(block, Block)
    assert (block.base + block.at).tolist() == file.offsets
    assert block.last.tolist() == [batch.zxid for batch in file.batches]
    assert [bytes(chain) for chain in block.heads["chain"].tolist()] == [batch.chain for batch in file.batches]
    assert block.heads["mark"].tolist() == [batch.mark for batch in file.batches]
    assert SegmentHeader(LINEAGE, START, FIRST) == file.header


def test_a_batch_that_is_not_the_one_in_the_index_is_damage() -> None:
    file = made()
    index = load_index(file.index, crc32(file.data[:60]), len(file.data))
    assert index is not None
    at = next(number for number, batch in enumerate(file.batches) if batch.count > 1)
    index.zxids[at] -= 1
    firsts, damage = read(IndexScan(Bytes(file.data), index, 0))
    assert firsts == [batch.first for number, batch in enumerate(file.batches) if number != at]
    assert (file.offsets[at], "damaged") in [(offset, kind) for offset, _, kind in damage]
