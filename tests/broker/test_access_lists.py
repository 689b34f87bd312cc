"""Access lists with unmodified clients: changed by their admin clients, and what a client is told that may not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern
from kafka.admin import ResourceType as KafkaResourceType
from kafka.errors import ClusterAuthorizationFailedError

from tests.rigs.kafka_broker import KafkaBroker, kafka_broker, kafka_brokers
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
SETTINGS = [
    AUTHORIZER,
    "super.users=User:admin",
    "sasl.enabled.mechanisms=PLAIN",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} required user_admin="a" user_alice="b";',
]
PASSWORDS = {"admin": "a", "alice": "b"}
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
PREFIXED = ResourcePatternType.PREFIXED


class Guarded:
    """A broker with a login and an authorizer."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.admin = AdminClient(self.options("admin"))

    def options(self, user: str, **others: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.broker.address_of("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "log_level": 0,
            **others,
        }

    def allow(self, *rows: tuple[ResourceType, str, AclOperation], pattern: ResourcePatternType = PREFIXED) -> None:
        bindings = [
            AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operation in rows
        ]
        for done in self.admin.create_acls(bindings).values():
            done.result(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_broker(directory, listeners=["SASL_PLAINTEXT"], settings=SETTINGS) as broker:
        yield Guarded(broker)


def failure_of(work: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as raised:
        work()
    return int(raised.value.args[0].code())


def test_a_client_may_what_its_rows_allow(guarded: Guarded) -> None:
    guarded.admin.create_topics([NewTopic("orders-1", 1, 1)])["orders-1"].result(PATIENCE_SECONDS)
    alice = AdminClient(guarded.options("alice"))
    assert alice.list_topics(timeout=PATIENCE_SECONDS).topics == {}
    told: list[KafkaError] = []
    producer = Producer(guarded.options("alice"))
    producer.produce("orders-1", b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(PATIENCE_SECONDS)
    assert [error.code() for error in told] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    new = alice.create_topics([NewTopic("orders-2", 1, 1)])["orders-2"]
    assert failure_of(lambda: new.result(PATIENCE_SECONDS)) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    guarded.allow((ResourceType.TOPIC, "orders-", WRITE), (ResourceType.TOPIC, "orders-", CREATE))
    producer = Producer(guarded.options("alice", **{"enable.idempotence": True}))
    told.clear()
    for topic in ("orders-1", "orders-3"):
        producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert told == [None, None]
    reader = guarded.options("alice", **{"group.id": "billing", "auto.offset.reset": "earliest"})
    assert read(reader) == KafkaError.GROUP_AUTHORIZATION_FAILED
    guarded.allow((ResourceType.GROUP, "billing", READ), pattern=ResourcePatternType.LITERAL)
    assert read(reader) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    guarded.allow((ResourceType.TOPIC, "orders-", READ))
    assert read(reader) == b"x"


def read(options: dict[str, object]) -> object:
    """A value, or the code of the error that a consumer is told."""
    consumer = Consumer(options)
    try:
        consumer.subscribe(["orders-1"])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None:
                error = message.error()
                return message.value() if error is None else error.code()
    finally:
        consumer.close()
    raise AssertionError("nothing came")


def test_rows_are_described_and_deleted(guarded: Guarded) -> None:
    name = "described"
    guarded.allow((ResourceType.TOPIC, name, READ), (ResourceType.TOPIC, name, WRITE))
    asked = AclBindingFilter(
        *(ResourceType.TOPIC, name, PREFIXED, "User:alice", None, AclOperation.ANY, AclPermissionType.ANY)
    )
    found = guarded.admin.describe_acls(asked).result(PATIENCE_SECONDS)
    assert {(each.name, each.principal, each.operation) for each in found} == {
        (name, "User:alice", READ),
        (name, "User:alice", WRITE),
    }
    deleted = guarded.admin.delete_acls([asked])[asked].result(PATIENCE_SECONDS)
    assert len(deleted) == 2
    assert guarded.admin.describe_acls(asked).result(PATIENCE_SECONDS) == []
    alice = AdminClient(guarded.options("alice"))
    refused = alice.delete_acls([asked])[asked]
    assert failure_of(lambda: refused.result(PATIENCE_SECONDS)) == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_kafka_python_changes_and_describes_rows(guarded: Guarded) -> None:
    def admin(user: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=guarded.broker.address_of("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=PASSWORDS[user],
        )

    pattern = ResourcePattern(KafkaResourceType.GROUP, "kafka-python")
    row = ACL("User:bob", "10.0.0.7", ACLOperation.READ, ACLPermissionType.DENY, pattern)
    with contextlib.closing(admin("admin")) as client:
        assert client.create_acls([row]) == {"succeeded": [row], "failed": []}
        assert client.describe_acls(row)[0] == [row]
        [(_, deleted, error)] = client.delete_acls([row])
        assert (deleted, error.errno) == ([row], 0)
        assert client.describe_acls(row)[0] == []
    with contextlib.closing(admin("alice")) as client, pytest.raises(ClusterAuthorizationFailedError):
        client.describe_acls(row)


@pytest.mark.long
def test_every_broker_holds_to_the_lists(tmp_path: Path) -> None:
    settings = [AUTHORIZER, "super.users=User:admin", "allow.everyone.if.no.acl.found=true"]
    with kafka_brokers(tmp_path, 3, settings=settings) as brokers:
        admins = [AdminClient({"bootstrap.servers": each.address, "log_level": 0}) for each in brokers]
        # The library calls the cluster so.
        cluster = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL
        deny = AclBinding(*cluster, "User:ANONYMOUS", "*", AclOperation.ALTER, AclPermissionType.DENY)
        admins[0].create_acls([deny])[deny].result(PATIENCE_SECONDS)
        for admin in admins:
            wait_until_refused(admin, deny)


def wait_until_refused(admin: AdminClient, row: AclBinding) -> None:
    """It asks whichever broker it likes; in the end all of them refuse."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        error = admin.create_acls([row])[row].exception(PATIENCE_SECONDS)
        if error is not None:
            assert error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
            return
        assert time.monotonic() < deadline
