"""Listeners with TLS: unmodified clients come in with a good certificate, and nobody else does."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from tests.rigs.asyncio_program import run_asyncio
from tests.rigs.certificates import Certificates
from tests.rigs.kafka_broker import KafkaBroker, kafka_broker
from tests.rigs.scraping import scraped
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import HOST, free_ports

pytestmark = [pytest.mark.process, pytest.mark.slow]

BATCH_BYTES = 20_000


class Secured:
    """A broker that wants certificates, and the stores of those who have one."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory / "certificates")
        self.own = self.certificates.member(HOST, "localhost")
        self.alice = self.certificates.client("alice")
        self.settings = [
            f"ssl.keystore.location={self.own}/keystore.pem",
            f"ssl.truststore.location={self.own}/truststore.pem",
            "ssl.client.auth=required",
        ]

    def context(self, *, shows: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.alice / "truststore.pem"))
        if shows is not None:
            context.load_cert_chain(shows / "keystore.pem")
        return context

    def librdkafka(self, address: str, *, shows: Path | None) -> dict[str, object]:
        own = {} if shows is None else {f"ssl.{kind}.location": str(shows / "keystore.pem") for kind in CERTIFIED}
        return {
            "bootstrap.servers": address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.alice / "truststore.pem"),
            "log_level": 0,
            **own,
        }


CERTIFIED = ("certificate", "key")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def http_port() -> int:
    [port] = free_ports(1)
    return port


@pytest.fixture(scope="module")
def broker(secured: Secured, http_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = [*secured.settings, f"http.port={http_port}"]
    with kafka_broker(tmp_path_factory.mktemp("kafka"), listeners=["SSL"], settings=settings) as found:
        yield found


@contextlib.contextmanager
def connected(secured: Secured, broker: KafkaBroker, *, shows: Path | None) -> Iterator[ssl.SSLSocket]:
    """A connection whose handshake is done, as its client sees it."""
    host, _, port = broker.address_of("SSL").rpartition(":")
    with (
        socket.create_connection((host, int(port)), PATIENCE_SECONDS) as plain,
        secured.context(shows=shows).wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        yield wrapped


def test_clients_with_certificates_produce_and_consume(secured: Secured, broker: KafkaBroker) -> None:
    topic, address = f"tls-{uuid.uuid4()}", broker.address_of("SSL")
    options = {
        "bootstrap_servers": address,
        "security_protocol": "SSL",
        "ssl_context": secured.context(shows=secured.alice),
    }
    producer = KafkaProducer(**options)
    # Several records of TLS each, of which the answer to a fetch has many.
    values = [bytes([number]) * BATCH_BYTES for number in range(30)]
    for value in values:
        producer.send(topic, value)
    producer.flush(PATIENCE_SECONDS)
    producer.close()

    async def once_more() -> None:
        async with AIOKafkaProducer(**options) as one:
            await one.send_and_wait(topic, b"aiokafka")

    run_asyncio(asyncio.wait_for(once_more(), PATIENCE_SECONDS))
    librdkafka = secured.librdkafka(address, shows=secured.alice)
    last = Producer(librdkafka)
    last.produce(topic, b"librdkafka")
    assert last.flush(PATIENCE_SECONDS) == 0
    expected = [*values, b"aiokafka", b"librdkafka"]
    reader = KafkaConsumer(topic, **options, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    found = []
    for record in reader:
        found.append(record.value)
        if len(found) == len(expected):
            break
    reader.close()
    assert found == expected
    other = Consumer({**librdkafka, "group.id": topic, "auto.offset.reset": "earliest"})
    other.subscribe([topic])
    found = [message.value() for message in other.consume(len(expected), PATIENCE_SECONDS)]
    other.close()
    assert found == expected


def test_metadata_names_the_listener_that_was_asked(secured: Secured, broker: KafkaBroker) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=broker.address_of("SSL"),
        security_protocol="SSL",
        ssl_context=secured.context(shows=secured.alice),
    )
    [described] = admin.describe_cluster()["brokers"]
    admin.close()
    assert f"{described['host']}:{described['port']}" == broker.address_of("SSL")


def test_a_client_without_a_certificate_or_with_that_of_another_authority_gets_nothing(
    secured: Secured, broker: KafkaBroker, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path).client("alice")
    for shows in (None, stranger):
        with pytest.raises(KafkaException):
            AdminClient(secured.librdkafka(broker.address_of("SSL"), shows=shows)).list_topics(timeout=2)
        # In TLS 1.3, a client learns after its own last message that it is refused.
        with connected(secured, broker, shows=shows) as wrapped, pytest.raises((ssl.SSLError, ConnectionError)):
            wrapped.recv(1)


def test_a_listener_with_tls_does_not_answer_in_clear_text(broker: KafkaBroker) -> None:
    host, _, port = broker.address_of("SSL").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as plain:
        plain.sendall((14).to_bytes(4, "big") + b"\0\x12\0\0\0\0\0\1\0\4none")
        answer = plain.recv(100)
        assert answer[:1] == b"\x15", "an alert of TLS"
        assert plain.recv(100) == b""


def test_a_handshake_that_fails_is_a_failed_authentication(broker: KafkaBroker, http_port: int) -> None:
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    before = scraped(http_port)[name,]
    host, _, port = broker.address_of("SSL").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert plain.recv(100)[:1] == b"\x15"
    assert scraped(http_port)[name,] == before + 1


def test_a_new_certificate_is_used_once_its_file_has_changed(secured: Secured, broker: KafkaBroker) -> None:
    def serial() -> int:
        with connected(secured, broker, shows=secured.alice) as wrapped:
            certificate = wrapped.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)

    before = serial()
    other = secured.certificates.member(HOST, "localhost", name="renewed")
    aside = secured.own / "aside.pem"
    shutil.copy2(other / "keystore.pem", aside)
    aside.replace(secured.own / "keystore.pem")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while serial() == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "there are other certificates" in broker.journal.read_text()
