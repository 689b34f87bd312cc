"""The followers that fetch here: their requests come over links, and are answered there.

As a client's, the requests of a follower are answered in order, and one that waits holds up those after it. Not here:
links (`neighbours`), how a fetch is answered (`requests.fetch`).
"""

from __future__ import annotations

from typing import Final

from attrs import define

from zab.kafka.api_key import ApiKey
from zab.partition.events import Effects
from zab.partition.requests.dispatch import Dispatch
from zab.partition.requests.follower_connection import FollowerConnection
from zab.partition.waiting_requests import WaitingRequests

FOLLOWERS_ASK: Final = (ApiKey.FETCH, ApiKey.LIST_OFFSETS)
"""The requests of followers."""


@define(eq=False)
class Followers:
    """See the docstring of the module."""

    _dispatch: Dispatch
    _waiting: WaitingRequests

    def came(self, connection: FollowerConnection, payload: bytes) -> None:
        """A request has come over a link."""
        self._waiting.add(connection)
        connection.hold([payload])
        self._dispatch.go_on(connection)

    def gone(self, connection: FollowerConnection) -> None:
        """The link is gone."""
        self._waiting.forget(connection)

    def let_out(self, connection: FollowerConnection, effects: Effects) -> bool:
        """Send what is ready, and go on with what was held up. True: there was something to go on with."""
        effects.sends += [(connection.link, answer) for answer in connection.take_answers()]
        if connection.closing:
            effects.breaks.append((connection.link, connection.reason))
            self._waiting.forget(connection)
        elif connection.held and not connection.is_held_up:
            self._dispatch.go_on(connection)
            return True
        return False
