"""A native log file taken apart into frames and batches, and put together again with all checksums of the file right.

What a test changes in between is up to it: `NativeLog.write` packs whatever batches are there, moves frames and their
sync marks to where they come to lie, and makes the sidecar index again where there was one.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from datatree.log.batch import HEADER_BYTES, Batch, continues, parse
from datatree.log.frame import FRAME_HEADER_BYTES, Frame, Scan, pack_frame, read_header, scan, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, Index, SegmentHeader, read_segment_header
from datatree.record import Txn, decode_all, encode

_HASHED_BYTES = 60
_LENGTH_AT, _COUNT_AT = 4, 12


@functools.cache
def _frames_in(data: bytes, first: int) -> Scan:
    """Tests damage one file of many that they copied, and read them all."""
    return scan(data, first, SEGMENT_HEADER_BYTES)


@dataclass
class LogFrame:
    """`synced` is the number of the frame up to which the file was durable; None: none of it was."""

    batches: list[Batch]
    synced: int | None
    offset: int = 0


@dataclass
class NativeLog:
    """One file; `offsets` are those of the batches by their last zxid, as read or as last written."""

    path: Path
    header: SegmentHeader
    frames: list[LogFrame] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    end: int = 0

    @classmethod
    def read(cls, path: Path) -> NativeLog:
        """The file must be intact."""
        data = path.read_bytes()
        first = int(path.name.partition(".")[2], 16)
        header = read_segment_header(data, first)
        assert header is not None, path
        log = cls(path, header)
        found = _frames_in(data, first)
        numbers = {part.offset: number for number, part in enumerate(found.parts)}
        log.end = found.end
        numbers[found.end] = len(numbers)
        for part in found.parts:
            assert isinstance(part, Frame), (path, part)
            read = read_header(data, part.offset, seed_of(first))
            assert read is not None
            log.frames.append(LogFrame([*part.batches], numbers.get(read[1]), part.offset))
            for batch, end in zip(part.batches, part.ends, strict=True):
                log.offsets[batch.zxid] = end - len(batch.raw)
        return log

    @property
    def index_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.index")

    def batches(self) -> Iterator[Batch]:
        for frame in self.frames:
            yield from frame.batches

    def replace_batch(self, zxid: int, new: Batch | None) -> None:
        """The batch that ends at `zxid` becomes `new`, or goes."""
        for frame in self.frames:
            for at, batch in enumerate(frame.batches):
                if batch.zxid == zxid:
                    frame.batches[at : at + 1] = [] if new is None else [new]
                    return
        raise KeyError(zxid)

    def frame_of(self, zxid: int) -> LogFrame:
        return next(frame for frame in self.frames if any(batch.zxid == zxid for batch in frame.batches))

    def write(self) -> None:
        """With the frames as they are now. What was preallocated after them is cut."""
        seed = seed_of(self.header.first)
        pieces = [self.header.pack()]
        at = SEGMENT_HEADER_BYTES
        starts: list[int] = []
        index = Index(self.header.previous[0])
        self.offsets.clear()
        for frame in self.frames:
            starts.append(at)
            frame.offset = at
            synced = 0 if frame.synced is None else starts[min(frame.synced, len(starts) - 1)]
            inside = at + FRAME_HEADER_BYTES
            for batch in frame.batches:
                self.offsets[batch.zxid] = inside
                index.add(inside, batch)
                inside += len(batch.raw)
            pieces.append(pack_frame(seed, at, synced, [batch.raw for batch in frame.batches]))
            at += len(pieces[-1])
        self.end = index.end = at
        self.path.write_bytes(b"".join(pieces))
        if self.index_path.exists():
            self.index_path.write_bytes(index.pack(crc32(pieces[0][:-4])))


def with_body(batch: Batch, body: bytes, *, count: int | None = None, chain: bytes | None = None) -> Batch:
    """`batch` with another body and right checksums; its chain stays as it was unless one is given."""
    head = bytearray(batch.raw[:_HASHED_BYTES])
    struct.pack_into(">I", head, _LENGTH_AT, len(body))
    struct.pack_into(">I", head, _COUNT_AT, batch.count if count is None else count)
    head += (batch.chain if chain is None else chain) + struct.pack(">I", crc32(body))
    return parse(bytes(head) + struct.pack(">I", crc32(head)) + body)


def with_header(batch: Batch, change: Callable[[bytearray], None]) -> bytes:
    """The raw bytes of `batch` with its header changed and the header's checksum right; perhaps no batch any more."""
    head = bytearray(batch.raw[: HEADER_BYTES - 4])
    change(head)
    return bytes(head) + struct.pack(">I", crc32(head)) + batch.body


def with_records(batch: Batch, change: Callable[[Txn], Txn]) -> bytes:
    """The body of `batch`, each of its transactions changed."""
    return b"".join(encode(change(txn)) for txn in decode_all(batch.body, batch.first, batch.count))


def rechained(previous: bytes, batch: Batch) -> Batch:
    """`batch` with the chain that it has after `previous`."""
    from hashlib import blake2b

    hasher = blake2b(previous + batch.raw[:_HASHED_BYTES] + batch.body, digest_size=len(previous))
    new = with_body(batch, batch.body, chain=hasher.digest())
    assert continues(previous, new)
    return new
