"""The ledgers that a worker leaves alone: those that it could not repair, for a while; those that lost an entry, until
a bookie comes back that may have it. After that while, a ledger is put off: others are taken first, since each attempt
may take long.

Only so many are remembered, the newest; the others are simply tried again.
"""

from __future__ import annotations

from collections.abc import Container, Set

from attrs import define, field, frozen

from zab.ledger.entries.ids import BookieId
from zab.ledger.replication.events import WorkerSettings


@frozen
class _Failure:
    until_ms: int
    count: int


@frozen
class Skipped:
    """The ledgers that are not to be taken now."""

    _now_ms: int
    _held: Container[int]
    _failed: dict[int, _Failure]
    _lost: dict[int, frozenset[BookieId]]

    def __contains__(self, ledger: object) -> bool:
        if not isinstance(ledger, int):
            return False
        failure = self._failed.get(ledger)
        is_resting = failure is not None and failure.until_ms > self._now_ms
        return is_resting or ledger in self._held or ledger in self._lost


@define
class Failures:
    """See the docstring of the module."""

    _settings: WorkerSettings
    _failed: dict[int, _Failure] = field(factory=dict)
    _lost: dict[int, frozenset[BookieId]] = field(factory=dict)
    """With the bookies that may have what is lost."""

    @property
    def losses(self) -> int:
        """How many ledgers have an entry that no registered bookie has, as far as this worker knows."""
        return len(self._lost)

    @property
    def put_off(self) -> Container[int]:
        """The ledgers that could not be repaired when they were tried last."""
        return self._failed.keys()

    def skipped(self, now_ms: int, held: Container[int]) -> Skipped:
        return Skipped(now_ms, held, self._failed, self._lost)

    def failed(self, ledger: int, now_ms: int) -> int:
        """It could not be repaired. How long it is left alone, in milliseconds."""
        before = self._failed.pop(ledger, None)
        count = 0 if before is None else before.count + 1
        pause_ms = min(self._settings.retry_ms << min(count, 30), self._settings.retry_max_ms)
        self._failed[ledger] = _Failure(now_ms + pause_ms, count)
        while len(self._failed) > self._settings.failures_max:
            del self._failed[next(iter(self._failed))]
        return pause_ms

    def lost(self, ledger: int, awaited: frozenset[BookieId]) -> None:
        """An entry is lost, unless one of these bookies comes back."""
        self._lost[ledger] = awaited
        while len(self._lost) > self._settings.failures_max:
            del self._lost[next(iter(self._lost))]

    def forget(self, ledger: int) -> None:
        """It is repaired."""
        self._failed.pop(ledger, None)

    def on_bookies(self, registered: Set[BookieId]) -> None:
        """These bookies are registered now."""
        self._lost = {ledger: awaited for ledger, awaited in self._lost.items() if awaited.isdisjoint(registered)}
