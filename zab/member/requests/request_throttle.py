"""Limits the requests of clients in process, and the bytes of large ones: ZooKeeper's RequestThrottler.

`globalOutstandingLimit` only holds connections that have requests under way: each may still send its first one. This
throttle counts all together: above `request_throttle_max_requests` a request waits for the processor, and its
connection is not read from. When a request is done, the waiting connections take turns, one request each.

    a request that waits                                                          what happens with it
    its connection is gone (request_stale_connection_check)                       it is dropped
    it waits for longer than its session's timeout (request_stale_latency_check)  its connection is closed
    with request_throttle_drop_stale off                                          both are executed, and counted
    it has waited for longer than throttled_op_wait_time, when its turn comes     THROTTLEDOP; not a closeSession
    this member stops serving                                                     it is dropped, with all connections

`processor` counts the requests in process as outstanding. A request of more than `largeRequestThreshold` bytes ends its
connection if it would bring the bytes in process and waiting above `largeRequestMaxBytes`.

Requests that members forward are never throttled (H1 links always read).

Not here: limits on output and silence (`limits`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from datatree.opcodes import OpCode
from zab.member.clients.connection import ClientConnection, Clients, Hold, Waiting
from zab.member.requests.connection_requests import THROTTLED
from zab.member.requests.processor import Processor
from zab.member.settings.throttles import RequestThrottleSettings
from zab.member.state.metrics import Metrics

TAKEN_COUNT_MAX: Final = 1_000
"""How many requests a turn takes; the others wait for the next turn."""

_HEADER: Final = Struct(">ii")
_NEVER_THROTTLED: Final = (int(OpCode.PING), int(OpCode.CLOSE_SESSION))


class RequestThrottle:
    """The throttle in front of one member's processor."""

    def __init__(
        self, settings: RequestThrottleSettings, clients: Clients, metrics: Metrics, processor: Processor
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._metrics = metrics
        self._processor = processor
        self._waiting: dict[ClientConnection, deque[tuple[bytes, int]]] = {}
        """Waiting requests, and when each came; the connection whose turn is next comes first."""
        self._large: list[tuple[ClientConnection, Waiting, int]] = []
        """Large requests in process, with their bytes, as of the last look."""
        self._large_bytes = 0
        """The bytes of these, and of large requests that wait."""
        self.is_due = False
        """Whether requests wait only because the turn was long enough."""
        self.next_deadline: int | None = None
        """When to look at waiting requests again."""

    @staticmethod
    def of(
        settings: RequestThrottleSettings, clients: Clients, metrics: Metrics, processor: Processor
    ) -> RequestThrottle | None:
        """The throttle; None if it is off."""
        if settings.max_requests or settings.large_request_threshold_bytes > 0:
            return RequestThrottle(settings, clients, metrics, processor)
        return None

    def receive(self, connection: ClientConnection, frames: Sequence[bytes]) -> None:
        """Pass on requests while there is room; the others wait."""
        now, waiting = self._processor.state.clock.now, self._waiting
        for frame in frames:
            if connection.closing:
                return
            if self._is_large(frame):
                if not self._has_room(len(frame)):
                    self._metrics.large_requests_rejected += 1
                    self._clients.close(connection)
                    return
                self._large_bytes += len(frame)
            if waiting or self._is_full:
                if connection not in waiting:
                    waiting[connection] = deque()
                    self._clients.hold(connection, Hold.THROTTLED)
                waiting[connection].append((frame, now))
            else:
                self._pass_on(connection, frame)

    @property
    def _is_full(self) -> bool:
        return 0 < self._settings.max_requests <= self._processor.waiting.outstanding_count

    def turn(self, now: int) -> None:
        """Pass on waiting requests while there is room."""
        self.is_due = False
        self.next_deadline = None
        going = deque(connection for connection in self._waiting if not connection.closing)
        for _ in range(TAKEN_COUNT_MAX):
            if not going:
                return
            connection = going.popleft()
            is_stale = self._is_late(connection, now)
            if is_stale and self._settings.drop_stale:
                self._drop(self._waiting.pop(connection))
                self._clients.close(connection)
                continue
            if self._is_full:
                self._metrics.request_throttle_wait_count += 1
                self.next_deadline = now + self._settings.stall_time_ms
                return
            self._metrics.stale_requests += is_stale
            if self._take(connection, now):
                going.append(connection)
        self.is_due = bool(going)

    def _is_late(self, connection: ClientConnection, now: int) -> bool:
        _, since = self._waiting[connection][0]
        return self._settings.stale_latency_check and now - since > connection.timeout_ms

    def _take(self, connection: ClientConnection, now: int) -> bool:
        """Take the first request of a connection. True: another one waits after it."""
        frames = self._waiting.pop(connection)
        frame, since = frames.popleft()
        if frames:
            self._waiting[connection] = frames
        else:
            self._clients.release(connection, Hold.THROTTLED)
        self._processor.sessions.touches.touch(connection, now)
        limit_ms = self._settings.throttled_op_wait_time_ms
        if 0 < limit_ms < now - since and len(frame) >= _HEADER.size:
            xid, opcode = _HEADER.unpack_from(frame)
            if opcode not in _NEVER_THROTTLED:
                self._metrics.throttled_ops += 1
                self._let_go(frame)
                self._processor.place(connection, xid, THROTTLED, frame)
                return bool(frames)
        self._pass_on(connection, frame)
        return bool(frames) and not connection.closing

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone, before the processor does."""
        frames = self._waiting.pop(connection, None)
        if frames is None:
            return
        settings = self._settings
        if settings.drop_stale and settings.stale_connection_check:
            self._drop(frames)
            return
        self.is_due = True
        for frame, _ in frames:
            self._metrics.stale_requests += settings.stale_connection_check
            self._pass_on(connection, frame)

    def _drop(self, frames: Iterable[tuple[bytes, int]]) -> None:
        for frame, _ in frames:
            self._metrics.stale_requests_dropped += 1
            self._let_go(frame)

    def drop_role(self) -> None:
        """Drop all requests: no client is served, and nothing goes to the next leader (G2 former roles)."""
        self._waiting.clear()
        self._large.clear()
        self._large_bytes = 0
        self.is_due = False
        self.next_deadline = None

    # -------------------------------------------------------------------------------------------------- large requests

    def _is_large(self, frame: bytes) -> bool:
        return 0 < self._settings.large_request_threshold_bytes < len(frame)

    def _has_room(self, size: int) -> bool:
        limit = self._settings.large_requests_bytes_max
        if self._large_bytes + size > limit:
            self._forget_those_done()
        return self._large_bytes + size <= limit

    def _forget_those_done(self) -> None:
        rows = {connection: set(map(id, connection.pending)) for connection, _, _ in self._large}
        under_way = [large for large in self._large if id(large[1]) in rows[large[0]]]
        self._large_bytes -= sum(size for _, _, size in self._large) - sum(size for _, _, size in under_way)
        self._large = under_way

    def _let_go(self, frame: bytes) -> None:
        if self._is_large(frame):
            self._large_bytes -= len(frame)

    def _pass_on(self, connection: ClientConnection, frame: bytes) -> None:
        pending = connection.pending
        last = pending[-1] if pending else None
        self._processor.receive(connection, (frame,))
        if self._is_large(frame):
            if pending and pending[-1] is not last:
                self._large.append((connection, pending[-1], len(frame)))
            else:
                self._large_bytes -= len(frame)
