"""A producer as client libraries are: it retries what is lost, aborts what it does not know, and goes on (KIP-360)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import Factory, define

from tests.partition.log.rig import batch
from tests.partition.transactions.simulated_judge import Attempt, Judge
from tests.partition.transactions.simulated_world import TOPIC, Call, Send, Sleep, World
from zab.kafka.errors import ErrorCode
from zab.partition.transactions.requests import AddPartitions, End, Initialize, Request

PAUSE_MS = 50
TRANSACTION_TIMEOUT_MS = 3000
_AGAIN = {
    None,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}


class FencedError(Exception):
    """Another process has this transactional id."""


class AbortingError(Exception):
    """What became of a batch is not known: the transaction has to be aborted, and the epoch raised."""


@define(eq=False)
class Producer:
    """One process. Another one may have the same transactional id."""

    world: World
    judge: Judge
    transactional_id: str
    producer: tuple[int, int] = (-1, -1)
    sequences: dict[int, int] = Factory(dict)
    lost_answers: int = 0
    """How many answers to the request that is being repeated did not come."""

    def run(self) -> Generator[Sleep | Call | Send, Any, None]:
        random = self.world.random
        try:
            yield from self._begin(None)
            while self.world.has_faults:
                attempt = self.judge.begin(self.transactional_id, self.producer)
                try:
                    is_over = yield from self._fill(attempt)
                    if is_over:
                        self.world.saw("producers that died")
                        return
                    yield from self._end(attempt, commits=random.random() < 0.6)
                except AbortingError:
                    attempt.may_commit = False
                    before = self.producer
                    yield from self._begin(before)
                if random.random() < 0.1:
                    yield from self._begin(self.producer if random.random() < 0.5 else None)
                yield Sleep(random.choice([1, 10, 500]))
        except FencedError:
            self.world.saw("fenced producers")

    def _ask(self, request: Request) -> Generator[Sleep | Call | Send, Any, Any]:
        """The answer, however often it takes."""
        self.lost_answers = 0
        while True:
            answer = yield Call(request)
            error = None if answer is None else answer.error
            if error not in _AGAIN:
                return answer
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self.lost_answers += 1
            yield Sleep(PAUSE_MS)

    def _begin(self, expected: tuple[int, int] | None) -> Generator[Sleep | Call | Send, Any, None]:
        request = Initialize(
            transactional_id=self.transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS, expected=expected
        )
        answer = yield from self._ask(request)
        if answer.error in _FENCED:
            raise FencedError
        assert answer.error is ErrorCode.NONE, answer
        self.judge.given(self.transactional_id, answer.producer_id, answer.epoch, expected)
        self.producer, self.sequences = (answer.producer_id, answer.epoch), {}

    def _fill(self, attempt: Attempt) -> Generator[Sleep | Call | Send, Any, bool]:
        """Write to some partitions. True: the process has died."""
        random = self.world.random
        indexes = random.sample(range(len(self.world.partitions)), random.randint(1, 3))
        for group in [indexes] if random.random() < 0.5 else [[each] for each in indexes]:
            added = AddPartitions(
                transactional_id=self.transactional_id,
                producer_id=self.producer[0],
                epoch=self.producer[1],
                partitions=tuple((TOPIC, each) for each in group),
            )
            answer = yield from self._ask(added)
            if answer.error in _FENCED:
                attempt.may_commit = False
                raise FencedError
            assert answer.error is ErrorCode.NONE, answer
            for index in group:
                for _ in range(random.randint(1, 2)):
                    yield from self._send(attempt, index)
            if random.random() < 0.03:
                yield Sleep(random.choice([1000, 2 * TRANSACTION_TIMEOUT_MS]))
            if self.world.has_faults and random.random() < 0.02:
                attempt.may_commit = False
                return True
        if self.world.has_faults and random.random() < 0.05:
            return (yield from self._leave_late(attempt, indexes[0]))
        return False

    def _leave_late(self, attempt: Attempt, index: int) -> Generator[Sleep | Call | Send, Any, bool]:
        """Abort while a batch is on its way that arrives much later, and die."""
        yield Send(self.transactional_id, index, self._batch(attempt, index), arrives_late=True)
        yield from self._end(attempt, commits=False)
        return True

    def _batch(self, attempt: Attempt, index: int) -> bytes:
        return bytes(
            batch(
                [attempt.value(index)],
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                base_sequence=self.sequences.get(index, 0),
                is_transactional=True,
            )
        )

    def _send(self, attempt: Attempt, index: int) -> Generator[Sleep | Call | Send, Any, None]:
        data = self._batch(attempt, index)
        for _ in range(20):
            error = yield Send(self.transactional_id, index, data)
            if error is ErrorCode.NONE:
                self.sequences[index] = self.sequences.get(index, 0) + 1
                attempt.acknowledged(index)
                return
            if error in _FENCED:
                attempt.may_commit = False
                raise FencedError
            if error is not None and error not in _AGAIN:
                raise AbortingError
            yield Sleep(PAUSE_MS)
        raise AbortingError

    def _end(self, attempt: Attempt, *, commits: bool) -> Generator[Sleep | Call | Send, Any, None]:
        attempt.may_commit = commits
        producer_id, epoch = self.producer
        request = End(transactional_id=self.transactional_id, producer_id=producer_id, epoch=epoch, commits=commits)
        answer = yield from self._ask(request)
        if answer.error in _FENCED:
            # If an earlier answer was lost, the decision may have been taken before another process came.
            attempt.may_commit = commits and self.lost_answers > 0
            raise FencedError
        assert answer.error is ErrorCode.NONE, answer
        attempt.has_committed = commits
        self.world.saw("commits" if commits else "aborts")
