"""Delayed operations: a request that waits for a condition or for its timeout, whichever comes first.

A fetch waits for bytes, a produce for its replicas, a join for the members of its group. Each waits on keys:
partitions, groups, members. What happens to a key is only noted (`touch`); at the end of a turn `settle` tries every
operation that waits on a touched key, once, and ends those whose time is up. So an operation never completes inside the
completion of another, which Kafka had to mend (KAFKA-8334, KAFKA-9952).

    watch     tries the operation; if its condition does not hold yet, it waits on all of its keys
    touch     something happened to a key: an append, a new high watermark, a member that joined
    settle    completes what can be completed, expires what is late, and returns both
    withdraw  nobody wants the answer any longer

An operation completes exactly once: when it completes, expires or is withdrawn, it leaves the wheel and the lists of
all of its keys at once. Kafka's lists cannot do that, so it purges them after so many requests; a list that is a dict
keyed by the operation needs no purging, and no key is kept that nobody waits on.

What is touched while `settle` runs, or while its caller answers, waits for the next `settle`: a turn calls it until
`has_touched` is false. Conditions come before timeouts: an operation whose condition holds in the turn in which its
time is up has not expired.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from attrs import define, frozen

from zab.partition.purgatory.timing_wheel import Timer, TimingWheel

__all__ = ["Operation", "Purgatory", "Settled", "Waiting"]


class Operation(Protocol):
    """What can wait. It is tried often, so the test should be cheap."""

    def try_complete(self) -> bool:
        """Whether the condition holds now. It must not call `watch`, `settle` or `withdraw`; it may call `touch`."""
        ...


O = TypeVar("O", bound=Operation)


@define(eq=False)
class Waiting(Generic[O]):
    """An operation that waits, with which it is withdrawn."""

    operation: O
    keys: tuple[Hashable, ...]
    _timer: Timer["Waiting[O]"] | None = None


@frozen
class Settled(Generic[O]):
    """An operation that has ended. `has_expired`: its time was up before its condition held."""

    operation: O
    has_expired: bool


class Purgatory(Generic[O]):
    """Everything that waits in one loop. Times are ms of a clock that does not go back."""

    def __init__(self, now_ms: int) -> None:
        self._wheel: TimingWheel[Waiting[O]] = TimingWheel(now_ms)
        self._watchers: dict[Hashable, dict[Waiting[O], None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._is_trying = False

    def __len__(self) -> int:
        """How many operations wait."""
        return len(self._wheel)

    @property
    def watched_count(self) -> int:
        """How many keys are waited on."""
        return len(self._watchers)

    @property
    def has_touched(self) -> bool:
        """Whether a key was touched that somebody waits on, so that `settle` has something to try."""
        return bool(self._touched)

    def watch(self, operation: O, keys: Iterable[Hashable], deadline_ms: int) -> Waiting[O] | None:
        """Let an operation wait on these keys, at most until `deadline_ms`; None: it is complete already, and does not
        wait. One whose deadline has passed expires at the next `settle`."""
        assert not self._is_trying, "a condition must not start to wait"
        if self._tried(operation):
            return None
        waiting = Waiting(operation, tuple(dict.fromkeys(keys)))
        waiting._timer = self._wheel.add(deadline_ms, waiting)
        for key in waiting.keys:
            self._watchers.setdefault(key, {})[waiting] = None
        return waiting

    def touch(self, key: Hashable) -> None:
        """Something happened to this key that may complete what waits on it."""
        if key in self._watchers:
            self._touched[key] = None

    def withdraw(self, waiting: Waiting[O]) -> bool:
        """Whether it was still waiting; it will not be returned by `settle` then."""
        assert not self._is_trying, "a condition must not withdraw"
        timer = waiting._timer
        if timer is None or not self._wheel.cancel(timer):
            return False
        self._forget(waiting)
        return True

    def next_deadline(self) -> int | None:
        """When `settle` has to be called, even if no key is touched; None: never."""
        return self._wheel.next_deadline()

    def settle(self, now_ms: int) -> list[Settled[O]]:
        """Try what waits on touched keys, expire what is late; returns what has ended, each once.

        Completed operations come first, in the order in which their keys were touched and in which they began to wait;
        then the expired ones, by their deadlines.
        """
        assert not self._is_trying, "a condition must not settle"
        touched, self._touched = self._touched, {}
        settled: list[Settled[O]] = []
        for waiting in dict.fromkeys(each for key in touched for each in self._watchers.get(key, ())):
            if self._tried(waiting.operation):
                self._end(waiting)
                settled.append(Settled(waiting.operation, False))
        for timer in self._wheel.advance(now_ms):
            self._forget(timer.payload)
            settled.append(Settled(timer.payload.operation, True))
        return settled

    def _tried(self, operation: O) -> bool:
        self._is_trying = True
        try:
            return operation.try_complete()
        finally:
            self._is_trying = False

    def _end(self, waiting: Waiting[O]) -> None:
        assert waiting._timer is not None
        is_first = self._wheel.cancel(waiting._timer)
        assert is_first, "an operation completes exactly once"
        self._forget(waiting)

    def _forget(self, waiting: Waiting[O]) -> None:
        """Take it out of the lists of its keys, and drop those that are empty."""
        for key in waiting.keys:
            watchers = self._watchers[key]
            del watchers[waiting]
            if not watchers:
                del self._watchers[key]
                self._touched.pop(key, None)
