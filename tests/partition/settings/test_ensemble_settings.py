"""The coordination service in the file of a broker: what goes together, what refuses the start, which ACLs follow."""

import pytest

from zab.configuration.blocks.ensemble import ZnodeAcl
from zab.partition.settings.broker_config import BrokerConfigError, read_config

TLS = "zookeeper.ssl.client.enable=true\n"
KEY = "zookeeper.ssl.keystore.location=/key.p12\n"
TRUST = "zookeeper.ssl.truststore.location=/trusted.p12\n"
NETTY = "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"


def test_kafkas_lines_are_read_and_show_no_secret():
    config = read_config(
        f"{TLS}{NETTY}{KEY}{TRUST}zookeeper.ssl.keystore.password=hunter2\nzookeeper.ssl.keystore.type=PKCS12\n"
        "zookeeper.ssl.truststore.password=hunter2\nzookeeper.ssl.truststore.type=PKCS12\n"
        "zookeeper.ssl.protocol=TLSv1.2\nzookeeper.ssl.endpoint.identification.algorithm=https\n"
        "zookeeper.ssl.ocsp.enable=false\nzookeeper.ssl.crl.enable=true\nzookeeper.max.in.flight.requests=10\n"
    )
    found = config.ensemble
    assert (found.tls_enabled, found.checks_host, found.crl, found.versions) == (True, True, True, {"TLSv1.2"})
    assert (found.key_store, found.key_store_password, found.key_store_type) == ("/key.p12", "hunter2", "pkcs12")
    assert "hunter2" not in repr(config)
    assert [each.partition(": ")[2] for each in config.warnings] == [
        "zookeeper.max.in.flight.requests: the client of the coordination service has its own limit"
    ]


def test_enabled_protocols_win_over_the_protocol():
    assert read_config("").ensemble.versions == {"TLSv1.2", "TLSv1.3"}
    both = "zookeeper.ssl.protocol=TLSv1.2\nzookeeper.ssl.enabled.protocols=TLSv1.3\n"
    assert read_config(both).ensemble.versions == {"TLSv1.3"}


def test_an_empty_algorithm_checks_no_host():
    assert not read_config(f"{TLS}zookeeper.ssl.endpoint.identification.algorithm=\n").ensemble.checks_host


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (KEY, "zookeeper.ssl.keystore.location: it has no effect without zookeeper.ssl.client.enable"),
        (TRUST, "zookeeper.ssl.truststore.location: it has no effect without"),
        (f"{TLS}{NETTY.replace('Netty', 'NIO')}", "speaks no TLS"),
        ("zookeeper.clientCnxnSocket=x\n", "line 1: zookeeper.clientCnxnSocket: 'x' is neither"),
        ("zookeeper.ssl.endpoint.identification.algorithm=LDAPS\n", "'LDAPS' is not HTTPS"),
        ("zookeeper.ssl.ocsp.enable=true\n", "use zookeeper.ssl.crl.enable"),
        ("zookeeper.ssl.protocol=TLSv1.1\n", "'TLSv1.1' is not a list"),
        ("zookeeper.ssl.quick=true\n", "line 1: zookeeper.ssl.quick: it is not supported here"),
        ("zookeeper.sasl.client=false\n", "line 1: zookeeper.sasl.client: it is not supported here"),
        (
            "zookeeper.ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n",
            "zookeeper.ssl.cipher.suites: it has no suite of TLSv1.3",
        ),
        ("zookeeper.set.acl=true\n", "zookeeper.set.acl: the broker would be nobody"),
        (f"zookeeper.set.acl=true\n{TLS}{TRUST}", "zookeeper.set.acl: the broker would be nobody"),
    ],
)
def test_what_does_not_go_together_refuses_the_start(lines, why):
    with pytest.raises(BrokerConfigError, match=why):
        read_config(lines)


@pytest.mark.parametrize("identity", ["java.security.auth.login.config=/jaas\n", f"{TLS}{KEY}"])
def test_only_brokers_change_znodes_and_read_what_is_derived_from_passwords(identity):
    acl_of = read_config(f"{identity}zookeeper.set.acl=true\n").ensemble.acl_of
    for path in ("/", "/brokers/ids/1", "/config/topics/a", "/config/usersandmore", "/kafka-acl", "/delegation_token"):
        assert acl_of(path) is ZnodeAcl.READABLE
    for path in ("/config/users", "/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/a"):
        assert acl_of(path) is ZnodeAcl.PRIVATE
    assert read_config(identity).ensemble.acl_of("/config/users/alice") is ZnodeAcl.OPEN
