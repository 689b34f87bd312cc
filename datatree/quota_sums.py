"""The sums of quotas: updated with each znode, and counted in slices when a quota is set on an existing subtree.

A client chooses how large the subtree of a quota is, and may set many quotas. So applying a quota counts nothing: it
waits, and the owner of the tree calls `count_some` while `is_due`. One round through the shards of the tree counts for
all quotas that waited when it began; those set meanwhile wait for the next round.

    waiting    its sums mean nothing yet
    counting   they cover what the round has passed
    counted    they are exact, and stay so: each change of a znode updates them

When a znode changes during a round, either the round has passed it, so the change counts, or the round will see it as
it is by then. It has passed a znode if it has passed its shard; for the shard in progress, `_left` has the paths not
seen yet. So the sums are exact whatever happens between two slices.

Until a quota is counted its limits refuse nothing, and zookeeper_stats shows -1, which ZooKeeper calls unknown.

Invariant: the sums of a counted quota are those of the znodes at its path and below it.

Not here: the text of limits and sums (`datatree.quota`), and when limits refuse (`datatree.outstanding`).
"""

from typing import Final
from zlib import crc32

from datatree.path_map import PathMap
from datatree.quota import Quota
from datatree.slices import NAMES
from datatree.znode import Znode, length_of

__all__ = ["QuotaSums"]

_DEPTH_BYTES: Final = 4_096
"""A path counts as one name more for each time that its bytes times the number of its names reaches this."""


class QuotaSums:
    """Counts the sums of all quotas. `is_due` says whether there is something to count."""

    __slots__ = ("_at", "_counting", "_left", "_shards", "_waiting", "is_due", "visited_count")

    def __init__(self, shards: list[dict[bytes, Znode]]) -> None:
        self._shards = shards
        self._waiting: PathMap[Quota] = PathMap()
        self._counting: PathMap[Quota] = PathMap()
        self._at = 0
        """The shard that the round is at."""
        self._left: dict[bytes, None] = {}
        """The paths of that shard that the round has not seen."""
        self.is_due = False
        self.visited_count = 0
        """How many znodes all rounds have looked at."""

    def add(self, quota: Quota) -> None:
        """Add a quota that is not counted yet."""
        self._waiting[quota.path] = quota
        self.is_due = True

    def drop(self, quota: Quota) -> None:
        """Remove a quota."""
        self._waiting.pop(quota.path, None)
        self._counting.pop(quota.path, None)
        self.is_due = bool(self._waiting or self._counting)

    def changed(self, quotas: PathMap[Quota], path: bytes, count: int, length_bytes: int) -> None:
        """The znode at `path` was created (1), deleted (-1) or changed (0), which adds so many bytes."""
        is_passed = not self._counting or self._has_passed(path, is_gone=count < 0)
        for quota in quotas.around(path):
            if quota.is_counted or (is_passed and quota.path in self._counting):
                quota.count += count
                quota.total_bytes += length_bytes

    def _has_passed(self, path: bytes, *, is_gone: bool) -> bool:
        index = crc32(path) & 4095
        if index == self._at and path in self._left:
            if is_gone:
                # A znode created there later is new to the round.
                del self._left[path]
            return False
        return index <= self._at

    def count_some(self) -> None:
        """Count a slice: as many znodes as one slice may look at."""
        work = 0
        while self.is_due:
            if not self._counting:
                self._begin()
            shard, left, counting = self._shards[self._at], self._left, self._counting
            while left:
                if work >= NAMES:
                    return
                path, _ = left.popitem()
                work += 1 + len(path) * path.count(b"/") // _DEPTH_BYTES
                self.visited_count += 1
                length = length_of(shard[path])
                for quota in counting.around(path):
                    quota.count += 1
                    quota.total_bytes += length
            if self._at + 1 < len(self._shards):
                self._at += 1
                self._left = dict.fromkeys(self._shards[self._at])
            else:
                self._end()
                return

    def count_all(self) -> None:
        """Count everything, however long it takes, while a tree is being loaded."""
        while self.is_due:
            self.count_some()

    def _begin(self) -> None:
        self._counting, self._waiting = self._waiting, PathMap()
        for quota in self._counting.values():
            quota.count = quota.total_bytes = 0
        self._at, self._left = 0, dict.fromkeys(self._shards[0])

    def _end(self) -> None:
        for quota in self._counting.values():
            quota.is_counted = True
        self._counting = PathMap()
        self.is_due = bool(self._waiting)
