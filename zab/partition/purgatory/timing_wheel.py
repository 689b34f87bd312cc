"""A hierarchical timing wheel (Varghese and Lauck): many timers, of which nearly all are cancelled.

Level 0 has `size` buckets of one tick each; a bucket of the next level covers as much as the whole level below, and
levels are made when they are needed. With 1 ms and 20 buckets they reach to 20 ms, 400 ms, 8 s, 160 s, 53 min …

    add      the timer goes into the finest level that reaches its deadline: O(levels)
    cancel   it is deleted from its bucket: O(1), and leaves nothing
    advance  each bucket that has begun is emptied: timers that are due expire, the others go into finer levels

A bucket is due at its **beginning**, so a coarse bucket only moves its timers down and never makes them late. The
buckets that hold timers are in a heap by their beginning: it says when the next `advance` has something to do, and has
at most `size` entries for each level.

Times are whole milliseconds of a clock that does not go back; the caller rounds now down and deadlines up. A deadline
is rounded up to a tick, so that no timer expires early; it expires at most one tick late, plus what the caller is late.

Invariants, between two calls: every bucket in the heap begins after `now`; a bucket is in the heap at most once; the
timers of a bucket are all within its span.

Measured in processor time (CPython 3.11), deadlines within a minute: adding and cancelling one timer 0.7 µs, 1.3 µs
while 200,000 are pending; adding one and letting it expire 3.5 µs.
"""

from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Final, Generic, TypeVar

from attrs import define, field

__all__ = ["Timer", "TimingWheel"]

T = TypeVar("T")

TICK_MS: Final = 1
SIZE: Final = 20


@define(eq=False)
class _Bucket(Generic[T]):
    """Timers of one span of a level. `begins_ms`: where the span begins; None: the bucket is not in the heap."""

    number: int
    begins_ms: int | None = None
    timers: dict["Timer[T]", None] = field(factory=dict)


@define(eq=False)
class Timer(Generic[T]):
    """What expires at `deadline_ms`, with what the caller wants back then."""

    deadline_ms: int
    payload: T
    _bucket: _Bucket[T] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it has neither expired nor been cancelled."""
        return self._bucket is not None


@define(eq=False)
class _Level(Generic[T]):
    tick_ms: int
    interval_ms: int
    buckets: list[_Bucket[T]]


class TimingWheel(Generic[T]):
    """The timers of one loop; see the docstring of the module."""

    def __init__(self, now_ms: int, *, tick_ms: int = TICK_MS, size: int = SIZE) -> None:
        assert tick_ms >= 1, tick_ms
        assert size >= 2, size
        self.now_ms = now_ms
        self._size = size
        self._numbers = count()
        self._levels: list[_Level[T]] = [self._level(tick_ms)]
        # The number decides between buckets that begin together, so that buckets are never compared.
        self._heap: list[tuple[int, int, _Bucket[T]]] = []
        self._due: _Bucket[T] = _Bucket(next(self._numbers))
        self._pending_count = 0

    def __len__(self) -> int:
        """How many timers have neither expired nor been cancelled."""
        return self._pending_count

    def add(self, deadline_ms: int, payload: T) -> Timer[T]:
        """A new timer. One whose deadline has passed expires at the next `advance`."""
        timer = Timer(deadline_ms, payload)
        self._pending_count += 1
        self._place(timer)
        return timer

    def cancel(self, timer: Timer[T]) -> bool:
        """Whether it was still pending; it will not expire then."""
        bucket = timer._bucket
        if bucket is None:
            return False
        del bucket.timers[timer]
        timer._bucket = None
        self._pending_count -= 1
        return True

    def next_deadline(self) -> int | None:
        """When `advance` has to be called next, in ms; None: not before another timer is added.

        It may be before the deadline of the earliest timer: then timers move to a finer level.
        """
        if self._due.timers:
            return self.now_ms
        heap = self._heap
        while heap:
            begins_ms, _, bucket = heap[0]
            if bucket.timers:
                return begins_ms
            heappop(heap)
            bucket.begins_ms = None
        return None

    def advance(self, now_ms: int) -> list[Timer[T]]:
        """The timers that are due, by their deadlines; each is returned once. A `now_ms` that went back changes
        nothing."""
        self.now_ms = now_ms = max(now_ms, self.now_ms)
        found = self._emptied(self._due) if self._due.timers else []
        heap = self._heap
        if heap and heap[0][0] <= now_ms:
            # All that have begun are emptied first: a timer that moves down may go into one of these buckets.
            moved: list[Timer[T]] = []
            while heap and heap[0][0] <= now_ms:
                bucket = heappop(heap)[2]
                bucket.begins_ms = None
                moved += self._emptied(bucket)
            for timer in moved:
                self._place(timer)
            found += self._emptied(self._due)
        for timer in found:
            timer._bucket = None
        self._pending_count -= len(found)
        found.sort(key=attrgetter("deadline_ms"))
        return found

    def _place(self, timer: Timer[T]) -> None:
        """Into the bucket of the finest level that reaches its deadline, or to those that are due."""
        now_ms = self.now_ms
        tick_ms = self._levels[0].tick_ms
        expires_ms = -(-timer.deadline_ms // tick_ms) * tick_ms
        if expires_ms <= now_ms:
            timer._bucket = self._due
            self._due.timers[timer] = None
            return
        for level in self._levels:
            if expires_ms < now_ms - now_ms % level.tick_ms + level.interval_ms:
                break
        else:
            level = self._reaching(expires_ms)
        span = expires_ms // level.tick_ms
        bucket = level.buckets[span % self._size]
        begins_ms = span * level.tick_ms
        if bucket.begins_ms != begins_ms:
            assert bucket.begins_ms is None, "a bucket has one span at a time"
            bucket.begins_ms = begins_ms
            heappush(self._heap, (begins_ms, bucket.number, bucket))
        bucket.timers[timer] = None
        timer._bucket = bucket

    def _reaching(self, expires_ms: int) -> _Level[T]:
        """A new level that reaches this time, made with those below it."""
        while True:
            level = self._level(self._levels[-1].interval_ms)
            self._levels.append(level)
            if expires_ms < self.now_ms - self.now_ms % level.tick_ms + level.interval_ms:
                return level

    def _level(self, tick_ms: int) -> _Level[T]:
        return _Level(tick_ms, tick_ms * self._size, [_Bucket(next(self._numbers)) for _ in range(self._size)])

    @staticmethod
    def _emptied(bucket: _Bucket[T]) -> list[Timer[T]]:
        timers, bucket.timers = bucket.timers, {}
        return list(timers)
