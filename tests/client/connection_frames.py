"""The connection of a client, and the frames of a server for it."""

from datatree.opcodes import OpCode
from datatree.requests import PathWatch
from zab.client.core.connection import Connection
from zab.client.core.requests import ClientRequest
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import decode_body
from zab.wire.frames import frame

PASSWORD = b"p" * 16

STAT = bytes(68)


def greeting() -> ConnectRequest:
    return ConnectRequest(last_zxid=0, timeout_ms=9000, session_id=0, password=bytes(16))


def welcome(timeout_ms: int = 9000) -> bytes:
    return frame(ConnectResponse(timeout_ms, 0x77, PASSWORD).encode())


def fresh(now: int = 0) -> Connection:
    return Connection(greeting(), now=now, answer_ms=1000, frame_bytes_max=10_000)


def opened(now: int = 0) -> Connection:
    connection = fresh(now)
    connection.take(now)
    list(connection.receive(welcome(), now))
    return connection


def get(path: bytes = b"/a") -> ClientRequest[object]:
    def decode(payload: bytes, offset: int) -> object:
        return decode_body(OpCode.GET_DATA, payload, offset)

    return ClientRequest(OpCode.GET_DATA, PathWatch(path, False).encode(), decode)


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """(xid, opcode, body) of each request in what a connection wants to send."""
    found = []
    while data:
        length = int.from_bytes(data[:4], "big")
        payload, data = data[4 : 4 + length], data[4 + length :]
        xid, opcode = (int.from_bytes(payload[at : at + 4], "big", signed=True) for at in (0, 4))
        found.append((xid, opcode, payload[8:]))
    return found
