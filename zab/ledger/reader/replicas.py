"""Which replica is asked first, and when a second one is asked as well.

order     healthy bookies, then read-only ones, then those that failed, were slow or lacked entries within the last
          minute, then those that are not registered, which are tried all the same. Within each: the bookie that
          served well so far, so that its read-ahead works, then in the order of the write set
hedging   a read that takes longer than usual is asked of the next replica too, and the first good answer counts.
          Only so many reads are: else a slow cluster would get twice the load
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from typing import Final

from attrs import define, field

from zab.ledger.entries.ids import BookieId
from zab.ledger.reader.events import ReaderSettings
from zab.ledger.store.events import BookiesKnown

_LATENCIES_MAX: Final = 128
_HEDGES_MAX: Final = 10.0
"""How many hedges may be saved up."""
_ABSENCES_MAX: Final = 3
"""A bookie that does not have what it is asked for, so often in a row, lacks more: each answer is about one entry."""


@define
class Replicas:
    """What a reader knows of bookies."""

    _settings: ReaderSettings
    _known: BookiesKnown | None = None
    _registered: frozenset[BookieId] = frozenset()
    _failed_ms: dict[BookieId, int] = field(factory=dict)
    _absences: dict[BookieId, int] = field(factory=dict)
    _latencies: dict[BookieId, deque[int]] = field(factory=dict)
    _hedges: float = 1.0
    preferred: BookieId | None = None
    mismatches: int = 0
    """How many records were damaged."""

    def on_bookies(self, known: BookiesKnown) -> None:
        self._known = known
        self._registered = frozenset(each.id for each in known.available)

    def order(self, members: Iterable[BookieId], now_ms: int, is_sticky: bool) -> list[BookieId]:
        """These bookies, whom to ask first at the front. Not sticky: where entries rotate over the ensemble."""
        return sorted(members, key=lambda each: (self._rank(each, now_ms), is_sticky and each != self.preferred))

    def _rank(self, bookie: BookieId, now_ms: int) -> int:
        if self._known is not None and bookie not in self._registered and bookie not in self._known.read_only:
            return 3
        failed_ms = self._failed_ms.get(bookie)
        if failed_ms is not None and now_ms - failed_ms < self._settings.memory_ms:
            return 2
        return int(self._known is not None and bookie in self._known.read_only)

    def prefer(self, bookie: BookieId, ensemble: Container[BookieId]) -> None:
        """Keep to this bookie, unless another one of the ensemble is kept to already."""
        if self.preferred not in ensemble:
            self.preferred = bookie

    # -------------------------------------------------------------------------------------------------------- hedging

    def on_failed(self, bookie: BookieId, now_ms: int) -> None:
        """It failed, or was slow."""
        self._failed_ms[bookie] = now_ms
        if self.preferred == bookie:
            self.preferred = None

    def on_absent(self, bookie: BookieId, now_ms: int) -> None:
        """It does not have an entry, which is no failure by itself."""
        self._absences[bookie] = self._absences.get(bookie, 0) + 1
        if self._absences[bookie] >= _ABSENCES_MAX:
            del self._absences[bookie]
            self.on_failed(bookie, now_ms)

    def on_served(self, bookie: BookieId, took_ms: int) -> None:
        self._absences.pop(bookie, None)
        self._latencies.setdefault(bookie, deque(maxlen=_LATENCIES_MAX)).append(took_ms)

    def on_asked(self) -> None:
        self._hedges = min(_HEDGES_MAX, self._hedges + self._settings.hedges_share)

    def hedge_after_ms(self, bookie: BookieId) -> int:
        """How long a read of this bookie may take before another is asked."""
        latencies = self._latencies.get(bookie)
        if not latencies:
            return self._settings.hedge_ms
        usual_ms = sorted(latencies)[len(latencies) * 99 // 100]
        return max(self._settings.hedge_ms, 3 * usual_ms)

    def may_hedge(self) -> bool:
        """Whether one more read may be asked twice; it is counted."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        return True
