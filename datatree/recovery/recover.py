"""What a member knows when it starts: the newest valid snapshot, the log after it, and its promises.

    recover(disk) -> Recovered      as a member does at its start
    examine(disk) -> Recovered      steps 1 to 3 only, without changing anything

1. The newest snapshot that is whole is loaded; an older one only as far as the log connects the two.
2. The log continues it only if the chain says so: the first batch after the snapshot hashes on from the snapshot's
   chain, and every batch from the one before, across files. Where files overlap the later one counts.
3. Batches up to the highest high-water mark found (in any batch, in `committed`, or the snapshot itself) are applied,
   no others (A3 committed tree). The rest is `pending` until a leader's mark covers it.
4. What was written after the last sync mark reads fine from the page cache and may be gone with the next power cut: it
   is copied into a file of its own and synced before it counts (C1 failed syncs). Where the disk is full, it is written
   again in its own place: a start needs no free byte.
5. The operator's file `initialize` is taken away; it counts where nothing contradicts it.

Anything wrong is one of these (C2 torn or damaged):

    torn      never promised to be durable (`datatree.log.frame` says how that is known); cut off, silently
    stale     does not connect to the snapshot, or has another lineage: an installed snapshot has left it; set aside
    problem   damage that nothing depends on: wholly below the snapshot, or a snapshot while there is an older one;
              reported, and a bad snapshot set aside. So is a small record that cannot be read, without which the
              member is an amnesiac
    damage    anything else: a durable batch that cannot be read, a gap, a broken chain, a history that ends below what
              it is known to have reached. Then nothing is changed on disk, `last` is where the intact part ends,
              `proven_zxid` the highest intact batch seen anywhere after the hole, and the member is an amnesiac: it
              may neither lead nor vote. When others fill it again, all of it goes into a directory beside
              (`datatree.log.aside`)

Not here: which members can be filled by others (`zab.member.membership.damage`), what an amnesiac does
(`zab.protocol.peer`).
"""

from datatree.history import beyond
from datatree.log.aside import DAMAGED, DAMAGED_DIRECTORY, set_aside
from datatree.log.batch import CHAIN_BYTES, Batch, Position, follows, genesis, imported
from datatree.log.disk import Disk, is_full
from datatree.log.epochs import (
    ACCEPTED_EPOCH,
    COMMITTED,
    CURRENT_EPOCH,
    DIRECTORY,
    INITIALIZE,
    MEMBER,
    forget_member,
    load_epochs,
    load_mark,
    load_member,
    load_record,
    take_marker,
)
from datatree.log.frame import Bad
from datatree.log.segment import (
    SEGMENT_HEADER_BYTES,
    Index,
    Segment,
    SegmentHeader,
    log_files,
    log_path,
    read_segment_header,
)
from datatree.log.session_keys import (
    SESSION_KEYS,
    NamedKey,
    has_damaged_session_keys,
    lineage_key,
    load_session_keys,
)
from datatree.log.transaction_log import SPARE, LogContents, write_segment
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.record import RecordError
from datatree.recovery.found_file import FoundFile
from datatree.recovery.recovered import Damage, Recovered
from datatree.recovery.replay import Replay
from datatree.snapshot import FETCH, SnapshotError, load_snapshot, read_snapshot_header, snapshot_files, snapshot_path
from datatree.tree import DataTree

RECENT_BYTES = 16 << 20

_REPLACE = "the file is kept"
_WIPED = "this member counts for nothing until it has been synchronized"
_REPORT = "nothing depends on it; other members have the same bytes"


def recover(disk: Disk, server_id: int | None = None, *, recent_bytes: int = RECENT_BYTES) -> Recovered:
    """Load what is on disk, cut what is torn, set aside what is stale, make durable what was not.

    With `server_id`, a member record of another server does not count. Raises OSError."""
    _remove_leftovers(disk)
    recovered, run = _read(disk, server_id, recent_bytes)
    if not run.damage:
        run.settle()  # `recovered` has the same list of log files
    recovered.marked = run.take_marker(is_known=load_member(disk) is not None)
    is_damaged = has_damaged_session_keys(disk)
    if (recovered.epochs is None or is_damaged) and not run.damage:
        # Otherwise it would count as soon as it has written its epochs, which is too early (B1 member record).
        forget_member(disk)
    if not run.damage:
        # After the member record is removed: without their file, session keys are not known to be missing.
        for path in _damaged_records(disk):
            set_aside(disk, path, DAMAGED)
    return recovered


def examine(disk: Disk) -> Recovered:
    """What `recover` would find, without changing anything: for tools that inspect a stopped member."""
    return _read(disk, None, RECENT_BYTES)[0]


def _read(disk: Disk, server_id: int | None, recent_bytes: int) -> "tuple[Recovered, _Recovery]":
    member, epochs = load_member(disk), load_epochs(disk)
    run = _Recovery(disk, member.lineage if member is not None else _newest_lineage(disk), recent_bytes)
    run.load_snapshot()
    run.read_log()
    run.check_end()
    for path in _damaged_records(disk):
        run.problems.append(Damage(path, 0, "its checksum does not match", _WIPED))
    known = member is not None and (server_id is None or member.server_id == server_id)
    replay = run.replay
    recovered = Recovered(
        tree=replay.tree,
        lineage=run.lineage,
        mark=replay.mark,
        base=replay.base,
        recent=list(replay.recent),
        pending=list(replay.pending),
        log=LogContents(run.lineage, run.segments, replay.last, replay.mark, bool(run.damage)),
        snapshot_zxid=run.start[0],
        epochs=epochs,
        amnesiac=not known or epochs is None or has_damaged_session_keys(disk) or bool(run.damage),
        marked=False,
        damage=run.damage,
        problems=run.problems,
        proven_zxid=max(run.proven_zxid, replay.last[0]),
        beginning=run.beginning,
        founder=member is not None and member.founder,
        session_keys=_session_keys(disk, run.lineage, replay.last[0]),
        replayed_count=replay.applied_count,
        mismatch_zxid=replay.mismatch_zxid,
    )
    return recovered, run


def _damaged_records(disk: Disk) -> list[str]:
    """The paths of the small records that are there and cannot be read."""
    names = (ACCEPTED_EPOCH, CURRENT_EPOCH, MEMBER)
    damaged = [name for name in names if disk.exists(f"{DIRECTORY}/{name}") and load_record(disk, name) is None]
    damaged += [SESSION_KEYS] if has_damaged_session_keys(disk) else []
    return [f"{DIRECTORY}/{name}" for name in damaged]


def _session_keys(disk: Disk, lineage: bytes, last: int) -> list[NamedKey]:
    """The session keys; without their file, the only key of older versions."""
    keys = load_session_keys(disk, lineage)
    if keys is None:
        return [lineage_key(lineage)] if last > BEFORE_ALL and not has_damaged_session_keys(disk) else []
    return keys


def _remove_leftovers(disk: Disk) -> None:
    """Remove what a crash left of files that were being written. What can be read of them may not be on the disk (C1
    failed syncs), so none of them is continued."""
    for name in disk.list(DIRECTORY):
        path = f"{DIRECTORY}/{name}"
        if name.endswith((".tmp", FETCH)) or path == SPARE:
            disk.remove(path)


def _newest_lineage(disk: Disk) -> bytes:
    """The lineage of the newest snapshot or log file that has one."""
    for zxid in reversed(snapshot_files(disk)):
        snapshot = read_snapshot_header(disk, snapshot_path(zxid))
        if snapshot is not None:
            return snapshot.lineage
    for first in reversed(log_files(disk)):
        header = read_segment_header(disk.read(log_path(first), 0, SEGMENT_HEADER_BYTES), first)
        if header is not None:
            return header.lineage
    return b""


class _Recovery:
    """One run of recovery; the public methods are its steps, in this order."""

    def __init__(self, disk: Disk, lineage: bytes, recent_bytes: int) -> None:
        self.disk = disk
        self.lineage = lineage
        self.damage: list[Damage] = []
        self.problems: list[Damage] = []
        self.proven_zxid = 0
        self.beginning = 0
        self.segments: list[Segment] = []
        self.start: Position = (BEFORE_ALL, genesis(lineage) if lineage else bytes(CHAIN_BYTES))
        self.replay = Replay(DataTree(), self.start, recent_bytes)
        self._recent_bytes = recent_bytes
        self._bad_snapshots: list[int] = []
        self._stale: list[str] = []
        self._begun: list[str] = []
        """Log files that hold nothing yet."""
        self._bad: Damage | None = None
        """The stretch that could not be read, while it is open whether anything depends on it."""
        self._connected = False
        """The log has the position at which the replay starts."""
        self._diverged = False
        """The log has a different history at that position."""
        self._newest: FoundFile | None = None
        self._newest_index = Index(0)
        self._unsynced: list[Batch] = []
        self._synced_last = self.start
        """The last batch of the newest file before its sync mark; `_unsynced` are those after it."""

    # 1. The snapshot.

    def load_snapshot(self) -> None:
        """Begin with the newest snapshot that is whole and in this lineage."""
        for zxid in reversed(snapshot_files(self.disk)):
            path = snapshot_path(zxid)
            header = read_snapshot_header(self.disk, path)
            if header is not None and header.lineage != self.lineage:
                self._set_aside(path, f"it has lineage {header.lineage.hex()}, not {self.lineage.hex()}")
                continue
            try:
                header, tree = load_snapshot(self.disk, path)
            except SnapshotError as error:
                self._bad_snapshots.append(zxid)
                self.problems.append(Damage(path, error.offset, error.reason, "what is before it is used"))
                continue
            self.start = Zxid(header.zxid), header.chain
            if header.chain == imported(header.lineage, self.start[0], tree.digest):
                self.beginning = header.zxid
            self.replay = Replay(tree, self.start, self._recent_bytes)
            return

    def _set_aside(self, path: str, reason: str) -> None:
        self._stale.append(path)
        self.problems.append(Damage(path, 0, reason, "set aside"))

    # 2. The log.

    def read_log(self) -> None:
        """Replay the files after the snapshot, and note the older ones."""
        files = self._find_files()
        if not files:
            return
        at = self._place_of_start(files)
        for number, file in enumerate(files[at:], at):
            later = files[number + 1] if number + 1 < len(files) else None
            self._read_file(file, later)
        if self._bad is not None:
            self.damage.append(self._bad)
        if self.damage:
            self.segments.clear()
        elif self._diverged or not self._connected:
            self.segments.clear()
            for file in files:
                self._set_aside(file.path, f"it does not connect to the snapshot at {self.start[0]:#x}")
        elif self.segments[0].start == SEGMENT_HEADER_BYTES:
            self._note_older(files[:at])

    def _find_files(self) -> list[FoundFile]:
        """The log files of this lineage, except those that a crash left empty."""
        files: list[FoundFile] = []
        for first in log_files(self.disk):
            header = read_segment_header(self.disk.read(log_path(first), 0, SEGMENT_HEADER_BYTES), first)
            if header is not None and header.lineage != self.lineage:
                self._set_aside(log_path(first), f"it has lineage {header.lineage.hex()}, not {self.lineage.hex()}")
            else:
                files.append(FoundFile(first, header))
        while files and files[-1].promised_nothing(self.disk):
            self._begun.append(files.pop().path)
        if files:
            self._newest = files[-1]
        return files

    def _place_of_start(self, files: list[FoundFile]) -> int:
        """The index of the file with the batch after the snapshot: the last one that begins at or below it."""
        result = 0
        for number, file in enumerate(files):
            if (file.header.previous[0] if file.header is not None else file.first) <= self.start[0]:
                result = number
        return result

    def _read_file(self, file: FoundFile, later: FoundFile | None) -> None:
        """Replay one file, up to where the later one takes over."""
        cutoff = later.header.previous if later is not None and later.header is not None else None
        position = file.header.previous if file.header is not None else self.replay.last
        if file.header is None:
            self._unreadable(file, 0, "checksum of the header does not match")
        elif position == self.start:
            self._connected = True
        segment = Segment(file.path, file.first, position, self.replay.last, SEGMENT_HEADER_BYTES)
        index = Index(position[0])
        found = file.scan(self.disk)
        for part in found.parts:
            if cutoff is not None and self.replay.last == cutoff:
                break
            if isinstance(part, Bad):
                if later is None and part.offset >= found.synced:
                    break
                for batch in part.kept:
                    self._take(file, part.at, batch, cutoff)
                self._unreadable(file, part.at, part.reason)
                # If this turns out not to matter, it held no batch, or the file is good from the snapshot on.
                if self.replay.last[0] > self.start[0]:
                    segment.holes[part.offset] = part.end
                else:
                    segment.start, segment.previous, index = part.end, self.start, Index(self.start[0])
                continue
            segment.end = part.end
            for batch, end in zip(part.batches, part.ends, strict=True):
                if later is None and part.offset >= found.synced:
                    if not self._unsynced:
                        self._synced_last = position
                    self._unsynced.append(batch)
                if self._take(file, end, batch, cutoff):
                    index.add(end - len(batch.raw), batch)
                    position = batch.zxid, batch.chain
        file.found = None
        segment.last = self.replay.last
        segment.index = index.sparse()
        self.segments.append(segment)
        if later is None:
            self._newest_index = index

    def _unreadable(self, file: FoundFile, offset: int, reason: str) -> None:
        if self._bad is None:
            self._bad = Damage(file.path, offset, reason, _REPLACE)

    def _take(self, file: FoundFile, offset: int, batch: Batch, cutoff: Position | None) -> bool:
        """Take one intact batch. Returns whether it is part of the history."""
        if cutoff is not None and batch.zxid > cutoff[0]:
            return False
        self.proven_zxid = max(self.proven_zxid, batch.zxid)
        if self.damage or self._diverged:
            return False
        start_zxid, start_chain = self.start
        if batch.zxid <= start_zxid:
            self._nothing_depends()
            if batch.zxid == start_zxid:
                self._connected = batch.chain == start_chain
                self._diverged = not self._connected
            return not self._diverged
        if not self.replay.continues(batch):
            self._does_not_continue(file, offset, batch)
            return False
        self._nothing_depends()
        self._connected = True
        try:
            self.replay.add(batch)
        except RecordError as error:
            self.damage.append(Damage(file.path, offset, f"a batch holds no transactions: {error}", _REPLACE))
        return True

    def _nothing_depends(self) -> None:
        """What could not be read is wholly below an intact batch, which proves what was there."""
        if self._bad is not None:
            self.problems.append(Damage(self._bad.path, self._bad.offset, self._bad.reason, _REPORT))
            self._bad = None

    def _does_not_continue(self, file: FoundFile, offset: int, batch: Batch) -> None:
        begins_later = file.header is not None and file.header.previous[0] > self.start[0]
        last = self.replay.last[0]
        if self._bad is not None:
            self.damage.append(self._bad)
            self._bad = None
        elif self._connected or begins_later:
            reason = f"batch {batch.first:#x} does not continue the chain at {last:#x}"
            if not follows(last, batch):
                reason = f"gap: the history goes on at {batch.first:#x} after {last:#x}"
            self.damage.append(Damage(file.path, offset, reason, _REPLACE))
        else:
            self._diverged = True

    def _note_older(self, files: list[FoundFile]) -> None:
        """Note the files wholly below the snapshot, back to the first one that is not as it should be. They are not
        read."""
        later = self.segments[0].previous
        for file in reversed(files):
            if file.header is None:
                self.problems.append(Damage(file.path, 0, "checksum of the header does not match", _REPORT))
                return
            previous = file.header.previous
            if previous[0] < later[0]:
                size = self.disk.size(file.path)
                self.segments.insert(0, Segment(file.path, file.first, previous, later, size))
                later = previous

    # 3. Where it ends.

    def check_end(self) -> None:
        """Apply what is known to be committed; the history must reach what it is known to have reached."""
        known = load_mark(self.disk)
        path, mark = f"{DIRECTORY}/{COMMITTED}", 0
        if known is not None and known[0] == self.lineage:
            mark = known[1]
        for zxid in self._bad_snapshots:
            if zxid > mark:
                path, mark = snapshot_path(zxid), zxid
        try:
            self.replay.advance(mark)
        except RecordError as error:
            self.damage.append(Damage(self.segments[-1].path, 0, f"a batch holds no transactions: {error}", _REPLACE))
        last = self.replay.last[0]
        reason = beyond(mark, last)
        if reason is not None and not self.damage:
            self.damage.append(Damage(path, 0, reason, _REPLACE))

    # 4. Making it so.

    def settle(self) -> None:
        """Cut, set aside and copy, so that what was found is what is on disk, durably."""
        for path in reversed(self._stale):
            set_aside(self.disk, path)
        for zxid in self._bad_snapshots:
            set_aside(self.disk, snapshot_path(zxid), DAMAGED)
        for path in self._begun:
            self.disk.remove(path)
        if self.disk.list(DIRECTORY):
            # Even the names may only be there because the machine did not go down with the process.
            self.disk.sync_directory(DIRECTORY)
        if not self.segments or self._newest is None:
            return
        newest = self.segments[-1]
        self._cut_torn(newest)
        if self._unsynced:
            copy = self._copy_unsynced()
            if copy is None:
                self._write_again(newest, self._newest.synced)
            elif copy.path == newest.path:
                self.segments[-1:] = [copy]
                return
            else:
                self.segments.append(copy)
                newest.end, newest.last = self._newest.synced, self._synced_last
                self._newest_index.cut(newest.end)
                newest.index = self._newest_index.sparse()
                self._cut_torn(newest)
        self._newest_index.end = newest.end
        if newest.stored_index(self.disk) != self._newest_index:
            newest.write_index(self.disk, self._newest_index)

    def _cut_torn(self, segment: Segment) -> None:
        """Cut before anything is written: on a full disk this may be all the room there is."""
        if self.disk.size(segment.path) > segment.end:
            self.disk.truncate(segment.path, segment.end)

    def _copy_unsynced(self) -> Segment | None:
        """Copy what was written after the sync mark into a separate file; None if the disk has no room for it."""
        header = SegmentHeader(self.lineage, self._synced_last, self._unsynced[0].first)
        try:
            return write_segment(self.disk, header, self._unsynced)
        except OSError as error:
            has_taken_its_place = not self.disk.exists(f"{log_path(header.first)}.tmp")
            if has_taken_its_place or not is_full(error):
                raise
        _remove_leftovers(self.disk)
        return None

    def _write_again(self, segment: Segment, synced: int) -> None:
        """Rewrite the same bytes in place, which takes no room, and sync them."""
        data = self.disk.read(segment.path, synced, segment.end - synced)
        file = self.disk.open_append(segment.path, create=False, offset=synced)
        file.write(data)
        file.sync()
        file.close()
        reason = "the disk has no room for a copy of what was not known to be synced"
        self.problems.append(Damage(segment.path, synced, reason, "it is written again in its place"))

    # 5. What the operator says.

    def take_marker(self, *, is_known: bool) -> bool:
        """Whether the operator declared that this member never had data, and nothing here contradicts it: no record, no
        history, and none that was set aside."""
        if not take_marker(self.disk):
            return False
        names = [*self.disk.list(DIRECTORY), *self.disk.list(DAMAGED_DIRECTORY)]
        had_data = is_known or any(name.startswith(("log.", "snapshot.")) for name in names)
        if had_data:
            reason = "it says that this member never had data, but it has, or had"
            self.problems.append(Damage(INITIALIZE, 0, reason, "removed, and it counts for nothing"))
        return not had_data
