"""Sends watch events, a limited number per turn: applying has priority over notifying (H7 telling).

A transaction appends its events to the output of each watching connection (`watch_events`). So nothing overtakes them:
a later answer on a connection comes after them and is sent with them (A1 output order). The frames of a change are one
object, shared by the outputs of all its watchers.

Only the sending waits, which costs a system call for each connection. Connections with nothing but events to send are
served in order of arrival; a turn sends to `SENT` of them, or `SENT_BYTES`. Meanwhile the next batches are applied,
unless more than half of `totalOutputLimitBytes` waits here: then events come first.

Not here: which connections get which events (`watch_events`), and limits on unsent output (`limits`).
"""

from __future__ import annotations

from itertools import islice

import attrs

from datatree.slices import SENT, SENT_BYTES
from zab.member.clients.connection import ClientConnection


@attrs.define(eq=False)
class EventSender:
    """The connections whose output has only events."""

    bytes_max: int
    waiting: dict[ClientConnection, int] = attrs.field(factory=dict)
    """The connections in the order of their turns, and the bytes of their events. Events that were sent with a reply
    are counted until the turn of their connection. `watch_events` adds to this, and to the sum: a change may have
    thousands of watchers."""
    bytes: int = 0
    """The sum of these bytes."""

    @property
    def is_full(self) -> bool:
        return self.bytes > self.bytes_max

    def send_some(self, dirty: dict[ClientConnection, None]) -> None:
        """Mark the next connections as ready to be sent to."""
        room = SENT_BYTES
        for connection in list(islice(self.waiting, SENT)):
            size = self.waiting.pop(connection)
            self.bytes -= size
            if connection.out and not connection.closing:
                dirty[connection] = None
                room -= size
            if room <= 0:
                return
