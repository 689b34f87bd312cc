"""The zxids of answered writes, kept while the outcome of another write may have to be found out. Pure.

Two writes of one client may look the same. If the answer to one is lost, the transaction of the other must not be
mistaken for it. So the zxid of every answered write is kept as long as a write is in flight whose outcome may have to
be found out.

Bounded: zxids older than the oldest such write are forgotten.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Sending"]


class Sending:
    """The writes of one session. has_changes: False once its servers are known to have no feed of changes."""

    def __init__(self) -> None:
        self.has_changes = True
        self._under_way: dict[object, int] = {}
        self._owned: set[int] = set()
        self._order: deque[int] = deque()

    @contextmanager
    def under_way(self, since: int) -> Iterator[None]:
        """A write is sent within the block whose outcome may have to be found out; its transaction is newer than
        `since`."""
        write = object()
        self._under_way[write] = since
        try:
            yield
        finally:
            del self._under_way[write]
            self._forget()

    @property
    def is_used(self) -> bool:
        return bool(self._under_way)

    def own(self, zxid: int) -> None:
        """The transaction belongs to a write whose outcome is known."""
        if zxid not in self._owned:
            self._owned.add(zxid)
            self._order.append(zxid)

    def is_owned(self, zxid: int) -> bool:
        return zxid in self._owned

    def __len__(self) -> int:
        return len(self._owned)

    def _forget(self) -> None:
        oldest = next(iter(self._under_way.values()), None)
        while self._order and (oldest is None or self._order[0] <= oldest):
            self._owned.discard(self._order.popleft())
