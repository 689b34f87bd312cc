"""A state written as the files that members start from: native, or ZooKeeper's version 2.

    write_native(disk, state, lineage)        version-1/snapshot.<zxid>, exact and canonical (`datatree.snapshot`)
    found_native(disk, lineage, id, epoch)    acceptedEpoch, currentEpoch, member: the member holds a whole history
    write_version_2(disk, state)              version-2/snapshot.<zxid>, exact (`datatree.zookeeper.snapshot`)
    found_version_2(disk, epoch)              acceptedEpoch, currentEpoch

A state is anything that can be iterated several times by rising path (`State.znodes`): a tree in memory, or rows that
Spark has sorted, spooled on disk. It is iterated three times: to count children and to find the lists of permissions,
to sum the digest (the header of a native file contains it, by way of the chain), and to write. Memory holds what has to
be known in advance: the count of each znode that has children, the ACLs, and the sessions.

What is written is a state that a member can go on from, which is more than rows:

- ephemerals whose session does not exist are left out, as ZooKeeper deletes them before it serves;
- /zookeeper/config is that of a new ensemble: the configuration belongs to the servers;
- counts of children follow from the children, so that the file is a tree whatever the rows say of themselves.

The chain of a native file begins a new history: that of the lineage id, zxid and digest
(`datatree.log.batch.imported`). Files become visible under their names when they are durable.

Deliberately not here: where the directories are and what is in them already (`zab.cli.new_members`), and the real
disk.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, cast
from zlib import crc32

from attrs import define, evolve, field, frozen

from datatree.acl import AclTable
from datatree.cursor import SnapshotCursor
from datatree.digest import DIGEST_VERSION, MASK, part, session_part
from datatree.log.batch import imported
from datatree.log.disk import Disk
from datatree.log.epochs import MemberRecord, save_mark
from datatree.log.founding import found
from datatree.log.zxid import Zxid
from datatree.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, parent
from datatree.quota import is_stats
from datatree.snapshot import SnapshotWriter, snapshot_files
from datatree.znode import (
    HEAD_AND_STAT,
    STAT_LAYOUT,
    Znode,
    data_of,
    is_ephemeral,
    stat_of,
    visible_cversion,
    visible_owner,
)
from datatree.zookeeper.files import DIRECTORY as VERSION_2
from datatree.zookeeper.files import file_name
from datatree.zookeeper.snapshot import SnapshotZnode, write_snapshot
from datatree.zookeeper.state import READ_ONLY_ACL, znode_digest
from zab.pipeline.errors import PipelineError

__all__ = ["State", "Written", "found_native", "found_version_2", "write_native", "write_version_2"]

_SLICE_COUNT: Final = 4096
_ORPHANS_NAMED: Final = 10
_CONFIG: Final = SnapshotZnode(CONFIG, b"", READ_ONLY_ACL, 0, 0, 0, 0, -1, 0, -1, 0, 0)


@frozen
class State:
    """A state at `zxid`. `znodes` begins anew at each call and goes by rising path; sessions: id to timeout in ms."""

    zxid: int
    sessions: dict[int, int]
    znodes: Callable[[], Iterable[SnapshotZnode]]


@frozen
class Written:
    """What a snapshot holds, and its digest (of its own kind)."""

    path: str
    digest: int
    znode_count: int
    session_count: int
    orphans: tuple[str, ...]
    """Ephemerals that were left out because their session does not exist; the first few."""
    orphan_count: int


@define
class _Survey:
    """What has to be known before the first byte is written."""

    state: State
    children: dict[bytes, int] = field(factory=dict)
    acls: AclTable = field(factory=AclTable)
    orphan_parents: set[bytes] = field(factory=set)
    orphans: list[str] = field(factory=list)
    orphan_count: int = 0
    znode_count: int = 0

    @classmethod
    def of(cls, state: State) -> "_Survey":
        """Raises PipelineError when the paths do not rise."""
        survey = cls(state)
        for znode in survey._in_order():
            above = parent(znode.path)
            if survey._is_orphan(znode):
                survey.orphan_parents.add(above)
                survey.orphan_count += 1
                if len(survey.orphans) < _ORPHANS_NAMED:
                    survey.orphans.append(znode.path.decode())
                continue
            survey.znode_count += 1
            survey.acls.intern(znode.acl)
            if znode.path != ROOT:
                survey.children[above] = survey.children.get(above, 0) + 1
        return survey

    def digest(self, of: Callable[[SnapshotZnode], int]) -> int:
        """The sum over what is written. Raises PipelineError when that is not a tree."""
        total, missing = 0, {*self.children, ROOT, ZOOKEEPER, QUOTA}
        for znode in self.znodes():
            missing.discard(znode.path)
            total += of(znode)
        if missing:
            raise PipelineError(f"the state is no tree, and nothing is written: {min(missing).decode()!r} is missing")
        return total & MASK

    def znodes(self) -> Iterator[SnapshotZnode]:
        """What is written, by rising path."""
        for znode in self._in_order():
            if self.orphan_count:
                if self._is_orphan(znode):
                    continue
                if znode.path in self.orphan_parents:
                    yield evolve(znode, pzxid=max(znode.pzxid, self.state.zxid))
                    continue
            yield znode

    def written(self, path: str, digest: int) -> Written:
        sessions = len(self.state.sessions)
        return Written(path, digest, self.znode_count, sessions, tuple(self.orphans), self.orphan_count)

    def _is_orphan(self, znode: SnapshotZnode) -> bool:
        return is_ephemeral(znode.owner) and znode.owner not in self.state.sessions

    def _in_order(self) -> Iterator[SnapshotZnode]:
        """All znodes, with the configuration's in its place."""
        previous, is_config_due = b"", True
        for znode in self.state.znodes():
            path = znode.path
            if path <= previous:
                raise PipelineError(f"the state is no tree: {path.decode()!r} comes after {previous.decode()!r}")
            previous = path
            if is_config_due and path >= CONFIG:
                is_config_due = False
                yield _CONFIG
            if path != CONFIG:
                yield evolve(znode, data=b"") if is_stats(path) else znode
        if is_config_due:
            yield _CONFIG


class _Cursor:
    """The znodes of a survey in the shape that the writer of snapshots takes: a cursor without a tree behind it."""

    def __init__(self, survey: _Survey) -> None:
        self.zxid = survey.state.zxid
        self.sessions = survey.state.sessions
        self.digest_version = DIGEST_VERSION
        self.znode_count = survey.znode_count
        self.acls = survey.acls.lists
        self._survey = survey
        self._ids = {acl: number for number, acl in survey.acls.lists.items()}
        parts = (session_part(session, timeout_ms) for session, timeout_ms in self.sessions.items())
        self.digest = (survey.digest(self._digest) + sum(parts)) & MASK

    def slices(self, count: int = _SLICE_COUNT) -> Iterator[list[tuple[bytes, Znode]]]:
        """All (path, znode) in path order, `count` at a time."""
        znodes = iter(self._survey.znodes())
        while held := [(znode.path, self._znode(znode)) for znode in islice(znodes, count)]:
            yield held

    def data_of(self, path: bytes, znode: Znode) -> bytes | None:
        """The data of a znode of the slices: all of it is there."""
        return data_of(path, znode, {})

    def close(self) -> None:
        """There is nothing to release."""

    def _znode(self, znode: SnapshotZnode) -> Znode:
        count, data = self._survey.children.get(znode.path, 0), znode.data
        stat = STAT_LAYOUT.pack(
            znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version,
            visible_cversion(znode.cversion, count), znode.aversion, visible_owner(znode.owner),
            len(data) if data else 0, count, znode.pzxid,
        )  # fmt: skip
        # Snapshots do not hold the digest of a znode, and the writer does not use it.
        return HEAD_AND_STAT.pack(self._ids[znode.acl], znode.owner, znode.cversion, 0, data is None, stat) + (
            data or b""
        )

    def _digest(self, znode: SnapshotZnode) -> int:
        checksum = crc32(znode.data or b"", crc32(znode.path))
        acl_checksum = self._survey.acls.checksums[self._ids[znode.acl]]
        return part(checksum, stat_of(self._znode(znode)), znode.owner, acl_checksum, znode.data is None)


def write_native(disk: Disk, state: State, lineage: bytes) -> Written:
    """Write the state as the snapshot that a history of `lineage` begins with; `version-1` must be there.

    Raises PipelineError when the state is not a tree, and OSError; then there is no snapshot."""
    survey = _Survey.of(state)
    cursor = _Cursor(survey)
    chain = imported(lineage, Zxid(state.zxid), cursor.digest)
    writer = SnapshotWriter(disk, cast("SnapshotCursor", cursor), lineage, chain)
    try:
        writer.write()
    except OSError:
        writer.abandon()
        raise
    return survey.written(writer.path, cursor.digest)


def found_native(disk: Disk, lineage: bytes, server_id: int, epoch: int) -> None:
    """Make the directory that of a member which holds all of the history that its snapshot begins.

    Epochs up to `epoch` are over: its next leader begins the one after. No session of the state can be taken up. As
    long as nothing follows the snapshot, `committed` says so. The member's record comes last."""
    for zxid in snapshot_files(disk)[-1:]:
        save_mark(disk, lineage, zxid, durable=True)
    found(disk, MemberRecord(lineage, server_id), epoch, epoch)


def write_version_2(disk: Disk, state: State) -> Written:
    """Write the state as the snapshot that a ZooKeeper starts from; `version-2` must be there.

    Raises as `write_native`."""
    survey = _Survey.of(state)
    digest = survey.digest(znode_digest)
    path = f"{VERSION_2}/{file_name('snapshot', state.zxid)}"
    temporary = f"{path}.tmp"
    try:
        file = disk.open_append(temporary, create=True)
        try:
            for piece in write_snapshot(
                survey.znodes(), survey.acls.lists.values(), state.sessions, state.zxid, digest
            ):
                file.write(piece)
            file.sync()
        finally:
            file.close()
    except OSError:
        with suppress(OSError):
            disk.remove(temporary)
        raise
    disk.rename(temporary, path)
    disk.sync_directory(VERSION_2)
    return survey.written(path, digest)


def found_version_2(disk: Disk, epoch: int) -> None:
    """Write the epoch files that ZooKeeper would have: epochs up to `epoch` are over."""
    for name in ("acceptedEpoch", "currentEpoch"):
        disk.replace(f"{VERSION_2}/{name}", str(epoch).encode())
