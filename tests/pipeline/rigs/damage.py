"""Injectors of damage into copies of data directories, each of which says what a finder has to name.

    copy = zab_directories.copy(tmp_path)
    injected = flip_byte(copy, member=0)
    assert injected.named_by(file, offset)

The place is chosen in the middle of the member's history, at a transaction that all members hold and that sets data, so
that what one member loses another one has. Every injector changes one member alone, and the files under the same
`Directories` that it was given; nothing here looks at what the pipeline makes of it.

    flip_byte            one byte in a record, a header, a frame's header, a file's header, an index, a snapshot
    zeros, truncate      a sector of zeros; a file cut in the middle of a frame
    remove_record        one record or batch gone, and the framing and checksums of the file mended
    change_record        another value: caught by a checksum, by the chain alone, or only beside the other members
    swap_segments        two log files with each other's content
    remove_segment       a log file gone from the middle
    shorten_tail         the end of the history gone, at a clean cut
    absurd_length        a length that no file can have, its checksums right
    uncommitted_tail     no damage: transactions that one member logged and no quorum has
    foreign_segment, mixed_versions, empty_segment, without_logs, stray_files    what does not belong there
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from datatree.log.batch import HEADER_BYTES, Batch, build
from datatree.log.frame import FRAME_HEADER_BYTES, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES
from datatree.opcodes import OpCode
from datatree.record import Txn, encode
from datatree.zookeeper.log import LOG_HEADER, encode_record
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.native_files import LogFrame, NativeLog, rechained, with_body, with_header, with_records
from tests.pipeline.rigs.version2_files import Record, Version2Log

DAMAGED: Final = "damaged"
GAP: Final = "gap"
TORN: Final = "torn"
FOREIGN: Final = "foreign"
UNREADABLE: Final = "unreadable"

SECTOR_BYTES: Final = 512
FORGED: Final = b"forged"
"""What data of changed records begins with."""


@dataclass(frozen=True)
class Injected:
    """What was done, and what a finder has to name.

    member: its place in `Directories.members`. file: the one that is wrong. start, end: the stretch of it in which the
    offset that is named must lie, `start` included; of a thing that is missing, where its place was. zxids: first and
    last that this member lost, or has wrong; None when all can still be read. kinds: of the rows of damage that reading
    this member alone has to give; none when a single member cannot know. beside: another file that may be named
    instead, at any offset.
    """

    what: str
    member: int
    file: Path
    start: int
    end: int
    zxids: tuple[int, int] | None
    kinds: frozenset[str]
    beside: Path | None = None

    def named_by(self, file: str, offset: int) -> bool:
        """Whether this is the place: `file` is a path or a URI of it."""
        if self.beside is not None and file.endswith(str(self.beside)):
            return True
        return file.endswith(str(self.file)) and self.start <= offset < max(self.end, self.start + 1)


def shared_zxids(directories: Directories) -> set[int]:
    """The transactions that are in the logs of all members."""
    held = []
    for member in range(len(directories.members)):
        zxids: set[int] = set()
        for path in directories.logs(member):
            if directories.kind == NATIVE:
                for batch in NativeLog.read(path).batches():
                    zxids.update(range(batch.first, batch.zxid + 1))
            else:
                zxids.update(record.txn.zxid for record in Version2Log.read(path).records)
        held.append(zxids)
    return set.intersection(*held)


def middle_file(directories: Directories, member: int) -> Path:
    """A log file from the middle of what all members hold, not the newest; one that its epoch goes on after, if there
    is one: what is missing at the end of an epoch is named where the next one begins."""
    shared = shared_zxids(directories)
    files = directories.logs(member)
    starts = [int(path.name.partition(".")[2], 16) for path in files]
    good = [
        (path, first >> 32 == following >> 32)
        for path, first, following in zip(files, starts, starts[1:], strict=False)
        if {first, following} <= shared and following - first > 20
    ]
    middle = len(good) // 2
    nearest_first = sorted(range(len(good)), key=lambda at: abs(at - middle))
    return good[next((at for at in nearest_first if good[at][1]), middle)][0]


def _target_batch(directories: Directories, member: int) -> tuple[NativeLog, Batch]:
    """A batch from the middle of the middle file, which sets data."""
    log = NativeLog.read(middle_file(directories, member))
    batches = list(log.batches())
    for batch in batches[len(batches) // 2 :]:
        if struct.unpack_from(">B", batch.raw, HEADER_BYTES + 39)[0] == OpCode.SET_DATA and len(batch.body) > 100:
            return log, batch
    raise AssertionError(f"no batch that sets data in the second half of {log.path}")


def _target_record(directories: Directories, member: int) -> tuple[Version2Log, Record]:
    log = Version2Log.read(middle_file(directories, member))
    for record in log.records[len(log.records) // 2 :]:
        if record.txn.type == OpCode.SET_DATA and len(record.txn.data or b"") > 8:
            return log, record
    raise AssertionError(f"no record that sets data in the second half of {log.path}")


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


def flip_byte(directories: Directories, member: int = 0, where: str = "record") -> Injected:
    """where: record, header (of the batch, or of the record: its length), frame, file, index, snapshot.

    Native files alone have frame and index. What a frame's header covers is lost with it; of a file whose own header is
    bad the frames are still good."""
    what = f"a byte flipped: {where}"
    if where == "snapshot":
        path = directories.snapshots(member)[-1]
        size = path.stat().st_size
        _flip(path, size // 2)
        return Injected(what, member, path, 0, size, None, frozenset({DAMAGED}))
    if directories.kind == NATIVE:
        return _flip_native(directories, member, where, what)
    log, record = _target_record(directories, member)
    zxid, start, end = record.txn.zxid, record.offset, record.offset + len(record.raw)
    if where == "file":
        _flip(log.path, 1)
        return Injected(what, member, log.path, 0, len(LOG_HEADER), None, frozenset({DAMAGED, UNREADABLE, FOREIGN}))
    # The payload begins after checksum and length; its data, before the version and the digest.
    _flip(log.path, start + 8 if where == "header" else start + 12 + 44 + len(record.txn.path))
    return Injected(what, member, log.path, start, end, (zxid, zxid), frozenset({DAMAGED}))


def _flip_native(directories: Directories, member: int, where: str, what: str) -> Injected:
    log, batch = _target_batch(directories, member)
    offset, frame = log.offsets[batch.zxid], log.frame_of(batch.zxid)
    frame_end = frame.offset + FRAME_HEADER_BYTES + sum(len(found.raw) for found in frame.batches)
    kinds = frozenset({DAMAGED})
    if where == "record":
        _flip(log.path, offset + HEADER_BYTES + len(batch.body) // 2)
        end = offset + len(batch.raw)
        return Injected(what, member, log.path, offset, end, (batch.first, batch.zxid), kinds)
    if where == "header":
        _flip(log.path, offset + 30)
        return Injected(what, member, log.path, offset, frame_end, (batch.first, frame.batches[-1].zxid), kinds)
    if where == "frame":
        _flip(log.path, frame.offset + 10)
        zxids = frame.batches[0].first, frame.batches[-1].zxid
        return Injected(what, member, log.path, frame.offset, frame_end, zxids, kinds)
    if where == "file":
        _flip(log.path, 20)
        return Injected(what, member, log.path, 0, SEGMENT_HEADER_BYTES, None, frozenset({DAMAGED, FOREIGN}))
    assert where == "index", where
    size = log.index_path.stat().st_size
    _flip(log.index_path, size // 2)
    return Injected(what, member, log.index_path, 0, size, None, frozenset())


def zeros(directories: Directories, member: int = 0) -> Injected:
    """A sector of zeros in the middle of a file, as a disk leaves one that it lost."""
    if directories.kind == NATIVE:
        log, batch = _target_batch(directories, member)
        path, at = log.path, log.offsets[batch.zxid]
        hit = [
            (found.offset, found.batches)
            for found in log.frames
            if found.batches and found.offset < at + SECTOR_BYTES
            and found.offset + FRAME_HEADER_BYTES + sum(len(one.raw) for one in found.batches) > at
        ]  # fmt: skip
        zxids = batch.first, hit[-1][1][-1].zxid
        start = at
    else:
        file, record = _target_record(directories, member)
        path, at = file.path, record.offset
        lost = [one.txn.zxid for one in file.records if at <= one.offset < at + SECTOR_BYTES]
        zxids, start = (lost[0], lost[-1]), at
    with path.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes(SECTOR_BYTES))
    return Injected("a sector of zeros", member, path, start, at + SECTOR_BYTES, zxids, frozenset({DAMAGED}))


def truncate(directories: Directories, member: int = 0, *, newest: bool = False) -> Injected:
    """A file ends in the middle of a frame. In the newest one that is a torn tail: nothing says it was ever synced; in
    an older one of a native log it is damage. ZooKeeper's older files may end so; then the next one has to go on."""
    if directories.kind == NATIVE:
        path = directories.logs(member)[-1] if newest else middle_file(directories, member)
        log = NativeLog.read(path)
        with_batches = [frame for frame in log.frames if frame.batches]
        frame = with_batches[-1] if newest else with_batches[len(with_batches) // 2]
        last = list(log.batches())[-1].zxid
        os.truncate(path, frame.offset + FRAME_HEADER_BYTES + len(frame.batches[0].raw) // 2)
        kinds = frozenset({TORN} if newest else {DAMAGED})
        return Injected(
            "cut inside a frame", member, path, frame.offset, log.end, (frame.batches[0].first, last), kinds
        )
    path = directories.logs(member)[-1] if newest else middle_file(directories, member)
    file = Version2Log.read(path)
    record = file.records[-1] if newest else file.records[len(file.records) // 2]
    os.truncate(path, record.offset + len(record.raw) // 2)
    kinds = frozenset({TORN} if newest else {TORN, DAMAGED, GAP})
    zxids = record.txn.zxid, file.records[-1].txn.zxid
    return Injected("cut inside a record", member, path, record.offset, file.end, zxids, kinds)


def remove_record(directories: Directories, member: int = 0) -> Injected:
    """One batch (native) or record is gone, and nothing in the file but the numbers and the chain says so."""
    kinds = frozenset({GAP})
    if directories.kind == NATIVE:
        log, batch = _target_batch(directories, member)
        at = log.offsets[batch.zxid]
        frame = log.frame_of(batch.zxid)
        log.replace_batch(batch.zxid, None)
        log.write()
        # Readers may name the batch after the gap, or the end of the one before it.
        following = min(offset for zxid, offset in log.offsets.items() if zxid > batch.zxid)
        start = min(frame.offset, at)
        return Injected(
            "a batch removed", member, log.path, start, following + 1, (batch.first, batch.zxid), kinds
        )  # fmt: skip
    file, record = _target_record(directories, member)
    zxid = record.txn.zxid
    file.records.remove(record)
    file.write()
    return Injected("a record removed", member, file.path, record.offset, record.offset + 1, (zxid, zxid), kinds)


def _forged(txn: Txn) -> Txn:
    """Another value of the same length where that is possible."""
    if txn.type != OpCode.SET_DATA:
        return txn
    data = txn.data or b""
    return replace_txn(txn, FORGED + data[len(FORGED) :])


def replace_txn(txn: Txn, data: bytes) -> Txn:
    return Txn(txn.zxid, txn.time, txn.session, txn.cxid, txn.type, txn.number, txn.path, data, txn.rest)


def change_record(directories: Directories, member: int = 0, mended: str = "checksums") -> Injected:
    """A record has another value on one member. mended: `checksums` of batch or record are right (the chain of a native
    log tells); `chain`, too, to the end of the history and in the headers of later files (only the others tell)."""
    if directories.kind == NATIVE:
        log, batch = _target_batch(directories, member)
        forged = with_body(batch, with_records(batch, _forged))
        assert forged.raw != batch.raw
        log.replace_batch(batch.zxid, forged)
        log.write()
        if mended == "chain":
            _mend_chain(directories, member, log.path)
        log = NativeLog.read(log.path)
        at = log.offsets[batch.zxid]
        kinds = frozenset() if mended == "chain" else frozenset({DAMAGED})
        end, zxids = at + len(forged.raw), (batch.first, batch.zxid)
        return Injected(f"a record changed, {mended} mended", member, log.path, at, end, zxids, kinds)
    assert mended == "checksums", "ZooKeeper's logs have no chain"
    file, record = _target_record(directories, member)
    changed = record.changed(_forged)
    file.records[file.records.index(record)] = changed
    file.write()
    at, zxid = changed.offset, record.txn.zxid
    end = at + len(changed.raw)
    return Injected("a record changed, checksums mended", member, file.path, at, end, (zxid, zxid), frozenset())


def _mend_chain(directories: Directories, member: int, path: Path) -> None:
    """All batches of `path` and of the later files continue each other again."""
    files = directories.logs(member)
    chains: dict[int, bytes] = {}
    for later in files[files.index(path) :]:
        log = NativeLog.read(later)
        zxid, chain = log.header.previous
        chain = chains.get(zxid, chain)
        log.header.previous = zxid, chain
        for frame in log.frames:
            for at, batch in enumerate(frame.batches):
                frame.batches[at] = rechained(chain, batch)
                chain = chains[batch.zxid] = frame.batches[at].chain
        log.write()


def swap_segments(directories: Directories, member: int = 0) -> tuple[Injected, Injected]:
    """Two neighbouring log files have each other's content, their indexes too."""
    files = directories.logs(member)
    at = files.index(middle_file(directories, member))
    one, other = files[at], files[at + 1]
    injected = []
    for path in (one, other):
        zxids = _zxids_of(directories, path)
        size = path.stat().st_size
        kinds = frozenset({FOREIGN, DAMAGED, UNREADABLE, GAP})
        injected.append(Injected("content of another file", member, path, 0, size, zxids, kinds))
    for first, second in ((one, other), (_index(one), _index(other))):
        if first.exists() and second.exists():
            content = first.read_bytes()
            first.write_bytes(second.read_bytes())
            second.write_bytes(content)
    return injected[0], injected[1]


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def _zxids_of(directories: Directories, path: Path) -> tuple[int, int]:
    if directories.kind == NATIVE:
        batches = list(NativeLog.read(path).batches())
        return batches[0].first, batches[-1].zxid
    records = Version2Log.read(path).records
    return records[0].txn.zxid, records[-1].txn.zxid


def remove_segment(directories: Directories, member: int = 0) -> Injected:
    """A log file in the middle is gone: its place is after the end of the one before, or before the next."""
    files = directories.logs(member)
    path = middle_file(directories, member)
    zxids = _zxids_of(directories, path)
    before, following = files[files.index(path) - 1], files[files.index(path) + 1]
    end = NativeLog.read(before).end if directories.kind == NATIVE else Version2Log.read(before).end
    first = int(following.name.partition(".")[2], 16)
    path.unlink()
    _index(path).unlink(missing_ok=True)
    lost = zxids[0], min(zxids[1], first - 1)
    return Injected("a file removed", member, before, end, end + 1, lost, frozenset({GAP}), following)


def shorten_tail(directories: Directories, member: int = 0, count: int = 3) -> Injected:
    """The last batches or records are gone, at a clean cut. The mark of a native member still says there was more."""
    path = directories.logs(member)[-1]
    if directories.kind == NATIVE:
        log = NativeLog.read(path)
        frames = [frame for frame in log.frames if frame.batches]
        cut = frames[-count]
        lost = cut.batches[0].first, frames[-1].batches[-1].zxid
        old_end = log.end
        log.frames = log.frames[: log.frames.index(cut)]
        while log.frames and not log.frames[-1].batches:
            # The frame of a start, which has nothing in it: the log ends with the last batch.
            log.frames.pop()
        log.write()
        return Injected(
            "the tail shortened", member, path, log.end, old_end, lost, frozenset({GAP, DAMAGED, TORN})
        )  # fmt: skip
    file = Version2Log.read(path)
    dropped = file.records[-count:]
    old_end = file.end
    file.records = file.records[:-count]
    file.write()
    lost = dropped[0].txn.zxid, dropped[-1].txn.zxid
    return Injected("the tail shortened", member, path, file.end, old_end, lost, frozenset())


def absurd_length(directories: Directories, member: int = 0, where: str = "body") -> Injected:
    """A length or count far beyond the file, with right checksums where there are any. where: body, count or frame of a
    native log; a record of ZooKeeper's has its length alone."""
    kinds = frozenset({DAMAGED, UNREADABLE})
    if directories.kind != NATIVE:
        file, record = _target_record(directories, member)
        data = bytearray(file.path.read_bytes())
        struct.pack_into(">i", data, record.offset + 8, (1 << 30) - 1)
        file.path.write_bytes(data)
        zxid = record.txn.zxid
        return Injected(
            "an absurd length", member, file.path, record.offset, file.end, (zxid, zxid), kinds
        )  # fmt: skip
    log, batch = _target_batch(directories, member)
    frame = log.frame_of(batch.zxid)
    at = log.offsets[batch.zxid]
    data = bytearray(log.path.read_bytes())
    frame_end = frame.offset + FRAME_HEADER_BYTES + sum(len(found.raw) for found in frame.batches)
    if where == "frame":
        struct.pack_into(">I", data, frame.offset + 4, 0xFFFFFF00)
        checksum = crc32(data[frame.offset : frame.offset + 24], seed_of(log.header.first))
        struct.pack_into(">I", data, frame.offset + 24, checksum)
        log.path.write_bytes(data)
        zxids = frame.batches[0].first, frame.batches[-1].zxid
        return Injected("an absurd length: frame", member, log.path, frame.offset, log.end, zxids, kinds)
    place, value = (4, 60 << 20) if where == "body" else (12, 0x7FFFFFFF)
    raw = with_header(batch, lambda head: struct.pack_into(">I", head, place, value))
    data[at : at + len(raw)] = raw
    log.path.write_bytes(data)
    zxids = batch.first, frame.batches[-1].zxid
    return Injected(f"an absurd length: {where}", member, log.path, frame.offset, frame_end, zxids, kinds)


def uncommitted_tail(directories: Directories, member: int = 0, count: int = 3) -> tuple[int, int]:
    """One member logged more, as a leader does that dies before anybody acknowledges it. No damage: the zxids that must
    not be shown."""
    path = directories.logs(member)[-1]
    first = directories.last_zxid + 1
    txns = [
        Txn(zxid, 1 << 41, 7, 1, OpCode.SET_DATA, 1, b"/kinds", b"uncommitted", None)
        for zxid in range(first, first + count)
    ]
    if directories.kind != NATIVE:
        file = Version2Log.read(path)
        file.records += [Record(txn, None, encode_record(txn)) for txn in txns]
        file.write()
        return first, first + count - 1
    log = NativeLog.read(path)
    last = list(log.batches())[-1]
    assert last.zxid == directories.last_zxid
    for txn in txns:
        made = build(
            last.chain, epoch=last.epoch, first=txn.zxid, count=1, time=txn.time, flags=0, mark=directories.last_zxid,
            applied=last.applied, digest=last.digest, body=encode(txn),
        )  # fmt: skip
        log.frames.append(LogFrame([made], len(log.frames)))
        last = made
    log.write()
    return first, first + count - 1


def foreign_segment(directories: Directories, other: Directories, member: int = 0) -> Injected:
    """A log file of another ensemble lies among a member's own."""
    source = other.logs(0)[-1]
    target = directories.members[member] / directories.version / source.name
    while target.exists():
        target = target.with_name(f"log.{int(target.name.partition('.')[2], 16) + 1:x}")
    shutil.copy(source, target)
    size = target.stat().st_size
    kinds = frozenset({FOREIGN, UNREADABLE, DAMAGED})
    return Injected("a file of another ensemble", member, target, 0, size, None, kinds)


def mixed_versions(directories: Directories, other: Directories, member: int = 0) -> Path:
    """The data directory of a member that has the files of the other version, too."""
    assert directories.kind != other.kind
    shutil.copytree(other.members[0] / other.version, directories.members[member] / other.version)
    return directories.members[member]


def empty_segment(directories: Directories, member: int = 0, *, newest: bool = True) -> Path:
    """A log file of no bytes: after the others, as a crash leaves it, or in place of one in the middle."""
    if not newest:
        path = middle_file(directories, member)
        path.write_bytes(b"")
        return path
    path = directories.members[member] / directories.version / f"log.{directories.last_zxid + 1:x}"
    path.write_bytes(b"")
    return path


def without_logs(directories: Directories, member: int = 0) -> Path:
    """Only snapshots are left."""
    for path in (directories.members[member] / directories.version).glob("log.*"):
        path.unlink()
    return directories.members[member]


def stray_files(directories: Directories, member: int = 0) -> list[Path]:
    """What a reader must pass over: names that look like ours, links in a circle, directories with names of files."""
    place = directories.members[member] / directories.version
    (place / "log.12zz").write_bytes(b"no zxid")
    (place / "log.").write_bytes(b"")
    (place / "snapshot.7.tmp").write_bytes(os.urandom(100))
    (place / "log.99.stale").write_bytes(b"ZLOG")
    (place / "snapshot.5.damaged").write_bytes(b"ZSNP")
    (place / "log.fffffffffffffffffffff").write_bytes(b"ZLOG")
    (place / "log.5").mkdir()
    (place / "loop").symlink_to(place)
    (place / "log.6").symlink_to(place / "absent")
    return sorted(place.iterdir())
