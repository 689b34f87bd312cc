"""A client of one bookie that blocks: requests over a real socket, in either version of the protocol."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.messages import AddEntry, Answer, Request

DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key


def envelope_of(ledger: int, entry: int, payload: bytes = b"payload", lac: int | None = None) -> bytes:
    return DIGEST.pack(Entry(ledger, entry, entry - 1 if lac is None else lac, len(payload), payload))


def add(
    ledger: int, entry: int, payload: bytes = b"payload", *, lac: int | None = None, key: bytes = KEY, **flags: bool
) -> AddEntry:
    return AddEntry(ledger, entry, key, envelope_of(ledger, entry, payload, lac), **flags)


class Wire:
    """A connection. Every wait for the bookie has a limit."""

    def __init__(self, address: str, *, is_v2: bool = True) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self.channel = ClientChannel(is_v2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, *requests: Request) -> None:
        """Send these in one piece."""
        self.socket.sendall(b"".join(map(self.channel.encode, requests)))

    def answers(self, count: int) -> list[tuple[Request, Answer]]:
        """The next answers, at least so many, each with its request. Raises TimeoutError, ConnectionError."""
        found: list[tuple[Request, Answer]] = []
        while len(found) < count:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the bookie has closed the connection")
            answered, error = self.channel.feed(data)
            assert error is None, error
            found += answered
        return found

    def ask(self, request: Request) -> Answer:
        """The answer to one request."""
        self.send(request)
        [(asked, answer)] = self.answers(1)
        assert asked == request
        return answer

    def is_closed(self) -> bool:
        """Whether the bookie closes the connection."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True


@contextlib.contextmanager
def wires(address: str) -> Iterator[tuple[Wire, Wire]]:
    """A connection in v2 and one in v3."""
    with Wire(address) as two, Wire(address, is_v2=False) as three:
        yield two, three
