"""A transactional producer, as client libraries are (KIP-98, KIP-360): it repeats what is lost, aborts what it does not
know, and goes on with a higher epoch.

    begin       InitProducerId: a new epoch, which fences every other process with the transactional id
    add         partitions become part of the transaction
    send        a batch, again until it is answered
    end         commits or aborts

A process crashes in the middle of a transaction, or pauses for longer than its transaction may last, and then another
one with its transactional id comes, sometimes before the last one has ended.

A batch is sometimes on its way for so long that its producer gives it up, and aborts. It arrives after the end of its
transaction, when it must not open another one, which nobody would end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from zab.kafka.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from zab.partition.records.builder import BatchBuilder
from zab.simulator.brokers.client import errors_of
from zab.simulator.brokers.producer import ALL, PRODUCE_TIMEOUT_MS, PRODUCE_VERSION
from zab.simulator.brokers.scripted_client import (
    BACKOFF_US,
    MOVED,
    OF_TRANSACTION,
    Ask,
    Running,
    Script,
    ScriptedClient,
    Sleep,
)
from zab.simulator.brokers.transactions import Attempt, Source, TransactionJudge
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

INIT_VERSION: Final = 4
ADD_VERSION: Final = 3
END_VERSION: Final = 3
SENDS_MAX: Final = 10
"""How often a batch is sent before its transaction is aborted."""
CRASH_SHARE, PAUSE_SHARE, BEGIN_SHARE, TWIN_SHARE, LATE_SHARE = 0.02, 0.02, 0.05, 0.003, 0.3
LATE_US_MAX: Final = 500 * MS
"""How long after the end of its transaction a batch arrives."""

FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
AGAIN: Final = MOVED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""After these the same request is sent again."""


class FencedError(Exception):
    """Another process has this transactional id."""


class AbortingError(Exception):
    """What became of a batch is not known: the transaction has to be aborted, and the epoch raised."""


@attrs.frozen(kw_only=True)
class Style:
    """How the processes of one client behave."""

    transactional_id: str
    topic: str
    timeout_ms: int
    """How long a transaction may last."""
    gap_us: int
    commit_share: float


class Transactions:
    """The transactions of one process."""

    def __init__(self, client: ScriptedClient, judge: TransactionJudge, style: Style, process: str) -> None:
        self.client = client
        self.judge = judge
        self.style = style
        self.rng = client.rng
        self.producer = (-1, -1)
        self._process = process
        self._begins_count = 0
        self._sequences: dict[tuple[str, int], int] = {}
        self._unsure: int = 0
        """How many answers to the request that is being repeated did not come."""

    def ask(self, body: object, version: int) -> Script[tuple[Any, set[ErrorCode]]]:
        """The answer of the coordinator, and its errors; however often it takes."""
        self._unsure = 0
        while True:
            answer = yield from self.client.call(OF_TRANSACTION, self.style.transactional_id, body, version)
            errors = set() if answer is None else errors_of(answer)
            if errors & FENCED:
                raise FencedError
            if answer is not None and not errors & AGAIN:
                return answer, errors
            self._unsure += errors != {ErrorCode.CONCURRENT_TRANSACTIONS}
            yield self.client.pause(BACKOFF_US)

    def begin(self, *, keeps: bool = False) -> Script[None]:
        """Get the producer id and a new epoch. `keeps`: it goes on after an error; raises FencedError if there is
        another process."""
        producer_id, epoch = self.producer if keeps else (-1, -1)
        body = InitProducerIdRequest(
            transactional_id=self.style.transactional_id,
            transaction_timeout_ms=self.style.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer, errors = yield from self.ask(body, INIT_VERSION)
        self._demand(not errors, "InitProducerId", errors)
        self._begins_count += not keeps
        self.judge.given(self._process, answer.producer_id, answer.producer_epoch)
        self.producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}

    def add(self, attempt: Attempt, topic: str, indexes: Sequence[int]) -> Script[None]:
        """Make these partitions part of the transaction."""
        body = AddPartitionsToTxnRequest(
            transactional_id=self.style.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=(AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes)),),
        )
        _, errors = yield from self.ask(body, ADD_VERSION)
        if errors:
            raise AbortingError
        attempt.indexes.update(indexes)

    def request(
        self, attempt: Attempt, topic: str, index: int, sources: Sequence[Source | None]
    ) -> tuple[ProduceRequest, list[bytes]]:
        """A batch of new records, of which these are the sources, and its values."""
        size = int(self.rng.random() ** 4 * 800)
        values = [self.judge.sends(attempt, source, size) for source in sources]
        sequence = self._sequences.get((topic, index), 0)
        builder = BatchBuilder(
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        for value in values:
            builder.append(None, value, self.client.wall_ms)
        partition = PartitionProduceData(index=index, records=builder.build())
        body = ProduceRequest(
            transactional_id=self.style.transactional_id,
            acks=ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=(TopicProduceData(name=topic, partition_data=(partition,)),),
        )
        return body, values

    def send(self, attempt: Attempt, topic: str, index: int, sources: Sequence[Source | None]) -> Script[None]:
        """A batch of new records, of which these are the sources."""
        body, values = self.request(attempt, topic, index, sources)
        for _ in range(SENDS_MAX):
            leader = yield from self.client.leader(topic, index)
            answer = None if leader is None else (yield Ask(leader.broker, body, PRODUCE_VERSION))
            errors = set() if answer is None else errors_of(answer)
            if answer is not None and not errors:
                self._sequences[topic, index] = self._sequences.get((topic, index), 0) + len(values)
                attempt.known.update(values)
                return
            self.client.forget_leader(topic, index)
            if errors & FENCED:
                raise FencedError
            if errors - AGAIN:
                raise AbortingError
            yield self.client.pause(BACKOFF_US)
        raise AbortingError

    def end(self, attempt: Attempt, *, commits: bool) -> Script[None]:
        """End it. Raises FencedError."""
        attempt.has_asked = commits
        attempt.may_commit = commits
        body = EndTxnRequest(
            transactional_id=self.style.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commits,
        )
        try:
            _, errors = yield from self.ask(body, END_VERSION)
        except FencedError:
            # If an earlier answer was lost, the decision may have been taken before another process came.
            attempt.may_commit = commits and self._unsure > 0
            raise
        if errors:
            # The coordinator has aborted it meanwhile.
            attempt.may_commit = commits and self._unsure > 0
            raise AbortingError
        if commits:
            self.judge.committed(attempt)
        else:
            self.judge.judge.counts["transactions aborted"] += 1

    def _demand(self, holds: bool, what: str, errors: set[ErrorCode]) -> None:
        if not holds:
            names = ", ".join(sorted(error.name for error in errors))
            raise SafetyError(f"{what} is answered with an error that may be", f"{self.client.name}: {names}")


class TransactionalProducer(ScriptedClient):
    """See the docstring of the module. Keeps one process running."""

    def __init__(self, *surroundings: Any, judge: TransactionJudge, style: Style) -> None:
        super().__init__(*surroundings)
        self.judge = judge
        self.style = style
        self.running_count = 0
        """Processes that have not ended."""
        self._lives_count = 0

    def start(self) -> None:
        self.perform(self._live())

    @property
    def is_done(self) -> bool:
        """Whether all its processes have ended."""
        return self.running_count == 0

    def _live(self) -> Script[None]:
        while not self.is_calm:
            running = self.begin_process()
            while running.is_alive and not self.is_calm:
                yield Sleep(100 * MS)
                if self.chance(TWIN_SHARE):
                    self.judge.judge.counts["twins of producers"] += 1
                    break
            yield self.pause(self.rng.choice((10, 1_000)) * MS)

    def begin_process(self) -> Running:
        """One more process."""
        self._lives_count += 1
        process = f"{self.style.transactional_id}.{self._lives_count}"
        self.running_count += 1
        return self.perform(self._main(Transactions(self, self.judge, self.style, process)))

    def _main(self, transactions: Transactions) -> Script[None]:
        try:
            yield from transactions.begin()
            while not self.is_calm:
                yield self.pause(self.style.gap_us)
                if not self.wishes():
                    continue
                if not (yield from self._transaction(transactions)):
                    self.judge.judge.counts["producers crashed"] += 1
                    return
                if self.chance(BEGIN_SHARE):
                    yield from transactions.begin(keeps=self.rng.random() < 0.5)
        except FencedError:
            self.judge.judge.counts["producers fenced"] += 1
        finally:
            self.running_count -= 1

    def _transaction(self, transactions: Transactions) -> Script[bool]:
        """One transaction. False: the process has crashed in it."""
        attempt = self.judge.begins(self.style.transactional_id)
        commits = self.rng.random() < self.style.commit_share
        try:
            if not (yield from self._fill(transactions, attempt)):
                attempt.may_commit = False
                return False
            late = None if commits or not self.chance(LATE_SHARE) else self._delayed(transactions, attempt)
            yield from transactions.end(attempt, commits=commits)
            if late is not None:
                self.perform(self._deliver(*late))
                # What became of the batch is not known.
                yield self.pause(LATE_US_MAX)
                yield from transactions.begin(keeps=True)
        except AbortingError:
            attempt.may_commit = attempt.has_asked and attempt.may_commit
            yield from transactions.begin(keeps=True)
        return True

    def _delayed(self, transactions: Transactions, attempt: Attempt) -> tuple[int, ProduceRequest]:
        """One more batch for a partition of the transaction, whose producer has no answer."""
        index = self.rng.choice(sorted(attempt.indexes))
        body, _ = transactions.request(attempt, self.style.topic, index, [None])
        return index, body

    def _deliver(self, index: int, body: ProduceRequest) -> Script[None]:
        yield Sleep(int(self.rng.random() * LATE_US_MAX))
        leader = yield from self.leader(self.style.topic, index)
        if leader is not None:
            self.judge.judge.counts["batches after the end of their transaction"] += 1
            yield Ask(leader.broker, body, PRODUCE_VERSION)

    def _fill(self, transactions: Transactions, attempt: Attempt) -> Script[bool]:
        indexes = yield from self.partitions(self.style.topic)
        if not indexes:
            raise AbortingError
        chosen = self.rng.sample(list(indexes), self.rng.randint(1, len(indexes)))
        for group in [chosen] if self.rng.random() < 0.5 else [[each] for each in chosen]:
            yield from transactions.add(attempt, self.style.topic, group)
            for index in group:
                for _ in range(self.rng.randint(1, 2)):
                    yield from transactions.send(attempt, self.style.topic, index, [None] * self.rng.randint(1, 3))
            if self.chance(CRASH_SHARE):
                return False
            if self.chance(PAUSE_SHARE):
                yield Sleep(int(self.style.timeout_ms * MS * (0.5 + 2 * self.rng.random())))
        return True
