"""Three members and three brokers as processes, each on a machine of its own where there are namespaces.

    with cluster(directory, net) as found:      `net`: six machines, or None; then everything is on the loopback
        found.brokers[1].kill()
        found.view()                            what brokers say who leads

What is done to them is in `faults`; what they are asked by clients in `clients`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from tests.chaos.brokers.history import Partition
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.cli.servers.local_broker import asked_metadata
from zab.host.files.secret_file import make_secret_file
from zab.testing.kit.ports import free_ports

SIZE: Final = 3
SESSION_SECONDS: Final = 2.0
HERE: Final = "127.0.0.1"
MEMBERS: Final = {"tickTime": 500, "initLimit": 40, "syncLimit": 4}
"""Two seconds of silence end a role, so that a trouble of some seconds does."""

SETTINGS: Final[Mapping[str, object]] = {
    "zookeeper.session.timeout.ms": int(SESSION_SECONDS * 1000),
    "default.replication.factor": SIZE,
    "offsets.topic.replication.factor": SIZE,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "replica.lag.time.max.ms": 2000,
    "replica.fetch.backoff.ms": 100,
    "replica.socket.timeout.ms": 3000,
    "controlled.shutdown.retry.backoff.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


@frozen
class View:
    """What one broker says: who leads each partition, who is in sync, and who is the controller (-1: nobody)."""

    controller: int
    leaders: Mapping[Partition, int]
    in_sync: Mapping[Partition, frozenset[int]]
    brokers: frozenset[int]
    replicas: Mapping[Partition, tuple[int, ...]]


class ChaosBroker(GuardedProcess):
    """One broker; its files stay in its directory when it is started again."""

    def __init__(self, broker_id: int, directory: Path, address: tuple[str, int], machine: int) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.host, self.port = address
        self.machine = machine
        self.logs_directory = directory / "logs"
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return self.directory.with_suffix(".log")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def write_file(self, hosts: str, secret: Path) -> Path:
        """Write its `server.properties`, outside of its directory, which may be a small disk."""
        path = self.directory.with_suffix(".properties")
        lines = {
            "broker.id": self.broker_id,
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.logs_directory,
            "zookeeper.connect": hosts,
            "broker.secretFile": secret,
            **SETTINGS,
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def view(self) -> View:
        """What it says. Raises OSError."""
        return _view_of(asked_metadata(self.host, self.port, topics=None))


def _view_of(answer: Any) -> View:
    each = [((topic.name, one.partition_index), one) for topic in answer.topics for one in topic.partitions]
    leaders = {where: one.leader_id for where, one in each}
    in_sync = {where: frozenset(one.isr_nodes) for where, one in each}
    replicas = {where: tuple(one.replica_nodes) for where, one in each}
    return View(answer.controller_id, leaders, in_sync, frozenset(one.node_id for one in answer.brokers), replicas)


@define
class Cluster:
    """All of it. net: the machines of the members are 1 to 3, those of the brokers 4 to 6."""

    ensemble: ZooKeeperEnsemble
    brokers: dict[int, ChaosBroker]
    net: Namespaces | None = None
    stopped: set[int] = field(factory=set)
    """The brokers that stand still (SIGSTOP)."""

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def view(self, *, without: int = 0) -> View | None:
        """What a broker says that runs; None: none answers. `without`: not this one."""
        for broker in self.brokers.values():
            if broker.broker_id != without and broker.broker_id not in self.stopped and broker.running:
                with contextlib.suppress(OSError):
                    return broker.view()
        return None

    def is_whole(self, in_sync_min: int = SIZE - 1) -> bool:
        """Whether every broker knows all of them, and every partition has a leader and so many replicas in sync."""
        try:
            views = [broker.view() for broker in self.brokers.values()]
        except OSError:
            return False
        return all(
            view.controller in view.brokers
            and view.brokers == frozenset(self.brokers)
            and all(leader in view.in_sync[where] for where, leader in view.leaders.items())
            and all(len(in_sync) >= in_sync_min for in_sync in view.in_sync.values())
            for view in views
        )

    def start_all(self) -> None:
        """Start whatever has ended, and wait until everything is whole."""
        for member in self.ensemble.members:
            if not member.running:
                member.kill()
                member.start()
        for broker in self.brokers.values():
            if not broker.running:
                broker.kill()
                broker.start()
        self.ensemble.wait()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_whole():
            for broker in self.brokers.values():
                if not broker.running:
                    # It met its old session, or a full disk.
                    broker.kill()
                    broker.start()
            if time.monotonic() > deadline:
                raise AssertionError(f"the brokers are not whole: {self.view()}")
            time.sleep(0.1)


@contextlib.contextmanager
def cluster(
    directory: Path, net: Namespaces | None, program: Sequence[str] = ("-m", "zab.broker")
) -> Iterator[Cluster]:
    """All serve; all are killed when the block is left. `program`: what Python runs with the file of a broker after
    it, where it is no broker but a variant of one."""
    secret = directory / "secret"
    make_secret_file(str(secret))
    numbers = range(1, SIZE + 1)
    lines: list[dict[str, str | int]] = [{} for _ in numbers]
    ports = free_ports(SIZE)
    if net is not None:
        servers = {f"server.{number}": f"{net.address(number)}:2888:3888" for number in numbers}
        lines = [{**servers, "clientPortAddress": net.address(number), "clientPort": 2181} for number in numbers]
        lines = [{**each, "quorum.insecure": "true"} for each in lines]
    with zab_servers(SIZE, directory=directory, configuration=MEMBERS, each=lines, on=net) as ensemble:
        brokers = {}
        for number, port in zip(numbers, ports, strict=True):
            machine = SIZE + number
            address = (HERE, port) if net is None else (net.address(machine), 9092)
            broker = ChaosBroker(number, directory / f"broker{number}", address, machine)
            command = [sys.executable, *program, str(broker.write_file(ensemble.hosts, secret))]
            broker.command = command if net is None else net.command(machine, command)
            brokers[number] = broker
        with ended(brokers.values()):
            found = Cluster(ensemble, brokers, net)
            found.start_all()
            yield found
