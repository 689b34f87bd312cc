"""Reads the record batches of a replica between two offsets: headers in bulk, checksums, and what is wrong.

    with the log file's bytes in pieces     where each batch begins, a step per batch (`arrays.walk`)
                                            all headers at once (`HEADER`)
                                            CRC-32C of each batch

A look-up begins where the offset index says. An index has no checksum, so its place is only believed if a batch begins
there that is not above the offset; otherwise the file is read from its beginning. What is at or above the end is not
looked at: a torn end of a log that is being written is above the high watermark.

What is wrong is yielded as a `Fault` in its place, and reading goes on after it: at the next batch if the lengths still
lead to one, else at the next place that the index knows, else in the next segment.

Invariants: offsets rise. At and above `Replica.cleaned` they do without a gap, which is told as damage otherwise. A
piece has PIECE_BYTES, or one batch of up to BATCH_BYTES_MAX. Deliberately not here: records (`decoding.topic_records`).
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from attrs import define, frozen
from numpy.typing import NDArray

from zab.partition.log.offset_index import IndexDamagedError, OffsetIndex
from zab.partition.log.paths import INDEX
from zab.partition.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_BIT,
    Codec,
)
from zab.partition.records.libraries import MissingLibraryError, crc32c
from zab.pipeline.decoding.arrays import Integers, Mask, gather, walk
from zab.pipeline.decoding.damage import DAMAGED, GAP, TORN, UNREADABLE, Damage, Kind
from zab.pipeline.errors import PipelineError
from zab.pipeline.places import OpenFile
from zab.pipeline.topics.replicas import Replica, Segment

__all__ = ["HEADER", "Batches", "Fault", "batches", "end_of", "offset_index"]

PIECE_BYTES: Final = 4 << 20
BATCH_BYTES_MAX: Final = 256 << 20
"""A longer batch is told as damage; a broker takes at most `max.message.bytes`, 1 MiB."""

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "u1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""The header of a batch (`zab.partition.records.batch`), as numpy sees it."""
assert HEADER.itemsize == HEADER_BYTES
_CRC_FROM: Final = 21
_LENGTH_AT: Final = 8
_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_END


@define(eq=False)
class Batches:
    """Whole batches of one file: `data` begins at `position` of it, batch k at `at[k]` of `data`."""

    segment: Segment
    position: int
    data: bytes
    at: Integers
    headers: NDArray[Any]

    @property
    def last_offsets(self) -> Integers:
        return last_offsets(self.headers)

    @property
    def is_control(self) -> Mask:
        found: Mask = (self.headers["attributes"] & CONTROL_BIT) != 0
        return found

    @property
    def is_transactional(self) -> Mask:
        found: Mask = (self.headers["attributes"] & TRANSACTIONAL_BIT) != 0
        return found

    def only(self, keep: Mask) -> "Batches":
        """The batches where `keep` is set."""
        return (
            self if keep.all() else Batches(self.segment, self.position, self.data, self.at[keep], self.headers[keep])
        )


@frozen
class Fault:
    """Damage in one of the log files of a replica."""

    segment: Segment
    damage: Damage

    @property
    def sentence(self) -> str:
        """Which file, where, and what is wrong."""
        if self.damage.kind == GAP:
            return f"{self.segment.place} has a gap at byte {self.damage.offset}: {self.damage.reason}"
        return f"{self.segment.place} is damaged at byte {self.damage.offset}: {self.damage.reason}"


def last_offsets(headers: NDArray[Any]) -> Integers:
    found: Integers = headers["base_offset"].astype(np.int64) + headers["last_offset_delta"]
    return found


def offset_index(replica: Replica, segment: Segment) -> OffsetIndex | None:
    """The offset index of a segment; None if there is none that can be used."""
    place = segment.beside(INDEX)
    if place.name not in replica.others:
        return None
    try:
        return OffsetIndex.parse(place.read(), segment.size)
    except (OSError, IndexDamagedError):
        return None


@define
class _Progress:
    """Between the pieces of one read."""

    start: int
    until: int
    after: int = -1
    """The last offset seen: what comes is above it."""
    has_lost: bool = False
    """The last stretch was damaged, so the offsets after it do not follow."""
    is_done: bool = False


def batches(
    replica: Replica, start: int, until: int, *, checks: bool = True, piece_bytes: int = PIECE_BYTES
) -> Iterator[Batches | Fault]:
    """Yield all batches with offsets in [start, until), and what is damaged there. A batch may reach over either end.

    Without `checks`, checksums are not computed. Raises PipelineError if a library is missing."""
    progress = _Progress(start, until)
    last: Segment | None = None
    for segment in replica.segments:
        if progress.is_done or segment.base >= until:
            break
        if segment.following is None or segment.following > start:
            last = segment
            yield from _segment(replica, segment, progress, checks, piece_bytes)
    expected = max(start, progress.after + 1)
    is_lost = not progress.is_done and not progress.has_lost and replica.cleaned <= expected < until
    if is_lost and last is not None:
        yield Fault(last, Damage(last.size, None, GAP, f"offsets {expected} to {until - 1} are missing"))


def _segment(
    replica: Replica, segment: Segment, progress: _Progress, checks: bool, piece_bytes: int
) -> Iterator[Batches | Fault]:
    try:
        with segment.place.open() as file:
            yield from _SegmentReader(replica, segment, file, progress, checks, piece_bytes).read()
    except OSError as error:
        yield Fault(segment, Damage(0, None, UNREADABLE, error.strerror or str(error)))


@define
class _SegmentReader:
    """One log file, from the offset `progress.start` on."""

    replica: Replica
    segment: Segment
    file: OpenFile
    progress: _Progress
    checks: bool
    piece_bytes: int

    def read(self) -> Iterator[Batches | Fault]:
        """Yield what is in the file up to `progress.until`. Raises OSError."""
        size = self.segment.size
        position = self._begin()
        while position < size and not self.progress.is_done:
            data = self._piece(position)
            at, stop = self._batches_of(data)
            found = Batches(self.segment, position, data, at, gather(data, at, HEADER))
            good, reason, kind = self._judge(found)
            if self.checks:
                bad = self._bad_checksum(found, good)
                if bad is not None:
                    good, reason, kind = bad, "the checksum of the batch does not match", DAMAGED
                    self.progress.is_done = False
            yield from self._in_order(found, good)
            if self.progress.is_done:
                return
            if good < len(at):
                wrong = position + int(at[good])
                if kind == GAP:
                    yield self._fault(wrong, wrong, GAP, reason)
                    position = wrong
                else:
                    position = self._after(wrong, int(found.headers["batch_length"][good]))
                    yield self._fault(wrong, position, kind, reason)
                self.progress.has_lost = True
            elif not stop:
                wrong, position = position, self._after(position, 0)
                is_end = self.segment.following is None and position >= size
                reason = "the batch is not whole, or its length is impossible"
                yield self._fault(wrong, position, TORN if is_end else DAMAGED, reason)
                self.progress.has_lost = True
            else:
                position += stop

    def _fault(self, begin: int, end: int, kind: Kind, reason: str) -> Fault:
        return Fault(self.segment, Damage(begin, end if end < self.segment.size else None, kind, reason))

    def _in_order(self, found: Batches, count: int) -> Iterator[Batches]:
        """Yield those of the first `count` batches that reach the start."""
        if not count:
            return
        ordered = found.only(np.arange(len(found.at)) < count)
        self.progress.after = int(ordered.last_offsets[-1])
        self.progress.has_lost = False
        wanted = ordered.only(ordered.last_offsets >= self.progress.start)
        if len(wanted.at):
            yield wanted

    def _begin(self) -> int:
        """The position from which on the file is read."""
        relative = self.progress.start - self.segment.base
        if relative <= 0:
            return 0
        index = offset_index(self.replica, self.segment)
        position = 0 if index is None else index.floor(relative)
        header = self._header(position) if position else None
        is_right = header is not None and self.segment.base <= int(header["base_offset"]) <= self.progress.start
        return position if is_right else 0

    def _header(self, position: int) -> Any | None:
        """The header at a position, if one that may be right is there."""
        data = self.file.read(position, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        header = np.frombuffer(data, HEADER)[0]
        fits = _LENGTH_MIN <= header["batch_length"] <= self.segment.size - position - LENGTH_END
        return header if header["magic"] == MAGIC and fits else None

    def _piece(self, position: int) -> bytes:
        """Bytes with at least one batch in them, if one is there."""
        left = self.segment.size - position
        data = self.file.read(position, min(left, self.piece_bytes))
        if len(data) >= LENGTH_END:
            whole = LENGTH_END + int.from_bytes(data[_LENGTH_AT:LENGTH_END], "big", signed=True)
            if len(data) < whole <= min(left, BATCH_BYTES_MAX):
                return self.file.read(position, whole)
        return data

    def _batches_of(self, data: bytes) -> tuple[Integers, int]:
        """(where the batches begin, where the last whole one ends)."""
        at, _, stops = walk(data, np.zeros(1, np.int64), np.array([len(data)], np.int64), _LENGTH_AT, LENGTH_END)
        whole = at[at + HEADER_BYTES <= len(data)]
        return whole, int(stops[0]) if len(whole) == len(at) else int(at[len(whole)])

    def _judge(self, found: Batches) -> tuple[int, str, Kind]:
        """(how many batches are in order and begin below the end, why the next one is not, which kind of damage).

        Notes whether the end is reached."""
        headers = found.headers
        if not len(headers):
            return 0, "", DAMAGED
        bases, lasts = headers["base_offset"].astype(np.int64), last_offsets(headers)
        before = np.concatenate(([self.progress.after], lasts[:-1]))
        checks = (
            (headers["magic"] != MAGIC, "its format is not version 2"),
            ((headers["batch_length"] < _LENGTH_MIN) | (headers["last_offset_delta"] < 0), "a length is impossible"),
            ((headers["attributes"] & CODEC_MASK) > Codec.ZSTD, "its codec is unknown"),
            (headers["record_count"] < 0, "it has a negative count of records"),
            ((bases <= before) | (bases < self.segment.base), "its offsets do not follow those before it"),
        )
        first, reason = len(headers), ""
        kind: Kind = DAMAGED
        for wrong, why in checks:
            number = int(np.argmax(wrong)) if wrong.any() else first
            if number < first:
                first, reason = number, f"{why} (base offset {bases[number]})"
        expected = np.maximum(before + 1, self.progress.start)
        jumps = (bases > expected) & (expected >= self.replica.cleaned)
        jumps[0] &= not self.progress.has_lost
        number = int(np.argmax(jumps)) if jumps.any() else first
        if number < first and expected[number] < self.progress.until:
            first, kind = number, GAP
            reason = f"offsets {expected[number]} to {bases[number] - 1} are missing"
        beyond = bases[:first] >= self.progress.until
        if beyond.any():
            self.progress.is_done = True
            return int(np.argmax(beyond)), "", DAMAGED
        if first and lasts[first - 1] >= self.progress.until - 1:
            self.progress.is_done = True
        return first, reason, kind

    def _bad_checksum(self, found: Batches, count: int) -> int | None:
        """The first of `count` batches whose checksum does not match, of those that reach the start."""
        try:
            compute = crc32c()
        except MissingLibraryError as error:
            raise PipelineError(str(error)) from None
        view = memoryview(found.data)
        first = int(np.searchsorted(found.last_offsets[:count], self.progress.start))
        at, lengths = found.at[first:count].tolist(), found.headers["batch_length"][first:count].tolist()
        crcs = found.headers["crc"][first:count].tolist()
        for number, (begin, length, crc) in enumerate(zip(at, lengths, crcs, strict=True), first):
            if compute(view[begin + _CRC_FROM : begin + LENGTH_END + length]) != crc:
                return number
        return None

    def _after(self, wrong: int, length: int) -> int:
        """Where reading goes on after a batch that is not in order."""
        following = wrong + LENGTH_END + length
        if length >= _LENGTH_MIN and (following == self.segment.size or self._header(following) is not None):
            return following
        index = offset_index(self.replica, self.segment)
        places = [] if index is None else [position for _, position in index.entries if position > wrong]
        return next((position for position in places if self._header(position) is not None), self.segment.size)


def end_of(replica: Replica) -> int:
    """The offset after the last whole batch of a replica, as far as its headers say; checksums are not looked at."""
    if not replica.segments:
        return replica.start
    last = replica.segments[-1]
    index = offset_index(replica, last)
    entries = [] if index is None else index.entries
    start = last.base + entries[-1][0] if entries else last.base
    end = max(replica.start, start)
    for found in batches(replica, start, (1 << 63) - 1, checks=False):
        if isinstance(found, Fault):
            if found.damage.kind != GAP:
                return end
        elif len(found.at):
            end = max(end, int(found.last_offsets[-1]) + 1)
    return end
