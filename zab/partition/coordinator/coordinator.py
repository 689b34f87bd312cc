"""A coordinator: requests in, answers out, and everything that it knows in the partitions of an internal topic.

What it coordinates lives in the partition that the hash of its id names, and the broker that leads this partition
coordinates it. All that has to survive the broker is a record there.

    in    begin_load, load, finish_load        this broker leads a partition, and reads it
          unload                               it does no longer
          on_appended(partition, id, outcome)  what became of an append: its position, or the log's error
          stop                                 the broker is going to end
    out   take_effects()                       answers and appends, in order (`effects`)

The broker keeps this order: outcomes of appends of one partition come in the order of their positions. It reports the
position of a batch when the batch is committed, never before; the error of one that will not be; and REQUEST_TIMED_OUT
or NOT_ENOUGH_REPLICAS_AFTER_APPEND for one that is in the log and may be committed later. The last two answer the
client, and are followed by the real outcome, or by `unload`.

A leader epoch names each time of leading a partition. Whatever comes for an older one is dropped: the result of a load
that was overtaken, or an unload that comes late.

Not here: what is coordinated (the subclasses), and the log itself (`zab/partition/coordinator_log.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import CoordinatorContext, LedPartition


class LoadingState(Protocol):
    """What is known so far of a partition that is being read."""

    @property
    def leader_epoch(self) -> int: ...
    def apply(self, entry: Any) -> None: ...


LoadingType = TypeVar("LoadingType", bound=LoadingState)
PartitionType = TypeVar("PartitionType", bound=LedPartition)


class Coordinator(ABC, Generic[LoadingType, PartitionType]):
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, context: CoordinatorContext[PartitionType]) -> None:
        self._shared = context
        self._loading: dict[int, LoadingType] = {}
        self._epochs: dict[int, int] = {}
        """The newest leader epoch of each partition of which this coordinator has heard."""
        self._is_stopping = False

    @abstractmethod
    def advance(self, now: int, wall: int) -> None:
        """It is `now`: do what is due."""

    @abstractmethod
    def next_deadline(self) -> int:
        """When `advance` has something to do, in ms of the monotonic clock."""

    @abstractmethod
    def _begun(self, number: int, leader_epoch: int) -> LoadingType:
        """The state of a load that begins."""

    @abstractmethod
    def _finish(self, loading: LoadingType) -> None:
        """The end of the log is reached: make a partition of what was read."""

    @abstractmethod
    def _let_go(self, partition: PartitionType, error: ErrorCode) -> None:
        """The partition is forgotten: answer with this error what waits for more than an append."""

    def take_effects(self) -> list[Any]:
        """What is to be done, in order; it is handed out once."""
        effects, self._shared.effects = self._shared.effects, []
        return effects

    @property
    def waiting_count(self) -> int:
        """How many requests have no answer yet."""
        return self._shared.open_count

    def _availability(self, number: int, *, changes: bool) -> ErrorCode:
        """Whether this broker can say anything about what lives in this partition, and whether its log takes more."""
        if self._is_stopping:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if number in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition = self._shared.partitions.get(number)
        if partition is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if changes and partition.is_full else ErrorCode.NONE

    # ---------------------------------------------------------------------------------------------------- partitions

    def begin_load(self, number: int, leader_epoch: int) -> None:
        """This broker leads a partition in this epoch; until it is read, requests get 14. Once for each epoch: it
        changes nothing if this one is loaded already."""
        if self._is_stale(number, leader_epoch):
            return
        self._forget(number, ErrorCode.NOT_COORDINATOR)
        self._epochs[number] = leader_epoch
        self._loading[number] = self._begun(number, leader_epoch)

    def load(self, number: int, leader_epoch: int, entries: Iterable[Any]) -> None:
        """The next records and markers of this partition, in the order of the log."""
        loading = self._loading.get(number)
        if loading is not None and loading.leader_epoch == leader_epoch:
            for entry in entries:
                loading.apply(entry)

    def finish_load(self, number: int, leader_epoch: int) -> None:
        """The end of the log is reached, and everything up to there is committed: what is visible from now on cannot be
        lost with this broker."""
        loading = self._loading.get(number)
        if loading is not None and loading.leader_epoch == leader_epoch:
            del self._loading[number]
            self._finish(loading)

    def unload(self, number: int, leader_epoch: int) -> None:
        """From this epoch on another broker leads the partition: forget it; what waits gets 16."""
        if leader_epoch >= self._epochs.get(number, -1):
            self._epochs[number] = leader_epoch
            self._forget(number, ErrorCode.NOT_COORDINATOR)

    def stop(self) -> None:
        """The broker is going to end: what waits, and what comes, gets 15."""
        self._is_stopping = True
        for number in (*self._shared.partitions, *self._loading):
            self._forget(number, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _is_stale(self, number: int, leader_epoch: int) -> bool:
        known = self._epochs.get(number, -1)
        is_begun = number in self._loading or number in self._shared.partitions
        return self._is_stopping or leader_epoch < known or (leader_epoch == known and is_begun)

    def _forget(self, number: int, error: ErrorCode) -> None:
        self._loading.pop(number, None)
        partition = self._shared.partitions.get(number)
        if partition is None:
            return
        self._let_go(partition, error)
        # What the log has of these is decided by the next leader; the answer is that of an append that lost it.
        for then in list(partition.appends.values()):
            if not then.is_answered:
                then.is_answered = True
                then.answer(error)
        del self._shared.partitions[number]

    def on_appended(self, number: int, append_id: int, outcome: int | ErrorCode) -> None:
        """An append is committed at this position, or the log's error."""
        self._shared.appended(number, append_id, outcome)
