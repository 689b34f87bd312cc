"""A simulated client, which speaks ZooKeeper's wire protocol with the real codecs, and judges every answer.

It connects to any server, keeps its session across connections like a real client (xids start again on each connection,
watches are moved with setWatches, a server that lags what the client has seen refuses it), has several requests under
way, pings when it is silent, and leaves a server that does not answer for two thirds of its timeout.

It misbehaves at the rates of the run's profile: it breaks its connection, moves to another server, goes silent until
its session is over, stops reading, or closes its session and begins a new one.

Not here: its requests (`requests`), and the right answers (`session_checker`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from random import Random
from typing import Any, Final

from datatree.opcodes import OpCode
from zab.jute.framing import FRAME_BYTES_MAX, NOTIFICATION_XID, PING_XID, request_frame
from zab.jute.handshake import NO_PASSWORD, ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, WatcherEvent
from zab.member.clients.connection import ClientConnection
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.judges.requests import Asked, Requests
from zab.simulator.ensemble.judges.session_checker import SessionChecker
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.world.schedule import MS
from zab.simulator.world.sockets import CLOSED, ClientLink
from zab.simulator.world.verdict import SafetyError
from zab.wire.frames import FrameReader, frame

BURST_MAX: Final = 6
OUTSTANDING_MAX: Final = 20
SET_WATCHES_XID: Final = -8
MOSTLY: Final = {"deposing": "sync", "returning": "set"}
"""The most frequent request of clients, in runs with a focus."""
PER_MILLE: Final = 1000


class Client:
    """One client. As an end of wires it has a negative number, while servers have their ids."""

    def __init__(
        self, ensemble: Ensemble, number: int, rng: Random, kept_requests: Collection[int] | None = None
    ) -> None:
        """`kept_requests` are the numbers, from 1, of the drawn requests that it sends; None: all."""
        assert number < 0
        profile = ensemble.profile
        self.number = number
        self.name = f"c{-number}"
        self._ensemble = ensemble
        self._schedule = ensemble.schedule
        self._profile = profile
        self._rng = rng
        self._observer = ensemble.observer
        self._requests = Requests(
            rng, -number, profile.tick_ms, long_data=profile.long_data, mostly=MOSTLY.get(profile.focus, "")
        )
        self.checker = SessionChecker(self.name, ensemble.observer.history)
        self._tick_us = profile.tick_us
        self._timeout_ms = profile.session_ticks * profile.tick_ms
        self._is_impatient = profile.focus == "returning"
        """Whether it goes back and forth between two servers, without waiting for an answer."""
        self._is_reader = -number <= profile.readers
        self._servers = rng.sample(profile.sids, 2) if self._is_impatient else []
        self.session = 0
        self._password = NO_PASSWORD
        self._xid = 0
        """The last xid on the current connection."""
        self._kept_requests = kept_requests
        self.wishes_count = 0
        """How many requests it has drawn."""
        self._asked_count = 0
        """How many requests it has sent on all connections."""
        self._link: ClientLink[ClientConnection] | None = None
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self.is_connected = False
        """Whether the session is established on the current connection."""
        self.outstanding: deque[Asked] = deque()
        self._to_restore: Any = None
        self._heard_at = 0
        self._attempt = 0
        self._failed_count = 0
        """Failed attempts since it was last connected."""
        self.is_silent = False
        """Whether it is silent for a while."""
        self.is_gone = False
        """Whether it is silent for good."""
        self.has_faults = True
        self.acknowledged_count = 0
        self.is_asking = True
        """Whether it draws requests; at the end of the run it only sends what it is told."""
        self._wishes: deque[tuple[int, Any]] = deque(self._requests.first() if number == -1 else ())

    def start(self) -> None:
        self._schedule.after(int(self._tick_us * self._rng.random()), self._connect)
        self._schedule.after(self._tick_us, self._think)
        self._schedule.after(self._tick_us, self._look_after)

    # ------------------------------------------------------------------------------------------------------ connecting

    def _connect(self) -> None:
        if self._link is not None or self.is_silent:
            return
        self._attempt += 1
        if self._is_impatient and self.has_faults:
            sid = self._servers[self._attempt % 2]
        else:
            sid = self._rng.choice(self._profile.sids)
        there = self._ensemble.network.delay(self.number, sid)
        self._schedule.after(there, self._knock, sid, self._attempt)

    def _knock(self, sid: ServerId, attempt: int) -> None:
        if self._link is not None or attempt != self._attempt or self.is_silent:
            return
        process = self._ensemble.process(sid)
        if process is None or not self._ensemble.network.reaches(self.number, sid):
            self._connect_later()
            return
        self._link = process.clients.connect(self)
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._heard_at = self._schedule.now
        self.is_connected = False
        self._line(f"connects to {sid} with session {self.session:#x}, seen {self.checker.seen:#x}")
        request = ConnectRequest(self.checker.seen, self._timeout_ms, self.session, self._password, self._is_reader)
        self._send(frame(request.encode()))
        if self._is_impatient and self.has_faults:
            self._schedule.after(int(self._tick_us * self._rng.random() ** 3), self._lose_patience, self._link)

    def _lose_patience(self, link: ClientLink[ClientConnection]) -> None:
        """Leave a connection that works, or that has not answered yet."""
        if self._link is link and self.has_faults and not self.is_silent:
            self._disconnect()

    def _connect_later(self) -> None:
        """Try again: almost at once at first, then after increasing waits."""
        self._failed_count += 1
        wait = self._tick_us * min(0.04 * 2**self._failed_count, 1.5)
        self._schedule.after(int(wait * (0.2 + self._rng.random())), self._connect)

    def _line(self, text: str) -> None:
        if self._ensemble.trace.sink is not None:
            self._ensemble.trace.line(self.name, text)

    def _connected(self, response: ConnectResponse) -> None:
        self._line(f"is connected: session {response.session_id:#x}, timeout {response.timeout_ms} ms")
        if response.timeout_ms == 0:
            if not self._observer.history.may_be_over(self.session):
                raise SafetyError(
                    "sessions", f"{self.name}: session {self.session:#x} is said to be over, and it lives"
                )
            self._observer.count("sessions expired")
            self._forget_session()
            self._disconnect()
            return
        if self.session and response.session_id != self.session:
            raise SafetyError("sessions", f"{self.name}: asked for {self.session:#x}, got {response.session_id:#x}")
        if self.session:
            self._observer.count("sessions moved")
        self.session, self._password = response.session_id, response.password
        self.is_connected = True
        if response.read_only and not self._is_reader:
            raise SafetyError("sessions", f"{self.name} did not ask for a server without a quorum")
        self.checker.is_read_only = response.read_only
        self._observer.count("read-only connections", response.read_only)
        self._xid = 0
        self._failed_count = 0
        self._schedule.after(int(self._tick_us * 0.1 * self._rng.random()), self._burst)
        self._to_restore = self.checker.watches.request(self.checker.seen)
        self.checker.connected()
        if self._to_restore is not None:
            restoring = self._request(SET_WATCHES_XID, int(OpCode.SET_WATCHES2), self._to_restore)
            self._send(request_frame(SET_WATCHES_XID, restoring.opcode, self._to_restore.encode()))

    def _forget_session(self) -> None:
        self.session, self._password = 0, NO_PASSWORD
        self.checker.connected()
        self._to_restore = None

    def begin_anew(self) -> None:
        """Start again, since the lineage of its session is over."""
        self._line("starts again")
        self._disconnect()
        self._forget_session()
        self.checker = SessionChecker(self.name, self._observer.history)

    def disconnect(self) -> None:
        """Break the connection, and connect elsewhere."""
        self._disconnect()

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None and not link.to_server.closed:
            link.to_client.cut()
            link.to_server.send(CLOSED, 1)
        self._lost()

    def _lost(self) -> None:
        """Handle a lost connection: unanswered requests may or may not have been done."""
        self._line("has lost its connection")
        self._link = None
        if any(asked.xid == SET_WATCHES_XID for asked in self.outstanding):
            # It does not matter whether these watches reached the server: they ended with the connection.
            self.checker.watches.adopt(self._to_restore)
        self.is_connected = False
        self.outstanding.clear()
        self._connect_later()

    # ---------------------------------------------------------------------------------------------------------- asking

    def _send(self, data: bytes) -> None:
        assert self._link is not None
        self._link.to_server.send(data, len(data))

    def ask(self, opcode: int, body: Any) -> None:
        """Send one request."""
        self._send(self._asked(opcode, body))

    def _request(self, xid: int, opcode: int, body: Any) -> Asked:
        """Add a request to those that wait for answers."""
        history = self._observer.history
        self._asked_count += 1
        asked = Asked(self.session, self._asked_count, xid, opcode, body, self._schedule.now, history.told)
        self.outstanding.append(asked)
        if asked.is_write:
            history.ask(asked)
        return asked

    def _asked(self, opcode: int, body: Any) -> bytes:
        self._xid += 1
        asked = self._request(self._xid, opcode, body)
        self._observer.recorder.asked(self.name, asked)
        if self._ensemble.trace.sink is not None:
            self._line(f"asks {OpCode(opcode).name} xid {self._xid} {described(body)}")
        return request_frame(self._xid, opcode, body.encode())

    def _think(self) -> None:
        """Send a burst of requests, or misbehave."""
        self._schedule.after(int(self._profile.think_us * (0.2 + 1.6 * self._rng.random())), self._think)
        if self.is_connected and self.is_asking and not (self.has_faults and self._misbehave()):
            self._burst()

    def _burst(self) -> None:
        """Send some requests, all in one segment."""
        if not self.is_connected or not self.is_asking:
            return
        pieces = []
        for _ in range(self._rng.randrange(1, BURST_MAX)):
            if len(self.outstanding) < OUTSTANDING_MAX:
                opcode, body = self._wishes.popleft() if self._wishes else self._requests.draw()
                self.wishes_count += 1
                if self._kept_requests is None or self.wishes_count in self._kept_requests:
                    pieces.append(self._asked(opcode, body))
        if pieces:
            self._send(b"".join(pieces))

    def write(self) -> None:
        """Send a write that succeeds in every state."""
        if self.is_connected and not self.outstanding:
            self.ask(*self._requests.write())

    def _look_after(self) -> None:
        """Ping when silent; leave a server that does not answer."""
        self._schedule.after(self._timeout_ms * MS // 3, self._look_after)
        if self._link is None or self.is_silent:
            return
        if self._schedule.now - self._heard_at > self._timeout_ms * MS * 2 // 3:
            self._disconnect()
        elif self.is_connected:
            self._send(request_frame(PING_XID, int(OpCode.PING), b""))

    # ------------------------------------------------------------------------------------------------------ misbehaving

    def _misbehave(self) -> bool:
        for kind, weight in self._profile.client_faults.items():
            if self._rng.randrange(PER_MILLE) < 12 * weight:
                self._observer.count(f"client fault: {kind}")
                _MISBEHAVE[kind](self)
                return True
        return False

    def _move(self) -> None:
        """Go elsewhere, and leave the old connection open, which that server has to notice."""
        assert self._link is not None
        self._link.to_client.cut()
        self._lost()

    def _stay_silent(self) -> None:
        """Go silent for long enough that the session ends, or nearly does."""
        self.is_silent = True
        self._schedule.after(int(self._timeout_ms * MS * (0.5 + 2 * self._rng.random())), self.wake)

    def wake(self) -> None:
        """End the silence."""
        if self.is_silent and not self.is_gone:
            self.is_silent = False
            self._disconnect()

    def _stall(self) -> None:
        """Read nothing for a while: what the server sends waits there."""
        assert self._link is not None
        pair = self._link.to_client.pair
        network = self._ensemble.network
        network.block(*pair)
        self._schedule.after(int(self._tick_us * 3 * self._rng.random()), network.unblock, *pair)

    def _close_session(self) -> None:
        self._xid += 1
        self._request(self._xid, int(OpCode.CLOSE_SESSION), None)
        self._send(request_frame(self._xid, int(OpCode.CLOSE_SESSION), b""))

    # --------------------------------------------------------------------------------------------------------- hearing

    def receive(self, link: ClientLink[ClientConnection], data: bytes) -> None:
        """Take bytes of a server, or `CLOSED`."""
        if link is not self._link or self.is_silent:
            return
        if data == CLOSED:
            link.to_server.cut()
            self._lost()
            return
        self._heard_at = self._schedule.now
        for payload in self._frames.feed(data):
            if self._link is not link:
                return
            if self.is_connected:
                self._message(payload)
            else:
                self._connected(ConnectResponse.decode(payload))

    def _message(self, payload: bytes) -> None:
        header = ReplyHeader.decode(payload)
        if header.xid == NOTIFICATION_XID:
            event = WatcherEvent.decode(payload)
            self._observer.count("watch events")
            self.checker.event(header.zxid, event.type, event.path)
        elif header.xid == PING_XID:
            self.checker.told(header.zxid)
        else:
            self._reply(header, payload)

    def _reply(self, header: ReplyHeader, payload: bytes) -> None:
        asked = self.outstanding.popleft() if self.outstanding else None
        if asked is None or asked.xid != header.xid:
            raise SafetyError("order", f"{self.name}: a reply to xid {header.xid}, expected is {asked}")
        self._line(f"xid {header.xid} is answered at {header.zxid:#x}, error {header.error}")
        if asked.opcode == OpCode.CLOSE_SESSION:
            self.checker.told(header.zxid)
            self._observer.count("sessions closed")
            self._forget_session()
            self._disconnect()
            return
        self._observer.recorder.replied(asked, header, payload, self._schedule.now)
        self.checker.reply(asked, header, payload)
        if asked.is_write:
            self._observer.count("writes refused" if header.error else "writes acknowledged")
            if not header.error:
                self.acknowledged_count += 1
        else:
            self._observer.count("reads answered")


_MISBEHAVE: Final = {
    "leave": Client._disconnect,
    "move": Client._move,
    "silent": Client._stay_silent,
    "stall": Client._stall,
    "close": Client._close_session,
}
