"""A broker beside a local ensemble, which keeps its znodes.

    DIR/broker-1/server.properties      written at every start
    DIR/broker-1/broker.log             the journal of the broker, appended to
    DIR/broker-1/logs/…                 the partitions, which stay

Kafka's defaults are for many brokers and long lives. So the topic of committed offsets has few partitions, and the
first member of a group does not wait for others. Topics have a replica on each broker, on three at most.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from zab.cli.servers.local_process import HOST, LocalProcess
from zab.configuration.properties import escaped

__all__ = ["LocalBroker", "asked_metadata"]

OFFSETS_PARTITION_COUNT = 3
PROBE_SECONDS = 1.0
METADATA_VERSION = 12
REPLICAS_MAX = 3
"""Replicas of a partition, where there are so many brokers."""


class LocalBroker(LocalProcess):
    """One broker: its id, port, directory and process."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        port: int,
        broker_count: int = 1,
        secret_path: Path | None = None,
        http_port: int = 0,
    ) -> None:
        """`broker_count`: how many there are; `secret_path`: the secret that all of them have, if any; `http_port`: of
        metrics and health, 0 for none."""
        self._http_port = http_port
        self._replica_count = min(REPLICAS_MAX, broker_count)
        self._secret_path = secret_path
        names = ("zab.broker", "broker run", directory, "server.properties", "broker.log")
        super().__init__(f"broker {broker_id}", *names)
        self.broker_id = broker_id
        self.port = port

    @property
    def logs_directory(self) -> Path:
        return self.directory / "logs"

    @property
    def lock_file(self) -> str:
        """What a broker locks in the directory of its logs."""
        from zab.partition.log.directory import LOCK_FILE

        return LOCK_FILE

    def write_file(self, hosts: str) -> None:
        """Write its settings, with the connection string of the members. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [
            "# Written by `zab ensemble` at every start; what is changed here is lost.",
            f"broker.id={self.broker_id}",
            f"listeners=PLAINTEXT://{HOST}:{self.port}",
            f"log.dirs={escaped(str(self.logs_directory))}",
            f"zookeeper.connect={hosts}",
            f"offsets.topic.num.partitions={OFFSETS_PARTITION_COUNT}",
            *([] if self._secret_path is None else [f"broker.secretFile={escaped(str(self._secret_path))}"]),
            f"http.port={self._http_port}",
            f"default.replication.factor={self._replica_count}",
            f"offsets.topic.replication.factor={self._replica_count}",
            "# The first member of a group does not wait for others.",
            "group.initial.rebalance.delay.ms=0",
            "# They stop together: the last ones have nobody who could lead instead.",
            "controlled.shutdown.max.retries=1",
            "controlled.shutdown.retry.backoff.ms=500",
        ]
        self.config_path.write_text("\n".join(lines) + "\n", encoding="latin-1", errors="strict")

    def is_serving(self) -> bool:
        """Whether clients are told about it: it is registered, and there is a controller."""
        try:
            answer = asked_metadata(HOST, self.port, topics=())
        except OSError:
            return False
        is_registered = any(broker.node_id == self.broker_id for broker in answer.brokers)
        return is_registered and answer.controller_id >= 0


def asked_metadata(host: str, port: int, topics: tuple[Any, ...] | None) -> Any:
    """A broker's MetadataResponse about these topics, None: about all of them. Raises OSError."""
    from zab.kafka.api_key import ApiKey
    from zab.kafka.frames import decode_response, request_frame
    from zab.kafka.headers import RequestHeader
    from zab.kafka.messages.metadata import MetadataRequest

    header = RequestHeader(ApiKey.METADATA, METADATA_VERSION, correlation_id=1, client_id="zab ensemble")
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    with socket.create_connection((host, port), PROBE_SECONDS) as connection:
        connection.settimeout(PROBE_SECONDS)
        connection.sendall(request_frame(header, request))
        size = int.from_bytes(_read(connection, 4), "big")
        _, answer = decode_response(ApiKey.METADATA, METADATA_VERSION, _read(connection, size))
    return answer


def _read(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes. Raises OSError."""
    answer = b""
    while len(answer) < size:
        piece = connection.recv(size - len(answer))
        if not piece:
            raise ConnectionResetError("the broker has closed the connection")
        answer += piece
    return answer
