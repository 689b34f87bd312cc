"""zoo.cfg and myid: defaults, every kind of line, every reason for a refusal with its line, every kind of warning."""

from __future__ import annotations

import ast
import re
from operator import attrgetter
from pathlib import Path

import attrs
import pytest

from zab.configuration.blocks.cipher_suites import TLS_1_3
from zab.configuration.dynamic import Role
from zab.configuration.fields import settings_of
from zab.configuration.ignored import NO_COUNTERPART, NOT_BUILT, REFUSED
from zab.member.settings.commands import PROMETHEUS
from zab.member.settings.config import SERVER_ID_UNKNOWN
from zab.member.settings.zoo_cfg import OPENING, STANDALONE_SERVER_ID, Config, ConfigError, parse
from zab.server.config_file import load

ENSEMBLE = """\
tickTime=2000
dataDir=/var/lib/zookeeper
clientPort=2181
initLimit=10
syncLimit=5
server.1=zoo1:2888:3888
server.2=zoo2:2888:3888
server.3=zoo3:2888:3888
"""
SEVERAL = f"{ENSEMBLE}multiAddress.enabled=true\n"
ZOOKEEPERS = "org.apache.zookeeper.server.auth."
X509_PROVIDER = "authProvider.x=org.apache.zookeeper.server.auth.X509AuthenticationProvider"
STANDALONE = "dataDir=/data\nclientPort=2181\n"
QUORUM_TLS = "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n"
OF_TLS = (
    *("protocol=TLSv1.3", "enabledProtocols=TLSv1.3", f"ciphersuites={','.join(TLS_1_3)}"),
    *("keyStore.password=x", "keyStore.passwordPath=/p", "keyStore.type=PEM"),
    *("trustStore.password=x", "trustStore.passwordPath=/p", "trustStore.type=PEM"),
)
TLS = "secureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n"
DOCS = Path(__file__).parents[3] / "docs"
OPERATIONS = DOCS / "reference" / "configuration.md"
TROUBLE = DOCS / "how-to" / "troubleshoot.md"


def test_the_defaults_are_zookeepers_except_for_retention() -> None:
    config = parse(STANDALONE, "zoo.cfg")
    assert (config.timing.tick_time_ms, config.timing.min_session_timeout_ms, config.timing.max_session_timeout_ms) == (
        3000,
        6000,
        60000,
    )
    assert config.storage.data_log_dir == "/data"
    assert config.limits.max_connections_per_address == 60
    assert config.storage.snap_count == 100_000
    assert config.requests.global_outstanding_limit_count == 1000
    assert config.requests.jute_max_buffer_bytes == 0xFFFFF
    assert config.commands.four_letter_words == {"srvr"}
    assert config.storage.purge_interval_hours == 1
    assert config.client_address == ("0.0.0.0", 2181)
    assert config.warnings == ()


def test_an_ensemble_file_gives_members_limits_and_own_id() -> None:
    config = parse(ENSEMBLE, "zoo.cfg", my_id=2)
    assert not config.is_standalone
    assert config.server_id == 2
    assert config.ensemble.participants == {1, 2, 3}
    assert config.own_line is not None
    assert (config.own_line.host, config.own_line.quorum_port, config.own_line.election_port) == ("zoo2", 2888, 3888)
    assert (config.timing.init_limit_ms, config.timing.sync_limit_ms, config.timing.connect_to_leader_limit_ms) == (
        20000,
        10000,
        20000,
    )
    assert config.role is Role.PARTICIPANT


SAMPLES = {
    "true/false": ("true", "FALSE"),
    "yes/no": ("yes", "no"),
    "3": ("3",),
    "role": ("participant",),
    "0 to 1": ("0.25", "1"),
    "class": ("org.apache.zookeeper.server.auth.SASLAuthenticationProvider",),
    "hash": ("sha3-256",),
    "sasl/none": ("sasl", "NONE"),
    "PEM/PKCS12/JKS": ("PEM", "pkcs12", "jks"),
    "need/want/none": ("want", "none"),
    "versions": ("TLSv1.3",),
    "version": ("TLSv1.3",),
    "newest version": ("TLSv1.2", "tls"),
    "need": ("need",),
    "true": ("true",),
    "DEFAULT": ("DEFAULT",),
}
ONLY_ONE = ("3", "need", "true", "audit.impl.class")
"""Kinds of values, or keys, of which only one is allowed."""
SAMPLES_OF_KEYS = {
    "audit.fileCount": ("700",),
    "audit.impl.class": ("org.apache.zookeeper.audit.Slf4jAuditLogger",),
    "admin.commandURL": ("/a/b",),
    "counterLimit": ("4294000000",),
    "metricsProvider.className": (PROMETHEUS,),
    "metricsProvider.httpHost": ("zoo2",),
    "metricsProvider.httpPort": ("7001",),
    "admin.serverAddress": ("0.0.0.0",),
    "maxAclEntries": ("4000",),
    "maxBatchBytes": ("4096",),
    "maxSessionTimeout": ("70000",),
    "enforce.auth.schemes": ("sasl, digest",),
    "ssl.ciphersuites": (",".join((*TLS_1_3, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")),),
    "portUnification": ("true",),
    "log.format": ("json",),
    "observerMaster.near": ("3, 1",),
    "log.level": ("debug",),
    "log.fileCount": ("7",),
    "ssl.quorum.ciphersuites": (",".join((*TLS_1_3, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")),),
}
SASL_USERS = "sasl.usersFile=/users\n"
COMPANIONS = {
    "outputLimitBytes": "totalOutputLimitBytes=200000000\n",
    "authProvider.*": SASL_USERS,
    "sessionRequireClientSASLAuth": SASL_USERS,
    "requireClientAuthScheme": SASL_USERS,
    "enforce.auth.enabled": "enforce.auth.schemes=digest\nenforce.auth.enabled=false\n",
    "enforce.auth.schemes": SASL_USERS + "enforce.auth.enabled=false\n",
    "sasl.serverconfig": "java.security.auth.login.config=/jaas.conf\n",
    "SASLAuthenticationProvider.superPassword": "java.security.auth.login.config=/jaas.conf\n",
    "kerberos.removeHostFromPrincipal": "java.security.auth.login.config=/jaas.conf\n",
    "kerberos.removeRealmFromPrincipal": "java.security.auth.login.config=/jaas.conf\n",
    "security.auth_to_local": "java.security.auth.login.config=/jaas.conf\n",
    "observerMaster.near": "observerMasterPort=2191\n",
    "quorum.secretRequired": "quorum.secretFile=/s\n",
    "admin.portUnification": QUORUM_TLS + "sslQuorum=true\n",
    "admin.forceHttps": QUORUM_TLS + "sslQuorum=true\n",
    "admin.needClientAuth": QUORUM_TLS + "sslQuorum=true\nadmin.forceHttps=true\n",
    "ensembleAuthName": "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\n",
}
"""What has to be beside a key."""


def test_every_key_sets_its_field_and_no_other() -> None:
    for setting in settings_of(Config):
        key, unit = setting.key, setting.unit
        is_quorum = key.startswith("ssl.quorum.") or "Quorum" in key or key == "portUnification"
        is_tls = not is_quorum and key.startswith(("ssl.", "secureClient", "client.", "X509"))
        text = STANDALONE + COMPANIONS.get(key, "") + (TLS if is_tls else "")
        if is_quorum:
            text += QUORUM_TLS + ("portUnification=true\n" if key == "sslQuorum" else "sslQuorum=true\n")
        plain = parse(text, "zoo.cfg")
        if key in ("dataDir", "dynamicConfigFile", "clientPort", "standaloneEnabled"):
            continue
        given = SAMPLES_OF_KEYS.get(key) or SAMPLES.get(unit) or ("77000000" if key.endswith("Bytes") else "7000",)
        prefix = "" if key.startswith(OPENING) else "zookeeper."
        written = key.replace("*", "1")
        configs = [parse(f"{text}{prefix}{written}={value}", "zoo.cfg") for value in given]
        if unit not in ONLY_ONE and key not in ONLY_ONE:
            assert any(setting.of(config) != setting.of(plain) for config in configs), key
        allowed = {key} | ({"minSessionTimeout", "maxSessionTimeout"} if key == "tickTime" else set())
        for config in configs:
            changed = {other.key for other in settings_of(Config) if other.of(config) != other.of(plain)}
            assert changed <= allowed, key


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("jute.maxbuffer=0x9fffff", "requests.jute_max_buffer_bytes", 0x9FFFFF),
        ("zookeeper.jute.maxbuffer=4096", "requests.jute_max_buffer_bytes", 4096),
        ("minSessionTimeout=-1", "timing.min_session_timeout_ms", 6000),
        ("maxSessionTimeout=90000", "timing.max_session_timeout_ms", 90000),
        ("4lw.commands.whitelist=stat, ruok ,", "commands.four_letter_words", {"stat", "ruok"}),
        ("clientPortAddress=[::1]", "clients.address", "::1"),
        ("skipACL=YES", "access.skip_acl", True),
        ("counterLimit=200", "batches.counter_limit", 200),
        ("snapCount=1", "storage.snap_count", 2),
        ("autopurge.snapRetainCount=1", "storage.snap_retain_count", 3),
        ("maxClientCnxns=0", "limits.max_connections_per_address", 0),
    ],
)
def test_a_value_is_read_as_meant(line: str, name: str, value: object) -> None:
    assert attrgetter(name)(parse(STANDALONE + line, "zoo.cfg")) == value


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("clientPort=2181", None, "dataDir is not set"),
        ("dataDir=\nclientPort=2181", 1, "dataDir: the value is empty"),
        ("dataDir=/d", None, "clientPort is not set"),
        ("dataDir=/d\nclientPort=0", 2, "clientPort is not set"),
        ("dataDir=/d\nclientPortAddress=10.0.0.1", 2, "clientPortAddress is set but clientPort is not"),
        (
            "dataDir=/d\nclientPort=1\nobserverMaster.near=2",
            3,
            "observerMaster.near is set but observerMasterPort is not",
        ),
        (STANDALONE + "tickTime=0", 3, "tickTime: 0 is not between 1 and 2147483647"),
        (STANDALONE + "tickTime=2s", 3, "tickTime: '2s' is not a whole number"),
        (STANDALONE + "tickTime=1_000", 3, "is not a whole number"),
        (STANDALONE + "tickTime=", 3, "is not a whole number"),
        (STANDALONE + "clientPort=65536", 3, "clientPort: 65536 is not between 0 and 65535"),
        (STANDALONE + "quorumListenOnAllIPs=yes", 3, "'yes' is neither true nor false"),
        (STANDALONE + "skipACL=true", 3, "'true' is neither yes nor no"),
        (STANDALONE + "audit.enable=yes", 3, "'yes' is neither true nor false"),
        (STANDALONE + "audit.impl.class=org.example.Audit", 3, "'org.example.Audit' cannot be loaded here"),
        (STANDALONE + "audit.file=journald", 3, "journald is not built"),
        (STANDALONE + "audit.fileCount=0", 3, "0 is not between"),
        (STANDALONE + "electionAlg=0", 3, "0 is not between 3 and 3"),
        (STANDALONE + "peerType=leader", 3, "peerType: 'leader' is neither participant nor observer"),
        (STANDALONE + "# bigger\nminSessionTimeout=70000", 4, "minSessionTimeout (70000 ms) is larger than max"),
        (STANDALONE + "maxBatchBytes=100000000", 3, "holds not even one batch"),
        (STANDALONE + "maxPinnedLogBytes=1000000", 3, "is less than one log file"),
        (STANDALONE + "maxPinnedLogBytes=0", 3, "maxPinnedLogBytes"),
        (STANDALONE + "jute.maxbuffer=100000000", 3, "less than one reply"),
        (STANDALONE + "totalInputLimitBytes=2000000", 3, "less than two requests"),
        (STANDALONE + "totalOutputLimitBytes=30000000", 3, "less than what one connection may have unsent"),
        (STANDALONE + "counterLimit=0xffffffff", 3, "no room for the batch"),
        (STANDALONE + "outputLimitBytes=20000000\njute.maxbuffer=16300000", 4, "more than members send each other"),
        (STANDALONE + "standaloneEnabled=false", 3, "at least one participant"),
        (STANDALONE + "a=\\u12", 3, "four hexadecimal digits"),
        (STANDALONE + "version=x", 3, "is not a hexadecimal number"),
        (ENSEMBLE.replace("initLimit=10", ""), None, "initLimit is not set"),
        (ENSEMBLE.replace("syncLimit=5", "syncLimit=0"), 5, "syncLimit: 0 is not between"),
        (ENSEMBLE + "server.x=zoo4:1:2", 9, "'x' is not a number"),
        (ENSEMBLE + "server.300=zoo4:1:2", 9, "server id 300 is above 255"),
        (ENSEMBLE + "server.4=zoo4:2888", 9, "does not have the form host:quorumPort:electionPort"),
        (ENSEMBLE + "server.4=:2888:3888", 9, "does not have the form"),
        (ENSEMBLE + "server.4=::1:2888:3888", 9, "does not have the form"),
        (ENSEMBLE + "server.4=[::1:2888:3888", 9, "is no host and ports"),
        (ENSEMBLE + "server.4=zoo4:2888:2888", 9, "quorum port and election port are both 2888"),
        (ENSEMBLE + "server.4=zoo4:2888:70000", 9, "port 70000 is not between 1 and 65535"),
        (ENSEMBLE + "server.4=zoo4:2888:3888:leader", 9, "unrecognised role 'leader'"),
        (ENSEMBLE + "server.4=zoo4:2888:3888;1;2;3", 9, "more than a client and a secure client part"),
        (ENSEMBLE + "server.4=zoo4:2888:3888;zoo4:", 9, "'' is not a number (a port)"),
        (ENSEMBLE + "server.4=zoo3:2889:3888", 9, "port 3888 of zoo3 is already that of server.3"),
        (
            ENSEMBLE + "server.4=a:1:2|b:1:2",
            9,
            "server.4 has several addresses: add multiAddress.enabled=true to zoo.cfg",
        ),
        (ENSEMBLE + "server.4=a:1:2|b:1:2\nmultiAddress.enabled=false", 9, "server.4 has several addresses: add"),
        (SEVERAL + "server.4=a:1:2|b:1:2:participant|c:1:2:observer", 10, "server.4 is participant and observer"),
        (SEVERAL + "server.4=a:1:2|a:3:2", 10, "port 2 of a is already that of server.4"),
        (SEVERAL + "server.4=a:1:2|zoo3:2888:2", 10, "port 2888 of zoo3 is already that of server.3"),
        (SEVERAL + "server.4=a:1:2|", 10, "does not have the form"),
        (SEVERAL + "server.4=" + "|".join(f"a{n}:1:2" for n in range(9)), 10, "has 9 addresses, more than 8"),
        (STANDALONE + "multiAddress.reachabilityCheckTimeoutMs=0", 3, "0 is not between 1 and"),
        (ENSEMBLE + "group.1=1:2", None, "server 3 is in no group"),
        (ENSEMBLE + "weight.1=2", None, "server 1 is in no group"),
        (ENSEMBLE + "group.1=1:2\ngroup.2=2:3", 10, "server 2 is in more than one group"),
        (ENSEMBLE + "group.1=1:2:2:3", 9, "server 2 is in more than one group"),
        (ENSEMBLE + "group.1=1:2:3:9", None, "which has no server.9 line"),
        (ENSEMBLE + "group.1=1:2:3\nweight.1=0\nweight.2=0\nweight.3=0", None, "every weight is 0"),
        (ENSEMBLE + "group.1=1:2:3\nweight.1=-1", 10, "'-1' is not a number"),
        (ENSEMBLE + "dynamicConfigFile=zoo.dynamic", 6, "server.1 belongs into the file"),
        (STANDALONE + "server.1=a:1:2\nserver.2=a:3:4:observer", 4, "observers need an ensemble"),
    ],
)
def test_an_error_is_refused_with_file_line_and_reason(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as refused:
        parse(text, "zoo.cfg", my_id=1)
    assert (refused.value.file, refused.value.line) == ("zoo.cfg", line)
    assert str(refused.value).startswith("zoo.cfg:" if line is None else f"zoo.cfg:{line}: ")


def test_an_id_without_a_server_line_is_refused() -> None:
    with pytest.raises(ConfigError, match=re.escape("myid is 7, but there is no server.7 line")):
        parse(ENSEMBLE, "zoo.cfg", my_id=7)


def test_an_id_of_255_is_refused_with_extended_types() -> None:
    text = ENSEMBLE + "server.255=zoo4:1:2\n"
    assert parse(text, "zoo.cfg", my_id=255).server_id == 255
    with pytest.raises(ConfigError, match="at most 254"):
        parse(text + "extendedTypesEnabled=true", "zoo.cfg", my_id=255)


def test_server_lines_with_roles_client_parts_and_ipv6() -> None:
    config = parse(
        "dataDir=/d\ninitLimit=5\nsyncLimit=2\n"
        "server.1=[2001:db8::1]:2888:3888:participant;[::1]:2181\n"
        "server.2 = zoo2:2888:3888:OBSERVER;2182\n"
        "server.3=zoo3:2888:3888:participant;\n"
        "server.4=zoo4:2888:3888;zoo4:2184\n",
        "zoo.cfg",
        my_id=1,
    )
    assert str(config.ensemble) == (
        "server.1=[2001:db8::1]:2888:3888:participant;[::1]:2181\n"
        "server.2=zoo2:2888:3888:observer;0.0.0.0:2182\n"
        "server.3=zoo3:2888:3888:participant\n"
        "server.4=zoo4:2888:3888:participant;zoo4:2184\n"
        "version=0"
    )
    assert config.client_address == ("::1", 2181)
    assert config.ensemble.observers == {2}
    assert config.warnings == ()


def test_a_member_has_an_address_on_each_network() -> None:
    line = "server.4=[fe80::1]:1:2|b:3:4:observer;2181"
    config = parse(SEVERAL + line, "zoo.cfg", my_id=1)
    own = config.ensemble.servers[4]
    assert [(each.host, each.quorum_port, each.election_port) for each in own.addresses] == [
        ("fe80::1", 1, 2),
        ("b", 3, 4),
    ]
    assert own.role is Role.OBSERVER
    assert str(own) == "server.4=[fe80::1]:1:2|b:3:4:observer;0.0.0.0:2181"
    assert config.addresses.next_address_after_seconds == 1.0
    more = "\nmultiAddress.reachabilityCheckTimeoutMs=250"
    assert parse(SEVERAL + line + more, "zoo.cfg", my_id=1).addresses.next_address_after_seconds == 0.25
    more += "\nmultiAddress.reachabilityCheckEnabled=false"
    assert parse(SEVERAL + line + more, "zoo.cfg", my_id=1).addresses.next_address_after_seconds == 0.0


def test_secure_client_port_in_a_server_line_is_refused() -> None:
    lines = "dataDir=/d\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2;b:2184;b:2284\nserver.3=c:1:2"
    with pytest.raises(ConfigError, match=r"^zoo.cfg:5: server.2 has a secure client port: write secureClientPort"):
        parse(lines, "zoo.cfg", my_id=1)


def test_groups_and_weights_reach_the_ensemble_and_its_text() -> None:
    config = parse(ENSEMBLE + "group.1=1:2\ngroup.2=3\nweight.3=0\nversion=1f", "zoo.cfg", my_id=1)
    assert config.ensemble.groups == {1: (1, 2), 2: (3,)}
    assert config.ensemble.weights == {1: 1, 2: 1, 3: 0}
    assert str(config.ensemble).endswith("group.1=1:2\ngroup.2=3\nweight.1=1\nweight.2=1\nweight.3=0\nversion=1f")


def test_a_client_port_beside_a_client_part_has_to_agree() -> None:
    lines = "dataDir=/d\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2;a:2181\nserver.2=b:1:2;b:2181\n"
    assert parse(lines + "clientPort=2181", "zoo.cfg", my_id=1).client_address == ("a", 2181)
    for different in ("clientPort=2182", "clientPort=2181\nclientPortAddress=b"):
        with pytest.raises(ConfigError, match="differs from the one in the server line"):
            parse(lines + different, "zoo.cfg", my_id=1)


def test_no_server_line_and_one_participant_run_standalone_with_id_1() -> None:
    assert parse(STANDALONE, "zoo.cfg").server_id == STANDALONE_SERVER_ID
    one = parse("dataDir=/d\nserver.5=a:1:2;2181\n", "zoo.cfg", my_id=5)
    assert one.is_standalone
    assert one.server_id == STANDALONE_SERVER_ID
    assert one.client_address == ("0.0.0.0", 2181)
    assert [warning.key for warning in one.warnings] == ["server.*"]
    alone = "standaloneEnabled=false\ninitLimit=5\nsyncLimit=2\n"
    assert not parse(STANDALONE + alone + "server.5=a:1:2\n", "zoo.cfg", my_id=5).is_standalone


def test_features_that_are_not_built_and_unknown_keys_are_warned_of_and_never_refused() -> None:
    config = parse(
        STANDALONE + "quorum.cnxn.threads.size=20\nforceSync=no\nsnapcount=5",
        "conf/zoo.cfg",
    )
    seen = [(warning.line, warning.key, str(warning)) for warning in config.warnings]
    assert [entry[:2] for entry in seen] == [
        (3, "quorum.cnxn.threads.size"),
        (4, "forceSync"),
        (5, "snapcount"),
    ]
    assert seen[0][2] == "conf/zoo.cfg:3: quorum.cnxn.threads.size: the key has no effect: links have no threads"
    assert seen[2][2] == "conf/zoo.cfg:5: snapcount: the key is unknown and has no effect. Did you mean snapCount?"


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        ("sslQuorum=yes", 3, "sslQuorum: 'yes' is neither true nor false"),
        ("sslQuorum=true", 3, "TLS between members needs ssl.quorum.keyStore.location"),
        ("portUnification=true\nssl.quorum.keyStore.location=/k", 3, "needs ssl.quorum.trustStore.location"),
        ("ssl.quorum.keyStore.location=/k", 3, "nothing would be encrypted"),
        ("sslQuorum=false\nssl.quorum.trustStore.location=/k", 4, "nothing would be encrypted"),
        ("sslQuorumReloadCertFiles=true", 3, "neither sslQuorum nor portUnification is set"),
        ("ssl.quorum.crl=true", 3, "neither sslQuorum nor portUnification is set"),
        ("admin.forceHttps=true", 3, "HTTPS needs ssl.quorum.keyStore.location"),
        ("admin.portUnification=true", 3, "HTTPS needs ssl.quorum.keyStore.location"),
        ("admin.enableServer=false\nadmin.forceHttps=true", 4, "the admin server, which is switched off"),
        ("admin.needClientAuth=true", 3, "without admin.forceHttps=true nobody is asked for a certificate"),
        (
            QUORUM_TLS + "admin.portUnification=true\nadmin.needClientAuth=true",
            6,
            "a client without TLS shows none, and is accepted",
        ),
        (
            "ssl.quorum.keyStore.location=/k.pem\nadmin.forceHttps=true\nadmin.needClientAuth=true",
            5,
            "ssl.quorum.trustStore.location has to say who vouches for them",
        ),
        (
            f"metricsProvider.className={PROMETHEUS}\nmetricsProvider.httpPort=8080",
            4,
            "they are the same port",
        ),
        ("metricsProvider.className=org.example.Mine", 3, "cannot be loaded here"),
        ("admin.commandURL=commands", 3, "is not a path that begins with /"),
        (
            QUORUM_TLS + "sslQuorum=true\nssl.quorum.clientAuth=want",
            6,
            "'want' is not supported: a server without a cert",
        ),
        (QUORUM_TLS + "sslQuorum=true\nssl.quorum.clientAuth=none", 6, "'none' is not supported"),
        (QUORUM_TLS + "sslQuorum=true\nssl.quorum.hostnameVerification=false", 6, "proves which server speaks"),
        (QUORUM_TLS + "sslQuorum=true\nssl.quorum.clientHostnameVerification=false", 6, "proves which server"),
        (QUORUM_TLS + "sslQuorum=true\nssl.quorum.protocol=TLSv1", 6, "'TLSv1' is neither"),
        (QUORUM_TLS + "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1.1,TLSv1.3", 6, "is not a list of TLSv1.2"),
        (
            QUORUM_TLS + "sslQuorum=true\nssl.quorum.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            6,
            "ssl.quorum.ciphersuites has no suite of TLSv1.3",
        ),
    ],
)
def test_tls_between_members_is_as_it_is_said_or_refused(lines: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^zoo.cfg:{line}: .*{reason}"):
        parse(STANDALONE + lines, "zoo.cfg")


@pytest.mark.parametrize(
    "lines", ["sslQuorumReloadCertFiles=true", "admin.needClientAuth=true\nssl.quorum.crl=true"], ids=["reload", "crl"]
)
def test_what_of_tls_concerns_the_admin_server_too(lines: str) -> None:
    assert parse(f"{STANDALONE}admin.forceHttps=true\n{QUORUM_TLS}{lines}", "zoo.cfg").admin.has_tls


@pytest.mark.parametrize(
    ("lines", "versions"),
    [
        ("", {"TLSv1.2", "TLSv1.3"}),
        ("ssl.quorum.protocol=TLSv1.2", {"TLSv1.2"}),
        ("ssl.quorum.protocol=TLSv1.2\nssl.quorum.enabledProtocols=TLSv1.3", {"TLSv1.3"}),
    ],
)
def test_versions_of_tls_between_members(lines: str, versions: set[str]) -> None:
    assert parse(f"{STANDALONE}sslQuorum=true\n{QUORUM_TLS}{lines}", "zoo.cfg").quorum_tls_versions == versions


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("zookeeper.ssl.quorum.ocsp=true", "OCSP is not supported"),
        ("ssl.ocsp=true", "OCSP is not supported"),
        ("ssl.clientHostnameVerification=true", "the name in a client's certificate is not compared"),
        ("ssl.authProvider=custom", "a certificate gives an identity of the scheme x509"),
        ("fips-mode=true", "OpenSSL's own configuration determines"),
        ("ssl.context.supplier.class=a.B", "this part of TLS for clients is not supported"),
        ("ssl.x509.clientCertIdType=SAN", "this part of TLS for clients is not supported"),
        ("ssl.quorum.other=true", "this part of TLS between members is not supported"),
        ("ssl.quorum.context.supplier.class=A", "no Java class can be loaded here"),
        ("quorum.auth.enableSasl=true", "members prove who they are with quorum.secretFile"),
        ("X509AuthenticationProvider.clientCertId=SAN", "this part of authentication would not be"),
        ("kerberos.canonicalizeHostNames=true", "members prove who they are with quorum.secretFile, not by Kerberos"),
        ("kerberos.other=true", "the key is unknown, and resembles a"),
        ("sasl.userFile=/users", "the key is unknown, and resembles a"),
        (
            "authProvider=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "the key is unknown, and resembles",
        ),
        ("audit.everything=true", "the key is unknown, and resembles a"),
        ("sslquorum=true", "the key is unknown, and resembles a"),
        ("quorum.secretfile=/s", "the key is unknown, and resembles a"),
        ("enforceAuth=true", "the key is unknown, and resembles a"),
        ("netty.ssl.provider=X", "this part of TLS for clients is not supported"),
        ("metricsProvider.httpsPort=7443", "the metrics port does not support TLS"),
        ("metricsProvider.ssl.keyStore.location=/k", "the metrics port does not support TLS"),
        ("learner.authenticate=true", "the key is unknown, and resembles a"),
    ],
)
def test_key_of_security_that_is_not_honoured_is_refused_with_its_line(line: str, reason: str) -> None:
    """Else a server that its owner believes to be closed would be open."""
    with pytest.raises(ConfigError, match=f"^conf/zoo.cfg:3: .*: {reason}.*Remove the line"):
        parse(STANDALONE + line, "conf/zoo.cfg")


def test_key_that_is_refused_is_in_no_other_table() -> None:
    """A key of the other tables is harmless, and the start is not refused for it."""
    refused = {key for keys, _ in REFUSED for key in keys}
    others = [pattern for patterns, _ in NOT_BUILT + NO_COUNTERPART for pattern in patterns]
    assert not refused & set(others)
    assert not [pattern for patterns, _ in NOT_BUILT for pattern in patterns if pattern.endswith("*")]


@pytest.mark.parametrize(
    "line",
    [
        "sslQuorum=false",
        "enforce.auth.enabled=False",
        "secureClientPort=-1",
        "sessionRequireClientSASLAuth=FALSE",
        "quorum.auth.enableSasl=false",
        "kerberos.removeHostFromPrincipal=false",
        "ssl.clientAuth=none",
    ],
)
def test_key_of_security_that_is_switched_off_is_none(line: str) -> None:
    assert parse(STANDALONE + line, "zoo.cfg").warnings == ()


def test_port_for_tls_and_who_is_believed_there() -> None:
    config = parse(STANDALONE + TLS + "ssl.clientAuth=WANT\nssl.enabledProtocols=TLSv1.3\n", "zoo.cfg")
    assert config.secure_client_address == ("0.0.0.0", 2281)
    assert config.clients.certificates == "want"
    assert config.client_tls.enabled_protocols == {"TLSv1.3"}
    assert config.warnings == ()
    alone = parse(f"dataDir=/d\n{TLS}", "zoo.cfg")
    assert (alone.client_address, alone.secure_client_address) == (None, ("0.0.0.0", 2281))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("secureClientPort=2281", "TLS needs ssl.keyStore.location"),
        ("client.portUnification=true", "TLS needs ssl.keyStore.location"),
        ("secureClientPort=2281\nssl.keyStore.location=/k", "ssl.trustStore.location has to say who"),
        ("ssl.keyStore.location=/k.pem", "neither secureClientPort nor client.portUnification"),
        ("ssl.trustStore.location=/k.pem", "neither secureClientPort nor client.portUnification"),
        ("secureClientPortAddress=a", "secureClientPort is not"),
        ("secureClientPort=2181\nssl.keyStore.location=/k\nssl.clientAuth=none", "secureClientPort is clientPort"),
        ("ssl.enabledProtocols=TLSv1.1", "is not a list of"),
        ("ssl.clientAuth=maybe", "'maybe' is neither"),
    ],
)
def test_tls_that_would_not_be_what_its_owner_believes_is_refused(lines: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse(STANDALONE + lines, "zoo.cfg")


@pytest.mark.parametrize("key", sorted(OPENING))
def test_key_that_opens_the_service_is_written_as_zookeeper_reads_it(key: str) -> None:
    """With its prefix ZooKeeper never sees it: an old line would suddenly count."""
    with pytest.raises(ConfigError, match=f"zoo.cfg:3: zookeeper.{key}: in a file it is written {key}"):
        parse(f"{STANDALONE}zookeeper.{key}=yes", "zoo.cfg")


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (
            "authProvider.1=org.example.Provider",
            3,
            "authProvider.1: the class 'org.example.Provider' is not supported here",
        ),
        (
            f"authProvider.1={ZOOKEEPERS}SASLAuthenticationProvider\nsessionRequireClientSASLAuth=true",
            4,
            "nobody can prove anything by sasl here: add sasl.usersFile",
        ),
        ("sessionRequireClientSASLAuth=true", 3, "nobody can prove anything by sasl here: add sasl.usersFile"),
        ("kerberos.removeHostFromPrincipal=true", 3, "kerberos.removeHostFromPrincipal concerns Kerberos: add"),
        ("security.auth_to_local=DEFAULT", 3, "security.auth_to_local concerns Kerberos: add"),
        (
            "java.security.auth.login.config=/j\nsecurity.auth_to_local=RULE:[1:$1]",
            4,
            "the only supported rule for names is DEFAULT",
        ),
        ("sessionRequireClientSASLAuth=yes", 3, "'yes' is neither true nor false"),
        ("requireClientAuthScheme=sasl", 3, "nobody can prove anything by sasl here"),
        ("requireClientAuthScheme=kerberos", 3, "'kerberos' is neither sasl nor none"),
        ("enforce.auth.enabled=true", 3, "enforce.auth.schemes is not set"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes= , ", 3, "enforce.auth.schemes is not set"),
        ("enforce.auth.schemes=digest", 3, "has no effect without enforce.auth.enabled"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl", 4, "nobody can prove anything by sasl here"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=digest,x509", 4, "nobody can prove anything by x509 here"),
        (
            f"{X509_PROVIDER}\nenforce.auth.enabled=true\nenforce.auth.schemes=x509",
            5,
            "neither secureClientPort nor client.portUnification asks a client",
        ),
        ("client.certReload=true", 3, "neither secureClientPort nor client.portUnification is set"),
        ("ssl.crl=true", 3, "neither secureClientPort nor client.portUnification is set"),
        (TLS + "ssl.clientAuth=none\nssl.crl=true", 7, "with ssl.clientAuth=none nobody is asked for a certificate"),
        ("X509AuthenticationProvider.superUser=CN=a", 3, "nobody can be that: neither secureClientPort nor"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=world", 4, "nobody can prove anything by world here"),
        (
            "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false",
            4,
            "nobody can prove anything by digest here",
        ),
        ("sasl.usersFile=/u\njava.security.auth.login.config=/j", 4, "the users of SASL are in one file"),
        ("sasl.usersFile=", 3, "the value is empty"),
        ("sasl.usersFile=/u\nsasl.serverconfig=Other", 4, "sasl.serverconfig concerns a JAAS file"),
        ("SASLAuthenticationProvider.superPassword=hidden", 3, "superPassword concerns a JAAS file"),
        ("ensembleAuthName=one", 3, "ensembleAuthName has no effect without"),
        ("DigestAuthenticationProvider.digestAlg=SHA-3", 3, "'SHA-3' is not a supported hash"),
        ("superUser.1=", 3, "superUser.1: the value is empty"),
    ],
)
def test_what_is_asked_of_clients_and_cannot_be_is_refused(lines: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as error:
        parse(STANDALONE + lines, "zoo.cfg")
    assert error.value.line == line
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "required"),
    [
        ("", set()),
        ("sessionRequireClientSASLAuth=true", {"sasl"}),
        ("requireClientAuthScheme=SASL", {"sasl"}),
        ("requireClientAuthScheme=none", set()),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=sasl , digest,", {"sasl", "digest"}),
        ("enforce.auth.enabled=false\nenforce.auth.schemes=sasl", set()),
        # As in ZooKeeper: SASL takes the place of the list.
        ("sessionRequireClientSASLAuth=true\nenforce.auth.enabled=true\nenforce.auth.schemes=digest", {"sasl"}),
    ],
)
def test_what_is_required_of_clients(lines: str, required: set[str]) -> None:
    config = parse(STANDALONE + SASL_USERS + lines, "zoo.cfg")
    assert config.access.required_schemes == required
    assert config.warnings == ()


def test_a_provider_of_sasl_without_users_is_a_warning_and_lists_may_name_its_users() -> None:
    """Accepted, like in ZooKeeper. If a login is required, the start is refused."""
    config = parse(f"{STANDALONE}authProvider.1={ZOOKEEPERS}SASLAuthenticationProvider", "zoo.cfg")
    [warning] = config.warnings
    assert str(warning).startswith("zoo.cfg:3: authProvider.*: nobody can log in by SASL: add sasl.usersFile=FILE")
    assert "sasl" in config.acl_schemes
    assert "sasl" not in parse(STANDALONE, "zoo.cfg").acl_schemes


def test_requiring_what_everybody_has_is_warned_of() -> None:
    [warning] = parse(STANDALONE + "enforce.auth.enabled=true\nenforce.auth.schemes=digest,ip", "zoo.cfg").warnings
    assert str(warning) == "zoo.cfg:4: enforce.auth.schemes: every client has ip: all are let in"


def test_keys_of_a_family_count_all() -> None:
    text = STANDALONE + SASL_USERS + "superUser=a\nsuperUser.x=b\nsuperUser.y=c\nsuperUser.x=d\n"
    config = parse(text, "zoo.cfg")
    assert (config.access.sasl_super_user, set(config.access.sasl_super_users)) == ("a", {"c", "d"})
    assert [warning.key for warning in config.warnings] == ["superUser.x"]
    with pytest.raises(ConfigError, match=r"zoo.cfg:4: zookeeper.superUser.x: in a file it is written superUser.x"):
        parse(STANDALONE + SASL_USERS + "zookeeper.superUser.x=b", "zoo.cfg")


def test_secret_in_the_file_is_in_no_text_made_of_it() -> None:
    lines = "java.security.auth.login.config=/j\nSASLAuthenticationProvider.superPassword=hidden"
    config = parse(STANDALONE + lines, "zoo.cfg")
    assert config.login.super_password == "hidden"
    assert "hidden" not in repr(config)


def test_passwords_of_stores_are_in_no_text_made_of_the_file() -> None:
    lines = f"{TLS}ssl.keyStore.password=hidden\nssl.trustStore.password=hidden\n"
    config = parse(STANDALONE + lines, "zoo.cfg")
    assert (config.client_tls.key_store_password, config.client_tls.trust_store_password) == ("hidden", "hidden")
    assert "hidden" not in repr(config)


BOTH = (
    "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
)


@pytest.mark.parametrize(
    ("lines", "versions"),
    [
        ("", {"TLSv1.2", "TLSv1.3"}),
        ("ssl.protocol=TLSv1.2", {"TLSv1.2"}),
        ("ssl.protocol=TLSv1.2\nssl.enabledProtocols=TLSv1.3", {"TLSv1.3"}),
        (f"ssl.ciphersuites={BOTH}", {"TLSv1.2", "TLSv1.3"}),
        ("ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\nssl.protocol=TLSv1.2", {"TLSv1.2"}),
    ],
)
def test_versions_of_tls_are_those_that_are_named(lines: str, versions: set[str]) -> None:
    assert parse(STANDALONE + TLS + lines, "zoo.cfg").client_tls_versions == versions


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("ssl.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA", "'TLS_RSA_WITH_AES_128_CBC_SHA' is not one of TLS_AES_256"),
        ("ssl.ciphersuites=", "'' is not one of"),
        ("ssl.ciphersuites=TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256 and TLS_AES_128_GCM_SHA256 would be"),
        ("ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.ciphersuites has no suite of TLSv1.3"),
        (f"ssl.ciphersuites={BOTH}\nssl.protocol=TLSv1.3", "has suites of, and nobody may speak, TLSv1.2"),
        ("ssl.protocol=TLS", "'TLS' is not a list of TLSv1.2 and TLSv1.3"),
        ("ssl.protocol=TLSv1.2,TLSv1.3", "has more than one protocol"),
        ("ssl.protocol=SSLv3", "'SSLv3' is not a list"),
    ],
)
def test_what_of_tls_could_not_be_spoken_as_it_is_said_is_refused(lines: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse(STANDALONE + TLS + lines, "zoo.cfg")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ssl.authProvider=x509", None),
        ("ssl.crl=false", None),
        ("fips-mode=false", None),
        ("ssl.hostnameVerification=true", "it applies to the connecting end"),
        ("ssl.handshakeDetectionTimeoutMillis=5000", "a client has ten seconds"),
        ("ssl.sslProvider=OPENSSL", "TLS is provided by Python's OpenSSL"),
    ],
)
def test_what_of_tls_changes_nothing_here_does_not_stop_the_start(line: str, reason: str | None) -> None:
    said = [warning.reason for warning in parse(STANDALONE + TLS + line, "zoo.cfg").warnings]
    assert said == ([] if reason is None else [f"the key has no effect: {said[0].partition(': ')[2]}"])
    assert reason is None or reason in said[0]


@pytest.mark.parametrize("key", ["ssl.quorum.hostnameVerification", "ssl.quorum.clientHostnameVerification"])
@pytest.mark.parametrize("before", ["", "sslQuorum=false\n"])
def test_names_of_members_that_are_not_checked_where_there_are_none_are_a_warning(key: str, before: str) -> None:
    """As ZooKeeper's own files have it: nobody's security rests on it."""
    [warning] = parse(f"{STANDALONE}{before}{key}=false", "zoo.cfg").warnings
    assert str(warning).endswith(f"{key}: members speak no TLS, so there are no names to be checked")
    with pytest.raises(ConfigError, match="neither true nor false"):
        parse(f"{STANDALONE}{key}=perhaps", "zoo.cfg")


def test_switching_off_what_is_not_built_needs_no_warning() -> None:
    assert parse(STANDALONE + "admin.enableServer=false\nsslQuorum=False", "zoo.cfg").warnings == ()


def test_a_key_set_twice_has_its_last_value_and_a_warning() -> None:
    config = parse(STANDALONE + "tickTime=1000\nzookeeper.tickTime=2000\n", "zoo.cfg")
    assert config.timing.tick_time_ms == 2000
    assert [str(warning) for warning in config.warnings] == [
        "zoo.cfg:3: tickTime: it is set again in line 4, which counts"
    ]


@pytest.mark.parametrize(
    ("more", "key", "reason"),
    [
        ("server.4=zoo4:2888:3888\n", "server.*", "4 participants survive the failure of 1, as 3 would"),
        ("peerType=observer\n", "peerType", "the server line says participant"),
        ("snapCount=0\n", "snapCount", "0 is too small; 2 is used"),
    ],
)
def test_what_is_odd_about_an_ensemble_is_warned_of(more: str, key: str, reason: str) -> None:
    warnings = parse(ENSEMBLE + more, "zoo.cfg", my_id=1).warnings
    assert any(warning.key == key and reason in warning.reason for warning in warnings), warnings


def test_a_dynamic_file_has_the_members_and_its_version_in_its_name() -> None:
    static = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile=/c/zoo.cfg.dynamic.100000004\n"
    dynamic = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
    config = parse(static, "zoo.cfg", my_id=3, dynamic_text=dynamic + "tickTome=7\n")
    assert config.ensemble.version == 0x100000004
    assert config.ensemble.participants == {1, 2, 3}
    assert [str(warning)[:42] for warning in config.warnings] == ["/c/zoo.cfg.dynamic.100000004:4: tickTome: t"[:42]]
    with pytest.raises(ConfigError, match="version in its name") as refused:
        parse(static, "zoo.cfg", my_id=3, dynamic_text=dynamic + "version=5\n")
    assert (refused.value.file, refused.value.line) == ("/c/zoo.cfg.dynamic.100000004", 4)
    with pytest.raises(ConfigError) as refused:
        parse(static, "zoo.cfg", my_id=3)
    assert refused.value.reason == "the dynamic configuration was not read"
    with pytest.raises(ConfigError, match=re.escape("'b:1' does not have the form")) as refused:
        parse(static, "zoo.cfg", my_id=3, dynamic_text="server.1=a:1:2\nserver.2=b:1")
    assert (refused.value.file, refused.value.line) == ("/c/zoo.cfg.dynamic.100000004", 2)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((f"ssl.{key}", "neither secureClientPort nor client.portUnification is set") for key in OF_TLS),
        *((f"ssl.{key}\nsecureClientPort=0", "neither secureClientPort nor client.portU") for key in OF_TLS),
        ("ssl.clientAuth=need", "neither secureClientPort nor client.portUnification is set"),
        *((f"ssl.quorum.{key}", "neither sslQuorum nor portUnification is set") for key in OF_TLS),
        *((f"ssl.quorum.{key}\nsslQuorum=false", "neither sslQuorum nor portUnification is set") for key in OF_TLS),
        ("zookeeper.ssl.quorum.clientAuth=need", "neither sslQuorum nor portUnification is set"),
        ("ssl.quorum.hostnameVerification=true", "neither sslQuorum nor portUnification is set"),
        ("ssl.quorum.clientHostnameVerification=true", "neither sslQuorum nor portUnification is set"),
        ("quorum.secretRequired=true", "quorum.secretFile is not set: nobody is asked for a secret"),
    ],
)
def test_what_protects_nobody_is_refused(line: str, reason: str) -> None:
    """The default written out, too: who writes it believes that it is in force."""
    key = line.partition("=")[0].removeprefix("zookeeper.")
    with pytest.raises(ConfigError, match=f"^zoo.cfg:3: {re.escape(key)}: {reason}.*remove the line"):
        parse(STANDALONE + line, "zoo.cfg")


@pytest.mark.parametrize(
    "lines",
    [
        "secureClientPort=0",
        "sslQuorum=false\nportUnification=false",
        "ssl.crl=false\nssl.quorum.crl=false\nssl.clientAuth=none",
        "quorum.secretRequired=false",
        "quorum.secretFile=/s\nquorum.secretRequired=true",
        QUORUM_TLS + "portUnification=true\nsslQuorum=false\nssl.quorum.clientAuth=need\nssl.quorum.protocol=TLSv1.3",
        TLS.replace("secureClientPort=2281", "client.portUnification=true") + "ssl.clientAuth=need\nsecureClientPort=0",
    ],
)
def test_what_is_off_or_has_something_to_protect_starts(lines: str) -> None:
    """The steps of docs/how-to/secure.md need this while an ensemble changes."""
    parse(STANDALONE + lines, "zoo.cfg")


@pytest.mark.parametrize(
    "line",
    [
        "sslQuorum=true",
        "zookeeper.sslQuorum=true",
        "quorum.secretFile=/s",
        "sessionRequireClientSASLAuth=true",
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "superUser.1=alice",
        "tickTime=7",
        "quorum.auth.enableSasl=true",
        "sslquorum=true",
    ],
)
def test_what_somebody_relies_on_is_refused_in_a_dynamic_file(line: str) -> None:
    """There it would do nothing, and its owner would take the ensemble for protected."""
    static = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile=/c/dynamic\n"
    members = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
    with pytest.raises(ConfigError, match=rf"^/c/dynamic:4: {re.escape(line.partition('=')[0])}: .* zoo\.cfg"):
        parse(static, "zoo.cfg", my_id=3, dynamic_text=members + line)


def test_load_reads_the_file_the_dynamic_file_and_myid(tmp_path: Path) -> None:
    dynamic = tmp_path / "zoo.cfg.dynamic"
    dynamic.write_text("server.1=a:1:2\nserver.2=b:1:2\n")
    file = tmp_path / "zoo.cfg"
    file.write_text(f"dataDir={tmp_path}\ndynamicConfigFile={dynamic}\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n")
    with pytest.raises(ConfigError, match="myid: the file is missing"):
        load(file)
    (tmp_path / "myid").write_text(" 2 \nanything\n")
    assert load(file).server_id == 2
    (tmp_path / "myid").write_text("two\n")
    with pytest.raises(ConfigError, match="server id 'two' is not a number"):
        load(file)
    dynamic.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.cfg")


def test_passwords_in_a_file_that_others_may_read_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(
        f"dataDir={tmp_path}\nclientPort=2181\nsecureClientPort=2281\nssl.keyStore.password=opensesame\n"
        "zookeeper.ssl.trustStore.password=changeit\nssl.keyStore.location=k.p12\nssl.trustStore.location=t.p12\n"
    )
    for mode, lines in ((0o600, []), (0o640, [4, 5]), (0o604, [4, 5])):
        file.chmod(mode)
        found = [each for each in load(file).warnings if "password" in each.key and "its value" in each.reason]
        assert [each.line for each in found] == lines
    assert [each.key for each in found] == ["ssl.keyStore.password", "ssl.trustStore.password"]
    assert found[0].reason == (
        f"its value is a password, and {file}: users other than its owner can use it: run `chmod 600 {file}`, or have "
        "the password in the file of ssl.keyStore.passwordPath"
    )
    assert not any("opensesame" in str(each) for each in load(file).warnings)


def test_a_standalone_server_needs_no_myid(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_bytes(f"dataDir={tmp_path}/\xe9\nclientPort=2181\n".encode("latin-1"))
    config = load(file)
    assert (config.server_id, config.storage.data_dir) == (STANDALONE_SERVER_ID, f"{tmp_path}/é")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tickTme=2000", "the key is unknown and has no effect. Did you mean tickTime?"),
        ("clientport=2181", "the key is unknown and has no effect. Did you mean clientPort?"),
        ("forcesync=no", "the key is unknown and has no effect. Did you mean forceSync?"),
        ("wombat=1", "the key is unknown and has no effect"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_one(written: str, said: str) -> None:
    [warning] = parse(f"dataDir=/d\nclientPort=2181\n{written}\n", "zoo.cfg").warnings
    assert warning.reason == said


def test_an_unknown_key_named_like_security_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"security key\. Did you mean quorum\.secretFile\? Remove the line"):
        parse("dataDir=/d\nclientPort=2181\nquorum.secretfle=/s\n", "zoo.cfg")


def test_without_an_id_a_parsed_ensemble_says_that_it_is_unknown() -> None:
    assert parse(ENSEMBLE, "zoo.cfg").server_id == SERVER_ID_UNKNOWN


def test_four_letter_words_are_allowed_by_the_list_or_by_the_star() -> None:
    assert parse(STANDALONE, "zoo.cfg").allows_word("srvr")
    assert not parse(STANDALONE, "zoo.cfg").allows_word("isro")
    assert parse(STANDALONE + "4lw.commands.whitelist=*", "zoo.cfg").allows_word("mntr")
    listed = parse(STANDALONE + "4lw.commands.whitelist=stat", "zoo.cfg")
    assert [word for word in ("stat", "srvr", "ruok", "isro") if listed.allows_word(word)] == ["stat", "srvr"]


def test_a_configuration_cannot_be_changed() -> None:
    config = parse(STANDALONE, "zoo.cfg")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.timing.tick_time_ms = 1  # type: ignore[misc]
    assert isinstance(config, Config)


def table_rows(text: str, heading: str) -> list[tuple[str, ...]]:
    """The cells of every table row below `heading`, up to the next heading of its level."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])) for line in lines]


def test_the_operations_page_lists_every_key_with_unit_default_and_reason() -> None:
    expected = [
        tuple(
            cell.replace("|", r"\|")
            for cell in (
                f"`{setting.key}`",
                setting.unit,
                setting.shown,
                setting.reason,
            )
        )
        for setting in settings_of(Config)
    ]
    assert table_rows(OPERATIONS.read_text(), "Configuration keys") == expected


def test_the_operations_page_lists_every_key_that_is_refused_with_its_reason() -> None:
    expected = [(", ".join(f"`{pattern}`" for pattern in patterns), reason) for patterns, reason in REFUSED]
    assert table_rows(OPERATIONS.read_text(), "Keys that are refused") == expected


def test_the_operations_page_lists_every_ignored_key_with_its_reason() -> None:
    expected = [
        (", ".join(f"`{pattern}`" for pattern in patterns), reason) for patterns, reason in NOT_BUILT + NO_COUNTERPART
    ]
    assert table_rows(OPERATIONS.read_text(), "Keys without effect") == expected


def test_a_page_explains_every_line_of_trouble() -> None:
    section = TROUBLE.read_text().split("\n## Lines of trouble\n", 1)[1].split("\n## ", 1)[0]
    rooms = [Path(__file__).parents[3] / "zab" / room for room in ("member", "host", "server")]
    sources = sorted(source for room in rooms for source in room.rglob("*.py"))
    lines = {
        (source.name, call.args[0].value)
        for source in sources
        for call in ast.walk(ast.parse(source.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("journal.warning", "journal.error", "self._report", "of_strangers.warning")
        and isinstance(call.args[0], ast.Constant)
    }
    assert len(lines) > 5
    missing = [f"{name}: {line}" for name, line in sorted(lines) if f"`{line}" not in section]
    assert not missing, "docs/how-to/troubleshoot.md, Lines of trouble, does not say what these mean"
