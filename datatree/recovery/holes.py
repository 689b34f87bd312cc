"""Holes of a log: unreadable batches between readable ones, and how other members fill them (C9 holes).

    hole = find_hole(disk, recovered)    in a directory with damage; None if nothing could prove what was there
    hole.wanted                          after which position batches are missing, and up to which zxid
    hole.take(batch)                     the next of them, from any member, in whatever state it is
    fill(disk, hole)                     once it is complete: the next recovery finds no hole there

    read_history(disk, …)                for the other side: what this directory has of what is wanted

The chain proves the bytes: an intact batch after the hole, or the header of the next file, has the chain at that point.
So a filled history is byte for byte the one that was written here, and its member counts as before. If nothing intact
follows, it is unknown how far the log went: that is not a hole, and only a leader with a quorum without this member can
continue (C6 damaged histories).

One hole is filled at a time, the first; the next recovery finds the next. The file in which it begins is rewritten up
to that point, since the intact batches of a damaged frame cannot be read there; what follows goes into new files. The
newest is written first, each atomically, so a power cut leaves a smaller hole.

Not here: which members are asked, and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, field

from datatree.log.batch import Batch, Position, continues, follows, genesis
from datatree.log.disk import Disk
from datatree.log.frame import Bad, Frame, Scan, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, log_files, log_path, read_segment_header
from datatree.log.transaction_log import write_segment
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.recovery.recovered import Recovered

__all__ = ["HOLE_BYTES_MAX", "Hole", "HoleError", "fill", "find_hole", "read_history"]

HOLE_BYTES_MAX: Final = 256 << 20
"""The most that may be missing: it is kept in memory until it is proven."""


class HoleError(Exception):
    """What arrived is not what is missing; the text says why."""


@define
class Front:
    """A part of a log file."""

    first: int
    previous: Position
    batches: list[Batch]


@define
class Hole:
    """The first hole of a log. All positions are those of batch ends."""

    lineage: bytes
    after: Position
    """Where the intact part ends."""
    kept: list[Batch]
    """The intact batches after the hole, ascending, up to the file of `end`."""
    end: Position | None
    """Where the next file continues, according to its header; None if `kept` is the end of the log."""
    headless: list[int]
    """The files with `kept` in them whose headers cannot be read, by the first zxids in their names."""
    front: Front | None
    """The intact part of the file in which the hole begins; None if that file can stay as it is."""
    batches: list[Batch] = field(factory=list)
    """The missing batches received so far, from `after` on without a gap."""
    _kept_count: int = 0
    _taken_bytes: int = 0

    def __attrs_post_init__(self) -> None:
        self._go_on()

    @property
    def position(self) -> Position:
        """Where `batches` ends."""
        return _end(self.batches, self.after)

    @property
    def wanted(self) -> tuple[Position, Zxid] | None:
        """After which position, and up to which zxid, the next batches are missing; None if none is."""
        if self._kept_count < len(self.kept):
            return self.position, Zxid(self.kept[self._kept_count].first - 1)
        if self.end is not None and self.position != self.end:
            return self.position, self.end[0]
        return None

    def anew(self) -> Hole:
        """Where batches were missing at first, before any were taken."""
        return Hole(self.lineage, self.after, self.kept, self.end, self.headless, self.front)

    def take(self, batch: Batch) -> None:
        """Take the next missing batch. Raises HoleError."""
        if self.wanted is None:
            raise HoleError("nothing is missing")
        (zxid, chain), upto = self.wanted
        if batch.zxid > upto or not follows(zxid, batch) or not continues(chain, batch):
            raise HoleError(f"batch {batch.first:#x} to {batch.zxid:#x} does not go on after {zxid:#x}")
        self._taken_bytes += len(batch.raw)
        if self._taken_bytes > HOLE_BYTES_MAX:
            raise HoleError(f"more than {HOLE_BYTES_MAX} bytes are missing")
        self.batches.append(batch)
        self._go_on()
        if self.cannot_be_filled:
            raise HoleError(f"another history follows {batch.zxid:#x}")

    @property
    def cannot_be_filled(self) -> bool:
        """Whether there is a gap without any place for batches."""
        return self.wanted is not None and self.wanted[1] <= self.position[0]

    def _go_on(self) -> None:
        """Extend `batches` with what is intact, as far as the chain continues."""
        while self._kept_count < len(self.kept):
            zxid, chain = self.position
            batch = self.kept[self._kept_count]
            if not follows(zxid, batch) or not continues(chain, batch):
                return
            self.batches.append(batch)
            self._kept_count += 1


def find_hole(disk: Disk, recovered: Recovered) -> Hole | None:
    """The first hole in what `recover` found; changes nothing. Raises OSError."""
    if not recovered.damage or not recovered.lineage:
        return None
    after = recovered.last
    found = _Behind(after)
    for file in _files(disk, recovered.lineage, after):
        if file.previous is not None and file.previous[0] > after[0]:
            found.end = file.previous
            break
        found.read(file, file.scan(disk))
    if found.end is None and (found.is_unknown or not found.kept):
        return None
    front = _front(disk, recovered.lineage, after)
    hole = Hole(recovered.lineage, after, found.kept, found.end, found.headless, front)
    return None if hole.wanted is None or hole.cannot_be_filled else hole


def fill(disk: Disk, hole: Hole) -> bool:
    """Write the missing batches and the intact ones after them, durably. False if the files are not as they should be;
    then nothing is changed. Raises OSError."""
    assert hole.wanted is None, "something is missing still"
    place = {batch.first: number for number, batch in enumerate(hole.batches)}
    if not all(first in place for first in hole.headless):
        return False
    starts = sorted({0, *(place[Zxid(first)] for first in hole.headless)})
    end = len(hole.batches)
    for start in reversed(starts):
        batches, previous = hole.batches[start:end], _end(hole.batches[:start], hole.after)
        write_segment(disk, SegmentHeader(hole.lineage, previous, batches[0].first), batches)
        end = start
    if hole.front is not None:
        header = SegmentHeader(hole.lineage, hole.front.previous, hole.front.first)
        write_segment(disk, header, hole.front.batches)
    return True


def read_history(disk: Disk, lineage: bytes, after: Position, upto: Zxid, bytes_max: int) -> list[Batch]:
    """The intact batches here after that position, each continuing the previous one: at least one if there is one, and
    at most about `bytes_max` bytes. Any damage ends it. Raises OSError."""
    found: list[Batch] = []
    size, (zxid, chain) = 0, after
    for file in _files(disk, lineage, after):
        for batch in file.batches(disk):
            if batch.zxid <= zxid:
                continue
            is_next = batch.zxid <= upto and follows(zxid, batch) and continues(chain, batch)
            if not is_next or (found and size + len(batch.raw) > bytes_max):
                return found
            found.append(batch)
            size += len(batch.raw)
            zxid, chain = batch.zxid, batch.chain
    return found


@define
class _File:
    first: int
    previous: Position | None
    """None if its header cannot be read."""
    cutoff: Position | None
    """From where on the next file counts, according to its header."""
    is_newest: bool

    def scan(self, disk: Disk) -> Scan:
        return scan(disk.read(log_path(self.first)), self.first, SEGMENT_HEADER_BYTES)

    def batches(self, disk: Disk) -> Iterator[Batch]:
        """The intact batches in it that are not void."""
        for part in self.scan(disk).parts:
            for batch in _intact(part):
                if self.cutoff is None or batch.zxid <= self.cutoff[0]:
                    yield batch


def _files(disk: Disk, lineage: bytes, after: Position | None = None) -> list[_File]:
    """The files of this lineage, in order, that may have something after that position."""
    names: list[tuple[int, Position | None]] = []
    for first in log_files(disk):
        header = read_segment_header(disk.read(log_path(first), 0, SEGMENT_HEADER_BYTES), first)
        if header is None or header.lineage == lineage:
            names.append((first, None if header is None else header.previous))
    files = []
    for number, (first, previous) in enumerate(names, 1):
        cutoff = names[number][1] if number < len(names) else None
        if cutoff is None or after is None or cutoff[0] > after[0]:
            files.append(_File(first, previous, cutoff, number == len(names)))
    return files


def _front(disk: Disk, lineage: bytes, after: Position) -> Front | None:
    """The intact part of the file with that position. None if its first batch is the one missing, or if the file has
    another hole, below a snapshot."""
    files = [file for file in _files(disk, lineage) if file.first <= after[0]]
    if not files:
        return None
    file = files.pop()
    previous = file.previous
    if previous is None:
        earlier = list(files[-1].batches(disk)) if files else []
        previous = _end(earlier, (BEFORE_ALL, genesis(lineage)))
    batches: list[Batch] = []
    for part in file.scan(disk).parts:
        batches += [batch for batch in _intact(part) if batch.zxid <= after[0]]
        if isinstance(part, Bad):
            break
    is_known = batches and follows(previous[0], batches[0]) and continues(previous[1], batches[0])
    return Front(file.first, previous, batches) if is_known and _end(batches, previous) == after else None


@define
class _Behind:
    """The intact batches after a position, while the files are read."""

    after: Position
    kept: list[Batch] = field(factory=list)
    headless: list[int] = field(factory=list)
    end: Position | None = None
    is_unknown: bool = False
    """Something durable could not be read, and nothing intact follows it."""

    def read(self, file: _File, found: Scan) -> None:
        if file.previous is None and file.first > self.after[0]:
            self.headless.append(file.first)
        if file.previous is not None:
            # It continues at or before that position: later batches of an earlier file are void.
            self.kept.clear()
            self.headless.clear()
            self.is_unknown = False
        for part in found.parts:
            if isinstance(part, Bad) and file.is_newest and part.offset >= found.synced:
                return  # torn
            for batch in _intact(part):
                is_void = file.cutoff is not None and batch.zxid > file.cutoff[0]
                if batch.zxid > _end(self.kept, self.after)[0] and not is_void:
                    self.kept.append(batch)
                    self.is_unknown = False
            self.is_unknown |= isinstance(part, Bad)


def _intact(part: Frame | Bad) -> list[Batch]:
    return part.kept if isinstance(part, Bad) else part.batches


def _end(batches: list[Batch], previous: Position) -> Position:
    """Where the batches that begin there end."""
    return (batches[-1].zxid, batches[-1].chain) if batches else previous
