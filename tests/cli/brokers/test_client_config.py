"""`--client-config`: what may be in the file, and what is said of what may not. Secrets are never shown."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from tests.rigs.certificates import Certificates
from tests.tidy.sources import ROOT
from zab.cli.brokers.client_config import BYTES_MAX, KEYS, ClientConfigError, read_client_config

SECRET = "hunter2"
PAGE = (ROOT / "docs" / "reference" / "brokers.md").read_text(encoding="utf-8")
LOGIN = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="{SECRET}";'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.touch(mode=0o600)
    return path


def refusal(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(ClientConfigError) as caught:
        read_client_config(str(file))
    assert SECRET not in str(caught.value)
    return str(caught.value).removeprefix(f"{file}")


def test_each_client_is_told_what_is_for_it(file: Path) -> None:
    file.write_text("# a comment\nclient.id=me\nacks=all\ncompression.type = none\nlinger.ms: 5\nfetch.min.bytes=7\n")
    found = read_client_config(str(file))
    assert found.common == {"client_id": "me"}
    assert found.producer == {"acks": -1, "compression_type": None, "linger_ms": 5}
    assert found.consumer == {"fetch_min_bytes": 7}


def test_a_login_and_its_secret(file: Path) -> None:
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={LOGIN}\n")
    found = read_client_config(str(file))
    assert found.common == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "a",
        "sasl_plain_password": SECRET,
    }
    assert SECRET not in repr(found)
    file.chmod(0o644)
    assert "users other than its owner can use it" in refusal(file, file.read_text())


def test_stores_are_beside_the_file(file: Path, tmp_path: Path) -> None:
    trusted = (Certificates(tmp_path).client("alice") / "truststore.pem").relative_to(tmp_path)
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={trusted}\nssl.truststore.type=PEM\n")
    context = read_client_config(str(file)).common["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    file.write_text("security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    assert not read_client_config(str(file)).common["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\nack=all", ":2: ack: it is not known; did you mean acks?"),
        ("bootstrap.servers=x:1", ":1: bootstrap.servers: --bootstrap-server says it"),
        ("transactional.id=x", ":1: transactional.id: only zab changes has transactions"),
        ("acks=2", ":1: acks: it is one of all, 0, 1"),
        ("linger.ms=soon", ":1: linger.ms: it is a whole number from 0 to 2147483647"),
        ("max.request.size=99999999999", ":1: max.request.size: it is a whole number from 1 to 100000000"),
        ("enable.idempotence=yes", ":1: enable.idempotence: it is true or false"),
        ("client.id=", ":1: client.id: there is no value"),
        ("ssl.truststore.location=x", ": ssl.*: security.protocol=PLAINTEXT has no TLS"),
        ("sasl.mechanism=PLAIN", ": sasl.*: security.protocol=PLAINTEXT has no login"),
        ("security.protocol=SASL_SSL", ": SASL_SSL needs sasl.mechanism and sasl.jaas.config"),
        (f"sasl.jaas.config=x {SECRET}", ":1: sasl.jaas.config: it is a PlainLoginModule or ScramLoginModule, "),
        ("sasl.jaas.config=" + LOGIN.replace("username", "user"), ":1: sasl.jaas.config: it is a PlainLoginModule"),
        ("client.id=\\u12", ":1: "),
    ],
)
def test_what_cannot_be_used_is_said_with_its_line(file: Path, text: str, reason: str) -> None:
    assert refusal(file, text).startswith(reason)


def test_stores_that_cannot_be_read_are_named(file: Path) -> None:
    text = "security.protocol=SSL\nssl.truststore.location=none.p12\n"
    assert refusal(file, text).startswith("ssl.truststore.location: ")


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    assert "it has more than" in refusal(file, "#" * (BYTES_MAX + 1))
    file.write_bytes(b"\xff")
    with pytest.raises(ClientConfigError, match="it is not UTF-8"):
        read_client_config(str(file))
    with pytest.raises(ClientConfigError, match="Is a directory"):
        read_client_config(str(tmp_path))


def test_the_page_has_every_key() -> None:
    section = PAGE.split("\n## Properties of clients\n", 1)[1]
    assert set(re.findall(r"`([a-z.]+\.[a-z.]+|acks)`", section)) == KEYS.keys()
