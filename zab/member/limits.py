"""What a client may not exceed, and what happens then; decided at the end of each turn.

    load     more requests in process than this member's share of globalOutstandingLimit, or writes that the leader may
             not propose: a connection that waits for an answer and sends more is not read from until that is over
    output   unsent output above outputLimitBytes: the connection is not read from, and its reads wait; above twice
             that it is closed. Of all connections together above totalOutputLimitBytes: those with most are closed
    silence  nothing came for the session timeout, or, without a session, for nio.sessionlessCnxnTimeout: it is closed

The share: learners divide the limit, as in ZooKeeper, so that the leader is not flooded by all of them together.

Silence is counted in ticks, so that a process that was paused does not find everybody late; nothing is expected from a
connection that is not read from. This is about sockets: sessions end elsewhere, and only by the leader (`sessions`).

Not here: the limits on connecting (`connection`), on requests of all together (`request_throttle`), on watches
(`reads`), on frames (`zab.jute.framing`).
"""

from __future__ import annotations

from zab.member.connection import ClientConnection, Clients, Hold, Stage
from zab.member.metrics import Metrics
from zab.member.request_throttle import RequestThrottle
from zab.member.settings import Config


class Limits:
    """Which connections are held, and by which limit."""

    def __init__(
        self,
        config: Config,
        clients: Clients,
        metrics: Metrics,
        throttle: RequestThrottle | None,
        *,
        voter_count: int,
        now: int,
    ) -> None:
        self._config = config
        self._clients = clients
        self._metrics = metrics
        self._throttle = throttle
        self._outstanding_count_max = max(1, config.global_outstanding_limit_count // max(1, voter_count - 1))
        self._loaded: dict[ClientConnection, None] = {}
        self._full: dict[ClientConnection, None] = {}
        self._outputs: dict[ClientConnection, int] = {}
        """Who had unsent output when it was last looked at, and how many bytes; some may be sent since."""
        self._output_bytes = 0
        """The sum of these."""
        self._silence_at = self.next_deadline = now + config.tick_time_ms
        """When silence is looked for again; and when anything is."""

    def is_loaded(self, outstanding_count: int, is_stalled: bool) -> bool:
        """Whether so much is in process that a connection with unanswered requests may send no more."""
        return outstanding_count > self._outstanding_count_max or is_stalled

    def hold_loaded(self, connection: ClientConnection) -> None:
        """Read no more from a connection until the load is gone."""
        self._clients.hold(connection, Hold.LOAD)
        self._loaded[connection] = None

    def has_room(self, connection: ClientConnection) -> bool:
        """Whether its unsent output is within the limit."""
        return connection.out_bytes + connection.unsent_bytes <= self._config.output_limit_bytes

    @property
    def is_any_with_room_again(self) -> bool:
        """Whether somebody who was held for its output, or was throttled, could go on at once."""
        if self._throttle is not None and self._throttle.is_due:
            return True
        return bool(self._full) and any(map(self.has_room, self._full))

    def end_turn(self, now: int, *, is_loaded: bool) -> None:
        """Hold, release and close whom this turn has brought to a limit, or back."""
        self._limit_output()
        if self._loaded and not is_loaded:
            for connection in self._loaded:
                self._clients.release(connection, Hold.LOAD)
            self._loaded.clear()
        if now >= self._silence_at:
            self._silence_at = self.next_deadline = now + self._config.tick_time_ms
            self._close_silent()
        if self._throttle is not None:
            self.next_deadline = min(self._silence_at, self._throttle.next_deadline or self._silence_at)

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone; the processor does not know it yet."""
        if self._throttle is not None:
            self._throttle.forget(connection)
        self._loaded.pop(connection, None)
        self._full.pop(connection, None)
        self._output_bytes -= self._outputs.pop(connection, 0)

    def _limit_output(self) -> None:
        limit = self._config.output_limit_bytes
        outputs = self._outputs
        for connection in self._clients.dirty:
            count = len(connection.out)
            connection.sent_count += count
            self._metrics.packets_sent += count
            size = connection.out_bytes + connection.unsent_bytes
            self._output_bytes += size - outputs.get(connection, 0)
            outputs[connection] = size
            if size > limit and not connection.closing:
                if size > 2 * limit:
                    self._metrics.connection_drop_count += 1
                    self._metrics.connections_closed_for_output += 1
                    self._clients.close(connection)
                else:
                    self._clients.hold(connection, Hold.OUTPUT)
                    self._full[connection] = None
        if self._output_bytes > self._config.total_output_limit_bytes:
            self._limit_all_output()
        if self._full:
            for connection in [connection for connection in self._full if self.has_room(connection)]:
                del self._full[connection]
                self._clients.release(connection, Hold.OUTPUT)

    def _limit_all_output(self) -> None:
        """Look again, since some is sent meanwhile; then close those with most, until the rest is within the limit."""
        found = ((connection, connection.out_bytes + connection.unsent_bytes) for connection in self._outputs)
        self._outputs = {connection: size for connection, size in found if size and not connection.closing}
        self._output_bytes = total = sum(self._outputs.values())
        for connection, size in sorted(self._outputs.items(), key=lambda item: item[1], reverse=True):
            if total <= self._config.total_output_limit_bytes:
                break
            self._metrics.connection_drop_count += 1
            self._metrics.connections_closed_for_output += 1
            self._clients.close(connection)
            total -= size

    def _close_silent(self) -> None:
        for connection in self._clients.all:
            if connection.paused:
                connection.idle_ticks = 0
                continue
            connection.idle_ticks += 1
            served = connection.stage is Stage.SERVED
            limit_ms = connection.timeout_ms if served else self._config.sessionless_timeout_ms
            if (connection.idle_ticks - 1) * self._config.tick_time_ms > limit_ms:
                if not served:
                    self._metrics.sessionless_connections_expired += 1
                self._clients.close(connection)
