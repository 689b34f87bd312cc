"""The tools of an attacker: sockets, and arbitrary bytes. Nothing here is polite.

At a port with TLS the attacker has a valid certificate, of a client or of a member, and sends inside TLS (`SECURED`).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datatree.requests import OPEN_ACL, Create, PathVersion, SetData
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.wire.frames import frame

HOST = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)

SECURED: dict[int, ssl.SSLContext] = {}
"""Ports with TLS, and what is shown there."""


def shown(directory: Path, trust_store: str = "truststore.pem") -> ssl.SSLContext:
    """The certificate of this holder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(directory / "keystore.pem")
    context.load_verify_locations(directory / trust_store)
    return context


def connect(port: int, *, source: str = HOST, receive_bytes: int = 0) -> socket.socket:
    """From this address, with this small a buffer."""
    sock = socket.socket()
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.settimeout(PATIENCE_SECONDS)
    try:
        sock.bind((source, 0))
        sock.connect((HOST, port))
        context = SECURED.get(port)
        return sock if context is None else context.wrap_socket(sock, server_hostname=HOST)
    except BaseException:
        sock.close()
        raise


def reset(sock: socket.socket) -> None:
    """Close with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


def is_closed_by_the_other(sock: socket.socket) -> bool:
    """Read to the end of what comes, which has to end."""
    try:
        while sock.recv(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    return True


def say(sock: socket.socket, data: bytes) -> bool:
    """Whether anybody still took it."""
    try:
        sock.sendall(data)
    except OSError:
        return False
    return True


def word(port: int, name: str) -> str:
    """The answer to a four-letter word."""
    with connect(port) as sock:
        sock.sendall(name.encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


class Frames:
    """Frames both ways on a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    def put(self, payload: bytes) -> None:
        self.sock.sendall(frame(payload))

    def get(self) -> bytes:
        """Raises EOFError."""
        length = int.from_bytes(self._take(4), "big")
        return self._take(length)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            try:
                data = self.sock.recv(1 << 20)
            except ssl.SSLError:
                data = b""
            if not data:
                raise EOFError
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def close(self) -> None:
        self.sock.close()


class Client(Frames):
    """A client of the service, with a session: a new one, or the one that is asked for."""

    def __init__(
        self,
        port: int,
        session: int = 0,
        password: bytes = bytes(16),
        *,
        timeout_ms: int = 40_000,
        last_zxid: int = 0,
        **how: Any,
    ) -> None:
        super().__init__(connect(port, **how))
        self.xid = 0
        try:
            self.put(ConnectRequest(last_zxid, timeout_ms, session, password).encode())
            self.given = ConnectResponse.decode(self.get())
        except BaseException:
            self.close()
            raise

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> bytes:
        """The next frame that asks for this."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        return frame(struct.pack(">ii", xid, opcode) + body)

    def send(self, opcode: int, body: bytes = b"", xid: int | None = None) -> None:
        self.sock.sendall(self.request(opcode, body, xid))

    def reply(self) -> tuple[int, bytes]:
        """Error and body of the next reply; notifications are skipped."""
        while True:
            payload = self.get()
            xid, _zxid, error = struct.unpack_from(">iqi", payload)
            if xid != -1:
                return error, payload[16:]

    def call(self, opcode: int, body: bytes = b"", xid: int | None = None) -> tuple[int, bytes]:
        self.send(opcode, body, xid)
        return self.reply()

    def ping(self) -> None:
        """As every client does within its timeout: anyone who says nothing for so long is taken to be gone."""
        assert self.call(11, xid=-2)[0] == 0

    def create(self, path: str, data: bytes = b"", acl: Any = OPEN_ACL, flags: int = 0) -> int:
        """The error."""
        return self.call(1, create_body(path, data, acl, flags))[0]

    def get_data(self, path: str) -> tuple[int, bytes]:
        error, body = self.call(4, text(path.encode()) + b"\0")
        return error, (body[4 : 4 + int.from_bytes(body[:4], "big")] if not error else b"")

    def set_data(self, path: str, data: bytes) -> int:
        return self.call(5, SetData(path.encode(), data, -1).encode())[0]


def create_body(path: str, data: bytes = b"", acl: Any = OPEN_ACL, flags: int = 0) -> bytes:
    return Create(path.encode(), data, acl, flags).encode()


def text(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def acl_body(entries: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """A list that no encoder of ours has looked at."""
    rows = [struct.pack(">i", bits) + text(scheme) + text(id_) for bits, scheme, id_ in entries]
    return len(rows).to_bytes(4, "big") + b"".join(rows)


def networks(count: int) -> list[tuple[int, bytes, bytes]]:
    """So many that the attacker is in none of."""
    return [(31, b"ip", b"10.%d.%d.%d" % (n >> 16, n >> 8 & 255, n & 255)) for n in range(count)]


def multi_body(parts: Iterable[tuple[int, bytes]]) -> bytes:
    """Parts that no encoder of ours has looked at."""
    said = [struct.pack(">i", opcode) + b"\0\xff\xff\xff\xff" + body for opcode, body in parts]
    return b"".join(said) + b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"


def check_body(path: str) -> bytes:
    return PathVersion(path.encode(), -1).encode()


def make_crowd(client: Client, parent: str, count: int, flags: int = 0) -> None:
    """So many children, in multis."""
    client.create(parent)
    for first in range(0, count, 1000):
        last = min(count, first + 1000)
        parts = [(1, create_body(f"{parent}/{number:06d}", flags=flags)) for number in range(first, last)]
        error, _ = client.call(14, multi_body(parts))
        assert error == 0


@contextlib.contextmanager
def clients(port: int, count: int, **how: Any) -> Iterator[list[Client]]:
    """So many, all closed at the end."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(Client(port, **how))
            stack.callback(found[-1].close)
        yield found
