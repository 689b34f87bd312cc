"""What a turn of the echo service does, in which order, over ports that the real host and the simulator have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from tests.host.echo.echo import IDLE_MS, Echo, Input
from tests.host.echo.echo_log import StorageFailed
from zab.service.ports import Audit, Clock, Operator

TURN_NS = 4_000_000


@attrs.frozen
class Ports:
    """`clients` and `links` are the sockets of `zab.host.loop`, or those of `zab.simulator.world`."""

    clock: Clock
    clients: Any
    links: Any
    operator: Operator
    audit: Audit | None
    append: Callable[[list[bytes]], None]
    dial: Callable[[int], None]
    answers: deque[Any]
    """What the log thread says: `Durable`, or `StorageFailed`."""


@attrs.define
class EchoTurn:
    """What a loop drives, real or simulated."""

    echo: Echo
    _ports: Ports

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        ports = self._ports
        started_ns = ports.clock.monotonic_ns()
        now = started_ns // 1_000_000
        inputs: list[Input] = []
        while ports.answers:
            answer = ports.answers.popleft()
            if isinstance(answer, StorageFailed):
                ports.operator.stop(answer.reason)
            inputs.append(answer)
        ports.links.receive(inputs)
        ports.clients.receive(inputs, started_ns + TURN_NS)
        effects = self.echo.step(now, inputs)
        if effects.append:
            ports.append(effects.append)
        for sid in effects.dials:
            ports.dial(sid)
        for link, count in effects.tells.items():
            ports.links.send((link,), count)
        if effects.refusals and ports.audit is not None:
            ports.audit.write(effects.refusals)
        ports.links.flush()
        ports.clients.flush(effects.dirty, now)
        ports.links.accept(now)
        ports.clients.accept(now)
        ports.clients.adapt_budget(ports.clock.monotonic_ns() - started_ns)
        return bool(ports.links.has_news or ports.clients.has_news)

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens."""
        return min(self.echo.next_deadline(), self._ports.clock.monotonic_ns() // 1_000_000 + IDLE_MS)
