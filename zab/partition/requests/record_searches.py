"""Records that are looked for on the disk: the host searches, outside of a turn, and a later turn is told."""

from __future__ import annotations

from collections.abc import Callable

from zab.kafka.errors import ErrorCode
from zab.partition.replica.record_search import Found, RecordSearch


class RecordSearches:
    """`begun`: the searches that the host is asked for next, with their tokens. The broker hands them over."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, RecordSearch]] = []
        self._told: dict[int, Callable[[Found | ErrorCode], None]] = {}
        self._count = 0

    def begin(self, search: RecordSearch, found: Callable[[Found | ErrorCode], None]) -> None:
        """Look for a record; `found` is told."""
        self._count += 1
        self._told[self._count] = found
        self.begun.append((self._count, search))

    def end(self, token: int, result: Found | ErrorCode) -> None:
        """The host has searched."""
        self._told.pop(token)(result)
