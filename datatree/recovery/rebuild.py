"""Rebuilds a tree from a member's own files, beside the one in use (E6 wrong trees).

    rebuild = Rebuild(disk, log, zxid, digest, until, start)
    while not rebuild.step(): …        each step a little: a chunk of a snapshot, or `STEP_BYTES` of the log
    rebuild.tree                       the tree at `until`, which had `digest` at `zxid`; None if no file leads there

It begins with `start`, if given: a tree, or the snapshot at `zxid` from another member. Otherwise it tries the newest
snapshot at or below `zxid`, then older ones, then the log from its beginning. If `digest` is None, the first readable
one will do. Snapshots that led to a different digest are in `refused`: a wrong tree wrote them.

Everything up to `until` must be committed. Not here: recovery after a start, which also decides what is committed and
what is torn (`recover`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

from datatree.log.aside import DAMAGED, set_aside
from datatree.log.disk import Disk
from datatree.log.transaction_log import NotHeldError, TransactionLog
from datatree.log.zxid import Zxid
from datatree.record import decode_fields
from datatree.snapshot import (
    SnapshotError,
    SnapshotHeader,
    SnapshotLoader,
    snapshot_files,
    snapshot_path,
    tree_fetch_path,
)
from datatree.tree import DataTree

STEP_BYTES: Final = 1 << 20

Start: TypeAlias = DataTree | SnapshotHeader
"""A tree, or the snapshot that was fetched to make one (`tree_fetch_path`)."""


class Rebuild:
    """The rebuilding of one tree. `digest_there` is the tree's digest at `zxid`, once known."""

    def __init__(
        self,
        disk: Disk,
        log: TransactionLog,
        zxid: Zxid,
        digest: int | None,
        until: Zxid,
        start: Start | None = None,
    ) -> None:
        assert zxid <= until
        self._disk = disk
        self._log = log
        self._zxid = zxid
        self._wanted = digest
        self._until = until
        self._start = start
        self.tree: DataTree | None = None
        self.digest_there: int | None = None
        self.refused: list[str] = []
        self.problems: list[str] = []
        """Why files could not be used."""
        self._steps = self._all_steps()

    def step(self) -> bool:
        """Do a little; True when it is over."""
        return next(self._steps, True)

    def _all_steps(self) -> Generator[bool]:
        """Yields False after each step."""
        for path in self._paths():
            try:
                tree = yield from self._begin(path)
                yield from self._replay(tree)
            except (SnapshotError, NotHeldError, OSError) as error:
                self.problems.append(str(error))
            else:
                if self._wanted is None or self.digest_there == self._wanted:
                    self.tree = tree
                    return
                self.problems.append(f"{path or 'the log'} leads to digest {self.digest_there:016x}")
                if path is not None:
                    self.refused.append(path)

    def _paths(self) -> list[str | None]:
        """The snapshots to begin with, in turn; None for none."""
        if isinstance(self._start, SnapshotHeader):
            return [tree_fetch_path(self._start.zxid)]
        if self._start is not None:
            return [None]
        found = [zxid for zxid in snapshot_files(self._disk) if zxid <= self._zxid]
        return [*map(snapshot_path, reversed(found)), None]

    def _begin(self, path: str | None) -> Generator[bool, None, DataTree]:
        """The tree of a snapshot, or the given one."""
        if path is None:
            return self._start if isinstance(self._start, DataTree) else DataTree()
        loader = SnapshotLoader(self._disk, path)
        header = loader.header
        if header.lineage != self._log.lineage:
            raise SnapshotError(path, 0, f"it has lineage {header.lineage.hex()}")
        if isinstance(self._start, SnapshotHeader) and not (
            header == self._start and self._log.floor(header.zxid) == (header.zxid, header.chain)
        ):
            raise SnapshotError(path, 0, f"not the snapshot of {self._start.zxid:#x} that the log goes on from")
        while not loader.load_chunk():
            yield False
        return loader.tree

    def _replay(self, tree: DataTree) -> Generator[bool]:
        """Apply what the log has after the tree, up to `until`."""
        at = Zxid(tree.applied)
        self.digest_there = tree.digest if at == self._zxid else None
        while at < self._until:
            batches = self._log.read(at, STEP_BYTES)
            if not batches:
                raise NotHeldError(f"the log ends at {at:#x}, below {self._until:#x}")
            for batch in batches:
                if batch.zxid > self._until:
                    break
                for txn in decode_fields(batch.body, batch.first, batch.count):
                    tree.apply(txn, is_watched=False)
                at = batch.zxid
                if at == self._zxid:
                    self.digest_there = tree.digest
                    if self._wanted is not None and self.digest_there != self._wanted:
                        return
            yield False
        if self.digest_there is None:
            raise NotHeldError(f"no batch ends at {self._zxid:#x}")

    def set_refused_aside(self) -> None:
        """Set these snapshots aside, so that no start uses them again. Raises OSError."""
        for path in self.refused:
            set_aside(self._disk, path, DAMAGED)
