"""ZooKeeper's data directory as a whole: loaded as strictly as can be, into a `DataTree`, and one written from it.

The pipeline and `zab restore` have decoders and checks of their own for these files; tests hold them against this.

Loading follows ZooKeeper's own start. The newest snapshot that looks finished and whose seals match is taken, at most
100 are tried; the logs from the newest one that begins at or below the snapshot's zxid + 1 are replayed over it. It is
stricter where ZooKeeper goes on in silence:

- logs without any snapshot are an error, unless that is asked for; a directory with neither is one too;
- zxids must rise without a gap inside an epoch and begin at 1 in a new one: a log that was deleted from the middle is
  found;
- damage inside a log is an error (`datatree.zookeeper.log`); a torn end is none, the next file proves what follows;
- the digests that ZooKeeper stored are compared as soon as the state is exact, which is from the zxid beside the
  snapshot's own digest on, or one later: ZooKeeper applies a transaction first and notes the digest then, and a
  snapshot may be written in between.

What does not stop the load is in `Loaded.problems`, one sentence each: a snapshot passed over, a digest that does
not match, a snapshot that stays fuzzy because its log is missing, ACL lists that nobody knows any more.

A `DataTree` differs from ZooKeeper's tree in what belongs to a server and not to the state: the text of
/zookeeper/config, which every server sets from its own configuration, and the sums in zookeeper_stats, which are
derived. Both are left out. Ephemeral znodes whose session is gone are deleted, as ZooKeeper does before it serves.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from datatree.cursor import SnapshotCursor
from datatree.log.disk import Disk
from datatree.opcodes import OpCode
from datatree.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, parent
from datatree.quota import is_stats
from datatree.record import Txn
from datatree.tree import DataTree
from datatree.znode import STAT_LAYOUT, visible_cversion, visible_owner
from datatree.zookeeper.files import (
    DIRECTORY,
    ZooKeeperFileError,
    chunks_of,
    file_name,
    named_files,
    parse_file_name,
)
from datatree.zookeeper.log import LogReader, LogRecord
from datatree.zookeeper.snapshot import UNKNOWN_ACL, SnapshotReader, SnapshotZnode, cursor_znodes, uncompressed
from datatree.zookeeper.state import READ_ONLY_ACL, ZooKeeperState

SNAPSHOTS_TRIED_MAX: Final = 100
_COUNTER_MASK: Final = 0xFFFFFFFF
_END: Final = b"\x00\x00\x00\x01/"
_LENGTH_MIN: Final = 10


@define
class Loaded:
    """An exact state, the snapshot it began with (None: from nothing), and what was odd on the way."""

    state: ZooKeeperState
    snapshot: str | None
    snapshot_zxid: int
    replayed_count: int = 0
    problems: list[str] = field(factory=list)


def load_directory(
    disk: Disk, directory: str = DIRECTORY, log_directory: str | None = None, *, trust_empty: bool = False
) -> Loaded:
    """The state that a ZooKeeper started on this directory would have. Raises ZooKeeperFileError.

    log_directory: where the logs are, if not beside the snapshots. trust_empty: logs without a snapshot are replayed
    from nothing (ZooKeeper's `snapshot.trust.empty`).
    """
    logs = named_files(disk, directory if log_directory is None else log_directory, "log")
    problems: list[str] = []
    loaded, exact_from, digest = _newest_snapshot(disk, directory, problems)
    if loaded is None:
        if named_files(disk, directory, "snapshot"):
            raise ZooKeeperFileError(directory, 0, f"no snapshot is readable: {'; '.join(problems)}")
        if not logs:
            raise ZooKeeperFileError(directory, 0, "neither snapshot nor log")
        if not trust_empty:
            raise ZooKeeperFileError(directory, 0, "there are logs, but no snapshot that they continue")
        loaded, exact_from = Loaded(ZooKeeperState.empty(), None, 0), 0
    loaded.problems = problems
    _Replay(disk, loaded, exact_from, digest).run(logs)
    if any(znode.acl == UNKNOWN_ACL for znode in loaded.state.znodes.values()):
        problems.append("the ACL list of some znodes is unknown: they grant nothing")
    missing = sorted(path for path in loaded.state.children if path not in loaded.state.znodes)
    if missing:
        raise ZooKeeperFileError(directory, 0, f"{missing[0]!r} has children, but does not exist after the replay")
    return loaded


def _newest_snapshot(disk: Disk, directory: str, problems: list[str]) -> tuple[Loaded | None, int | None, int | None]:
    """The content of the newest valid snapshot, the zxid from which it is exact (None: unknown), the digest there."""
    for zxid, path in named_files(disk, directory, "snapshot")[: -SNAPSHOTS_TRIED_MAX - 1 : -1]:
        if not is_complete(disk, path):
            problems.append(f"{path} is not finished and was passed over")
            continue
        try:
            reader = open_snapshot(disk, path)
            state = loaded_state(reader, zxid)
        except ZooKeeperFileError as error:
            problems.append(f"{error}; it was passed over")
            continue
        exact_from = None if reader.digest_zxid is None else max(zxid, reader.digest_zxid)
        # Before its first transaction a server has noted none, and writes zeros.
        is_noted = reader.digest_zxid == exact_from and exact_from != 0
        return Loaded(state, path, zxid), exact_from, reader.digest if is_noted else None
    return None, None, None


def open_snapshot(disk: Disk, path: str) -> SnapshotReader:
    """The reader of a file, which may be compressed."""
    return SnapshotReader(uncompressed(chunks_of(disk, path), path), path)


def is_complete(disk: Disk, path: str) -> bool:
    """Whether a snapshot looks finished: the cheap check that keeps a torn one out. It may be damaged all the same."""
    parts = parse_file_name(path)
    size = disk.size(path)
    if parts is not None and parts.compression:
        return size >= _LENGTH_MIN
    return size >= _LENGTH_MIN and disk.read(path, size - len(_END), len(_END)) == _END


def loaded_state(reader: SnapshotReader, zxid: int) -> ZooKeeperState:
    """The content of a snapshot; `zxid` is the one in its name. Raises ZooKeeperFileError."""
    znodes: dict[bytes, SnapshotZnode] = {}
    for znode in reader:
        if znode.path in znodes or (znode.path == ROOT) != (not znodes):
            raise ZooKeeperFileError(reader.file, reader.offset, f"{znode.path!r} is out of place")
        if znode.path != ROOT and parent(znode.path) not in znodes:
            raise ZooKeeperFileError(reader.file, reader.offset, f"{znode.path!r} has no parent before it")
        znodes[znode.path] = znode
    if not znodes:
        raise ZooKeeperFileError(reader.file, reader.offset, "a snapshot without a root")
    return ZooKeeperState.build(znodes.values(), reader.sessions, zxid)


class _Replay:
    """The logs over a snapshot. `exact_from`: the zxid from which digests can be compared, None if not known.

    A digest that does not match where the snapshot noted its own is a doubt: the next one decides."""

    def __init__(self, disk: Disk, loaded: Loaded, exact_from: int | None, digest: int | None) -> None:
        self._disk = disk
        self._loaded = loaded
        self._state = loaded.state
        self._exact_from = exact_from
        self._expected: tuple[int, int] | None = None
        self._noted_zxid = exact_from if digest is not None else None
        self._doubt: str | None = None
        self._mismatched = False
        if digest is not None and exact_from is not None:
            self._expected = (exact_from, digest)

    def run(self, logs: list[tuple[int, str]]) -> None:
        start = self._state.zxid + 1
        skipped = max((number for number, (zxid, _) in enumerate(logs) if zxid <= start), default=0)
        self._check()
        for _, path in logs[skipped:]:
            if self._disk.size(path) == 0 and path == logs[-1][1]:
                continue
            for record in LogReader(chunks_of(self._disk, path), path):
                self._replay(record, path)
        if self._exact_from is None and self._expected is not None:
            # Only the end is certain to be exact.
            self._exact_from = self._state.zxid
            self._check()
        elif self._doubt is not None:
            self._loaded.problems.append(self._doubt)
        elif self._exact_from is not None and self._state.zxid < self._exact_from:
            self._loaded.problems.append(
                f"the snapshot has effects up to {self._exact_from:#x}, but the logs end at {self._state.zxid:#x}: "
                "the state is not exact"
            )

    def _replay(self, record: LogRecord, path: str) -> None:
        txn, last = record.txn, self._state.zxid
        if txn.zxid <= self._loaded.snapshot_zxid:
            return
        new_epoch = txn.zxid >> 32 > last >> 32 and txn.zxid & _COUNTER_MASK == 1
        if txn.zxid != last + 1 and not new_epoch:
            raise ZooKeeperFileError(path, record.offset, f"transaction {txn.zxid:#x} does not follow {last:#x}")
        self._state.apply(txn)
        self._loaded.replayed_count += 1
        if record.digest is not None and (self._exact_from is None or txn.zxid >= self._exact_from):
            self._expected = (txn.zxid, record.digest)
        self._check()

    def _check(self) -> None:
        """Compare the digest if one is known for exactly this state; the first difference is reported."""
        if self._expected is None or self._exact_from is None or self._mismatched:
            return
        zxid, digest = self._expected
        if not zxid == self._state.zxid >= self._exact_from:
            return
        if digest == self._state.digest:
            self._doubt = None
            return
        text = f"at {zxid:#x} ZooKeeper stored the digest {digest}, but the state has {self._state.digest}"
        if zxid == self._noted_zxid:
            self._doubt = text
        else:
            self._mismatched = True
            self._loaded.problems.append(self._doubt or text)
            self._doubt = None


def to_tree(state: ZooKeeperState) -> DataTree:
    """The state as a `DataTree`, at the same zxid. Raises `datatree.tree.TreeError` if it is none."""
    _drop_orphans(state)
    tree = DataTree.bare()
    names = {path: len(children) for path, children in state.children.items()}
    # ZooKeeper before 3.5 had no configuration znode.
    names[ZOOKEEPER] = names.get(ZOOKEEPER, 0) + (CONFIG not in state.znodes)
    for path in sorted(state.znodes.keys() | {CONFIG}):
        znode = state.znodes.get(path)
        if path == CONFIG or znode is None:
            znode = SnapshotZnode(CONFIG, b"", READ_ONLY_ACL, 0, 0, 0, 0, -1, 0, -1, 0, 0)
        data = b"" if is_stats(path) else znode.data
        children_count = names.get(path, 0)
        stat = STAT_LAYOUT.pack(
            znode.czxid,
            znode.mzxid,
            znode.ctime,
            znode.mtime,
            znode.version,
            visible_cversion(znode.cversion, children_count),
            znode.aversion,
            visible_owner(znode.owner),
            len(data or b""),
            children_count,
            znode.pzxid,
        )
        tree.install([(path, data, znode.acl, stat, znode.owner, znode.cversion)])
    for session, timeout_ms in sorted(state.sessions.items()):
        tree.install_session(session, timeout_ms)
    tree.finish(state.zxid)
    return tree


def _drop_orphans(state: ZooKeeperState) -> None:
    """Delete the ephemerals whose session is not known, as ZooKeeper does before it serves."""
    for session in sorted(state.ephemerals.keys() - state.sessions):
        state.apply(Txn(state.zxid, 0, session, 0, OpCode.CLOSE_SESSION, 0, b"", None, None))


def from_cursor(cursor: SnapshotCursor) -> ZooKeeperState:
    """The state in a cursor, which is closed afterwards; quotas' sums are not in it, ZooKeeper counts them again."""
    state = ZooKeeperState.build(cursor_znodes(cursor), cursor.sessions, cursor.zxid)
    cursor.close()
    return state


def write_directory(disk: Disk, state: ZooKeeperState, directory: str = DIRECTORY) -> str:
    """Write the state as the snapshot that a ZooKeeper can start from; durable when its path is returned.

    The directory must exist and should be empty: a ZooKeeper would continue the snapshot with any log that is there.
    """
    assert state.znodes.keys() >= {ROOT, ZOOKEEPER, QUOTA}
    path = f"{directory}/{file_name('snapshot', state.zxid)}"
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open_append(temporary, create=True)
    for piece in state.snapshot():
        file.write(piece)
    file.sync()
    file.close()
    disk.rename(temporary, path)
    disk.sync_directory(directory)
    return path
