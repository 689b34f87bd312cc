"""A link on which another broker asks as a follower, to the requests like a client's connection.

Its requests are answered one by one, each answer as one message of the link. Limit: `HELD_MAX` requests that wait; a
follower has one.
"""

from __future__ import annotations

import attrs

from zab.partition.links.messages import FollowerAnswered
from zab.partition.requests.connection import ClientConnection

HELD_MAX = 16


@attrs.define(eq=False, repr=False)
class FollowerConnection(ClientConnection):
    """See the docstring of the module."""

    link: int = -1

    @property
    def has_too_many(self) -> bool:
        """Whether more waits than a follower ever sends."""
        return len(self.held) > HELD_MAX

    def take_answers(self) -> list[FollowerAnswered]:
        """The answers that are ready, up to the first that is not."""
        answers = []
        while self.line and self.line[0].pieces is not None:
            answers.append(FollowerAnswered(tuple(self.line.popleft().pieces or ())))
        return answers
