"""A service with client sockets on the loopback interface. One turn is one call of `turn`."""

import contextlib
import select
import socket
import time

import attrs
import trio

from tests.host.loop.before_a_turn import tell_what_is_ready
from zab.host.loop.listener import open_listener
from zab.host.loop.loop import Loop
from zab.host.loop.sockets import ClientSockets
from zab.wire.client_protocol import ClientConnected, ClientProtocol

FAR_NS = 1 << 62
WHEN_SENT, AT_ONCE = 1, 2


@attrs.define(eq=False)
class Client:
    """The connection object of this service."""

    host: str
    port: int
    subject: str = ""
    out: list = attrs.Factory(list)
    out_bytes: int = 0
    unsent_bytes: int = 0
    paused: bool = False
    closing: int = 0

    def take_output(self):
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces


CLIENT_PROTOCOL = ClientProtocol(Client, AT_ONCE)


class Server:
    def __init__(self, policy=None, handshakes_max=250, files=None):
        self.loop = Loop()
        self.clients = ClientSockets(self.loop, CLIENT_PROTOCOL, handshakes_max=handshakes_max, files=files)
        self.address = self.listen(policy)
        self.opened = []
        self.now = 1000

    def listen(self, policy=None):
        """Its address."""
        listening = open_listener("127.0.0.1", 0)
        self.clients.listen(listening, policy)
        return listening.getsockname()[:2]

    def turn(self, dirty=(), until_ns=FAR_NS):
        tell_what_is_ready(self.loop)
        self.loop.call_due(self.now)
        inputs = []
        self.clients.receive(inputs, until_ns)
        self.clients.flush(dirty, self.now)
        self.clients.accept(self.now)
        self.loop._close_discarded()
        return inputs

    def until(self, count):
        inputs = []
        deadline = time.monotonic() + 60
        while len(inputs) < count:
            assert time.monotonic() < deadline, inputs
            inputs += self.turn()
        return inputs

    def client(self, receive_buffer_bytes=None, source=None):
        """(the client's end, the service's connection). `source`: the address that it connects from."""
        sock = socket.socket()
        if source is not None:
            sock.bind((source, 0))
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(60)
        sock.connect(self.address)
        self.opened.append(sock)
        [connected] = self.until(1)
        assert isinstance(connected, ClientConnected)
        return sock, connected.connection

    def socket_of(self, connection):
        return self.clients._sockets[connection]


def count_in(line):
    """How many clients wait in a line."""
    return sum(map(len, line.waiting.values()))


def waits(client):
    """Whether a client waits in its line."""
    return client in client.line.waiting.get(client.host, ())


def give(connection, *pieces):
    connection.out += pieces
    connection.out_bytes += sum(map(len, pieces))


def readable(sock: socket.socket) -> None:
    """Wait until something has come."""
    assert select.select([sock], [], [], 60)[0]


def receive_exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        assert piece, "closed"
        data += piece
    return data


@contextlib.contextmanager
def running(server):
    """Closes it, and what it has opened."""
    try:
        yield server
    finally:
        for sock in server.opened:
            sock.close()

        async def close():
            server.loop.close()

        trio.run(close)
