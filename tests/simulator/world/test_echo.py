"""The simulated world runs processes that are no members: the echo service of `tests/host/echo`, the very same code.

Clients of three servers send entries while the world's faults happen to machines and to the network; then all of it
comes back. The judge is short: what was answered is in the log for ever, with the number that was told; and in the end
every server knows how many entries the others have. A run that fails is shrunk.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.host.echo.echo import CLIENT_PROTOCOL, LINK_PROTOCOL, PURPOSES, Connection, Durable, Echo, Effects
from tests.host.echo.echo_log import EchoLog
from tests.host.echo.turn import EchoTurn, Ports
from zab.simulator.world.cluster import Cluster, FaultContext, process_of
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.faults import FaultInjector, Happened
from zab.simulator.world.links import Links
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network
from zab.simulator.world.network_faults import NETWORK_FAULTS, block
from zab.simulator.world.process import Process
from zab.simulator.world.process_faults import PROCESS_FAULTS
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.scope import Kept
from zab.simulator.world.shrinking import Shrunk, shrink
from zab.simulator.world.simulation import Simulation
from zab.simulator.world.sockets import CLOSED, ClientLink, ClientSockets
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError, demand
from zab.wire.frames import FrameReader, frame
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Party

SEEDS = 8
SIDS = (1, 2, 3)
SECOND = 1000 * MS
FAULT_TICKS = 120
"""Ticks of a tenth of a second."""
RECOVERY_TICKS = 60
DIAL_LIMIT_MS = 2000
NEVER_LOST = "what was answered is in the log"


class Operator:
    """No service halts: its disk ends the process before it says that it failed."""

    def trace(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def error(self, sentence: str, **pairs: object) -> None: ...

    def stop(self, reason: str) -> None:
        raise SafetyError("no service halts", reason)


class Greeter:
    """See `zab.simulator.world.links.Greeter`. These servers believe each other."""

    def __init__(self, sid: int, rng: Random) -> None:
        self._party = Party(sid, 1, 1, is_open=True)
        self._rng = rng

    def dialling(self, sid: int) -> Dialling:
        return Dialling(self._party, sid, PURPOSES.link, self._rng.randbytes(NONCE_BYTES))

    def listening(self) -> Listening:
        return Listening(self._party, SIDS, PURPOSES.at_link_port, self._rng.randbytes(NONCE_BYTES))

    def overhear(self, payload: bytes) -> None: ...


class EchoProcess(Process):
    """One process of the service: its turn, on the ports of the world. `neighbour` finds the process of a server."""

    def __init__(
        self, machine: Machine, log: EchoLog, rng: Random, neighbour: Callable[[int], EchoProcess | None]
    ) -> None:
        super().__init__(machine)
        self.log = log
        self.clients = ClientSockets(self, CLIENT_PROTOCOL)
        self._neighbour = neighbour
        self.links = Links(self, LINK_PROTOCOL, Greeter(self.sid, rng), self._links_of, DIAL_LIMIT_MS)
        self._answers: deque[Durable] = deque()
        log_thread = LogThread(self, log, self._post, self._answers.append)
        self.echo = Echo(log.count, rng, {}, [sid for sid in SIDS if sid < self.sid])
        ports = Ports(
            *(machine, self.clients, self.links, Operator(), None),
            append=log_thread.put,
            dial=self.links.dial,
            answers=self._answers,
        )
        self.turn = EchoTurn(self.echo, ports)

    def _links_of(self, sid: int) -> Links[int, Any] | None:
        process = self._neighbour(sid)
        return None if process is None else process.links

    def _post(self, answer: Durable) -> None:
        self._answers.append(answer)
        self.wake(self.schedule.now)

    def die(self, *, with_power: bool) -> None:
        super().die(with_power=with_power)
        self.clients.process_died(with_power=with_power)
        rng = self.machine.rng
        self.links.process_died(with_power=with_power, gracefully=rng.random() < 0.5, silent_us=rng.randrange(SECOND))


class EchoClient:
    """Sends an entry now and then to its server, one by one on its connection, and keeps what it is told."""

    def __init__(self, service: Service, number: int, rng: Random, kept: frozenset[int] | None) -> None:
        """`kept`: only these of its entries are sent; None: all are."""
        self.number = number
        self.count = 0
        """How many entries it had in mind."""
        self._is_stopped = False
        self._service = service
        self._kept = kept
        self._rng = rng
        self._link: ClientLink[Connection] | None = None
        self._frames = FrameReader(1 << 24)
        self._sent: deque[bytes] = deque()

    def start(self) -> None:
        self._service.schedule.after(int(SECOND * 0.05 * self._rng.random()), self._go_on)

    def stop(self) -> None:
        self._is_stopped = True

    def _go_on(self) -> None:
        if self._is_stopped:
            return
        self.start()
        process = self._service.process_of(-self.number)
        if self._link is None and process is not None:
            self._frames, self._sent = FrameReader(1 << 24), deque()
            self._link = process.clients.connect(self)
        if self._link is not None:
            self.count += 1
            entry = b"%d.%d" % (self.number, self.count) + bytes(self._rng.randrange(2000))
            if self._kept is None or self.count in self._kept:
                self._sent.append(entry)
                data = frame(entry)
                self._link.to_server.send(data, len(data))

    def receive(self, link: ClientLink[Connection], data: bytes) -> None:
        if link is not self._link:
            return
        if data == CLOSED:
            self._link = None
            return
        for payload in self._frames.feed(data):
            entry = payload[8:]
            demand(entry == self._sent.popleft(), "order", f"client {self.number} is answered {entry[:20]!r}")
            self._service.told(-self.number, int.from_bytes(payload[:8], "big"), entry)

    def lose(self) -> None:
        """The server may be gone: come back."""
        self._link = None


class Service(Cluster):
    """The machines that run the service, and the judge: what clients were told."""

    def __init__(self, seed: int) -> None:
        schedule = Schedule()
        network = Network(schedule, Random(f"{seed}/network"), 500, 500)
        super().__init__(schedule, network, Trace(schedule), tick_us=SECOND // 10, patience_ticks=3, disk_us=2000)
        world = World(schedule, network, self.trace, 100)
        self.machines = {
            sid: Machine(
                world,
                sid,
                Random(f"{seed}/machine {sid}"),
                partial(self._boot, sid),
                disk_us=self.disk_us,
                drift_ppm=200,
                pause_us=SECOND // 2,
            )
            for sid in SIDS
        }
        self.clients: list[EchoClient] = []
        self.answered: dict[int, dict[int, bytes]] = {sid: {} for sid in SIDS}
        """What clients of each server were told: numbers, and the entries."""
        self.counts = Counter[str]()

    def _boot(self, sid: int) -> EchoProcess | None:
        machine = self.machines[sid]
        try:
            log = EchoLog(machine.disk)
        except PowerLossError:
            machine.disk.crash(machine.rng)
            return None
        except OSError:
            machine.disk.kill()
            return None
        self.count("starts")
        for number, entry in self.answered[sid].items():
            if number > log.count or log.entries[number - 1] != entry:
                raise SafetyError(NEVER_LOST, f"entry {number} of {sid} is not, after start {self.counts['starts']}")
        for client in self.clients:
            if client.number == -sid:
                client.lose()
        return EchoProcess(machine, log, machine.rng, self.process_of)

    def process_of(self, sid: int) -> EchoProcess | None:
        running = process_of(self.machines[sid])
        assert running is None or isinstance(running, EchoProcess)
        return running

    @property
    def answered_count(self) -> int:
        return sum(map(len, self.answered.values()))

    def all_know_all(self) -> bool:
        """Whether every server knows how many entries the others have."""
        echoes = {sid: process.echo for sid in SIDS if (process := self.process_of(sid)) is not None}
        counts = {sid: echo.durable_count for sid, echo in echoes.items()}
        return len(echoes) == len(SIDS) and all(
            echo.counts == {other: count for other, count in counts.items() if other != sid}
            for sid, echo in echoes.items()
        )

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def told(self, sid: int, number: int, entry: bytes) -> None:
        known = self.answered[sid].setdefault(number, entry)
        demand(known == entry, "one number, one entry", f"{number} of {sid} was told twice")


def cut_off(context: FaultContext) -> bool:
    """A fault of this service's own: a server hears its client no longer for a while."""
    sid = context.rng.choice(SIDS)
    block(context, [(-sid, sid)])
    return True


CAUSES = {**PROCESS_FAULTS, **NETWORK_FAULTS, "cut_off": cut_off}


class EchoRun(Simulation):
    """One run: so many ticks with faults, then the service goes on."""

    def __init__(
        self, seed: int, kept: Kept | None = None, happened: Sequence[Happened] = (), end_us: int | None = None
    ) -> None:
        super().__init__(FAULT_TICKS if kept is None else kept.ticks, end_us)
        self.cluster = self.service = Service(seed)
        self.service.clients = [
            EchoClient(
                self.service,
                -number,
                Random(f"{seed}/{number}"),
                None if kept is None else frozenset(kept.requests[number]),
            )
            for number in SIDS
            if kept is None or number in kept.requests
        ]
        planned = None if kept is None else kept.faults_of(happened)
        self.faults = FaultInjector(
            FaultContext(self.service, Random(f"{seed}/faults")),
            CAUSES,
            dict.fromkeys(CAUSES, 1),
            4 * self.service.tick_us,
            planned,
        )

    @property
    def requests(self) -> Mapping[int, int]:
        return {-client.number: client.count for client in self.service.clients}

    def run(self) -> Service:
        service = self.service
        for machine in service.machines.values():
            machine.start()
        for client in service.clients:
            client.start()
        self.faults.start()
        self.advance(self.fault_ticks)
        self.faults.end()
        before = service.answered_count
        self.until(lambda: service.answered_count > before, RECOVERY_TICKS, lambda: "nobody is answered")
        for client in service.clients:
            client.stop()
        self.until(service.all_know_all, RECOVERY_TICKS, lambda: "servers do not know how many entries others have")
        return service


def shrunk(seed: int) -> Shrunk | None:
    return shrink(lambda kept, happened, end_us: EchoRun(seed, kept, happened, end_us))


def test_what_was_answered_is_never_lost() -> None:
    services = [EchoRun(seed).run() for seed in range(SEEDS)]
    counts = sum((service.counts for service in services), Counter[str]())
    assert {f"fault: {kind}" for kind in CAUSES} <= counts.keys()
    assert counts["starts"] > 4 * SEEDS
    assert min(service.answered_count for service in services) > 100


def test_the_same_seed_is_the_same_run() -> None:
    assert len({EchoRun(3).run().trace.digest for _ in range(2)}) == 1
    assert len({EchoRun(seed).run().trace.digest for seed in range(3)}) == 3
    assert shrunk(3) is None, "a good run is not shrunk"


def test_an_answer_before_the_log_is_durable_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Echo.step

    def eager(echo: Echo, now: int, inputs: list[Any]) -> Effects:
        effects = step(echo, now, [given for given in inputs if not isinstance(given, Durable)])
        if effects.append:
            echo._answer(echo.durable_count + len(effects.append), now)
        return effects

    monkeypatch.setattr(Echo, "step", eager)
    found = next(part for part in map(shrunk, range(SEEDS)) if part is not None)
    assert isinstance(found.error, SafetyError)
    assert found.error.rule == NEVER_LOST
    assert found.is_minimal
    assert "power" in found.faults[-1].kind
    assert len(found.faults) <= 4, "of some 30"
    assert len(found.kept.requests) == 1
    assert 2 * found.events_count < found.whole_events_count
