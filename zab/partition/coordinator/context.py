"""What all parts of a coordinator share: time, answers, and the partitions that it leads, with their appends.

`answer` and `append` keep two promises: each token is answered once, and of each append it is known at most once that
it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from attrs import Factory, define

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import NO_PRODUCER, Answer, Append, Token

APPENDS_MAX: Final = 65_536
"""While so many appends of one partition wait, what has its records there is not available (15)."""

IN_DOUBT: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The record is in the log all the same, and may be committed later."""


def _nothing(_: object) -> None:
    pass


@define(kw_only=True)
class Appending:
    """An append that the log has not decided about. `answer` gets NONE or the log's error, once. Then, or later if the
    error leaves it open, one of `apply` (with the position of the batch) and `revert` is called."""

    answer: Callable[[ErrorCode], None] = _nothing
    apply: Callable[[int], None] = _nothing
    revert: Callable[[None], None] = _nothing
    is_answered: bool = False


@define(eq=False)
class LedPartition:
    """A partition of the coordinator's topic that this broker leads and has loaded."""

    number: int
    leader_epoch: int
    appends: dict[int, Appending] = Factory(dict)
    """In the order of the log."""

    @property
    def is_full(self) -> bool:
        """Whether it takes no more appends for now."""
        return len(self.appends) >= APPENDS_MAX


PartitionType = TypeVar("PartitionType", bound=LedPartition)


class CoordinatorContext(Generic[PartitionType]):
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, now: int, wall: int) -> None:
        self.now = now
        self.wall = wall
        self.partitions: dict[int, PartitionType] = {}
        self.effects: list[Any] = []
        self._open: set[Token] = set()
        self._append_count = 0

    def open(self, token: Token) -> None:
        """A request came; it is owed one answer."""
        assert token not in self._open, "tokens are used once"
        self._open.add(token)

    @property
    def open_count(self) -> int:
        """How many requests wait for their answer."""
        return len(self._open)

    def answer(self, token: Token, result: Any) -> None:
        """Answer a request."""
        assert token in self._open, "answered twice"
        self._open.remove(token)
        self.effects.append(Answer(token, result))

    def append(
        self,
        number: int,
        records: Sequence[Any],
        then: Appending,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
        transactional_id: str = "",
    ) -> None:
        """Hand these records to the log."""
        assert records
        partition = self.partitions[number]
        self._append_count += 1
        partition.appends[self._append_count] = then
        self.effects.append(
            Append(
                append_id=self._append_count,
                partition=number,
                leader_epoch=partition.leader_epoch,
                records=tuple(records),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional_id=transactional_id,
            )
        )

    def appended(self, number: int, append_id: int, outcome: int | ErrorCode) -> None:
        """The log has decided, or says that it could not in time. Of an append before the partition was unloaded, this
        is no longer of interest."""
        partition = self.partitions.get(number)
        then = partition.appends.get(append_id) if partition is not None else None
        if partition is None or then is None:
            return
        if isinstance(outcome, ErrorCode):
            error = outcome
            assert error is not ErrorCode.NONE, "a success has a position"
            if error not in IN_DOUBT:
                del partition.appends[append_id]
                then.revert(None)
        else:
            error = ErrorCode.NONE
            del partition.appends[append_id]
            then.apply(outcome)
        if not then.is_answered:
            then.is_answered = True
            then.answer(error)
