"""The network: reachability, delays, and wires, the directions of connections.

Ends are numbers: servers have their ids, clients negative numbers. A wire is first-in first-out, like TCP, for any
delays; only urgent items may overtake others that still wait on the sender's side (the two send queues of a quorum
link, H2 turn budget).

    partition       items on a blocked wire wait, since TCP retransmits, and arrive after it is healed; the receiver may
                    have given up by then. Both directions or one.
    slow            more delay, and so few bytes per millisecond that a queue grows on the sender's side
    reset           both wires of a connection lose their items (`links` and `client` tell the ends)

Not here: connections, and the events of their ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from zab.simulator.world.schedule import MS, Schedule

Pair: TypeAlias = tuple[int, int]
"""From, to."""


class Wire:
    """One direction of one connection. `deliver` gets the items in order."""

    __slots__ = (
        "_busy_until",
        "_last_arrival",
        "_network",
        "_waiting",
        "closed",
        "deliver",
        "ordinary",
        "pair",
        "queued_bytes",
        "urgent",
    )

    def __init__(self, network: Network, pair: Pair, deliver: Callable[[Any], None]) -> None:
        self._network = network
        self.pair = pair
        self.deliver = deliver
        self.urgent: deque[tuple[Any, int]] = deque()
        self.ordinary: deque[tuple[Any, int]] = deque()
        self.queued_bytes = 0
        """Bytes that have not left the sender."""
        self.closed = False
        self._busy_until = 0
        self._last_arrival = 0
        self._waiting = False

    def push(self, item: Any, size_bytes: int, *, urgent: bool = False) -> None:
        """Queue an item; `flush` sends it."""
        (self.urgent if urgent else self.ordinary).append((item, size_bytes))
        self.queued_bytes += size_bytes

    def send(self, item: Any, size_bytes: int) -> None:
        """Queue an item and send what can be sent."""
        self.push(item, size_bytes)
        self.flush()

    def flush(self) -> None:
        """Send as much as the network takes."""
        network = self._network
        now = network.schedule.now
        while (self.urgent or self.ordinary) and not self.closed:
            if self.pair in network.blocked:
                network.stuck.setdefault(self.pair, {})[self] = None
                return
            if self._busy_until > now:
                if not self._waiting:
                    self._waiting = True
                    network.schedule.at(self._busy_until, self._go_on)
                return
            item, size_bytes = self.urgent.popleft() if self.urgent else self.ordinary.popleft()
            self.queued_bytes -= size_bytes
            delay, bytes_per_ms = network.conditions(self.pair)
            if bytes_per_ms:
                self._busy_until = now + size_bytes * MS // bytes_per_ms
            arrival = now + delay
            if arrival > self._last_arrival or not network.keeps_order:
                self._last_arrival = arrival
            network.schedule.at(self._last_arrival, self._arrive, item)

    def cut(self) -> None:
        """Lose all items; nothing more is delivered."""
        self.closed = True
        self.urgent.clear()
        self.ordinary.clear()

    def _go_on(self) -> None:
        self._waiting = False
        self.flush()

    def _arrive(self, item: Any) -> None:
        if not self.closed:
            self.deliver(item)


class Network:
    """The conditions of all wires. Delays are in microseconds."""

    def __init__(self, schedule: Schedule, rng: Random, latency_us: int, jitter_us: int) -> None:
        self.schedule = schedule
        self.blocked: set[Pair] = set()
        self.slow: dict[Pair, tuple[int, int]] = {}
        """Additional delay, and bytes per millisecond."""
        self.stuck: dict[Pair, dict[Wire, None]] = {}
        self.keeps_order = True
        """Whether wires are first-in first-out. Without it, each item arrives after a delay of its own: for services
        whose messages say what they belong to."""
        self._rng = rng
        self._latency_us = latency_us
        self._jitter_us = jitter_us

    def conditions(self, pair: Pair) -> tuple[int, int]:
        """The delay of an item now, and the bytes per millisecond; 0 means no limit."""
        delay = self._latency_us + int(self._jitter_us * self._rng.random())
        if pair in self.slow:
            additional, bytes_per_ms = self.slow[pair]
            return delay + additional, bytes_per_ms
        return delay, 0

    def delay(self, one: int, two: int) -> int:
        """The delay of something that needs no wire, such as opening one."""
        return self.conditions((one, two))[0]

    def reaches(self, one: int, two: int) -> bool:
        """Whether a connection can be opened, which needs both directions."""
        return (one, two) not in self.blocked and (two, one) not in self.blocked

    def block(self, one: int, two: int) -> None:
        """Block the direction from `one` to `two`."""
        self.blocked.add((one, two))

    def unblock(self, one: int, two: int) -> None:
        """Unblock a direction, and send what waits."""
        self.blocked.discard((one, two))
        for wire in self.stuck.pop((one, two), {}):
            wire.flush()

    def heal(self) -> None:
        """Unblock all directions, and end slow conditions."""
        self.slow.clear()
        for one, two in sorted(self.blocked):
            self.unblock(one, two)
