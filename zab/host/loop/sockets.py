"""Client connections: their sockets inside the loop's poller. What the bytes mean is the service's.

    receive(inputs)         64 KiB a connection, until the turn's budget of bytes is used up
    notice_ends(inputs)     who is gone, while nobody may be read from
    flush(dirty)            one send of the joined output for each connection that has some
    accept()                at the end of a turn; the newcomers are inputs of the next one, those of a port with TLS
                            when their handshake is done (`handshakes`)

The connection object is made by the service (`ClientProtocol`). It collects output, and says `paused` (do not read from
it now) and `closing`; it is told in `unsent_bytes` what the kernel has not taken yet. A socket is in the poller only
for what it is wanted for: for writing while something is unsent, not at all while it is paused with nothing to send.

The budget: a turn shall last `TURN_MS` at most (H2 turn budget). What the service does with bytes costs far more than
receiving them, so the number of bytes that a turn takes in follows from how long the turns before it took.

Two lines: whoever gave all that a turn asked of him has more to say, and stands in the long line until he gives less;
the others stand in the short line. The short line is read first, and leaves a share of the budget for the long one. So
a small request does not wait for the megabytes of others, and they go on, too. In each line, whoever was not served
this time is first next time.

A connection over TLS is driven as any other: its socket gives and takes what is in clear. What it has decrypted and not
given yet wakes no poller, so it stays in its line, and the loop takes another turn at once.

Limits (those of addresses, of output and of silence are the service's): one receive takes 64 KiB, a turn at most
`BUDGET_BYTES_MAX`; a connection that is to be closed when its output is sent is closed after `CLOSING_MS` at the
latest.

Not here: TLS itself (`tls_socket`), frames, what a connection may do.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Generic, TypeVar

from zab.host.loop.handshakes import HANDSHAKES_MAX, Handshakes
from zab.host.loop.listener import Listener
from zab.host.loop.loop import Loop, PolledSocket
from zab.host.loop.poller import READ, WRITE
from zab.host.loop.send_queue import SendQueue
from zab.host.tls.engine import TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.host.tls.tls_socket import SealedFrames
from zab.wire.client_protocol import ClientProtocol, Connection

RECEIVE_BYTES = 64 << 10
RECEIVE_BYTES_MIN = 4 << 10
TURN_MS = 4
BUDGET_BYTES_MIN = 16 << 10
BUDGET_BYTES_MAX = 1 << 20
LONG_SHARE = 4
"""The long line has at least this part of the budget."""
CLOSING_MS = 2_000
CLOSED_MAX = 250
"""Connections that are closed in a turn; the others in the next ones."""
ENDS_MAX = 16
"""Connections of a line that a turn looks at for their end while nobody is read from."""


C = TypeVar("C", bound=Connection)
Input = TypeVar("Input")


class ClientSocket(PolledSocket, Generic[C]):
    """The socket of one connection."""

    def __init__(self, clients: ClientSockets[C, Any], sock: socket.socket, connection: C) -> None:
        super().__init__(sock)
        self.connection = connection
        self.queue = SendQueue()
        self.is_finished = False
        """All is sent and the other side was told that nothing follows."""
        self._clients = clients
        self.line = clients.readable
        """Where it stands while there is something to read."""

    receive: Callable[[int], bytes]
    """As `recv` of a socket."""
    send: Callable[[bytes | memoryview], int]
    """As `send` of a socket. One that would block is called again with the same bytes first."""
    sealed_bytes = 0
    """What TLS has to send beyond what the queue has."""
    idle_bytes = 0
    """What the last `receive` took from the kernel without giving anything."""
    has_more = False
    """There is something to receive that the poller does not announce."""

    def on_ready(self, mask: int) -> None:
        if mask & READ:
            self.line[self] = None
            self._clients.has_news = True
        if mask & WRITE:
            self._clients.writable.append(self)
            self._clients.has_unsent = True

    def stand_in(self, line: dict[ClientSocket[C], None]) -> None:
        """From now on, and now if there is something to read."""
        if self in self.line:
            del self.line[self]
            line[self] = None
        self.line = line

    def push(self) -> None:
        """Send of `sealed_bytes` what the kernel takes."""

    def finish(self) -> None:
        """Tell the other side that nothing follows; `is_finished` says whether it is told. Raises OSError."""
        self.is_finished = True
        self.socket.shutdown(socket.SHUT_WR)


class PlainSocket(ClientSocket[C]):
    """Its methods are those of the socket, so that a request costs no call more."""

    def __init__(self, clients: ClientSockets[C, Any], sock: socket.socket, connection: C) -> None:
        super().__init__(clients, sock, connection)
        self.receive = sock.recv
        self.send = sock.send


class TlsSocket(ClientSocket[C]):
    """One whose handshake is done."""

    def __init__(self, clients: ClientSockets[C, Any], sock: socket.socket, connection: C, side: TlsSide) -> None:
        super().__init__(clients, sock, connection)
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
                self.line[self] = None
            if self._tls.sealed_bytes:
                self._clients.wait_for_room(self)

    def push(self) -> None:
        self._tls.push()

    def finish(self) -> None:
        self._tls.finish()
        self.is_finished = self._tls.is_finished


class ClientSockets(Generic[C, Input]):
    """All client sockets of one server."""

    def __init__(
        self,
        loop: Loop,
        protocol: ClientProtocol[C, Input],
        *,
        keep_alive: bool = False,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._keep_alive = keep_alive
        self._sockets: dict[C, ClientSocket[C]] = {}
        self._news: list[Input] = []
        """Newcomers, and connections that broke, for the next step."""
        self._closing: dict[ClientSocket[C], int] = {}
        """Connections that the service has let go of, and when they are closed at the latest, the next one first."""
        self._timer = loop.timer(self._close_overdue)
        self._listeners: dict[Listener, TlsPolicy | None] = {}
        self.handshakes = Handshakes(loop, self._admit, self._have_news, handshakes_max)
        self.has_news = self.has_unsent = self.has_knocks = False
        """There is something to be received, to be sent, to be accepted: see `zab.member.ports`."""
        self._budget_bytes = BUDGET_BYTES_MIN
        self._was_short = False
        self._room_for_ends = 0
        """So many connections may be closed in this turn yet."""
        self.readable: dict[ClientSocket[C], None] = {}
        self.long: dict[ClientSocket[C], None] = {}
        """The short line and the long one: connections with something to read, longest wait first."""
        self.writable: list[ClientSocket[C]] = []

    @property
    def count(self) -> int:
        """Connections that the service knows."""
        return len(self._sockets)

    # ----------------------------------------------------------------------------------------------------- accepting

    def listen(self, sock: socket.socket, policy: TlsPolicy | None = None) -> None:
        """Serve clients on a listening socket; with a policy, those whom it lets in."""
        self._listeners[Listener(self._loop, sock, self._have_knocks)] = policy

    def leave(self, sock: socket.socket) -> None:
        """Serve no new clients on this listening socket any more, and close it. Who is here stays."""
        [listener] = [each for each in self._listeners if each.socket is sock]
        del self._listeners[listener]
        self._loop.discard(listener)

    def _have_knocks(self) -> None:
        self.has_knocks = True

    def _have_news(self) -> None:
        self.has_news = True

    def _report(self, event: Input) -> None:
        """For the next step."""
        self._news.append(event)
        self.has_news = True

    def accept(self, now: int) -> None:
        """Accept new connections."""
        self.has_knocks = False
        for listener, policy in self._listeners.items():
            if listener.ready:
                for sock, address in listener.accept():
                    self._add(sock, address, policy, now)

    def _add(self, sock: socket.socket, address: tuple[str, int], policy: TlsPolicy | None, now: int) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._keep_alive:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            # It is gone already; some systems say so here.
            sock.close()
            return
        # A client of an IPv4 address is known by it, also where it came in through a socket of both kinds.
        known = address[0].removeprefix("::ffff:"), address[1]
        if policy is None:
            self._admit(sock, known, None)
        else:
            self.handshakes.add(sock, known, policy, now)

    def _admit(self, sock: socket.socket, address: tuple[str, int], side: TlsSide | None) -> None:
        connection = self._protocol.connect(*address, "" if side is None else side.subject)
        client = PlainSocket(self, sock, connection) if side is None else TlsSocket(self, sock, connection, side)
        self._sockets[connection] = client
        self._loop.watch(client, READ)
        self._report(self._protocol.connected(connection))
        if client.has_more:
            client.line[client] = None

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, inputs: list[Input], until_ns: int) -> None:
        """Append what clients sent, until the budget is used up or the monotonic clock says `until_ns`."""
        inputs += self._news
        self._news.clear()
        taken_bytes = 0
        short, long, budget_bytes = self.readable, self.long, self._budget_bytes
        has_long = bool(long)
        line, until_bytes = short, budget_bytes - budget_bytes // LONG_SHARE if has_long else budget_bytes
        received, monotonic_ns = self._protocol.received, time.monotonic_ns
        while True:
            if not line or taken_bytes >= until_bytes:
                if line is long or not has_long:
                    break
                line, until_bytes = long, max(budget_bytes, taken_bytes + 1)
                continue
            client = next(iter(line))
            del line[client]
            if not client.interest & READ:
                continue
            room_bytes = until_bytes - taken_bytes
            count_max = RECEIVE_BYTES if room_bytes > RECEIVE_BYTES else max(room_bytes, RECEIVE_BYTES_MIN)
            data: bytes | None
            try:
                data = client.receive(count_max)
            except BlockingIOError:
                data = None
                taken_bytes += client.idle_bytes
            except OSError:
                data = b""
            if data:
                taken_bytes += len(data)
                has_more = len(data) >= count_max or client.has_more
                if has_more != (line is long):
                    client.stand_in(long if has_more else short)
                # What still comes where a connection is closing is dropped: only its end is waited for.
                if client not in self._closing:
                    inputs.append(received(client.connection, data))
            elif data is not None:
                self._at_end(client, inputs)
            if monotonic_ns() >= until_ns:
                # The long line comes to its turn, too.
                until_bytes = taken_bytes
        self._was_short = taken_bytes >= budget_bytes
        self.has_news = bool(short or long)
        if self.handshakes.waiting:
            self.handshakes.step()
            self.has_news = bool(short or long or self._news or self.handshakes.waiting)

    def notice_ends(self, inputs: list[Input]) -> None:
        """Read nobody, but append newcomers, and those who are gone and left nothing to be read: a few in a turn, those
        first who were not looked at the last time."""
        inputs += self._news
        self._news.clear()
        for client in [*islice(self.readable, ENDS_MAX), *islice(self.long, ENDS_MAX)]:
            del client.line[client]
            if not client.interest & READ:
                continue
            try:
                is_at_end = not client.socket.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                is_at_end = False
            except OSError:
                is_at_end = True
            if is_at_end and not client.has_more:
                self._at_end(client, inputs)
            else:
                client.line[client] = None
        self.has_news = bool(self.readable or self.long)

    def _at_end(self, client: ClientSocket[C], inputs: list[Input]) -> None:
        """The other side sends nothing any more, or the connection is broken."""
        if client not in self._closing:
            inputs.append(self._protocol.closed(client.connection))
        self._drop(client)

    def break_off(self, connection: C) -> None:
        """Break a connection, as a network does: both ends hear of it."""
        client = self._sockets.get(connection)
        if client is not None:
            with contextlib.suppress(OSError):
                client.socket.shutdown(socket.SHUT_RDWR)

    def adapt_budget(self, turn_ns: int) -> None:
        """The turn took this long: take in less after a long one, more after a short one that left something."""
        if turn_ns > TURN_MS * 1_000_000:
            self._budget_bytes = max(BUDGET_BYTES_MIN, self._budget_bytes * 3 // 4)
        elif self._was_short and turn_ns < TURN_MS * 750_000:
            self._budget_bytes = min(BUDGET_BYTES_MAX, self._budget_bytes * 5 // 4)

    # ------------------------------------------------------------------------------------------------------- sending

    def flush(self, dirty: Iterable[C], now: int) -> None:
        """At the end of a turn: send, pause, and close what the service has marked, and go on with what was unsent."""
        writable, self.writable = self.writable, []
        self.has_unsent = False
        self._room_for_ends = CLOSED_MAX
        for connection in dirty:
            client = self._sockets.get(connection)
            if client is not None:
                self._flush(client, now)
        for client in writable:
            if not client.gone and (client.queue.unsent_bytes or client.sealed_bytes or client.connection.closing):
                self._flush(client, now)

    def _flush(self, client: ClientSocket[C], now: int) -> None:
        connection, queue = client.connection, client.queue
        if connection.closing:
            if not self._room_for_ends:
                self.writable.append(client)
                self.has_unsent = self.has_news = True
                return
            self._room_for_ends -= 1
            if connection.closing == self._protocol.at_once:
                self._drop(client)
                return
        try:
            if connection.out:
                size_bytes = connection.out_bytes
                queue.flush(client.send, connection.take_output(), size_bytes)
            elif queue.unsent_bytes:
                queue.flush(client.send)
            elif client.sealed_bytes:
                client.push()
        except OSError:
            if client not in self._closing:
                self._report(self._protocol.closed(connection))
            self._drop(client)
            return
        connection.unsent_bytes = queue.unsent_bytes
        if connection.closing:
            self._close_when_sent(client, now)
        else:
            interest = 0 if connection.paused else READ
            if queue.unsent_bytes or client.sealed_bytes:
                interest |= WRITE
            if interest != client.interest:
                self._loop.watch(client, interest)
                if interest & READ and client.has_more:
                    client.line[client] = None
                    self.has_news = True

    def wait_for_room(self, client: ClientSocket[C]) -> None:
        """Go on with what it has to send as soon as the kernel takes it."""
        self._loop.watch(client, client.interest | WRITE)

    def _close_when_sent(self, client: ClientSocket[C], now: int) -> None:
        """A close with unread bytes would reset the connection and lose the last answers: say that nothing
        follows, read on, and close when the other side has closed."""
        if client not in self._closing:
            self._closing[client] = now + CLOSING_MS
            self._timer.set(now + CLOSING_MS)
        if client.queue.unsent_bytes or client.sealed_bytes:
            self._loop.watch(client, READ | WRITE)
            return
        if not client.is_finished:
            try:
                client.finish()
            except OSError:
                self._drop(client)
                return
        self._loop.watch(client, READ if client.is_finished else READ | WRITE)

    # ------------------------------------------------------------------------------------------------------- closing

    def _close_overdue(self, now: int) -> None:
        overdue = (client for client, deadline in self._closing.items() if now >= deadline)
        for client in list(islice(overdue, CLOSED_MAX)):
            self._drop(client)
        if self._closing:
            self._timer.set(max(now + 1, next(iter(self._closing.values()))))

    def _drop(self, client: ClientSocket[C]) -> None:
        del self._sockets[client.connection]
        self._closing.pop(client, None)
        client.line.pop(client, None)
        self._loop.discard(client)
