"""Local frames: the form of one write in a log file, which tells a torn tail from damage.

Each write of the log is one frame: a header, then whole batches, unchanged. A frame without batches is written when the
log has been idle; all it says is how far the file is synced.

Format, big-endian (28 bytes of header, then the batches):

    offset  bytes  field
         0      4  magic "ZFRM"
         4      4  length of the batches in bytes; 0 in an idle frame
         8      8  offset of this frame in the file
        16      8  synced: when this frame was written, the file was durable up to (not including) this offset; 0 if
                   no part of the file was
        24      4  CRC-32 of bytes 0 to 23, begun with the first zxid of the file's name (8 bytes)
        28      …  batches, each with its own checksums (`datatree.log.batch`)

The batches are not covered by a checksum of the frame: every one of their bytes has one already. After a bad stretch, a
frame is found by its magic, and only accepted if its checksum, its offset and its file agree, so that client data that
looks like a frame, or a stale sector, is not.

Let S be the largest `synced` of all frame headers of a file. Unreadable bytes before S were durable once: they are
damage. From S on nothing was ever promised: everything from the first unreadable frame on is torn, including valid
later frames. Zeros to the end of the file are preallocated space.
"""

import struct
from collections.abc import Iterable
from zlib import crc32

from attrs import define, field

from datatree.log.batch import BODY_BYTES_MAX, Batch, BatchError, parse

MAGIC = b"ZFRM"
_HEAD = struct.Struct(">4sIQQ")
_CRC = struct.Struct(">I")
_ZXID = struct.Struct(">Q")
FRAME_HEADER_BYTES = _HEAD.size + _CRC.size

assert FRAME_HEADER_BYTES == 28


def seed_of(first_zxid: int) -> int:
    """The initial value for the frame checksums of a file; it is derived from the name, so that a damaged file header
    does not hide frames."""
    return crc32(_ZXID.pack(first_zxid))


def pack_frame(seed: int, offset: int, synced: int, raws: Iterable[bytes] = ()) -> bytes:
    """Encode one frame for `offset` of the file with these batches (raw bytes)."""
    assert synced <= offset
    payload = b"".join(raws)
    head = _HEAD.pack(MAGIC, len(payload), offset, synced)
    return b"".join((head, _CRC.pack(crc32(head, seed)), payload))


def read_header(data: bytes, at: int, seed: int, base: int = 0) -> tuple[int, int] | None:
    """(length, synced) of the frame at `data[at]`, which is at `base + at` of the file; None if there is none."""
    if len(data) < at + FRAME_HEADER_BYTES:
        return None
    magic, length, offset, synced = _HEAD.unpack_from(data, at)
    if magic != MAGIC or offset != base + at or synced > offset:
        return None
    if crc32(data[at : at + _HEAD.size], seed) != _CRC.unpack_from(data, at + _HEAD.size)[0]:
        return None
    return length, synced


@define
class Frame:
    """One readable frame of a scanned file. `ends[i]` is the offset in the file after `batches[i]`."""

    offset: int
    end: int
    batches: list[Batch]
    ends: list[int]


@define
class Bad:
    """A stretch of a scanned file that is not a valid frame. `offset` is the frame's, `at` that of the first bad byte
    range in it; `kept` are the intact batches of the frame before that."""

    offset: int
    end: int
    at: int
    reason: str
    kept: list[Batch]


@define
class Scan:
    """A whole file from its first frame on: `parts` in file order, `synced` = S, `size` as on disk."""

    synced: int
    size: int
    parts: list[Frame | Bad] = field(factory=list)

    @property
    def end(self) -> int:
        """The offset after the last readable frame; 0 without one."""
        return max((part.end for part in self.parts if isinstance(part, Frame)), default=0)


def scan(data: bytes, first_zxid: int, start: int) -> Scan:
    """Read all frames of a file from `start`, across bad stretches."""
    seed = seed_of(first_zxid)
    result = Scan(0, len(data))
    at = start
    while at < len(data):
        header = read_header(data, at, seed)
        if header is None:
            if data[at] == 0 and data.count(0, at) == len(data) - at:
                break
            end = _find(data, at + 1, seed)
            result.parts.append(Bad(at, end, at, "no frame header", []))
        else:
            length, synced = header
            end = min(at + FRAME_HEADER_BYTES + length, len(data))
            result.synced = max(result.synced, synced)
            result.parts.append(_read_payload(data, at, at + FRAME_HEADER_BYTES + length))
        at = end
    return result


def _find(data: bytes, at: int, seed: int) -> int:
    """The offset of the next frame header, or the end."""
    while (at := data.find(MAGIC, at)) >= 0:
        if read_header(data, at, seed) is not None:
            return at
        at += 1
    return len(data)


def _read_payload(data: bytes, offset: int, end: int) -> Frame | Bad:
    frame = Frame(offset, end, [], [])
    at = offset + FRAME_HEADER_BYTES
    view = memoryview(data)[:end]
    while at < end:
        try:
            batch = parse(view, at, BODY_BYTES_MAX)
        except BatchError as error:
            return Bad(offset, min(end, len(data)), at, error.reason, frame.batches)
        at += len(batch.raw)
        frame.batches.append(batch)
        frame.ends.append(at)
    return frame
