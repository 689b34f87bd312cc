"""Reads ZooKeeper's log files window by window: whole records whose checksums are right, and the damage between them.

`datatree.zookeeper.log` describes the format. A file ends with a length of zero and nothing but zeros after it
(preallocated space), at its physical end, or with a torn record that no intact one follows. A record whose checksum
does not match, or that looks torn but has an intact one after it, is damage.

Invariants: a record in a block has the right checksum, and comes after the one before it. Memory does not depend on the
file: a window, or one record if that is larger. Deliberately not here: the transactions in the records
(`version2_rows`).
"""

import re
import struct
from collections.abc import Iterator
from typing import Final
from zlib import adler32

import numpy as np
from attrs import define, field

from datatree.zookeeper.files import LENGTH_MAX
from datatree.zookeeper.log import LOG_HEADER
from zab.pipeline.decoding.arrays import Integers, Mask, integers, walk
from zab.pipeline.decoding.checksums import adlers_match
from zab.pipeline.decoding.damage import DAMAGED, TORN, Damage, Order
from zab.pipeline.decoding.native_log import WINDOW_BYTES, Readable
from zab.pipeline.decoding.slices import slices

__all__ = ["FRAME_BYTES", "RecordBlock", "RecordScan"]

FRAME_BYTES: Final = 12
"""Checksum and length in front of a payload."""
_OVERHEAD: Final = FRAME_BYTES + 1
_TRAILER_BYTE: Final = b"B"
_TRAILER: Final = _TRAILER_BYTE[0]
_HEADER_BYTES: Final = 32
"""Every payload begins with session, cxid, zxid, time and type."""
_ZXID_AT: Final = FRAME_BYTES + 12
_FRAME: Final = struct.Struct(">qi")
# A record may begin here: a checksum of 32 bits in a long, and a length below 16 MiB.
_CANDIDATE: Final = re.compile(rb"(?=\0{4}.{4}\0...)", re.DOTALL)


@define(eq=False)
class RecordBlock:
    """Whole records of one window: `at[k]` is the offset of a record in `data`, `base + at[k]` in the file, `length[k]`
    that of its payload in bytes, `adler[k]` its checksum, `zxid[k]` its transaction's."""

    data: bytes
    base: int
    at: Integers
    length: Integers
    adler: Integers
    zxid: Integers

    def __len__(self) -> int:
        return len(self.at)

    @property
    def last(self) -> Integers:
        """The zxid of each record, under the name that `Block` has for it."""
        return self.zxid

    def only(self, keep: Mask) -> "RecordBlock":
        """The records where `keep` is set."""
        if keep.all():
            return self
        return RecordBlock(
            self.data, self.base, self.at[keep], self.length[keep], self.adler[keep], self.zxid[keep]
        )  # fmt: skip


@define(eq=False)
class RecordScan:
    """The records of a file from the one at `start` up to `end` (the size of the file, or less). When the iteration is
    over, `stop` is the offset after the last readable record, `last` the last zxid."""

    file: Readable
    end: int
    previous: int | None = None
    start: int = len(LOG_HEADER)
    window_bytes: int = WINDOW_BYTES
    stop: int = 0
    _order: Order = field(init=False)
    _damage: list[Damage] = field(init=False, factory=list)
    _needed: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._order = Order(self.previous)
        self.stop = self.start

    @property
    def last(self) -> int | None:
        return self._order.last

    def __iter__(self) -> Iterator[RecordBlock | Damage]:
        at = self.start
        while at < self.end:
            size = min(max(self.window_bytes, self._needed), self.end - at)
            data = self.file.read(at, size)
            if len(data) < size:
                self.end = at + len(data)
            self._needed = 0
            block, at = self._read(data, at)
            damage, self._damage = self._damage, []
            if len(block):
                starts = block.base + block.at
                keep, gaps = self._order.check(block.zxid, block.zxid, starts, starts + block.length + _OVERHEAD)
                damage += gaps
                block = block.only(keep)
            yield from sorted(damage, key=lambda one: one.offset)
            if len(block):
                yield block

    def _read(self, data: bytes, base: int) -> tuple[RecordBlock, int]:
        """The records in a window at `base`, and where the next window begins."""
        zero = np.zeros(1, dtype=np.int64)
        at, _, stops = walk(data, zero, np.array([len(data)], dtype=np.int64), 8, _OVERHEAD)
        stop = int(stops[0])
        lengths = integers(data, at + 8, ">i4")
        ended = np.frombuffer(data, np.uint8)[at + FRAME_BYTES + lengths] == _TRAILER
        if not ended.all():
            # Its length cannot be trusted, so neither can the place of the next one.
            count = int(np.argmin(ended))
            stop, at, lengths = int(at[count]), at[:count], lengths[:count]
        following = base + stop
        if not (ended.all() and self._goes_on(data, base, stop)):
            following = self._no_record(base + stop)
        self.stop = max(self.stop, base + stop)
        checksums = integers(data, at, ">i8")
        keep = self._right(data, base, at, lengths, checksums)
        zxids = integers(data, at[keep] + _ZXID_AT, ">i8")
        return RecordBlock(data, base, at[keep], lengths[keep], checksums[keep], zxids), following

    def _goes_on(self, data: bytes, base: int, at: int) -> bool:
        """Whether the record at `at`, which is cut by the end of the window, may continue beyond it."""
        left = self.end - base - at
        if at + FRAME_BYTES > len(data):
            self._needed = FRAME_BYTES
            return left == 0 or base + len(data) < self.end
        _, length = _FRAME.unpack_from(data, at)
        if not 0 < length <= LENGTH_MAX or _OVERHEAD + length > left:
            return False
        self._needed = _OVERHEAD + length
        return base + len(data) < self.end

    def _no_record(self, offset: int) -> int:
        """Handle an offset without a whole record: return where the next one is, or the end if there is none."""
        padding, following = self._next_record(offset)
        if following is not None:
            self._damage.append(Damage(offset, following, DAMAGED, "no record"))
            return following
        if not padding:
            self._damage.append(Damage(offset, None, TORN, "the last record is torn"))
        return self.end

    def _right(self, data: bytes, base: int, at: Integers, lengths: Integers, checksums: Integers) -> Mask:
        """Which records have the right checksum and are long enough to be a transaction."""
        right: Mask = (checksums >> 32 == 0) & (lengths >= _HEADER_BYTES)
        starts = at + FRAME_BYTES
        if not right.all() or not adlers_match(
            slices(data, starts, starts + lengths).buffers()[2] if len(at) else b"",
            lengths,
            checksums.astype(np.uint32),
        ):
            view = memoryview(data)
            for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
                right[number] &= adler32(view[start : start + length]) == checksums[number]
        for number in np.flatnonzero(~right).tolist():
            offset = base + int(at[number])
            end = offset + int(lengths[number]) + _OVERHEAD
            reason = "checksum of the transaction does not match"
            if lengths[number] < _HEADER_BYTES:
                reason = f"a transaction of {lengths[number]} bytes has no header"
            self._damage.append(Damage(offset, end, DAMAGED, reason))
        return right

    def _next_record(self, offset: int) -> tuple[bool, int | None]:
        """(whether only zeros follow `offset`, where the next intact record after it begins)."""
        is_zero, at = True, offset
        while at < self.end:
            data = self.file.read(at, min(self.window_bytes, self.end - at))
            is_zero = is_zero and data.count(0) == len(data)
            if not is_zero:
                for found in _CANDIDATE.finditer(data, 1 if at == offset else 0):
                    if self._is_intact(at + found.start(), data[found.start() : found.start() + FRAME_BYTES]):
                        return False, at + found.start()
            if len(data) < FRAME_BYTES:
                break
            at += len(data) - FRAME_BYTES + 1
        return is_zero, None

    def _is_intact(self, offset: int, frame: bytes) -> bool:
        """Whether the bytes at `offset`, which look like the beginning of a record, are one."""
        checksum, length = _FRAME.unpack(frame)
        at, end = offset + FRAME_BYTES, offset + FRAME_BYTES + length
        if length < _HEADER_BYTES or end >= self.end or self.file.read(end, 1) != _TRAILER_BYTE:
            return False
        found: int = 1
        while at < end:
            piece = self.file.read(at, min(self.window_bytes, end - at))
            found = adler32(piece, found)
            at += max(len(piece), 1)
        return bool(found == checksum)
