"""The transaction log of one member: batches in the order of the history, durable when `append` returns.

It is a list of files (`datatree.log.segment`), each a sequence of local frames (`datatree.log.frame`). Only the newest
is written to, and only by the process that created it: after a restart, a roll or a truncation the next append begins a
new file.

Invariants:
- `last` is durable; what is in the files beyond it was cut off before anything else was appended.
- The files follow each other: `segments[i].last == segments[i + 1].previous`; `first_position` is before the oldest.
- The mark in `version-1/committed` is at most `last`. A truncation never goes below it.
- Any failure of a write, sync or rename is final: the object refuses every further use, and the process has to go back
  to recovery, because what a failed sync left in the file cannot be known.

Everything here is synchronous. `append`, `idle`, `roll`, `truncate`, `reset` and `close` belong to one thread;
`preallocate` may run in a second, `floor`, `read` and `read_from` in others, but not beside `truncate` or `reset`.

Deliberately not here: when to roll, idle or preallocate (the host says), what may be truncated (the peer decides),
group commit (batches come grouped), and retries.
"""

from bisect import bisect_right

from attrs import define, field

from datatree.log.aside import CONFLICT, DAMAGED, STALE, aside_path, set_aside, set_aside_logs
from datatree.log.batch import CHAIN_BYTES, LINEAGE_BYTES, Batch, Position, follows, genesis
from datatree.log.disk import Disk, File, Then
from datatree.log.epochs import DIRECTORY, forget_member, save_mark
from datatree.log.frame import FRAME_HEADER_BYTES, pack_frame, seed_of
from datatree.log.segment import (
    SEGMENT_HEADER_BYTES,
    Index,
    LogDamagedError,
    Segment,
    SegmentHeader,
    SparseIndex,
    index_path,
    log_path,
)
from datatree.log.zxid import BEFORE_ALL, Zxid

SEGMENT_BYTES = 64 << 20
"""The size at which a file is full and the next one begins, and how much is preallocated: ZooKeeper's preAllocSize."""
SPARE = f"{DIRECTORY}/log.spare"
RESERVE = f"{DIRECTORY}/reserve"
"""A file without content that reserves room on the log's disk. The writer of the log decides when to release it."""


class LogFailedError(Exception):
    """The log failed before and cannot be used any longer."""


class NotHeldError(Exception):
    """The log does not have this position: it is older than what is kept, or not in this history."""


@define
class LogContents:
    """What recovery found: the files that make up the log, and where it ends."""

    lineage: bytes = b""
    segments: list[Segment] = field(factory=list)
    last: Position = (BEFORE_ALL, bytes(CHAIN_BYTES))
    mark: int = 0
    damaged: bool = False
    """A part of it is unreadable: it may be read up to `last` and reset, but not continued."""


class TransactionLog:
    """A member's log. `last` is (zxid, chain) of the last durable batch; before the first one, where the log starts."""

    def __init__(self, disk: Disk, contents: LogContents, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.disk = disk
        self.lineage = contents.lineage
        self.last = contents.last
        self.mark = contents.mark
        self.segment_bytes = segment_bytes
        self._damaged = contents.damaged
        self._sound = True
        self._segments = list(contents.segments)
        self._file: File | None = None
        self._index = Index(0)
        self._seed = 0
        self._synced_end = 0
        self._idle_framed = False
        self._has_spare = False
        assert self.mark <= self.last[0]
        for one, next_one in zip(self._segments, self._segments[1:], strict=False):
            assert one.last == next_one.previous
        assert not self._segments or self._segments[-1].last == self.last

    # What it holds.

    @property
    def first_position(self) -> Position:
        """The position before the oldest batch that is kept: the oldest from which `read` can go on."""
        segments = self._segments
        return segments[0].previous if segments else self.last

    @property
    def is_damaged(self) -> bool:
        """Whether a part of what is on disk is unreadable: then it may only be reset."""
        return self._damaged

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The files, oldest first."""
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(segment.end for segment in self._segments)

    @property
    def current_bytes(self) -> int:
        """The size of the file being written; 0 right after a roll."""
        return self._synced_end if self._file is not None else 0

    # Writing.

    def append(self, batches: list[Batch], then: Then | None = None) -> None:
        """Write these batches, which follow `last`, as one frame; durable when it returns. `then` is called as soon as
        they are. An OSError is final."""
        if not batches:
            return
        zxid = self.last[0]
        for batch in batches:
            assert follows(zxid, batch), f"{batch.first:#x} does not follow {zxid:#x}"
            zxid = batch.zxid
        assert not self._damaged, "a damaged history is not continued"
        raws = [batch.raw for batch in batches]
        if self._synced_end + sum(map(len, raws)) > self.segment_bytes:
            self.roll()
        self._begin_change()
        if self._file is None:
            self._file = self._begin_segment(batches[0].first, raws)
            if then is not None:
                then()
        else:
            self._file.write_durable(pack_frame(self._seed, self._synced_end, self._synced_end, raws), then)
        self._appended(batches)
        self._sound = True

    def _begin_segment(self, first: int, raws: list[bytes]) -> File:
        """Make the file, with its first frame, and make its name durable."""
        header = SegmentHeader(self.lineage, self.last, first)
        path = log_path(first)
        if self._has_spare:
            self._has_spare = False
            self.disk.rename(SPARE, path)
            file = self.disk.open_append(path, create=False)
        else:
            file = self.disk.open_append(path, create=True)
        self._seed = seed_of(first)
        file.write_durable(header.pack() + pack_frame(self._seed, SEGMENT_HEADER_BYTES, 0, raws))
        self.disk.sync_directory(DIRECTORY)
        self._index = Index(header.previous[0])
        self._segments.append(Segment(path, first, self.last, self.last, SEGMENT_HEADER_BYTES, SparseIndex()))
        return file

    def _appended(self, batches: list[Batch]) -> None:
        """Note where the batches are, which are durable now."""
        assert self._file is not None
        segment, index = self._segments[-1], self._index
        end = self._file.size
        at = end - sum(len(batch.raw) for batch in batches)
        assert segment.index is not None
        for batch in batches:
            index.add(at, batch)
            segment.index.add(at, batch.zxid)
            at += len(batch.raw)
        segment.end = self._synced_end = end
        segment.last = self.last = batches[-1].zxid, batches[-1].chain
        self._idle_framed = False

    def idle(self) -> None:
        """Write a frame that records how far the file is synced, so that the next start has nothing to copy. Call it
        when nothing was appended for 50 ms. An OSError is final."""
        self._check_sound()
        if self._file is None or self._idle_framed:
            return
        self._begin_change()
        self._file.write_durable(pack_frame(self._seed, self._synced_end, self._synced_end))
        self._segments[-1].end = self._synced_end = self._file.size
        self._idle_framed = True
        self._sound = True

    def roll(self) -> None:
        """End the current file: the next append begins a new one. An OSError is final."""
        self._check_sound()
        if self._file is None:
            return
        self._begin_change()
        self._file.close()
        self._file = None
        self._synced_end = 0
        self._segments[-1].write_index(self.disk, self._index)
        self._sound = True

    def close(self) -> None:
        """Stop cleanly, so that the next start has nothing to copy. The log cannot be used afterwards."""
        self.idle()
        self.roll()
        self._sound = False

    def preallocate(self, room_bytes: int = 0) -> None:
        """Allocate the next file ahead of time, so that `append` need not, unless that would leave less room than this.
        Not for the log thread: it takes time."""
        if not self._has_spare and self.disk.free_bytes() >= self.segment_bytes + room_bytes:
            self.disk.preallocate(SPARE, self.segment_bytes)
            self._has_spare = True

    def set_mark(self, zxid: int) -> None:
        """Note the high-water mark for readers of the files, at most what is durable here. Not synced."""
        mark = min(zxid, self.last[0])
        if mark > self.mark:
            self.mark = mark
            save_mark(self.disk, self.lineage, mark)

    def _begin_change(self) -> None:
        """Mark the log as unsound until the change is complete; an exception in between leaves it so."""
        self._check_sound()
        assert len(self.lineage) == LINEAGE_BYTES, "a history begins with its lineage"
        self._sound = False

    def _check_sound(self) -> None:
        if not self._sound:
            raise LogFailedError("the log failed before, or is closed; recover it")

    # Cutting.

    def truncate(self, zxid: Zxid, chain: bytes, *, conflict: bool = False) -> None:
        """Cut off every batch above (zxid, chain), newest files first; durable when it returns.

        What is cut is kept beside the log, as stale files, which retention removes in time. With `conflict` it differs
        from another member's bytes at the same zxid, and stays until an operator has seen it (A5 conflicts).

        Raises NotHeldError if that is not a batch end of this history. An OSError is final.
        """
        assert zxid >= self.mark, f"{zxid:#x} is below the high-water mark {self.mark:#x}"
        if self.floor(zxid) != (zxid, chain):
            raise NotHeldError(f"{zxid:#x} with this chain is no batch end of this log")
        suffix = CONFLICT if conflict else STALE
        self.roll()
        self._begin_change()
        while self._segments and self._segments[-1].previous[0] >= zxid:
            # The name is gone before the next older file goes, or a power cut could leave a gap.
            set_aside(self.disk, self._segments.pop().path, suffix)
        if self._segments and self._segments[-1].last[0] > zxid:
            self._cut_segment(self._segments[-1], (zxid, chain), suffix)
        self.last = zxid, chain
        self._sound = True

    def _cut_segment(self, segment: Segment, end: Position, suffix: str) -> None:
        """Cut within a file. If a frame is cut in two, its remaining batches first go into a separate file, whose
        rename is the moment of the truncation."""
        position = segment.previous
        cut = SEGMENT_HEADER_BYTES
        kept: list[Batch] = []
        tail: list[Batch] = []
        for frame_end, batches in segment.frames(self.disk):
            if tail or (batches and batches[-1].zxid > end[0]):
                kept += [batch for batch in batches if batch.zxid <= end[0]]
                tail += [batch for batch in batches if batch.zxid > end[0]]
                continue
            cut = frame_end
            if batches:
                position = batches[-1].zxid, batches[-1].chain
        aside = SegmentHeader(self.lineage, end, tail[0].first)
        self.disk.replace(aside_path(self.disk, log_path(aside.first), suffix), pack_segment(aside, tail))
        if kept:
            self._segments.append(write_segment(self.disk, SegmentHeader(self.lineage, position, kept[0].first), kept))
        if self.disk.exists(index_path(segment.path)):
            self.disk.remove(index_path(segment.path))
        if position == segment.previous:
            self._segments.remove(segment)
        else:
            self.disk.truncate(segment.path, cut)
            segment.end, segment.last, segment.index = cut, position, None
            self.disk.sync_directory(DIRECTORY)

    def reset(self, zxid: Zxid, chain: bytes, lineage: bytes, *, conflict: bool = False) -> None:
        """Set the whole log aside and continue from (zxid, chain) of this lineage: after an installed snapshot, or from
        `genesis`. Durable once it returns. The caller decides which snapshots still belong to it
        (`datatree.recovery.stale`). `conflict` is as for `truncate`. An OSError is final.

        If that leaves less than this member may have acknowledged, its member record is removed first: the member is an
        amnesiac until it is written again. Otherwise a crash before it has caught up would leave a member that counts
        but holds less than it acknowledged.
        """
        assert len(lineage) == LINEAGE_BYTES
        assert zxid > 0 or chain == genesis(lineage)
        self._check_sound()
        self._sound = False
        if self._damaged or lineage != self.lineage or zxid < self.last[0]:
            forget_member(self.disk)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._synced_end = 0
        # Before the files go: an old mark above what is left of them would look like a loss.
        save_mark(self.disk, lineage, zxid, durable=True)
        set_aside_logs(self.disk, CONFLICT if conflict else DAMAGED if self._damaged else STALE)
        self._segments.clear()
        self.lineage, self.last, self.mark, self._damaged = lineage, (zxid, chain), zxid, False
        self._sound = True

    def release(self, paths: set[str]) -> None:
        """Forget these oldest files; the caller removes them."""
        while self._segments and self._segments[0].path in paths:
            assert self._file is None or len(self._segments) > 1, "the file being written is kept"
            self._segments.pop(0)

    # Reading.

    def floor(self, zxid: int) -> Position | None:
        """The last batch end at or below `zxid`; None if that is older than what is kept. Raises LogDamagedError."""
        if zxid >= self.last[0]:
            return self.last
        segments = self.segments
        at = bisect_right(segments, zxid, key=lambda segment: segment.previous[0]) - 1
        if at < 0:
            return None
        try:
            return segments[at].floor(self.disk, zxid)
        except FileNotFoundError:
            self._unless_kept(segments[at])
            return None

    def read(self, after_zxid: Zxid, bytes_max: int) -> list[Batch]:
        """The batches after this batch end, in order, as many as fit (but one at least, when there is any).

        Raises NotHeldError when they are older than what is kept, LogDamagedError when the files are not readable."""
        result: list[Batch] = []
        segments, last = self.segments, self.last
        if after_zxid >= last[0]:
            return result
        zxid, total = after_zxid, 0
        at = bisect_right(segments, after_zxid, key=lambda segment: segment.previous[0]) - 1
        if at < 0:
            raise NotHeldError(f"{after_zxid:#x} is older than what is kept")
        for segment in segments[at:]:
            try:
                for offset, batch in segment.batches(self.disk, zxid):
                    total += len(batch.raw)
                    if (result and total > bytes_max) or batch.zxid > last[0]:
                        return result
                    if not follows(zxid, batch):
                        raise LogDamagedError(segment.path, offset, f"{batch.first:#x} does not follow {zxid:#x}")
                    result.append(batch)
                    zxid = batch.zxid
            except FileNotFoundError:
                self._unless_kept(segment)
                raise NotHeldError(f"{after_zxid:#x} is older than what is kept") from None
        return result

    def read_from(self, zxid: int, bytes_max: int) -> tuple[Position | None, list[Batch]]:
        """(`floor(zxid)`, the batches after it); (None, []) when that is older than what is kept."""
        position = self.floor(zxid)
        if position is None:
            return None, []
        try:
            return position, self.read(position[0], bytes_max)
        except NotHeldError:
            return None, []

    def _unless_kept(self, segment: Segment) -> None:
        """A file is missing: no error if retention released it meanwhile."""
        if segment in self._segments:
            raise LogDamagedError(segment.path, 0, "the file is missing")


def write_segment(disk: Disk, header: SegmentHeader, batches: list[Batch]) -> Segment:
    """Write a whole file at once, replacing any of the same name; durable, and known to be, once it returns."""
    data = pack_segment(header, batches)
    index = Index(header.previous[0])
    at = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES
    for batch in batches:
        index.add(at, batch)
        at += len(batch.raw)
    path = log_path(header.first)
    disk.replace(path, data)
    segment = Segment(path, header.first, header.previous, (batches[-1].zxid, batches[-1].chain), len(data))
    segment.index = index.sparse()
    segment.write_index(disk, index)
    return segment


def pack_segment(header: SegmentHeader, batches: list[Batch]) -> bytes:
    """The bytes of a whole file that is known to be durable."""
    seed = seed_of(header.first)
    data = header.pack() + pack_frame(seed, SEGMENT_HEADER_BYTES, 0, [batch.raw for batch in batches])
    return data + pack_frame(seed, len(data), len(data))
