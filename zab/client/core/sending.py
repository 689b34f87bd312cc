"""Which transactions are known to be whose, while writes are under way whose outcome may have to be found out. Pure.

Two writes of one client may look the same. When the answer of one is lost, the transaction of the other must not be
taken for its own. So, as long as a write is under way that may be asked about, the zxid of every answered write is
kept.

Bounded: zxids that are older than the oldest such write are forgotten.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Sending"]


class Sending:
    """Of one session. has_changes: its servers are not known to have no feed of changes."""

    def __init__(self) -> None:
        self.has_changes = True
        self._under_way: dict[object, int] = {}
        self._owned: set[int] = set()
        self._order: deque[int] = deque()

    @contextmanager
    def under_way(self, since: int) -> Iterator[None]:
        """A write that may be asked about is sent within the block; no transaction of it is older than `since`."""
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
        """The transaction is a write's whose outcome is known."""
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
