"""What this broker asks coordinators of transactions on other brokers, and who waits for the answer (KIP-890).

    ask(broker, question, answered)     a question
    due(broker)                         what is to be sent to this broker now
    answer(…)                           it has answered
    lost(broker)                        what was sent to it may not arrive, or there is no link to it

A question is sent once. If no answer comes for `TIMEOUT_MS`, or its link is gone, it is answered with an error after
which producers send again, and then the coordinator may be another broker.

This broker does not ask itself. Limit: `QUESTIONS_MAX` wait; further ones are answered COORDINATOR_NOT_AVAILABLE at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.transactions.requests import Verify

QUESTIONS_MAX: Final = 10_000
TIMEOUT_MS: Final = 5000
NEVER: Final = 1 << 62

Answered: TypeAlias = Callable[[Sequence[ErrorCode]], None]
"""Gets an error for each partition of the question, in its order."""


@attrs.define
class _Question:
    broker_id: int
    asked: Verify
    answered: Answered
    until: int

    def fail(self, error: ErrorCode) -> None:
        """Answer with this error for all its partitions."""
        self.answered([error] * len(self.asked.partitions))


class AskingCoordinators:
    """The questions of this broker that are not answered yet. Times are monotonic ms."""

    def __init__(self, own_id: Callable[[], int]) -> None:
        self._own_id = own_id
        self.now = 0
        """Set by the broker at the beginning of each turn."""
        self._questions: dict[int, _Question] = {}
        """In the order of their ends."""
        self._unsent: dict[int, list[int]] = {}
        """The numbers that are to be sent to each broker."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._questions)

    def ask(self, broker_id: int, asked: Verify, answered: Answered) -> None:
        """Ask the coordinator on this broker. `answered` is called once."""
        question = _Question(broker_id, asked, answered, self.now + TIMEOUT_MS)
        if len(self._questions) >= QUESTIONS_MAX or broker_id == self._own_id():
            question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._count += 1
        self._questions[self._count] = question
        self._unsent.setdefault(broker_id, []).append(self._count)

    @property
    def brokers(self) -> list[int]:
        """The brokers for which there is something to be sent."""
        return list(self._unsent)

    def due(self, broker_id: int) -> list[tuple[int, Verify]]:
        """The questions for this broker, which are sent now, by their numbers."""
        numbers = self._unsent.pop(broker_id, [])
        return [(number, self._questions[number].asked) for number in numbers if number in self._questions]

    def answer(self, broker_id: int, number: int, errors: Sequence[ErrorCode]) -> bool:
        """This broker has answered the question of this number. False: that is no answer to it."""
        question = self._questions.get(number)
        if question is None:
            return True
        if question.broker_id != broker_id or len(errors) != len(question.asked.partitions):
            return False
        del self._questions[number]
        question.answered(errors)
        return True

    def lost(self, broker_id: int) -> None:
        """There is no link to this broker any longer, or none came of a dial."""
        self._unsent.pop(broker_id, None)
        for number in [number for number, each in self._questions.items() if each.broker_id == broker_id]:
            self._questions.pop(number).fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def end_late(self) -> None:
        """Answer what has waited for too long."""
        while self._questions:
            number = next(iter(self._questions))
            if self._questions[number].until > self.now:
                return
            question = self._questions.pop(number)
            if number in self._unsent.get(question.broker_id, ()):
                self._unsent[question.broker_id].remove(number)
                if not self._unsent[question.broker_id]:
                    del self._unsent[question.broker_id]
            question.fail(ErrorCode.REQUEST_TIMED_OUT)

    def next_deadline(self) -> int:
        """When `end_late` has something to do."""
        return next((each.until for each in self._questions.values()), NEVER)
