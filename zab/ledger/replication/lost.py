"""Which bookies are away, since when, and for which of them all ledgers were searched.

A bookie counts that was registered, or that a ledger names. One that comes back is forgotten, whatever was about to be
done. If more than one is away that was not searched for, nobody waits: it is no restart.
"""

from __future__ import annotations

from collections.abc import Set

from attrs import define, field

from zab.ledger.entries.ids import BookieId


@define
class LostBookies:
    """See the docstring of the module."""

    _registered: frozenset[BookieId] = frozenset()
    _since_ms: dict[BookieId, int] = field(factory=dict)
    _searched: set[BookieId] = field(factory=set)

    @property
    def away(self) -> frozenset[BookieId]:
        return frozenset(self._since_ms)

    def on_registered(self, registered: frozenset[BookieId], now_ms: int) -> None:
        """These bookies are registered now, and no others."""
        self.on_away(self._registered - registered, now_ms)
        for bookie in registered & self._since_ms.keys():
            del self._since_ms[bookie]
            self._searched.discard(bookie)
        self._registered = registered

    def on_away(self, bookies: Set[BookieId], now_ms: int) -> None:
        """These are not registered, although something says that they exist."""
        for bookie in bookies:
            self._since_ms.setdefault(bookie, now_ms)

    def due_ms(self, delay_ms: int) -> int | None:
        """When a search is due; None: nobody is away that was not searched for."""
        times = [since_ms for bookie, since_ms in self._since_ms.items() if bookie not in self._searched]
        if not times:
            return None
        return min(times) + (delay_ms if len(times) == 1 else 0)

    def due(self, now_ms: int, delay_ms: int) -> frozenset[BookieId]:
        """The bookies whose ledgers are marked now."""
        new = [bookie for bookie in self._since_ms if bookie not in self._searched]
        is_waiting = len(new) == 1
        return frozenset(
            bookie
            for bookie, since_ms in self._since_ms.items()
            if bookie in self._searched or not is_waiting or now_ms - since_ms >= delay_ms
        )

    def searched(self, named: Set[BookieId], done: Set[BookieId]) -> None:
        """All ledgers were searched: they name these bookies that are away; all that name one of `done` are marked. Who
        was searched for and is not named any more is forgotten."""
        self._searched |= done & self._since_ms.keys()
        for bookie in self._searched - named:
            del self._since_ms[bookie]
        self._searched &= named
