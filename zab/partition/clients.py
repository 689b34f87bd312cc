"""The connections of clients: which there may be, what they have sent, which of them are closed, what goes out to them.

Limits: `max.connections` and `max.connections.per.ip`: further connections are closed at once. A connection that is
silent for `connections.max.idle.ms` is closed, and one that has not logged in in time. What all of them have sent is
limited by `queued.max.request.bytes` (`zab.wire.input_limits`).

A connection is muted for as long as its client has to wait because of a quota (`requests/throttling`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.requests.dispatch import Dispatch
from zab.partition.requests.login import LoginRequests
from zab.partition.settings.broker_settings import RequestSettings
from zab.partition.waiting_requests import WaitingRequests
from zab.wire.input_limits import NOTED_BYTES_MIN, InputLimits

NEVER: Final = 1 << 62


class Clients:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(
        self, config: RequestSettings, logins: LoginRequests, dispatch: Dispatch, waiting: WaitingRequests
    ) -> None:
        self._config = config
        self._logins = logins
        self._dispatch = dispatch
        self._waiting = waiting
        self._heard_at: dict[ClientConnection, None] = {}
        """The connections, longest silence first."""
        self._of_address: Counter[str] = Counter()
        self._inputs: InputLimits[ClientConnection] = InputLimits(config.queued_bytes_max, self._touch, self.close)
        self._muted: dict[int, ClientConnection] = {}
        """The muted connections, by their ids."""
        self._ends: list[tuple[int, int]] = []
        """When each of them is muted no longer, and its id; a heap. One that was muted again has a later entry, too.
        That of one that is gone stays until its time."""
        self.dirty: dict[ClientConnection, None] = {}
        """Connections to be flushed or closed; the broker takes them."""
        self.notes: list[str] = []
        """Sentences for the journal; the broker takes them."""
        self.refused_count = 0
        """Connections that were closed at once, since there were too many."""

    @property
    def counts(self) -> Counter[str]:
        """How many connections each listener has."""
        return Counter(each.listener for each in self._heard_at)

    def connected(self, connection: ClientConnection, now: int) -> None:
        """A client has connected."""
        config, host = self._config, connection.host
        if len(self._heard_at) >= config.connections_max or self._of_address[host] >= config.connections_of_address_max:
            self.refused_count += 1
            connection.close(Closing.AT_ONCE, "there are too many connections")
            self._touch(connection)
            return
        connection.heard_at = now
        self._heard_at[connection] = None
        self._waiting.add(connection)
        self._of_address[host] += 1
        self._logins.connected(connection)

    def heard(self, connection: ClientConnection, data: bytes, now: int) -> None:
        """Bytes have come."""
        if connection not in self._heard_at:
            return
        del self._heard_at[connection]
        self._heard_at[connection] = None
        connection.heard_at = now
        before_bytes, had_held = connection.frames.kept_bytes, bool(connection.held)
        self._dispatch.take(connection, data)
        kept_bytes = connection.frames.kept_bytes
        if kept_bytes > NOTED_BYTES_MIN or had_held or connection.held or connection.large_frame_bytes:
            self._inputs.note(connection, now, has_completed=kept_bytes != before_bytes + len(data))
        if connection.paused:
            # The socket asks only about connections that it is told to flush.
            self._touch(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Nothing of this connection is answered any longer."""
        if not self._waiting.forget(connection):
            return
        self._inputs.forget(connection)
        self._logins.forget(connection)
        del self._heard_at[connection]
        self._muted.pop(connection.id, None)
        self._of_address[connection.host] -= 1
        if not self._of_address[connection.host]:
            del self._of_address[connection.host]
        if connection.reason:
            self.notes.append(f"a connection of {connection.host} is closed: {connection.reason}")

    def _touch(self, connection: ClientConnection) -> None:
        """Its socket is to look at it."""
        self.dirty[connection] = None

    def mute(self, connection: ClientConnection, wait_ms: int, now: int) -> None:
        """Look at nothing more of it for so long."""
        until = now + wait_ms
        if connection in self._heard_at and until > connection.muted_until:
            connection.is_muted, connection.muted_until = True, until
            self._muted[connection.id] = connection
            heappush(self._ends, (until, connection.id))
            self._touch(connection)

    def _unmute(self, now: int) -> None:
        while self._ends and self._ends[0][0] <= now:
            until, number = heappop(self._ends)
            connection = self._muted.get(number)
            if connection is not None and until == connection.muted_until:
                del self._muted[number]
                connection.is_muted = False
                self._touch(connection)
                self._go_on(connection, now)

    def _go_on(self, connection: ClientConnection, now: int) -> bool:
        """Go on with requests that are held. False: there are none, or they are held up."""
        if connection.closing or not connection.held or connection.is_held_up:
            return False
        self._dispatch.go_on(connection)
        self._inputs.note(connection, now, has_completed=False)
        return True

    def close(self, connection: ClientConnection, reason: str = "") -> None:
        """Close it at once."""
        connection.close(Closing.AT_ONCE, reason)
        self._touch(connection)
        self.forget(connection)

    def keep_up(self, now: int) -> None:
        """Close the connections whose time is up."""
        until = now - self._config.idle_ms
        while self._heard_at and (connection := next(iter(self._heard_at))).heard_at <= until:
            self.close(connection)
        self._unmute(now)
        self._inputs.tick(now)
        for connection in self._logins.advance(now):
            self.close(connection, "it has not logged in in time")

    def next_deadline(self) -> int:
        """When `keep_up` has something to do."""
        of_logins = self._logins.next_deadline()
        silent = next((each.heard_at + self._config.idle_ms for each in self._heard_at), NEVER)
        muted = self._ends[0][0] if self._ends else NEVER
        return min(silent, muted, NEVER if of_logins is None else of_logins, self._inputs.next_deadline())

    def let_out(self, connection: ClientConnection, now: int) -> bool:
        """Send what is ready, and go on with requests that waited for it. True: there were any."""
        if connection.let_out() or connection.closing:
            self._touch(connection)
        if connection.closing:
            self.forget(connection)
        return self._go_on(connection, now)

    def go_on(self, now: int) -> None:
        """The access lists are known: requests that waited for them are looked at."""
        for connection in list(self._heard_at):
            self._go_on(connection, now)

    def break_lines(self, gone: Sequence[str]) -> None:
        """Close the connections whose answers have parts of these directories or files and have not left: other files
        may soon have their names."""
        if gone:
            for connection in [each for each in self._heard_at if any(map(each.has_slices_of, gone))]:
                self.close(connection, "what it reads is deleted or compacted")
