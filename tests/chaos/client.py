"""A client that records: it writes, reads and syncs through one connection at a time and keeps what it was told.

It speaks the protocol itself, with plain sockets, because the checker needs what client libraries hide: the zxid of
every reply, and whether a request was surely refused or only lost. It sends bursts without waiting, so that requests
are under way when a member dies, and moves its session to another member, chosen at random, when its connection ends.

Nothing is ever sent twice: a request without a reply is `unknown` for good.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.checker import Held, Kind, Operation, Outcome

Place = tuple[str, int]
"""Where a member takes clients: host and port."""

SESSION_TIMEOUT_MS = 3000
ANSWER_SECONDS = 3.0
RETRY_SECONDS = 0.02
PAUSE_SECONDS = 0.005
BURST_MAX = 8
SHARED_PATHS = tuple(f"/chaos/shared{index}" for index in range(8))
WRONG_VERSION = 1_000_000

_GET, _SET, _SYNC, _CREATE2, _CLOSE = 4, 5, 9, 15, -11
_NO_NODE, _BAD_VERSION = -101, -103
_OPEN_ACL = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
_STAT = struct.Struct(">qqqqiiiqiiq")


class SessionExpiredError(Exception):
    """The ensemble does not know the session any more."""


@dataclass
class Session:
    """What a client keeps to come back: 0 until the first handshake."""

    number: int = 0
    session_id: int = 0
    password: bytes = bytes(16)
    last_zxid: int = 0


@dataclass(frozen=True)
class Request:
    """One operation on its way."""

    kind: Kind
    path: str
    value: str | None = None
    version: int = -1

    def body(self) -> bytes:
        if self.kind is Kind.SYNC:
            return _buffer(self.path)
        if self.kind is Kind.GET:
            return _buffer(self.path) + b"\x00"
        data = _buffer(self.path) + _buffer(self.value or "")
        return data + (
            _OPEN_ACL + struct.pack(">i", 0) if self.kind is Kind.CREATE else struct.pack(">i", self.version)
        )

    def opcode(self) -> int:
        return {Kind.GET: _GET, Kind.SET: _SET, Kind.SYNC: _SYNC, Kind.CREATE: _CREATE2}[self.kind]


class RecordingClient:
    """`run` in a thread of its own until `stop` is set; then `operations` has everything, `complaints` what was odd."""

    def __init__(self, number: int, places: Sequence[Place], seed: int) -> None:
        self.number = number
        self.operations: list[Operation] = []
        self.complaints: list[str] = []
        self.acknowledged_count = 0
        self._places = places
        self._random = random.Random(seed)
        self._session = Session()
        self._written_count = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            place = self._random.choice(self._places)
            try:
                with self._connected(place) as connection:
                    while not stop.is_set():
                        self.burst(
                            connection, [self._next_request() for _ in range(self._random.randint(1, BURST_MAX))]
                        )
                        time.sleep(PAUSE_SECONDS)
                    _send(connection, struct.pack(">ii", 0, _CLOSE))
                    _receive_frame(connection)
            except OSError:
                time.sleep(RETRY_SECONDS)
            except SessionExpiredError:
                self._session = Session()

    def once(self, place: Place, requests: Sequence[Request]) -> list[Operation]:
        """One session with one burst, closed again. Raises OSError."""
        with self._connected(place) as connection:
            recorded = self.burst(connection, requests)
            _send(connection, struct.pack(">ii", 0, _CLOSE))
            _receive_frame(connection)
            self._session = Session()
            return recorded

    def burst(self, connection: socket.socket, requests: Sequence[Request]) -> list[Operation]:
        """Sends all, then takes the replies; what has none when the connection ends is recorded as unknown."""
        session = self._session
        first = session.number + 1
        session.number += len(requests)
        start = time.monotonic()
        recorded: list[Operation] = []
        try:
            _send(connection, *(_frame(first + index, request) for index, request in enumerate(requests)))
            for index, request in enumerate(requests):
                recorded.append(self._take(connection, first + index, request, start))
        finally:
            for index, request in enumerate(requests[len(recorded) :], start=first + len(recorded)):
                recorded.append(self._operation(index, request, Outcome.UNKNOWN, start))
            self.operations += recorded
        return recorded

    def _next_request(self) -> Request:
        kind = self._random.choices(("set", "get", "sync", "create", "refused"), weights=(45, 35, 5, 10, 5), k=1)[0]
        if kind == "sync":
            return Request(Kind.SYNC, "/chaos")
        path = self._random.choice(SHARED_PATHS)
        if kind == "get":
            return Request(Kind.GET, path)
        self._written_count += 1
        value = f"{self.number}-{self._written_count}"
        if kind == "create":
            return Request(Kind.CREATE, f"/chaos/own{value}", value)
        return Request(Kind.SET, path, value, -1 if kind == "set" else WRONG_VERSION)

    def _connected(self, place: Place) -> socket.socket:
        """A connection with the session on it. Raises OSError, SessionExpiredError."""
        connection = socket.create_connection(place, ANSWER_SECONDS)
        try:
            self._shake_hands(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _shake_hands(self, connection: socket.socket) -> None:
        session = self._session
        connection.settimeout(ANSWER_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        greeting = struct.pack(">iqiqi", 0, session.last_zxid, SESSION_TIMEOUT_MS, session.session_id, 16)
        _send(connection, greeting + session.password + b"\x00")
        _version, timeout_ms, session_id, _length = struct.unpack_from(">iiqi", answer := _receive_frame(connection))
        if timeout_ms <= 0:
            raise SessionExpiredError
        session.session_id, session.password = session_id, answer[20:36]

    def _take(self, connection: socket.socket, xid: int, request: Request, start: float) -> Operation:
        frame = _receive_frame(connection)
        end = time.monotonic()
        got, zxid, error = struct.unpack_from(">iqi", frame)
        if got != xid:
            self.complaints.append(f"reply {got} where {xid} was due, session {self._session.session_id:#x}")
            raise ConnectionAbortedError
        self._session.last_zxid = max(self._session.last_zxid, zxid)
        return self._judge(xid, request, error, frame[16:], start, end, zxid)

    def _judge(
        self, number: int, request: Request, error: int, body: bytes, start: float, end: float, zxid: int
    ) -> Operation:
        if request.kind is Kind.GET and error == _NO_NODE:
            return self._operation(number, request, Outcome.OK, start, end, zxid)
        if error:
            if not (error == _BAD_VERSION and request.version == WRONG_VERSION):
                self.complaints.append(f"error {error} for {request}, session {self._session.session_id:#x}")
            return self._operation(number, request, Outcome.REFUSED, start, end, zxid)
        if request.kind is Kind.SYNC:
            return self._operation(number, request, Outcome.OK, start, end, zxid)
        value = request.value
        if request.kind is Kind.GET:
            length = struct.unpack_from(">i", body)[0]
            value = body[4 : 4 + length].decode()
        modified, version = _stat(body)
        if request.kind is not Kind.GET:
            self.acknowledged_count += 1
            if modified != zxid:
                self.complaints.append(f"reply of zxid {zxid:#x} to the write of zxid {modified:#x}: {request}")
        return self._operation(number, request, Outcome.OK, start, end, zxid, value, modified, version)

    def _operation(
        self,
        number: int,
        request: Request,
        outcome: Outcome,
        start: float,
        end: float = float("inf"),
        zxid: int = 0,
        value: str | None = None,
        modified: int = 0,
        version: int = 0,
    ) -> Operation:
        value = request.value if value is None else value
        session = self._session.session_id
        return Operation(
            self.number,
            session,
            number,
            request.kind,
            request.path,
            value,
            outcome,
            start,
            end,
            zxid,
            modified,
            version,
        )


def read_znodes(place: Place, paths: Sequence[str]) -> dict[str, Held]:
    """What the member at `place` holds of `paths`, after a sync. Raises OSError."""
    reader = RecordingClient(-1, [place], 0)
    reads = reader.once(place, [Request(Kind.SYNC, "/chaos"), *(Request(Kind.GET, path) for path in paths)])[1:]
    return {read.path: Held(read.value, read.modified, read.version) for read in reads if read.value is not None}


def _frame(xid: int, request: Request) -> bytes:
    return struct.pack(">ii", xid, request.opcode()) + request.body()


def _buffer(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _stat(body: bytes) -> tuple[int, int]:
    """(mzxid, version) of the stat at the end of a reply."""
    fields = _STAT.unpack_from(body, len(body) - _STAT.size)
    return fields[1], fields[4]


def _send(connection: socket.socket, *frames: bytes) -> None:
    connection.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))


def _receive_frame(connection: socket.socket) -> bytes:
    return _receive(connection, struct.unpack(">i", _receive(connection, 4))[0])


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("closed by the server")
        received += piece
    return received
