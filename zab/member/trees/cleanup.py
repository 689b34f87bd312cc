"""Finds containers and TTL znodes to delete, a few at a time, on the leader.

It looks for candidates every `container_check_interval_ms`; the deletion checks again that they have no children:

    container     without children, if it once had some, or has never had any for `container_never_used_ms` (0: never)
    TTL znode     without children, and not written for longer than its TTL

Ages are measured by this leader since it began to lead (`elapsed`): a jump of the wall clock neither deletes a znode
too early nor keeps one for ever. With a new leader, all ages start again.

Limits: `container_max_per_minute` deletions per minute, and `EXAMINED_COUNT` candidates per turn, so that a large
clean-up never delays a turn.

Not here: the deletion, a transaction like any other (`datatree.prepare`).
"""

from __future__ import annotations

from collections.abc import Iterator

from datatree.tree import DataTree
from datatree.znode import CONTAINER_OWNER, HEAD, STAT_AT, STAT_LAYOUT, ttl_ms
from zab.member.settings.config import Config
from zab.member.state.elapsed import Ages

EXAMINED_COUNT = 1000
_MINUTE_MS = 60_000
_MZXID = 1


class Cleanup:
    """The clean-up of one leadership. `now` is monotonic ms."""

    def __init__(self, config: Config, now: int) -> None:
        self._config = config
        self._ages = Ages()
        self._candidates: Iterator[bytes] | None = None
        self._minute_ends = now + _MINUTE_MS
        self._left_count = config.tree.container_max_per_minute
        self.next_deadline = now + config.tree.container_check_interval_ms
        self.next_turn = now
        """When to call `due` next."""

    def due(self, tree: DataTree, now: int) -> list[bytes]:
        """The paths to delete now. To be called in every turn from `next_turn` on, so that ages are known."""
        self._ages.note(tree.applied, now)
        found = self._find(tree, now) if now >= self.next_deadline else []
        self.next_turn = min(self._ages.next_note, self.next_deadline)
        return found

    def _find(self, tree: DataTree, now: int) -> list[bytes]:
        if now >= self._minute_ends:
            self._minute_ends = now + _MINUTE_MS
            self._left_count = self._config.tree.container_max_per_minute
        if self._candidates is None:
            self._candidates = iter([*tree.containers, *tree.ttls])
        found: list[bytes] = []
        for _ in range(EXAMINED_COUNT):
            if not self._left_count:
                self.next_deadline = self._minute_ends
                return found
            path = next(self._candidates, None)
            if path is None:
                self._candidates = None
                self.next_deadline = now + self._config.tree.container_check_interval_ms
                return found
            if self._may_go(tree, path, now):
                found.append(path)
                self._left_count -= 1
        return found

    def _may_go(self, tree: DataTree, path: bytes, now: int) -> bool:
        znode = tree.get(path)
        if znode is None or path in tree.children:
            return False
        _, owner, cversion, _, _ = HEAD.unpack_from(znode)
        age_ms = self._ages.age_ms(STAT_LAYOUT.unpack_from(znode, STAT_AT)[_MZXID], now)
        if owner != CONTAINER_OWNER:
            return bool(age_ms > ttl_ms(owner))
        never_used_ms = self._config.tree.container_never_used_ms
        return cversion > 0 or 0 < never_used_ms < age_ms
