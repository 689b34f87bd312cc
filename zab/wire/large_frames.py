"""Large frames that have begun on the connections of a server: which may go on, and which wait for room.

A frame is large above `LARGE_FRAME_BYTES`; smaller ones are always read. A large frame is

    going     it has room for all its bytes; all together have `bytes_max`
    waiting   there is no room: its connection is not read from until there is, in order of arrival

Complete requests that wait for their turn may use the same room (`used_bytes`). So clients that send much at the same
time wait for each other. A going connection owes `SLOW_BYTES_A_MS`: what it did not send it may send later, but it may
not send ahead. Once it lags by `PATIENCE_MS`, it is closed if others wait: so half a request, or one byte a second,
does not keep others waiting for long. Time is counted in ticks, and only while the connection is read from, so a server
that reads slowly closes nobody.

Not here: the limit on all input, and which connections are closed above it (`together`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

import attrs

from zab.wire.frames import FrameReader

LARGE_FRAME_BYTES: Final = 64 << 10
"""As much as is received at once: a smaller request leaves little unfinished."""
PATIENCE_MS: Final = 10_000
SLOW_BYTES_A_MS: Final = 64


class Connection(Protocol):
    """What has to be known of a connection. Hashed by identity."""

    frames: FrameReader
    large_frame_bytes: int
    """The size of the large frame that has begun, if there is one. Assigned only here."""

    @property
    def paused(self) -> bool: ...

    @property
    def closing(self) -> int: ...


C = TypeVar("C", bound=Connection)


@attrs.define
class Going:
    """The progress of a going connection."""

    kept_bytes: int = 0
    """Bytes received up to the last tick."""
    owed_bytes: int = 0
    """How much more should have come by now."""


class LargeFrames(Generic[C]):
    """The large frames of one server. Attributes without an underscore may be read."""

    def __init__(
        self,
        hold: Callable[[C], None],
        release: Callable[[C], None],
        used_bytes: Callable[[], int],
        bytes_max: int,
        tick_time_ms: int,
    ) -> None:
        """`hold` has a connection not read from until `release`. A frame larger than `bytes_max` goes alone."""
        self._hold = hold
        self._release = release
        self._used_bytes = used_bytes
        self._bytes_max = bytes_max
        self._tick_time_ms = tick_time_ms
        self.going: dict[C, Going] = {}
        self.waiting: dict[C, None] = {}
        self.bytes = 0
        """The full size of the going frames."""

    def has_unfinished(self, connection: C) -> None:
        """Note that a part of a frame has come. A large one goes on, or waits."""
        size = connection.frames.wanted_bytes
        if size <= LARGE_FRAME_BYTES or connection.large_frame_bytes:
            return
        connection.large_frame_bytes = size
        if self.waiting or not self._has_room(size):
            self.waiting[connection] = None
            self._hold(connection)
        else:
            self._go(connection)

    def forget(self, connection: C) -> None:
        """Forget a connection that is gone, or whose frame is complete."""
        if connection in self.going:
            del self.going[connection]
            self.bytes -= connection.large_frame_bytes
        self.waiting.pop(connection, None)
        connection.large_frame_bytes = 0
        self.let_in()

    def let_in(self) -> None:
        """Let waiting frames go on while there is room."""
        while self.waiting:
            first = next(iter(self.waiting))
            if not self._has_room(first.large_frame_bytes):
                break
            del self.waiting[first]
            self._go(first)
            self._release(first)

    def _has_room(self, size: int) -> bool:
        used = self.bytes + self._used_bytes()
        return not used or used + size <= self._bytes_max

    def _go(self, connection: C) -> None:
        self.going[connection] = Going()
        self.bytes += connection.large_frame_bytes

    def tick(self) -> Iterator[C]:
        """Count a tick. Yields the connections that were slow for too long while others wait."""
        for connection, going in self.going.items():
            if connection.paused or connection.closing:
                continue
            before, going.kept_bytes = going.kept_bytes, connection.frames.kept_bytes
            came = going.kept_bytes - before
            going.owed_bytes = max(0, going.owed_bytes + SLOW_BYTES_A_MS * self._tick_time_ms - came)
            if self.waiting and going.owed_bytes > SLOW_BYTES_A_MS * PATIENCE_MS:
                yield connection
