"""From the files of a directory to a `Log`: at the start of a broker, and of a replica whose storage failed.

1. What a crash left of deletions and of the cleaner is finished or undone.
2. Each segment is trusted, or scanned: its batches are read, with their checksums, and its indexes are rebuilt. At the
   first bad batch the log ends: that segment is cut there, and all later ones are deleted. A torn tail is normal. The
   log also ends before a gap to the next segment: what was in between had not reached the disk.
3. After a clean stop everything is trusted. Otherwise a segment is trusted if the recovery point is at or above its
   end and its index is there, which is written only after its log file was synced. The active segment is scanned.
4. If the log ends below the first offset that clients may see, it begins there, empty.
5. Epochs and producers are those of the batches that are left; HW is the checkpointed one, within the log.

Everything that is left is synced. In flush mode `batch`, what was scanned above the recovery point is written again
before: after a failed sync the kernel may show bytes that the disk does not have.

Everything goes through the `Disk` at once, since nothing else runs. It may be interrupted anywhere and run again.
Errors: OSError. Memory: some MiB, or one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from datatree.log.disk import Disk
from zab.kafka.errors import ErrorCode
from zab.partition.log.checkpoints import CheckpointError, format_epochs, parse_epochs
from zab.partition.log.contents import LogContents
from zab.partition.log.epoch_cache import EpochCache
from zab.partition.log.former_batches import restore_former
from zab.partition.log.headers import PIECE_BYTES, headers_from
from zab.partition.log.leftovers import finish_leftovers
from zab.partition.log.log import Log
from zab.partition.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from zab.partition.log.offset_index import RELATIVE_MAX, IndexDamagedError, OffsetIndex
from zab.partition.log.paths import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    SEGMENT_FILES,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_name,
    path_of,
)
from zab.partition.log.producers import Producers
from zab.partition.log.replay import newest_snapshot, replay
from zab.partition.log.segment import Segment
from zab.partition.log.snapshots import pack_snapshot
from zab.partition.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from zab.partition.log.time_index import TimeIndex, last_entry
from zab.partition.log.transaction_index import pack_transactions, parse_transactions
from zab.partition.records.batch import HEADER_BYTES, BatchError, BatchHeader, check_crc, read_header
from zab.partition.records.control import ControlType, EndMarker, decode_marker
from zab.partition.settings.topic_settings import BATCH, TopicSettings


@attrs.frozen
class Marks:
    """What the checkpoints of the broker say of a log."""

    recovery_point: int = 0
    log_start: int = 0
    high_watermark: int = 0
    cleaned_end: int = 0
    """Batches below it may have been compacted away."""


@attrs.frozen
class Recovered:
    """A log, and sentences about what was not as a clean stop leaves it."""

    log: Log
    notes: list[str]


def recover(
    disk: Disk,
    directory: str,
    settings: TopicSettings,
    marks: Marks,
    *,
    is_clean: bool,
    now_ms: int,
    roll_jitter_ms: int = 0,
) -> Recovered:
    """The log in a directory. `is_clean`: it was closed, and nothing was changed since. Raises OSError."""
    recovery = _Recovery(disk, directory, settings, marks, is_clean=is_clean, now_ms=now_ms)
    try:
        contents = recovery.run()
    except BatchError as error:
        note = f"{directory}: {error} in a segment that was to be sound -> scan all segments"
        marks = attrs.evolve(marks, recovery_point=0)
        recovery = _Recovery(disk, directory, settings, marks, is_clean=False, now_ms=now_ms)
        contents = recovery.run()
        recovery.notes.insert(0, note)
    return Recovered(Log(disk, directory, settings, contents, roll_jitter_ms=roll_jitter_ms), recovery.notes)


class _Recovery:
    """One run."""

    def __init__(
        self, disk: Disk, directory: str, settings: TopicSettings, marks: Marks, *, is_clean: bool, now_ms: int
    ) -> None:
        self.notes: list[str] = []
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._marks = marks
        self._is_clean = is_clean
        self._now_ms = now_ms
        self._segments: list[Segment] = []
        self._snapshots: list[int] = []
        self._epochs = EpochCache()
        self._saved_epochs: list[tuple[int, int]] = []
        """The entries of the file."""
        self._producers: Producers | None = None
        """From the first scanned segment on."""

    def run(self) -> LogContents:
        finish_leftovers(self._disk, self._directory)
        bases = self._list()
        saved = self._read_epochs()
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            segment = self._trusted(base, following)
            if segment is not None:
                self._segments.append(segment)
                if self._producers is not None:
                    replay(self._disk, [segment], self._producers, segment.base_offset, segment.next_offset)
                    self._note_epochs(segment)
            elif not self._scan(base, following):
                self._delete(bases[number + 1 :])
                break
        return self._settled(saved)

    # The files.

    def _list(self) -> list[int]:
        """The base offsets of the segments. Indexes without a segment are removed."""
        found = [each for name in self._disk.list(self._directory) if (each := parse_name(name)) is not None]
        bases = sorted(base for base, suffix in found if suffix == LOG)
        self._snapshots = sorted(base for base, suffix in found if suffix == SNAPSHOT)
        for base, suffix in found:
            if suffix not in (LOG, SNAPSHOT) and base not in bases:
                self._remove(base, suffix)
        return bases

    def _read_epochs(self) -> bytes:
        """The content of the file. If it cannot be read, everything is scanned."""
        path = f"{self._directory}/{LEADER_EPOCHS}"
        if not self._disk.exists(path):
            return b""
        saved = self._disk.read(path)
        try:
            self._saved_epochs = parse_epochs(saved)
            self._epochs = EpochCache(self._saved_epochs)
        except CheckpointError as error:
            self.notes.append(f"{path}: {error} -> scan all segments")
            self._is_clean = False
            self._marks = attrs.evolve(self._marks, recovery_point=0)
        return saved

    def _remove(self, base: int, suffix: str) -> None:
        path = path_of(self._directory, base, suffix)
        if self._disk.exists(path):
            self._disk.remove(path)

    def _delete(self, bases: Sequence[int]) -> None:
        """Delete these newest segments."""
        for base in reversed(bases):
            self.notes.append(f"{path_of(self._directory, base, LOG)}: deleted, the log ends before it")
            for suffix in SEGMENT_FILES:
                self._remove(base, suffix)
            self._disk.sync_directory(self._directory)

    # Trusted segments.

    def _trusted(self, base: int, following: int | None) -> Segment | None:
        """The segment, if it need not be scanned. `following` is the base of the next one."""
        if following is None:
            return self._trusted_active(base) if self._is_clean else None
        if not self._is_clean and following > self._marks.recovery_point:
            return None
        segment = Segment(self._directory, base, self._now_ms, following, offsets=None, times=None, aborted=None)
        segment.size = self._disk.size(segment.path)
        if not (self._is_whole(segment, INDEX, OFFSET_ENTRY_BYTES) and self._is_whole(segment, TIME_INDEX, 1)):
            return None
        path = segment.path_of(TIME_INDEX)
        size = self._disk.size(path)
        if size % TIME_ENTRY_BYTES:
            return None
        entry = last_entry(self._disk.read(path, max(size - TIME_ENTRY_BYTES, 0)))
        if entry is not None:
            segment.max_timestamp, segment.max_timestamp_offset = entry[0], entry[1] + base
        segment.is_indexed = True
        return segment

    def _is_whole(self, segment: Segment, suffix: str, entry_bytes: int) -> bool:
        path = segment.path_of(suffix)
        return self._disk.exists(path) and not self._disk.size(path) % entry_bytes

    def _trusted_active(self, base: int) -> Segment | None:
        """The active segment after a clean stop: its indexes from their files, and the end of it."""
        segment = Segment(self._directory, base, self._now_ms, base)
        size = self._disk.size(segment.path)
        try:
            offsets = OffsetIndex.parse(self._disk.read(segment.path_of(INDEX)), size)
            times = TimeIndex.parse(self._disk.read(segment.path_of(TIME_INDEX)))
            self._read_end(segment, offsets, times, size)
        except (FileNotFoundError, IndexDamagedError, BatchError):
            return None
        if segment.size != size:
            return None
        path = segment.path_of(TRANSACTION_INDEX)
        if self._disk.exists(path):
            segment.aborted = parse_transactions(self._disk.read(path))
        return segment

    def _read_end(self, segment: Segment, offsets: OffsetIndex, times: TimeIndex, size: int) -> None:
        """Read the batches from the last index entry on."""
        start = offsets.floor_position(size)
        for _, header in headers_from(self._disk, segment.path, 0, min(size, HEADER_BYTES)):
            segment.first_timestamp = header.max_timestamp
        segment.size, segment.offsets, segment.times = start, offsets, times
        segment.is_indexed = True
        entry = times.last_before(RELATIVE_MAX + 1)
        if entry is not None:
            segment.max_timestamp, segment.max_timestamp_offset = entry[0], entry[1] + segment.base_offset
        first_timestamp = segment.first_timestamp
        for _, header in headers_from(self._disk, segment.path, start, size):
            # The batch at the last entry has one already.
            segment.add(*_fields(header), interval_bytes=size)
        segment.bytes_since_entry = segment.size - start
        segment.first_timestamp = first_timestamp

    # Scanned segments.

    def _scan(self, base: int, following: int | None) -> bool:
        """Read a segment batch by batch; False if the log ends in it. `following` is the base of the next one."""
        if self._producers is None:
            self._producers = self._producers_before(base)
            self._epochs.truncate_from_end(base)
            # Snapshots above may be of batches that were truncated.
            self._drop_snapshots([offset for offset in self._snapshots if offset <= base])
        segment = Segment(self._directory, base, self._now_ms, base)
        size = self._disk.size(segment.path)
        try:
            for position, header, batch in self._batches(segment.path, size):
                if header.base_offset < segment.next_offset or header.last_offset < header.base_offset:
                    raise _bad(f"offsets {header.base_offset} to {header.last_offset} after {segment.next_offset - 1}")
                if header.last_offset - base > RELATIVE_MAX:
                    raise _bad(f"offset {header.last_offset} in a segment from {base}")
                check_crc(batch, 0, header)
                marker = decode_marker(batch) if header.is_control else None
                assert position == segment.size
                self._note_epoch(header, segment.next_offset)
                segment.add(*_fields(header), interval_bytes=self._settings.index_interval_bytes)
                self._note(segment, header, marker)
        except BatchError as error:
            self.notes.append(
                f"{segment.path}: {size - segment.size} bytes from {segment.size} on are cut off: {error}"
            )
        self._segments.append(segment)
        is_end = following is None or segment.size < size or self._is_tail_lost(segment.next_offset, following)
        self._keep(segment, size, is_active=is_end)
        return not is_end

    def _is_tail_lost(self, end: int, following: int) -> bool:
        """Whether the batches before the next segment are gone: its name was durable before they were.

        Segments are named after where the log ended, so they follow each other without a gap. Only the cleaner makes
        gaps, below the recovery point and up to where it was. Of a log that has neither mark, the settings of the
        broker decide: those of topics are not known yet."""
        marks = self._marks
        is_compacted = self._settings.is_compacted and not marks.recovery_point
        has_gaps = is_compacted or following <= marks.cleaned_end
        return end < following and following - end <= RELATIVE_MAX and not has_gaps

    def _batches(self, path: str, size: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """(position, header, bytes) of each batch. Raises BatchError at the first one that is not whole."""
        piece, start, position = memoryview(b""), 0, 0
        while position < size:
            if position + HEADER_BYTES > start + len(piece):
                piece, start = memoryview(self._disk.read(path, position, PIECE_BYTES)), position
            header = read_header(piece, position - start)
            end = position + header.size_bytes
            if end > size:
                raise _bad(f"batch of {header.size_bytes} bytes at byte {position}, the file has {size}")
            if end > start + len(piece):
                piece, start = memoryview(self._disk.read(path, position, max(PIECE_BYTES, end - position))), position
            yield position, header, piece[position - start : end - start]
            position = end

    def _note_epochs(self, segment: Segment) -> None:
        """The epochs of a trusted segment after a scanned one, where they were cut."""
        end = segment.base_offset
        for _, header in headers_from(self._disk, segment.path, 0, segment.size, PIECE_BYTES):
            self._note_epoch(header, end)
            end = header.last_offset + 1

    def _note_epoch(self, header: BatchHeader, end: int) -> None:
        """What a batch says of the epochs; the one before it ended before `end`. Epochs that began in a gap between the
        two are those of the file: their batches were compacted away."""
        if header.partition_leader_epoch <= self._epochs.latest:
            return
        for epoch, start in self._saved_epochs:
            if self._epochs.latest < epoch <= header.partition_leader_epoch and end <= start <= header.base_offset:
                self._epochs.assign(epoch, start)
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _note(self, segment: Segment, header: BatchHeader, marker: EndMarker | None) -> None:
        """Note what a batch says of its producer."""
        if header.producer_id < 0 or (header.is_control and marker is None):
            return
        assert self._producers is not None
        completed = self._producers.update(header, marker)
        self._producers.forget_undo(header.last_offset + 1)
        self._producers.forget_completed(self._marks.high_watermark)
        if completed is not None and marker is not None and marker.type is ControlType.ABORT:
            assert segment.aborted is not None
            segment.aborted.append(self._producers.aborted(completed))

    def _keep(self, segment: Segment, size: int, *, is_active: bool) -> None:
        """Make what was scanned durable, and the files that are derived from it."""
        disk = self._disk
        if segment.size < size:
            disk.truncate(segment.path, segment.size)
        self._write_again(segment)
        path = segment.path_of(TRANSACTION_INDEX)
        if segment.aborted:
            disk.replace(path, pack_transactions(segment.aborted))
        else:
            self._remove(segment.base_offset, TRANSACTION_INDEX)
        if is_active:
            self._remove(segment.base_offset, INDEX)
            self._remove(segment.base_offset, TIME_INDEX)
        else:
            segment.add_time_entry()
            assert segment.offsets is not None
            assert segment.times is not None
            disk.replace(segment.path_of(INDEX), segment.offsets.pack())
            disk.replace(segment.path_of(TIME_INDEX), segment.times.pack())
            segment.offsets = segment.times = None
            segment.recent.clear()
            segment.is_indexed = True
        assert self._producers is not None
        if self._producers.states or not is_active:
            # Even if there are none: the next start need not read what is below.
            disk.replace(path_of(self._directory, segment.next_offset, SNAPSHOT), self._snapshot())
            self._snapshots = sorted({*self._snapshots, segment.next_offset})

    def _snapshot(self) -> bytes:
        assert self._producers is not None
        return pack_snapshot(self._producers.states)

    def _write_again(self, segment: Segment) -> None:
        """Sync the log file. In flush mode `batch`, first write what is above the recovery point again."""
        position = segment.size
        if self._settings.flush_mode == BATCH:
            for at, header in headers_from(self._disk, segment.path, 0, segment.size, PIECE_BYTES):
                if header.last_offset >= self._marks.recovery_point:
                    position = at
                    break
        file = self._disk.open_append(segment.path, create=False, offset=position)
        while file.size < segment.size:
            file.write(self._disk.read(segment.path, file.size, min(PIECE_BYTES, segment.size - file.size)))
        file.sync()
        file.close()

    def _producers_before(self, end: int) -> Producers:
        """The producers of the segments so far."""
        offset, producers = newest_snapshot(self._disk, self._directory, self._snapshots, end)
        restore_former(self._disk, self._segments, producers, offset)
        replay(self._disk, self._segments, producers, offset, end)
        producers.forget_undo(end)
        producers.forget_completed(self._marks.high_watermark)
        return producers

    # The end.

    def _settled(self, saved_epochs: bytes) -> LogContents:
        """Everything fits together, and is durable."""
        log_start = max(self._marks.log_start, self._segments[0].base_offset if self._segments else 0)
        if not self._segments or self._segments[-1].next_offset < log_start:
            self._begin_at(log_start)
        active = self._segments[-1]
        log_end = active.next_offset
        if active.aborted == []:
            self._remove(active.base_offset, TRANSACTION_INDEX)
        producers = self._producers_before(log_end) if self._producers is None else self._producers
        self._epochs.truncate_from_end(log_end)
        self._epochs.truncate_from_start(log_start)
        self._drop_old_snapshots(log_end)
        epochs = format_epochs(self._epochs.entries)
        if epochs != saved_epochs and (saved_epochs or self._epochs.entries):
            self._disk.replace(f"{self._directory}/{LEADER_EPOCHS}", epochs)
        self._disk.sync_directory(self._directory)
        high_watermark = min(max(self._marks.high_watermark, log_start), log_end)
        return LogContents(self._segments, log_start, high_watermark, log_end, self._epochs, producers, self._snapshots)

    def _begin_at(self, log_start: int) -> None:
        """An empty log that begins there."""
        self._delete([segment.base_offset for segment in self._segments])
        segment = Segment(self._directory, log_start, self._now_ms, log_start)
        self._disk.open_append(segment.path, create=True).close()
        self._segments = [segment]
        self._producers = Producers()
        self._epochs.clear()
        self._drop_snapshots([])

    def _drop_old_snapshots(self, log_end: int) -> None:
        """Keep those at the beginning of a segment, and the newest."""
        kept = [offset for offset in self._snapshots if offset <= log_end]
        bases = {segment.base_offset for segment in self._segments}
        self._drop_snapshots([offset for offset in kept if offset in bases or offset == kept[-1]])

    def _drop_snapshots(self, kept: list[int]) -> None:
        for offset in set(self._snapshots) - set(kept):
            self._remove(offset, SNAPSHOT)
        self._snapshots = kept


def _fields(header: BatchHeader) -> tuple[int, int, int, int]:
    return header.base_offset, header.last_offset, header.size_bytes, header.max_timestamp


def _bad(text: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, text)
