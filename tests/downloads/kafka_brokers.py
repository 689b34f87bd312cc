"""Brokers of the real Kafka 3.9.1 in ZooKeeper mode, as processes, whose ZooKeeper is an ensemble of ours.

with real_brokers(directory, 2, ensemble.hosts) as brokers:
    KafkaProducer(bootstrap_servers=addresses(brokers))
    brokers[0].kill()
    brokers[0].serve()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.downloads.kafka import kafka_jars
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.quick_java import QUICK
from zab.testing.kit.ports import HOST, free_ports

SESSION_MS = 6_000
LINES = (
    f"zookeeper.session.timeout.ms={SESSION_MS}",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "log.segment.delete.delay.ms=1000",
    "replica.lag.time.max.ms=5000",
    "auto.create.topics.enable=false",
)
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.server.KafkaServer=INFO
"""


class RealBroker(GuardedProcess):
    """One broker; its files stay when it is started again."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        zookeeper: str,
        replica_count: int,
        *,
        java: Sequence[str] = ("-Xms64m", "-Xmx256m", *QUICK),
        settings: Sequence[str] = LINES,
    ) -> None:
        """`replica_count`: of the topics with offsets and transactions, and of those that say nothing. `settings`:
        further lines of its file."""
        directory.mkdir(parents=True)
        self.broker_id = broker_id
        self.logs = directory / "logs"
        self._directory = directory
        [port] = free_ports(1)
        self.address = f"{HOST}:{port}"
        lines = (
            f"broker.id={broker_id}",
            f"listeners=PLAINTEXT://{self.address}",
            f"log.dirs={self.logs}",
            f"zookeeper.connect={zookeeper}",
            f"offsets.topic.replication.factor={replica_count}",
            f"transaction.state.log.replication.factor={replica_count}",
            f"default.replication.factor={replica_count}",
            *settings,
        )
        (directory / "server.properties").write_text("".join(f"{line}\n" for line in lines))
        (directory / "log4j.properties").write_text(_LOG4J)
        self.command = [
            *("java", *java, f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}"),
            *("-classpath", f"{kafka_jars()}/*", "kafka.Kafka", str(directory / "server.properties")),
        ]
        self._starts = 0

    @property
    def journal(self) -> Path:
        return self._directory / "server.log"

    def start(self, **popen: Any) -> Self:
        self._starts += 1
        return super().start(**popen)

    def serve(self) -> None:
        """Start it, and wait until it says that it serves."""
        self.start()
        self.serve_on()

    def serve_on(self) -> None:
        """Wait until it says that it serves."""
        self.wait_until_it_says("started (kafka.server.KafkaServer)", self._starts)


def addresses(brokers: Sequence[RealBroker]) -> list[str]:
    """Where clients connect."""
    return [broker.address for broker in brokers]


@contextlib.contextmanager
def real_brokers(
    directory: Path, count: int, zookeeper: str, *, settings: Sequence[str] = ()
) -> Iterator[list[RealBroker]]:
    """So many brokers that serve; all are killed when the block is left. `settings`: lines besides `LINES`."""
    lines = (*LINES, *settings)
    brokers = [
        RealBroker(number, directory / f"broker-{number}", zookeeper, count, settings=lines)
        for number in range(1, count + 1)
    ]
    with ended(brokers):
        for broker in brokers:
            broker.serve()
        yield brokers
