"""Logins of unmodified clients: SCRAM and PLAIN, over TLS; nobody else is served."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from tests.rigs.asyncio_program import run_asyncio
from tests.rigs.certificates import Certificates
from tests.rigs.kafka_broker import KafkaBroker, kafka_broker
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import HOST

pytestmark = [pytest.mark.process, pytest.mark.slow]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
NAME, PASSWORD = "alice", "open, sesame=1"


class Secured:
    """A broker with a login, and its authority."""

    def __init__(self, broker: KafkaBroker, authority: str) -> None:
        self.address = broker.address_of("SASL_SSL")
        self.plain_address = broker.address
        self.authority = authority
        self.journal = broker.journal

    def options(self, mechanism: str, name: str = NAME, password: str = PASSWORD) -> dict[str, object]:
        """The options of kafka-python and aiokafka."""
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=self.authority),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": name,
            "sasl_plain_password": password,
        }

    def librdkafka(self, mechanism: str, name: str = NAME, password: str = PASSWORD) -> dict[str, object]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority,
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "log_level": 0,
        }


def described(admin: AdminClient) -> UserScramCredentialsDescription:
    found: UserScramCredentialsDescription = admin.describe_user_scram_credentials([NAME])[NAME].result(
        PATIENCE_SECONDS
    )
    return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    own, alice = certificates.member(HOST), certificates.client("alice")
    settings = [
        "audit.enable=true",
        f"ssl.keystore.location={own}/keystore.pem",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f'listener.name.sasl_ssl.plain.sasl.jaas.config={MODULE} required user_{NAME}="{PASSWORD}";',
    ]
    with kafka_broker(tmp_path_factory.mktemp("kafka"), listeners=["SASL_SSL"], settings=settings) as broker:
        secured = Secured(broker, str(alice / "truststore.pem"))
        admin = AdminClient({"bootstrap.servers": broker.address})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            asked = UserScramCredentialUpsertion(NAME, info, PASSWORD.encode())
            admin.alter_user_scram_credentials([asked])[NAME].result(PATIENCE_SECONDS)
        # The broker learns of them from the znodes, a moment after the answer.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(described(admin).scram_credential_infos) < 2:
            assert time.monotonic() < deadline
        yield secured


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_with_the_password_produce_and_consume(secured: Secured, mechanism: str) -> None:
    topic = f"sasl-{uuid.uuid4()}"
    large = b"x" * 100_000
    producer = KafkaProducer(**secured.options(mechanism))
    producer.send(topic, large).get(PATIENCE_SECONDS)
    producer.close()
    last = Producer(secured.librdkafka(mechanism))
    last.produce(topic, b"librdkafka")
    assert last.flush(PATIENCE_SECONDS) == 0

    async def both() -> list[bytes]:
        async with AIOKafkaProducer(**secured.options(mechanism)) as one:
            await one.send_and_wait(topic, b"aiokafka")
        async with AIOKafkaConsumer(topic, **secured.options(mechanism), auto_offset_reset="earliest") as reader:
            return [(await reader.getone()).value for _ in range(3)]

    expected = [large, b"librdkafka", b"aiokafka"]
    assert run_asyncio(asyncio.wait_for(both(), PATIENCE_SECONDS)) == expected
    reader = KafkaConsumer(
        topic, **secured.options(mechanism), auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    assert [next(reader).value for _ in expected] == expected
    reader.close()


@pytest.mark.parametrize(("name", "password"), [(NAME, "guess"), ("eve", PASSWORD)])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    secured: Secured, mechanism: str, name: str, password: str
) -> None:
    with pytest.raises(KafkaError):
        KafkaAdminClient(**secured.options(mechanism, name, password), bootstrap_timeout_ms=1500)

    async def start() -> None:
        producer = AIOKafkaProducer(**secured.options(mechanism, name, password))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(AioKafkaError):
        run_asyncio(asyncio.wait_for(start(), PATIENCE_SECONDS))
    told: list[str] = []
    client = AdminClient(
        {**secured.librdkafka(mechanism, name, password), "error_cb": lambda error: told.append(error.str())}
    )
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any("the login has failed: wrong name or password" in each for each in told):
        assert time.monotonic() < deadline, told
        client.poll(0.05)
    assert PASSWORD not in secured.journal.read_text()
    log = secured.journal.parent / "logs" / "audit.log"
    while f"operation=login\tscheme={mechanism}\t" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "operation=alterUserScramCredentials\tnames=alice\tresult=success" in log.read_text()


def test_a_client_that_does_not_log_in_gets_nothing(secured: Secured) -> None:
    options = {**secured.librdkafka("PLAIN"), "security.protocol": "SSL"}
    for left in ("sasl.mechanism", "sasl.username", "sasl.password"):
        del options[left]
    with pytest.raises(KafkaException):
        AdminClient(options).list_topics(timeout=1)
    assert "request 3 came before the login" in secured.journal.read_text()
