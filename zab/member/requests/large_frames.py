"""Large requests that have begun: who may send the rest of one, and who waits for room.

A request is large above `LARGE_FRAME_BYTES`; smaller ones are read whoever sends what. Of the large ones,

    going     has the room of all its bytes, from its first ones on; all together have half of totalInputLimitBytes
    waiting   there was no room for it: its connection is not read from until there is, in order of arrival

Writes that are whole and that turns have left (`intake`) take of that room, too. So those who send much at the same
time wait for each other, and the rest of the limit is for what they had sent before they waited. A connection that is
going may be slow for `PATIENCE_MS`: give less than `SLOW_BYTES_A_MS`. Beyond that, while others wait, it is closed:
half a request, or one byte a second, keeps nobody waiting for long, and a server that reads slowly closes nobody.

Time is counted in ticks, and only while the connection is read from.

Not here: what all of them have together, and who is closed when that is too much (`limits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from zab.member.clients.connection import ClientConnection, Clients, Hold
from zab.member.requests.intake import Intake

LARGE_FRAME_BYTES: Final = 64 << 10
"""As much as is received at once: whoever sends no more leaves little unfinished."""
PATIENCE_MS: Final = 10_000
SLOW_BYTES_A_MS: Final = 64


@attrs.define
class Going:
    """What a connection that is going has given."""

    kept_bytes: int = 0
    """Up to the last tick."""
    slow_ticks: int = 0


class LargeFrames:
    """See the module's text. Everything without an underscore may be looked at."""

    def __init__(self, clients: Clients, intake: Intake, bytes_max: int, tick_time_ms: int) -> None:
        """One request that is larger than `bytes_max` goes alone."""
        self._clients = clients
        self._intake = intake
        self._bytes_max = bytes_max
        self._tick_time_ms = tick_time_ms
        self.going: dict[ClientConnection, Going] = {}
        self.waiting: dict[ClientConnection, None] = {}
        self.bytes = 0
        """Of those that are going, when all of them have come."""

    def has_unfinished(self, connection: ClientConnection) -> None:
        """Some of a request has come. If it is a large one, it goes on, or waits."""
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
        """Its request is whole, or the connection is gone."""
        if connection in self.going:
            del self.going[connection]
            self.bytes -= connection.large_frame_bytes
        self.waiting.pop(connection, None)
        connection.large_frame_bytes = 0
        self.let_in()

    def let_in(self) -> None:
        """Those for which there is room now go on."""
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
        """A tick has passed: those that have had their time, while others wait."""
        for connection, going in self.going.items():
            if connection.paused or connection.closing:
                continue
            before, going.kept_bytes = going.kept_bytes, connection.frames.kept_bytes
            if going.kept_bytes - before < SLOW_BYTES_A_MS * self._tick_time_ms:
                going.slow_ticks += 1
            if self.waiting and going.slow_ticks * self._tick_time_ms > PATIENCE_MS:
                yield connection
