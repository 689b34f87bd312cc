"""Expiration buckets: which of many ids are due, found without looking at the others.

An id that may stay silent for `timeout_ms` from now on goes into the bucket of the first multiple of the interval I
strictly after that moment:

    round_up(t) = (t // I + 1) * I
    bucket(id)  = round_up(now + timeout_ms), again at every touch

One pointer moves along the buckets. It starts at round_up(start). When the time reaches it, the ids of its bucket are
due and it moves on by I. So an id is due between timeout (exclusive) and timeout + I after its last touch.

Invariants:
- An id is in at most one bucket, and `_bucket_of` names it; empty buckets do not exist.
- No id is in a bucket before the pointer: with a time that never falls, no touch can put it there.
- One call of `expire` empties at most one bucket: after a stall, whatever the reason, ids become due one interval
  after the other and can be touched in between.

`now` is milliseconds of a monotonic clock. Deliberately not here: what an id is, and what happens when it is due.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

__all__ = ["ExpirationBuckets"]


IdType = TypeVar("IdType", bound=Hashable)


class ExpirationBuckets(Generic[IdType]):
    """Ids by the time at which they are due. `start` is where the pointer begins."""

    def __init__(self, interval_ms: int, start: int) -> None:
        assert interval_ms > 0
        self.interval_ms = interval_ms
        self.next_due = self.round_up(start)
        # The ids are keys of a dict, which keeps their order: expiry is the same in every run of the simulator.
        self._buckets: SortedDict[int, dict[IdType, None]] = SortedDict()
        self._bucket_of: dict[IdType, int] = {}

    def round_up(self, time: int) -> int:
        """The first multiple of the interval strictly after `time`."""
        return (time // self.interval_ms + 1) * self.interval_ms

    def __len__(self) -> int:
        return len(self._bucket_of)

    def __contains__(self, id_: IdType) -> bool:
        return id_ in self._bucket_of

    def touch(self, id_: IdType, now: int, timeout_ms: int) -> int:
        """Make the id due `timeout_ms` after `now`, whether or not it is known. Returns when it is due."""
        assert timeout_ms >= 0
        # `round_up`, written out: this is called for every request of every client.
        interval_ms = self.interval_ms
        due = ((now + timeout_ms) // interval_ms + 1) * interval_ms
        assert due >= self.next_due, "time went backwards"
        before = self._bucket_of.get(id_)
        if before == due:
            return due
        if before is not None:
            self._leave(id_, before)
        self._bucket_of[id_] = due
        bucket = self._buckets.get(due)
        if bucket is None:
            self._buckets[due] = {id_: None}
        else:
            bucket[id_] = None
        return due

    def fill(self, timeouts: Mapping[IdType, int], now: int) -> None:
        """Add many ids at once, with their timeouts; none of them may be known already. Cheaper than one `touch`
        each."""
        assert not self._bucket_of
        due_of = {timeout_ms: self.round_up(now + timeout_ms) for timeout_ms in set(timeouts.values())}
        self._bucket_of = {id_: due_of[timeout_ms] for id_, timeout_ms in timeouts.items()}
        buckets: dict[int, dict[IdType, None]] = {due: {} for due in due_of.values()}
        for id_, due in self._bucket_of.items():
            buckets[due][id_] = None
        self._buckets.update(buckets)

    def remove(self, id_: IdType) -> None:
        """Forget the id. No-op if it is unknown."""
        due = self._bucket_of.pop(id_, None)
        if due is not None:
            self._leave(id_, due)

    def expire(self, now: int, count_max: int) -> list[IdType]:
        """Remove and return ids of the pointer's bucket, if its time has come. One call takes ids from one bucket at
        most, and at most `count_max` of them; later calls return the rest."""
        if now < self.next_due:
            return []
        bucket = self._buckets.get(self.next_due, {})
        expired = list(islice(bucket, count_max))
        for id_ in expired:
            del bucket[id_]
            del self._bucket_of[id_]
        if not bucket:
            self._buckets.pop(self.next_due, None)
            self.next_due += self.interval_ms
        return expired

    def sets(self) -> Iterator[tuple[int, list[IdType]]]:
        """The due time of each bucket with its ids, in order; for the `dump` command."""
        for due, ids in self._buckets.items():
            yield due, list(ids)

    @property
    def bucket_count(self) -> int:
        return len(self._buckets)

    def _leave(self, id_: IdType, due: int) -> None:
        bucket = self._buckets[due]
        del bucket[id_]
        if not bucket:
            del self._buckets[due]
