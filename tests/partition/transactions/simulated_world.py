"""Brokers with coordinators, the log that these share, partitions with logs, and a network that loses answers: from one
seed.

One of three brokers leads the one partition of `__transaction_state`. Its appends are committed when they are on all
replicas, a while later. When another broker takes over, the log may lose what was not committed; the deposed one does
not know for a while, and goes on answering, but commits nothing.

The partitions to which producers write are real logs, each led by one broker for ever: what may go wrong between them
and the coordinators is the subject here.

Clients are generators: they yield `Sleep`, `Call` or `Send`, and get back None or the answer; None as well if it does
not come.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from functools import partial
from random import Random
from typing import Any, TypeAlias

from attrs import Factory, define, frozen

from tests.partition.log.rig import Stored, fresh, headers, marker
from tests.partition.read_committed import shown
from tests.partition.transactions.bench import WALL
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Answer, Append, Token
from zab.partition.log.errors import LogError
from zab.partition.settings.broker_settings import TransactionSettings
from zab.partition.transactions.context import Surroundings
from zab.partition.transactions.coordinator import TransactionCoordinator
from zab.partition.transactions.effects import WantProducerId, WriteMarkers
from zab.partition.transactions.loading import Loaded
from zab.partition.transactions.requests import Request, Verify
from zab.partition.transactions.transaction import TopicPartition

APPEND_TIMEOUT_MS = 2000
TOPIC = "t"
LATE_MS = 20_000


@frozen
class Sleep:
    ms: int


@frozen
class Call:
    """Ask the coordinator."""

    request: Request
    timeout_ms: int = 3000


@frozen
class Send:
    """Produce to a partition."""

    transactional_id: str
    index: int
    batch: bytes
    arrives_late: bool = False
    """It is on its way for long, and its producer does not wait."""


Script: TypeAlias = Generator[Sleep | Call | Send, Any, None]


@define(eq=False)
class Process:
    """A running script. `call` numbers what it waits for: what comes for an earlier one is dropped."""

    script: Script
    call: int = 0
    is_alive: bool = True


@define(eq=False)
class Broker:
    """A broker with its coordinator."""

    number: int
    coordinator: TransactionCoordinator
    requests: dict[Token, tuple[Process, int]] = Factory(dict)
    open_appends: dict[int, Append] = Factory(dict)
    last_token: Token = 0


class World:
    """See the top of the file."""

    def __init__(self, seed: int, settings: TransactionSettings, partition_count: int = 3) -> None:
        self.random = Random(seed)
        self.now = 0
        self.has_faults = True
        self.log: list[Append] = []
        self.high_watermark = 0
        self.epoch = 0
        self.is_ready = False
        self.partitions = [fresh(segment_bytes=4000, index_interval_bytes=200) for _ in range(partition_count)]
        self.counts: dict[str, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._ids = 0
        surroundings = Surroundings(settings, lambda _: 0)
        self.brokers = [Broker(each, TransactionCoordinator(surroundings, 0, WALL)) for each in range(3)]
        self.leader = self.brokers[0]
        self.elect()

    def saw(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

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
        process = Process(script)
        self.later(0, lambda: self._resume(process, process.call, None))
        return process

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
        elif isinstance(wanted, Call):
            self.later(wanted.timeout_ms, lambda: self._resume(process, number, None))
            if not self.chance(0.02):
                broker = self.random.choice(self.brokers) if self.chance(0.1) else self.leader
                self.later(self.soon(), lambda: self._deliver(broker, process, number, wanted.request))
        elif wanted.arrives_late:
            self.later(self.random.randrange(LATE_MS), lambda: self.produce(wanted))
            self.later(1, lambda: self._resume(process, number, None))
        else:
            self.later(3000, lambda: self._resume(process, number, None))
            if not self.chance(0.02):
                self.later(self.soon(), lambda: self._produced(process, number, wanted))

    def _produced(self, process: Process, number: int, wanted: Send) -> None:
        error = self.produce(wanted)
        if not self.chance(0.02):
            self.later(self.soon(), lambda: self._resume(process, number, error))

    def _deliver(self, broker: Broker, process: Process, call: int, request: Request) -> None:
        broker.last_token += 1
        broker.requests[broker.last_token] = (process, call)
        broker.coordinator.request(broker.last_token, request)
        self.drain(broker)

    def drain(self, broker: Broker) -> None:
        """Carry out what a coordinator wants."""
        while effects := broker.coordinator.take_effects():
            for effect in effects:
                match effect:
                    case Append():
                        self._append(broker, effect)
                    case WriteMarkers():
                        for each in effect.partitions:
                            self.later(self.soon(), partial(self._mark, broker, effect, each))
                    case WantProducerId(token):
                        self.later(self.soon(), partial(self._give_id, broker, token))
                    case Answer(token, result):
                        process, call = broker.requests.pop(token)
                        if not self.chance(0.02):
                            self.later(self.soon(), partial(self._resume, process, call, result))
        for partition in broker.coordinator._context.partitions.values():
            for transaction in partition.transactions.values():
                transaction.check()

    def _give_id(self, broker: Broker, token: Token) -> None:
        self._ids += 1
        broker.coordinator.on_producer_id(token, None if self.chance(0.1) else self._ids)
        self.drain(broker)

    # ---------------------------------------------------------------------------------------------- data partitions

    def produce(self, wanted: Send) -> ErrorCode:
        """What the leader of the partition does, which asks the coordinator where it has to."""
        stored = self.partitions[wanted.index]
        data = bytearray(wanted.batch)
        (header,) = headers(data)
        is_verified = False
        if not stored.log.producers.has_open(header.producer_id, header.producer_epoch):
            asked = Verify(
                transactional_id=wanted.transactional_id,
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                partitions=((TOPIC, wanted.index),),
            )
            [error] = self.leader.coordinator.verify(asked)
            if error is not ErrorCode.NONE:
                self.saw("refused by verification")
                return error
            is_verified = True
        try:
            stored.log.append_as_leader(data, [header], 0, WALL + self.now, is_verified=is_verified)
        except LogError as error:
            return error.error
        self._store(stored)
        return ErrorCode.NONE

    def _store(self, stored: Stored) -> None:
        stored.store()
        stored.commit()

    def _mark(self, broker: Broker, wanted: WriteMarkers, partition: TopicPartition) -> None:
        error = ErrorCode.NONE
        if self.chance(0.1):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            error = self._write_marker(wanted, self.partitions[partition[1]])
            if self.chance(0.1):
                error = ErrorCode.REQUEST_TIMED_OUT
        self.later(self.soon(), lambda: self._marked(broker, wanted.marking, partition, error))

    def _write_marker(self, wanted: WriteMarkers, stored: Stored) -> ErrorCode:
        data = marker(
            *(wanted.producer_id, wanted.producer_epoch),
            commits=wanted.commits,
            coordinator_epoch=wanted.coordinator_epoch,
        )
        try:
            stored.log.append_as_leader(data, headers(data), 0, WALL + self.now)
        except LogError as refusal:
            self.saw("fenced coordinators")
            return refusal.error
        self._store(stored)
        return ErrorCode.NONE

    def _marked(self, broker: Broker, marking: int, partition: TopicPartition, error: ErrorCode) -> None:
        broker.coordinator.on_marked(marking, partition, error)
        self.drain(broker)

    def committed(self, index: int, max_bytes: int = 1 << 20) -> list[bytes | None]:
        """What a consumer sees that reads committed, one fetch after the other."""
        stored = self.partitions[index]
        log = stored.log
        found: list[bytes | None] = []
        offset, bound = log.log_start, log.last_stable_offset
        while (part := log.slice(offset, bound, max_bytes)) is not None:
            data = stored.disk.read(part.path, part.position, part.length)
            aborted = log.aborted_in(offset, part, bound)
            found += shown(data, [(each.first_offset, each.producer_id) for each in aborted])
            offset = headers(data)[-1].last_offset + 1
        return found

    # -------------------------------------------------------------------------------------------------- the state log

    def _append(self, broker: Broker, append: Append) -> None:
        broker.open_appends[append.append_id] = append
        if self.chance(0.02):
            self.later(self.soon(), lambda: self._report(broker, append, ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        self.later(APPEND_TIMEOUT_MS, lambda: self._report(broker, append, ErrorCode.REQUEST_TIMED_OUT))
        if append.leader_epoch == self.epoch:
            self.log.append(append)
            self._replicate()

    def _replicate(self) -> None:
        epoch, end = self.epoch, len(self.log)
        self.later(4000 if self.chance(0.005) else self.soon(), lambda: self._commit(epoch, end))

    def _commit(self, epoch: int, end: int) -> None:
        if epoch != self.epoch or end <= self.high_watermark:
            return
        for position in range(self.high_watermark, end):
            self.high_watermark = position + 1
            if self.is_ready:
                self._report(self.leader, self.log[position], position)

    def _report(self, broker: Broker, append: Append, outcome: int | ErrorCode) -> None:
        if broker.open_appends.get(append.append_id) is not append:
            return
        if outcome is not ErrorCode.REQUEST_TIMED_OUT:
            del broker.open_appends[append.append_id]
        broker.coordinator.on_appended(0, append.append_id, outcome)
        self.drain(broker)

    # ---------------------------------------------------------------------------------------------------- the leader

    def elect(self) -> None:
        """Another broker leads, or the same one again. What was not committed may be lost."""
        self.saw("elections")
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
            broker.open_appends.clear()
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
            return
        if self.high_watermark < len(self.log):
            self._replicate()
            self.later(self.soon(300), lambda: self._load(broker, epoch))
            return
        for append in self.log:
            broker.coordinator.load(0, epoch, [Loaded(each.key, each.value) for each in append.records])
        broker.coordinator.finish_load(0, epoch)
        self.is_ready = True
        self.drain(broker)
