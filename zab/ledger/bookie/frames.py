"""Frames of the journal: the form of one write in a journal file, which tells a torn tail from damage.

    journal/<sequence, 16 hex digits>

Each write is one frame with everything that waited: a header, then records (`records.py`). A frame without records is
written when the journal has been idle; all it says is how far the file is synced.

Numbers are big-endian. The header of a file, 64 bytes:

    offset  bytes  field
         0      4  magic "BJNL"
         4      4  version, 2
         8     16  instance
        24     16  uuid
        40      8  sequence
        48      8  where the file before it ended when this one was begun; 0: there was none
        56      4  zeros
        60      4  CRC-32 of bytes 0 to 59

It is written together with the first frame. A frame:

    offset  bytes  field
         0      4  magic "BFRM"
         4      4  length of the records; 0 in an idle frame
         8      8  offset of this frame in the file
        16      8  synced: when this frame was written, the file was durable up to this offset; 0: no part of it
        24      8  tag of the file: BLAKE2b of the sequence (8 bytes), whose key is the identity
        32      4  CRC-32 of the records
        36      4  CRC-32 of bytes 0 to 35
        40      …  records

The **tag** makes frames unforgeable: payloads of clients are in the journal, and one with the bytes of a frame would
look like one after a tear. Clients do not know the uuid, of which a tag is made. It is in no header of a file alone, so
that a damaged header hides no frames.

Let S be the largest `synced` of all frame headers of a file. Of a file that another one follows, S is its end, and the
end that the next one says. Unreadable bytes before S were durable once: they are **damage**. From S on nothing was ever
promised: everything from the first unreadable frame on is **torn**, including valid later frames. Zeros to the end are
preallocated space.

Not here: which files are read, and what damage leads to (`opening.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Final
from zlib import crc32

import attrs

from zab.ledger.bookie.config import Identity
from zab.ledger.bookie.segment import ForeignFileError

DIRECTORY: Final = "journal"
PREPARED: Final = f"{DIRECTORY}/prepared"
"""An empty, preallocated file for the next roll."""
HEADER_BYTES: Final = 64
FRAME_HEADER_BYTES: Final = 40
TAG_BYTES: Final = 8

_HEADER: Final = Struct(">4sI16s16sQQ4x")
_FRAME: Final = Struct(f">4sIQQ{TAG_BYTES}sI")
_CRC: Final = Struct(">I")
_SEQUENCE: Final = Struct(">Q")
_MAGIC: Final = b"BJNL"
FRAME_MAGIC: Final = b"BFRM"
_VERSION: Final = 2

assert _HEADER.size + _CRC.size == HEADER_BYTES
assert _FRAME.size + _CRC.size == FRAME_HEADER_BYTES


def journal_path(sequence: int) -> str:
    return f"{DIRECTORY}/{sequence:016x}"


def pack_header(identity: Identity, sequence: int, previous_end: int) -> bytes:
    """The header of a file."""
    head = _HEADER.pack(_MAGIC, _VERSION, identity.instance, identity.uuid, sequence, previous_end)
    return head + _CRC.pack(crc32(head))


def parse_header(data: bytes, sequence: int) -> tuple[Identity, int] | None:
    """Whose file this is, and where the file before it ended; None if the header is not readable.

    Raises ForeignFileError: it has another version."""
    if len(data) < HEADER_BYTES or crc32(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        return None
    magic, version, instance, uuid, named, previous_end = _HEADER.unpack_from(data)
    if (magic, named) != (_MAGIC, sequence):
        return None
    if version != _VERSION:
        raise ForeignFileError(f"{journal_path(sequence)} has version {version} of the format, not {_VERSION}")
    return Identity(instance, uuid), int(previous_end)


def read_header(data: bytes, sequence: int, identity: Identity) -> int | None:
    """Where the file before it ended; None if the header is not readable. Raises ForeignFileError."""
    found = parse_header(data, sequence)
    if found is None:
        return None
    if found[0] != identity:
        raise ForeignFileError(f"{journal_path(sequence)} belongs to another bookie or another cluster")
    return found[1]


def tag_of(identity: Identity, sequence: int) -> bytes:
    """What is in the header of each frame of a file, and nobody else can know."""
    key = identity.instance + identity.uuid
    return blake2b(_SEQUENCE.pack(sequence), key=key, digest_size=TAG_BYTES).digest()


def pack_frame_header(tag: bytes, offset: int, synced: int, length: int, crc: int) -> bytes:
    """The header of a frame at `offset` with `length` bytes of records, whose checksum is `crc`."""
    assert synced <= offset
    head = _FRAME.pack(FRAME_MAGIC, length, offset, synced, tag, crc)
    return head + _CRC.pack(crc32(head))


@attrs.frozen
class Frame:
    """A readable frame: its place in the file, and its records."""

    offset: int
    end: int
    payload: memoryview


@attrs.frozen
class Bad:
    """A stretch that is no valid frame."""

    offset: int
    end: int
    reason: str


@attrs.define
class Scan:
    """What was read of a file from `start` on."""

    start: int
    synced: int = 0
    """S, as far as this file says."""
    parts: list[Frame | Bad] = attrs.Factory(list)

    def frames_before_tear(self) -> Iterator[Frame]:
        """The frames up to the first bad stretch."""
        for part in self.parts:
            if isinstance(part, Bad):
                return
            yield part

    def damage(self, synced: int) -> Bad | None:
        """The first stretch that was durable once and cannot be read; the file was durable up to `synced`."""
        covered = max(self.synced, synced)
        for part in self.parts:
            if isinstance(part, Bad):
                return part if part.offset < covered else None
        end = self.parts[-1].end if self.parts else self.start
        return Bad(end, covered, "the file ends too early") if end < covered else None


def scan(data: bytes, tag: bytes, start: int) -> Scan:
    """Read the frames of a whole file, whose tag this is, from `start`, across bad stretches."""
    at, found = start, Scan(start)
    view = memoryview(data)
    while at < len(data):
        header = _frame_at(data, at, tag)
        if header is None:
            if data[at] == 0 and data.count(0, at) == len(data) - at:
                break
            end = _next_frame(data, at + 1, tag)
            found.parts.append(Bad(at, end, "no frame begins here"))
        else:
            length, synced, crc = header
            end = min(at + FRAME_HEADER_BYTES + length, len(data))
            payload = view[at + FRAME_HEADER_BYTES : end]
            found.synced = max(found.synced, synced)
            if len(payload) == length and crc32(payload) == crc:
                found.parts.append(Frame(at, end, payload))
            else:
                found.parts.append(Bad(at, end, "the records of this frame do not match their checksum"))
        at = end
    return found


def _frame_at(data: bytes, at: int, tag: bytes) -> tuple[int, int, int] | None:
    """(length, synced, checksum of the records) of the frame at `at`, None if there is none."""
    return parse_frame_header(data[at : at + FRAME_HEADER_BYTES], at, tag)


def parse_frame_header(data: bytes, at: int, tag: bytes) -> tuple[int, int, int] | None:
    """(length, synced, checksum of the records) of the frame whose header this is, at `at` in its file; None: it is
    none."""
    if len(data) < FRAME_HEADER_BYTES:
        return None
    magic, length, offset, synced, tagged, crc = _FRAME.unpack_from(data)
    if magic != FRAME_MAGIC or tagged != tag or offset != at or synced > offset:
        return None
    if crc32(data[: _FRAME.size]) != _CRC.unpack_from(data, _FRAME.size)[0]:
        return None
    return length, synced, crc


def _next_frame(data: bytes, at: int, tag: bytes) -> int:
    """Where the next frame begins, or the end."""
    while (at := data.find(FRAME_MAGIC, at)) >= 0:
        if _frame_at(data, at, tag) is not None:
            return at
        at += 1
    return len(data)
