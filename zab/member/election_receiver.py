"""What arrives on one connection to an election port after its handshake: votes, and what of them is believed.

What is no vote is skipped: it never ends a receiver (ZOOKEEPER-3769).

The connections of a server (`zab.server.election_links`) and those of a simulated one are read with this.

Not here: the handshake, sockets, what a vote means (`zab.election`).
"""

from __future__ import annotations

from collections.abc import Callable

from zab.message import Notification
from zab.wire.records import Codec, MessageError

_VOTES: Codec[Notification] = Codec((Notification,))


class ElectionReceiver:
    """Of one connection."""

    __slots__ = ("_skipped",)

    def __init__(self, skipped: Callable[[str], None]) -> None:
        """`skipped` is told why the first payload that is no vote is none; of those after it nothing is said, so that
        one connection does not fill the journal."""
        self._skipped: Callable[[str], None] | None = skipped

    def vote(self, payload: bytes) -> Notification | None:
        """The vote that this is, if it is one."""
        try:
            return _VOTES.decode(payload)
        except MessageError as error:
            skipped, self._skipped = self._skipped, None
            if skipped is not None:
                skipped(str(error))
            return None
