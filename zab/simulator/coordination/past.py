"""What znodes were some writes ago, for members of the service that lag.

A member that lags serves reads from an earlier state of the tree. `Past` keeps, for each znode that changed lately,
what it was before; so any state of the last `depth` writes can be read.

Not here: how far behind a session's member is (`service`).
"""

from __future__ import annotations

from collections import deque

from zab.simulator.coordination.znode_tree import Znode, ZnodeTree


class Past:
    """The last `depth` writes of a tree, undone for a reader. The tree has one `Past` at most."""

    def __init__(self, tree: ZnodeTree, depth: int) -> None:
        self._tree = tree
        self._depth = depth
        self._before: dict[str, list[tuple[int, Znode | None]]] = {}
        """Path → the writes that changed the znode, each with what it was before; oldest first."""
        self._order: deque[tuple[int, str]] = deque()
        tree.before_change = self._note

    def _note(self, path: str) -> None:
        """The newest write of the tree changes this znode. Of several changes in one write the first counts."""
        zxid, found = self._tree.zxid, self._before.setdefault(path, [])
        if found and found[-1][0] == zxid:
            return
        znode = self._tree.znodes.get(path)
        copy = None if znode is None else Znode(znode.data, znode.stat, set(znode.children), znode.sequence)
        found.append((zxid, copy))
        self._order.append((zxid, path))
        while self._order[0][0] <= zxid - self._depth:
            _, oldest = self._order.popleft()
            self._before[oldest].pop(0)

    def znode(self, path: str, zxid: int) -> Znode | None:
        """The znode as it was after the write `zxid`, which is at most `depth` writes ago; None: it was not there."""
        for changed_at, before in self._before.get(path, ()):
            if changed_at > zxid:
                return before
        return self._tree.znodes.get(path)
