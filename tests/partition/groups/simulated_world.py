"""Brokers, the log that they share, a network that loses answers, and time: from one seed.

One of three brokers leads the one partition of `__consumer_offsets`. Its appends are committed when they are on all
replicas, a while later. When another broker takes over, the log may lose what was not committed; the deposed one does
not know for a while, and goes on answering, but commits nothing.

Clients are generators: they yield `Sleep` or `Call`, and get back None or the answer; None as well if it does not come.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from random import Random
from typing import Any, TypeAlias

from attrs import Factory, define, frozen

from tests.partition.groups.bench import WALL, snapshot
from zab.kafka.coordinator_records import OffsetKey
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Append, Token
from zab.partition.groups.context import Surroundings
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.groups.records import LoadedMarker, LoadedRecord
from zab.partition.groups.requests import OffsetCommit, Request, TxnOffsetCommit
from zab.partition.settings.broker_settings import GroupSettings

PARTITION_COUNT = 6
TOPIC = "t"
APPEND_TIMEOUT_MS = 5000


@frozen
class Sleep:
    ms: int


@frozen
class Call:
    request: Request
    timeout_ms: int = 5000


Script: TypeAlias = Generator[Sleep | Call, Any, None]


@define(eq=False)
class Process:
    """A running script. `call` numbers what it waits for: what comes for an earlier one is dropped."""

    script: Script
    find: Callable[[], Broker]
    call: int = 0
    is_alive: bool = True


@define(eq=False)
class Batch:
    """What was appended together, at the position that is its index in the log."""

    append: Append | None
    marker: tuple[int, bool] | None = None

    def entries(self, position: int) -> list[LoadedRecord | LoadedMarker]:
        if self.marker is not None:
            producer_id, commits = self.marker
            return [LoadedMarker(position=position, producer_id=producer_id, commits=commits)]
        assert self.append is not None
        producer_id = self.append.producer_id
        return [
            LoadedRecord(position=position, key=each.key, value=each.value, producer_id=producer_id)
            for each in self.append.records
        ]


@define(eq=False)
class Broker:
    """A broker with its coordinator."""

    number: int
    coordinator: GroupCoordinator
    requests: dict[Token, tuple[Process, int, Request]] = Factory(dict)
    open_appends: dict[int, Append] = Factory(dict)
    answered: set[Token] = Factory(set)
    last_token: Token = 0


class World:
    """See the top of the file. `watch` is told of every answer before it is sent."""

    def __init__(
        self, seed: int, settings: GroupSettings, watch: Callable[[World, Broker, Request, Any], None]
    ) -> None:
        self.random = Random(seed)
        self.watch = watch
        self.now = 0
        self.has_faults = True
        self.log: list[Batch] = []
        self.high_watermark = 0
        self.epoch = 0
        self.is_ready = False
        self.has_lost_a_generation = False
        """A generation without members could not be stored: the log has the one before."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._ids = 0
        surroundings = Surroundings(settings, lambda _: 0, self._unique, lambda topic, index: index < PARTITION_COUNT)
        self._surroundings = surroundings
        self.brokers = [Broker(each, GroupCoordinator(surroundings, 0, WALL)) for each in range(3)]
        self.leader = self.brokers[0]
        self.elect()

    def _unique(self) -> str:
        self._ids += 1
        return f"{self._ids:04}"

    # ---------------------------------------------------------------------------------------------------------- time

    def later(self, ms: int, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + ms, self._count, do))

    def soon(self, most: int = 40) -> int:
        return self.random.randrange(1, most)

    def chance(self, share: float) -> bool:
        return self.has_faults and self.random.random() < share

    def run(self, until: int) -> None:
        while True:
            due = min(each.coordinator.next_deadline() for each in self.brokers)
            at = min(self._queue[0][0], due) if self._queue else due
            if at > until:
                break
            self.now = max(at, self.now)
            for broker in self.brokers:
                broker.coordinator.advance(self.now, WALL + self.now)
                self.drain(broker)
            while self._queue and self._queue[0][0] <= self.now:
                heapq.heappop(self._queue)[2]()
        self.now = until

    # ------------------------------------------------------------------------------------------------------- clients

    def start(self, script: Script) -> Process:
        process = Process(script, self._find)
        self.later(0, lambda: self._resume(process, process.call, None))
        return process

    def _find(self) -> Broker:
        """The coordinator, as metadata have it: they may be old."""
        return self.random.choice(self.brokers) if self.chance(0.1) else self.leader

    def _resume(self, process: Process, call: int, value: Any) -> None:
        if not process.is_alive or call != process.call:
            return
        process.call += 1
        try:
            wanted = process.script.send(value)
        except StopIteration:
            process.is_alive = False
            return
        number = process.call
        if isinstance(wanted, Sleep):
            self.later(wanted.ms, lambda: self._resume(process, number, None))
            return
        self.later(wanted.timeout_ms, lambda: self._resume(process, number, None))
        if not self.chance(0.03):
            broker = process.find()
            self.later(self.soon(), lambda: self._deliver(broker, process, number, wanted.request))

    def _deliver(self, broker: Broker, process: Process, call: int, request: Request) -> None:
        broker.last_token += 1
        token = broker.last_token
        broker.requests[token] = (process, call, request)
        broker.coordinator.request(token, request)
        self.drain(broker)

    def drain(self, broker: Broker) -> None:
        """Carry out what a coordinator wants."""
        while effects := broker.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Append):
                    self._append(broker, effect)
                else:
                    process, call, request = broker.requests.pop(effect.token)
                    assert effect.token not in broker.answered
                    broker.answered.add(effect.token)
                    self.watch(self, broker, request, effect.result)
                    if not self.chance(0.03):
                        self._send(process, call, effect.result)
        for partition in broker.coordinator._context.partitions.values():
            for group in partition.groups.values():
                group.check()

    def _send(self, process: Process, call: int, result: Any) -> None:
        self.later(self.soon(), lambda: self._resume(process, call, result))

    # ------------------------------------------------------------------------------------------------------- the log

    def _append(self, broker: Broker, append: Append) -> None:
        broker.open_appends[append.append_id] = append
        if self.chance(0.02):
            self.later(self.soon(), lambda: self._report(broker, append, ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        self.later(APPEND_TIMEOUT_MS, lambda: self._report(broker, append, ErrorCode.REQUEST_TIMED_OUT))
        if append.leader_epoch == self.epoch:
            self.log.append(Batch(append))
            self._replicate()

    def _replicate(self) -> None:
        """Everything that is in the log now gets to all replicas, sometimes late."""
        epoch, end = self.epoch, len(self.log)
        self.later(9000 if self.chance(0.02) else self.soon(), lambda: self._commit(epoch, end))

    def _commit(self, epoch: int, end: int) -> None:
        if epoch != self.epoch or end <= self.high_watermark:
            return
        for position in range(self.high_watermark, end):
            self.high_watermark = position + 1
            batch = self.log[position]
            if not self.is_ready:
                continue
            if batch.append is not None:
                self._report(self.leader, batch.append, position)
            elif batch.marker is not None:
                self.leader.coordinator.on_marker(0, *batch.marker)
                self.drain(self.leader)

    def _report(self, broker: Broker, append: Append, outcome: int | ErrorCode) -> None:
        if broker.open_appends.get(append.append_id) is not append:
            return
        is_offset = isinstance(append.records[0].key, OffsetKey)
        if outcome is not ErrorCode.REQUEST_TIMED_OUT:
            del broker.open_appends[append.append_id]
            if not is_offset:
                self.has_lost_a_generation = isinstance(outcome, ErrorCode)
        broker.coordinator.on_appended(0, append.append_id, outcome)
        self.drain(broker)

    def mark(self, producer_id: int, commits: bool) -> bool:
        """The end of a transaction; False: the partition has no leader that takes it now."""
        if not self.is_ready:
            return False
        self.log.append(Batch(None, (producer_id, commits)))
        self._replicate()
        return True

    # --------------------------------------------------------------------------------------------------- the leader

    def elect(self) -> None:
        """Another broker leads, or the same one again. What was not committed may be lost."""
        self.epoch += 1
        epoch = self.epoch
        self.is_ready = False
        del self.log[self.random.randint(self.high_watermark, len(self.log)) :]
        old, self.leader = self.leader, self.random.choice(self.brokers)
        new = self.leader
        if old is not new:
            self.later(self.random.choice([1, 200, 4000]), lambda: self._unload(old, epoch))
        self.later(self.soon(), lambda: self._begin_load(new, epoch))

    def _unload(self, broker: Broker, epoch: int) -> None:
        broker.coordinator.unload(0, epoch)
        if 0 not in broker.coordinator._context.partitions:
            broker.open_appends.clear()  # else it leads again already
        self.drain(broker)

    def _begin_load(self, broker: Broker, epoch: int) -> None:
        broker.coordinator.begin_load(0, epoch)
        if broker is self.leader:
            broker.open_appends.clear()
        self.drain(broker)
        if epoch == self.epoch:
            self._replicate()
            self.later(self.soon(300), lambda: self._load(broker, epoch))

    def _load(self, broker: Broker, epoch: int) -> None:
        if epoch != self.epoch:
            self.later(5000, lambda: self._finish_late(broker, epoch))
        elif self.high_watermark < len(self.log):
            self._replicate()
            self.later(self.soon(300), lambda: self._load(broker, epoch))
        else:
            for position, batch in enumerate(self.log):
                broker.coordinator.load(0, epoch, batch.entries(position))
            broker.coordinator.finish_load(0, epoch)
            self.is_ready = True
            self.drain(broker)

    def _finish_late(self, broker: Broker, epoch: int) -> None:
        """A load that was overtaken ends when the broker has heard of the next leader."""
        broker.coordinator.load(0, epoch, self.log[0].entries(0) if self.log else [])
        broker.coordinator.finish_load(0, epoch)
        self.drain(broker)

    def loaded_elsewhere(self) -> dict[str, Any]:
        """What a broker knows that reads the log now."""
        coordinator = GroupCoordinator(self._surroundings, self.now, WALL + self.now)
        coordinator.begin_load(0, 1)
        for position, batch in enumerate(self.log):
            coordinator.load(0, 1, batch.entries(position))
        coordinator.finish_load(0, 1)
        return snapshot(coordinator)

    @property
    def is_settled(self) -> bool:
        """Whether the log has decided about everything."""
        return self.is_ready and self.high_watermark == len(self.log) and not self.leader.open_appends


def offsets_in(request: Request) -> dict[int, int]:
    """Partition -> offset, of a commit."""
    assert isinstance(request, OffsetCommit | TxnOffsetCommit)
    return {each.partition: each.offset for each in request.offsets}
