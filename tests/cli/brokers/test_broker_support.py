"""`zab support` with the file of a broker: what is in the bundle, and what never is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.cli.commands import Run, run
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.processes import ended
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from zab.cli.operations import broker_support
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

pytestmark = [pytest.mark.process, pytest.mark.slow]

LISTED = "the-password-of-bob"
UNKNOWN = "unknown-to-all"
KEY = "the-password-of-a-key"


def texts(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {info.name.removeprefix("zab-support/"): tar.extractfile(info) for info in tar.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def test_a_broker_is_in_it_and_no_secret(tmp_path: Path, run: Run) -> None:
    [port] = free_ports(1)
    secret = tmp_path / "secret"
    assert run("secret", secret) == 0
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    own = [
        f"http.port={port}",
        f"broker.secretFile={secret}",
        f"ssl.keystore.password={KEY}",
        f"my.own.key={UNKNOWN}",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        f'listener.name.login.plain.sasl.jaas.config={module} required user_bob="{LISTED}";',
        "retention.note=true",
    ]
    with zab_servers(1, directory=tmp_path / "member") as servers:
        broker = KafkaBroker(tmp_path / "broker", f"{servers.hosts}/kafka", listeners=["LOGIN"], settings=own)
        with ended([broker]):
            broker.serve()
            assert run("--bootstrap-server", broker.address, "topic", "create", "orders") == 0, run.err
            with broker.journal.open("a") as journal:
                journal.write(f"{LISTED} {UNKNOWN} {KEY} {secret.read_text()}\nsomething went wrong\n")
            to = tmp_path / "bundle.tar.gz"
            words = ["-s", servers.hosts, "support", broker.settings, "--log", broker.journal, "--to", to]
            until(lambda: (broker.logs_directory / "orders-0").exists())
            assert run(*words) == 0, run.err
    found = texts(to)
    everything = "\n".join((*found, *found.values()))
    [word] = [word for word in secret.read_text().split() if len(word) > 20]
    for each in (LISTED, UNKNOWN, KEY, word):
        assert each not in everything, each
    settings = found["configuration/broker-1-server.properties"]
    assert f"http.port={port}\n" in settings
    assert "my.own.key=(left out)\n" in settings
    assert "ssl.keystore.password=(left out)\n" in settings
    assert "something went wrong" in found["logs/given-1-broker.log"]
    assert json.loads(found["brokers/1/status.json"])["broker"] == 1
    assert "kafka_server" in found["brokers/1/metrics.txt"]
    directory, *partitions = map(json.loads, found["brokers/1/directory.json"].splitlines())
    assert directory["owner"]["broker_id"] == 1
    [one] = [each for each in partitions if each["name"] == "orders-0"]
    assert (one["segments"], one["bytes"]) == (1, 0)
    assert [each["broker"] for each in map(json.loads, found["brokers/1/registered.json"].splitlines())][:1] == [1]
    assert '"is_good": true' in found["check/broker-1-server.properties.json"]


def test_what_is_missing_of_a_broker_is_named(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_support, "PARTITIONS_MAX", 1)
    [port, http] = free_ports(2)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "recovery-point-offset-checkpoint").write_text("damaged")
    (logs / "t-0").mkdir()
    (logs / "t-1").mkdir()
    (logs / "t-0" / "leader-epoch-checkpoint").write_text("damaged")
    good, bad = tmp_path / "server.properties", tmp_path / "bad.properties"
    good.write_text(f"broker.id=1\nlog.dirs={logs}\nzookeeper.connect=127.0.0.1:{port}\nhttp.port={http}\n")
    bad.write_text("broker.id=x\n")
    to = tmp_path / "bundle.tar.gz"
    assert run("--wait", "1", "-s", f"127.0.0.1:{port}", "support", good, bad, "--to", to) == 1
    assert f"zab: {bad}: a start would end, so nothing else of this broker is in it" in run.err
    assert f"zab: 127.0.0.1:{port}: 127.0.0.1:{port} " in run.err, "the znodes"
    assert f"zab: 127.0.0.1:{http}: /metrics: " in run.err
    assert f"zab: {logs}: 1 of its 2 partitions" in run.err
    found = texts(to)
    directory, partition = map(json.loads, found["brokers/1/directory.json"].splitlines())
    assert "recovery-point-offset-checkpoint" in directory["damaged"]
    assert isinstance(partition["epochs"], str)
    assert "line 1: broker.id" in found["check/broker-2-bad.properties.json"]


def test_secrets_are_found_wherever_the_file_says_they_are(tmp_path: Path) -> None:
    password, jaas, secret = tmp_path / "password", tmp_path / "jaas", tmp_path / "secret"
    password.write_text("in-a-file\n")
    jaas.write_text('Client {\n  X required username="kafka" password="of-the-login";\n};\n')
    secret.write_text("0123456789abcdef0123\n")
    file = tmp_path / "server.properties"
    file.write_text(
        f"ssl.truststore.passwordPath={password}\njava.security.auth.login.config={jaas}\nbroker.secretFile={secret}\n"
        "zookeeper.ssl.keystore.password=in-clear\nsomething.else=unknown\nswitch=true\nsuper.users=User:a\n"
    )
    found = set(broker_support.secrets_of(str(file)))
    assert found == {"in-a-file", "of-the-login", "0123456789abcdef0123", "in-clear", "unknown"}
    jaas.write_text('Client { X required password="of-a-broken-file"')
    assert "of-a-broken-file" in set(broker_support.secrets_of(str(file)))
    assert [broker_support.public_keys()(key) for key in ("log.retention.ms", "log.dir", "ssl.protocol", "x.y")] == [
        *[True] * 3,
        False,
    ]


def test_every_password_of_a_broker_is_known(tmp_path: Path) -> None:
    """Users have passwords as well, quoted or not. Text that cannot be read as JAAS gives all that is in quotes."""
    jaas, password = tmp_path / "jaas", tmp_path / "password"
    jaas.write_text('KafkaServer { a.B required user_bob="of bob" password="of itself"; };\n')
    password.write_text("of the store\n")
    settings = tmp_path / "server.properties"
    settings.write_text(
        "broker.id=1\n"
        f"java.security.auth.login.config={jaas}\n"
        f"ssl.keystore.passwordPath={password}\n"
        'listener.name.x.plain.sasl.jaas.config=a.B required username="me" password=plain user_eve="of eve";\n'
        "listener.name.y.plain.sasl.jaas.config=no module at all\n"
    )
    found = set(broker_support.secrets_of(str(settings)))
    assert found == {"of bob", "of itself", "of the store", "plain", "of eve", "no module at all"}
    jaas.write_text('KafkaServer { "of bob"')
    assert "of bob" in set(broker_support.secrets_of(str(settings)))
    assert "listener.name.y.plain.sasl.jaas.config" in set(broker_support.names_of([str(settings)]))
