"""Decides which election connections a server keeps, and which vote it sends on which. Uses no sockets.

    call of the driver              effects
    start, meet, waited         ->  Dial, Wait, Abandon
    reached, refused            ->  Tell (a link is up or down), Send, Wait
    admitted                    ->  Close (a refused one, or an older one), Dial
    send, sent, closed          ->  Send, Dial

A server dials every other server that it knows, and sends its votes on the connection that it opened; on connections
that others opened it only receives. So no pair has to agree which of two connections survives.

Rules:
- Only the newest vote to a server waits; an older unsent one is replaced. A vote that was under way when a connection
  ended is sent on the next one, unless there is a newer one.
- A closed connection is dialled again at once, then after 20 ms, doubling up to 1 s. A server that has connected to
  this one is dialled at once, since it is up.
- A link is reported as down when a dial is refused, once for each relevant reason, and not when it closes.
- Of the connections that a server has opened, only the newest is read.
- The process that listens at the address of a server is that server. Another process that proves to have the same id is
  not read: first the address is dialled again, since the server may have restarted, and from then on the other process
  is refused with a hint to check its myid. If nothing listens at the address, the newest connection counts.
- An unlisted server, one in no configuration, cannot be dialled. It is answered on the connection that it opened.

The driver carries out the effects in their order. A connection is any object of the driver's. It calls `closed` once
for each connection, whether or not this module asked to close it.

Not here: the handshake, sockets, parsing of votes (`election_receiver`), what votes mean
(`zab.protocol.election`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from random import Random
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from zab.protocol.effects import SendNotification
from zab.protocol.events import ElectionLinkDown, ElectionLinkUp
from zab.quorum.ids import ServerId
from zab.wire.handshake import taken

REDIAL_MS_MIN: Final = 20.0
REDIAL_MS_MAX: Final = 1000.0
REDIAL_SPREAD: Final = (0.8, 1.2)
"""A wait is shorter or longer by a random factor, so that two servers that lost each other do not dial in step."""
UNLISTED_MAX = 64
"""How many unlisted may be connected at a time."""

Connection = TypeVar("Connection", bound=Hashable)


class Place(Protocol):
    """The address of a server. Equal places are the same address."""

    @property
    def text(self) -> str: ...


@attrs.frozen
class Dial:
    """Dial this server, and report the outcome with `reached` or `refused`."""

    sid: ServerId
    attempt: int


@attrs.frozen
class Wait:
    """Call `waited` after this time."""

    sid: ServerId
    attempt: int
    ms: float


@attrs.frozen
class Abandon:
    """Give up this attempt: its outcome is ignored."""

    attempt: int


@attrs.frozen
class Send(Generic[Connection]):
    """Send this vote, then call `sent`. No other vote is under way on the connection."""

    connection: Connection
    vote: SendNotification


@attrs.frozen
class Close(Generic[Connection]):
    """Close this connection, and ignore what still arrives on it. `reason`: why it is refused, if it is."""

    connection: Connection
    reason: str = ""


@attrs.frozen
class Tell:
    """Hand this event to the member."""

    event: ElectionLinkUp | ElectionLinkDown


Effect: TypeAlias = Dial | Wait | Abandon | Send[Connection] | Close[Connection] | Tell


@attrs.define
class _Outbox(Generic[Connection]):
    """The votes for one server, and its connection while there is one."""

    connection: Connection | None = None
    newest: SendNotification | None = None
    under_way: SendNotification | None = None

    def next(self) -> list[Effect[Connection]]:
        if self.connection is None or self.under_way is not None or self.newest is None:
            return []
        self.under_way, self.newest = self.newest, None
        return [Send(self.connection, self.under_way)]

    def close(self) -> None:
        if self.newest is None:
            self.newest = self.under_way
        self.connection = self.under_way = None


@attrs.define
class _Other(Generic[Connection]):
    """A known server, and the connection to it."""

    place: Place
    outbox: _Outbox[Connection] = attrs.Factory(_Outbox)
    attempt: int | None = None
    """The number of the current wait or dial."""
    is_waiting: bool = False
    has_connected: bool = False
    """Whether it has opened a connection to this server since the current dial began."""
    wait_ms: float = REDIAL_MS_MIN
    told: tuple[bool, bool] | None = None
    """The reason with which its link was reported as down; None if it was not reported."""
    life: bytes = b""
    """The process at its address, while the connection is open; empty if it is not known."""
    double: bytes = b""
    """The life of another process that has proven to have this id, but was not at the address."""


@attrs.define
class _Inbound(Generic[Connection]):
    """The connection on which a server sends."""

    connection: Connection
    life: bytes
    """The process that opened it; empty if it is not known."""
    outbox: _Outbox[Connection] | None
    """The votes for an unlisted server; None for other servers."""


class ElectionConnections(Generic[Connection]):
    """The election connections of one server. `others` has the address of each other server."""

    def __init__(self, others: Mapping[ServerId, Place], rng: Random) -> None:
        self._rng = rng
        self._others: dict[ServerId, _Other[Connection]] = {sid: _Other(place) for sid, place in others.items()}
        self._inbound: dict[ServerId, _Inbound[Connection]] = {}
        self._sids: dict[Connection, ServerId] = {}
        """The server of each connection that counts."""
        self._is_started = False
        self._attempts_count = 0

    def start(self) -> list[Effect[Connection]]:
        self._is_started = True
        return [self._dial(sid, other) for sid, other in self._others.items()]

    def meet(self, others: Mapping[ServerId, Place]) -> list[Effect[Connection]]:
        """Replace the known servers."""
        effects: list[Effect[Connection]] = []
        for sid, other in list(self._others.items()):
            if others.get(sid) != other.place:
                del self._others[sid]
                if other.attempt is not None:
                    effects.append(Abandon(other.attempt))
                if other.outbox.connection is not None:
                    effects.append(self._close(other.outbox.connection))
            if sid not in others and sid in self._inbound:
                # An unlisted server opened it, to be answered on it; a known server is dialled, and opens another one.
                effects.append(self._close(self._inbound.pop(sid).connection))
        for sid in sorted(others.keys() - self._others.keys()):
            other = self._others[sid] = _Other(others[sid])
            if self._is_started:
                effects.append(self._dial(sid, other))
        return effects

    # ------------------------------------------------------------------------------------------------------- dialling

    def waited(self, sid: ServerId, attempt: int) -> list[Effect[Connection]]:
        """Dial after a `Wait`."""
        other = self._attempting(sid, attempt)
        return [] if other is None else [self._dial(sid, other)]

    def refused(
        self, sid: ServerId, attempt: int, *, knows_us: bool = True, is_taken: bool = False
    ) -> list[Effect[Connection]]:
        """Handle a dial that failed. The other arguments are those of `ElectionLinkDown`."""
        other = self._attempting(sid, attempt)
        if other is None:
            return []
        effects: list[Effect[Connection]] = []
        if other.told != (knows_us, is_taken):
            other.told = knows_us, is_taken
            effects.append(Tell(ElectionLinkDown(sid, knows_us, is_taken)))
        wait_ms = other.wait_ms * self._rng.uniform(*REDIAL_SPREAD)
        other.wait_ms = min(2 * other.wait_ms, REDIAL_MS_MAX)
        if other.has_connected:
            effects.append(self._dial(sid, other))
        else:
            other.is_waiting = True
            effects.append(Wait(sid, attempt, wait_ms))
        return effects

    def reached(
        self, sid: ServerId, attempt: int, connection: Connection, life: bytes, round_trip_ms: int
    ) -> list[Effect[Connection]]:
        """Handle a dial that led to this connection with a process of this life. The dial may have been given up
        before."""
        other = self._attempting(sid, attempt)
        if other is None:
            return [Close(connection)]
        other.attempt, other.told, other.wait_ms = None, None, REDIAL_MS_MIN
        other.is_waiting = False
        other.outbox.connection = connection
        self._sids[connection] = sid
        effects: list[Effect[Connection]] = [Tell(ElectionLinkUp(sid, round_trip_ms))]
        other.life = life
        if life == other.double:
            other.double = b""
        inbound = self._inbound.get(sid)
        if inbound is not None and inbound.life and life and inbound.life != life:
            other.double = inbound.life
            effects.append(self._close(self._inbound.pop(sid).connection))
        return effects + other.outbox.next()

    def _dial(self, sid: ServerId, other: _Other[Connection]) -> Dial:
        self._attempts_count += 1
        other.attempt = self._attempts_count
        other.is_waiting = other.has_connected = False
        return Dial(sid, other.attempt)

    def _attempting(self, sid: ServerId, attempt: int) -> _Other[Connection] | None:
        """The server, if this is the current attempt to reach it."""
        other = self._others.get(sid)
        return None if other is None or other.attempt != attempt else other

    # ------------------------------------------------------------------------------------------------------- inbound

    def admitted(self, sid: ServerId, connection: Connection, life: bytes) -> list[Effect[Connection]]:
        """Handle a connection opened by a process of this life that has proven to be this server."""
        other = self._others.get(sid)
        if other is None:
            return self._admit_unlisted(sid, connection, life)
        if life and other.life and life != other.life:
            return self._refuse_other_life(sid, other, connection, life)
        effects = self._hear(sid, _Inbound(connection, life, None))
        if other.is_waiting:
            assert other.attempt is not None
            effects += [Abandon(other.attempt), self._dial(sid, other)]
        else:
            other.has_connected = True
        return effects

    def objection(self, sid: ServerId, life: bytes) -> str | None:
        """Why a process of this life is refused that connects again after it was found not to be this server; None: it
        is not refused."""
        other = self._others.get(sid)
        if other is None or not other.life or not other.double or life != other.double:
            return None
        return taken(sid, other.place.text)

    def _hear(self, sid: ServerId, inbound: _Inbound[Connection]) -> list[Effect[Connection]]:
        """Read from this connection, and close an older one of the same server."""
        older = self._inbound.get(sid)
        self._inbound[sid] = inbound
        self._sids[inbound.connection] = sid
        return [] if older is None else [self._close(older.connection)]

    def _admit_unlisted(self, sid: ServerId, connection: Connection, life: bytes) -> list[Effect[Connection]]:
        unlisted = [other for other, inbound in self._inbound.items() if inbound.outbox is not None and other != sid]
        if len(unlisted) >= UNLISTED_MAX:
            return [Close(connection, "too many servers in no configuration are connected already")]
        return self._hear(sid, _Inbound(connection, life, _Outbox(connection)))

    def _refuse_other_life(
        self, sid: ServerId, other: _Other[Connection], connection: Connection, life: bytes
    ) -> list[Effect[Connection]]:
        """Refuse a process that is not the one at the address of its server."""
        if life == other.double:
            return [Close(connection, taken(sid, other.place.text))]
        other.double = life
        met = other.outbox.connection
        assert met is not None, "a life is known only while the connection is open"
        reason = f"another process is at the address of server {sid} -> it is dialled again to find out which one it is"
        return [self._close(met), *self._lose(sid, other), Close(connection, reason)]

    # --------------------------------------------------------------------------------------------------------- votes

    def send(self, vote: SendNotification) -> list[Effect[Connection]]:
        """Send this vote to its server; it replaces an unsent one."""
        other, inbound = self._others.get(vote.sid), self._inbound.get(vote.sid)
        outbox = other.outbox if other is not None else None if inbound is None else inbound.outbox
        if outbox is None:
            return []
        outbox.newest = vote
        return outbox.next()

    def sent(self, connection: Connection) -> list[Effect[Connection]]:
        """Note that the vote under way on this connection was sent."""
        sid = self._sids.get(connection)
        outbox = None if sid is None else self._outbox_of(sid, connection)
        if outbox is None:
            return []
        outbox.under_way = None
        return outbox.next()

    def _outbox_of(self, sid: ServerId, connection: Connection) -> _Outbox[Connection] | None:
        other, inbound = self._others.get(sid), self._inbound.get(sid)
        if other is not None and other.outbox.connection == connection:
            return other.outbox
        return None if inbound is None or inbound.connection != connection else inbound.outbox

    # -------------------------------------------------------------------------------------------------------- closing

    def closed(self, connection: Connection) -> list[Effect[Connection]]:
        """Handle the end of this connection."""
        sid = self._sids.pop(connection, None)
        if sid is None:
            return []
        inbound, other = self._inbound.get(sid), self._others.get(sid)
        if inbound is not None and inbound.connection == connection:
            del self._inbound[sid]
        if other is None or other.outbox.connection != connection:
            return []
        return self._lose(sid, other)

    def _lose(self, sid: ServerId, other: _Other[Connection]) -> list[Effect[Connection]]:
        """Dial a server again whose connection is gone."""
        other.outbox.close()
        other.life = b""
        return [self._dial(sid, other)]

    def _close(self, connection: Connection) -> Close[Connection]:
        del self._sids[connection]
        return Close(connection)
