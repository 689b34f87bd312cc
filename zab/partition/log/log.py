"""One partition's log: appends, reads, cuts, retention; in memory, with every change of a file as an effect.

    append_as_leader    assigns offsets, stamps them into the batches, recognizes duplicates
    append_as_follower  takes the batches of the leader as they are
    slice               where in which file the batches of an offset are
    truncate            drops the end, when the leader's log is another one
    apply_retention     drops the beginning, when it is old
    compaction          puts what compaction has left of segments into their place

    take_effects        what the storage has to do (`files`); `confirmed` and `failed` are its answers

Offsets: `log_start` <= `high_watermark` <= `log_end`; `synced_end` <= `written_end` <= `log_end`. `log_end` is the next
offset to be assigned; each end is exclusive. What is served is below `written_end`.

Order of effects, so that a power cut leaves a prefix of the log:
- The file of a segment that is dropped is gone durably before that of the next one is: the newest goes first in a
  truncation, the oldest in retention.
- An index file is written after its log file was synced, and removed before that is cut.
- The epochs are durable before the batches that began them count as synced, and cut after the batches.

An error of the storage is final (KAFKA-10778): every later append raises LogFailedError.

Not here: who may write, how far consumers may read, what compaction leaves, time (it is handed in), and the checks of a
produce request that need no log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from datatree.log.disk import Disk
from zab.partition.log.checkpoints import format_epochs
from zab.partition.log.compaction import Compaction
from zab.partition.log.contents import LogContents
from zab.partition.log.errors import LogFailedError, OffsetOutOfRangeError, RecordsTooLargeError
from zab.partition.log.file_effects import (
    Append,
    Bytes,
    Create,
    FileEffect,
    Remove,
    Rename,
    Replace,
    Sync,
    SyncDirectory,
    Token,
)
from zab.partition.log.incoming import Appended, check_copied, first_duplicate, markers_in, stamped
from zab.partition.log.offset_index import RELATIVE_MAX
from zab.partition.log.outbox import Outbox
from zab.partition.log.paths import (
    DELETED,
    LEADER_EPOCHS,
    PARTITION_METADATA,
)
from zab.partition.log.producer_snapshots import ProducerSnapshots
from zab.partition.log.producers import Producers
from zab.partition.log.replay import replay
from zab.partition.log.retention import deletable_count
from zab.partition.log.rolling import is_full
from zab.partition.log.segment import Cut, Segment
from zab.partition.log.segment_effects import (
    abort_effects,
    cut_effects,
    drop_effects,
    index_effects,
    paths_of,
)
from zab.partition.log.segments import Segments, Slice
from zab.partition.log.transaction_index import AbortedTransaction
from zab.partition.records.batch import LENGTH_END, BatchHeader
from zab.partition.records.control import ControlType, EndMarker
from zab.partition.settings.topic_settings import BATCH, LOG_APPEND_TIME, TopicSettings

NO_TIME = -1


class Log:
    """See the docstring of the module."""

    def __init__(
        self, disk: Disk, directory: str, settings: TopicSettings, contents: LogContents, *, roll_jitter_ms: int = 0
    ) -> None:
        """`disk` is only read. `roll_jitter_ms`: by how much earlier than `segment.ms` segments end."""
        self.directory = directory
        self.settings = settings
        self.log_start = contents.log_start
        self.high_watermark = contents.high_watermark
        self.epochs = contents.epochs
        self.producers = contents.producers
        self._disk = disk
        self._segments = Segments(disk, contents.segments, settings.index_interval_bytes)
        self.log_end = self._segments.active.next_offset
        self._outbox = Outbox(directory, self.log_end, contents.synced_end)
        self._snapshots = ProducerSnapshots(directory, list(contents.snapshots))
        self._roll_jitter_ms = roll_jitter_ms
        self._undo_floor = self.log_end
        self._is_closed = False
        self._deleted: deque[tuple[int, list[str]]] = deque()
        self.compaction = Compaction(directory, self._segments, self._outbox, self._snapshots)
        self.cleaned_end = 0
        """Below it the log is compacted."""
        assert self.log_start <= self.high_watermark <= self.log_end

    @classmethod
    def create(cls, disk: Disk, directory: str, settings: TopicSettings, metadata: bytes, now_ms: int) -> Log:
        """A new log, whose first effects create it. `metadata` is the content of `partition.metadata`."""
        segment = Segment(directory, 0, now_ms, 0)
        log = cls(disk, directory, settings, LogContents([segment], log_start=0, high_watermark=0, synced_end=0))
        log._outbox.add(Replace(f"{directory}/{PARTITION_METADATA}", metadata))
        log._outbox.add(Create(segment.path), SyncDirectory(directory))
        return log

    # What it holds.

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last one is active."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self._segments.size_bytes

    @property
    def written_end(self) -> int:
        """Below it everything is in the files."""
        return self._outbox.written_end

    @property
    def synced_end(self) -> int:
        """Below it everything survives a power cut: the recovery point."""
        return self._outbox.synced_end

    @property
    def failure(self) -> str | None:
        """Why the storage of this log is not used any more."""
        return self._outbox.failure

    @property
    def latest_epoch(self) -> int:
        """The epoch of the newest batch, or of a newer leader; -1 for an empty log without one."""
        return self.epochs.latest

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch at or below `epoch`, its end); (-1, -1) if it is unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end)

    @property
    def awaits_files(self) -> bool:
        """Whether a part of it cannot be read just now, since its files are being replaced."""
        return any(segment.is_awaited for segment in self._segments.all)

    # Storage.

    def take_effects(self) -> list[FileEffect]:
        """What was asked for since the last call, ending with a `Confirm`; empty if there is nothing."""
        if self._outbox.is_empty:
            return []
        if self.settings.flush_mode == BATCH:
            self._outbox.add_syncs(self.log_end, Sync(self._segments.active.path))
        elif self.log_end - self._outbox.syncs_to >= self.settings.flush_messages:
            self.flush_all()
        return self._outbox.take(self.log_end)

    @property
    def last_token(self) -> int:
        """The number of the last token that it was given."""
        return self._outbox.number

    def begin_tokens_after(self, number: int) -> None:
        """Take the place of a log of this directory whose last token had this number."""
        self._outbox.begin_after(number)

    def confirmed(self, token: Token) -> None:
        """The storage has done everything up to this token."""
        for segment in self._outbox.confirmed(token):
            self._segments.unload(segment)
        self._segments.active.recent.forget(self.written_end)
        self._keep_undo()

    def failed(self, reason: str) -> None:
        """The storage failed: nothing is appended any more until the log is recovered."""
        self._outbox.fail(reason)

    @property
    def is_dirty(self) -> bool:
        """Whether there are batches that nobody has asked the storage to sync."""
        return self.log_end > self._outbox.syncs_to

    def flush(self) -> None:
        """Sync the closed segments, and write their index files. Each roll does that for all but the newest of them;
        who wants the recovery point to be nearer calls it from time to time."""
        for segment in self._segments.closed:
            if not segment.is_indexed:
                self._outbox.add_syncs(segment.next_offset, *index_effects(segment), indexed=segment)

    def flush_all(self) -> None:
        """Sync everything."""
        self.flush()
        self._outbox.add_syncs(self.log_end, Sync(self._segments.active.path))

    def close(self) -> None:
        """Write down all that a clean start trusts. Nothing is appended afterwards."""
        self._check_usable()
        self.flush()
        self._outbox.add(self._snapshots.write(self.log_end, self.producers))
        active = self._segments.active
        active.add_time_entry()
        self._outbox.add_syncs(self.log_end, *index_effects(active))
        self._is_closed = True

    def _check_usable(self) -> None:
        assert not self._is_closed
        if self._outbox.failure is not None:
            raise LogFailedError(f"{self.directory}: {self._outbox.failure}")

    # Appends.

    def append_as_leader(
        self,
        data: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        now_ms: int,
        *,
        is_verified: bool = False,
        has_sequence: bool = True,
    ) -> Appended:
        """Append batches that passed the checks of a produce request, or a marker. Offsets and epoch are written into
        `data`, which is not changed any more afterwards.

        A batch that a producer repeats is answered with the offsets that it has, and nothing is appended.
        `is_verified`: the coordinator says that the transaction of the producer is ongoing. `has_sequence`: the
        producer numbers its batches; what a coordinator appends for it has no numbers.

        Raises LogFailedError, RecordsTooLargeError, and what `first_duplicate` raises."""
        self._check_usable()
        assert headers
        if len(data) > self.settings.segment_bytes:
            raise RecordsTooLargeError(f"{len(data)} bytes, a segment has {self.settings.segment_bytes}")
        markers = markers_in(data, headers)
        is_append_time = self.settings.message_timestamp_type == LOG_APPEND_TIME
        duplicate = first_duplicate(
            self.producers, headers, markers, is_verified=is_verified, has_sequence=has_sequence
        )
        if duplicate is not None:
            time = duplicate.timestamp if is_append_time else NO_TIME
            return Appended(duplicate.base_offset, duplicate.last_offset, time, is_duplicate=True)
        first = self.log_end
        batches = stamped(data, headers, first, leader_epoch, now_ms if is_append_time else None)
        self._append(data, batches, markers, now_ms)
        if self.epochs.assign(leader_epoch, first):
            self._save_epochs()
        return Appended(first, self.log_end - 1, now_ms if is_append_time else NO_TIME)

    def append_as_follower(self, data: Bytes, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Append batches of the leader as they are; `data` is not changed any more afterwards.

        Raises LogFailedError, BatchError (a checksum is wrong), UnexpectedOffsetError; nothing is appended then."""
        self._check_usable()
        check_copied(data, headers, self.log_end)
        self._append(data, headers, markers_in(data, headers), now_ms)
        newest = self.epochs.latest
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        if self.epochs.latest != newest:
            self._save_epochs()

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads from `log_end` on, even if it never appends (KAFKA-7415)."""
        if self.epochs.assign(epoch, self.log_end):
            self._save_epochs()

    def _append(self, data: Bytes, headers: Sequence[BatchHeader], markers: dict[int, EndMarker], now_ms: int) -> None:
        """Append batches with their offsets, rolling before each that no longer fits."""
        segment = self._segments.active
        interval_bytes = self.settings.index_interval_bytes
        start = position = 0
        for number, header in enumerate(headers):
            size = LENGTH_END + header.batch_length
            base_offset = header.base_offset
            last_offset = base_offset + header.last_offset_delta
            if is_full(segment, self.settings, header, size, now_ms, self._roll_jitter_ms):
                self._write(segment, data, start, position)
                # Named after where the log ends: a gap between two files means that batches are lost.
                is_far = last_offset - self.log_end > RELATIVE_MAX
                segment, start = self._roll(base_offset if is_far else self.log_end, now_ms), position
            segment.add(base_offset, last_offset, size, header.max_timestamp, interval_bytes)
            position += size
            self.log_end = last_offset + 1
            if header.producer_id >= 0:
                self._note_producer(segment, header, markers.get(number))
        self._write(segment, data, start, position)

    def _write(self, segment: Segment, data: Bytes, start: int, stop: int) -> None:
        """Write a part of the data, which the segment counts already."""
        if start < stop:
            part = data if stop - start == len(data) else memoryview(data)[start:stop]
            self._outbox.add(Append(segment.path, segment.size - (stop - start), part))

    def _note_producer(self, segment: Segment, header: BatchHeader, marker: EndMarker | None) -> None:
        if header.is_control and marker is None:
            return
        completed = self.producers.update(header, marker)
        if completed is None or marker is None or marker.type is ControlType.COMMIT:
            return
        entry = self.producers.aborted(completed)
        aborted = self._segments.aborted_of(segment)
        self._outbox.add(*abort_effects(segment, len(aborted), entry))
        aborted.append(entry)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new segment."""
        old = self._segments.active
        if old.base_offset == base_offset:
            assert not old.size
            return old
        old.add_time_entry()
        old.is_indexed = False
        # Of the segments closed before, the kernel has written most by now: this sync does not hold up the other logs.
        self.flush()
        self._outbox.add(self._snapshots.write(base_offset, self.producers))
        self._begin_segment(base_offset, now_ms)
        if self.settings.flush_mode == BATCH:
            self.flush()
        return self._segments.active

    def _begin_segment(self, base_offset: int, now_ms: int) -> None:
        segment = Segment(self.directory, base_offset, now_ms, base_offset)
        self._segments.push(segment)
        self._outbox.add(Create(segment.path), SyncDirectory(self.directory))

    def _save_epochs(self) -> None:
        self._outbox.add(Replace(f"{self.directory}/{LEADER_EPOCHS}", format_epochs(self.epochs.entries)))

    # Marks.

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, as near to `offset` as the log allows; it may fall. The new one."""
        self.high_watermark = min(max(offset, self.log_start), self.log_end)
        self._keep_undo()
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended."""
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        return self.high_watermark if unstable is None else min(self.high_watermark, max(unstable, self.log_start))

    def advance_start(self, offset: int) -> bool:
        """Raise the first offset that is visible, never beyond the high watermark (KAFKA-5634). Whether it rose.

        Raises OffsetOutOfRangeError."""
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(f"{offset} is above the high watermark {self.high_watermark}")
        if offset <= self.log_start:
            return False
        self.log_start = offset
        if self.epochs.truncate_from_start(offset):
            self._save_epochs()
        return True

    def _keep_undo(self) -> None:
        """What is committed and written is never truncated, unless a leader lost it."""
        floor = min(self.high_watermark, self.written_end)
        if floor > self._undo_floor:
            self._undo_floor = floor
            self.producers.forget_undo(floor)
            self.producers.forget_completed(floor)

    # Reads.

    def slice(self, offset: int, bound: int, max_bytes: int) -> Slice | None:
        """Where the batches from `offset` on are that end below `bound`: whole ones, as many as fit into `max_bytes`,
        and at least one. None if there are none (yet). Raises OffsetOutOfRangeError, OSError."""
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRangeError(f"{offset} is not in {self.log_start} to {self.log_end}")
        bound = min(bound, self.written_end)
        return self._segments.slice(offset, bound, max_bytes) if offset < bound else None

    def find_by_time(self, timestamp: int, bound: int) -> Slice | None:
        """The batch that has the first record of this time or later; decode it to find the record. None if there is no
        such batch below `bound`. Raises OSError."""
        return self._segments.find_by_time(timestamp, self.log_start, min(bound, self.written_end))

    def aborted_transactions(self, start: int, end: int) -> Iterator[AbortedTransaction]:
        """The aborted transactions with data in [start, end). Raises OSError."""
        return self._segments.aborted(start, end)

    def aborted_in(self, offset: int, found: Slice, bound: int) -> list[AbortedTransaction]:
        """The aborted transactions with data in what `slice` found from `offset` on below `bound`; a few more may be
        among them. Raises OSError."""
        return list(self.aborted_transactions(offset, self._segments.end_of(found, bound)))

    # Cuts.

    def truncate(self, offset: int) -> None:
        """Drop everything from `offset` on; a batch that goes across it is dropped whole. The log ends after the last
        batch below. Raises OSError, if what is below has to be read again."""
        self._check_usable()
        if offset >= self.log_end:
            # An epoch that began at the end may not be the leader's.
            if self.epochs.truncate_from_end(offset):
                self._save_epochs()
            return
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset, self._segments.active.created_ms)
            return
        # Everything that has to be read is read before anything changes.
        segment = self._segments.all[self._segments.floor(offset)]
        cut = self._segments.cut_at(segment, offset)
        producers = self._producers_before(cut.end)
        while self._segments.active is not segment:
            self._drop(self._segments.pop())
        self._cut(segment, cut)
        end = self.log_end = segment.next_offset
        if self.epochs.truncate_from_end(end):
            self._save_epochs()
        self._outbox.add(*self._snapshots.drop_above(end))
        self.producers = producers
        self.producers.truncate(end)
        self._outbox.truncate(end)
        self.log_start = min(self.log_start, end)
        self.cleaned_end = min(self.cleaned_end, end)
        self.high_watermark = min(self.high_watermark, end)
        self._undo_floor = min(self._undo_floor, end)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the log begins and ends at `offset`."""
        self._check_usable()
        while True:
            self._drop(self._segments.pop())
            if not self._segments.all:
                break
        self._outbox.add(*self._snapshots.drop_above(-1))
        self.epochs.clear()
        self._save_epochs()
        self.producers.clear()
        self._outbox.restart(offset)
        self._begin_segment(offset, now_ms)
        self.log_start = self.high_watermark = self.log_end = self._undo_floor = self.cleaned_end = offset

    def _drop(self, segment: Segment) -> None:
        self._outbox.reopen(segment)
        self._outbox.add(*drop_effects(segment))

    def _cut(self, segment: Segment, cut: Cut) -> None:
        """Let this segment, which is the active one now, end there."""
        self._outbox.reopen(segment)
        self._outbox.add(*cut_effects(segment, cut, len(self._segments.aborted_of(segment))))
        self._segments.cut(segment, cut)

    def _producers_before(self, offset: int) -> Producers:
        """The producers of the batches below `offset`, or a state that `truncate` takes back to there."""
        if offset >= self._undo_floor:
            return self.producers
        found, producers = self._snapshots.newest(self._disk, offset)
        replay(self._disk, self._segments.all, producers, found, offset)
        producers.forget_undo(offset)
        return producers

    # Retention.

    def apply_retention(self, now_ms: int) -> int:
        """Delete the oldest segments that are too old, too many, or below `log_start`; how many. Their files are
        renamed, and removed by `remove_deleted`."""
        self._check_usable()
        count = deletable_count(
            self._segments.all,
            self.settings,
            now_ms=now_ms,
            high_watermark=self.high_watermark,
            log_start=self.log_start,
        )
        if count == len(self._segments.all):
            self._roll(self.log_end, now_ms)
        for _ in range(count):
            self._delete_first(now_ms)
        if count:
            first = self._segments.first.base_offset
            self.log_start = max(self.log_start, first)
            if self.epochs.truncate_from_start(self.log_start):
                self._save_epochs()
        return count

    def _delete_first(self, now_ms: int) -> None:
        segment = self._segments.pop_first()
        self._outbox.reopen(segment)
        paths = paths_of(segment) + self._snapshots.take_up_to(segment.base_offset)
        self._outbox.add(*[Rename(path, path + DELETED) for path in paths], SyncDirectory(self.directory))
        self._deleted.append((now_ms + self.settings.file_delete_delay_ms, [path + DELETED for path in paths]))

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of segments that were deleted long enough ago."""
        while self._deleted and self._deleted[0][0] <= now_ms:
            self._outbox.add(*map(Remove, self._deleted.popleft()[1]))
