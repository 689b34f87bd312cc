"""Ensemble changes: which bookies failed, when they are replaced, by whom, and what an answer to the change says.

    note(index, bookie, now)     a member of the present ensemble failed
    is_due(now)                  a change is to begin: at once if it holds entries back, else after `coalesce_ms`
    begin(versioned, lac, now)   the change; or that failed bookies are kept; or the reason why the ledger has to end
    applied()                    the metadata have it

While a change is under way failures are collected for the next one: there never are two. Its first entry is fixed when
it begins, which is why nothing is released until it is applied.

A failed bookie that nobody can replace is kept, as long as each write set has enough others: it is tried again, and a
replacement is looked for again, after `retry_ms`.

Not here: the write itself, what is sent (`writer`).
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from attrs import evolve, frozen

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.placement.placement import NotEnoughBookiesError, Placement
from zab.ledger.quorums.coverage import can_acknowledge
from zab.ledger.writer.events import Reason
from zab.ledger.writer.settings import WriterSettings


class Verdict(Enum):
    """What the metadata that somebody else has written mean for this writer."""

    AGAIN = "only re-replication has changed something"
    RECOVERING = "another client recovers the ledger"
    CLOSED = "another client has closed it"
    CONFLICT = "another client writes it"
    DELETED = "it is gone"


def judge(base: LedgerMetadata, current: LedgerMetadata | None) -> Verdict:
    """What `current` means for a writer that read `base` or wrote it: only the writer adds fragments."""
    if current is None:
        return Verdict.DELETED
    if current.is_closed:
        return Verdict.CLOSED
    if not current.is_open:
        return Verdict.RECOVERING
    is_own = len(base.fragments) == len(current.fragments) and base.last_fragment == current.last_fragment
    return Verdict.AGAIN if is_own else Verdict.CONFLICT


@frozen
class EnsembleChange:
    """From entry `first` on, `ensemble`."""

    base: VersionedMetadata
    first: int
    ensemble: tuple[BookieId, ...]
    replaced: tuple[BookieId, ...]

    @property
    def wanted(self) -> LedgerMetadata:
        return self.base.metadata.with_ensemble(self.first, self.ensemble)

    @property
    def is_appended(self) -> bool:
        """Whether a fragment ends with it; else one is replaced of whose entries none was released."""
        return self.first > self.base.metadata.last_fragment.first

    def is_in(self, current: LedgerMetadata) -> bool:
        """Whether it was written: the last fragment is the wanted one, which nobody else writes."""
        return current.is_open and current.last_fragment == Fragment(self.first, self.ensemble)

    def rebased(self, current: VersionedMetadata) -> EnsembleChange:
        return evolve(self, base=current)


@frozen
class Kept:
    """Nobody can replace the bookies that failed: they stay, and are tried again."""


class EnsembleChanges:
    """The changes of one ledger."""

    def __init__(self, metadata: LedgerMetadata, placement: Placement, settings: WriterSettings) -> None:
        self.under_way: EnsembleChange | None = None
        self._failing: dict[int, BookieId] = {}
        self._failing_next: dict[int, BookieId] = {}
        """Members of the ensemble that is being written."""
        self._kept: frozenset[BookieId] = frozenset()
        self._retry_at = 0
        self._due_at = 0
        self._excluded_until: dict[BookieId, int] = {}
        self._begun_at: deque[int] = deque()
        self._placement = placement
        self._settings = settings
        self._quorums = (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)

    @property
    def failing(self) -> frozenset[BookieId]:
        """Members of the present ensemble that wait for a replacement."""
        return frozenset(self._failing.values())

    def note(self, ensemble: tuple[BookieId, ...], bookie: BookieId, now_ms: int) -> bool:
        """This bookie failed. False: it is no member, or that is known."""
        self._excluded_until[bookie] = now_ms + self._settings.excluded_ms
        if bookie not in ensemble:
            change = self.under_way
            if change is not None and bookie in change.ensemble:
                self._failing_next[change.ensemble.index(bookie)] = bookie
            return False
        index = ensemble.index(bookie)
        if index in self._failing:
            return False
        if self._failing.keys() <= self._indexes_kept():
            self._due_at = now_ms + self._settings.coalesce_ms
        self._failing[index] = bookie
        return True

    def _can_acknowledge_without(self, failing: dict[int, BookieId]) -> bool:
        return can_acknowledge(failing.keys(), *self._quorums)

    def _indexes_kept(self) -> set[int]:
        return {index for index, bookie in self._failing.items() if bookie in self._kept}

    def due_at(self, now_ms: int) -> int | None:
        """When a change is to begin. None: there is nothing to change, or one is under way."""
        if self.under_way is not None or not self._failing:
            return None
        if not self._can_acknowledge_without(self._failing):
            return now_ms
        return self._retry_at if self._failing.keys() <= self._indexes_kept() else self._due_at

    def begin(self, versioned: VersionedMetadata, lac: int, now_ms: int) -> EnsembleChange | Kept | Reason:
        """Choose bookies for all that failed."""
        ensemble = versioned.metadata.last_fragment.ensemble
        new, left = self._chosen(ensemble, now_ms)
        if not self._can_acknowledge_without(left):
            # One that failed a while ago may be back; the others certainly are not.
            new, left = self._chosen(ensemble, now_ms, may_have_failed=True)
        if not self._can_acknowledge_without(left):
            return Reason.NOT_ENOUGH_BOOKIES
        for index in left:
            del self._failing[index]
        self._kept = frozenset(left.values())
        self._retry_at = now_ms + self._settings.retry_ms
        if tuple(new) == ensemble:
            return Kept()
        change = EnsembleChange(versioned, lac + 1, tuple(new), tuple(self._failing.values()))
        if self._is_once_too_often(now_ms):
            return Reason.TOO_MANY_CHANGES
        if len(encode_metadata(change.wanted)) > self._settings.metadata_bytes_max:
            return Reason.METADATA_TOO_LARGE
        self.under_way = change
        return change

    def _chosen(
        self, ensemble: tuple[BookieId, ...], now_ms: int, *, may_have_failed: bool = False
    ) -> tuple[list[BookieId], dict[int, BookieId]]:
        """The new ensemble, and the failed members that stay in it. may_have_failed: also bookies that failed less
        than `excluded_ms` ago are chosen."""
        of = self._excluded_until
        self._excluded_until = {bookie: until for bookie, until in of.items() if until > now_ms}
        exclude = {*ensemble, *self._failing.values()}
        if not may_have_failed:
            exclude |= self._excluded_until.keys()
        new, left = list(ensemble), {}
        for index, bookie in sorted(self._failing.items()):
            try:
                new[index] = self._placement.replace(index, new, self._quorums[1], now_ms, exclude)
            except NotEnoughBookiesError:
                left[index] = bookie
        return new, left

    def _is_once_too_often(self, now_ms: int) -> bool:
        begun = self._begun_at
        while begun and begun[0] <= now_ms - self._settings.changes_window_ms:
            begun.popleft()
        begun.append(now_ms)
        return len(begun) > self._settings.changes_max

    def applied(self, now_ms: int) -> None:
        """The change under way is in the metadata; what failed meanwhile is due at once."""
        assert self.under_way is not None
        ensemble, self.under_way = self.under_way.ensemble, None
        still = {index: bookie for index, bookie in self._failing.items() if ensemble[index] == bookie}
        self._failing = still | self._failing_next
        self._failing_next = {}
        self._due_at = now_ms
