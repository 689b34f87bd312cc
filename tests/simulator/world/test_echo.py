"""The simulated world serves a process that is no member: the echo service of `tests/host/echo`, the very same code.

Clients send entries while the world's faults happen to the machine and to the network; then all of it comes back. The
judge is short: what was answered is in the log for ever, with the number that was told. A run that fails is shrunk.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from tests.host.echo.echo import CLIENT_PROTOCOL, Append, Connection, Durable, Echo, EchoLog, EchoTurn
from zab.simulator.world.cluster import Cluster, FaultContext, process_of
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.faults import FaultInjector, Happened
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network
from zab.simulator.world.network_faults import block
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

SEEDS = 20
CLIENTS = 3
SECOND = 1000 * MS
FAULT_TICKS = 120
"""Ticks of a tenth of a second."""
RECOVERY_TICKS = 30
NEVER_LOST = "what was answered is in the log"


class EchoProcess(Process):
    """One process of the service: its turn, on the ports of the world."""

    def __init__(self, machine: Machine, log: EchoLog) -> None:
        super().__init__(machine)
        self.log = log
        self.clients = ClientSockets(self, CLIENT_PROTOCOL)
        self._answers: deque[Durable] = deque()
        log_thread = LogThread(self, log, self._post, self._answers.append)
        self.turn = EchoTurn(
            Echo(log.count),
            self.clients,
            monotonic_ns=machine.monotonic_ns,
            append=log_thread.put,
            answers=self._answers,
        )

    def _post(self, answer: Durable) -> None:
        self._answers.append(answer)
        self.wake(self.schedule.now)

    def die(self, *, with_power: bool) -> None:
        super().die(with_power=with_power)
        self.clients.process_died(with_power=with_power)


class EchoClient:
    """Sends an entry now and then, one by one on its connection, and keeps what it is told."""

    def __init__(self, service: Service, number: int, rng: Random, kept: frozenset[int] | None) -> None:
        """`kept`: only these of its entries are sent; None: all are."""
        self.number = number
        self.count = 0
        """How many entries it had in mind."""
        self._service = service
        self._kept = kept
        self._rng = rng
        self._link: ClientLink[Connection] | None = None
        self._frames = FrameReader(1 << 24)
        self._sent: deque[bytes] = deque()

    def start(self) -> None:
        self._service.schedule.after(int(SECOND * 0.05 * self._rng.random()), self._go_on)

    def _go_on(self) -> None:
        self.start()
        process = self._service.process
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
            self._service.told(int.from_bytes(payload[:8], "big"), entry)

    def lose(self) -> None:
        """The server may be gone: come back."""
        self._link = None


class Service(Cluster):
    """One machine that runs the service, and the judge: what clients were told."""

    def __init__(self, seed: int) -> None:
        schedule = Schedule()
        network = Network(schedule, Random(f"{seed}/network"), 500, 500)
        super().__init__(schedule, network, Trace(schedule), tick_us=SECOND // 10, patience_ticks=3, disk_us=2000)
        world = World(schedule, network, self.trace, 100)
        rng = Random(f"{seed}/machine")
        self.machine = Machine(world, 1, rng, self._boot, disk_us=self.disk_us, drift_ppm=200, pause_us=SECOND // 2)
        self.machines = {1: self.machine}
        self.clients: list[EchoClient] = []
        self.answered: dict[int, bytes] = {}
        self.counts = Counter[str]()

    def _boot(self) -> EchoProcess | None:
        try:
            log = EchoLog(self.machine.disk)
        except PowerLossError:
            self.machine.disk.crash(self.machine.rng)
            return None
        except OSError:
            self.machine.disk.kill()
            return None
        self.count("starts")
        for number, entry in self.answered.items():
            if number > log.count or log.entries[number - 1] != entry:
                raise SafetyError(NEVER_LOST, f"entry {number} is not, after start {self.counts['starts']}")
        for client in self.clients:
            client.lose()
        return EchoProcess(self.machine, log)

    @property
    def process(self) -> EchoProcess | None:
        running = process_of(self.machine)
        assert running is None or isinstance(running, EchoProcess)
        return running

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def told(self, number: int, entry: bytes) -> None:
        demand(self.answered.setdefault(number, entry) == entry, "one number, one entry", f"{number} was told twice")


def cut_off(context: FaultContext) -> bool:
    """A fault of this service's own: the server hears a client no longer for a while."""
    block(context, [(-context.rng.randint(1, CLIENTS), 1)])
    return True


CAUSES = {**PROCESS_FAULTS, "cut_off": cut_off}
"""One machine has no other one that it could lose."""


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
            for number in range(1, CLIENTS + 1)
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
        service.machine.start()
        for client in service.clients:
            client.start()
        self.faults.start()
        self.advance(self.fault_ticks)
        self.faults.end()
        before = len(service.answered)
        self.until(lambda: len(service.answered) > before, RECOVERY_TICKS, lambda: "nobody is answered")
        return service


def shrunk(seed: int) -> Shrunk | None:
    return shrink(lambda kept, happened, end_us: EchoRun(seed, kept, happened, end_us))


def test_what_was_answered_is_never_lost() -> None:
    services = [EchoRun(seed).run() for seed in range(SEEDS)]
    counts = sum((service.counts for service in services), Counter[str]())
    assert {f"fault: {kind}" for kind in CAUSES} <= counts.keys()
    assert counts["starts"] > 4 * SEEDS
    assert min(len(service.answered) for service in services) > 100


def test_the_same_seed_is_the_same_run() -> None:
    assert len({EchoRun(3).run().trace.digest for _ in range(3)}) == 1
    assert len({EchoRun(seed).run().trace.digest for seed in range(5)}) == 5
    assert shrunk(3) is None, "a good run is not shrunk"


def test_an_answer_before_the_log_is_durable_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Echo.step

    def eager(echo: Echo, now: int, inputs: list[object]) -> list[object]:
        effects = step(echo, now, [given for given in inputs if not isinstance(given, Durable)])
        for effect in effects:
            if isinstance(effect, Append):
                dirty = dict(echo.dirty)
                echo._answer(echo.durable_count + len(effect.entries))
                echo.dirty.update(dirty)
        return effects

    monkeypatch.setattr(Echo, "step", eager)
    found = next(part for part in map(shrunk, range(SEEDS)) if part is not None)
    assert isinstance(found.error, SafetyError)
    assert found.error.rule == NEVER_LOST
    assert found.is_minimal
    assert "power" in found.faults[-1].kind
    assert len(found.faults) <= 2, "at most its disk is slow besides"
    assert len(found.kept.requests) == 1
    assert 2 * found.events_count < found.whole_events_count
