"""What is in the directories that a job is given: ensembles, their members, and the log and snapshot files of each.

A DIR is a path or URI, or `NAME=DIR` to name the ensemble. It may be a member's data directory (with `version-1` or
`version-2` in it), one of these two, a directory of log files alone, or a directory with such directories in it, down
to DEPTH_MAX. The first bytes of a file say of what kind it is.

    kind        names                               ensemble, unless named         member
    native      version-1/log.…, snapshot.…         the lineage id                 server id of the `member` record
    version-2   version-2/log.…, snapshot.…[.gz]    the directory that all are in  `myid`

A directory with log files alone, and without such a number, is the `dataLogDir` of the member whose data directory
holds no logs, where their paths say which that is (`datatree.history.pairs`): the two are one member.

A member without such a number has the name of its directory. Where members of one ensemble would have the same name,
the path of the directory is added to it. Members of ZooKeeper are taken for one ensemble as long as no two of them have
the same number.

Invariants: the log files of a member rise by the zxid in their names; nothing is written, no lock is taken, and members
may be running. What is wrong with a single file is said in `LogFile.problem`; what makes a directory unusable is a
`PipelineError`. Deliberately not here: the content of files beyond their headers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from os import PathLike, fspath
from typing import Final, Literal, TypeAlias, cast
from zlib import crc32

from attrs import define, evolve, field, frozen

from datatree.history import pairs
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
from zab.pipeline.places import Entry, Place, open_place, shown

__all__ = ["Dirs", "Inventory", "LogFile", "LogKind", "MemberFiles", "SnapshotFile", "inventory"]

Dirs: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]
LogKind: TypeAlias = Literal["native", "version-2"]

DEPTH_MAX: Final = 4
DIRECTORIES_MAX: Final = 10_000
_READERS: Final = 16
_DIRECTORY: Final[dict[str, LogKind]] = {"version-1": "native", "version-2": "version-2"}
_MAGICS: Final[dict[bytes, LogKind]] = {
    b"ZLOG": "native", b"ZSNP": "native", b"ZKLG": "version-2", b"ZKSN": "version-2",
}  # fmt: skip
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)
_MYID: Final = "myid"
_RECORDS: Final = (ACCEPTED_EPOCH, CURRENT_EPOCH, MEMBER)
_EPOCH_DIGITS: Final = 9
_PIECE_BYTES: Final = 1 << 20
_SMALL_BYTES: Final = 4096
"""More than any of the small files of a member holds."""


@frozen
class LogFile:
    """One log file. `first` is the zxid in its name, `size` in bytes (with what is preallocated).

    Of native files: `lineage`, `previous` (the position that it continues) and `header_crc` are what its header says,
    None when that is unreadable; batches above `cutoff` are void, because a later file begins there; `has_index` says
    that a sidecar index lies beside it. Of ZooKeeper's: `first_record` is the checksum and length of the first one,
    `first_header` its session, cxid, zxid, time and type.
    `following` is the zxid after which the next file goes on, as far as that is known. `problem` is what is wrong with
    the file as a whole; with one of kind foreign or unreadable nothing of it is read."""

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
        """Where the sidecar index is, if there is one."""
        return Place(self.place.root, f"{self.place.path}.index")

    @property
    def is_usable(self) -> bool:
        return self.problem is None or self.problem.kind == DAMAGED


@frozen
class SnapshotFile:
    """One snapshot file, whose content was not looked at. `zxid` is that of its name. `lineage` and `chain` are of
    native ones, None when the header is unreadable."""

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
    mark that the member keeps beside its native logs; `has_records` says that there are epoch files, a member's record
    or `myid`; `epoch` is that of `currentEpoch`; `log_directory` is where its logs are, if not in the same one."""

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
        """It holds logs alone: what else a member has is in another directory."""
        return bool(self.logs) and not self.snapshots and not self.has_records


@define
class Inventory:
    """The files of all members found, by ensemble and member; `dirs` are the names that were given."""

    members: list[MemberFiles]
    dirs: list[str]

    @property
    def ensembles(self) -> dict[str, list[MemberFiles]]:
        """The members of each ensemble."""
        found: dict[str, list[MemberFiles]] = {}
        for member in self.members:
            found.setdefault(member.ensemble, []).append(member)
        return found

    @property
    def shown(self) -> str:
        """The directories as a user may see them."""
        return shown_dirs(self.dirs)


def shown_dirs(dirs: Dirs) -> str:
    """As they were given, but URIs without what may be secret: user, password and query."""
    return ", ".join(f"{name}={shown(text)}" if name else shown(text) for name, text in split_dirs(dirs))


def split_dirs(dirs: Dirs) -> list[tuple[str | None, str]]:
    """(name of the ensemble or None, path or URI) of each. Raises PipelineError."""
    listed = [dirs] if isinstance(dirs, str | PathLike) else list(dirs)
    if not listed:
        raise PipelineError("no directory was given")
    result: list[tuple[str | None, str]] = []
    for item in listed:
        text = fspath(item)
        named = _NAMED.fullmatch(text)
        if named is not None and not open_place(text).kind():
            result.append((named[1], named[2]))
        else:
            result.append((None, text))
    return result


def inventory(dirs: Dirs) -> Inventory:
    """The members in these directories. Raises PipelineError: a directory that does not exist or holds nothing to
    read, or that mixes what cannot be read together."""
    found: list[tuple[str | None, MemberFiles]] = []
    listed = split_dirs(dirs)
    seen: set[str] = set()
    for name, text in listed:
        place = open_place(text)
        try:
            members = list(_members(place))
        except OSError as error:
            raise PipelineError(f"{place} cannot be read: {error.strerror or error}") from None
        if not members:
            raise PipelineError(f"{place} holds no logs and no snapshots, and neither do directories in it")
        for member in members:
            if str(member.directory) not in seen:
                seen.add(str(member.directory))
                found.append((name, member))
    members = _named(_joined(found))
    return Inventory(sorted(members, key=lambda one: (one.ensemble, one.member)), [text for _, text in listed])


# Finding the directories.


def _members(place: Place) -> Iterator[MemberFiles]:
    kind = place.kind()
    if kind == "file":
        raise PipelineError(f"{place} is a file; name the directory that it is in")
    if not kind:
        raise PipelineError(f"{place} does not exist")
    level, count = [place], 0
    for _ in range(DEPTH_MAX + 1):
        deeper: list[Place] = []
        for directory in level:
            count += 1
            if count > DIRECTORIES_MAX:
                raise PipelineError(f"{place} has more than {DIRECTORIES_MAX} directories in it; name those of members")
            entries = directory.list()
            if _is_members(directory, entries):
                member = _member(directory, entries)
                if member is not None:
                    yield member
                continue
            inner = [entry.place for entry in entries if entry.is_directory]
            versions = [one for one in inner if one.name in _DIRECTORY and _holds_files(one)]
            if len(versions) > 1:
                raise PipelineError(
                    f"{directory} holds both version-1 and version-2; name the one that is meant, as "
                    f"{versions[0]} or {versions[1]}"
                )
            deeper += versions or [one for one in inner if not one.name.startswith(".")]
        level = deeper


def _holds_files(directory: Place) -> bool:
    return _is_members(directory, directory.list())


def _is_members(directory: Place, entries: list[Entry]) -> bool:
    """Whether it has logs or snapshots in it, or what a member has without any."""
    names = [entry.name for entry in entries if not entry.is_directory]
    if directory.name in _DIRECTORY and any(name in _RECORDS for name in names):
        return True
    return any(parse_file_name(name) is not None for name in names)


def _joined(found: Sequence[tuple[str | None, MemberFiles]]) -> list[tuple[str | None, MemberFiles]]:
    """The members: a directory of logs alone is a part of the one whose data directory has none."""
    parts: dict[tuple[str | None, str, str], list[MemberFiles]] = {}
    for name, member in found:
        parts.setdefault((name, member.kind, member.directory.root), []).append(member)
    taken: list[MemberFiles] = []
    for members in parts.values():
        states = [member for member in members if not member.logs]
        logs = [member for member in members if member.is_log_directory]
        for state, log in pairs([_way(one) for one in states], [_way(one) for one in logs]).items():
            if _may_be_one(states[state], logs[log]):
                _join(states[state], logs[log])
                taken.append(logs[log])
    return [(name, member) for name, member in found if not any(member is one for one in taken)]


def _may_be_one(state: MemberFiles, log: MemberFiles) -> bool:
    return state.lineage is None or log.lineage is None or state.lineage == log.lineage


def _join(state: MemberFiles, log: MemberFiles) -> None:
    state.logs, state.log_directory = log.logs, log.directory
    state.lineage = state.lineage or log.lineage
    _settle(state)


def _member(directory: Place, entries: list[Entry]) -> MemberFiles | None:
    """The files of the member that has this directory; None when they are neither ours nor ZooKeeper's."""
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    named = [(entry, name) for entry in files.values() if (name := parse_file_name(entry.name)) is not None]
    with ThreadPoolExecutor(_READERS) as pool:
        heads = list(pool.map(_head, (entry for entry, _ in named)))
    kinds: set[LogKind] = {_MAGICS[head[:4]] for head in heads if head[:4] in _MAGICS}
    kinds |= {"version-2" for _, name in named if name.compression}
    if len(kinds) > 1:
        raise PipelineError(f"{directory} mixes files of zab and of ZooKeeper")
    if not kinds and directory.name in _DIRECTORY:
        kinds = {_DIRECTORY[directory.name]}
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
    """A stream looks at the same directory again and again; a file that did not change is not read again."""
    return place.read(0, SEGMENT_HEADER_BYTES)


def _has_content(entry: Entry) -> bool:
    """Whether something comes after a beginning of zeros. Space that is preallocated is no log yet."""
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
    """The header of a file that was begun under another name."""
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
    """The few small files of a member's directory, as far as `datatree`'s readers of them ask a disk."""

    files: dict[str, bytes]

    def exists(self, path: str) -> bool:
        return path.rpartition("/")[2] in self.files

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self.files[path.rpartition("/")[2]]
        return data[offset:] if length is None else data[offset : offset + length]


# One member.


def _identify(member: MemberFiles, files: dict[str, Entry]) -> None:
    """Its number, lineage and mark; without a number, its directory's name."""
    directory = member.directory
    above = directory.parent if directory.name in _DIRECTORY else directory
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
    """What `currentEpoch` says, 0 where it says nothing."""
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
    """What a file's place among the others says about it."""
    logs = member.logs
    for number, log in enumerate(logs):
        if log.lineage is not None and member.lineage is not None and log.lineage != member.lineage and not log.problem:
            reason = f"it is of lineage {log.lineage.hex()}, the directory of {member.lineage.hex()}"
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


# All members.


def _named(found: Sequence[tuple[str | None, MemberFiles]]) -> list[MemberFiles]:
    """The members with the names of their ensembles, each name of a member once."""
    unnamed: dict[str, list[MemberFiles]] = {}
    for name, member in found:
        if name is not None:
            member.ensemble = name
        elif member.kind == "native":
            member.ensemble = member.lineage.hex() if member.lineage is not None else member.member
        else:
            unnamed.setdefault(member.directory.root, []).append(member)
    for members in unnamed.values():
        _name_version2(members, 0)
    _check_named(found)
    counts = Counter((member.ensemble, member.member) for _, member in found)
    for _, member in found:
        if counts[member.ensemble, member.member] > 1:
            member.member = f"{member.member} ({member.directory})"
    return [member for _, member in found]


def _name_version2(members: list[MemberFiles], depth: int) -> None:
    """Members of ZooKeeper below one directory are one ensemble, with that directory's name, if no two of them have
    the same number; else what lies below each directory in it is looked at separately."""
    ways = [_way(member) for member in members]
    while len({tuple(way[: depth + 1]) for way in ways}) == 1 and depth < min(map(len, ways)) - 1:
        depth += 1
    if len({member.member for member in members}) < len(members) and len(members) > 1:
        below: dict[tuple[str, ...], list[MemberFiles]] = {}
        for way, member in zip(ways, members, strict=True):
            below.setdefault(tuple(way[: depth + 1]), []).append(member)
        if len(below) > 1:
            for group in below.values():
                _name_version2(group, depth + 1)
            return
    name = ways[0][depth - 1] if depth else str(_above(members[0].directory))
    for member in members:
        member.ensemble = name or str(_above(member.directory))


def _way(member: MemberFiles) -> list[str]:
    """The names on the way from the root to the member's data directory."""
    directory = member.directory
    return (directory.parent if directory.name in _DIRECTORY else directory).path.split("/")


def _above(directory: Place) -> Place:
    """The directory that the member's data directory is in."""
    return directory.parent.parent if directory.name in _DIRECTORY else directory.parent


def _check_named(found: Sequence[tuple[str | None, MemberFiles]]) -> None:
    """An ensemble is one: of one kind and one history."""
    ensembles: dict[str, list[MemberFiles]] = {}
    for _, member in found:
        for other in ensembles.setdefault(member.ensemble, []):
            both = f"{other.directory} and {member.directory} are both taken for the ensemble {member.ensemble}, "
            if other.kind != member.kind:
                raise PipelineError(f"{both}but one is of zab and one of ZooKeeper; name them apart, as NAME=DIR")
            if other.lineage != member.lineage and other.lineage and member.lineage:
                lineages = f"{other.lineage.hex()} and {member.lineage.hex()}"
                raise PipelineError(f"{both}but are of different lineages, {lineages}")
            if _is_of_other_history(other, member):
                raise PipelineError(f"{both}but hold different transactions; name them apart, as NAME=DIR")
        ensembles[member.ensemble].append(member)


def _is_of_other_history(one: MemberFiles, other: MemberFiles) -> bool:
    """Whether all log files of ZooKeeper that begin with the same zxid begin with different transactions. Their headers
    say it: of a multi that failed, members may write the parts otherwise."""
    known = {log.first: log.first_header for log in one.logs if log.first_header}
    same = [log.first_header == known[log.first] for log in other.logs if log.first_header and log.first in known]
    return bool(same) and not any(same)
