"""When a bookie is read-only: because its disk is full, or because the operator wants it.

The disk is full from a used share on (`read_only_share`), and has room again below a lower one (`writable_share`), or
it would change its mind with every flush. Whatever found no room makes it full at once.

The **reserve** is for what may not be refused while it lasts: recovery, fences, flushes and compaction. Urgent adds are
taken until no more than the reserve is free.
"""

from __future__ import annotations

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import Space


class SpaceRule:
    """What is known of the disk."""

    def __init__(self, config: BookieConfig, now_ms: int) -> None:
        self._config = config
        self.known: Space | None = None
        self._is_full = False
        self._is_ordered = False
        self._ask_at_ms = now_ms

    @property
    def is_read_only(self) -> bool:
        return self._is_full or self._is_ordered

    @property
    def has_reserve(self) -> bool:
        """Whether more than the reserve is free."""
        return self.known is None or self.known.free > self._config.reserve_bytes

    @property
    def deadline_ms(self) -> int:
        """When to ask for the space."""
        return self._ask_at_ms

    def asks(self, now_ms: int) -> bool:
        """Whether it is time to ask."""
        if now_ms < self._ask_at_ms:
            return False
        self._ask_at_ms = now_ms + self._config.space_check_ms
        return True

    def take(self, space: Space) -> None:
        """The answer."""
        self.known = space
        used = space.total - space.free
        if used >= self._config.read_only_share * space.total:
            self._is_full = True
        elif used < self._config.writable_share * space.total:
            self._is_full = False

    def found_no_room(self) -> None:
        """Something did not fit on the disk."""
        self._is_full = True

    def order(self, *, read_only: bool) -> None:
        """The operator wants it read-only, or not any more."""
        self._is_ordered = read_only
