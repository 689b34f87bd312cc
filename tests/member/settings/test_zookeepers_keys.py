"""Every key of ZooKeeper on which security may rest, as ZooKeeper's own classes have it: honoured, refused, or
written down here with the reason why nothing rests on it."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.zookeeper_server import ZooKeeperError, jars_directory
from zab.configuration.fields import settings_of
from zab.member.settings.zoo_cfg import Config, ConfigError, parse

STANDALONE = "dataDir=/data\nclientPort=2181\n"

OF_SECURITY = re.compile(
    "org/apache/zookeeper/(common/(Client|Quorum)?X509Util|common/ZKConfig|Login|audit/|server/auth/|server/quorum/auth/"
    "|server/admin/|server/AuthenticationHelper|server/NettyServerCnxnFactory)"
)
OF_MORE = re.compile("org/apache/zookeeper/server/(quorum/QuorumPeer|ZooKeeperServer|[A-Za-z]*ServerCnxn|command/)")
"""Classes of which only keys that are named like security are looked at."""
NAMED_LIKE_SECURITY = re.compile(
    "ssl|secur|sasl|auth|kerberos|x509|cert|audit|super|skipACL|EagerACL|portUnification|whitelist", re.I
)

A_KEY = re.compile(r"zookeeper(\.[\w-]+)+|java\.security\.auth\.login\.config")
A_PART = re.compile(r"(?!zookeeper|java|com\.|jdk)[a-z]\w+(\.[a-z]\w+)*")
"""What ZooKeeper puts after `ssl.` and `ssl.quorum.`, or has in its file without a prefix."""

WITHOUT_EFFECT = {
    "admin.httpVersion": "which HTTP is spoken, not with whom",
    "enableEagerACLCheck": "where an ACL is checked, not whether: the leader checks each",
    "kerberos.minReLoginTimeMs": "how soon a ticket is asked for again; there is none",
    "kinit": "the program that asks for it",
    "netty.advancedFlowControl.enabled": "how sockets are read; limits of memory have keys of their own, always on",
    "ssl.handshakeDetectionTimeoutMillis": "how long a first byte may take; every handshake has ten seconds",
    "ssl.hostnameVerification": "of clients; a server dials nobody on the port of clients",
    "ssl.sslProvider": "which library speaks TLS; which versions and suites it speaks have keys of their own",
    "requireKerberosConfig": "whether a principal may lack its realm; it may not",
}
"""Keys that are warned of at most, each with the reason why nothing is open that its owner believes to be closed."""


def strings_of(data: bytes) -> Iterator[str]:
    """The string constants of a class file."""
    texts: dict[int, str] = {}
    strings = []
    (count,) = struct.unpack_from(">H", data, 8)
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[index] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            if tag == 8:
                strings.append(struct.unpack_from(">H", data, at + 1)[0])
            at += {5: 9, 6: 9, 7: 3, 8: 3, 15: 4, 16: 3, 19: 3, 20: 3}.get(tag, 5)
        index += 2 if tag in (5, 6) else 1
    return (texts[string] for string in strings)


def keys_of_zookeeper(jar: Path) -> set[str]:
    keys = set()
    with zipfile.ZipFile(jar) as classes:
        for name in classes.namelist():
            if not name.endswith(".class") or not (OF_SECURITY.match(name) or OF_MORE.match(name)):
                continue
            for text in strings_of(classes.read(name)):
                key = text.removeprefix("zookeeper.").removesuffix(".")
                if "X509Util" in name and A_PART.fullmatch(text):
                    keys |= {f"ssl.{key}", f"ssl.quorum.{key}"}
                    continue
                is_key = A_KEY.fullmatch(text.removesuffix(".")) or ("QuorumPeer" in name and A_PART.fullmatch(text))
                if is_key and (OF_SECURITY.match(name) or NAMED_LIKE_SECURITY.search(key)):
                    keys.add(key)
    return keys - {"x509", "ssl", "ssl.quorum", "ssl.ssl", "ssl.ssl.quorum"}


@pytest.fixture(scope="module")
def keys() -> set[str]:
    try:
        jars = [*jars_directory().glob("zookeeper-[0-9]*.jar")]
    except ZooKeeperError as error:
        pytest.skip(str(error))
    if not jars:
        pytest.skip(f"PySpark has no jar of ZooKeeper in {jars_directory()}")
    return keys_of_zookeeper(jars[0])


def is_honoured(key: str) -> bool:
    own = [setting.key for setting in settings_of(Config)]
    return any(
        key == each or (each.endswith("*") and (key + ".").startswith(each[:-1].rstrip(".") + ".")) for each in own
    )


def is_refused(key: str) -> bool:
    """With exit code 2, its line, and what to do."""
    try:
        parse(f"{STANDALONE}{key}=true\n", "zoo.cfg")
    except ConfigError as error:
        return str(error).startswith(f"zoo.cfg:3: {key}: ") and "Remove the line" in str(error)
    return False


def test_each_key_of_security_is_honoured_or_refused_or_nothing_rests_on_it(keys: set[str]) -> None:
    left = {key for key in keys if not is_honoured(key) and not is_refused(key)}
    assert left == WITHOUT_EFFECT.keys()
    assert all(reason.strip() for reason in WITHOUT_EFFECT.values())


def test_the_keys_are_really_found(keys: set[str]) -> None:
    known = {"ssl.quorum.crl", "quorum.auth.enableSasl", "admin.needClientAuth", "secureClientPort", "sslQuorum"}
    known |= {"X509AuthenticationProvider.superUser", "enforce.auth.enabled", "audit.enable", "skipACL", "fips-mode"}
    known |= {"sessionRequireClientSASLAuth", "java.security.auth.login.config", "4lw.commands.whitelist"}
    assert known <= keys
    assert len(keys) > 90
