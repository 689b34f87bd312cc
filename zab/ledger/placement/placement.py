"""Placement of a ledger: its first ensemble, and the bookie that takes the place of one that failed.

    placement.know(nodes)                               the bookies that are available now
    placement.new_ensemble(E, Qw, now_ms)               E bookies, every write set in enough racks
    placement.replace(index, ensemble, Qw, now_ms)      one more, for the place of one that failed
    placement.adheres(ensemble, Qw)                     whether an ensemble is as it should be

The rule of racks: any Qw consecutive members, cyclically, are in at least min(Qw, racks_min) racks. If the bookies do
not allow that, as few write sets as possible break it, or with `is_enforced` there is no ensemble. Bookies that fail
often are in quarantine; they are chosen only if there are not enough others.

Only ids, racks and free space count. A `Random` that is handed in makes the choice, so equal inputs choose equally.

Not here: which bookies are registered (`zab.ledger.store`), when one has failed (`zab.ledger.writer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from enum import Enum
from math import log
from random import Random

from attrs import field, frozen
from attrs.validators import ge, instance_of

from zab.ledger.entries.ids import BookieId
from zab.ledger.placement.nodes import DEFAULT_RACK, BookieNode
from zab.ledger.placement.quarantine import Quarantine
from zab.ledger.placement.racks import broken_around, broken_windows, find_ensemble
from zab.ledger.quorums.write_sets import ENSEMBLE_SIZE_MAX


class NotEnoughBookiesError(Exception):
    """There are not enough bookies, or with enforced racks not enough racks."""


class Adherence(Enum):
    """How well an ensemble keeps the rule of racks."""

    STRICT = "every write set is in enough racks"
    SOFT = "as well as the bookies that are available allow"
    NO = "another ensemble would be better"


@frozen(kw_only=True)
class PlacementSettings:
    """How bookies are chosen."""

    racks_min: int = field(default=2, validator=[instance_of(int), ge(1)])
    """In so many racks the members of each write set are, if it has so many members. 1: racks do not matter."""
    is_enforced: bool = False
    """Whether there is no ensemble rather than one that breaks the rule of racks."""
    weight_max_multiple: int = field(default=0, validator=[instance_of(int), ge(0)])
    """Bookies are chosen by their free space, which counts up to so many times the median. 0: all alike."""
    quarantine_errors: int = field(default=100, validator=[instance_of(int), ge(0)])
    """So many errors in `quarantine_window_ms` put a bookie in quarantine. 0: never."""
    quarantine_window_ms: int = field(default=60_000, validator=[instance_of(int), ge(1)])
    quarantine_ms: int = field(default=1_800_000, validator=[instance_of(int), ge(1)])


class Placement:
    """One for all ledgers of a client."""

    def __init__(self, rng: Random, settings: PlacementSettings | None = None) -> None:
        self.settings = settings or PlacementSettings()
        self._rng = rng
        self._nodes: dict[BookieId, BookieNode] = {}
        of = self.settings
        self._quarantine = Quarantine(of.quarantine_errors, of.quarantine_window_ms, of.quarantine_ms)

    def know(self, nodes: Iterable[BookieNode]) -> None:
        """All bookies that are available, in place of those that were."""
        self._nodes = {candidate.id: candidate for candidate in nodes}

    def note_error(self, bookie: BookieId, now_ms: int) -> bool:
        """This bookie failed. True: it is in quarantine from now on."""
        return self._quarantine.note_error(bookie, now_ms)

    def quarantined(self, now_ms: int) -> frozenset[BookieId]:
        return frozenset(self._quarantine.ends_of(now_ms))

    # ----------------------------------------------------------------------------------------------------- decisions

    def new_ensemble(
        self, size: int, write_quorum: int, now_ms: int, exclude: Set[BookieId] = frozenset()
    ) -> tuple[BookieId, ...]:
        """An ensemble of so many bookies, none of `exclude`. Raises NotEnoughBookiesError."""
        if size > ENSEMBLE_SIZE_MAX:
            raise NotEnoughBookiesError(f"an ensemble of {size} bookies, at most {ENSEMBLE_SIZE_MAX} are possible")
        candidates = self._candidates(exclude, size, now_ms)
        if len(candidates) < size:
            lack = f"{size} bookies are needed, {len(candidates)} may be chosen"
            raise NotEnoughBookiesError(f"{lack} -> start more bookies, or ask for a smaller ensemble")
        enforced = self.settings.is_enforced
        needed = self._needed(write_quorum)
        if not enforced:
            needed = min(needed, len({candidate.rack for candidate in candidates}))
        found = find_ensemble(candidates, size, write_quorum, needed, 0 if enforced else size)
        if found is None:
            raise NotEnoughBookiesError(f"no {size} bookies have each {write_quorum} in {needed} racks")
        return found

    def replace(
        self,
        index: int,
        ensemble: Sequence[BookieId],
        write_quorum: int,
        now_ms: int,
        exclude: Set[BookieId] = frozenset(),
    ) -> BookieId:
        """A bookie for this index, which is neither in the ensemble nor in `exclude`. Raises NotEnoughBookiesError."""
        candidates = self._candidates(exclude | set(ensemble), 1, now_ms)
        racks: list[str | None] = [self._rack_of(bookie) for bookie in ensemble]
        needed = self._needed(write_quorum)
        ranked = []
        for place, candidate in enumerate(candidates):
            racks[index] = candidate.rack
            ranked.append((broken_around(racks, index, write_quorum, needed), place, candidate.id))
        if not ranked:
            raise NotEnoughBookiesError(f"no bookie may take the place of {ensemble[index]}")
        broken, _, bookie = min(ranked)
        if broken and self.settings.is_enforced:
            raise NotEnoughBookiesError(f"no bookie in another rack may take the place of {ensemble[index]}")
        return bookie

    def adheres(self, ensemble: Sequence[BookieId], write_quorum: int) -> Adherence:
        """How well this ensemble keeps the rule of racks, given the bookies that are available now."""
        racks = [self._rack_of(bookie) for bookie in ensemble]
        if not broken_windows(racks, write_quorum, self._needed(write_quorum)):
            return Adherence.STRICT
        nodes = [*self._nodes.values(), *(BookieNode(each) for each in ensemble if each not in self._nodes)]
        needed = min(self._needed(write_quorum), len({candidate.rack for candidate in nodes}))
        broken = broken_windows(racks, write_quorum, needed)
        if broken and find_ensemble(nodes, len(ensemble), write_quorum, needed, broken - 1) is not None:
            return Adherence.NO
        return Adherence.SOFT

    # -------------------------------------------------------------------------------------------------------- details

    def _rack_of(self, bookie: BookieId) -> str:
        candidate = self._nodes.get(bookie)
        return DEFAULT_RACK if candidate is None else candidate.rack

    def _needed(self, write_quorum: int) -> int:
        return min(write_quorum, self.settings.racks_min)

    def _candidates(self, exclude: Set[BookieId], least: int, now_ms: int) -> list[BookieNode]:
        """The bookies that may be chosen, in the order in which they are preferred: those in quarantine last, and only
        so many as are needed."""
        nodes = [candidate for candidate in self._nodes.values() if candidate.id not in exclude]
        ends = self._quarantine.ends_of(now_ms)
        good = self._shuffled([candidate for candidate in nodes if candidate.id not in ends])
        bad = sorted(
            (candidate for candidate in nodes if candidate.id in ends),
            key=lambda candidate: (ends[candidate.id], candidate.id),
        )
        return [*good, *bad[: max(0, least - len(good))]]

    def _shuffled(self, nodes: list[BookieNode]) -> list[BookieNode]:
        """In random order; with weights, one with twice the free space is as often first as two others together."""
        multiple = self.settings.weight_max_multiple
        frees = sorted(candidate.free for candidate in nodes if candidate.free is not None)
        if not multiple or not frees:
            return self._rng.sample(nodes, len(nodes))
        median = max(1, frees[len(frees) // 2])

        def draw(candidate: BookieNode) -> float:
            weight = max(1, min(median if candidate.free is None else candidate.free, multiple * median))
            return -log(1.0 - self._rng.random()) / weight

        return sorted(nodes, key=draw)
