"""A broker as a process, with a member that keeps its znodes: what unmodified clients of Kafka talk to.

with kafka_broker(directory) as broker:
    Producer({"bootstrap.servers": broker.address})
    broker.kill()
    broker.serve()
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.zab_server import zab_servers
from zab.cli.servers.local_broker import LocalBroker, asked_metadata
from zab.host.files.secret_file import make_secret_file
from zab.testing.kit.ports import HOST, free_ports

SETTINGS = (
    # A broker that was killed comes back as soon as its old session is over.
    "zookeeper.session.timeout.ms=1000",
    "group.min.session.timeout.ms=1000",
    "log.retention.check.interval.ms=500",
)


class KafkaBroker(GuardedProcess):
    """The broker; its files stay in its directory when it is started again."""

    def __init__(
        self,
        directory: Path,
        hosts: str,
        *,
        listeners: Sequence[str] = (),
        settings: Sequence[str] = (),
        broker_id: int = 1,
        broker_count: int = 1,
        secret_path: Path | None = None,
    ) -> None:
        """`listeners`: the names of further ones; `settings`: further lines of the file."""
        port, *ports = free_ports(1 + len(listeners))
        self.broker_id = broker_id
        self._local = LocalBroker(broker_id, directory, port, broker_count, secret_path)
        self._local.write_file(hosts)
        self._ports = dict(zip(listeners, ports, strict=True))
        places = [f"{name}://{HOST}:{each}" for name, each in {"PLAINTEXT": port, **self._ports}.items()]
        with self._local.config_path.open("a") as file:
            given = {line.partition("=")[0] for line in settings}
            defaults = (line for line in SETTINGS if line.partition("=")[0] not in given)
            file.writelines(f"{line}\n" for line in (*defaults, f"listeners={','.join(places)}", *settings))
        self._local.config_path.chmod(0o600)
        self.command = [sys.executable, "-m", "zab.broker", str(self._local.config_path)]

    @property
    def journal(self) -> Path:
        return self._local.log_path

    @property
    def logs_directory(self) -> Path:
        return self._local.logs_directory

    @property
    def settings(self) -> Path:
        """Its server.properties."""
        return self._local.config_path

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self._local.port}"

    def address_of(self, listener: str) -> str:
        """Where clients of a further listener connect."""
        return f"{HOST}:{self._ports[listener]}"

    def partitions(self, topic: str) -> list[Any]:
        """What it says itself of the partitions of a topic; a client asks whichever broker it likes. Raises OSError."""
        answer = asked_metadata(HOST, self._local.port, topics=None)
        return [each for one in answer.topics if one.name == topic for each in one.partitions]

    def is_serving(self) -> bool:
        """Whether clients are told about it."""
        return self._local.is_serving()

    def serve(self) -> None:
        """Start it, and wait until clients are told about it."""
        self.start()
        self.serve_on()

    def serve_on(self) -> None:
        """Wait until clients are told about it."""
        self.wait_until(self.is_serving)


@contextlib.contextmanager
def kafka_broker(
    directory: Path, *, listeners: Sequence[str] = (), settings: Sequence[str] = ()
) -> Iterator[KafkaBroker]:
    """One member and one broker that serves; both are killed when the block is left. `listeners`, `settings`: see
    `KafkaBroker`."""
    with zab_servers(1, directory=directory / "member") as ensemble:
        broker = KafkaBroker(directory / "broker", ensemble.hosts, listeners=listeners, settings=settings)
        with ended([broker]):
            broker.serve()
            yield broker


@contextlib.contextmanager
def kafka_brokers(
    directory: Path, count: int = 3, *, settings: Sequence[str] = (), has_secret: bool = True
) -> Iterator[list[KafkaBroker]]:
    """One member and so many brokers, with a secret of their own or none; all serve, and are killed when the block is
    left."""
    with zab_servers(1, directory=directory / "member") as ensemble:
        brokers = make_brokers(directory, ensemble.hosts, count, settings=settings, has_secret=has_secret)
        with ended(brokers):
            for broker in brokers:
                broker.start()
            for broker in brokers:
                broker.serve_on()
            yield brokers


def make_brokers(
    directory: Path, hosts: str, count: int, *, settings: Sequence[str] = (), has_secret: bool = True
) -> list[KafkaBroker]:
    """So many brokers of one cluster, none of them started."""
    secret_path = directory / "secret" if has_secret else None
    if secret_path is not None:
        make_secret_file(str(secret_path))
    return [
        KafkaBroker(
            directory / f"broker-{number}",
            hosts,
            settings=settings,
            broker_id=number,
            broker_count=count,
            secret_path=secret_path,
        )
        for number in range(1, count + 1)
    ]
