"""The sockets of client connections in the loop's poller. The service interprets the bytes.

    receive(inputs)         reads 64 KiB per connection, until the turn's budget of bytes is used up
    notice_ends(inputs)     notices ended connections, while none may be read from
    flush(dirty)            sends the joined output of each connection once
    start_tls(…)            begins TLS on a plain connection, in protocols whose clients ask for it
    accept()                at the end of a turn; new connections are inputs of the next turn, those with TLS when their
                            handshake is done (`handshakes`). Where a turn has room after it has read from all others,
                            `receive` accepts those without, and reads their greetings

The service makes the connection object (`ClientProtocol`). It collects output, and has `paused` (do not read from it
now) and `closing`; `unsent_bytes` is set to what the kernel has not taken yet. A socket is in the poller only with the
needed interest: for writing while something is unsent; not for reading while it is paused, from the moment on at which
there is something to read: most pauses end before that.

The budget: a turn should last `TURN_MS` at most (H2 turn budget). Handling bytes costs far more than receiving them, so
the number of bytes that a turn reads depends on how long the turns before it took.

Two lines: a connection that filled a whole receive has more to send, and is in the long line until it sends less; the
others are in the short line. The short line is read first, and leaves a share of the budget for the long one. So a
small request does not wait for the megabytes of others, which still make progress. Each line is fair to addresses
(`lines`), and those that were not served this time are first next time.

A TLS connection is handled like any other: its socket reads and writes plain bytes. Decrypted bytes that were not read
yet do not wake the poller, so the connection stays in its line, and the loop takes another turn at once.

Limits (besides those of the service on addresses, output and silence): one receive takes 64 KiB, a turn at most
`BUDGET_BYTES_MAX`; a connection that is to be closed after its output is closed after `CLOSING_MS` at the latest.

Not here: the socket of one client (`client_socket`), TLS itself (`tls_socket`), frames, what a connection may do.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from zab.host.files.open_files import OpenFiles
from zab.host.loop.client_socket import ClientSocket, PlainSocket, TlsSocket
from zab.host.loop.handshakes import HANDSHAKES_MAX, Handshakes
from zab.host.loop.lines import Line
from zab.host.loop.listener import Listener
from zab.host.loop.loop import Loop
from zab.host.loop.poller import READ, WRITE
from zab.host.tls.engine import TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected, ClientProtocol, Connection

RECEIVE_BYTES = 64 << 10
RECEIVE_BYTES_MIN = 4 << 10
TURN_MS = 4
BUDGET_BYTES_MIN = 16 << 10
BUDGET_BYTES_MAX = 1 << 20
LONG_SHARE = 4
"""The long line gets at least one part in this many of the budget."""
CLOSING_MS = 2_000
CLOSED_MAX = 250
"""How many connections a turn closes; the others wait for the next turns."""
ENDS_MAX = 16
"""How many connections of a line a turn checks for their end while none is read from."""


C = TypeVar("C", bound=Connection)


class ClientSockets(Generic[C]):
    """All client sockets of one server."""

    def __init__(
        self,
        loop: Loop,
        protocol: ClientProtocol[C],
        *,
        keep_alive: bool = False,
        handshakes_max: int = HANDSHAKES_MAX,
        files: OpenFiles | None = None,
    ) -> None:
        """`files`: those that the service sends slices of; None: it sends only bytes."""
        self.files = files
        self._loop = loop
        self._protocol = protocol
        self._keep_alive = keep_alive
        self._sockets: dict[C, ClientSocket[C]] = {}
        self._news: list[Any] = []
        """New and broken connections, for the next step."""
        self._closing: dict[ClientSocket[C], int] = {}
        """Connections that the service has closed, and their latest time of closing, the next one first."""
        self._timer = loop.timer(self._close_overdue)
        self._listeners: dict[Listener, TlsPolicy | None] = {}
        self.handshakes = Handshakes(loop, self._admit, self._have_news, handshakes_max)
        self.has_news = self.has_unsent = self.has_knocks = False
        """Whether there is something to receive, to send, to accept (`zab.member.ports`)."""
        self._budget_bytes = BUDGET_BYTES_MIN
        self._was_short = False
        self._room_for_ends = 0
        """How many connections may still be closed in this turn."""
        self.short: Line[ClientSocket[C]] = Line()
        self.long: Line[ClientSocket[C]] = Line()
        """The two lines of connections with something to read."""
        self.writable: list[ClientSocket[C]] = []

    @property
    def count(self) -> int:
        """How many connections the service knows."""
        return len(self._sockets)

    # ----------------------------------------------------------------------------------------------------- accepting

    def listen(self, sock: socket.socket, policy: TlsPolicy | None = None) -> None:
        """Serve clients on a listening socket, with a policy for TLS."""
        self._listeners[Listener(self._loop, sock, self._have_knocks)] = policy

    def leave(self, sock: socket.socket) -> None:
        """Stop listening on this socket, and close it. Connections stay."""
        [listener] = [each for each in self._listeners if each.socket is sock]
        del self._listeners[listener]
        self._loop.discard(listener)

    def _have_knocks(self) -> None:
        self.has_knocks = self.has_news = True

    def _have_news(self) -> None:
        self.has_news = True

    def _report(self, event: Any) -> None:
        """Report an event with the next step."""
        self._news.append(event)
        self.has_news = True

    def accept(self, now: int) -> None:
        """Accept new connections."""
        self.has_knocks = False
        for listener, policy in self._listeners.items():
            if listener.ready:
                for sock, address in listener.accept():
                    self._add(sock, address, policy, now)

    def _accept_plain(self, inputs: list[Any]) -> bool:
        """Accept those that need no handshake, and append them. False: there is none."""
        self.has_knocks = False
        for listener, policy in self._listeners.items():
            if listener.ready and policy is None:
                for sock, address in listener.accept():
                    self._add(sock, address, None, 0)
            if listener.ready:
                self.has_knocks = True
        is_any = bool(self._news)
        inputs += self._news
        self._news.clear()
        return is_any

    def _add(self, sock: socket.socket, address: tuple[str, int], policy: TlsPolicy | None, now: int) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._keep_alive:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            # It is gone already; some systems report that here.
            sock.close()
            return
        # A client with an IPv4 address is known by it, even if it came through a dual-stack socket.
        known = address[0].removeprefix("::ffff:"), address[1]
        if policy is None:
            self._admit(sock, known, None)
        else:
            self.handshakes.add(sock, known, policy, now)

    def _admit(self, sock: socket.socket, address: tuple[str, int], side: TlsSide | None) -> None:
        protocol = self._protocol
        client: ClientSocket[C]
        if side is None:
            connection = protocol.connect(*address, "")
            client = PlainSocket(self, sock, connection, address)
        else:
            connection = (protocol.secured or protocol.connect)(*address, side.subject)
            client = TlsSocket(self, sock, connection, address, side)
        self._sockets[connection] = client
        self._loop.watch(client, READ)
        self._report(ClientConnected(connection))
        # Mostly its greeting is there already.
        client.line.add(client)

    def start_tls(self, connection: C, policy: TlsPolicy, now: int) -> None:
        """Begin TLS on a plain connection, whose service has agreed to that. To the service, the plain connection is
        closed, and a new one is there once the handshake is done.

        Nothing that was received before is taken into TLS: call it in the turn in which the client asked, after
        `flush`. If the kernel has not taken all output by then, the connection is dropped.
        """
        client = self._sockets.get(connection)
        if client is None:
            return
        self._report(ClientClosed(connection))
        if client.queue.unsent_bytes:
            self._drop(client)
            return
        del self._sockets[connection]
        client.line.remove(client)
        self._loop.release(client)
        self.handshakes.add(client.socket, (client.host, client.port), policy, now)

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, inputs: list[Any], until_ns: int) -> None:
        """Append what clients sent, until the budget is used up or the monotonic clock says `until_ns`."""
        inputs += self._news
        self._news.clear()
        taken_bytes = 0
        short, long, budget_bytes = self.short, self.long, self._budget_bytes
        has_long = bool(long.waiting)
        line, until_bytes = short, budget_bytes - budget_bytes // LONG_SHARE if has_long else budget_bytes
        monotonic_ns = time.monotonic_ns
        while True:
            waiting = line.waiting
            if not waiting or taken_bytes >= until_bytes:
                if line is long or not has_long:
                    if not self.has_knocks or taken_bytes >= until_bytes or not self._accept_plain(inputs):
                        break
                    line, has_long = short, False
                    continue
                line, until_bytes = long, max(budget_bytes, taken_bytes + 1)
                continue
            # As `Line.take`.
            host, mates = waiting.popitem(last=False)
            client, _ = mates.popitem(last=False)
            if mates:
                waiting[host] = mates
            if client.is_paused:
                self._loop.watch(client, client.interest & ~READ)
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
                    client.move_to(long if has_more else short)
                # Bytes on a closing connection are dropped: only its end is waited for.
                if client not in self._closing:
                    inputs.append(ClientBytes(client.connection, data))
            elif data is not None:
                self._at_end(client, inputs)
            if monotonic_ns() >= until_ns:
                # The long line has its turn, too.
                until_bytes = taken_bytes
        self._was_short = taken_bytes >= budget_bytes
        self.has_news = bool(short.waiting or long.waiting)
        if self.handshakes.waiting:
            self.handshakes.step()
            self.has_news = bool(self.has_news or self._news or self.handshakes.waiting)

    def notice_ends(self, inputs: list[Any]) -> None:
        """Append new connections, and ended ones with nothing left to read, without reading from any: a few in a turn,
        first those that were not checked last time."""
        inputs += self._news
        self._news.clear()
        for client in list(chain(self.short.take_first(ENDS_MAX), self.long.take_first(ENDS_MAX))):
            if client.is_paused:
                self._loop.watch(client, client.interest & ~READ)
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
                client.line.add(client)
        self.has_news = bool(self.short.waiting or self.long.waiting)

    def _at_end(self, client: ClientSocket[C], inputs: list[Any]) -> None:
        """Handle the end of a connection, closed by its peer or broken."""
        if client not in self._closing:
            inputs.append(ClientClosed(client.connection))
        self._drop(client)

    def break_off(self, connection: C) -> None:
        """Break a connection, as a network does: both ends notice."""
        client = self._sockets.get(connection)
        if client is not None:
            with contextlib.suppress(OSError):
                client.socket.shutdown(socket.SHUT_RDWR)

    def adapt_budget(self, turn_ns: int) -> None:
        """Adapt the budget to the duration of a turn: read less after a long turn, more after a short one that left
        something."""
        if turn_ns > TURN_MS * 1_000_000:
            self._budget_bytes = max(BUDGET_BYTES_MIN, self._budget_bytes * 3 // 4)
        elif self._was_short and turn_ns < TURN_MS * 750_000:
            self._budget_bytes = min(BUDGET_BYTES_MAX, self._budget_bytes * 5 // 4)

    # ------------------------------------------------------------------------------------------------------- sending

    def flush(self, dirty: Iterable[C], now: int) -> None:
        """At the end of a turn: send on, pause and close the connections that the service has marked, and continue with
        unsent output."""
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
                self._report(ClientClosed(connection))
            self._drop(client)
            return
        connection.unsent_bytes = queue.unsent_bytes
        if connection.closing:
            self._close_when_sent(client, now)
        else:
            client.is_paused = connection.paused
            interest = client.interest & READ if client.is_paused else READ
            if queue.unsent_bytes or client.sealed_bytes:
                interest |= WRITE
            if interest != client.interest:
                self._loop.watch(client, interest)
                if interest & READ and client.has_more:
                    client.line.add(client)
                    self.has_news = True

    def wait_for_room(self, client: ClientSocket[C]) -> None:
        """Continue to send as soon as the kernel takes more."""
        self._loop.watch(client, client.interest | WRITE)

    def _close_when_sent(self, client: ClientSocket[C], now: int) -> None:
        """Tell the peer that nothing follows, read on, and close when the peer has closed: closing with unread bytes
        would reset the connection and lose the last answers."""
        if client not in self._closing:
            client.is_paused = False
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
        client.line.remove(client)
        self._loop.discard(client)
