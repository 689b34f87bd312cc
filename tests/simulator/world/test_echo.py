"""The simulated world serves a process that is no member: the echo service of `tests/host/echo`, the very same code.

Clients send entries; the process is killed, loses its power, and starts again from its log. What was answered is in the
log for ever, with the number that was told.
"""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from tests.host.echo.echo import CLIENT_PROTOCOL, Append, Connection, Durable, Echo, EchoLog, EchoTurn
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.sockets import CLOSED, ClientLink, ClientSockets
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError, demand
from zab.wire.frames import FrameReader, frame

SEEDS = 20
CLIENTS = 3
FAULTS = 12
SECOND = 1000 * MS
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

    def __init__(self, service: Service, number: int, rng: Random) -> None:
        self.number = number
        self._service = service
        self._rng = rng
        self._link: ClientLink[Connection] | None = None
        self._frames = FrameReader(1 << 24)
        self._sent: deque[bytes] = deque()
        self._count = 0

    def start(self) -> None:
        self._service.world.schedule.after(int(SECOND * 0.05 * self._rng.random()), self._go_on)

    def _go_on(self) -> None:
        self.start()
        process = self._service.process
        if self._link is None and process is not None:
            self._frames, self._sent = FrameReader(1 << 24), deque()
            self._link = process.clients.connect(self)
        if self._link is not None:
            self._count += 1
            entry = b"%d.%d" % (self.number, self._count) + bytes(self._rng.randrange(2000))
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


class Service:
    """One machine that runs the service, its clients, and what they were told."""

    def __init__(self, seed: int) -> None:
        schedule = Schedule()
        self.trace = Trace(schedule)
        network = Network(schedule, Random(f"{seed}/network"), 500, 500)
        self.world = World(schedule, network, self.trace, 100)
        self._rng = Random(f"{seed}/faults")
        self.machine = Machine(
            self.world, 1, Random(f"{seed}/machine"), self._boot, disk_us=2000, drift_ppm=200, pause_us=SECOND // 2
        )
        self.clients = [EchoClient(self, -number, Random(f"{seed}/{number}")) for number in range(1, CLIENTS + 1)]
        self.answered: dict[int, bytes] = {}
        self.starts = 0

    def _boot(self) -> EchoProcess | None:
        try:
            log = EchoLog(self.machine.disk)
        except PowerLossError:
            self.machine.disk.crash(self.machine.rng)
            return None
        self.starts += 1
        for number, entry in self.answered.items():
            if number > log.count or log.entries[number - 1] != entry:
                raise SafetyError(NEVER_LOST, f"entry {number} is not, after start {self.starts}")
        for client in self.clients:
            client.lose()
        return EchoProcess(self.machine, log)

    @property
    def process(self) -> EchoProcess | None:
        running = self.machine.running
        assert running is None or isinstance(running, EchoProcess)
        return running

    def told(self, number: int, entry: bytes) -> None:
        demand(self.answered.setdefault(number, entry) == entry, "one number, one entry", f"{number} was told twice")

    def run(self) -> None:
        self.machine.start()
        for client in self.clients:
            client.start()
        for _ in range(FAULTS):
            self.world.schedule.run_until(self.world.schedule.now + int(SECOND * self._rng.random()))
            self._fault()
        self.machine.disk.crash_after(None)
        self.world.schedule.run_until(self.world.schedule.now + 2 * SECOND)
        before = len(self.answered)
        self.world.schedule.run_until(self.world.schedule.now + SECOND)
        assert len(self.answered) > before, "it goes on after its faults"

    def _fault(self) -> None:
        process = self.process
        match self._rng.randrange(5):
            case 0:
                self.machine.stop(with_power=False)
            case 1:
                self.machine.stop(with_power=True)
            case 2:
                self.machine.disk.crash_after(self._rng.randrange(1, 9))
            case 3 if process is not None:
                process.calls_left = self._rng.randrange(6)
            case 4 if process is not None:
                process.pause(int(SECOND * self._rng.random()))


def run(seed: int) -> Service:
    service = Service(seed)
    service.run()
    return service


def test_what_was_answered_is_never_lost() -> None:
    services = [run(seed) for seed in range(SEEDS)]
    assert sum(service.starts for service in services) > 4 * SEEDS
    assert min(len(service.answered) for service in services) > 100


def test_the_same_seed_is_the_same_run() -> None:
    assert len({run(3).trace.digest for _ in range(3)}) == 1
    assert len({run(seed).trace.digest for seed in range(5)}) == 5


def test_an_answer_before_the_log_is_durable_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(SafetyError, match=NEVER_LOST):
        deque(map(run, range(SEEDS)), maxlen=0)
