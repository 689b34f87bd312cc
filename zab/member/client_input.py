"""Input from clients: connections, bytes and ends. Bytes become frames, which are handshakes, requests or words.

While a batch is applied in part, input waits, since nobody may look at the tree; only connections that have nothing
waiting are forgotten at once.

Not here: requests (`processor`), handshakes (`sessions`), words (`four_letter`), limits (`limits`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from zab.member.clients.connection import ClientConnection, Closing, Stage
from zab.member.requests.limits import NOTED_BYTES_MIN, NOTED_COUNT_MIN, Limits
from zab.member.requests.processor import Processor
from zab.member.requests.request_throttle import RequestThrottle
from zab.member.requests.serving import Serving
from zab.member.words.four_letter import FourLetterWords
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.frames import LENGTH_BYTES, FrameError

FromClient: TypeAlias = (
    ClientConnected[ClientConnection] | ClientBytes[ClientConnection] | ClientClosed[ClientConnection]
)
E = TypeVar("E", bound=FromClient)


def _on(kind: type[E], take: Callable[[E], None]) -> tuple[type[object], Callable[[Any], None]]:
    return kind, take


class ClientInput:
    """The input of one member's clients that has not been handled yet."""

    def __init__(
        self,
        processor: Processor,
        throttle: RequestThrottle | None,
        limits: Limits,
        serving: Serving,
        words: FourLetterWords,
    ) -> None:
        self._state = processor.state
        self._clock = processor.state.clock
        self._clients = processor.clients
        self._metrics = processor.metrics
        self._sessions = processor.sessions
        self._intake = processor.intake
        self._processor = processor
        self._receive = (throttle or processor).receive
        self._limits = limits
        self._serving = serving
        self._words = words
        self.waiting: list[FromClient] = []
        """Events in the order of arrival: the turn handles them once it has applied what it can."""
        self._handlers = dict(
            (
                _on(ClientConnected, self._on_connected),
                _on(ClientBytes, self._on_bytes),
                _on(ClientClosed, self._on_closed),
            )
        )

    def take(self) -> None:
        """Handle all events that wait."""
        waiting, self.waiting = self.waiting, []
        for event in waiting:
            self._handlers[type(event)](event)

    def closed_between_states(self, event: ClientClosed[ClientConnection]) -> None:
        """Close at once a connection that sent nothing more before its end: nothing is sent to it from now on."""
        connection = event.connection
        if connection.is_ours and all(other.connection is not connection for other in self.waiting):
            self._on_closed(event)
        else:
            self.waiting.append(event)

    def _on_connected(self, event: ClientConnected[ClientConnection]) -> None:
        event.connection.established = self._clock.wall
        if not self._clients.admit(event.connection):
            self._metrics.connection_rejected += 1

    def _on_closed(self, event: ClientClosed[ClientConnection]) -> None:
        self._clients.close(event.connection)

    def _on_bytes(self, event: ClientBytes[ClientConnection]) -> None:
        connection = event.connection
        if connection.closing or not connection.is_ours:
            return
        is_greeted = connection.stage is not Stage.GREETING
        if is_greeted:
            # The bytes of an unfinished handshake do not count: sent one by one, they would keep the connection open.
            connection.idle_ticks = 0
        elif connection.answering is not None:
            return
        self._metrics.bytes_received_count += len(event.data)
        try:
            frames = connection.frames.feed(event.data) if is_greeted else connection.first_cut(event.data)
        except FrameError as error:
            self._on_no_frame(connection, error)
            return
        if frames:
            if connection.large_frame_bytes:
                self._limits.large.forget(connection)
            self._on_frames(connection, frames)
            if waiting_count := len(connection.pending):
                came_bytes = len(event.data)
                if came_bytes > NOTED_BYTES_MIN or waiting_count > NOTED_COUNT_MIN:
                    self._limits.keep_waiting(connection, came_bytes)
        else:
            self._limits.keep_unfinished(connection)
        if self._intake.is_stalled and (connection.pending or connection.frames.kept_bytes):
            self._limits.hold_stalled(connection, len(event.data), passes_small=self._intake.passes_small)

    def _on_no_frame(self, connection: ClientConnection, error: FrameError) -> None:
        """Handle bytes that are no valid frame length. At the start of a connection they may be a four-letter word."""
        word = error.length.to_bytes(LENGTH_BYTES, "big", signed=True)
        if connection.stage is Stage.GREETING and not error.frames and self._words.on_word(connection, word):
            return
        self._metrics.large_requests_rejected += 1
        if error.frames:
            self._on_frames(connection, error.frames)
        self._clients.close(connection, Closing.FLUSHED)

    def _on_frames(self, connection: ClientConnection, frames: list[bytes]) -> None:
        self._metrics.packets_received += len(frames)
        connection.received_count += len(frames)
        if connection.stage is Stage.SERVED:
            waits = bool(connection.pending)
            if self._clock.now >= connection.touched_until:
                self._sessions.touches.touch(connection, self._clock.now)
            self._receive(connection, frames)
            if waits and self._limits.is_loaded(
                self._processor.waiting.outstanding_count, self._intake.is_stalled and not self._intake.passes_small
            ):
                self._limits.hold_loaded(connection)
        elif connection.stage is Stage.CONNECTING:
            connection.held += frames
        elif self._serving.takes_clients:
            connection.held = frames[1:]
            applied = max(self._state.tree.applied, self._serving.begins_at)
            self._sessions.connect(connection, frames[0], applied, self._state.tree.sessions, self._clock.now)
        else:
            self._metrics.cnxn_closed_without_zk_server_running += 1
            self._clients.close(connection)
