"""A client in memory that speaks the protocol by hand, and keeps what it is told."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, Create, PathKind, PathOnly, PathVersion, PathWatch, SetData
from zab.jute.framing import request_frame
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, WatcherEvent, decode_body
from zab.member.clients.authentication import identities_of_subject
from zab.member.clients.connection import ClientConnection
from zab.member.clients.long_requests import LongRequests
from zab.member.events import Answer
from zab.member.member import Member
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.frames import FrameReader, frame


class Served(Protocol):
    """What a client needs of its server."""

    member: Member
    answers: deque[Answer]


NOTIFICATION = -1


class Client:
    """A client that speaks the protocol by hand and keeps everything that it is told, in order."""

    def __init__(self, server: Served, number: int, subject: str = "") -> None:
        """`subject`: of the certificate that TLS verified; empty: there is none."""
        self.server = server
        config = server.member.config
        longs = LongRequests(config.requests.jute_max_buffer_bytes, config.requests.oversize_request_bytes)
        frames = FrameReader(config.requests.jute_max_buffer_bytes, longs)
        self.connection = ClientConnection(number, "127.0.0.1", 40_000 + number, frames)
        self.connection.identify(*identities_of_subject(config, subject))
        self.received: list[tuple[Any, ...]] = []
        """("reply", xid, zxid, error, body), ("event", zxid, type, path), in their order."""
        self.response: ConnectResponse | None = None
        self.raw = b""
        self.is_closed = False
        self.opcodes: dict[int, int] = {}
        self.last_xid = 0
        self._frames = FrameReader(1 << 26)
        server.answers.append(ClientConnected(self.connection))

    def say(self, data: bytes) -> None:
        self.server.answers.append(ClientBytes(self.connection, data))

    def close(self) -> None:
        self.server.answers.append(ClientClosed(self.connection))

    def connect_request(
        self, session: int = 0, password: bytes = bytes(16), timeout_ms: int = 10_000, seen: int = 0
    ) -> bytes:
        return frame(ConnectRequest(seen, timeout_ms, session, password).encode())

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> bytes:
        if xid is None:
            self.last_xid += 1
            xid = self.last_xid
        self.opcodes[xid] = opcode
        return request_frame(xid, opcode, body)

    def create(self, path: bytes, data: bytes = b"", flags: int = 0, acl: Any = OPEN_ACL) -> bytes:
        return self.request(OpCode.CREATE, Create(path, data, acl, flags).encode())

    def set(self, path: bytes, data: bytes) -> bytes:
        return self.request(OpCode.SET_DATA, SetData(path, data, -1).encode())

    def get(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.GET_DATA, PathWatch(path, watch).encode())

    def exists(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.EXISTS, PathWatch(path, watch).encode())

    def children(self, path: bytes, watch: bool = False) -> bytes:
        return self.request(OpCode.GET_CHILDREN, PathWatch(path, watch).encode())

    def delete(self, path: bytes) -> bytes:
        return self.request(OpCode.DELETE, PathVersion(path, -1).encode())

    def sync(self, path: bytes = b"/") -> bytes:
        return self.request(OpCode.SYNC, PathOnly(path).encode())

    def add_watch(self, path: bytes, mode: int) -> bytes:
        return self.request(OpCode.ADD_WATCH, PathKind(path, mode).encode())

    def take(self, output: bytes) -> None:
        """What the server sent."""
        self.raw += output
        for payload in self._frames.feed(output):
            if self.response is None:
                self.response = ConnectResponse.decode(payload)
                continue
            header = ReplyHeader.decode(payload)
            if header.xid == NOTIFICATION:
                event = WatcherEvent.decode(payload)
                self.received.append(("event", header.zxid, event.type, event.path))
                continue
            body = None
            if not header.error and header.xid in self.opcodes and len(payload) > ReplyHeader.BYTES:
                body = decode_body(self.opcodes[header.xid], payload)
            self.received.append(("reply", header.xid, header.zxid, header.error, body))

    def take_received(self) -> list[tuple[Any, ...]]:
        received, self.received = self.received, []
        return received

    def replies(self) -> list[tuple[int, int, Any]]:
        """(xid, error, body) of the replies since the last look; events stay."""
        replies = [item for item in self.received if item[0] == "reply"]
        self.received = [item for item in self.received if item[0] == "event"]
        return [(xid, error, body) for _, xid, _, error, body in replies]

    def events(self) -> list[tuple[int, bytes]]:
        """(type, path) of the events since the last look; replies stay."""
        events = [item for item in self.received if item[0] == "event"]
        self.received = [item for item in self.received if item[0] == "reply"]
        return [(kind, path) for _, _, kind, path in events]
