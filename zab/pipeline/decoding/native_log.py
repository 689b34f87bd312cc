"""Reads native log files window by window: whole batches whose checksums are right, and the damage between them.

A file is read in windows of a fixed size. Two ways through it find the batches of a window:

    FrameScan     from frame to frame (`datatree.log.frame`), for every file; finds all damage in it
    IndexScan     by the sidecar index, for closed files; does not read what is outside a range of zxids or times

Both yield blocks in the order of the file: the batches of a window, with their headers in columns. The damage in a
window comes before its block, as `Damage`. All checksums of a window are checked together (`checksums`); if they do
not match, one by one.

Invariants: a batch in a block has the right checksums of header and body, lies in its epoch, and comes after the one
before it. Memory does not depend on the file: a window, or one batch if that is larger. Deliberately not here: the
transactions in the batches (`native_rows`), the hash chain of the batches (`verify`), and which files are void.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, Protocol
from zlib import crc32

import numpy as np
from attrs import define, field

from datatree.log.batch import BODY_BYTES_MAX, HEADER_BYTES, VERSION
from datatree.log.frame import FRAME_HEADER_BYTES, MAGIC, read_header, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, read_index
from datatree.record import PATH_AT
from zab.pipeline.decoding.arrays import Integers, Mask, gather, walk
from zab.pipeline.decoding.checksums import Crcs, crcs_match, equal_crcs_match
from zab.pipeline.decoding.damage import DAMAGED, TORN, Damage, Order
from zab.pipeline.decoding.slices import slices

__all__ = ["BATCH_HEAD", "WINDOW_BYTES", "BatchIndex", "Block", "FrameScan", "IndexScan", "Readable", "load_index"]

WINDOW_BYTES: Final = 4 << 20

BATCH_HEAD: Final = np.dtype(
    [
        ("magic", ">u2"), ("version", "u1"), ("flags", "u1"), ("length", ">u4"), ("epoch", ">u4"), ("count", ">u4"),
        ("first", ">i8"), ("time", ">i8"), ("mark", ">i8"), ("applied", ">i8"), ("digest", ">u8"),
        ("digest_version", ">u4"), ("chain", "V16"), ("body_crc", ">u4"), ("crc", ">u4"),
    ]
)  # fmt: skip
"""The header of a batch (`datatree.log.batch`)."""
_FRAME_HEAD: Final = np.dtype(
    [("magic", "S4"), ("length", ">u4"), ("offset", ">i8"), ("synced", ">i8"), ("crc", ">u4")]
)
_FRAME_START: Final = struct.Struct(">4sI")
_CRC_BYTES: Final = 4
_FLAGS: Final = 3
_RECORD_BYTES_MIN: Final = PATH_AT + 2
"""The shortest record: it has no path, and data and rest are null."""
_COUNTER: Final = 0xFFFF_FFFF
_LARGE_BODY: Final = 4096
"""From this size on, a call for each body costs less than putting the bodies together."""

assert BATCH_HEAD.itemsize == HEADER_BYTES
assert _FRAME_HEAD.itemsize == FRAME_HEADER_BYTES


class Readable(Protocol):
    """An open file."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer at the end of the file."""
        ...


@define(eq=False)
class Block:
    """Whole batches of one window. `at[k]` is the offset in `data` of the batch whose header is `heads[k]`;
    `base + at[k]` its offset in the file. `first`, `count` (of transactions), `last` (zxid) and `length` (of the body)
    are the header's, in the machine's own order."""

    data: bytes
    base: int
    at: Integers
    heads: Any
    first: Integers
    count: Integers
    last: Integers
    length: Integers

    @classmethod
    def of(cls, data: bytes, base: int, at: Integers) -> "Block":
        """The batches at these offsets, as far as their headers say what they are. Nothing is checked."""
        heads = gather(data, at, f"V{HEADER_BYTES}").view(BATCH_HEAD)
        first, count = heads["first"].astype(np.int64), heads["count"].astype(np.int64)
        return cls(data, base, at, heads, first, count, first + count - 1, heads["length"].astype(np.int64))

    def __len__(self) -> int:
        return len(self.at)

    def only(self, keep: Mask) -> "Block":
        """The batches where `keep` is set."""
        if keep.all():
            return self
        columns = (self.at, self.heads, self.first, self.count, self.last, self.length)
        return Block(self.data, self.base, *(column[keep] for column in columns))


def _ordered(order: Order, block: Block, damage: list[Damage]) -> Iterator[Block | Damage]:
    """Yield the damage in a window, gaps and batches out of order included, then the block without the latter."""
    if len(block):
        at = block.base + block.at
        keep, gaps = order.check(block.first, block.last, at, at + HEADER_BYTES + block.length)
        damage = damage + gaps
        block = block.only(keep)
    yield from sorted(damage, key=lambda one: one.offset)
    if len(block):
        yield block


def _sound_fields(block: Block) -> Mask:
    """Which headers obey the rules of `datatree.log.batch`."""
    heads, first, last, length = block.heads, block.first, block.last, block.length
    mark, applied = heads["mark"].astype(np.int64), heads["applied"].astype(np.int64)
    epoch = first >> 32
    sound: Mask = (heads["magic"] == 0x5A42) & (heads["version"] == VERSION) & (heads["flags"] <= _FLAGS)
    sound &= (length > 0) & (length <= BODY_BYTES_MAX) & (first <= last) & (first & _COUNTER > 0)
    sound &= (first > 0) & (epoch == last >> 32) & (epoch == heads["epoch"])
    sound &= (applied >= 0) & (applied <= mark) & (mark < first)
    return sound


def _head_crcs(heads: Any, size: int) -> tuple[bytes, Crcs]:
    """The bytes that the checksums of these headers cover, and the checksums."""
    octets = heads.view(np.uint8).reshape(-1, size)
    return octets[:, : size - _CRC_BYTES].tobytes(), heads["crc"].astype(np.uint32)


def _bad_heads(heads: Any, size: int, seed: int = 0) -> Mask:
    """Which headers have a wrong checksum."""
    covered, crcs = _head_crcs(heads, size)
    width = size - _CRC_BYTES
    wrong = np.zeros(len(heads), dtype=np.bool_)
    if not equal_crcs_match(covered, width, crcs, seed):
        for number, crc in enumerate(crcs.tolist()):
            wrong[number] = crc32(covered[number * width : (number + 1) * width], seed) != crc
    return wrong


def _bad_bodies(data: bytes, starts: Integers, lengths: Integers, crcs: Crcs) -> Mask:
    """Which bodies have a wrong checksum. Their offsets rise, and all of them lie in `data`."""
    wrong = np.zeros(len(starts), dtype=np.bool_)
    ends = starts + lengths
    if len(starts) and int(lengths.sum()) < _LARGE_BODY * len(starts):
        bodies = slices(data, starts, ends).buffers()[2]
        if crcs_match(bodies, lengths, crcs):
            return wrong
    view = memoryview(data)
    for number, (start, end, crc) in enumerate(zip(starts.tolist(), ends.tolist(), crcs.tolist(), strict=True)):
        wrong[number] = crc32(view[start:end]) != crc
    return wrong


def _wrong_heads(block: Block, ends: Integers) -> Mask:
    """Which headers cannot be trusted: the checksum is wrong, or a field has an impossible value."""
    beyond = block.at + HEADER_BYTES + block.length > ends
    return _bad_heads(block.heads, HEADER_BYTES) | ~_sound_fields(block) | beyond


def _wrong_bodies(block: Block, heads: Mask) -> Mask:
    """Which batches have a right header and a body that does not match it."""
    wrong = block.count * _RECORD_BYTES_MIN > block.length
    right = np.flatnonzero(~heads)
    whole = block if len(right) == len(block) else block.only(~heads)
    crcs = whole.heads["body_crc"].astype(np.uint32)
    wrong[right] |= _bad_bodies(whole.data, whole.at + HEADER_BYTES, whole.length, crcs)
    return wrong & ~heads


def _reason(block: Block, number: int) -> str:
    """What is wrong with a batch that is complete."""
    head = block.heads[number]
    if crc32(head.tobytes()[:-_CRC_BYTES]) != head["crc"]:
        return "checksum of the batch header does not match"
    if int(block.count[number]) * _RECORD_BYTES_MIN > block.length[number]:
        return f"the body is too short for {block.count[number]} transactions"
    if not _sound_fields(block)[number]:
        return "the batch header is not one that this version knows"
    return "checksum of the batch body does not match"


@define(eq=False)
class FrameScan:
    """The batches of a file from the frame at `start` up to `end` (the size of the file, or less).

    `first` is the zxid in the file's name. `is_newest`: there is no later file, so the end of this one may be torn.
    When the iteration is over, `stop` is the offset after the last readable frame, `synced` the largest sync mark in
    the frames, and `last` the last zxid."""

    file: Readable
    first: int
    end: int
    previous: int | None = None
    is_newest: bool = False
    start: int = SEGMENT_HEADER_BYTES
    window_bytes: int = WINDOW_BYTES
    stop: int = 0
    synced: int = 0
    _seed: int = field(init=False)
    _order: Order = field(init=False)
    _frame_end: int = field(init=False, default=0)
    _damage: list[Damage] = field(init=False, factory=list)
    _is_over: bool = field(init=False, default=False)
    _needed: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._seed = seed_of(self.first)
        self._order = Order(self.previous)
        self.stop = self.start

    @property
    def last(self) -> int | None:
        return self._order.last

    def __iter__(self) -> Iterator[Block | Damage]:
        at = self.start
        while at < self.end and not self._is_over:
            size = min(max(self.window_bytes, self._needed), self.end - at)
            data = self.file.read(at, size)
            if len(data) < size:
                self.end = at + len(data)
            self._needed = 0
            block, at = self._read(data, at)
            damage, self._damage = self._damage, []
            yield from _ordered(self._order, block, damage)

    def _read(self, data: bytes, base: int) -> tuple[Block, int]:
        """Read the batches in a window at `base`; return them and the offset of the next window."""
        starts, ends, frames, at = self._frames(data, base)
        batches, regions, stops = walk(data, starts, np.minimum(ends, len(data)), 4, HEADER_BYTES)
        block = Block.of(data, base, batches)
        heads = _wrong_heads(block, ends[regions])
        bodies = _wrong_bodies(block, heads)
        if not (heads.any() or bodies.any() or (stops != ends).any()):
            self._moved(at)
            return block, at
        lost: list[tuple[int, int, int, str]] = []
        keep = np.ones(len(batches), dtype=np.bool_)
        for region in sorted({*regions[heads].tolist(), *np.flatnonzero(stops != ends).tolist()}):
            bad = np.flatnonzero(heads & (regions == region))
            if len(bad):
                # Its length cannot be trusted, so nothing after it in the frame can be found.
                offset, reason = int(batches[bad[0]]), _reason(block, int(bad[0]))
                keep &= (regions != region) | (batches < offset)
            else:
                offset = int(stops[region])
                found = self._cut_short(data, base, offset, int(ends[region]))
                if found is None:
                    # The batch goes on beyond the window, and the frame with it.
                    at = base + offset
                    continue
                reason = found
            lost.append((offset, int(ends[region]), int(frames[region]), reason))
        for number in np.flatnonzero(bodies & keep).tolist():
            offset, end = int(batches[number]), int(batches[number]) + HEADER_BYTES + int(block.length[number])
            lost.append((offset, end, int(frames[regions[number]]), _reason(block, number)))
        for offset, end, frame, reason in sorted(lost):
            if self._torn(base + frame, base + offset, reason):
                return block.only(keep & ~bodies & (batches < offset)), self.end
            self._damage.append(Damage(base + offset, min(base + end, self.end), DAMAGED, reason))
        self._moved(at)
        return block.only(keep & ~bodies), at

    def _moved(self, at: int) -> None:
        """Note that everything before `at` was read, unless the log has ended before."""
        if not self._is_over:
            self.stop = max(self.stop, min(at, self.end))

    def _frames(self, data: bytes, base: int) -> tuple[Integers, Integers, Integers, int]:
        """Find the frames in the window: where the batches of each begin and end (perhaps beyond the window), where
        the frame begins, and the offset in the file at which the next frame should begin."""
        at = 0
        starts, ends, frames = [], [], []
        if self._frame_end > base:
            starts, ends, frames = [0], [self._frame_end - base], [0]
            at = self._frame_end - base
        found: list[int] = []
        while at + FRAME_HEADER_BYTES <= len(data):
            magic, length = _FRAME_START.unpack_from(data, at)
            if magic != MAGIC:
                break
            found.append(at)
            at += FRAME_HEADER_BYTES + length
        heads_at = np.array(found, dtype=np.int64)
        heads = gather(data, heads_at, f"V{FRAME_HEADER_BYTES}").view(_FRAME_HEAD)
        wrong = _bad_heads(heads, FRAME_HEADER_BYTES, self._seed)
        wrong |= (heads["offset"] != base + heads_at) | (heads["synced"] > heads["offset"]) | (heads["synced"] < 0)
        is_bad = bool(wrong.any())
        if is_bad:
            count = int(np.argmax(wrong))
            at, heads, heads_at = found[count], heads[:count], heads_at[:count]
        self.synced = max(self.synced, int(heads["synced"].max(initial=0)))
        payload = heads_at + FRAME_HEADER_BYTES
        all_ends = np.concatenate((np.array(ends, np.int64), payload + heads["length"]))
        self._frame_end = base + int(all_ends[-1]) if len(all_ends) else 0
        following = base + at
        if is_bad or (at < len(data) and (at + FRAME_HEADER_BYTES <= len(data) or base + len(data) >= self.end)):
            following = self._no_frame(following)
        self._needed = FRAME_HEADER_BYTES
        all_starts = np.concatenate((np.array(starts, np.int64), payload))
        return all_starts, all_ends, np.concatenate((np.array(frames, np.int64), heads_at)), following

    def _no_frame(self, offset: int) -> int:
        """Handle an offset without a frame header: return where the next frame is, or the end if there is none."""
        if self._is_zero(offset):
            self._is_over = True
            self.stop = max(self.stop, offset)
            return self.end
        if self._torn(offset, offset, "no frame header"):
            return self.end
        following = next((found for found, _ in self._later_frames(offset + 1)), None)
        self._damage.append(Damage(offset, following, DAMAGED, "no frame header"))
        return self.end if following is None else following

    def _torn(self, frame: int, offset: int, reason: str) -> bool:
        """Whether the newest file ends here: no frame says that this one was durable. Reports it as a torn end."""
        if not self.is_newest:
            return False
        later = max((synced for _, synced in self._later_frames(offset)), default=0)
        self.synced = max(self.synced, later)
        if frame < self.synced:
            return False
        self._is_over = True
        self.stop = max(self.stop, min(frame, self.end))
        self._damage.append(Damage(offset, None, TORN, reason))
        return True

    def _cut_short(self, data: bytes, base: int, at: int, frame_end: int) -> str | None:
        """What is wrong with the batch at `at`, which is not wholly in its frame or window; None when it goes on
        beyond the window."""
        if at + HEADER_BYTES > frame_end:
            return f"batch header cut short: {frame_end - at} of {HEADER_BYTES} bytes"
        if at + HEADER_BYTES > len(data):
            if base + len(data) >= self.end:
                return f"batch header cut short: {len(data) - at} of {HEADER_BYTES} bytes"
            self._needed = HEADER_BYTES
            return None
        batch = Block.of(data, base, np.array([at], dtype=np.int64))
        if _bad_heads(batch.heads, HEADER_BYTES)[0] or not _sound_fields(batch)[0]:
            return _reason(batch, 0)
        length = int(batch.length[0])
        whole = at + HEADER_BYTES + length
        if whole > frame_end or base + whole > self.end:
            there = min(frame_end, self.end - base) - at - HEADER_BYTES
            return f"batch body cut short: {there} of {length} bytes"
        self._needed = HEADER_BYTES + length
        return None

    def _is_zero(self, offset: int) -> bool:
        """Whether only zeros follow, as in preallocated space."""
        while offset < self.end:
            data = self.file.read(offset, min(self.window_bytes, self.end - offset))
            if data.count(0) != len(data):
                return False
            if not data:
                break
            offset += len(data)
        return True

    def _later_frames(self, offset: int) -> Iterator[tuple[int, int]]:
        """(offset, synced) of the frames after `offset`, found by their headers."""
        while offset < self.end:
            data = self.file.read(offset, min(self.window_bytes, self.end - offset))
            at = 0
            while (at := data.find(MAGIC, at)) >= 0 and at + FRAME_HEADER_BYTES <= len(data):
                header = read_header(data, at, self._seed, offset)
                if header is not None:
                    yield offset + at, header[1]
                at += len(MAGIC)
            if len(data) < FRAME_HEADER_BYTES:
                return
            offset += len(data) - FRAME_HEADER_BYTES + 1


@define(eq=False)
class BatchIndex:
    """The sidecar index of a closed file, in columns: offset, last zxid and time of every batch. `end` is the offset
    after the last frame."""

    offsets: Integers
    zxids: Integers
    times: Integers
    end: int


def load_index(data: bytes, header_crc: int, size: int) -> BatchIndex | None:
    """Parse the index of a file of `size` bytes whose header has this checksum. None if it belongs to another file or
    has impossible values."""
    found = read_index(data, header_crc)
    if found is None or not len(found.offsets):
        return None
    offsets = np.array(found.offsets, dtype=np.uint64).astype(np.int64)
    zxids = np.array(found.zxids, dtype=np.uint64).astype(np.int64)
    times = np.array(found.times, dtype=np.int64)
    rises = (np.diff(offsets) > HEADER_BYTES).all() and (np.diff(zxids) > 0).all() and (times >= 0).all()
    if not rises or offsets[0] < SEGMENT_HEADER_BYTES or not offsets[-1] + HEADER_BYTES < found.end <= size:
        return None
    return BatchIndex(offsets, zxids, times, found.end)


@define(eq=False)
class IndexScan:
    """The batches of a closed file, found by its index: those with a zxid in (after, until] (a batch at the edge comes
    as a whole), from the first to the last one with a time from `time_min` to `time_max`. Where a leader's clock was
    wrong, times go back, so batches with other times may lie between these."""

    file: Readable
    index: BatchIndex
    previous: int | None = None
    after: int = 0
    until: int | None = None
    time_min: int | None = None
    time_max: int | None = None
    window_bytes: int = WINDOW_BYTES

    def _range(self) -> tuple[int, int]:
        index = self.index
        low = int(np.searchsorted(index.zxids, self.after, "right"))
        high = len(index.zxids)
        if self.until is not None:
            high = min(high, int(np.searchsorted(index.zxids, self.until, "left")) + 1)
        if self.time_min is None and self.time_max is None:
            return low, high
        keep = np.ones(len(index.times), dtype=np.bool_)
        if self.time_min is not None:
            keep &= index.times >= self.time_min
        if self.time_max is not None:
            keep &= index.times <= self.time_max
        at = np.flatnonzero(keep)
        return (max(low, int(at[0])), min(high, int(at[-1]) + 1)) if len(at) else (0, 0)

    def __iter__(self) -> Iterator[Block | Damage]:
        index = self.index
        low, high = self._range()
        if low >= high:
            return
        order = Order(int(index.zxids[low - 1]) if low else self.previous)
        bounds = np.append(index.offsets, index.end)
        while low < high:
            stop = int(np.searchsorted(bounds, bounds[low] + self.window_bytes, "right")) - 1
            stop = min(max(stop, low + 1), high)
            block, damage = self._read(low, stop, bounds)
            yield from _ordered(order, block, damage)
            low = stop

    def _read(self, low: int, stop: int, bounds: Integers) -> tuple[Block, list[Damage]]:
        base = int(bounds[low])
        data = self.file.read(base, int(bounds[stop]) - base)
        at, ends = bounds[low:stop] - base, bounds[low + 1 : stop + 1] - base
        there = int(np.searchsorted(at, len(data) - HEADER_BYTES, "right"))
        block = Block.of(data, base, at[:there])
        wrong = np.ones(len(at), dtype=np.bool_)
        heads = _wrong_heads(block, np.minimum(ends[:there], len(data)))
        wrong[:there] = heads | _wrong_bodies(block, heads)
        wrong[:there] |= block.last != self.index.zxids[low : low + there]
        damage = []
        for number in np.flatnonzero(wrong).tolist():
            reason = _reason(block, number) if number < there else "the file is shorter than its index says"
            damage.append(Damage(base + int(at[number]), base + int(ends[number]), DAMAGED, reason))
        return block.only(~wrong[:there]), damage
