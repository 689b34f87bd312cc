"""The simulated coordination service: one linearizable tree, and the sessions and connections of brokers.

The service is one place, so it decides in one order; `outage` takes it away from everybody for a while, as an election
does. Operations of a batch are applied one by one, each some time after the one before, so those of several brokers mix
at any point. A connection that breaks loses answers: what was asked may have been applied, or may still be. A new
connection of the session ends what is left of an old one.

With `lag`, each session is served by a member that may lag by so many writes: a read may find an earlier state,
which never goes backwards, is never older than the session's own writes, and is the newest one after a `Sync`. A watch
fires when the member gets to the change.

Watches that fired are kept until their session confirms that it has heard of them, also over a change of connection.

Not here: what is in the tree (`znode_tree`); the side of a broker (`CoordinationSession`, in `coordination_session`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

import attrs

from zab.coordination.operations import Children, Exists, Get, Operation, Result
from zab.simulator.coordination.past import Past
from zab.simulator.coordination.znode_tree import Znode, ZnodeTree
from zab.simulator.world.machine import WALL_MS
from zab.simulator.world.network import Network, Wire
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

SERVICE: Final = 0
"""The number of the service as an end of wires."""
ITEM_BYTES: Final = 100
"""The approximate size of a message on a slow wire."""

# ----------------------------------------------------------------------------------------------- what a session asks


@attrs.frozen
class Hello:
    """The first message of a connection. `session` 0 asks for a new one; `heard` is how many watches it was told."""

    session: int
    timeout_us: int
    heard: int


@attrs.frozen
class Ping:
    heard: int


@attrs.frozen
class Goodbye:
    """The session ends."""


@attrs.frozen
class Ask:
    batch: int
    operations: tuple[Operation, ...]


# ------------------------------------------------------------------------------------------------- what it is told


@attrs.frozen
class Welcome:
    session: int


@attrs.frozen
class Over:
    """The session is gone."""


@attrs.frozen
class Pong:
    pass


@attrs.frozen
class Answered:
    batch: int
    results: tuple[Result, ...]


@attrs.frozen
class Fired:
    """The `number`-th watch of the session that fired, from 1."""

    number: int
    path: str


class Caller(Protocol):
    """The side of a broker."""

    number: int

    def receive(self, connection: Connection, message: object) -> None: ...


class Connection:
    """One connection between a broker and the service; `cut` loses what is on its way."""

    def __init__(self, service: CoordinationService, network: Network, caller: Caller) -> None:
        self.to_service = Wire(network, (caller.number, SERVICE), partial(service.receive, self))
        self.to_caller = Wire(network, (SERVICE, caller.number), partial(caller.receive, self))
        self.session: _Session | None = None

    def cut(self) -> None:
        self.to_service.cut()
        self.to_caller.cut()


@attrs.define(eq=False)
class _Session:
    id: int
    timeout_us: int
    heard_us: int
    connection: Connection | None
    fired: deque[Fired] = attrs.Factory(deque)
    """The watches that the session has not confirmed."""
    fired_count: int = 0
    seen_zxid: int = 0
    """Its member has applied the writes up to this one, at least."""


class CoordinationService:
    """See the docstring of the module."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        trace: Trace,
        rng: Random,
        *,
        operation_us: int,
        count: Callable[[str], None],
        lag: int = 0,
    ) -> None:
        """`operation_us`: how long an operation takes, on average. `count` is told of events by their names. `lag`: by
        how many writes a member lags at the most."""
        self.tree = ZnodeTree()
        self._lag = lag
        self._past = Past(self.tree, lag) if lag else None
        self.is_down = False
        self._schedule = schedule
        self._network = network
        self._trace = trace
        self._rng = rng
        self._operation_us = operation_us
        self._count = count
        self._sessions: dict[int, _Session] = {}

    @property
    def session_ids(self) -> list[int]:
        """The sessions that live."""
        return list(self._sessions)

    def owner_of(self, session: int) -> int | None:
        """The number of the broker that is connected with this session; None: nobody is."""
        connection = self._sessions[session].connection
        return None if connection is None else connection.to_service.pair[0]

    def connect(self, caller: Caller) -> Connection | None:
        """A connection; None if the service cannot be reached."""
        if self.is_down or not self._network.reaches(caller.number, SERVICE):
            return None
        return Connection(self, self._network, caller)

    # ----------------------------------------------------------------------------------------------------- connections

    def receive(self, connection: Connection, message: object) -> None:
        """Take a message of a connection."""
        if self.is_down:
            return
        session = connection.session
        if isinstance(message, Hello):
            self._greet(connection, message)
            return
        if session is None or session.id not in self._sessions:
            self._send(connection, Over())
            return
        session.heard_us = self._schedule.now
        if isinstance(message, Ping):
            self._confirm(session, message.heard)
            self._send(connection, Pong())
        elif isinstance(message, Goodbye):
            self.end(session.id)
        elif isinstance(message, Ask):
            self._go_on(connection, session, message, [])

    def _greet(self, connection: Connection, hello: Hello) -> None:
        if hello.session:
            session = self._sessions.get(hello.session)
            if session is None:
                self._send(connection, Over())
                return
            if session.connection is not None:
                session.connection.cut()
        else:
            number = self.tree.begin_session()
            session = self._sessions[number] = _Session(number, hello.timeout_us, 0, None)
            self._schedule.after(hello.timeout_us, self._look_at, session)
            self._count("sessions")
        session.connection, session.heard_us = connection, self._schedule.now
        connection.session = session
        self._confirm(session, hello.heard)
        self._send(connection, Welcome(session.id))
        for fired in session.fired:
            self._send(connection, fired)

    def _confirm(self, session: _Session, heard: int) -> None:
        while session.fired and session.fired[0].number <= heard:
            session.fired.popleft()

    def _send(self, connection: Connection, message: object) -> None:
        connection.to_caller.send(message, ITEM_BYTES)

    # ------------------------------------------------------------------------------------------------------ operations

    def _go_on(self, connection: Connection, session: _Session, ask: Ask, results: list[Result]) -> None:
        """Apply the next operation some time later, or answer."""
        if len(results) == len(ask.operations):
            self._send(connection, Answered(ask.batch, tuple(results)))
            return
        delay = int(self._operation_us * 2 * self._rng.random())
        self._schedule.after(delay, self._apply_next, connection, session, ask, results)

    def _apply_next(self, connection: Connection, session: _Session, ask: Ask, results: list[Result]) -> None:
        if session.connection is not connection or self.is_down:
            return
        operation = ask.operations[len(results)]
        self.tree.now_ms = WALL_MS + self._schedule.now // MS
        result = self._applied(session, operation)
        self._trace.mark(SERVICE, self.tree.zxid)
        if self._trace.sink is not None:
            self._trace.line("zk", f"session {session.id}: {operation} -> {result}")
        self._deliver()
        self._go_on(connection, session, ask, [*results, result])

    def _applied(self, session: _Session, operation: Operation) -> Result:
        tree, past = self.tree, self._past
        if past is None or not isinstance(operation, Get | Exists | Children):
            result = tree.apply(session.id, operation)
            session.seen_zxid = tree.zxid
            return result
        session.seen_zxid = max(session.seen_zxid, tree.zxid - self._rng.randint(0, self._lag))
        found, newest = past.znode(operation.path, session.seen_zxid), tree.znodes.get(operation.path)
        result = tree.read(session.id, operation, found)
        if _differs(operation, found, newest):
            self._count("stale reads")
            if operation.watch and (result.ok or isinstance(operation, Exists)):
                tree.fire(session.id, operation)
        return result

    def _deliver(self) -> None:
        """Tell sessions which of their watches fired."""
        for number, path in self.tree.fired:
            session = self._sessions.get(number)
            if session is None:
                continue
            session.seen_zxid = self.tree.zxid
            session.fired_count += 1
            fired = Fired(session.fired_count, path)
            session.fired.append(fired)
            if session.connection is not None:
                self._send(session.connection, fired)
        self.tree.fired.clear()

    # ---------------------------------------------------------------------------------------------------------- faults

    def _look_at(self, session: _Session) -> None:
        """Expire the session if it has been silent for too long."""
        if session.id not in self._sessions:
            return
        left = session.heard_us + session.timeout_us - self._schedule.now
        if self.is_down or left > 0:
            self._schedule.after(max(left, session.timeout_us // 4), self._look_at, session)
        else:
            self.expire(session.id)

    def expire(self, number: int) -> None:
        """End a session that its broker did not end."""
        self._trace.say("zk", f"session {number} expires")
        self._count("expired sessions")
        self.end(number)

    def end(self, number: int) -> None:
        """End a session."""
        session = self._sessions.pop(number)
        self.tree.end_session(number)
        if session.connection is not None:
            self._send(session.connection, Over())
        self._deliver()

    def lose_connections(self) -> None:
        """Break every connection: the service has a new leader, say."""
        for session in self._sessions.values():
            if session.connection is not None:
                session.connection.cut()
                session.connection = None

    def begin_outage(self) -> None:
        """Nobody is served until `end_outage`; no session ends meanwhile."""
        self.is_down = True
        self.lose_connections()

    def end_outage(self) -> None:
        self.is_down = False
        for session in self._sessions.values():
            session.heard_us = self._schedule.now


def _differs(operation: Get | Exists | Children, found: Znode | None, newest: Znode | None) -> bool:
    """Whether this read finds something else in the newest state."""
    if found is None or newest is None:
        return found is not newest
    if isinstance(operation, Children):
        return found.children != newest.children
    return found.stat != newest.stat
