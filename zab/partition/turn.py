"""What a turn of a broker does, in which order, over ports that the real host and the simulator have.

1. What threads and the coordination service answered, then what clients sent, up to a budget.
2. One step of the broker.
3. What it asks for: changes of files first, so that the disk begins; then operations of the coordination service, jobs,
   and output of clients.

A file whose name is about to mean another file, or none, is forgotten by those who read files at the end of the turn:
what the turn has sent is from the file that it meant, and what later turns send is from the one that is there then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import attrs

from zab.partition.broker import Broker
from zab.partition.controller.coordination import Submit
from zab.partition.events import Input
from zab.partition.group_log import LoadPart
from zab.partition.log.checkpoints import MetaProperties
from zab.partition.log.file_effects import FileEffect, Remove, Rename, RenameDirectory
from zab.partition.replica.record_search import RecordSearch
from zab.partition.requests.connection import ClientConnection
from zab.service.ports import Clock, Operator

TURN_NS: Final = 4_000_000


class Clients(Protocol):
    """The sockets of one listener (`zab.host.loop.sockets`)."""

    has_news: bool

    def receive(self, inputs: list[Any], until_ns: int) -> None: ...
    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None: ...
    def accept(self, now: int) -> None: ...
    def adapt_budget(self, turn_ns: int) -> None: ...


@attrs.frozen
class Ports:
    """The world around a broker. No port waits; answers come through `answers`."""

    clock: Clock
    clients: Sequence[Clients]
    """One for each listener."""
    operator: Operator
    answers: deque[Input]
    """What threads and tasks say."""
    store: Callable[[FileEffect], None]
    forget_file: Callable[[str], None]
    """The path is about to mean another file, or none."""
    forget_directory: Callable[[str], None]
    submit: Callable[[Submit], None]
    open_logs: Callable[[MetaProperties], None]
    search: Callable[[int, RecordSearch], None]
    load: Callable[[LoadPart], None]


@attrs.define
class BrokerTurn:
    """What a loop drives, real or simulated."""

    broker: Broker
    _ports: Ports

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        ports = self._ports
        started_ns = ports.clock.monotonic_ns()
        now = started_ns // 1_000_000
        inputs: list[Input] = []
        while ports.answers:
            inputs.append(ports.answers.popleft())
        for clients in ports.clients:
            clients.receive(inputs, started_ns + TURN_NS)
        effects = self.broker.step(now, ports.clock.wall_ns() // 1_000_000, inputs)
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
        for text in effects.notes:
            ports.operator.trace(text)
        for text in effects.reports:
            ports.operator.warn(text)
        has_more = False
        for clients in ports.clients:
            clients.flush(effects.dirty, now)
            clients.accept(now)
            clients.adapt_budget(ports.clock.monotonic_ns() - started_ns)
            has_more = has_more or clients.has_news
        for effect in effects.files:
            self._forget(effect)
        if effects.failure is not None:
            ports.operator.stop(effects.failure)
        return has_more or bool(ports.answers)

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
