"""One check of all ledgers, whatever it is that is checked: it is given ledgers page by page, and asks bookies.

| kind | asks bookies for | then |
|---|---|---|
| all ledgers | the first and last entries of each member, and a sample | who lacks one is marked |
| replicas | lists of their entries | entries with fewer than Qa and Qw copies are counted |
| placement | nothing | ensembles are counted that others could replace |
| orphans | nothing | ledgers that no log names are closed, and later deleted (`orphans`) |

Only members that are registered are asked: the others are the business of the search for lost bookies. One ledger is
checked at a time.
"""

from __future__ import annotations

import enum
import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Final

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.underreplication import (
    CHECK_ALL_LEDGERS_TIME,
    ORPHANS_CHECK_TIME,
    PLACEMENT_CHECK_TIME,
    REPLICAS_CHECK_TIME,
)
from zab.ledger.placement.placement import Adherence, Placement
from zab.ledger.replication.check import LedgerCheck
from zab.ledger.replication.events import AuditorSettings
from zab.ledger.replication.members import Run, complete_members, share_of
from zab.ledger.replication.passes import Pages, each_page
from zab.ledger.store.events import Answered, Send

RUNS_MAX: Final = 100_000
"""Copies are counted for so many runs of entries of a ledger, which are all unless it is striped and long."""


class Kind(enum.Enum):
    """What is checked."""

    LEDGERS = "all ledgers"
    REPLICAS = "replicas"
    PLACEMENT = "placement"
    ORPHANS = "orphans"

    def interval_ms(self, settings: AuditorSettings) -> int:
        return {
            Kind.LEDGERS: settings.ledgers_check_ms,
            Kind.REPLICAS: settings.replicas_check_ms,
            Kind.PLACEMENT: settings.placement_check_ms,
            Kind.ORPHANS: settings.orphans_check_ms,
        }[self]

    @property
    def path(self) -> str:
        """The znode of its time, below the root."""
        return {
            Kind.LEDGERS: CHECK_ALL_LEDGERS_TIME,
            Kind.REPLICAS: REPLICAS_CHECK_TIME,
            Kind.PLACEMENT: PLACEMENT_CHECK_TIME,
            Kind.ORPHANS: ORPHANS_CHECK_TIME,
        }[self]


class Sweep:
    """See the docstring of the module."""

    def __init__(self, kind: Kind, settings: AuditorSettings, placement: Placement, rng: Random) -> None:
        self.kind = kind
        self.pages: Pages = each_page(settings.ledgers_per_s)
        self.to_mark: deque[tuple[int, list[BookieId]]] = deque()
        """Ledgers that are to be marked, with the bookies that lack entries."""
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._placement = placement
        self._rng = rng
        self._to_check: deque[VersionedMetadata] = deque()
        self._registered: frozenset[BookieId] = frozenset()
        self._check: LedgerCheck | None = None
        self._versioned: VersionedMetadata | None = None

    @property
    def wants_page(self) -> bool:
        return self._check is None and not self._to_check and not self.to_mark

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest."""
        return 0 if self._check is None else self._check.deadline_ms

    @property
    def summary(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items())) or "nothing to check"

    def take_page(self, found: Sequence[VersionedMetadata], registered: frozenset[BookieId]) -> None:
        """The next ledgers, and the bookies that are registered now."""
        self._to_check.extend(found)
        self._registered = registered

    def step(self, now_ms: int, answers: Iterable[Answered]) -> list[Send]:
        """Take answers, and say what is asked next."""
        sends: list[Send] = []
        while not self.to_mark:
            if self._check is None:
                if not self._to_check:
                    break
                self._begin(self._to_check.popleft())
                if self._check is None:
                    continue
            sends += self._check.step(now_ms, answers)
            answers = ()
            if not self._check.is_over:
                break
            self._end(self._check)
        return sends

    def _begin(self, versioned: VersionedMetadata) -> None:
        self.counts[f"{self.kind.value}: ledgers checked"] += 1
        metadata = versioned.metadata
        if self.kind is Kind.PLACEMENT:
            self._look_at_placement(metadata)
            return
        members = [each for each in complete_members(metadata) if each.bookie in self._registered]
        listed = frozenset(each.bookie for each in members) if self.kind is Kind.REPLICAS else frozenset()
        reads = self.kind is Kind.LEDGERS
        self._versioned = versioned
        self._check = LedgerCheck(versioned, members, self._settings.check, self._rng, listed=listed, reads=reads)

    def _end(self, check: LedgerCheck) -> None:
        versioned = self._versioned
        assert versioned is not None
        self._check = None
        if check.unknown:
            self.counts[f"{self.kind.value}: ledgers not checked whole"] += 1
        if self.kind is Kind.REPLICAS:
            self._count_copies(versioned.metadata, check)
        elif check.missing:
            self.counts[f"{self.kind.value}: ledgers that lack entries"] += 1
            self.to_mark.append((versioned.ledger, sorted({member.bookie for member in check.missing})))

    def _look_at_placement(self, metadata: LedgerMetadata) -> None:
        quorum = metadata.write_quorum
        fragments = metadata.fragments if metadata.is_closed else metadata.fragments[:-1]
        found = [self._placement.adheres(fragment.ensemble, quorum) for fragment in fragments]
        if Adherence.NO in found:
            self.counts["placement: ledgers that break the rule of racks"] += 1
        elif Adherence.SOFT in found:
            self.counts["placement: ledgers placed as well as possible"] += 1

    def _count_copies(self, metadata: LedgerMetadata, check: LedgerCheck) -> None:
        """Whether some entry has too few copies: on members that are away, silent, or do not list it."""
        missing, unknown = check.missing, check.unknown
        lacking: list[Iterator[Run]] = []
        for member in complete_members(metadata):
            is_away = member.bookie not in self._registered or member in unknown
            runs = None if is_away else missing.get(member, ())
            lacking.append(share_of(metadata, member) if runs is None else iter(runs))
        most = max(islice(_overlaps(lacking), RUNS_MAX), default=0)
        if most:
            self.counts["replicas: ledgers with entries below the write quorum"] += 1
        if most > metadata.write_quorum - metadata.ack_quorum:
            self.counts["replicas: ledgers with entries below the ack quorum"] += 1
        if most >= metadata.write_quorum:
            self.counts["replicas: ledgers with entries on no bookie"] += 1


def _overlaps(members: Iterable[Iterator[Run]]) -> Iterator[int]:
    """Where a run begins, how many runs the entry is in. The runs of each member are in order."""
    ends: list[int] = []
    for first, last in heapq.merge(*members):
        while ends and ends[0] < first:
            heapq.heappop(ends)
        heapq.heappush(ends, last)
        yield len(ends)
