"""Three members and three brokers as processes, each on a machine of its own where there are namespaces.

    with Brokers.serving(directory, net) as found:      `net`: six machines, or None
        found.nodes[1].kill()
        found.view()                                    what brokers say who leads

What is done to them is in `faults`; what they are asked by clients in `clients`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from tests.chaos.brokers.history import Partition
from tests.chaos.nodes.cluster import SESSION_SECONDS, Cluster, Node
from zab.cli.servers.local_broker import asked_metadata
from zab.host.files.secret_file import make_secret_file

SIZE: Final = 3

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


class ChaosBroker(Node):
    """One broker; `number` is its id."""

    def __init__(self, number: int, directory: Path, address: tuple[str, int]) -> None:
        self.number = number
        self.directory = directory
        self.host, self.port = address
        self.logs_directory = directory / "logs"
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return self.directory.with_suffix(".log")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def configure(self, hosts: str) -> Path:
        """Write its `server.properties`, outside of its directory, which may be a small disk."""
        path, secret = self.directory.with_suffix(".properties"), self.directory.with_name("secret")
        if not secret.exists():
            make_secret_file(str(secret))
        lines = {
            "broker.id": self.number,
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
class Brokers(Cluster[ChaosBroker]):
    """All of it. The machines of the brokers are 4 to 6."""

    noun = "broker"
    count = SIZE
    port = 9092
    node = ChaosBroker
    program = ("-m", "zab.broker")
    stopped: set[int] = field(factory=set)
    """The brokers that stand still (SIGSTOP)."""

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.nodes.values())

    def view(self, *, without: int = 0) -> View | None:
        """What a broker says that runs; None: none answers. `without`: not this one."""
        for broker in self.nodes.values():
            if broker.number != without and broker.number not in self.stopped and broker.running:
                with contextlib.suppress(OSError):
                    return broker.view()
        return None

    def is_whole(self, in_sync_min: int = SIZE - 1) -> bool:
        """Whether every broker knows all of them, and every partition has a leader and so many replicas in sync."""
        try:
            views = [broker.view() for broker in self.nodes.values()]
        except OSError:
            return False
        return all(
            view.controller in view.brokers
            and view.brokers == frozenset(self.nodes)
            and all(leader in view.in_sync[where] for where, leader in view.leaders.items())
            and all(len(in_sync) >= in_sync_min for in_sync in view.in_sync.values())
            for view in views
        )

    def state(self) -> str:
        return str(self.view())
