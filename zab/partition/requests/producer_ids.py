"""The ids of producers: nobody else has them. They come out of blocks that the controller gives.

A block is asked for before the last one is used up. An id that was given away is never given again, also not after a
restart, which loses at most the rest of a block.

Limit: `WAITING_MAX` wait for an id; the others are told to ask again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.transactions import InitProducerIdResponse
from zab.partition.controller.requests import AllocateProducerIds, Answer
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.request import Request

ASK_AGAIN_BELOW: Final = 100
"""When so few ids are left, the next block is asked for."""
WAITING_MAX: Final = 100_000
_NONE: Final = -1


class ProducerIds:
    """The ids that this broker may give away."""

    def __init__(self, controller: AskingController) -> None:
        self._controller = controller
        self._broker_id = self._broker_epoch = _NONE
        self._ids = iter(range(0))
        self._left = 0
        self._is_asking = False
        self._waiting: deque[Callable[[int | None], None]] = deque()

    def registered(self, broker_id: int, broker_epoch: int) -> None:
        """This broker has registered."""
        self._broker_id, self._broker_epoch = broker_id, broker_epoch

    def init(self, request: Request) -> None:
        """Handle InitProducerId."""

        def given(producer_id: int | None) -> None:
            if producer_id is None:
                # Clients ask again.
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                request.answer(InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE))
            else:
                answer = InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
                request.answer(answer)

        self.give(given)

    def give(self, given: Callable[[int | None], None]) -> None:
        """Call this with an id that nobody has, now or later; None: there is none now."""
        if len(self._waiting) >= WAITING_MAX:
            given(None)
            return
        self._waiting.append(given)
        self._give()

    def _give(self) -> None:
        while self._waiting and self._left:
            self._left -= 1
            self._waiting.popleft()(next(self._ids))
        if self._left < ASK_AGAIN_BELOW and not self._is_asking:
            self._is_asking = True
            self._controller.ask(
                lambda token: AllocateProducerIds(token, self._broker_id, self._broker_epoch), self._answered
            )

    def _answered(self, answer: Answer) -> None:
        self._is_asking = False
        if answer.error is ErrorCode.NONE and answer.producer_ids is not None:
            first, count = answer.producer_ids
            left = list(self._ids)
            self._ids = iter([*left, *range(first, first + count)])
            self._left = len(left) + count
            self._give()
            return
        waiting, self._waiting = self._waiting, deque()
        for given in waiting:
            given(None)
