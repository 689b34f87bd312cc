"""The stores, the login and the ACLs of a bookie at the coordination service: what is used, what refuses the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.tls.holders import certificates, holder
from tests.rigs.login_files import digest_section, private_file
from zab.bookie.config_file import BookieSettingsError, read_settings
from zab.bookie.configuration import StartRefusedError, load
from zab.bookie.settings import BookieEnsembleSettings
from zab.client import CREATOR_ALL_ACL, OPEN_ACL, READ_ACL
from zab.client.access.ensemble_access import EnsembleAccess

__all__ = ["certificates", "holder"]

LEAST = "ledgerDirectories=/data\n"
TLS = "zookeeper.ssl.client.enable=true\n"
KEY = "zookeeper.ssl.keystore.location=/key.p12\n"
LOGIN = "java.security.auth.login.config=/jaas\n"
SECURED = "zkEnableSecurity=true\n"


def ensemble(lines: str) -> BookieEnsembleSettings:
    return read_settings(LEAST + lines).ensemble


def test_the_properties_of_java_say_the_same_as_the_keys() -> None:
    java = (
        "zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        "zookeeper.ssl.keyStore.location=/k.jks\nzookeeper.ssl.keyStore.password=hunter2\n"
        "zookeeper.ssl.trustStore.location=/t.jks\nzookeeper.ssl.trustStore.passwordPath=/p\n"
        "zookeeper.ssl.enabledProtocols=TLSv1.3\nzookeeper.ssl.crl=true\n"
    )
    keys = (
        "zookeeper.ssl.client.enable=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        "zookeeper.ssl.keystore.location=/k.jks\nzookeeper.ssl.keystore.password=hunter2\n"
        "zookeeper.ssl.truststore.location=/t.jks\nzookeeper.ssl.truststore.passwordPath=/p\n"
        "zookeeper.ssl.enabled.protocols=TLSv1.3\nzookeeper.ssl.crl.enable=true\n"
    )
    assert ensemble(java) == ensemble(keys) != ensemble("")
    assert ensemble(java).tls_enabled
    assert "hunter2" not in repr(read_settings(LEAST + java))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (SECURED, "zkEnableSecurity: the bookie would be nobody"),
        (f"{SECURED}{TLS}zookeeper.ssl.truststore.location=/t\n", "zkEnableSecurity: the bookie would be nobody"),
        (KEY, "zookeeper.ssl.keystore.location: it has no effect without zookeeper.ssl.client.enable"),
        ("zookeeper.ssl.hostnameVerification=false\n", "line 2: zookeeper.ssl.hostnameVerification: it is not supp"),
        ("zookeeper.sasl.client=false\n", "line 2: zookeeper.sasl.client: it is not supported here"),
    ],
)
def test_what_does_not_go_together_refuses_the_start(lines: str, why: str) -> None:
    with pytest.raises(BookieSettingsError, match=why):
        read_settings(LEAST + lines)


@pytest.mark.parametrize("identity", ["login", "certificate"])
def test_znodes_are_changed_by_their_creator_and_read_by_all(identity: str, holder: Path, tmp_path: Path) -> None:
    """The ACL of BookKeeper, for every znode."""
    jaas = private_file(tmp_path / "jaas.conf", digest_section("Client", username="bk", password="p"))
    lines = {
        "login": f"java.security.auth.login.config={jaas}\n",
        "certificate": f"{TLS}zookeeper.ssl.keystore.location={holder}/keystore.pem\n",
    }[identity]
    secured = EnsembleAccess(ensemble(lines + SECURED))
    for path in ("/", "/ledgers", "/ledgers/available/b1", "/config/users"):
        assert secured.acl(path) == (*CREATOR_ALL_ACL, *READ_ACL)
    assert EnsembleAccess(ensemble(lines)).acl("/ledgers") == OPEN_ACL


def test_a_login_that_cannot_be_read_refuses_the_start(tmp_path: Path) -> None:
    jaas = private_file(tmp_path / "jaas.conf", digest_section("Client", username="bk", password="p"), 0o644)
    file = private_file(tmp_path / "bk.conf", f"{LEAST}java.security.auth.login.config={jaas}\n{SECURED}")
    with pytest.raises(StartRefusedError, match="run `chmod 600"):
        load(str(file))


def test_a_key_that_others_can_read_refuses_the_start(holder: Path, tmp_path: Path) -> None:
    key = tmp_path / "keystore.pem"
    key.write_bytes((holder / "keystore.pem").read_bytes())
    key.chmod(0o644)
    file = private_file(tmp_path / "bk.conf", f"{LEAST}{TLS}zookeeper.ssl.keystore.location={key}\n")
    with pytest.raises(StartRefusedError, match=r"zookeeper\.ssl\.keystore\.location: .*chmod 600"):
        load(str(file))


def test_passwords_in_a_file_that_others_can_read_are_warned_of(holder: Path, tmp_path: Path) -> None:
    """Also under the name that Java has for the key."""
    password = (holder / "password").read_text().strip()
    stores = f"zookeeper.ssl.keyStore.location={holder}/keystore.p12\nzookeeper.ssl.keyStore.password={password}\n"
    file = private_file(tmp_path / "bk.conf", f"{LEAST}{TLS}{stores}")
    assert load(str(file)).warnings == ()
    file.chmod(0o644)
    [warning] = load(str(file)).warnings
    assert warning.startswith("line 4: zookeeper.ssl.keyStore.password: its value is a password")
    assert warning.endswith("the file of zookeeper.ssl.keystore.passwordPath")
    assert password not in warning
