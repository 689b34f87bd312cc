"""A broker that speaks TLS to the coordination service, logs in there, and keeps its znodes to itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from confluent_kafka import Producer

from tests.cli.commands import Run, run
from tests.rigs.certificates import Certificates
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.login_files import digest_section, private_file
from tests.rigs.processes import ended
from tests.rigs.secured_member import SecuredMember, secured_member
from tests.rigs.waiting import PATIENCE_SECONDS, until
from zab.client import Acl, NoAuthError, Permission, SaslLogin, connect

__all__ = ["run"]

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSWORD = "open sesame"
BY_BROKERS = Acl(Permission.ALL, "sasl", "kafka")
BY_ALL = Acl(Permission.READ, "world", "anyone")


@attrs.frozen
class Ensemble(SecuredMember):
    """One member, and what its brokers need."""

    def settings(self, jaas: Path, holder: str = "broker") -> list[str]:
        own = self.certificates.directory / holder
        return [
            "zookeeper.ssl.client.enable=true",
            "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"zookeeper.ssl.keystore.location={own}/keystore.p12",
            f"zookeeper.ssl.keystore.password={(own / 'password').read_text().strip()}",
            "zookeeper.ssl.keystore.type=PKCS12",
            f"zookeeper.ssl.truststore.location={own}/truststore.pem",
            f"java.security.auth.login.config={jaas}",
            "zookeeper.set.acl=true",
        ]


def login_file(path: Path, password: str) -> Path:
    return private_file(path, digest_section("Client", username="kafka", password=password))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    directory = tmp_path_factory.mktemp("ensemble")
    with secured_member(directory, "broker", "kafka", PASSWORD) as member:
        yield Ensemble(member.certificates, member.plain, member.secure)


@pytest.fixture(scope="module")
def broker(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    directory = tmp_path_factory.mktemp("broker")
    settings = ensemble.settings(login_file(directory / "jaas.conf", PASSWORD))
    broker = KafkaBroker(directory, f"{ensemble.secure}/kafka", settings=settings)
    with ended([broker]):
        broker.serve()
        yield broker


def asked(ask: partial) -> object:
    async def bounded() -> object:
        with trio.fail_after(PATIENCE_SECONDS):
            return await ask()

    return trio.run(bounded)


async def acl_of(hosts: str, path: str) -> list[Acl]:
    async with connect(hosts, sasl=SaslLogin("kafka", PASSWORD)) as zk:
        return list((await zk.get_acl(path))[0])


async def ids_at(hosts: str) -> list[str]:
    async with connect(hosts) as zk:
        return sorted(await zk.get_children("/kafka/brokers/ids"))


def test_records_are_acknowledged_with_all_znodes_behind_tls_and_a_login(
    broker: KafkaBroker, ensemble: Ensemble
) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "log_level": 0})
    producer.produce("secured", b"value")
    assert producer.flush(PATIENCE_SECONDS) == 0
    for path in ("/kafka", "/kafka/brokers/ids/1", "/kafka/brokers/topics/secured"):
        assert set(asked(partial(acl_of, ensemble.plain, path))) == {BY_BROKERS, BY_ALL} | OF_CERTIFICATE
    assert set(asked(partial(acl_of, ensemble.plain, "/kafka/config/users"))) == {BY_BROKERS} | OF_CERTIFICATE


OF_CERTIFICATE = {Acl(Permission.ALL, "x509", "CN=broker")}
"""Whoever creates a znode owns it by all that the member knows it as."""


def test_the_doctor_comes_in_as_the_broker_does(broker: KafkaBroker, run: Run) -> None:
    assert run("--wait", "10", "doctor", broker.settings, "--syncs", "0") == 1
    assert "ok       cluster       1 broker, all replicas are in sync; this one is registered" in run.out


def test_others_read_the_znodes_and_change_none(broker: KafkaBroker, ensemble: Ensemble) -> None:
    assert asked(partial(ids_at, ensemble.plain)) == ["1"]

    async def ask() -> None:
        async with connect(ensemble.plain) as zk:
            with pytest.raises(NoAuthError):
                await zk.set("/kafka/brokers/ids/1", b"{}")
            with pytest.raises(NoAuthError):
                await zk.get_children("/kafka/config/users")

    asked(partial(ask))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("password", "a session with the coordination service has ended"),
        ("authority", "no authority that this client trusts signed its certificate"),
        ("clear", "no server of the coordination service is found"),
    ],
)
def test_a_broker_that_may_not_come_in_says_why_and_serves_nobody(
    ensemble: Ensemble, tmp_path: Path, change: str, said: str
) -> None:
    jaas = login_file(tmp_path / "jaas.conf", "wrong" if change == "password" else PASSWORD)
    settings = ensemble.settings(jaas)
    if change == "authority":
        stranger = Certificates(tmp_path / "others").client("stranger")
        settings = [line for line in settings if "truststore" not in line]
        settings.append(f"zookeeper.ssl.truststore.location={stranger}/truststore.pem")
    if change == "clear":
        settings = []
    broker = KafkaBroker(tmp_path / "broker", f"{ensemble.secure}/other", settings=settings, broker_id=2)
    with ended([broker]):
        broker.start()
        until(lambda: broker.journal.exists() and said in broker.journal.read_text())
        assert broker.running
        assert not broker.is_serving()


def test_a_broker_that_is_nobody_gets_nothing_from_the_znodes_of_others(
    broker: KafkaBroker, ensemble: Ensemble, tmp_path: Path
) -> None:
    stranger = KafkaBroker(tmp_path / "stranger", f"{ensemble.plain}/kafka", broker_id=3)
    with ended([stranger]):
        stranger.start()
        until(lambda: stranger.journal.exists() and "refuses: /cluster: NOAUTH" in stranger.journal.read_text())
        assert stranger.running
        assert not stranger.is_serving()
    assert asked(partial(ids_at, ensemble.plain)) == ["1"]
