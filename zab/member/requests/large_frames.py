"""Large requests that have begun: which may go on, and which wait for room.

A request is large above `LARGE_FRAME_BYTES`; smaller ones are always read. A large request is

    going     it has room for all its bytes; all together have half of totalInputLimitBytes
    waiting   there is no room: its connection is not read from until there is, in order of arrival

Complete writes that turns have left (`intake`) use the same room. So clients that send much at the same time wait for
each other, and the rest of the limit is for what they sent before they waited. A going connection owes
`SLOW_BYTES_A_MS`: what it did not send it may send later, but it may not send ahead. Once it lags `PATIENCE_MS`,
it is closed if others wait: so half a request, or one byte a second, does not keep others waiting for long. Time is
counted in ticks, and only while the connection is read from, so a server that reads slowly closes nobody.

Not here: the limit on all input, and which connections are closed above it (`limits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from zab.member.clients.connection import ClientConnection, Clients, Hold
from zab.member.requests.intake import Intake

LARGE_FRAME_BYTES: Final = 64 << 10
"""As much as is received at once: a smaller request leaves little unfinished."""
PATIENCE_MS: Final = 10_000
SLOW_BYTES_A_MS: Final = 64


@attrs.define
class Going:
    """The progress of a going connection."""

    kept_bytes: int = 0
    """Bytes received up to the last tick."""
    owed_bytes: int = 0
    """The bytes that it should have sent by now."""


class LargeFrames:
    """The large requests of one member. Attributes without an underscore may be read."""

    def __init__(self, clients: Clients, intake: Intake, bytes_max: int, tick_time_ms: int) -> None:
        """A request larger than `bytes_max` goes alone."""
        self._clients = clients
        self._intake = intake
        self._bytes_max = bytes_max
        self._tick_time_ms = tick_time_ms
        self.going: dict[ClientConnection, Going] = {}
        self.waiting: dict[ClientConnection, None] = {}
        self.bytes = 0
        """The full size of the going requests."""

    def has_unfinished(self, connection: ClientConnection) -> None:
        """Note that a part of a request has come. A large request goes on, or waits."""
        size = connection.frames.wanted_bytes
        if size <= LARGE_FRAME_BYTES or connection.large_frame_bytes:
            return
        connection.large_frame_bytes = size
        if self.waiting or not self._has_room(size):
            self.waiting[connection] = None
            self._clients.hold(connection, Hold.ROOM)
        else:
            self._go(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone, or whose request is complete."""
        if connection in self.going:
            del self.going[connection]
            self.bytes -= connection.large_frame_bytes
        self.waiting.pop(connection, None)
        connection.large_frame_bytes = 0
        self.let_in()

    def let_in(self) -> None:
        """Let waiting requests go on while there is room."""
        while self.waiting:
            first = next(iter(self.waiting))
            if not self._has_room(first.large_frame_bytes):
                break
            del self.waiting[first]
            self._go(first)
            self._clients.release(first, Hold.ROOM)

    def _has_room(self, size: int) -> bool:
        used = self.bytes + self._intake.kept_bytes
        return not used or used + size <= self._bytes_max

    def _go(self, connection: ClientConnection) -> None:
        self.going[connection] = Going()
        self.bytes += connection.large_frame_bytes

    def tick(self) -> Iterator[ClientConnection]:
        """Count a tick. Yields the connections that were slow for too long while others wait."""
        for connection, going in self.going.items():
            if connection.paused or connection.closing:
                continue
            before, going.kept_bytes = going.kept_bytes, connection.frames.kept_bytes
            came = going.kept_bytes - before
            going.owed_bytes = max(0, going.owed_bytes + SLOW_BYTES_A_MS * self._tick_time_ms - came)
            if self.waiting and going.owed_bytes > SLOW_BYTES_A_MS * PATIENCE_MS:
                yield connection
