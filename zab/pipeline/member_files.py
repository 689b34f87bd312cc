"""One member's directory: its log files and snapshots by rising zxid, and whose they are.

    member_in(directory, entries) -> MemberFiles, or None

A log file is described by its name and its first bytes, and by its place among the others: a later native file voids
the batches above the zxid that it continues. What is wrong with a single file is said in `LogFile.problem`.

Invariants: the log files rise by the zxid in their names; nothing is read beyond their headers. Not here: finding the
directories, and the names of ensembles (`inventory`).
"""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast
from zlib import crc32

from attrs import define, evolve, field, frozen

from datatree.log.batch import Position
from datatree.log.disk import Disk
from datatree.log.epochs import (
    ACCEPTED_EPOCH,
    COMMITTED,
    CURRENT_EPOCH,
    MEMBER,
    MemberRecord,
    load_mark,
    load_member,
)
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, read_segment_header
from datatree.snapshot import SnapshotHeader, read_snapshot_header
from datatree.zookeeper.files import FILE_HEADER, LOG_MAGIC, VERSION, parse_file_name
from zab.pipeline.decoding.damage import DAMAGED, FOREIGN, UNREADABLE, Damage
from zab.pipeline.errors import PipelineError
from zab.pipeline.places import Entry, Place

__all__ = [
    "VERSION_DIRECTORIES",
    "LogFile",
    "LogKind",
    "MemberFiles",
    "SnapshotFile",
    "belongs_to_a_member",
    "join",
    "member_in",
    "way_of",
]

LogKind: TypeAlias = Literal["native", "version-2"]

_READERS: Final = 16
VERSION_DIRECTORIES: Final[dict[str, LogKind]] = {"version-1": "native", "version-2": "version-2"}
_MAGICS: Final[dict[bytes, LogKind]] = {
    b"ZLOG": "native", b"ZSNP": "native", b"ZKLG": "version-2", b"ZKSN": "version-2",
}  # fmt: skip
_MYID: Final = "myid"
_RECORDS: Final = (ACCEPTED_EPOCH, CURRENT_EPOCH, MEMBER)
_EPOCH_DIGITS: Final = 9
_PIECE_BYTES: Final = 1 << 20
_SMALL_BYTES: Final = 4096
"""More than any of the small files of a member holds."""


@frozen
class LogFile:
    """One log file. `first` is the zxid in its name, `size` in bytes (with what is preallocated).

    Native files: `lineage`, `previous` (the position that the file continues) and `header_crc` come from its header,
    None if that is unreadable; batches above `cutoff` are void, because a later file begins there; `has_index` says
    that there is a sidecar index. ZooKeeper's files: `first_record` is the checksum and length of the first record,
    `first_header` its session, cxid, zxid, time and type.
    The next file goes on after the zxid `following`, as far as that is known. `problem` is what is wrong with the file
    as a whole; if its kind is foreign or unreadable, none of the file is read."""

    place: Place
    kind: LogKind
    first: int
    size: int
    lineage: bytes | None = None
    previous: Position | None = None
    header_crc: int = 0
    cutoff: int | None = None
    following: int | None = None
    is_newest: bool = False
    has_index: bool = False
    first_record: bytes = b""
    first_header: bytes = b""
    problem: Damage | None = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def index(self) -> Place:
        """The place of the sidecar index, whether there is one or not."""
        return Place(self.place.root, f"{self.place.path}.index")

    @property
    def is_usable(self) -> bool:
        return self.problem is None or self.problem.kind == DAMAGED


@frozen
class SnapshotFile:
    """One snapshot file, whose content was not looked at. `zxid` is the one in its name. `lineage` and `chain` come
    from the header of a native one, None if that is unreadable."""

    place: Place
    kind: LogKind
    zxid: int
    size: int
    lineage: bytes | None = None
    chain: bytes | None = None

    @property
    def name(self) -> str:
        return self.place.name


@define
class MemberFiles:
    """What one member's directory holds: its files, by rising zxid, and whose they are. `committed` is the high-water
    mark that the member keeps beside its native logs. `has_records` says that there are epoch files, a member's record
    or `myid`. `epoch` is the one in `currentEpoch`. `log_directory` is where the logs are, if elsewhere."""

    ensemble: str
    member: str
    kind: LogKind
    directory: Place
    logs: list[LogFile] = field(factory=list)
    snapshots: list[SnapshotFile] = field(factory=list)
    lineage: bytes | None = None
    committed: int = 0
    has_records: bool = False
    epoch: int = 0
    log_directory: Place | None = None

    @property
    def is_log_directory(self) -> bool:
        """Whether it holds only logs: the member's other files are in another directory."""
        return bool(self.logs) and not self.snapshots and not self.has_records


def belongs_to_a_member(directory: Place, entries: list[Entry]) -> bool:
    """Whether the directory has logs or snapshots in it, or the records of a member that has none yet."""
    names = [entry.name for entry in entries if not entry.is_directory]
    if directory.name in VERSION_DIRECTORIES and any(name in _RECORDS for name in names):
        return True
    return any(parse_file_name(name) is not None for name in names)


def way_of(member: MemberFiles) -> list[str]:
    """The names on the path from the root to the member's data directory."""
    directory = member.directory
    return (directory.parent if directory.name in VERSION_DIRECTORIES else directory).path.split("/")


def member_in(directory: Place, entries: list[Entry]) -> MemberFiles | None:
    """The files of the member that has this directory; None if they are neither zab's nor ZooKeeper's."""
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    named = [(entry, name) for entry in files.values() if (name := parse_file_name(entry.name)) is not None]
    with ThreadPoolExecutor(_READERS) as pool:
        heads = list(pool.map(_head, (entry for entry, _ in named)))
    kinds: set[LogKind] = {_MAGICS[head[:4]] for head in heads if head[:4] in _MAGICS}
    kinds |= {"version-2" for _, name in named if name.compression}
    if len(kinds) > 1:
        raise PipelineError(f"{directory} mixes files of zab and of ZooKeeper")
    if not kinds and directory.name in VERSION_DIRECTORIES:
        kinds = {VERSION_DIRECTORIES[directory.name]}
    if not kinds:
        return None
    kind = kinds.pop()
    member = MemberFiles("", "", kind, directory)
    for (entry, name), head in zip(named, heads, strict=True):
        if name.kind == "snapshot":
            member.snapshots.append(_snapshot(entry, kind, name.zxid, head))
        elif any(head) or (head and _has_content(entry)):
            log = _native_log(entry, name.zxid, head) if kind == "native" else _version2_log(entry, name.zxid, head)
            member.logs.append(evolve(log, has_index=f"{entry.name}.index" in files))
    member.snapshots.sort(key=lambda snapshot: snapshot.zxid)
    member.logs.sort(key=lambda log: log.first)
    _identify(member, files)
    _settle(member)
    return member


def _head(entry: Entry) -> bytes:
    return _cached_head(entry.place, entry.size, entry.modified_ns) if entry.size else b""


@lru_cache(maxsize=65_536)
def _cached_head(place: Place, _size: int, _modified_ns: int) -> bytes:
    """Read the beginning of a file. A stream lists its directories often; an unchanged file is not read again."""
    return place.read(0, SEGMENT_HEADER_BYTES)


def _has_content(entry: Entry) -> bool:
    """Whether a file that begins with zeros has anything else. Preallocated space is no log yet."""
    return _cached_has_content(entry.place, entry.size, entry.modified_ns)


@lru_cache(maxsize=65_536)
def _cached_has_content(place: Place, size: int, _modified_ns: int) -> bool:
    with place.open() as file:
        pieces = (file.read(at, _PIECE_BYTES) for at in range(0, size, _PIECE_BYTES))
        return any(piece.count(0) < len(piece) for piece in pieces)


# One file.


def _native_log(entry: Entry, first: int, head: bytes) -> LogFile:
    log = LogFile(entry.place, "native", first, entry.size)
    header = read_segment_header(head, first)
    if header is not None:
        crc = crc32(header.pack()[:-4])
        return evolve(log, lineage=header.lineage, previous=header.previous, header_crc=crc)
    other = _header_of_other_name(head)
    if other is not None:
        reason = f"its header says that it is log.{other.first:x}"
        return evolve(log, lineage=other.lineage, problem=Damage(0, None, FOREIGN, reason))
    reason = "checksum of the header does not match"
    return evolve(log, problem=Damage(0, SEGMENT_HEADER_BYTES, DAMAGED, reason))


def _header_of_other_name(head: bytes) -> SegmentHeader | None:
    """The header of a file that was created under another name."""
    return read_segment_header(head, int.from_bytes(head[48:56], "big"))


_FRAME_BYTES: Final = 12
_TXN_HEADER_BYTES: Final = 32


def _version2_log(entry: Entry, first: int, head: bytes) -> LogFile:
    log = LogFile(entry.place, "version-2", first, entry.size)
    if len(head) < FILE_HEADER.size:
        return evolve(log, problem=Damage(0, None, UNREADABLE, f"the file ends in its header, at {len(head)} bytes"))
    magic, version, _ = FILE_HEADER.unpack_from(head)
    if magic == LOG_MAGIC and version == VERSION:
        record = head[FILE_HEADER.size :]
        return evolve(log, first_record=record[:_FRAME_BYTES], first_header=record[_FRAME_BYTES:][:_TXN_HEADER_BYTES])
    reason = f"the file header is damaged: magic {magic & 0xFFFF_FFFF:#010x}, version {version}"
    return evolve(log, problem=Damage(0, FILE_HEADER.size, DAMAGED, reason))


def _snapshot(entry: Entry, kind: LogKind, zxid: int, head: bytes) -> SnapshotFile:
    header: SnapshotHeader | None = None
    if kind == "native":
        header = read_snapshot_header(cast("Disk", _OneDirectory({entry.name: head})), entry.name)
    lineage, chain = (None, None) if header is None else (header.lineage, header.chain)
    return SnapshotFile(entry.place, kind, zxid, entry.size, lineage, chain)


@frozen
class _OneDirectory:
    """The small files of a member's directory, as the part of a `Disk` that `datatree`'s readers of them use."""

    files: dict[str, bytes]

    def exists(self, path: str) -> bool:
        return path.rpartition("/")[2] in self.files

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self.files[path.rpartition("/")[2]]
        return data[offset:] if length is None else data[offset : offset + length]


# One member.


def _identify(member: MemberFiles, files: dict[str, Entry]) -> None:
    """Fill in the member's number, lineage and mark; without a number, it is named after its directory."""
    directory = member.directory
    above = directory.parent if directory.name in VERSION_DIRECTORIES else directory
    member.member = above.name or str(above)
    own = _my_id(above)
    member.has_records = own is not None or any(name in files for name in _RECORDS)
    member.epoch = _epoch(files)
    if member.kind == "version-2":
        member.member = own or member.member
        return
    small = {name: files[name].place.read(0, _SMALL_BYTES) for name in (MEMBER, COMMITTED) if name in files}
    disk = cast("Disk", _OneDirectory(small))
    record: MemberRecord | None = load_member(disk)
    if record is not None:
        member.lineage, member.member = record.lineage, str(record.server_id)
    else:
        member.member = own or member.member
        newest: list[LogFile | SnapshotFile] = [*member.logs, *member.snapshots]
        known = [one.lineage for one in newest if one.lineage is not None]
        member.lineage = known[0] if not member.logs and known else None
        for log in member.logs:
            member.lineage = log.lineage or member.lineage
    mark = load_mark(disk)
    if mark is not None and mark[0] == member.lineage:
        member.committed = mark[1]


def _epoch(files: dict[str, Entry]) -> int:
    """The epoch in `currentEpoch`, 0 if there is none."""
    if CURRENT_EPOCH not in files:
        return 0
    line = files[CURRENT_EPOCH].place.read(0, _SMALL_BYTES).partition(b"\n")[0]
    return int(line) if line.isdigit() and len(line) <= _EPOCH_DIGITS else 0


def _my_id(directory: Place) -> str | None:
    place = directory / _MYID
    if place.kind() != "file":
        return None
    text = place.read(0, _SMALL_BYTES).decode("ascii", "replace").strip()
    return text if text.isdecimal() else None


def _settle(member: MemberFiles) -> None:
    """Fill in what a file's place among the others says about it."""
    logs = member.logs
    for number, log in enumerate(logs):
        if log.lineage is not None and member.lineage is not None and log.lineage != member.lineage and not log.problem:
            reason = f"it has lineage {log.lineage.hex()}, and the directory {member.lineage.hex()}"
            logs[number] = evolve(log, problem=Damage(0, None, FOREIGN, reason))
    cutoff: int | None = None
    following: int | None = None
    for number in reversed(range(len(logs))):
        log = logs[number]
        logs[number] = evolve(log, cutoff=cutoff, following=following, is_newest=number == len(logs) - 1)
        if log.is_usable:
            begins: int | None = log.previous[0] if log.previous is not None else None
            if log.kind == "version-2":
                begins = log.first - 1
            if begins is not None:
                cutoff = begins if cutoff is None else min(cutoff, begins)
            following = begins


def join(state: MemberFiles, log: MemberFiles) -> None:
    state.logs, state.log_directory = log.logs, log.directory
    state.lineage = state.lineage or log.lineage
    _settle(state)
