"""Single requests to a bookie, and bytes that are none: blocking sockets over our codecs.

with BookieWire(port, is_v2=True) as wire:
    wire.ask(ReadEntry(1, 0)).status
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.messages import Answer, Request
from zab.testing.kit.ports import HOST


class BookieWire:
    """A connection of one version. Everything on it is answered, or the connection is closed, within the patience."""

    def __init__(self, port: int, *, is_v2: bool) -> None:
        self.socket = socket.create_connection((HOST, port), PATIENCE_SECONDS)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.channel = ClientChannel(is_v2=is_v2)

    def ask(self, request: Request) -> Answer:
        """What the bookie answers."""
        self.send(request)
        return self.answers(1)[0]

    def send(self, *requests: Request, piece: int | None = None) -> None:
        """Send these, without waiting. piece: so many bytes at a time."""
        data = b"".join(map(self.channel.encode, requests))
        for at in range(0, len(data), piece or len(data)):
            self.socket.sendall(data[at : at + (piece or len(data))])

    def answers(self, count: int) -> list[Answer]:
        """So many answers, in the order in which they come."""
        found: list[Answer] = []
        while len(found) < count:
            data = self.socket.recv(1 << 16)
            assert data, f"the bookie closed the connection after {len(found)} of {count} answers"
            answered, error = self.channel.feed(data)
            assert error is None, error
            found += [answer for _, answer in answered]
        return found

    def is_closed_after(self, data: bytes) -> bool:
        """Whether the bookie closes the connection when it has had these bytes."""
        try:
            self.socket.sendall(data)
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()
