"""One log file: its header, its sidecar index, and reading batches from it.

    version-1/log.<first zxid, hex>         header (64 bytes), then frames (`datatree.log.frame`);
                                            written once, never reopened
    version-1/log.<first zxid, hex>.index   written when the file is closed; can be rebuilt from it

Header, big-endian:

    offset  bytes  field
         0      4  magic "ZLOG"
         4      4  version, 1
         8     16  lineage id
        24      8  previous zxid: the batch end that this file continues
        32     16  previous chain: the chain there
        48      8  first zxid, as in the name
        56      4  zeros
        60      4  CRC-32 of bytes 0 to 59

Index, big-endian, in columns so that a reader turns each into an array at once:

    offset  bytes  field
         0      4  magic "ZIDX"
         4      4  version, 1
         8      8  n, the count of batches
        16      8  previous zxid of the file
        24      8  last zxid in the file
        32      8  first time, ms
        40      8  last time, ms
        48      8  offset after the last frame that it covers
        56      4  CRC-32 of everything from offset 64 on, begun with the header checksum of its log file
        60      4  CRC-32 of bytes 0 to 59
        64   8 n   offset of each batch in the file
         …   8 n   last zxid of each batch
         …   8 n   time of each batch

A file may overlap the previous one, whose batches above `previous zxid` are void. (So a truncation within a frame, and
the copy of a tail that was never synced, take effect with one rename.)
"""

import re
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from zlib import crc32

from attrs import define, field

from datatree.log.batch import HEADER_BYTES, LINEAGE_BYTES, Batch, BatchError, Position, parse
from datatree.log.disk import Disk, is_full
from datatree.log.epochs import DIRECTORY
from datatree.log.frame import FRAME_HEADER_BYTES, MAGIC, Bad, read_header, scan, seed_of

_HEAD = struct.Struct(">4sI16sQ16sQI")
_CRC = struct.Struct(">I")
_INDEX = struct.Struct(">4sIQQQqqQI")
SEGMENT_HEADER_BYTES = _HEAD.size + _CRC.size
INDEX_HEADER_BYTES = _INDEX.size + _CRC.size
_LOG_NAME = re.compile(r"log\.([0-9a-f]+)")

SPARSE_BYTES = 64 << 10
"""The distance between entries of the index in memory: at most this much has to be skipped by a read."""
_READ_BYTES = 256 << 10

"""A batch end: its zxid and the chain there."""

assert SEGMENT_HEADER_BYTES == INDEX_HEADER_BYTES == 64


class LogDamagedError(OSError):
    """A part of the log that was durable cannot be read: a disk error, even if the disk reports none."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


@define
class SegmentHeader:
    """The header of a log file."""

    lineage: bytes
    previous: Position
    first: int

    def pack(self) -> bytes:
        assert len(self.lineage) == LINEAGE_BYTES
        head = _HEAD.pack(b"ZLOG", 1, self.lineage, self.previous[0], self.previous[1], self.first, 0)
        return head + _CRC.pack(crc32(head))


def log_path(first_zxid: int) -> str:
    """The path of the log file whose first transaction is this one."""
    return f"{DIRECTORY}/log.{first_zxid:x}"


def index_path(path: str) -> str:
    """The path of the sidecar index of a log file."""
    return f"{path}.index"


def log_files(disk: Disk) -> list[int]:
    """The first zxids of the existing log files, ascending."""
    return sorted(int(match[1], 16) for name in disk.list(DIRECTORY) if (match := _LOG_NAME.fullmatch(name)))


def read_segment_header(data: bytes, first: int) -> SegmentHeader | None:
    """The header at the start of `data`, or None if it does not belong to the file named after `first`."""
    if len(data) < SEGMENT_HEADER_BYTES or crc32(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        return None
    magic, version, lineage, zxid, chain, named, _ = _HEAD.unpack_from(data)
    if magic != b"ZLOG" or version != 1 or named != first or zxid >= first:
        return None
    return SegmentHeader(lineage, (zxid, chain), first)


@define
class Index:
    """Every batch of a file: its offset, last zxid and time. `end` is after the last frame."""

    previous: int
    end: int = SEGMENT_HEADER_BYTES
    offsets: "array[int]" = field(factory=lambda: array("Q"))
    zxids: "array[int]" = field(factory=lambda: array("Q"))
    times: "array[int]" = field(factory=lambda: array("q"))

    def add(self, offset: int, batch: Batch) -> None:
        self.offsets.append(offset)
        self.zxids.append(batch.zxid)
        self.times.append(batch.time)

    def cut(self, end: int) -> None:
        """Forget what begins at `end` or after it."""
        while self.offsets and self.offsets[-1] >= end:
            self.offsets.pop()
            self.zxids.pop()
            self.times.pop()

    def pack(self, header_crc: int) -> bytes:
        columns = b"".join(map(_big_endian, (self.offsets, self.zxids, self.times)))
        last = self.zxids[-1] if self.zxids else self.previous
        ends = (self.times[0], self.times[-1]) if self.times else (0, 0)
        count = len(self.zxids)
        head = _INDEX.pack(b"ZIDX", 1, count, self.previous, last, *ends, self.end, crc32(columns, header_crc))
        return b"".join((head, _CRC.pack(crc32(head)), columns))

    def sparse(self) -> "SparseIndex":
        """A sparse form, which is enough to get close to a zxid."""
        result = SparseIndex()
        for offset, zxid in zip(self.offsets, self.zxids, strict=True):
            result.add(offset, zxid)
        return result


def _big_endian(column: "array[int]") -> bytes:
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _column(code: str, data: bytes) -> "array[int]":
    column = array(code, data)
    if sys.byteorder == "little":
        column.byteswap()
    return column


def read_index(data: bytes, header_crc: int) -> Index | None:
    """The index in `data`, or None if it does not belong to the file whose header has this checksum."""
    if len(data) < INDEX_HEADER_BYTES or crc32(data[: _INDEX.size]) != _CRC.unpack_from(data, _INDEX.size)[0]:
        return None
    magic, version, count, previous, _, _, _, end, columns_crc = _INDEX.unpack_from(data)
    columns = data[INDEX_HEADER_BYTES:]
    if magic != b"ZIDX" or version != 1 or len(columns) != 24 * count or crc32(columns, header_crc) != columns_crc:
        return None
    cut = 8 * count
    parts = _column("Q", columns[:cut]), _column("Q", columns[cut : 2 * cut]), _column("q", columns[2 * cut :])
    return Index(previous, end, *parts)


@define
class SparseIndex:
    """Offsets of batches at least SPARSE_BYTES apart, with the last zxid of each."""

    offsets: list[int] = field(factory=list)
    zxids: list[int] = field(factory=list)

    def add(self, offset: int, zxid: int) -> None:
        if not self.offsets or offset - self.offsets[-1] >= SPARSE_BYTES:
            self.offsets.append(offset)
            self.zxids.append(zxid)

    def before(self, zxid: int) -> int | None:
        """The offset of the last listed batch that ends at or below `zxid`; None if none does."""
        at = bisect_right(self.zxids, zxid)
        return self.offsets[at - 1] if at else None


@define(eq=False)
class Segment:
    """A log file as the log uses it: between `start` and `end` it has the batches in (previous, last]."""

    path: str
    first: int
    previous: Position
    last: Position
    end: int
    index: SparseIndex | None = None
    start: int = SEGMENT_HEADER_BYTES
    """After the header, or after damage that is wholly below `previous`."""
    holes: dict[int, int] = field(factory=dict)
    """Damaged stretches without any batch: offset → end."""

    def batches(self, disk: Disk, after: int) -> Iterator[tuple[int, Batch]]:
        """(offset, batch) of every batch that ends above `after`. Raises LogDamagedError."""
        for offset, batch in self._iterate(disk, self._index(disk).before(after)):
            if batch.zxid > after:
                yield offset, batch

    def floor(self, disk: Disk, zxid: int) -> Position:
        """The last batch end at or below `zxid`, which is not below `previous`. Raises LogDamagedError."""
        assert self.previous[0] <= zxid
        if zxid >= self.last[0]:
            return self.last
        position = self.previous
        for _, batch in self._iterate(disk, self._index(disk).before(zxid)):
            if batch.zxid > zxid:
                break
            if batch.zxid >= position[0]:
                position = batch.zxid, batch.chain
        return position

    def frames(self, disk: Disk) -> Iterator[tuple[int, list[Batch]]]:
        """(offset after it, batches) of every frame. Raises LogDamagedError."""
        for part in scan(disk.read(self.path, 0, self.end), self.first, self.start).parts:
            if part.offset in self.holes:
                continue
            if isinstance(part, Bad):
                raise LogDamagedError(self.path, part.at, part.reason)
            yield part.end, part.batches

    def _iterate(self, disk: Disk, start: int | None) -> Iterator[tuple[int, Batch]]:
        """The batches from `start`, or from the first, to `last`: what follows is void, or zeros."""
        if self.last == self.previous:
            return
        begin = self.start if start is None else start
        for offset, batch in iterate(disk, self.path, self.first, begin, self.end, self.holes):
            if batch.zxid <= self.last[0]:
                yield offset, batch
            if batch.zxid >= self.last[0]:
                return

    def _index(self, disk: Disk) -> SparseIndex:
        if self.index is None:
            stored = self.stored_index(disk)
            self.index = stored.sparse() if stored is not None else self._rebuilt_index(disk)
        return self.index

    def stored_index(self, disk: Disk) -> Index | None:
        """The stored index, or None if it is missing or invalid."""
        path = index_path(self.path)
        return read_index(disk.read(path), self._header_checksum(disk)) if disk.exists(path) else None

    def _rebuilt_index(self, disk: Disk) -> SparseIndex:
        index = SparseIndex()
        for offset, batch in self._iterate(disk, None):
            index.add(offset, batch.zxid)
        return index

    def _header_checksum(self, disk: Disk) -> int:
        """The index must belong to this very file, not to an earlier one of the same name."""
        return crc32(disk.read(self.path, 0, _HEAD.size))

    def write_index(self, disk: Disk, index: Index) -> None:
        """Write the index; not synced, since its checksums tell. On a full disk it is left out: it can be rebuilt."""
        index.end = self.end
        path = index_path(self.path)
        if disk.exists(path):
            disk.remove(path)
        data = index.pack(self._header_checksum(disk))
        try:
            file = disk.open_append(path, create=True)
            file.write(data)
            file.close()
        except OSError as error:
            if not is_full(error):
                raise
            if disk.exists(path):
                disk.remove(path)


def iterate(
    disk: Disk, path: str, first: int, start: int, end: int, holes: Mapping[int, int]
) -> Iterator[tuple[int, Batch]]:
    """(offset, batch) from the frame or batch at `start` to `end` (a frame's end), read in blocks, without `holes`.

    Raises LogDamagedError for anything unreadable: this is for stretches that are known to be durable.
    """
    seed = seed_of(first)
    base = at = start
    data = b""
    while at < end:
        if at in holes:
            at = base = holes[at]
            data = b""
            continue
        if base + len(data) - at < HEADER_BYTES:
            data, base = data[at - base :] + disk.read(path, base + len(data), _READ_BYTES), at
        if data.startswith(MAGIC, at - base):
            if read_header(data, at - base, seed, base) is None:
                raise LogDamagedError(path, at, "frame header does not match")
            at += FRAME_HEADER_BYTES
            continue
        try:
            batch = parse(data, at - base)
        except BatchError as error:
            more = disk.read(path, base + len(data), max(_READ_BYTES, len(data))) if error.torn else b""
            if not more:
                raise LogDamagedError(path, at, error.reason) from None
            data, base = data[at - base :] + more, at
            continue
        yield at, batch
        at += len(batch.raw)
