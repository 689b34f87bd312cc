"""One log for `zab log`: native or ZooKeeper's, read once or while it is being written.

`dump` yields what is in the file now; `poll` what was added since, also in the next files of the directory. Both yield

    Entry     a transaction, with what is to be said of it
    Note      something that happened to the log, such as a truncation
    Damage    bytes that should be readable and are not, with file and offset; what is readable after them still comes

A native log says how far it is committed: every batch carries the high-water mark that its leader knew, and the member
keeps its own in `version-1/committed` beside the log. The larger one counts. A transaction above it is `uncommitted`:
logged, but a change of leader may still remove it. While following, such a transaction is yielded at once, and a Note
says so when the mark has passed it.

ZooKeeper's logs carry no mark, so one of them does not say what is committed. Those of several members together do
(`zab.cli.files.member_logs`).

Invariants: transactions come in the order of the log, none twice. Nothing is written, and no lock is taken: the member
may be running.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, TypeAlias

from attrs import define

from datatree.log.batch import Batch, BatchError, parse
from datatree.log.epochs import DIRECTORY, load_mark
from datatree.log.frame import FRAME_HEADER_BYTES, Frame, Scan, read_header, scan, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, read_segment_header
from datatree.record import RecordError, Txn, decode_all
from datatree.zookeeper.files import ZooKeeperFileError, chunks_of, parse_file_name
from datatree.zookeeper.log import LOG_HEADER, LogEnd, LogReader, decode_payload
from zab.host.storage.disk import RealDisk

__all__ = [
    "Damage",
    "Entry",
    "Event",
    "NativeLog",
    "Note",
    "UnreadableError",
    "ZooKeeperLog",
    "has_begun",
    "logs_in",
    "open_log",
]

NATIVE_MAGIC: Final = b"ZLOG"
ZOOKEEPER_MAGIC: Final = b"ZKLG"
_FIRST_ZXID: Final = Struct(">48xQ")
_POLL_BYTES: Final = 64 << 10


class UnreadableError(Exception):
    """The file is not a log, or its beginning is damaged; the text names it."""


@define
class Entry:
    """`committed` is None if the log does not tell. `intact` is False if the record's checksum does not match."""

    txn: Txn
    committed: bool | None
    digest: int | None = None
    intact: bool = True


@define
class Note:
    text: str


@define
class Damage:
    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: offset {self.offset}: {self.reason}"


Event: TypeAlias = Entry | Note | Damage


def open_log(path: Path) -> "NativeLog | ZooKeeperLog":
    """The log at `path`, whichever kind it is. Raises UnreadableError."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == NATIVE_MAGIC:
        return NativeLog(path)
    if magic == ZOOKEEPER_MAGIC:
        return ZooKeeperLog(path)
    raise UnreadableError(f"{path}: offset 0: neither a log of zab nor one of ZooKeeper (it begins with {magic!r})")


def logs_in(directory: Path) -> list[tuple[int, Path]]:
    """The logs in a directory as (zxid, path), by rising zxid."""
    found = []
    for path in directory.iterdir():
        name = parse_file_name(path.name)
        if name is not None and name.kind == "log":
            found.append((name.zxid, path))
    return sorted(found)


def _next_file(path: Path) -> Path | None:
    """The log after `path` in its directory, by the zxids in the names."""
    here = parse_file_name(path.name)
    if here is None or here.kind != "log":
        return None
    return next((other for zxid, other in logs_in(path.parent) if zxid > here.zxid), None)


def has_begun(path: Path, header_bytes: int) -> bool:
    """Whether the header is written: a file may be created, and have its space, before that."""
    with path.open("rb") as file:
        head = file.read(header_bytes)
    return len(head) == header_bytes and any(head)


class NativeLog:
    """A zab log. `mark` is the high-water mark known so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = 0
        self._disk = RealDisk(".", lock=False)
        self._last = 0
        self._noted = 0
        self._at = 0
        self._open(path)
        self._read_mark()

    def _open(self, path: Path) -> None:
        head = self._disk.read(str(path), 0, SEGMENT_HEADER_BYTES)
        first = _FIRST_ZXID.unpack_from(head)[0] if len(head) == SEGMENT_HEADER_BYTES else 0
        header = read_segment_header(head, first)
        if header is None:
            raise UnreadableError(f"{path}: offset 0: the checksum of the log's header does not match")
        self.path = path
        self.header = header
        self._seed = seed_of(first)
        self._at = SEGMENT_HEADER_BYTES

    def _read_mark(self) -> None:
        if self.path.absolute().parent.name == DIRECTORY:
            found = load_mark(RealDisk(str(self.path.absolute().parent.parent), lock=False))
            if found is not None and found[0] == self.header.lineage:
                self.mark = max(self.mark, found[1])

    @property
    def position(self) -> int:
        """How far the file is read, in bytes."""
        return self._at

    @property
    def title(self) -> str:
        zxid = self.header.previous[0]
        return f"Transaction log of lineage {self.header.lineage.hex()} format version 1 after zxid 0x{zxid:x}"

    def dump(self) -> Iterator[Event]:
        """What is in the file. Later batches may say that a transaction is committed, so their marks are read first."""
        found = self._scan()
        for part in found.parts:
            if isinstance(part, Frame):
                start = part.offset + FRAME_HEADER_BYTES
                for batch, end in zip(part.batches, part.ends, strict=True):
                    yield from self._entries(batch, start)
                    start = end
                self._at = part.end
                continue
            for batch in part.kept:
                yield from self._entries(batch, part.offset)
            if part.at >= found.synced:
                self._at = part.offset
                yield Note(f"{self.path}: offset {part.at}: torn, never acknowledged from here on: {part.reason}")
                return
            yield Damage(str(self.path), part.at, part.reason)

    def _scan(self) -> Scan:
        found = scan(self._disk.read(str(self.path)), self.header.first, SEGMENT_HEADER_BYTES)
        for part in found.parts:
            for batch in part.batches if isinstance(part, Frame) else part.kept:
                self.mark = max(self.mark, batch.mark)
        return found

    def find_mark(self) -> int:
        """The high-water mark, as all of the file and the one beside it say."""
        self._scan()
        return self.mark

    def _entries(self, batch: Batch, offset: int) -> Iterator[Event]:
        try:
            txns = decode_all(batch.body, batch.first, batch.count)
        except RecordError as error:
            yield Damage(str(self.path), offset, str(error))
            return
        for txn in txns:
            self._last = txn.zxid
            yield Entry(txn, txn.zxid <= self.mark)

    def poll(self) -> Iterator[Event]:
        """What has come since the last call, or since `dump`."""
        uncommitted_to = self._last if self._last > max(self.mark, self._noted) else 0
        before = self.mark
        self._read_mark()
        fresh: list[tuple[Batch, int]] = []
        while batches := self._read_frame():
            fresh += batches
            self.mark = max(self.mark, *(batch.mark for batch, _ in batches))
        if self.mark > before and uncommitted_to:
            self._noted = min(self.mark, uncommitted_to)
            yield Note(f"committed up to 0x{self._noted:x}")
        for batch, offset in fresh:
            yield from self._entries(batch, offset)
        if not fresh:
            yield from self._go_on()

    def _go_on(self) -> Iterator[Note]:
        """Open the file that follows, if there is one by now."""
        following = _next_file(self.path)
        if not self._is_in_place():
            # Cut off as a whole, or set aside: the newest file is the one that is written to.
            logs = logs_in(self.path.parent)
            following = logs[-1][1] if logs else None
        if following is None or not has_begun(following, SEGMENT_HEADER_BYTES):
            return
        self._open(following)
        begins = self.header.previous[0]
        if begins < self._last:
            yield Note(f"truncated to 0x{begins:x}")
        elif begins > self._last:
            yield Note(f"goes on after 0x{begins:x}: what lies between came with a snapshot")
        self._last = begins

    def _is_in_place(self) -> bool:
        """Whether the file is still the one that was opened."""
        path = str(self.path)
        if not self._disk.exists(path):
            return False
        return read_segment_header(self._disk.read(path, 0, SEGMENT_HEADER_BYTES), self.header.first) == self.header

    def _read_frame(self) -> list[tuple[Batch, int]]:
        """The batches of the next frames that are whole, with their offsets; empty when there is none yet."""
        batches: list[tuple[Batch, int]] = []
        if not self._is_in_place():
            return batches
        while not batches:
            head = self._disk.read(str(self.path), self._at, FRAME_HEADER_BYTES)
            header = read_header(head, 0, self._seed, self._at)
            if header is None:
                return []
            length, start = header[0], self._at + FRAME_HEADER_BYTES
            payload = self._disk.read(str(self.path), start, length)
            at = 0
            while at < length:
                try:
                    batch = parse(payload, at)
                except BatchError:
                    # The write is not finished. If it never is, the next file says so.
                    return []
                batches.append((batch, start + at))
                at += len(batch.raw)
            self._at = start + length
        return batches


class ZooKeeperLog:
    """A log of ZooKeeper."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._disk = RealDisk(".", lock=False)
        self._at = 0
        self.title = ""
        try:
            self._reader = LogReader(chunks_of(self._disk, str(path)), str(path))
        except ZooKeeperFileError as error:
            raise UnreadableError(str(error)) from None
        self.title = f"ZooKeeper Transactional Log File with dbid {self._reader.dbid} txnlog format version 2"

    @property
    def position(self) -> int:
        """How far the file is read, in bytes."""
        return self._reader.offset

    def dump(self) -> Iterator[Event]:
        """What is in the file; a record whose checksum does not match comes both as an Entry, if it can, and Damage."""
        reader = self._reader
        try:
            for offset, intact, payload in reader.payloads():
                yield from self._entry(offset, intact, payload)
        except ZooKeeperFileError as error:
            yield Damage(error.file, error.offset, error.reason)
        if reader.end is LogEnd.TORN:
            yield Note(f"{self.path}: offset {reader.offset}: the last transaction is torn")
        self._at = reader.offset

    def _entry(self, offset: int, intact: bool, payload: bytes) -> Iterator[Event]:
        if not intact:
            yield Damage(str(self.path), offset, "checksum of the transaction does not match")
        try:
            record = decode_payload(payload, str(self.path), offset)
        except ZooKeeperFileError as error:
            yield Damage(error.file, error.offset, error.reason)
        else:
            yield Entry(record.txn, None, record.digest, intact)

    def poll(self) -> Iterator[Event]:
        """What has come since the last call, or since `dump`."""
        path = str(self.path)
        if not has_begun(self.path, len(LOG_HEADER)):
            return
        chunks = chunks_of(self._disk, path, self._at, _POLL_BYTES)
        reader = LogReader(chunks, path, self._at, live=True)
        is_idle = True
        for offset, intact, payload in reader.payloads():
            is_idle = False
            yield from self._entry(offset, intact, payload)
        self._at = reader.offset
        following = _next_file(self.path)
        if is_idle and following is not None:
            self.path = following
            self._at = 0
