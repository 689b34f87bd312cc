"""The limit on what clients have sent and a service has not handled, over all connections.

    unfinished  frames of which a part has come. Large ones, above 64 KiB, wait for each other: all that go on have half
                of the limit (`zab.wire.large_frames`)
    held        complete requests that wait until their connection may go on; they use the same half

Above the limit the connections with most are closed (`zab.wire.together`). So a service needs no more memory for input,
however many connect and whatever they announce.

Not here: the limits of one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Final, Generic, Protocol, TypeVar

from zab.wire.frames import FrameReader
from zab.wire.large_frames import LargeFrames
from zab.wire.together import Together

TICK_MS: Final = 1000
"""How often it is looked whether a large request goes on, while others wait."""
NOTED_BYTES_MIN: Final = 4096
REQUEST_BYTES: Final = 200
"""The memory of a request that is held, besides its frame."""
NEVER: Final = 1 << 62


class Connection(Protocol):
    """What has to be known of a connection. Hashed by identity."""

    frames: FrameReader
    held_bytes: int
    """The bytes of the requests that are held."""
    large_frame_bytes: int
    waits_for_room: bool
    """Whether it is not read from, since there is no room for the large frame that it has begun. Assigned here."""

    @property
    def host(self) -> str: ...

    @property
    def held(self) -> Sized: ...

    @property
    def paused(self) -> bool: ...

    @property
    def closing(self) -> int: ...


C = TypeVar("C", bound=Connection)


def _input_of(connection: Connection) -> int:
    return connection.frames.kept_bytes + _held_of(connection)


def _held_of(connection: Connection) -> int:
    return connection.held_bytes + REQUEST_BYTES * len(connection.held)


class InputLimits(Generic[C]):
    """See the docstring of the module."""

    def __init__(
        self,
        bytes_max: int,
        released: Callable[[C], None],
        close: Callable[[C, str], None],
    ) -> None:
        """`released`: the connection may be read from again. `close` calls `forget`."""
        self._close = close
        self._released = released
        self._inputs: Together[C] = Together(bytes_max, _input_of)
        self._held: dict[C, int] = {}
        self._held_bytes = 0
        self._tick_at = NEVER
        self._large: LargeFrames[C] = LargeFrames(
            self._hold, self._release, lambda: self._held_bytes, bytes_max // 2, TICK_MS
        )

    @property
    def bytes(self) -> int:
        """An upper bound of what there is."""
        return self._inputs.bytes

    def _hold(self, connection: C) -> None:
        connection.waits_for_room = True

    def _release(self, connection: C) -> None:
        connection.waits_for_room = False
        self._released(connection)

    def note(self, connection: C, now: int, *, has_completed: bool) -> None:
        """Something came from this connection, or less is held of it. `has_completed`: a frame was completed."""
        if has_completed and connection.large_frame_bytes:
            self._large.forget(connection)
        kept_bytes, held_bytes = connection.frames.kept_bytes, _held_of(connection)
        before = self._held.get(connection, 0)
        if held_bytes != before:
            self._held[connection] = held_bytes
            self._held_bytes += held_bytes - before
            if held_bytes < before:
                self._large.let_in()
        if kept_bytes + held_bytes > NOTED_BYTES_MIN:
            self._inputs.note(connection, kept_bytes + held_bytes)
            self._large.has_unfinished(connection)
            if self._large.waiting and self._tick_at == NEVER:
                self._tick_at = now + TICK_MS
            if self._inputs.bytes > self._inputs.bytes_max:
                for beyond in list(self._inputs.beyond()):
                    self._close(beyond, "there is too much that clients have sent and is not handled")
        else:
            self._inputs.forget(connection)

    def forget(self, connection: C) -> None:
        """The connection is gone."""
        self._inputs.forget(connection)
        self._held_bytes -= self._held.pop(connection, 0)
        if connection.large_frame_bytes:
            self._large.forget(connection)
        elif self._large.waiting:
            self._large.let_in()

    def next_deadline(self) -> int:
        """When `tick` has something to do."""
        return self._tick_at if self._large.waiting else NEVER

    def tick(self, now: int) -> None:
        """Close those that take too long over a large request while others wait."""
        if not self._large.waiting:
            self._tick_at = NEVER
        elif now >= self._tick_at:
            self._tick_at = now + TICK_MS
            for slow in list(self._large.tick()):
                self._close(slow, "its request comes too slowly while others wait")
