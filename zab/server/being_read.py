"""Snapshots that somebody reads, of which retention takes none away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class BeingRead(dict[int, int]):
    """How many read the snapshot of a zxid; none of those that nobody reads."""

    @contextlib.contextmanager
    def hold(self, zxid: int) -> Iterator[None]:
        """One more reads it meanwhile."""
        self[zxid] = self.get(zxid, 0) + 1
        try:
            yield
        finally:
            self[zxid] -= 1
            if not self[zxid]:
                del self[zxid]
