"""What a turn of a broker does, in which order, over ports that the real host and the simulator have.

1. What threads and the coordination service answered, then what other brokers sent, then clients, up to a budget.
2. One step of the broker.
3. What it asks for: messages of links, with what followers are sent, which is read here, since links carry bytes alone;
   then changes of files, so that the disk begins; then operations of the coordination service, jobs, and output of
   clients.

A file whose name is about to mean another file, or none, is forgotten by those who read files at the end of the turn:
what the turn has sent is from the file that it meant, and what later turns send is from the one that is there then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import attrs

from zab.coordination.driver import Submit
from zab.partition.broker import Broker
from zab.partition.cleaning import CleanJob
from zab.partition.coordinator_log import LoadPart
from zab.partition.events import Effects, Input, SessionLives
from zab.partition.links.messages import LINK_BYTES_MAX, FollowerAnswered, Message
from zab.partition.log.checkpoints import MetaProperties
from zab.partition.log.file_effects import FileEffect, Remove, Rename, RenameDirectory
from zab.partition.replica.record_search import RecordSearch
from zab.partition.requests.connection import ClientConnection
from zab.partition.settings.listeners import Endpoint
from zab.service.ports import Audit, Clock, Operator
from zab.wire.file_slice import FileSlice

TURN_NS: Final = 4_000_000


class Clients(Protocol):
    """The sockets of one listener (`zab.host.loop.sockets`)."""

    has_news: bool

    def receive(self, inputs: list[Any], until_ns: int) -> None: ...
    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None: ...
    def accept(self, now: int) -> None: ...
    def adapt_budget(self, turn_ns: int) -> None: ...


class Links(Protocol):
    """The links to other brokers (`zab.host.loop.links`, `zab.simulator.world.links`), of `LINK_PROTOCOL`."""

    has_news: bool

    def receive(self, inputs: list[Any]) -> None: ...
    def send(self, links: Iterable[int], message: Message) -> None: ...
    def break_off(self, number: int, reason: str) -> None: ...
    def flush(self) -> None: ...
    def accept(self, now: int) -> None: ...


@attrs.frozen
class Ports:
    """The world around a broker. No port waits; answers come through `answers`."""

    clock: Clock
    clients: Sequence[Clients]
    """One for each listener."""
    links: Links
    dial: Callable[[int, Endpoint], None]
    """Open a link to this broker, which listens there."""
    read: Callable[[FileSlice], bytes]
    """A part of a file, for a follower. Raises OSError."""
    operator: Operator
    answers: deque[Input]
    """What threads and tasks say."""
    store: Callable[[FileEffect], None]
    forget_file: Callable[[str], None]
    """The path is about to mean another file, or none."""
    forget_directory: Callable[[str], None]
    submit: Callable[[Submit], None]
    session_lives_until: Callable[[], int]
    """Until when (ms of the monotonic clock) the session surely lives, if no server answers again."""
    open_logs: Callable[[MetaProperties], None]
    search: Callable[[int, RecordSearch], None]
    load: Callable[[LoadPart], None]
    clean: Callable[[CleanJob], None]
    audit: Audit | None = None
    """None: there is no audit log."""


@attrs.define
class BrokerTurn:
    """What a loop drives, real or simulated."""

    broker: Broker
    _ports: Ports
    longest_ns: int = 0
    """The longest turn so far."""

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        ports = self._ports
        started_ns = ports.clock.monotonic_ns()
        now = started_ns // 1_000_000
        inputs: list[Input] = [SessionLives(ports.session_lives_until())]
        while ports.answers:
            inputs.append(ports.answers.popleft())
        ports.links.receive(inputs)
        for clients in ports.clients:
            clients.receive(inputs, started_ns + TURN_NS)
        effects = self.broker.step(now, ports.clock.wall_ns() // 1_000_000, inputs)
        # Before files change: what is read for a follower is from the file that was meant.
        self._use_links(effects)
        for effect in effects.files:
            ports.store(effect)
        for submit in effects.submits:
            ports.submit(submit)
        if effects.opens is not None:
            ports.open_logs(effects.opens)
        for token, search in effects.searches:
            ports.search(token, search)
        for part in effects.loads:
            ports.load(part)
        for job in effects.cleans:
            ports.clean(job)
        for text in effects.notes:
            ports.operator.trace(text)
        if effects.audit and ports.audit is not None:
            ports.audit.write(effects.audit)
        for text in effects.reports:
            ports.operator.warn(text)
        ports.links.flush()
        ports.links.accept(now)
        has_more = ports.links.has_news
        took_ns = 0
        for clients in ports.clients:
            clients.flush(effects.dirty, now)
            clients.accept(now)
            took_ns = ports.clock.monotonic_ns() - started_ns
            clients.adapt_budget(took_ns)
            has_more = has_more or clients.has_news
        self.longest_ns = max(self.longest_ns, took_ns)
        for effect in effects.files:
            self._forget(effect)
        if effects.failure is not None:
            ports.operator.stop(effects.failure)
        return has_more or bool(ports.answers)

    def _use_links(self, effects: Effects) -> None:
        links = self._ports.links
        for link, message in effects.sends:
            if isinstance(message, FollowerAnswered):
                self._send_records(link, message)
            else:
                links.send((link,), message)
        for broker_id, endpoint in effects.dials:
            self._ports.dial(broker_id, endpoint)
        for link, reason in effects.breaks:
            links.break_off(link, reason)

    def _send_records(self, link: int, answer: FollowerAnswered) -> None:
        """Send an answer with the bytes of its files. If they cannot be had, the link ends, and the follower asks
        again."""
        ports = self._ports
        try:
            if answer.size_bytes >= LINK_BYTES_MAX:
                raise OSError(f"{answer.size_bytes} bytes are too many for a link")
            pieces = [piece if isinstance(piece, bytes) else self._read(piece) for piece in answer.pieces]
        except OSError as error:
            reason = f"an answer to a follower cannot be read: {error}"
            ports.operator.warn(reason)
            ports.links.break_off(link, reason)
            return
        ports.links.send((link,), FollowerAnswered((b"".join(pieces),)))

    def _read(self, piece: FileSlice) -> bytes:
        data = self._ports.read(piece)
        if len(data) != piece.length:
            raise OSError(f"{piece.path} is shorter than it was")
        return data

    def _forget(self, effect: FileEffect) -> None:
        match effect:
            case Remove(path):
                self._ports.forget_file(path)
            case Rename(old, new):
                self._ports.forget_file(old)
                self._ports.forget_file(new)
            case RenameDirectory(directory):
                self._ports.forget_directory(directory)

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens."""
        return self.broker.next_deadline()
