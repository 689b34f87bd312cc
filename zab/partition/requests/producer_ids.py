"""InitProducerId of producers without transactions: ids that nobody else has, out of blocks that the controller gives.

A block is asked for before the last one is used up. An id that was given away is never given again, also not after a
restart, which loses at most the rest of a block. There are no transactions yet, so a transactional id is refused with
an error that clients take for final.
"""

from __future__ import annotations

from typing import Final

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from zab.partition.controller.requests import AllocateProducerIds, Answer
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.request import Request

ASK_AGAIN_BELOW: Final = 100
"""When so few ids are left, the next block is asked for."""
_NONE: Final = -1


class ProducerIds:
    """The ids that this broker may give away."""

    def __init__(self, controller: AskingController) -> None:
        self._controller = controller
        self._broker_id = self._broker_epoch = _NONE
        self._ids = iter(range(0))
        self._left = 0
        self._is_asking = False
        self._waiting: list[Request] = []

    def registered(self, broker_id: int, broker_epoch: int) -> None:
        """This broker has registered."""
        self._broker_id, self._broker_epoch = broker_id, broker_epoch

    def init(self, request: Request) -> None:
        """Handle InitProducerId."""
        body: InitProducerIdRequest = request.body
        if body.transactional_id is not None:
            self._refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        self._waiting.append(request)
        self._give()

    def _give(self) -> None:
        while self._waiting and self._left:
            self._left -= 1
            answer = InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=next(self._ids), producer_epoch=0)
            self._waiting.pop(0).answer(answer)
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
        # Clients ask again.
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _refuse(self, request: Request, error: ErrorCode) -> None:
        request.answer(InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE))
