"""What a turn of a bookie does, in which order, over ports.

1. What threads and the coordination service answered, then clients, up to a budget of bytes.
2. One step of the core.
3. What it asks for: the journal first, so that the disk begins; then reads and jobs; then the answers, those of one
   connection as one piece of output, which is sent with one system call.

Limits on all connections, besides those of one (`connection`): what they have sent and was not handled
(`zab.wire.input_limits`), and answers that they do not take: above it those with most are closed.

Not here: what is asked of the core and how it answers, sockets, threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs

from zab.bookie.audit import LedgersDeleted, ModeChanged
from zab.bookie.connection import ADDS_MAX, BookieConnection, Closing
from zab.bookie.meters import Meters
from zab.coordination.driver import Submit
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.events import (
    AppendJournal,
    Asked,
    ConnectionClosed,
    Effects,
    Input,
    Job,
    JournalDurable,
    ReadSegment,
)
from zab.ledger.wire.codec import Decoded, Refused, ServerRequest, decode_run, encode_answer
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import Added, AddEntry, Answer, Authenticate, Authenticated, EntryRead
from zab.ledger.wire.status import Status
from zab.ledger.wire.tls_start import Starts
from zab.ledger.wire.v2 import ANSWER_BYTES, V2Reply, entry_read_head, pack_answer
from zab.service.audit import Record, Refusal
from zab.service.ports import Audit, Clock, Operator
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.frames import FrameError
from zab.wire.input_limits import InputLimits
from zab.wire.together import Together

TURN_NS: Final = 4_000_000
NO_LOGIN: Final = "AuthDisabledPlugin"
"""What BookKeeper's bookie without logins says to a client that wants to log in: it may go on."""
APART_BYTES: Final = 4 << 10
"""Larger entries are sent from where they are, without a copy of them for their frame."""
CLEAR_MS: Final = 10_000
"""How long a connection may stay in clear if TLS is required. The handshake then has as long again."""
UNSENT_NOTED_MIN: Final = 64 << 10
OTHER_HELD_BYTES: Final = 100
"""What a held request counts that is no add."""
NEVER: Final = 1 << 62
Broken: TypeAlias = ProtocolError | FrameError


class Clients(Protocol):
    """The sockets of clients (`zab.host.loop.sockets`)."""

    has_news: bool

    @property
    def count(self) -> int: ...

    def receive(self, inputs: list[Any], until_ns: int) -> None: ...
    def flush(self, dirty: Iterable[BookieConnection], now: int) -> None: ...
    def accept(self, now: int) -> None: ...
    def adapt_budget(self, turn_ns: int) -> None: ...


@attrs.frozen(kw_only=True)
class Ports:
    """The world around a bookie. No port waits; answers come through `answers`."""

    clock: Clock
    clients: Clients
    operator: Operator
    answers: deque[Input]
    """What threads and tasks say."""
    journal: Callable[[AppendJournal], None]
    read: Callable[[ReadSegment], None]
    job: Callable[[Job], None]
    ask_space: Callable[[], None]
    submit: Callable[[Submit], None]
    start_tls: Callable[[BookieConnection, int], None] | None = None
    """Has TLS begin on a connection whose output is sent, which ends for the bookie: within TLS it is another one."""
    audit: Audit | None = None
    """None: there is no audit log."""


@attrs.frozen(kw_only=True)
class Limits:
    """Limits on all connections together."""

    connections_max: int
    input_bytes_max: int
    unsent_bytes_max: int
    warn_share: float = 1.0
    """From this used share of a disk on, the operator is warned, once."""
    stops_when_full: bool = False
    """Whether a bookie whose disk is full ends, rather than be read-only."""


class BookieTurn:
    """What a loop drives."""

    def __init__(self, bookie: Bookie, ports: Ports, limits: Limits) -> None:
        self.bookie = bookie
        self.meters = Meters()
        self.longest_ns = 0
        """The longest turn so far."""
        self._ports = ports
        self._limits = limits
        self._takes_adds = True
        self._is_read_only = False
        self._is_warned = False
        self._dirty: dict[BookieConnection, None] = {}
        """Connections to be flushed or closed at the end of the turn."""
        self._held: dict[BookieConnection, None] = {}
        """Connections with requests that may not go on yet."""
        self._inputs: InputLimits[BookieConnection] = InputLimits(limits.input_bytes_max, self._touch, self._limited)
        self._unsent: Together[BookieConnection] = Together(
            limits.unsent_bytes_max, lambda each: each.out_bytes + each.unsent_bytes
        )
        self._in_clear: dict[BookieConnection, int] = {}
        """Connections in clear that have to begin TLS, and until when; the oldest are first."""
        self._starting: list[BookieConnection] = []
        """Connections that begin TLS at the end of this turn."""
        self._closed: list[BookieConnection] = []
        """Connections that this turn has closed."""
        self._records: list[Record] = []

    # ---------------------------------------------------------------------------------------------------------- a turn

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        ports = self._ports
        started_ns = ports.clock.monotonic_ns()
        now, now_us = started_ns // 1_000_000, started_ns // 1000
        inputs: list[Input] = []
        answers = ports.answers
        began_us = now_us
        while answers:
            answer = answers.popleft()
            if type(answer) is JournalDurable:
                began_us = min(began_us, self.meters.began(answer.number) or now_us)
            inputs.append(answer)
        self._receive(inputs, started_ns, now_us)
        if now >= self._inputs.next_deadline():
            self._inputs.tick(now)
        if self._in_clear:
            self._close_those_in_clear(now)
        if self._closed:
            inputs += [ConnectionClosed(each) for each in self._closed]
            self._closed.clear()
        effects = self.bookie.step(now, inputs, ports.clock.wall_ns() // 1_000_000)
        self._carry_out(effects, now_us)
        if effects.answers:
            self._answer(effects.answers, began_us, now_us)
        self._limit_unsent()
        ports.clients.flush(self._dirty, now)
        self._dirty.clear()
        if self._starting:
            self._start_tls(now)
        # Only now it is known what their sockets have taken.
        self._go_on(effects)
        ports.clients.accept(now)
        took_ns = ports.clock.monotonic_ns() - started_ns
        ports.clients.adapt_budget(took_ns)
        self.longest_ns = max(self.longest_ns, took_ns)
        if effects.failure is not None:
            ports.operator.stop(effects.failure)
        return ports.clients.has_news or bool(answers or self._closed or self._dirty)

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens."""
        in_clear = next(iter(self._in_clear.values()), NEVER)
        return min(self.bookie.deadline_ms, self._inputs.next_deadline(), in_clear)

    def _carry_out(self, effects: Effects, now_us: int) -> None:
        ports = self._ports
        for append in effects.journal:
            self.meters.appended(append.number, now_us)
            ports.journal(append)
        for read in effects.reads:
            ports.read(read)
        for job in effects.jobs:
            ports.job(job)
        for submit in effects.submits:
            ports.submit(submit)
        if effects.asks_space:
            ports.ask_space()
        for note in effects.notes:
            ports.operator.trace(note)
        for report in effects.reports:
            ports.operator.warn(report)
        self._look_at_mode(effects)
        if self._records and ports.audit is not None:
            ports.audit.write(self._records)
        self._records.clear()

    def _look_at_mode(self, effects: Effects) -> None:
        """Say in the audit log that the bookie takes adds or does not, and what it deleted. Warn of a disk that is
        nearly full."""
        space = self.bookie.space
        if space.known is not None:
            is_nearly_full = space.known.total - space.known.free >= self._limits.warn_share * space.known.total
            if is_nearly_full and not self._is_warned:
                self._ports.operator.warn(f"the disk is nearly full: {space.known.free} bytes are free")
            self._is_warned = is_nearly_full
        if space.is_read_only != self._is_read_only:
            self._is_read_only = space.is_read_only
            self._records.append(ModeChanged(is_read_only=space.is_read_only))
            if space.is_full and self._limits.stops_when_full and effects.failure is None:
                effects.failure = "the disk is full, and readOnlyModeEnabled=false"
        if effects.deleted:
            self._records.append(LedgersDeleted(tuple(effects.deleted)))

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._ports.clients.count

    @property
    def held_count(self) -> int:
        """How many of them have requests that may not go on yet."""
        return len(self._held)

    def note(self, record: Record) -> None:
        """Have this in the audit log."""
        self._records.append(record)

    # --------------------------------------------------------------------------------------------------------- clients

    def _receive(self, inputs: list[Input], started_ns: int, now_us: int) -> None:
        events: list[Any] = []
        self._ports.clients.receive(events, started_ns + TURN_NS)
        for event in events:
            connection: BookieConnection = event.connection
            if type(event) is ClientBytes:
                if not connection.closing:
                    self._feed(connection, event.data, inputs, now_us)
            elif type(event) is ClientClosed:
                self._forget(connection)
                inputs.append(ConnectionClosed(connection))
            elif type(event) is ClientConnected:
                if self._ports.clients.count > self._limits.connections_max:
                    self.close(connection, "there are too many connections")
                elif connection.tls_start is not None and connection.tls_start.is_required:
                    self._in_clear[connection] = now_us // 1000 + CLEAR_MS

    def _feed(self, connection: BookieConnection, data: bytes, inputs: list[Input], now_us: int) -> None:
        broken: Broken | None = None
        had_part = bool(connection.frames.kept_bytes)
        try:
            bodies = connection.frames.feed(data)
        except FrameError as error:
            bodies, broken = error.frames, error
        found: list[Decoded] = []
        if bodies:
            found, error_of_body = decode_run(bodies)
            broken = error_of_body or broken
        if connection.tls_start is not None:
            found, broken = self._allowed_in_clear(connection, found, broken)
        if found:
            if connection.held:
                self._hold(connection, found)
            else:
                passed = self._pass_on(connection, found, inputs, now_us)
                if passed < len(found):
                    self._hold(connection, found[passed:])
        if had_part or connection.frames.kept_bytes or connection.held:
            self._inputs.note(connection, now_us // 1000, has_completed=bool(bodies))
        if broken is not None:
            self.meters.broken_connections += 1
            self._records.append(Refusal("protocol", connection.host, reason=str(broken)))
            self.close(connection, f"it breaks the protocol: {broken}")

    def _allowed_in_clear(
        self, connection: BookieConnection, found: list[Decoded], broken: Broken | None
    ) -> tuple[list[Decoded], Broken | None]:
        """What may go on of the requests of a connection in clear."""
        assert connection.tls_start is not None
        try:
            taken = connection.tls_start.take(found, broken is not None or bool(connection.frames.kept_bytes))
        except ProtocolError as error:
            return [], broken or error
        if not isinstance(taken, Starts):
            return taken, broken
        self._say(connection, taken.frame)
        self._starting.append(connection)
        return [], None

    def _start_tls(self, now: int) -> None:
        assert self._ports.start_tls is not None
        for connection in self._starting:
            if not connection.closing:
                self._ports.start_tls(connection, now)
        self._starting.clear()

    def _close_those_in_clear(self, now: int) -> None:
        for connection, until in list(self._in_clear.items()):
            if now < until:
                return
            self.close(connection, "it has not begun TLS")

    def _hold(self, connection: BookieConnection, found: Sequence[Decoded]) -> None:
        connection.held += found
        connection.held_bytes += sum(map(_held_bytes, found))
        self._held[connection] = None
        self._dirty[connection] = None

    def _pass_on(self, connection: BookieConnection, found: Iterable[Decoded], inputs: list[Input], now_us: int) -> int:
        """Give the core what may go on; how many of these it was."""
        passed, adds, reads, size = 0, connection.adds, connection.reads, 0
        takes_adds, reads_max = self._takes_adds, connection.reads_max()
        for each in found:
            if type(each) is ServerRequest:
                request, reply_to = each
                if type(request) is AddEntry:
                    if not takes_adds or adds >= ADDS_MAX:
                        break
                    adds += 1
                    size += len(request.envelope)
                    inputs.append(Asked(connection, reply_to, request))
                elif type(request) is Authenticate:
                    self._say(connection, encode_answer(reply_to, Authenticated(Status.OK, NO_LOGIN)))
                elif reads >= reads_max:
                    break
                else:
                    reads += 1
                    inputs.append(Asked(connection, (reply_to, now_us), request))
            elif not reads_max:
                break
            else:
                assert isinstance(each, Refused)
                self.meters.refused_frames += 1
                self._say(connection, each.frame)
            passed += 1
        self.meters.adds_under_way += adds - connection.adds
        self.meters.reads_under_way += reads - connection.reads
        self.meters.added_bytes += size
        connection.adds, connection.reads = adds, reads
        return passed

    def _go_on(self, effects: Effects) -> None:
        """Have held requests go on that may: in the next turn."""
        self._takes_adds = effects.takes_adds
        if not self._held:
            return
        inputs: list[Input] = []
        now_us = self._ports.clock.monotonic_ns() // 1000
        for connection in list(self._held):
            passed = self._pass_on(connection, connection.held, inputs, now_us)
            for _ in range(passed):
                connection.held_bytes -= _held_bytes(connection.held.popleft())
            if passed:
                self._inputs.note(connection, now_us // 1000, has_completed=False)
            if not connection.held:
                del self._held[connection]
                self._dirty[connection] = None
        self._ports.answers.extend(inputs)

    def _say(self, connection: BookieConnection, frame: bytes) -> None:
        connection.out.append(frame)
        connection.out_bytes += len(frame)
        self._dirty[connection] = None

    # --------------------------------------------------------------------------------------------------------- answers

    def _answer(self, answers: Sequence[tuple[Any, Any, Answer]], began_us: int, now_us: int) -> None:
        """Put the answers into the output of their connections."""
        dirty, meters = self._dirty, self.meters
        added, ok = 0, Status.OK
        for connection, number, answer in answers:
            if type(answer) is Added:
                connection.adds -= 1
                if answer.status is ok and type(number) is V2Reply:
                    added += 1
                    frame = pack_answer(ANSWER_BYTES, number.header, 0, answer.ledger, answer.entry)
                else:
                    frame = encode_answer(number, answer)
                    meters.added(answer.status, 1, now_us - began_us)
                if not connection.closing:
                    connection.out.append(frame)
                    connection.out_bytes += len(frame)
                    dirty[connection] = None
            elif not connection.closing:
                connection.reads -= 1
                reply_to, asked_us = number
                meters.answered(answer, now_us - asked_us)
                if type(answer) is EntryRead and len(answer.envelope) >= APART_BYTES and type(reply_to) is V2Reply:
                    connection.say((entry_read_head(reply_to, answer), answer.envelope))
                else:
                    connection.say((encode_answer(reply_to, answer),))
                dirty[connection] = None
        if added:
            meters.added(Status.OK, added, now_us - began_us)
            meters.frames.add(added)

    def _limit_unsent(self) -> None:
        """Close connections that do not take their answers, if all of them have too many."""
        unsent = self._unsent
        for connection in self._dirty:
            size = connection.out_bytes + connection.unsent_bytes
            if size > UNSENT_NOTED_MIN:
                unsent.note(connection, size)
            elif connection in unsent.noted:
                unsent.forget(connection)
        if unsent.bytes > unsent.bytes_max:
            for connection in list(unsent.beyond()):
                self._limited(connection, "its client takes no answers, and there are too many for all clients")

    # --------------------------------------------------------------------------------------------------------- closing

    def _touch(self, connection: BookieConnection) -> None:
        self._dirty[connection] = None

    def _limited(self, connection: BookieConnection, reason: str) -> None:
        self.meters.closed_connections += 1
        self.close(connection, reason)

    def close(self, connection: BookieConnection, reason: str) -> None:
        """End a connection at once; nothing more of it is answered."""
        if connection.closing:
            return
        connection.closing = Closing.AT_ONCE
        self._ports.operator.trace(f"closes the connection of {connection.host}:{connection.port}: {reason}")
        self._forget(connection)
        self._closed.append(connection)
        self._dirty[connection] = None

    def _forget(self, connection: BookieConnection) -> None:
        """Nothing of it is answered any more, and nothing more is taken."""
        connection.closing = Closing.AT_ONCE
        self.meters.reads_under_way -= connection.reads
        connection.held.clear()
        connection.held_bytes = 0
        connection.take_output()
        self._held.pop(connection, None)
        self._in_clear.pop(connection, None)
        self._inputs.forget(connection)
        self._unsent.forget(connection)


def _held_bytes(each: Decoded) -> int:
    if isinstance(each, ServerRequest) and isinstance(each.request, AddEntry):
        return len(each.request.envelope)
    return OTHER_HELD_BYTES
