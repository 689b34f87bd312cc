"""Reading a journal file from its beginning to its end, piece by piece: its frames, and what they are made of.

    walk_frames(window, tag, start)             what `frames.scan` finds, without the payloads
    walk_records(window, lengths, frame)        the records of a frame, each with its offset

A frame may be as large as a journal file: its checksum is computed piece by piece, and its records are read again
afterwards. Of an entry, only the header is read (`EntryPlace`).

Not here: what damage means for a bookie (`opening.py`), and what there is beside the journal (`inspection.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import attrs

from zab.ledger.bookie.frames import FRAME_HEADER_BYTES, FRAME_MAGIC, Bad, parse_frame_header
from zab.ledger.bookie.records import (
    END,
    ENTRIES,
    EXPLICIT_LAC,
    FENCE,
    LEDGER,
    LIMBO,
    TOMBSTONES,
    Record,
    RecordError,
    parse_records,
)
from zab.ledger.bookie.windows import Window
from zab.ledger.entries.envelope import HEADER_BYTES, header_of
from zab.ledger.entries.keys import KEY_BYTES

_LENGTH: Final = Struct(">I")
_SIZES: Final = {
    LEDGER: 9 + KEY_BYTES,
    FENCE: 9 + KEY_BYTES,
    LIMBO: 9 + KEY_BYTES,
    EXPLICIT_LAC: 13 + KEY_BYTES,
    TOMBSTONES: 17,
    END: 1,
}
"""The bytes of each record, of an explicit LAC without its packet."""
PACKET_BYTES_MAX: Final = 255
"""A state file has no room for a longer packet of an explicit LAC."""


@attrs.frozen
class FramePlace:
    """A readable frame. `synced`: the file was durable up to there when the frame was written. `is_cut`: it comes after
    a stretch that is none, and counts for nothing."""

    offset: int
    end: int
    synced: int
    is_cut: bool = False

    @property
    def records_at(self) -> int:
        return self.offset + FRAME_HEADER_BYTES


@attrs.frozen
class EntryPlace:
    """An entry in a journal: what its header says, which nothing verifies, and where the envelope is."""

    ledger: int
    entry: int
    last_confirmed: int
    length: int
    offset: int
    size: int


Placed: TypeAlias = tuple[int, EntryPlace | Record]
"""A record and its offset in the file."""


def walk_frames(window: Window, tag: bytes, start: int) -> Iterator[FramePlace | Bad]:
    """The frames from `start` on of a file with this tag, and the stretches that are none. Raises OSError."""
    at = start
    while at < window.size:
        header = parse_frame_header(window.read(at, FRAME_HEADER_BYTES), at, tag)
        if header is None:
            if _is_zero(window, at):
                return
            end = _next_frame(window, at + 1, tag)
            yield Bad(at, end, "no frame begins here")
        else:
            length, synced, crc = header
            records_at = at + FRAME_HEADER_BYTES
            end = min(records_at + length, window.size)
            if window.crc(records_at, records_at + length) == crc:
                yield FramePlace(at, end, synced)
            else:
                yield DamagedFrame(at, end, "the records of this frame do not match their checksum", synced)
        at = end


@attrs.frozen
class DamagedFrame(Bad):
    """A frame whose header can be read, and whose records cannot."""

    synced: int


def _is_zero(window: Window, at: int) -> bool:
    """Whether there is nothing but zeros up to the end."""
    return not any(piece.strip(b"\0") for piece in window.pieces(at, window.size))


def _next_frame(window: Window, at: int, tag: bytes) -> int:
    """Where the next frame begins, or the end."""
    overlap = len(FRAME_MAGIC) - 1
    while at < window.size:
        piece = next(window.pieces(at, window.size), b"")
        found = piece.find(FRAME_MAGIC)
        if found < 0:
            if at + len(piece) >= window.size or len(piece) <= overlap:
                break
            at += len(piece) - overlap
            continue
        at += found
        if parse_frame_header(window.read(at, FRAME_HEADER_BYTES), at, tag) is not None:
            return at
        at += 1
    return window.size


def walk_records(window: Window, lengths: Window, frame: FramePlace) -> Iterator[Placed]:
    """The records of a frame whose checksum is right. `lengths` is a second window on the same file.

    Raises RecordError, OSError."""
    at = frame.records_at
    while at < frame.end:
        kind = window.read(at, 1)[0]
        if kind == ENTRIES:
            (count,) = _read(window, at + 1, frame.end)
            lengths_at, envelope_at = at + 5, at + 5 + 4 * count
            if envelope_at > frame.end:
                raise RecordError("a record is cut")
            for number in range(count):
                (size,) = _read(lengths, lengths_at + 4 * number, frame.end)
                yield at, _entry(window, envelope_at, size, frame.end)
                envelope_at += size
            at = envelope_at
            continue
        if kind not in _SIZES:
            raise RecordError(f"a record of the unknown type {kind}")
        size = _SIZES[kind]
        if kind == EXPLICIT_LAC:
            (length,) = _read(window, at + size - 4, frame.end)
            if length > PACKET_BYTES_MAX:
                raise RecordError(f"an explicit LAC of {length} bytes")
            size += length
        if at + size > frame.end:
            raise RecordError("a record is cut")
        for record in parse_records(window.read(at, size)):
            yield at, record
        at += size


def _read(window: Window, at: int, end: int) -> tuple[int]:
    if at + _LENGTH.size > end:
        raise RecordError("a record is cut")
    (value,) = _LENGTH.unpack(window.read(at, _LENGTH.size))
    return (value,)


def _entry(window: Window, at: int, size: int, end: int) -> EntryPlace:
    if size < HEADER_BYTES:
        raise RecordError("an entry is too short")
    if at + size > end:
        raise RecordError("a record is cut")
    return EntryPlace(*header_of(window.read(at, HEADER_BYTES)), at, size)
