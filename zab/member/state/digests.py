"""The digests of this member's tree at the last batch ends, to compare with those of other members (E5 digests).

A batch carries the digest of the leader's tree at a batch end that the leader had applied when it sent the batch; a
learner's answer to a ping carries its own. Two members with different digests at the same zxid have different trees,
and one of them is wrong.

Not here: what follows from a difference (`member`), and the digest itself (`datatree.tree`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from datatree.log.zxid import Zxid

KEPT_COUNT = 1024
"""How many batch ends are remembered: more than may be in flight, so a learner that applies late still finds its
own."""


@attrs.frozen
class Difference:
    """Two digests of trees at one batch end."""

    zxid: Zxid
    own: int
    said: int


class Digests:
    """zxid of a batch end → digest of the tree there, for the newest `KEPT_COUNT` of them."""

    def __init__(self) -> None:
        self._by_zxid: dict[int, int] = {}
        self.find: Callable[[int], int | None] = self._by_zxid.get
        """The digest at a batch end; None if it is not remembered."""
        self._order: deque[int] = deque()

    def record(self, zxid: int, digest: int) -> None:
        """Remember the digest of the tree at this batch end."""
        if zxid in self._by_zxid:
            assert self._by_zxid[zxid] == digest, "a tree that stood still changed"
            return
        self._by_zxid[zxid] = digest
        self._order.append(zxid)
        if len(self._order) > KEPT_COUNT:
            del self._by_zxid[self._order.popleft()]

    def at(self, zxid: int) -> int:
        """The digest at a batch end that is remembered, such as the newest."""
        return self._by_zxid[zxid]

    def remembered(self) -> list[tuple[int, int]]:
        """The batch ends and their digests, oldest first."""
        return list(self._by_zxid.items())

    def clear(self) -> None:
        """Forget all digests, since the tree was replaced."""
        self._by_zxid.clear()
        self._order.clear()
