"""Whose watch events wait to be sent, and how many of them a turn sends: apply goes ahead of telling (H7 telling).

A transaction puts its events into the output of each connection that watches (`watch_events`). So nothing overtakes
them: whatever is answered on a connection later stands behind them and takes them along (A1 output order). The frames
of a change are one object, which the outputs of all its watchers share.

Only the sending waits, which costs a system call for each connection. A connection with nothing but events to send has
its turn after those that came before it; a turn sends to `SENT` of them, or `SENT_BYTES`. Meanwhile the next batches
are applied, unless more than `outputLimitBytes` wait here: then events come first.

Not here: who is told of what (`watch_events`), and the output that a socket does not take (`limits`).
"""

from __future__ import annotations

from itertools import islice

import attrs

from datatree.slices import SENT, SENT_BYTES
from zab.member.clients.connection import ClientConnection


@attrs.define(eq=False)
class EventSender:
    """See the module's text."""

    bytes_max: int
    waiting: dict[ClientConnection, int] = attrs.field(factory=dict)
    """The connections, in the order of their turns, and the bytes of their events. What a reply has taken along is
    counted until then."""
    bytes: int = 0
    """Of all of them."""

    def add(self, connection: ClientConnection, size: int) -> None:
        """There are events of so many bytes more in its output."""
        self.waiting[connection] = self.waiting.get(connection, 0) + size
        self.bytes += size

    @property
    def is_full(self) -> bool:
        return self.bytes > self.bytes_max

    def send_some(self, dirty: dict[ClientConnection, None]) -> None:
        """Mark those whose turn it is as connections with output."""
        room = SENT_BYTES
        for connection in list(islice(self.waiting, SENT)):
            size = self.waiting.pop(connection)
            self.bytes -= size
            if connection.out and not connection.closing:
                dirty[connection] = None
                room -= size
            if room <= 0:
                return
