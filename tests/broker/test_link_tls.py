"""Brokers whose links to each other are inside of TLS: they replicate, and nobody else gets a link."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.certificates import Certificates
from tests.rigs.kafka_broker import KafkaBroker, kafka_brokers
from tests.rigs.waiting import PATIENCE_SECONDS, until
from zab.testing.kit.ports import HOST

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "copied"
REFUSED = "link is refused"
_LISTENS = re.compile(r"REPLICATION://127\.0\.0\.1:(\d+)")


def settings(stores: Path) -> list[str]:
    return [
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:SSL",
        f"ssl.keystore.location={stores}/keystore.pem",
        f"broker.ssl.truststore.location={stores}/quorum.truststore.pem",
    ]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def brokers(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaBroker]]:
    own = settings(certificates.member(HOST))
    with kafka_brokers(tmp_path_factory.mktemp("brokers"), 2, settings=own) as found:
        yield found


def link_port(broker: KafkaBroker) -> int:
    found = _LISTENS.findall(broker.journal.read_text())
    return int(found[-1])


def in_sync(broker: KafkaBroker, topic: str) -> set[int]:
    return {broker_id for partition in broker.partitions(topic) for broker_id in partition.isr_nodes}


def refused(brokers: list[KafkaBroker]) -> int:
    return sum(broker.journal.read_text().count(REFUSED) for broker in brokers)


def create(broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(PATIENCE_SECONDS)


def test_what_is_acknowledged_is_at_both(brokers: list[KafkaBroker]) -> None:
    create(brokers[0], TOPIC)
    until(lambda: in_sync(brokers[0], TOPIC) == {1, 2})
    producer = Producer({"bootstrap.servers": brokers[0].address, "acks": "all", "log_level": 0})
    producer.produce(TOPIC, b"secret words")
    assert producer.flush(PATIENCE_SECONDS) == 0
    for broker in brokers:
        [log] = (broker.logs_directory / f"{TOPIC}-0").glob("*.log")
        assert b"secret words" in log.read_bytes()


def test_who_shows_no_certificate_or_speaks_in_clear_gets_no_link(
    brokers: list[KafkaBroker], certificates: Certificates
) -> None:
    port = link_port(brokers[0])
    with socket.create_connection((HOST, port), PATIENCE_SECONDS) as plain:
        plain.sendall(bytes(64))
        # An alert of TLS at most, and the end.
        assert plain.recv(4096)[:1] in (b"", b"\x15")
    alice = certificates.client("alice")
    trusting = ssl.create_default_context(cafile=str(alice / "truststore.pem"))
    with socket.create_connection((HOST, port), PATIENCE_SECONDS) as plain:
        assert answer_within(trusting, plain) == b""
    trusting.load_cert_chain(alice / "keystore.pem")
    with socket.create_connection((HOST, port), PATIENCE_SECONDS) as plain:
        assert answer_within(trusting, plain) == b"", "clients have another authority"


def answer_within(context: ssl.SSLContext, plain: socket.socket) -> bytes:
    """What the broker says inside of TLS; nothing: it ends the connection."""
    try:
        with context.wrap_socket(plain, server_hostname=HOST) as secured:
            return secured.recv(1)
    except OSError:
        return b""


def test_a_broker_with_the_secret_and_a_certificate_of_another_authority_gets_no_link(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    """It may register, since the ensemble does not know; it is told nothing about the cluster, and copies nothing."""
    stranger = settings(Certificates(tmp_path / "others").member(HOST))
    [own, other] = brokers
    text = other.settings.read_text()
    other.stop()
    for line in stranger[1:]:
        key = line.partition("=")[0]
        other.settings.write_text(re.sub(rf"(?m)^{re.escape(key)}=.*$", line, other.settings.read_text()))
    refusals = refused(brokers)
    try:
        other.start()
        until(lambda: refused(brokers) > refusals)
        assert in_sync(own, TOPIC) == {1}
    finally:
        other.stop()
        other.settings.write_text(text)
        other.serve()
    until(lambda: in_sync(own, TOPIC) == {1, 2})
