"""The offsets of one group: those that are committed, and those that are not yet.

An offset goes through these places:

    in flight   its record was appended, and may not be on all replicas yet: nobody sees it
    held        its record is, but belongs to a transaction whose marker has not come
    committed   clients see it

What is in `committed` and `held` is exactly what the log has below its high watermark. So the same methods serve what
happens and what is loaded, and both give the same state. Records of one partition of `__consumer_offsets` have
positions, and the last one of a key wins: a transaction that ends late does not overwrite an offset that was appended
after its own, and a tombstone also removes what is held. Compaction, which keeps the last record of each key, changes
nothing then.

Invariant: positions are handed in in the order of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import Factory, define, frozen

from zab.kafka.coordinator_records import OffsetValue
from zab.partition.coordinator.effects import NO_PRODUCER
from zab.partition.groups.requests import TopicPartition


@frozen
class CommittedOffset:
    """An offset, and where its record is in the log."""

    value: OffsetValue
    position: int


@define(eq=False)
class Offsets:
    """The offsets of a group."""

    committed: dict[TopicPartition, CommittedOffset] = Factory(dict)
    held: dict[int, dict[TopicPartition, CommittedOffset]] = Factory(dict)
    """Producer id -> offsets of its open transaction."""
    _in_flight: dict[int, Counter[TopicPartition]] = Factory(dict)
    """Producer id -> records that are on their way into the log; NO_PRODUCER for commits without a transaction."""

    def __bool__(self) -> bool:
        return bool(self.committed or self.held or self._in_flight)

    # ----------------------------------------------------------------------------------------- on the way to the log

    def begin(self, producer_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Records of these partitions were handed to the log."""
        self._in_flight.setdefault(producer_id, Counter()).update(iter(partitions))

    def end(self, producer_id: int, partitions: Iterable[TopicPartition]) -> None:
        """The log has decided about them."""
        left = self._in_flight[producer_id]
        left.subtract(iter(partitions))
        assert min(left.values()) >= 0
        left += Counter()  # drops what has reached zero
        if not left:
            del self._in_flight[producer_id]

    def is_in_flight(self, partition: TopicPartition) -> bool:
        """Whether the log has yet to decide about a record of this partition."""
        return any(partition in each for each in self._in_flight.values())

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether an open transaction may still change its offset."""
        return any(partition in each for each in self.held.values()) or any(
            partition in each for producer_id, each in self._in_flight.items() if producer_id != NO_PRODUCER
        )

    def partitions(self) -> dict[TopicPartition, None]:
        """All partitions that the log has, or may get, a record of."""
        found = dict.fromkeys(self.committed)
        for held in self.held.values():
            found.update(dict.fromkeys(held))
        for in_flight in self._in_flight.values():
            found.update(dict.fromkeys(in_flight))
        return found

    # -------------------------------------------------------------------------------------------- what the log says

    def put(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """An offset is committed, unless a later record has overwritten it."""
        before = self.committed.get(partition)
        if before is None or before.position < offset.position:
            self.committed[partition] = offset

    def hold(self, producer_id: int, partition: TopicPartition, offset: CommittedOffset) -> None:
        """An offset waits for the marker of this producer."""
        self.held.setdefault(producer_id, {})[partition] = offset

    def release(self, producer_id: int, commits: bool) -> None:
        """The marker of this producer: its offsets count, or are forgotten."""
        offsets = self.held.pop(producer_id, {})
        if commits:
            for partition, offset in offsets.items():
                self.put(partition, offset)

    def remove(self, partition: TopicPartition, position: int) -> None:
        """A tombstone at this position."""
        before = self.committed.get(partition)
        if before is not None and before.position < position:
            del self.committed[partition]
        for producer_id, held in list(self.held.items()):
            if partition in held and held[partition].position < position:
                del held[partition]
                if not held:
                    del self.held[producer_id]
