"""The socket of one client: plain, or with TLS, which looks the same from outside.

Where it waits to be read from is its line (`lines`); all clients together, and their turns, are `sockets`.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from zab.host.files.open_files import OpenFiles
from zab.host.loop.lines import Line
from zab.host.loop.loop import PolledSocket
from zab.host.loop.poller import READ, WRITE
from zab.host.loop.send_queue import SendQueue
from zab.host.loop.sliced_queue import SlicedQueue
from zab.host.tls.engine import TlsSide
from zab.host.tls.tls_socket import SealedFrames
from zab.wire.client_protocol import Connection

C = TypeVar("C", bound=Connection)


class Clients(Protocol[C]):
    """All clients of a server, as one of them sees them."""

    files: OpenFiles | None
    short: Line[ClientSocket[C]]
    writable: list[ClientSocket[C]]
    has_news: bool
    has_unsent: bool

    def wait_for_room(self, client: ClientSocket[C]) -> None: ...


class ClientSocket(PolledSocket, Generic[C]):
    """The socket of one connection."""

    def __init__(self, clients: Clients[C], sock: socket.socket, connection: C, address: tuple[str, int]) -> None:
        super().__init__(sock)
        self.connection = connection
        self.queue = (
            SendQueue() if clients.files is None else SlicedQueue(clients.files, sock if self.copies_files else None)
        )
        self.host, self.port = address
        """The numeric address of the client, and its port."""
        self.is_finished = False
        """Whether all is sent and the peer was told that nothing follows."""
        self.is_paused = False
        """Whether it is not read from. The poller is told so once there is something to read."""
        self._clients = clients
        self.line: Line[ClientSocket[C]] = clients.short
        """The line that it waits in while there is something to read."""

    copies_files = True
    """Whether the kernel may copy files to the socket."""
    receive: Callable[[int], bytes]
    """Like `recv` of a socket."""
    send: Callable[[bytes | memoryview], int]
    """Like `send` of a socket. After BlockingIOError it is called again with the same bytes first."""
    sealed_bytes = 0
    """Bytes that TLS has to send, besides those of the queue."""
    idle_bytes = 0
    """Bytes that the last `receive` took from the kernel without returning any."""
    has_more = False
    """Whether there is something to receive that the poller does not announce."""

    def on_ready(self, mask: int) -> None:
        if mask & READ:
            # As `Line.add`, without a call for each request.
            waiting = self.line.waiting
            mates = waiting.get(self.host)
            if mates is None:
                mates = waiting[self.host] = OrderedDict()
            mates[self] = None
            self._clients.has_news = True
        if mask & WRITE:
            self._clients.writable.append(self)
            self._clients.has_unsent = True

    def move_to(self, line: Line[ClientSocket[C]]) -> None:
        """Move to this line, for as long as it is not moved again."""
        if self.line.remove(self):
            line.add(self)
        self.line = line

    def push(self) -> None:
        """Send as much of `sealed_bytes` as the kernel takes."""

    def finish(self) -> None:
        """Tell the peer that nothing follows; `is_finished` says whether this is done. Raises OSError."""
        self.is_finished = True
        self.socket.shutdown(socket.SHUT_WR)


class PlainSocket(ClientSocket[C]):
    """A socket without TLS. Its methods are those of the socket, so that a request costs no extra call."""

    def __init__(self, clients: Clients[C], sock: socket.socket, connection: C, address: tuple[str, int]) -> None:
        super().__init__(clients, sock, connection, address)
        self.receive = sock.recv
        self.send = sock.send


class TlsSocket(ClientSocket[C]):
    """A socket with TLS, whose handshake is done."""

    copies_files = False

    def __init__(
        self, clients: Clients[C], sock: socket.socket, connection: C, address: tuple[str, int], side: TlsSide
    ) -> None:
        super().__init__(clients, sock, connection, address)
        self._tls = SealedFrames(sock, side)
        self.send = self._tls.send

    @property
    def sealed_bytes(self) -> int:  # type: ignore[override]
        return self._tls.sealed_bytes

    @property
    def idle_bytes(self) -> int:  # type: ignore[override]
        return self._tls.idle_bytes

    @property
    def has_more(self) -> bool:  # type: ignore[override]
        return self._tls.has_more

    def receive(self, count_max: int) -> bytes:
        try:
            return self._tls.receive(count_max)
        finally:
            if self._tls.has_more:
                self.line.add(self)
            if self._tls.sealed_bytes:
                self._clients.wait_for_room(self)

    def push(self) -> None:
        self._tls.push()

    def finish(self) -> None:
        self._tls.finish()
        self.is_finished = self._tls.is_finished
