"""Reads the logs of several members of one ZooKeeper for `zab log DIR DIR DIR`, once or while they are written.

Of a member that keeps its logs apart (`dataLogDir`), both directories may be given: they are one member, where their
paths say so, and count as one in any case (`datatree.history`).

ZooKeeper's logs do not say what is committed. So a transaction is shown once a majority of the members given has it
(`datatree.zookeeper.majority`), and once, from whichever log has it. Of one member given alone everything is shown,
and not said to be committed.

Beside the transactions come:

    Note                transactions that only a minority has, and that the others went on without; a member's log that
                        was cut; a place where no log has what lies between; a directory that cannot be read, which
                        counts as a member that has nothing
    Damage              bytes of a member's log that cannot be read; its transactions come from the others
    UnreadableError     is raised: two members have different transactions with one zxid

Each member's logs are read twice: `_survey` runs ahead and keeps no more than where its epochs end, `_shown` follows as
far as a majority has come. So nothing is held in memory but one record for each member, however long the logs are.

Invariants: transactions come by rising zxid, none twice. Nothing is written, and no lock is taken.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from attrs import frozen

from datatree.history import LOG_DIRECTORY, member_count, pairs
from datatree.log.epochs import DIRECTORY as NATIVE_DIRECTORY
from datatree.zookeeper.files import DIRECTORY, ZooKeeperFileError, chunks_of, named_files
from datatree.zookeeper.log import LOG_HEADER, LogReader, decode_payload
from datatree.zookeeper.majority import visible_epochs
from zab.cli.files.log_files import Damage, Entry, Event, Note, UnreadableError, has_begun
from zab.host.storage.disk import RealDisk

__all__ = ["MemberLogs", "open_members"]

_ZXID: Final = Struct(">12xq")
_COUNTER: Final = 0xFFFF_FFFF
_READ_BYTES: Final = 256 << 10
_MYID: Final = "myid"
_RECORDS: Final = ("acceptedEpoch", "currentEpoch")
_KINDS: Final = ("log", "snapshot")
_DISK: Final = RealDisk(".", lock=False)


def open_members(directories: Sequence[Path]) -> "MemberLogs":
    """The logs in these data directories, or `version-2` directories, of ZooKeeper. Raises UnreadableError."""
    members: list[_Member] = []
    places: list[_Place] = []
    for given in directories:
        if not given.is_dir():
            raise UnreadableError(f"{given}: a file; with several members, name the directory of each")
        if given.name == NATIVE_DIRECTORY or (given / NATIVE_DIRECTORY).is_dir():
            raise UnreadableError(
                f"{given}: the logs of zab say themselves what is committed: name the directory of one member"
            )
        directory = given / DIRECTORY if (given / DIRECTORY).is_dir() else given
        if directory.name != DIRECTORY and not any(named_files(_DISK, str(directory), kind) for kind in _KINDS):
            wanted = f"{DIRECTORY} or {NATIVE_DIRECTORY}"
            raise UnreadableError(f"{given}: neither logs of ZooKeeper, nor a directory {wanted} in it")
        server_id = _server_id(directory)
        for other in places:
            if other.directory.resolve() == directory.resolve():
                raise UnreadableError(f"{other.name} and {given} are one directory")
            if server_id is not None and server_id == _server_id(other.directory):
                raise UnreadableError(f"{other.name} and {given} are both of member {server_id}: each counts once")
        places.append(_Place.of(str(given), directory))
    states = [place for place in places if not place.has_logs]
    logs = [place for place in places if place.has_logs and not place.has_state]
    joined = pairs([_way(place) for place in states], [_way(place) for place in logs])
    logs_of = {id(states[state]): logs[log].directory for state, log in joined.items()}
    for place in places:
        if not any(place is logs[log] for log in joined.values()):
            members.append(_Member(place.name, place.directory, logs_of.get(id(place), place.directory)))
    with_history = next((place for place in places if place.has_history), None)
    if with_history is not None and not any(member.has_logs for member in members):
        raise UnreadableError(f"{with_history.name}: there are snapshots, but no logs; {LOG_DIRECTORY}")
    count = member_count((place.has_logs, place.has_state) for place in places)
    return MemberLogs(members, count)


@frozen
class _Place:
    """A directory that was given, and its contents."""

    name: str
    directory: Path
    has_logs: bool
    has_state: bool
    """It has snapshots, or records of a member."""
    has_history: bool
    """It has a snapshot that has a transaction before it."""

    @classmethod
    def of(cls, name: str, directory: Path) -> "_Place":
        has_records = _server_id(directory) is not None or any((directory / one).is_file() for one in _RECORDS)
        snapshots = [zxid for zxid, _ in named_files(_DISK, str(directory), "snapshot")]
        has_logs = bool(named_files(_DISK, str(directory), "log"))
        return cls(name, directory, has_logs, has_records or bool(snapshots), any(snapshots))


def _way(place: _Place) -> Sequence[str]:
    directory = place.directory.absolute()
    return (directory.parent if directory.name == DIRECTORY else directory).parts


def _server_id(directory: Path) -> str | None:
    for place in (directory, directory.parent):
        if (place / _MYID).is_file():
            return (place / _MYID).read_text(encoding="ascii", errors="replace").strip()
    return None


@frozen
class _Record:
    path: str
    offset: int
    zxid: int
    payload: bytes

    @property
    def place(self) -> str:
        return f"{self.path}: offset {self.offset}"


class _Cursor:
    """A position in a member's logs, and the records after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._path = ""
        self._first = -1
        self._at = 0

    def is_cut(self) -> bool:
        """Whether some of what was read is no longer there."""
        return bool(self._path) and (not _DISK.exists(self._path) or _DISK.size(self._path) < self._at)

    def records(self, *, live: bool) -> Iterator[_Record | Damage]:
        """The records from here on; the next call continues. A record whose checksum does not match is damage.

        live: the newest file is being written, so what is unreadable at its end is not damage yet.
        """
        while True:
            logs = named_files(_DISK, self._directory, "log")
            following = next((log for log in logs if log[0] > self._first), None)
            if self._path and _DISK.exists(self._path):
                yield from self._rest(live=live and following is None)
            if following is None:
                return
            self._first, self._path = following
            self._at = 0

    def _rest(self, *, live: bool) -> Iterator[_Record | Damage]:
        path = self._path
        # A file is made, and has its space, before its header is written; a crash may leave it so.
        if self._at == 0 and not has_begun(Path(path), len(LOG_HEADER)):
            return
        try:
            reader = LogReader(chunks_of(_DISK, path, self._at, _READ_BYTES), path, self._at, live=live)
            for offset, is_intact, payload in reader.payloads():
                self._at = reader.offset
                if is_intact and len(payload) >= _ZXID.size:
                    yield _Record(path, offset, _ZXID.unpack_from(payload)[0], payload)
                else:
                    yield Damage(path, offset, "checksum of the transaction does not match")
        except ZooKeeperFileError as error:
            yield Damage(error.file, error.offset, error.reason)


class _Member:
    """What a member has (`datatree.zookeeper.majority.Reached`), and the next of it that may be shown.

    `last` is the last zxid in its logs, `problem` why they cannot be read now.
    """

    def __init__(self, name: str, directory: Path, log_directory: Path) -> None:
        self.name = name
        self.directory = directory
        self._log_directory = log_directory
        self.problem = ""
        self._begin()

    @property
    def has_logs(self) -> bool:
        return bool(named_files(_DISK, str(self._log_directory), "log"))

    def _begin(self) -> None:
        self.epochs: dict[int, int] = {}
        self.turns: list[tuple[int, int]] = []
        self.last = 0
        self._previous = 0
        self._survey, self._shown = _Cursor(self._log_directory), _Cursor(self._log_directory)
        self._coming = self._shown.records(live=True)
        self._head: _Record | None = None

    def survey(self, *, live: bool) -> Iterator[Event]:
        """Look at what has come."""
        try:
            yield from self._look(live)
        except OSError as error:
            if not self.problem:
                yield Note(f"{self.name} cannot be read, and counts as a member that has nothing: {error.strerror}")
            self.problem = str(error)
            # What it has when it comes back is unknown.
            self._begin()
        else:
            if self.problem:
                yield Note(f"{self.name} can be read again")
            self.problem = ""

    def _look(self, live: bool) -> Iterator[Event]:
        # Raises where a directory is gone; a disk would have no files in it.
        for directory in (self.directory, self._log_directory):
            next(directory.iterdir(), None)
        before = self.last
        is_cut = self._survey.is_cut()
        if is_cut:
            self._begin()
        for found in self._survey.records(live=live):
            if isinstance(found, Damage):
                self._previous = 0
                yield found
                continue
            if self._previous and self._previous >> 32 != found.zxid >> 32:
                self.turns.append((self._previous, found.zxid))
            self._reach(found.zxid)
            self._previous = self.last = found.zxid
        for zxid, _ in named_files(_DISK, str(self.directory), "snapshot"):
            self._reach(zxid)
        if is_cut and self.last < before:
            yield Note(f"{self.name}: the log was cut from 0x{before:x} back to 0x{self.last:x}")
        self._coming = self._shown.records(live=True)

    def _reach(self, zxid: int) -> None:
        self.epochs[zxid >> 32] = max(self.epochs.get(zxid >> 32, 0), zxid)

    def next(self, after: int) -> _Record | None:
        """The first record above `after`, of what was there at the last survey."""
        try:
            while self._head is None or self._head.zxid <= after:
                found = next(self._coming, None)
                if found is None:
                    return None
                # The survey has told what is damaged.
                if isinstance(found, _Record):
                    self._head = found
        except OSError:
            # The next survey tells.
            return None
        return self._head


class MemberLogs:
    """The logs of the members given. `is_alone`: it is only one, so nothing is known to be committed."""

    def __init__(self, members: Sequence[_Member], count: int) -> None:
        self._members = members
        self._count = count
        self._at = 0
        self._told: set[tuple[str, int]] = set()

    @property
    def is_alone(self) -> bool:
        return self._count == 1

    @property
    def title(self) -> str:
        count = self._count
        if self.is_alone:
            return f"ZooKeeper Transactional Log Files in {self._members[0].directory}"
        return f"ZooKeeper Transactional Log Files of {count} members: what {count // 2 + 1} of them have"

    def dump(self) -> Iterator[Event]:
        """What a majority has now."""
        yield from self._advance(live=False)

    def poll(self) -> Iterator[Event]:
        """What a majority has come to have since the last call."""
        yield from self._advance(live=True)

    def _advance(self, *, live: bool) -> Iterator[Event]:
        for member in self._members:
            for event in member.survey(live=live):
                if isinstance(event, Damage):
                    if (event.path, event.offset) in self._told:
                        continue
                    self._told.add((event.path, event.offset))
                yield event
        # Of logs alone it is not known whose snapshots are in another directory: nobody counts twice.
        has_parts = self._count < len(self._members)
        limits = visible_epochs([one for one in self._members if one.has_logs or not has_parts], self._count)
        while True:
            heads = [head for member in self._members if (head := member.next(self._at)) is not None]
            heads = [head for head in heads if head.zxid <= limits.get(head.zxid >> 32, 0)]
            if not heads:
                return
            zxid = min(head.zxid for head in heads)
            yield from self._step([head for head in heads if head.zxid == zxid])

    def _step(self, copies: list[_Record]) -> Iterator[Event]:
        """One transaction, out of the logs that have it."""
        zxid = copies[0].zxid
        entry = _decoded(copies[0], None if self.is_alone else True)
        for other in copies[1:]:
            # Not the payloads alone: a member may log the tree's digest after it, or not.
            if other.payload != copies[0].payload and not _is_same(entry, _decoded(other, True)):
                raise UnreadableError(
                    f"{copies[0].place} and {other.place} have different transactions with zxid 0x{zxid:x}: "
                    "these are not members of one ensemble, or their histories have parted"
                )
        for member in self._members:
            yield from self._left_out(member, zxid)
        if self._at and not self._is_next(zxid):
            yield Note(f"0x{zxid:x} comes right after 0x{self._at:x} in no log: something may be missing here")
        yield entry
        self._at = zxid

    def _is_next(self, zxid: int) -> bool:
        is_turn = zxid & _COUNTER == 1 and any((self._at, zxid) in member.turns for member in self._members)
        return zxid == self._at + 1 or is_turn

    def _left_out(self, member: _Member, zxid: int) -> Iterator[Note]:
        """What a member has below `zxid` that was not shown: it never will be."""
        first = last = 0
        at = self._at
        while (head := member.next(at)) is not None and head.zxid < zxid:
            first, last, at = first or head.zxid, head.zxid, head.zxid
        if first:
            yield Note(
                f"{member.name}: {_range(first, last)} is in no majority's log, and 0x{zxid:x} came without: left out"
            )

    def rest(self) -> Iterator[Note]:
        """What is in some logs, but not in those of a majority."""
        for member in self._members:
            head = member.next(self._at)
            if head is not None:
                yield Note(f"{member.name}: {_range(head.zxid, member.last)} is in no majority's log: left out")


def _range(first: int, last: int) -> str:
    return f"0x{first:x}" if first == last else f"0x{first:x} to 0x{last:x}"


def _decoded(record: _Record, committed: bool | None) -> Entry | Damage:
    try:
        found = decode_payload(record.payload, record.path, record.offset)
    except ZooKeeperFileError as error:
        return Damage(error.file, error.offset, error.reason)
    return Entry(found.txn, committed, found.digest)


def _is_same(one: Entry | Damage, other: Entry | Damage) -> bool:
    return isinstance(one, Entry) and isinstance(other, Entry) and one.txn == other.txn
