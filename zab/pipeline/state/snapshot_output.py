"""Writes a state as the files that members start from: native, or ZooKeeper's version 2.

    write_native(disk, state, lineage)        version-1/snapshot.<zxid>, exact and canonical (`datatree.snapshot`)
    found_native(disk, lineage, id, epoch)    acceptedEpoch, currentEpoch, member: the member holds a whole history
    write_version_2(disk, state)              version-2/snapshot.<zxid>, exact (`datatree.zookeeper.snapshot`)
    found_version_2(disk, epoch)              acceptedEpoch, currentEpoch

A state is anything that can be iterated several times by rising path, as batches of rows (`State.batches`): in memory,
or rows that Spark has sorted, spooled on disk. It is iterated three times: to count children and find the ACLs, to sum
the digest (the header of a native file contains it, through the chain), and to write. Only checksums are computed znode
by znode (`zab.pipeline.state.znode_entries`). Memory holds what has to be known in advance: the count of each znode
that has children, the ACLs, and the sessions.

The files hold a state from which a member can go on, so some rows are changed:

- ephemerals whose session does not exist are left out, as ZooKeeper deletes them before it serves;
- /zookeeper/config is the one of a new ensemble: the configuration belongs to the servers;
- counts of children are computed from the children, so that the file is a tree whatever counts the rows have.

The chain of a native file begins a new history: that of the lineage id, zxid and digest
(`datatree.log.batch.imported`). Files become visible under their names when they are durable.

Deliberately not here: where the directories are and what is in them already (`zab.cli.new_members`), and the real
disk.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from datatree.acl import AclTable
from datatree.cursor import SnapshotCursor
from datatree.digest import DIGEST_VERSION, MASK, session_part
from datatree.log.batch import imported
from datatree.log.disk import Disk
from datatree.log.epochs import MemberRecord, save_mark
from datatree.log.founding import found
from datatree.log.zxid import Zxid
from datatree.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER
from datatree.snapshot import SnapshotWriter, snapshot_files
from datatree.zookeeper.files import DIRECTORY as VERSION_2
from datatree.zookeeper.files import file_name
from datatree.zookeeper.snapshot import write_entries
from datatree.zookeeper.state import READ_ONLY_ACL
from zab.pipeline.decoding.acl_text import acl_text, parse_acl_text
from zab.pipeline.decoding.arrays import Mask
from zab.pipeline.decoding.slices import parents
from zab.pipeline.errors import PipelineError
from zab.pipeline.state.znode_entries import Entries, NativeEntries, Version2Entries, are_ephemeral
from zab.pipeline.state.znode_rows import ZNODE_SCHEMA, without_sums

__all__ = ["State", "Written", "found_native", "found_version_2", "write_native", "write_version_2"]

_ORPHANS_NAMED: Final = 10
_CONFIG: Final = pa.RecordBatch.from_pylist(
    [
        dict.fromkeys(ZNODE_SCHEMA.names, 0)
        | {"path": CONFIG.decode(), "data": b"", "acl": acl_text(READ_ONLY_ACL), "version": -1, "aversion": -1}
    ],
    ZNODE_SCHEMA,
)


@frozen
class State:
    """A state at `zxid`. Each call of `batches` yields all rows, with at least the columns of ZNODE_SCHEMA, by rising
    path. sessions: id to timeout in ms."""

    zxid: int
    sessions: dict[int, int]
    batches: Callable[[], Iterable[pa.RecordBatch]]


@frozen
class Written:
    """What a snapshot holds, and its digest (native or ZooKeeper's)."""

    path: str
    digest: int
    znode_count: int
    session_count: int
    orphans: tuple[str, ...]
    """Ephemerals that were left out because their session does not exist; the first few."""
    orphan_count: int


@define
class _Survey:
    """Collects what has to be known before the first byte is written."""

    state: State
    children: dict[bytes, int] = field(factory=dict)
    acls: AclTable = field(factory=AclTable)
    orphan_parents: set[bytes] = field(factory=set)
    orphans: list[str] = field(factory=list)
    orphan_count: int = 0
    znode_count: int = 0

    @classmethod
    def of(cls, state: State) -> "_Survey":
        """Iterate the state once. Raises PipelineError if the paths do not rise, and for a text that is no ACL."""
        survey = cls(state)
        for batch in survey._in_order():
            is_orphan = survey._are_orphans(batch)
            if is_orphan.any():
                orphans = batch.filter(pa.array(is_orphan)).column("path")
                survey.orphan_parents.update(_parents(orphans).to_pylist())
                survey.orphan_count += len(orphans)
                survey.orphans += orphans.to_pylist()[: _ORPHANS_NAMED - len(survey.orphans)]
                batch = batch.filter(pa.array(~is_orphan))
            survey._count(batch)
        return survey

    def _count(self, batch: pa.RecordBatch) -> None:
        self.znode_count += batch.num_rows
        try:
            for text in batch.column("acl").unique().to_pylist():
                self.acls.intern(parse_acl_text(text))
        except ValueError as error:
            raise PipelineError(f"the state cannot be written: {error}") from None
        paths = batch.column("path")
        above = _parents(paths.filter(pc.not_equal(paths, ROOT.decode()))).value_counts()
        for path, count in zip(above.field("values").to_pylist(), above.field("counts").to_pylist(), strict=True):
            self.children[path] = self.children.get(path, 0) + count

    def digest(self, entries: Entries) -> int:
        """The digest of what is written. Raises PipelineError if that is not a tree."""
        total, missing = 0, {*self.children, ROOT, ZOOKEEPER, QUOTA}
        for batch in self.rows():
            missing.difference_update(batch.column("path").cast(pa.binary()).to_pylist())
            total += entries.digest(batch)
        if missing:
            raise PipelineError(f"the state is no tree, and nothing is written: {min(missing).decode()!r} is missing")
        return total & MASK

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield what is written, by rising path."""
        for batch in self._in_order():
            if self.orphan_count:
                batch = self._touched(batch.filter(pa.array(~self._are_orphans(batch))))
            yield batch

    def written(self, path: str, digest: int) -> Written:
        sessions = len(self.state.sessions)
        return Written(path, digest, self.znode_count, sessions, tuple(self.orphans), self.orphan_count)

    def _are_orphans(self, batch: pa.RecordBatch) -> Mask:
        owners = batch.column("owner").to_numpy()
        found = are_ephemeral(owners)
        rows = np.flatnonzero(found)
        found[rows] = [owner not in self.state.sessions for owner in owners[rows].tolist()]
        return found

    def _touched(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Set pzxid to the zxid of the state for the parents of orphans, which are left out."""
        paths = batch.column("path").cast(pa.binary()).to_pylist()
        is_parent = pa.array([path in self.orphan_parents for path in paths], pa.bool_())
        pzxids = batch.column("pzxid")
        later = pc.if_else(is_parent, pc.max_element_wise(pzxids, pa.scalar(self.state.zxid)), pzxids)
        return batch.set_column(batch.schema.get_field_index("pzxid"), ZNODE_SCHEMA.field("pzxid"), later)

    def _in_order(self) -> Iterator[pa.RecordBatch]:
        """Yield all znodes, with a new configuration's at its place: QUOTA comes after it in every tree."""
        previous, is_config_due = b"", True
        for given in self.state.batches():
            if not given.num_rows:
                continue
            batch = given.select(ZNODE_SCHEMA.names)
            paths = batch.column("path").cast(pa.binary())
            _check_rising(previous, paths)
            previous = paths[-1].as_py()
            batch = batch.set_column(
                1, ZNODE_SCHEMA.field("data"), without_sums(batch.column("path"), batch.column("data"))
            )
            if is_config_due and previous >= CONFIG:
                is_config_due = False
                at = int(np.argmax(pc.greater_equal(paths, CONFIG).to_numpy(zero_copy_only=False)))
                yield from (batch[:at], _CONFIG)
                batch = batch[at + (paths[at].as_py() == CONFIG) :]
            yield batch


def _check_rising(previous: bytes, paths: pa.BinaryArray) -> None:
    before = pa.concat_arrays([pa.array([previous], pa.binary()), paths[:-1]])
    falls = np.flatnonzero(pc.less_equal(paths, before).to_numpy(zero_copy_only=False))
    if len(falls):
        path, last = paths[int(falls[0])].as_py(), before[int(falls[0])].as_py()
        raise PipelineError(f"the state is no tree: {path.decode()!r} comes after {last.decode()!r}")


def _parents(paths: pa.StringArray) -> pa.BinaryArray:
    above = parents(paths)
    return pc.if_else(pc.equal(above, b""), pa.scalar(ROOT, pa.binary()), above)


@frozen
class _Tree:
    """What a snapshot says about the whole tree, with the interface of a cursor, but without a tree."""

    zxid: int
    sessions: dict[int, int]
    digest: int
    znode_count: int
    digest_version: int = DIGEST_VERSION

    def slices(self) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        """There is nothing to release."""


def write_native(disk: Disk, state: State, lineage: bytes) -> Written:
    """Write the state as the snapshot that a history of `lineage` begins with; `version-1` must be there.

    Raises PipelineError when the state is not a tree, and OSError; then there is no snapshot."""
    survey = _Survey.of(state)
    entries = NativeEntries(survey.acls, survey.children)
    digest = survey.digest(entries) + sum(session_part(*session) for session in state.sessions.items()) & MASK
    tree = cast("SnapshotCursor", _Tree(state.zxid, state.sessions, digest, survey.znode_count))
    beginning = imported(lineage, Zxid(state.zxid), digest)
    writer = SnapshotWriter(disk, tree, lineage, beginning, entries=map(entries.of, survey.rows()))
    try:
        writer.write()
    except OSError:
        writer.abandon()
        raise
    return survey.written(writer.path, digest)


def found_native(disk: Disk, lineage: bytes, server_id: int, epoch: int) -> None:
    """Make the directory that of a member which holds all of the history that its snapshot begins.

    Epochs up to `epoch` are over: its next leader begins the one after. No session of the state can be resumed.
    `committed` is the snapshot's zxid, since nothing follows it. The member's record is written last."""
    for zxid in snapshot_files(disk)[-1:]:
        save_mark(disk, lineage, zxid, durable=True)
    found(disk, MemberRecord(lineage, server_id), epoch, epoch)


def write_version_2(disk: Disk, state: State) -> Written:
    """Write the state as the snapshot that a ZooKeeper starts from; `version-2` must be there.

    Raises as `write_native`."""
    survey = _Survey.of(state)
    entries = Version2Entries(survey.acls, survey.children)
    digest = survey.digest(entries)
    path = f"{VERSION_2}/{file_name('snapshot', state.zxid)}"
    temporary = f"{path}.tmp"
    try:
        file = disk.open_append(temporary, create=True)
        try:
            packed = chain.from_iterable(map(entries.of, survey.rows()))
            for piece in write_entries(packed, survey.acls.lists.values(), state.sessions, state.zxid, digest):
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
