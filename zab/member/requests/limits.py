"""The limits on clients, enforced at the end of each turn.

    load     more requests in process than this member's share of globalOutstandingLimit, or writes that the leader may
             not propose: a connection that waits for an answer and sends more is not read from meanwhile
    output   unsent output above outputLimitBytes: the connection is not read from, and its reads wait; above twice that
             it is closed. All output above totalOutputLimitBytes: the connections with most are closed
    input    unfinished frames and waiting requests above totalInputLimitBytes in all: the connections with most are
             closed; before that, large requests wait for each other (`zab.wire.large_frames`), and for the writes that
             turns have left (`intake`)
    watches  watches above totalWatchLimitBytes in all: the connections with most are closed
    silence  nothing came for the session timeout, or, without a session, for nio.sessionlessCnxnTimeout: the connection
             is closed

Watch events that wait to be sent (`event_sending`) count as output.

The connections with most: those of the address with most, so that a client with many connections loses its own; of
these, the largest.

The share: learners divide the limit, as in ZooKeeper, so that all of them together do not flood the leader.

Silence is counted in ticks, so that a process that was paused does not find every client late. A connection that is not
read from is not silent, and its session counts as alive, unless the reason is its own output. This is about sockets:
only the leader ends sessions (`sessions`).

Not here: the limits on connecting (`connection`), on all requests together (`request_throttle`), on the watches of
one connection (`reads`), on frames (`zab.jute.framing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Final

from datatree.slices import ENDED, NAMES
from zab.member.clients.connection import ClientConnection, Hold, Stage
from zab.member.requests.intake import Intake
from zab.member.requests.read_state import ReadState
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.state.work import LARGE_BYTES
from zab.wire.large_frames import LargeFrames
from zab.wire.together import Together

_OURS: Final = Hold.LOAD | Hold.THROTTLED | Hold.WORK | Hold.ROOM
"""Holds that may be due to other clients: a held client may send pings that nobody reads."""

NOTED_BYTES_MIN: Final = 4096
NOTED_COUNT_MIN: Final = 16
"""Connections with fewer bytes and requests than this are not noted: so most turns count nothing."""

REQUEST_BYTES: Final = 200
"""The memory of a waiting request, besides its frame."""

_FRAME: Final = itemgetter(2)
"""The frame of a waiting request."""


def _output_of(connection: ClientConnection) -> int:
    return connection.out_bytes + connection.unsent_bytes


def _input_of(connection: ClientConnection) -> int:
    """An upper bound: requests that arrived since the last count may have been answered."""
    pending = connection.pending
    return connection.frames.kept_bytes + (connection.asked_bytes + REQUEST_BYTES * len(pending) if pending else 0)


def _counted_input_of(connection: ClientConnection) -> int:
    connection.asked_bytes = sum(map(len, map(_FRAME, connection.pending)))
    return _input_of(connection)


class Limits:
    """Enforces the limits on the clients of one member."""

    def __init__(
        self,
        state: ReadState,
        throttle: RequestThrottle | None,
        intake: Intake,
        touch: Callable[[ClientConnection, int], None],
        voter_count: int,
        now: int,
    ) -> None:
        """`touch` marks the session of a connection as alive."""
        self._config = config = state.config
        self._clients = state.clients
        self._metrics = state.metrics
        self._watches = state.watches
        self._event_sender = state.event_sender
        self._throttle = throttle
        self._touch = touch
        self._outstanding_count_of_all = config.requests.global_outstanding_limit_count
        self.share(voter_count)
        self.loaded: dict[ClientConnection, None] = {}
        self.full: dict[ClientConnection, None] = {}
        """Connections that load, or their output, holds: each turn checks whether this is over."""
        self._outputs = Together(config.limits.total_output_limit_bytes, _output_of)
        self.inputs = Together(config.limits.total_input_limit_bytes, _counted_input_of)
        self.large: LargeFrames[ClientConnection] = LargeFrames(
            lambda connection: state.clients.hold(connection, Hold.ROOM),
            lambda connection: state.clients.release(connection, Hold.ROOM),
            lambda: intake.kept_bytes,
            config.limits.total_input_limit_bytes // 2,
            config.timing.tick_time_ms,
        )
        self._silence_at = self.next_deadline = now + config.timing.tick_time_ms
        """When to look for silence next; and when to look at anything."""
        self._unseen: Iterator[ClientConnection] | None = None
        """Connections that the current look for silence has not reached yet."""

    def share(self, voter_count: int) -> None:
        """Set this member's share of the requests that the ensemble may have in process."""
        self._outstanding_count_max = max(1, self._outstanding_count_of_all // max(1, voter_count - 1))

    def is_loaded(self, outstanding_count: int, is_stalled: bool) -> bool:
        """Whether the load is so high that a connection with unanswered requests may send no more."""
        return outstanding_count > self._outstanding_count_max or is_stalled

    def hold_loaded(self, connection: ClientConnection) -> None:
        """Stop reading from a connection until the load is gone."""
        self._clients.hold(connection, Hold.LOAD)
        self.loaded[connection] = None

    def hold_stalled(self, connection: ClientConnection, came_bytes: int, *, passes_small: bool) -> None:
        """Stop reading from a connection while turns leave writes; if only large writes are left, clients that send
        little are still read."""
        if not passes_small or max(came_bytes, connection.frames.kept_bytes) >= LARGE_BYTES:
            self.hold_loaded(connection)

    def has_room(self, connection: ClientConnection) -> bool:
        """Whether its unsent output is within the limit."""
        return _output_of(connection) <= self._config.limits.output_limit_bytes

    def keep_waiting(self, connection: ClientConnection, came_bytes: int) -> None:
        """Count frames that wait for their turn."""
        if connection.asked_bytes:
            connection.asked_bytes += came_bytes
        else:
            _counted_input_of(connection)
        self.keep_unfinished(connection)

    def keep_unfinished(self, connection: ClientConnection) -> None:
        """Count bytes that completed no frame."""
        size = _input_of(connection)
        if size > NOTED_BYTES_MIN:
            self.inputs.note(connection, size)
            self.large.has_unfinished(connection)
        if self.inputs.bytes > self.inputs.bytes_max:
            for beyond in self.inputs.beyond():
                self._drop_for_input(beyond)

    @property
    def is_any_with_room_again(self) -> bool:
        """Whether a connection that was held for its output, or throttled, could go on at once."""
        if self._throttle is not None and self._throttle.is_due:
            return True
        return bool(self.full) and any(map(self.has_room, self.full))

    def end_turn(self, now: int, outstanding_count: int, is_stalled: bool) -> None:
        """Hold, release and close connections, as the limits demand after this turn."""
        self.limit_output()
        if self._watches.total_bytes > self._config.requests.total_watch_limit_bytes:
            self._limit_watches()
        if self.loaded and not self.is_loaded(outstanding_count, is_stalled):
            for connection in self.loaded:
                self._clients.release(connection, Hold.LOAD)
            self.loaded.clear()
        if self.large.waiting:
            self.large.let_in()
        if now >= self._silence_at:
            if self._unseen is None:
                self._close_unfinished()
            if not self._close_silent(now):
                self._silence_at = now + self._config.timing.tick_time_ms
            self.next_deadline = self._silence_at
        if self._throttle is not None:
            self.next_deadline = min(self._silence_at, self._throttle.next_deadline or self._silence_at)

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone, before the processor does."""
        if self._throttle is not None:
            self._throttle.forget(connection)
        self.loaded.pop(connection, None)
        self.full.pop(connection, None)
        self._outputs.forget(connection)
        self.inputs.forget(connection)
        if connection.large_frame_bytes:
            self.large.forget(connection)

    def limit_output(self) -> None:
        """Enforce the limits on output, at the end of a turn, or of a slice of a batch, which already sends answers."""
        if self._event_sender.waiting:
            self._event_sender.send_some(self._clients.dirty)
        limit = self._config.limits.output_limit_bytes
        note = self._outputs.note
        for connection in self._clients.dirty:
            count = len(connection.out)
            connection.sent_count += count
            self._metrics.packets_sent += count
            self._metrics.response_bytes += connection.out_bytes
            size = connection.out_bytes + connection.unsent_bytes
            if size > NOTED_BYTES_MIN:
                note(connection, size)
            if size > limit and not connection.closing:
                if size > 2 * limit:
                    self._metrics.connections_closed_for_output += 1
                    self._drop(connection)
                else:
                    self._clients.hold(connection, Hold.OUTPUT)
                    self.full[connection] = None
        if self._outputs.bytes > self._outputs.bytes_max:
            for connection in self._outputs.beyond():
                self._metrics.connections_closed_for_output += 1
                self._drop(connection)
        if self.full:
            for connection in [connection for connection in self.full if self.has_room(connection)]:
                del self.full[connection]
                self._clients.release(connection, Hold.OUTPUT)

    def _close_unfinished(self) -> None:
        for connection in self.large.tick():
            self._drop_for_input(connection)

    def _drop_for_input(self, connection: ClientConnection) -> None:
        self._metrics.connections_closed_for_input += 1
        self._drop(connection)

    def _limit_watches(self) -> None:
        watching = Together(self._config.requests.total_watch_limit_bytes, self._watches.bytes_of)
        watching.noted = dict.fromkeys(self._watches.holders(), 0)
        for connection in watching.beyond():
            self._metrics.connections_closed_for_watches += 1
            self._drop(connection)

    def _drop(self, connection: ClientConnection) -> None:
        self._metrics.connection_drop_count += 1
        self._clients.close(connection)

    def _close_silent(self, now: int) -> bool:
        """Look for silence in a slice of the connections. True: there are more."""
        unseen = self._unseen = iter(list(self._clients.all)) if self._unseen is None else self._unseen
        seen_count = ended_count = 0
        for connection in unseen:
            seen_count += 1
            if seen_count > NAMES or ended_count >= ENDED:
                self._unseen = chain((connection,), unseen)
                return True
            if connection.closing:
                continue
            if connection.paused:
                connection.idle_ticks = 0
                if connection.holds & _OURS and connection.stage is Stage.SERVED:
                    self._touch(connection, now)
                continue
            connection.idle_ticks += 1
            served = connection.stage is Stage.SERVED
            limit_ms = connection.timeout_ms if served else self._config.sessions.sessionless_timeout_ms
            if (connection.idle_ticks - 1) * self._config.timing.tick_time_ms > limit_ms:
                if not served:
                    self._metrics.sessionless_connections_expired += 1
                self._clients.close(connection)
                ended_count += 1
        self._unseen = None
        return False
