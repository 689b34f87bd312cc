"""External clients: programs outside a simulated ensemble that exchange bytes with its members.

    Connection      one connection, from its dial to its end; for the member it is a client like any other
    OpenHistory     judges members when the requests of clients are unknown
    ExternalClientFaults
                    injects lost connections and expired sessions

An external client is told when something arrives; it looks at `inbox` and `state` then, or later.

    opening ──> open ──> ended          closed by the member, or lost; earlier bytes are still in the inbox
       └──────> refused                 no member listens there
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Any, Final

from datatree.record import Txn
from zab.member.clients.connection import ClientConnection
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.world.sockets import CLOSED, ClientLink


class State(Enum):
    """The state of a connection."""

    OPENING = "opening"
    OPEN = "open"
    REFUSED = "refused"
    ENDED = "ended"


class Connection:
    """One connection of an external client with a member. `number`, its end of wires, is negative like those of all
    clients."""

    def __init__(self, ensemble: Ensemble, number: int, sid: ServerId, tell: Callable[[], None]) -> None:
        """`tell` is called when something arrives, or `state` changes."""
        assert number < 0
        self.number = number
        self.sid = sid
        self.state = State.OPENING
        self.inbox: deque[bytes] = deque()
        self._ensemble = ensemble
        self._tell = tell
        self._link: ClientLink[ClientConnection] | None = None
        ensemble.schedule.after(ensemble.network.delay(number, sid), self._knock)

    def _knock(self) -> None:
        if self.state is not State.OPENING:
            return
        network = self._ensemble.network
        if not network.reaches(self.number, self.sid):
            return  # nothing comes back, as after any lost packet
        process = self._ensemble.process(self.sid)
        self._link = None if process is None else process.clients.connect(self)
        self._ensemble.schedule.after(network.delay(self.sid, self.number), self._answered)

    def _answered(self) -> None:
        if self.state is State.OPENING:
            self._became(State.REFUSED if self._link is None else State.OPEN)

    def _became(self, state: State) -> None:
        self.state = state
        self._tell()

    @property
    def session(self) -> int:
        """The session that the member has on it; 0 for none."""
        return 0 if self._link is None else self._link.connection.session

    def send(self, data: bytes) -> None:
        """Send bytes to the member; no-op once the connection has ended."""
        if self.state is State.OPEN and data:
            assert self._link is not None
            self._link.to_server.send(data, len(data))

    def close(self) -> None:
        """Close the connection from the client's side; what it has sent arrives."""
        if self._link is not None and self.state in (State.OPENING, State.OPEN):
            self._link.to_client.cut()
            self._link.to_server.send(CLOSED, 1)
        self.state = State.ENDED

    def lose(self) -> None:
        """Break the connection: bytes on their way are lost, and both ends notice."""
        link, delay = self._link, self._ensemble.network.delay(self.number, self.sid)
        if link is None or self.state is not State.OPEN:
            return
        link.to_client.cut()
        link.to_server.cut()
        process = self._ensemble.process(self.sid)
        if process is not None:
            process.later(delay, process.clients.arrived, link, CLOSED)
        self._became(State.ENDED)

    def receive(self, link: Any, data: bytes) -> None:
        """Take bytes of the member (`zab.simulator.world.sockets.ClientEnd`)."""
        if self.state not in (State.OPENING, State.OPEN):
            return
        if data == CLOSED:
            self._became(State.ENDED)
        else:
            self.inbox.append(data)
            self._tell()


class OpenHistory(History):
    """The judge of broadcast without the requests of clients, which only external clients know."""

    def _requested(self, txn: Txn) -> None:
        pass


class ExternalConnections:
    """All open connections, in the order of their dials."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._connections: list[Connection] = []

    def dial(self, number: int, sid: ServerId, tell: Callable[[], None]) -> Connection:
        connection = Connection(self._ensemble, number, sid, tell)
        self._connections = [each for each in self._connections if each.state in (State.OPENING, State.OPEN)]
        self._connections.append(connection)
        return connection

    def open(self) -> list[Connection]:
        """The connections that have a session now."""
        return [each for each in self._connections if each.state is State.OPEN and each.session]


class ExternalClientFaults:
    """Injects one fault after the other, at random, until `end`."""

    def __init__(
        self,
        ensemble: Ensemble,
        connections: ExternalConnections,
        expire: Callable[[int], object],
        rng: Random,
        gap_us: int,
    ) -> None:
        """`expire` ends a session. `gap_us` is the average time between two faults."""
        self._ensemble = ensemble
        self._external_connections = connections
        self._expire = expire
        self._rng = rng
        self._gap_us = gap_us
        self._kinds: list[str] = []
        self._is_over = False

    def start(self, kinds: list[str]) -> None:
        self._kinds = kinds
        if kinds:
            self._go_on()

    def end(self) -> None:
        self._is_over = True

    def _go_on(self) -> None:
        self._ensemble.schedule.after(int(self._gap_us * self._rng.expovariate(1)), self._next)

    def _next(self) -> None:
        if self._is_over:
            return
        possible = self._external_connections.open()
        kind = self._rng.choice(self._kinds)
        if possible:
            victim = self._rng.choice(possible)
            self._ensemble.trace.say("!", f"{kind} {victim.session:#x}")
            EXTERNAL_CLIENT_FAULTS[kind](self, victim)
        self._go_on()

    def _disconnect(self, victim: Connection) -> None:
        victim.lose()

    def _end_session(self, victim: Connection) -> None:
        self._expire(victim.session)


EXTERNAL_CLIENT_FAULTS: Final[Mapping[str, Callable[[ExternalClientFaults, Connection], None]]] = {
    "disconnect": ExternalClientFaults._disconnect,
    "expire": ExternalClientFaults._end_session,
}
