"""What a broker asks its controller, wherever that is, and who waits for the answer.

A client may ask any broker for a topic: the broker asks the controller and passes its answer on. So requests name the
controller's fields, and tokens are this broker's.

    ask(request, answered)      a question
    controller_is(broker_id)    who is the controller now
    due(now)                    what is to be sent to it, besides what is on its way
    answer(…)                   it has answered
    lost()                      what is on its way may not arrive

A question is repeated until it is answered: when the controller moves, when the link to it breaks, and, after a pause,
when a broker says that it is not the controller. So it may be done twice, as Kafka's brokers may do what they forward;
the answer is then that of the second time. After the request's own timeout it is answered REQUEST_TIMED_OUT.

Limit: `QUESTIONS_MAX` wait; further ones are answered REQUEST_TIMED_OUT, after which callers ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.controller.requests import Answer, Request, Token

NOBODY: Final = -1
QUESTIONS_MAX: Final = 10_000
AGAIN_MS: Final = 100
TIMEOUT_MS: Final = 30_000
"""How long a question waits that has no timeout of its own."""
NEVER: Final = 1 << 62


@attrs.define
class _Question:
    request: Request
    answered: Callable[[Answer], None]
    until: int
    is_on_its_way: bool = False
    again_at: int = 0


class AskingController:
    """The questions of this broker that are not answered yet. Times are monotonic ms."""

    def __init__(self) -> None:
        self.controller = NOBODY
        self.now = 0
        """Set by the broker at the beginning of each turn."""
        self._questions: dict[int, _Question] = {}
        self._refused: list[Callable[[Answer], None]] = []
        self._count = 0

    def ask(self, request: Callable[[Token], Request], answered: Callable[[Answer], None]) -> None:
        """Ask this; `request` makes it of a token. `answered` is called once."""
        if len(self._questions) >= QUESTIONS_MAX:
            self._refused.append(answered)
            return
        self._count += 1
        asked = request(self._count)
        timeout_ms: int = getattr(asked, "timeout_ms", TIMEOUT_MS)
        self._questions[self._count] = _Question(asked, answered, self.now + max(0, timeout_ms))

    def controller_is(self, broker_id: int) -> None:
        """This broker is the controller now; NOBODY: none is known."""
        if broker_id != self.controller:
            self.controller = broker_id
            self.lost()

    def lost(self) -> None:
        """The link to the controller is gone."""
        for question in self._questions.values():
            question.is_on_its_way = False

    @property
    def is_waiting(self) -> bool:
        """Whether anything is not answered."""
        return bool(self._questions)

    @property
    def has_due(self) -> bool:
        """Whether there is something to be sent now."""
        return any(not each.is_on_its_way and each.again_at <= self.now for each in self._questions.values())

    def due(self) -> list[tuple[int, Request]]:
        """The number of each question that is to be sent now, and the question."""
        due = []
        for number, question in self._questions.items():
            if not question.is_on_its_way and question.again_at <= self.now:
                question.is_on_its_way = True
                due.append((number, question.request))
        return due

    def answer(self, number: int, answer: Answer) -> None:
        """A controller has answered the question of this number."""
        question = self._questions.get(number)
        if question is None:
            return
        if answer.error is ErrorCode.NOT_CONTROLLER:
            question.is_on_its_way, question.again_at = False, self.now + AGAIN_MS
            return
        del self._questions[number]
        question.answered(answer)

    def end_late(self) -> None:
        """Answer what has waited for too long."""
        refused, self._refused = self._refused, []
        late = [number for number, question in self._questions.items() if question.until <= self.now]
        refused += [self._questions.pop(number).answered for number in late]
        for answered in refused:
            answered(Answer(None, ErrorCode.REQUEST_TIMED_OUT))

    def next_deadline(self) -> int:
        """When something is due although nothing happens."""
        until = (each.until for each in self._questions.values())
        again = (each.again_at for each in self._questions.values() if not each.is_on_its_way and each.again_at)
        return min(min(until, default=NEVER), min((each for each in again if each > self.now), default=NEVER))
