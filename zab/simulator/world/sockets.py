"""The connections of clients with a simulated process (`zab.host.loop.sockets`), on wires.

The connection object belongs to the service; the process sets `unsent_bytes`, and obeys its attributes
`paused` (nothing is read from it) and `closing`. A part of a file (`FileSlice`) is read when it is flushed; if that
fails, the connection is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from zab.simulator.world.network import Wire
from zab.simulator.world.process import Process
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected, ClientProtocol, Connection
from zab.wire.file_slice import FileSlice

CLOSED: Final = b""
"""The item on a client's wire that means that nothing follows."""

CLIENT_PORT: Final = 40_000


class ClientEnd(Protocol):
    """A simulated client. As an end of wires it has a negative number."""

    number: int

    def receive(self, link: Any, data: bytes) -> None:
        """Take bytes of a server, or `CLOSED`."""
        ...


ConnectionType = TypeVar("ConnectionType", bound=Connection)


class ClientLink(Generic[ConnectionType]):
    """The connection of one client with one process."""

    __slots__ = ("client", "connection", "inbox", "is_closed", "to_client", "to_server")

    def __init__(self, sockets: ClientSockets[ConnectionType], client: ClientEnd, connection: ConnectionType) -> None:
        self.client = client
        self.connection = connection
        process = sockets.process
        self.to_server = Wire(process.network, (client.number, process.sid), lambda data: sockets.arrived(self, data))
        self.to_client = Wire(process.network, (process.sid, client.number), lambda data: client.receive(self, data))
        self.inbox: deque[bytes] = deque()
        """Bytes that came while the service paused reading."""
        self.is_closed = False
        """Whether the server has closed it."""


class ClientSockets(Generic[ConnectionType]):
    """All clients of one process. Each turn calls all methods of the port, at each of which the process may end."""

    has_news = has_unsent = has_knocks = True

    def __init__(
        self,
        process: Process,
        protocol: ClientProtocol[ConnectionType],
        read: Callable[[FileSlice], bytes] | None = None,
    ) -> None:
        """`read` reads what a service sends from files, and raises OSError if that fails."""
        self.process = process
        self._protocol = protocol
        self._read = read
        self._links: dict[ConnectionType, ClientLink[ConnectionType]] = {}
        self._happened: list[tuple[ConnectionType, bool, Any]] = []
        """Connection, whether it is an end, and the event."""

    def _tell(self, connection: ConnectionType, event: Any, *, is_end: bool = False) -> None:
        self._happened.append((connection, is_end, event))
        self.process.wake(self.process.schedule.now)

    def connect(self, client: ClientEnd) -> ClientLink[ConnectionType]:
        """Connect a client."""
        link = ClientLink(self, client, self._protocol.connect(f"10.1.0.{-client.number}", CLIENT_PORT, ""))
        self._links[link.connection] = link
        self._tell(link.connection, ClientConnected(link.connection))
        return link

    def arrived(self, link: ClientLink[ConnectionType], data: bytes) -> None:
        """Take bytes of a client, or `CLOSED`."""
        if self.process.dead or link.is_closed:
            return
        if link.connection.paused:
            link.inbox.append(data)
        else:
            self._pass_on(link, data)

    def _pass_on(self, link: ClientLink[ConnectionType], data: bytes) -> None:
        if data == CLOSED:
            self._links.pop(link.connection, None)
            link.is_closed = True
            self._tell(link.connection, ClientClosed(link.connection), is_end=True)
        else:
            self.process.trace.carried(link.client.number, data)
            self._tell(link.connection, ClientBytes(link.connection, data))

    # ------------------------------------------------------------------------------------------------- what a turn uses

    def receive(self, inputs: list[Any], until_ns: int) -> None:
        """Append the events since the last turn."""
        for link in self._links.values():
            link.connection.unsent_bytes = link.to_client.queued_bytes
        inputs += [event for _, _, event in self._happened]
        self._happened.clear()

    def notice_ends(self, inputs: list[Any]) -> None:
        """Append the ends of connections that have no unread bytes."""
        waiting: list[tuple[ConnectionType, bool, Any]] = []
        said: set[ConnectionType] = set()
        for connection, is_end, event in self._happened:
            if is_end and connection not in said:
                inputs.append(event)
            else:
                said.add(connection)
                waiting.append((connection, is_end, event))
        self._happened = waiting

    def flush(self, dirty: Iterable[ConnectionType], now: int) -> None:
        """Send on and close the connections that the service has marked, and continue reading where it may."""
        self.process.called()
        for connection in list(dirty):
            link = self._links.get(connection)
            if link is None:
                continue
            is_broken = False
            if connection.closing != self._protocol.at_once and connection.out:
                try:
                    data = b"".join(map(self._bytes_of, connection.take_output()))
                except OSError as error:
                    self.process.say(f"cannot read what it sends: {error}")
                    is_broken = True
                else:
                    self.process.trace.carried(self.process.sid, data)
                    link.to_client.send(data, len(data))
                    connection.unsent_bytes = link.to_client.queued_bytes
            if is_broken:
                self._pass_on(link, CLOSED)
                link.to_client.send(CLOSED, 1)
            elif connection.closing:
                del self._links[connection]
                link.is_closed = True
                link.to_client.send(CLOSED, 1)
            elif not connection.paused:
                while link.inbox and not link.is_closed:
                    self._pass_on(link, link.inbox.popleft())

    def _bytes_of(self, piece: bytes | FileSlice) -> bytes:
        if isinstance(piece, FileSlice):
            assert self._read is not None, "the service sends no files"
            return self._read(piece)
        return piece

    def accept(self, now: int) -> None:
        """Do nothing: connections are accepted at once here."""

    def adapt_budget(self, turn_ns: int) -> None:
        """Do nothing: all input is read here."""

    def process_died(self, *, with_power: bool) -> None:
        """End all connections by the kernel; without power, clients hear nothing more."""
        for link in self._links.values():
            link.is_closed = True
            if with_power:
                link.to_client.cut()
            else:
                link.to_client.send(CLOSED, 1)
        self._links.clear()
