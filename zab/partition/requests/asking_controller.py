"""What a broker asks its controller, and who waits for the answer.

A client may ask any broker for a topic: the broker asks the controller, wherever that is, and passes its answer on. So
requests name the controller's fields, and tokens are this broker's.
"""

from __future__ import annotations

from collections.abc import Callable

from zab.partition.controller.requests import Answer, Request, Token


class AskingController:
    """The questions of this broker that are not answered yet."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        """What is to be asked at the end of the turn; the broker empties it."""
        self._waiting: dict[int, Callable[[Answer], None]] = {}
        self._count = 0

    def ask(self, request: Callable[[Token], Request], answered: Callable[[Answer], None]) -> None:
        """Ask this; `request` makes it of a token. `answered` is called once."""
        self._count += 1
        self._waiting[self._count] = answered
        self.asked.append(request(self._count))

    def answer(self, answer: Answer) -> None:
        """The controller has answered."""
        assert isinstance(answer.token, int)
        waiting = self._waiting.pop(answer.token, None)
        if waiting is not None:
            waiting(answer)
