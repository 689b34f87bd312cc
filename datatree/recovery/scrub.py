"""Reads through the files of a running member, a little at a time, to find damage before the damaged data is needed.

    scrub = Scrub(disk, log)
    while not scrub.step(): …       each step reads about `STEP_BYTES`; True when all was read
    scrub.take()                    what was found since the last call

It reads records, then snapshots, then the log, up to where it was durable when its turn came. A damaged snapshot is set
aside if a start can do without it: another one is whole, or the log goes back to the beginning. Otherwise it stays
until there is a whole one: the next start may be able to read what could not be read now. A damaged stretch of the log
stays, since it is known which zxids it has; once there is a snapshot above it, nothing depends on it.

The steps may run in another thread, but not beside cuts of the log. A file that disappears between two steps is not
damage.

Not here: how fast it reads, and what happens about its findings (`zab.member.trees.scrubbing`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from attrs import frozen

from datatree.log.aside import DAMAGED, set_aside
from datatree.log.disk import Disk, is_out_of_descriptors
from datatree.log.epochs import ACCEPTED_EPOCH, CURRENT_EPOCH, DIRECTORY, MEMBER, load_record
from datatree.log.segment import SEGMENT_HEADER_BYTES, LogDamagedError, Segment, read_segment_header
from datatree.log.session_keys import SESSION_KEYS
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.snapshot import SnapshotError, SnapshotReader, snapshot_files, snapshot_path

STEP_BYTES: Final = 64 << 10
RECORDS: Final = (ACCEPTED_EPOCH, CURRENT_EPOCH, MEMBER, SESSION_KEYS)


@frozen
class Found:
    """Something that differs from what was written."""

    path: str
    offset: int
    reason: str
    needs: Zxid = BEFORE_ALL
    """A whole snapshot at or above this replaces it; 0 if nothing depends on it."""
    is_record: bool = False
    """It is one of `RECORDS`, which the member can rewrite."""

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


class Scrub:
    """One pass over all files."""

    def __init__(self, disk: Disk, log: TransactionLog, *, sets_aside: bool = True) -> None:
        """Without `sets_aside`, nothing on the disk is changed."""
        self._disk = disk
        self._sets_aside = sets_aside
        self._log = log
        self._found: list[Found] = []
        self._newest_whole = BEFORE_ALL
        self._damaged_snapshots: list[str] = []
        self.read_bytes = 0
        self._steps = self._all_steps()

    def step(self) -> bool:
        """Read a little; True when everything was read. Raises OSError if damaged files cannot be set aside."""
        return next(self._steps, True)

    def take(self) -> list[Found]:
        """What was found since the last call."""
        found, self._found = self._found, []
        return found

    def _all_steps(self) -> Generator[bool]:
        """Yields False after each step."""
        self._read_records()
        yield False
        snapshots = snapshot_files(self._disk)
        for zxid in snapshots:
            yield from self._read_snapshot(zxid, is_newest=zxid == snapshots[-1])
        can_do_without = self._newest_whole != BEFORE_ALL or self._log.first_position[0] == BEFORE_ALL
        if self._sets_aside and can_do_without:
            for path in self._damaged_snapshots:
                set_aside(self._disk, path, DAMAGED)
        for segment in self._log.segments:
            yield from self._read_segment(segment)

    def _read_records(self) -> None:
        for name in RECORDS:
            path = f"{DIRECTORY}/{name}"
            if self._disk.exists(path) and load_record(self._disk, name) is None:
                self._found.append(Found(path, 0, "the checksum does not match", is_record=True))

    def _read_snapshot(self, zxid: Zxid, *, is_newest: bool) -> Generator[bool]:
        path = snapshot_path(zxid)
        try:
            self._disk.forget_cached(path)
            for _offset, _count, data in SnapshotReader.open(self._disk, path).chunks():
                if self._has_read(len(data)):
                    yield False
            self._newest_whole = zxid
            return
        except FileNotFoundError:
            return
        except SnapshotError as error:
            at, reason = error.offset, error.reason
        except OSError as error:
            if is_out_of_descriptors(error):
                return
            at, reason = 0, error.strerror or str(error)
        self._found.append(Found(path, at, reason, zxid if is_newest else BEFORE_ALL))
        self._damaged_snapshots.append(path)

    def _read_segment(self, segment: Segment) -> Generator[bool]:
        last = segment.last[0]
        try:
            self._disk.forget_cached(segment.path)
            header = self._disk.read(segment.path, 0, SEGMENT_HEADER_BYTES)
            if read_segment_header(header, segment.first) is None:
                raise LogDamagedError(segment.path, 0, "checksum of the header does not match")
            for _offset, batch in segment.batches(self._disk, segment.previous[0]):
                if self._has_read(len(batch.raw)):
                    yield False
        except FileNotFoundError:
            return
        except OSError as error:
            # Files that were cut or released meanwhile are not missed.
            if is_out_of_descriptors(error) or segment not in self._log.segments or segment.last[0] < last:
                return
            at, reason = 0, error.strerror or str(error)
            if isinstance(error, LogDamagedError):
                at, reason = error.offset, error.reason
            needs = last if last > self._newest_whole else BEFORE_ALL
            self._found.append(Found(segment.path, at, reason, needs))

    def _has_read(self, count: int) -> bool:
        """Whether this is enough for one step."""
        before = self.read_bytes // STEP_BYTES
        self.read_bytes += count
        return self.read_bytes // STEP_BYTES > before
