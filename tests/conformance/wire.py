"""Raw client connections: request frames made here byte by byte, and replies taken apart, without any code of ours.

    admin = Wire(port)                     # a session
    admin.ask(*create("/a", b"x"))         # -> Reply
    Wire(port, session=admin.session, password=admin.password)

So that two servers can be compared, `View` turns replies into plain values in which everything that may differ between
two runs is relative: zxids count from `base`, sessions have names, times are only compared with each other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from tests.rigs.waiting import PATIENCE_SECONDS

PING, AUTH, CLOSE = 11, 100, -11
NOTIFICATION_XID, PING_XID, AUTH_XID = -1, -2, -4

Request = tuple[int, bytes]
"""Opcode and body."""


# Encoding.


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def flag(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def text(value: str | bytes | None) -> bytes:
    """A string or a buffer."""
    if value is None:
        return i32(-1)
    data = value.encode() if isinstance(value, str) else value
    return i32(len(data)) + data


def vector(items: Sequence[bytes] | None) -> bytes:
    return i32(-1) if items is None else i32(len(items)) + b"".join(items)


def frame(payload: bytes) -> bytes:
    return i32(len(payload)) + payload


Acl = Sequence[tuple[int, str | None, str | None]] | None

OPEN: Acl = ((31, "world", "anyone"),)


def acl_bytes(acl: Acl) -> bytes:
    return vector(None if acl is None else [i32(perms) + text(scheme) + text(name) for perms, scheme, name in acl])


def create(path: str | None, data: bytes | None = b"", flags: int = 0, acl: Acl = OPEN, opcode: int = 1) -> Request:
    return opcode, text(path) + text(data) + acl_bytes(acl) + i32(flags)


def create_ttl(path: str, ttl_ms: int, flags: int = 5) -> Request:
    return 21, create(path, b"", flags)[1] + i64(ttl_ms)


def delete(path: str, version: int = -1) -> Request:
    return 2, text(path) + i32(version)


def exists(path: str, watch: bool = False) -> Request:
    return 3, text(path) + flag(watch)


def get(path: str | None, watch: bool = False) -> Request:
    return 4, text(path) + flag(watch)


def set_data(path: str, data: bytes | None, version: int = -1) -> Request:
    return 5, text(path) + text(data) + i32(version)


def get_acl(path: str) -> Request:
    return 6, text(path)


def set_acl(path: str, acl: Acl, version: int = -1) -> Request:
    return 7, text(path) + acl_bytes(acl) + i32(version)


def children(path: str, watch: bool = False, opcode: int = 8) -> Request:
    return opcode, text(path) + flag(watch)


def sync(path: str) -> Request:
    return 9, text(path)


def check(path: str, version: int = -1) -> Request:
    return 13, text(path) + i32(version)


def multi(*parts: Request, opcode: int = 14) -> Request:
    body = b"".join(i32(part) + flag(False) + i32(-1) + record for part, record in parts)
    return opcode, body + i32(-1) + flag(True) + i32(-1)


def check_watches(path: str, kind: int) -> Request:
    return 17, text(path) + i32(kind)


def remove_watches(path: str, kind: int) -> Request:
    return 18, text(path) + i32(kind)


def add_watch(path: str, mode: int) -> Request:
    return 106, text(path) + i32(mode)


def set_watches(zxid: int, *lists: Iterable[str]) -> Request:
    """Three lists are setWatches, five are setWatches2."""
    body = i64(zxid) + b"".join(vector([text(path) for path in paths]) for paths in lists)
    return {3: 101, 5: 105}[len(lists)], body


def auth(scheme: str, proof: bytes) -> Request:
    return AUTH, i32(0) + text(scheme) + text(proof)


def ephemerals(prefix: str | None) -> Request:
    return 103, text(prefix)


def descendants(path: str) -> Request:
    return 104, text(path)


WHO_AM_I: Request = (107, b"")
CLOSE_SESSION: Request = (CLOSE, b"")


# Decoding.


class Cursor:
    """Reads jute values one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        assert len(piece) == count, f"{self.data!r} ends early"
        self.at += count
        return piece

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def buffer(self) -> bytes | None:
        length = self.i32()
        return None if length < 0 else self.take(length)

    def text(self) -> str | None:
        data = self.buffer()
        return None if data is None else data.decode()

    def vector(self, item: Callable[[], object]) -> list[object]:
        return [item() for _ in range(max(0, self.i32()))]


class Reply(NamedTuple):
    """One frame from the server; `opcode` is that of the request that it answers, 0 for a notification."""

    xid: int
    zxid: int
    error: int
    body: bytes
    opcode: int


class ConnectionClosedError(Exception):
    """The server has closed the connection."""


class SilentError(Exception):
    """Nothing came in time."""


def connect_request(
    *,
    timeout_ms: int = 20_000,
    session: int = 0,
    password: bytes | None = bytes(16),
    last_zxid: int = 0,
    read_only: bool | None = False,
) -> bytes:
    """The payload of a ConnectRequest; read_only None leaves the last byte out."""
    tail = b"" if read_only is None else flag(read_only)
    return i32(0) + i64(last_zxid) + i32(timeout_ms) + i64(session) + text(password) + tail


class Wire:
    """A connection with a session, which is new unless one is given; with `greet` False nothing is sent at first."""

    def __init__(
        self,
        port: int,
        *,
        session: int = 0,
        password: bytes = bytes(16),
        last_zxid: int = 0,
        timeout_ms: int = 20_000,
        greet: bool = True,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.events: list[Reply] = []
        self.last_zxid = last_zxid
        self.xid = 0
        self.session = 0
        self.password = b""
        self._received = bytearray()
        self._opcodes: dict[int, list[int]] = {}
        if greet:
            request = connect_request(timeout_ms=timeout_ms, session=session, password=password, last_zxid=last_zxid)
            try:
                self.greet(request)
            except (ConnectionClosedError, SilentError):
                self.drop()
                raise

    def greet(self, payload: bytes) -> tuple[int, int, int, bytes]:
        """Send a ConnectRequest; of the answer: version, timeout, length of the password, and what follows it."""
        self.socket.sendall(frame(payload))
        answer = Cursor(self.receive_frame())
        version, timeout_ms = answer.i32(), answer.i32()
        self.session = answer.i64()
        self.password = answer.buffer() or b""
        return version, timeout_ms, len(self.password), answer.take(len(answer.data) - answer.at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the socket alone."""
        self.socket.close()

    def close_session(self) -> None:
        with contextlib.suppress(OSError, ConnectionClosedError):
            self.ask(*CLOSE_SESSION)
        self.drop()

    def encode(self, opcode: int, body: bytes, xid: int | None = None) -> bytes:
        """The frame of a request whose reply is then expected."""
        if xid is None:
            self.xid += 1
            xid = {PING: PING_XID, AUTH: AUTH_XID}.get(opcode, self.xid)
        self._opcodes.setdefault(xid, []).append(opcode)
        return frame(i32(xid) + i32(opcode) + body)

    def send(self, opcode: int, body: bytes, xid: int | None = None) -> None:
        self.socket.sendall(self.encode(opcode, body, xid))

    def ask(self, opcode: int, body: bytes, xid: int | None = None) -> Reply:
        """Send a request and return the reply; notifications before it go to `events`."""
        self.send(opcode, body, xid)
        return self.receive_reply()

    def receive_reply(self) -> Reply:
        while True:
            reply = self.receive()
            if reply.xid != NOTIFICATION_XID:
                return reply
            self.events.append(reply)

    def receive_until(self, xid: int) -> Reply:
        """The reply with this xid, which is the next one; notifications before it go to `events`."""
        reply = self.receive_reply()
        assert reply.xid == xid, f"{reply} instead of the reply {xid}"
        return reply

    def receive(self) -> Reply:
        payload = self.receive_frame()
        xid, zxid, error = struct.unpack_from(">iqi", payload)
        waiting = self._opcodes.get(xid)
        opcode = waiting.pop(0) if waiting else 0
        if zxid > 0:
            self.last_zxid = zxid
        return Reply(xid, zxid, error, payload[16:], opcode)

    def receive_frame(self) -> bytes:
        """The next payload. Raises ConnectionClosedError, or SilentError after PATIENCE_SECONDS."""
        received = self._received
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                raise SilentError from None
            except OSError as error:
                raise ConnectionClosedError from error
            if not data:
                raise ConnectionClosedError
            received += data
        end = 4 + int.from_bytes(received[:4], "big")
        payload = bytes(received[4:end])
        del received[:end]
        return payload


def take_events(wire: Wire) -> list[Reply]:
    """The notifications that came so far; a ping finds those that are on their way."""
    wire.ask(PING, b"")
    events, wire.events = wire.events, []
    return events


@dataclass
class View:
    """What a reply says, in terms that are the same on every server. `base`: the zxid before the first request."""

    base: int
    sessions: dict[int, str] = field(default_factory=dict)

    def zxid(self, zxid: int) -> int | str:
        """Relative to base; 0 and -1 mean themselves."""
        if zxid in (0, -1):
            return f"={zxid}"
        return zxid - self.base if zxid >= self.base else "old"

    def stat(self, cursor: Cursor) -> tuple[object, ...]:
        """czxid, mzxid, pzxid, times fit, version, cversion, aversion, owner, dataLength, numChildren."""
        czxid, mzxid, ctime, mtime = (cursor.i64() for _ in range(4))
        version, cversion, aversion = (cursor.i32() for _ in range(3))
        owner, length, count, pzxid = cursor.i64(), cursor.i32(), cursor.i32(), cursor.i64()
        fits = ctime == mtime if czxid == mzxid else ctime <= mtime
        zxids = (self.zxid(czxid), self.zxid(mzxid), self.zxid(pzxid))
        return (*zxids, fits, version, cversion, aversion, self.sessions.get(owner, owner), length, count)

    def reply(self, reply: Reply) -> tuple[object, ...]:
        """xid, zxid, error, and the body taken apart by its operation."""
        if reply.xid == NOTIFICATION_XID:
            cursor = Cursor(reply.body)
            return ("event", self.zxid(reply.zxid), reply.error, cursor.i32(), cursor.i32(), cursor.text())
        head = (reply.xid, self.zxid(reply.zxid), reply.error)
        if not reply.body:
            return head
        cursor = Cursor(reply.body)
        content = self.body(reply.opcode, cursor)
        assert cursor.at == len(reply.body), f"operation {reply.opcode}: more than expected in {reply.body!r}"
        return (*head, content)

    def body(self, opcode: int, cursor: Cursor) -> object:
        """The body of a successful reply."""
        if opcode in (14, 22):
            return self._parts(cursor)
        if opcode in (1, 9):
            return cursor.text()
        if opcode in (15, 19, 21):
            return cursor.text(), self.stat(cursor)
        if opcode in (3, 5, 7):
            return self.stat(cursor)
        if opcode == 4:
            return cursor.buffer(), self.stat(cursor)
        if opcode == 6:
            # What "auth" stands for comes out of a hash table there.
            entries = cursor.vector(lambda: (cursor.i32(), cursor.text(), cursor.text()))
            return sorted(entries, key=str), self.stat(cursor)
        if opcode in (8, 103):
            return sorted(map(str, cursor.vector(cursor.text)))
        if opcode == 12:
            return sorted(map(str, cursor.vector(cursor.text))), self.stat(cursor)
        if opcode == 107:
            return sorted(map(str, cursor.vector(lambda: (cursor.text(), cursor.text()))))
        if opcode in (104, 106):
            return cursor.i32()
        return cursor.take(len(cursor.data) - cursor.at)

    def _parts(self, cursor: Cursor) -> list[object]:
        parts: list[object] = []
        while True:
            kind, done, error = cursor.i32(), cursor.take(1), cursor.i32()
            if done != b"\x00":
                return [*parts, ("end", kind, error)]
            if kind == -1:
                parts.append((kind, error, cursor.i32()))
            elif kind in (2, 13):
                parts.append((kind, error))
            else:
                parts.append((kind, error, self.body(kind, cursor)))
