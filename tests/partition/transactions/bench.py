"""A transaction coordinator on a bench: requests go in, the log is a list, and time passes when a test says so."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import define, evolve, field

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Answer, Append, Token
from zab.partition.settings.broker_settings import TransactionSettings
from zab.partition.transactions.context import Surroundings
from zab.partition.transactions.coordinator import TransactionCoordinator
from zab.partition.transactions.effects import WantProducerId, WriteMarkers
from zab.partition.transactions.loading import Loaded
from zab.partition.transactions.requests import AddPartitions, Describe, End, Initialize, Request, Verify
from zab.partition.transactions.results import Descriptions, Done, Initialized
from zab.partition.transactions.transaction import TopicPartition, Transaction, TransactionState

R = TypeVar("R")

WALL = 1_700_000_000_000
ID = "t"
NONE = ErrorCode.NONE
P0, P1 = ("topic", 0), ("topic", 1)


@define
class Bench:
    """By default appends are committed, markers written and producer ids given at once. With `holds` appends wait for
    `settle`; with `holds_markers` markers wait for `mark`."""

    settings: TransactionSettings = field(factory=TransactionSettings)
    holds: bool = False
    holds_markers: bool = False
    has_ids: bool = True
    now: int = 0
    epoch: int = 1
    coordinator: TransactionCoordinator = field(init=False)
    answers: dict[Token, Any] = field(factory=dict)
    appends: list[Append] = field(factory=list)
    markers: list[WriteMarkers] = field(factory=list)
    """All that were wanted."""
    wanted: list[Token] = field(factory=list)
    log: list[Loaded] = field(factory=list)
    _tokens: int = 0
    _ids: int = 1000

    def __attrs_post_init__(self) -> None:
        self.coordinator = TransactionCoordinator(Surroundings(self.settings, lambda _: 0), self.now, WALL + self.now)
        self.lead(self.epoch)

    def lead(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator.begin_load(0, epoch)
        self.coordinator.load(0, epoch, self.log)
        self.coordinator.finish_load(0, epoch)
        self.drain()

    def reloaded(self, **changes: Any) -> Bench:
        """Another broker, which has read the same log."""
        other = Bench(self.settings, now=self.now, **changes)
        other.coordinator.unload(0, 2)
        other.log, other._ids = list(self.log), self._ids + 1000
        other.lead(self.epoch + 2)
        return other

    # ------------------------------------------------------------------------------------------------------ requests

    def ask(self, request: Request) -> Token:
        self._tokens += 1
        self.coordinator.request(self._tokens, request)
        self.drain()
        return self._tokens

    def call(self, request: Request, result: type[R]) -> R:
        """The answer, which has to be there."""
        answer = self.answers[self.ask(request)]
        assert isinstance(answer, result)
        return answer

    def drain(self) -> None:
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    assert effect.token not in self.answers
                    self.answers[effect.token] = effect.result
                elif isinstance(effect, Append):
                    self.appends.append(effect)
                elif isinstance(effect, WriteMarkers):
                    self.markers.append(effect)
                    if not self.holds_markers:
                        self.mark(effect)
                else:
                    assert isinstance(effect, WantProducerId)
                    self.wanted.append(effect.token)
            if self.has_ids:
                self.give_ids()
            if not self.holds:
                self.settle()
        for partition in self.coordinator._context.partitions.values():
            for transaction in partition.transactions.values():
                transaction.check()

    def give_ids(self, *, none: bool = False) -> None:
        wanted, self.wanted = self.wanted, []
        for token in wanted:
            self._ids += 1
            self.coordinator.on_producer_id(token, None if none else self._ids)
        if wanted:
            self.drain()

    def settle(self, error: ErrorCode | None = None) -> list[Append]:
        """Commit the appends that wait, or give them this error."""
        chosen, self.appends = self.appends, []
        for append in chosen:
            if error is None:
                self.coordinator.on_appended(0, append.append_id, self.write(append))
            else:
                self.coordinator.on_appended(0, append.append_id, error)
        if chosen:
            self.drain()
        return chosen

    def write(self, append: Append) -> int:
        self.log += [Loaded(each.key, each.value) for each in append.records]
        return len(self.log) - len(append.records)

    def mark(self, wanted: WriteMarkers, error: ErrorCode = NONE, *partitions: TopicPartition) -> None:
        """What became of these markers, or of all."""
        for each in partitions or wanted.partitions:
            self.coordinator.on_marked(wanted.marking, each, error)
        self.drain()

    def wait(self, ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        until = self.now + ms
        while True:
            due = self.coordinator.next_deadline()
            self.now = min(max(due, self.now), until)
            self.coordinator.advance(self.now, WALL + self.now)
            self.drain()
            if due > until:
                return

    # ---------------------------------------------------------------------------------------------------- what it has

    def transaction(self) -> Transaction:
        found = self.coordinator._context.transaction(ID)
        assert found is not None
        return found

    @property
    def state(self) -> TransactionState:
        return self.transaction().state

    def begin(self, **changes: Any) -> tuple[int, int]:
        """The producer's id and epoch."""
        result = self.call(an_init(**changes), Initialized)
        assert result.error is NONE
        return result.producer_id, result.epoch

    def begin_error(self, **changes: Any) -> ErrorCode:
        return self.call(an_init(**changes), Initialized).error

    def add(self, producer: tuple[int, int], *partitions: TopicPartition) -> ErrorCode:
        return self.call(an_add(producer, *partitions), Done).error

    def end(self, producer: tuple[int, int], commits: bool = True) -> ErrorCode:
        return self.call(an_end(producer, commits), Done).error

    def verify(self, producer: tuple[int, int], partition: TopicPartition = P0) -> ErrorCode:
        producer_id, epoch = producer
        asked = Verify(transactional_id=ID, producer_id=producer_id, epoch=epoch, partitions=(partition,))
        [error] = self.coordinator.verify(asked)
        return error

    def set(self, **changes: Any) -> None:
        """The present state, changed: what a long past may have led to."""
        self.transaction().state = evolve(self.state, **changes)

    def described(self) -> ErrorCode:
        (found,) = self.call(Describe(transactional_ids=(ID,)), Descriptions).transactions
        return found.error


def an_init(**changes: Any) -> Initialize:
    return Initialize(**({"transactional_id": ID, "timeout_ms": 60_000} | changes))


def an_add(producer: tuple[int, int], *partitions: TopicPartition) -> AddPartitions:
    return AddPartitions(
        transactional_id=ID, producer_id=producer[0], epoch=producer[1], partitions=partitions or (P0,)
    )


def an_end(producer: tuple[int, int], commits: bool = True) -> End:
    return End(transactional_id=ID, producer_id=producer[0], epoch=producer[1], commits=commits)
