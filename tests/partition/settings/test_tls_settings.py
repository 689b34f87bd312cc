"""TLS of listeners: which settings go together, and which refuse the start."""

import pytest

from zab.partition.settings.broker_config import BrokerConfigError, read_config
from zab.partition.settings.tls_settings import ClientAuth

LISTENER = "listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2\n"
KEY = "ssl.keystore.location=/key.pem\n"
LINKS = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:"
TRUSTED = "ssl.truststore.location=/trusted.pem\n"


def test_a_listener_speaks_tls_by_its_name_or_by_the_map():
    assert not read_config(KEY).has_tls
    assert read_config(f"{LISTENER}{KEY}").has_tls
    mapped = "listeners=OUTSIDE://:2\nadvertised.listeners=OUTSIDE://a:2\nlistener.security.protocol.map=OUTSIDE:{}\n"
    assert read_config(f"{mapped.format('SSL')}{KEY}").has_tls
    assert not read_config(mapped.format("PLAINTEXT")).has_tls


def test_names_and_secrets_are_kafkas():
    config = read_config(
        f"{LISTENER}{KEY}{TRUSTED}ssl.client.auth=required\nssl.keystore.password=hunter2\nssl.key.password=hunter2\n"
        "ssl.enabled.protocols=TLSv1.3\nssl.keystore.type=PEM\n"
    )
    assert config.tls.client_auth is ClientAuth.REQUIRED
    assert config.tls.password_of_key == "hunter2"
    assert config.tls.enabled_protocols == {"TLSv1.3"}
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (LISTENER, "ssl.keystore.location: a listener speaks TLS"),
        (f"{LISTENER}{KEY}ssl.client.auth=required\n", "ssl.truststore.location: clients show certificates"),
        (f"{LISTENER}{KEY}ssl.client.auth=requested\n", "ssl.truststore.location: clients show certificates"),
        (f"{KEY}ssl.keystore.password=a\nssl.key.password=b\n", "ssl.key.password: the key and its store have one"),
        ("ssl.enabled.protocols=TLSv1.1\n", "line 1: ssl.enabled.protocols: 'TLSv1.1' is not a list"),
        ("ssl.cipher.suites=TLS_RSA_WITH_NULL_SHA\n", "line 1: ssl.cipher.suites: 'TLS_RSA_WITH_NULL_SHA' is not one"),
        ("ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n", "ssl.cipher.suites: it has no suite of TLSv1.3"),
        ("ssl.client.auth=maybe\n", "line 1: ssl.client.auth: 'maybe' is neither none nor requested nor required"),
        ("ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\n", "only DEFAULT is supported"),
        ("ssl.keystore.key=PEM\n", "line 1: ssl.keystore.key: it is not supported here"),
        ("listener.name.ssl.ssl.client.auth=required\n", "there is one setting for all listeners"),
        ("listeners=OUTSIDE://127.0.0.1:1\n", "listeners: OUTSIDE is not supported: it is none of PLAINTEXT, SSL"),
        ("security.inter.broker.protocol=SSL\n", "line 1: security.inter.broker.protocol: set it for the listener"),
        (f"{LINKS}SSL\n{TRUSTED}", "ssl.keystore.location: a listener speaks TLS"),
        (f"{LINKS}SSL\n{KEY}", "broker.ssl.truststore.location: brokers show each other certificates at REPLICATION"),
        (f"{LINKS}SASL_SSL\n{KEY}{TRUSTED}", "listener.security.protocol.map: REPLICATION is PLAINTEXT or SSL"),
        ("listener.security.protocol.map=PLAINTEXT:SMTP\n", "SMTP is not supported, only PLAINTEXT, SSL"),
    ],
)
def test_what_cannot_be_honoured_refuses_the_start(lines, why):
    with pytest.raises(BrokerConfigError) as refused:
        read_config(lines)
    assert why in str(refused.value)


def test_what_only_java_has_is_named_in_a_warning():
    config = read_config(
        "ssl.protocol=TLSv1.3\nssl.endpoint.identification.algorithm=\nssl.keymanager.algorithm=PKIX\n"
    )
    assert [warning.partition(": ")[0] for warning in config.warnings] == ["line 1", "line 2", "line 3"]


@pytest.mark.parametrize("lines", [TRUSTED, "broker.ssl.truststore.location=/brokers.pem\n"])
def test_links_may_speak_tls_beside_clients_in_clear(lines):
    config = read_config(f"{LINKS}SSL\n{KEY}{lines}")
    assert (config.link_protocol, config.has_tls) == ("SSL", False)
    assert read_config(f"{LINKS}PLAINTEXT\n").link_protocol == read_config("").link_protocol == "PLAINTEXT"
