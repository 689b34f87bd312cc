"""Which transactions the batches that compaction walks over belong to: Kafka's `CleanedTransactionMetadata`.

The data of an aborted transaction goes. A marker goes when none of its transaction's data is left, and later still
(`cleaned_batches`). The transaction index of the new segment has the aborted transactions of which data was seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import attrs

from zab.partition.log.transaction_index import AbortedTransaction
from zab.partition.records.batch import BatchHeader
from zab.partition.records.control import ControlType, EndMarker


@attrs.define
class _Ongoing:
    transaction: AbortedTransaction
    has_data: bool = False


class CleanedTransactions:
    """The transactions of one walk, in the order of the log."""

    def __init__(self) -> None:
        self.retained: list[AbortedTransaction] = []
        """The transactions whose entries stay; the caller takes them."""
        self._ahead: list[tuple[int, int, int, int]] = []
        """A heap of those that begin above where the walk is, first offset first."""
        self._aborted: dict[int, _Ongoing] = {}
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """The aborted transactions with data in the next part; those that began before may be added again."""
        for each in aborted:
            heappush(self._ahead, (each.first_offset, each.last_offset, each.producer_id, each.last_stable_offset))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a batch with data: whether its transaction was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.has_data = True
        return True

    def is_marker_of_nothing(self, header: BatchHeader, marker: EndMarker | None) -> bool:
        """Note a control batch: whether no data of its transaction was seen. `marker` is None if it is empty."""
        self._reach(header.last_offset)
        if marker is None:
            return not header.record_count
        if marker.type is ControlType.ABORT:
            ongoing = self._aborted.pop(header.producer_id, None)
            if ongoing is not None and ongoing.has_data:
                self.retained.append(ongoing.transaction)
                return False
            return True
        was_seen = header.producer_id in self._committed
        self._committed.discard(header.producer_id)
        return not was_seen

    def _reach(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            first_offset, last_offset, producer_id, stable = heappop(self._ahead)
            transaction = AbortedTransaction(producer_id, first_offset, last_offset, stable)
            self._aborted.setdefault(producer_id, _Ongoing(transaction))
