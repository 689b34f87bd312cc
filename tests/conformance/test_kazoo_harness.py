"""kazoo's own test harness, unchanged, starts members of ours: its zoo.cfg, JAAS files, Java key stores and properties
of the JVM, by the `java` of docs/how-to/migrate.md.

The harness makes its certificates and stores by libraries that are not here (an old pyOpenSSL, pyjks): this test makes
them. `tests/downloads/test_kazoo.py` has those libraries, and runs kazoo's own tests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl

from tests.rigs.certificates import Certificates
from tests.rigs.java_key_stores import key_entry_of, trusted_entries_of, written
from tests.rigs.kazoo_harness import java_of_the_page
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import four_letter_word
from zab.testing.kit.ports import free_ports

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    # kazoo leaves the socket of a handshake that failed to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning"),
]

SIZE = 3
PASSWORD = "apassword"
"""The harness's, in its zoo.cfg."""
# Those of `kazoo.testing.harness`.
ENTRIES = ("4lw.commands.whitelist=*", "reconfigEnabled=true", "localSessionsEnabled=false")
PROPERTIES = ("-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",)
JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};"""


class Saved:
    """A store as pyjks has it."""

    def __init__(self, *entries: bytes) -> None:
        self._entries = entries

    def save(self, path: str, password: str) -> None:
        Path(path).write_bytes(written(password, *self._entries))


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`kazoo.testing.common`, which asks for those libraries and takes a signal when it is imported."""
    for name in ("OpenSSL", "jks"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    before = signal.getsignal(signal.SIGUSR1)
    try:
        from kazoo.testing import common as module

        yield module
    finally:
        signal.signal(signal.SIGUSR1, before)
        for name in [name for name in sys.modules if name.startswith("kazoo.testing")]:
            del sys.modules[name]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command of the page, which the harness finds."""
    path = java_of_the_page(tmp_path)
    places = [str(path.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(places))
    return path


@contextlib.contextmanager
def servers(common: Any, member: Path, jaas: str | None) -> Iterator[Sequence[Any]]:
    """Three `ManagedZooKeeper` of the harness, with the files that it writes for them and the stores of a member; they
    serve."""
    stores = {
        "keystore": Saved(key_entry_of(member / "keystore.pem", PASSWORD)),
        "truststore": Saved(*trusted_entries_of(member / "truststore.pem")),
    }
    infos = [common.ServerInfo(sid, *free_ports(5), "participant") for sid in range(1, SIZE + 1)]
    managed = [
        common.ManagedZooKeeper(
            "/nowhere",
            info,
            [each for each in infos if each is not info],
            classpath="/nowhere",
            configuration_entries=ENTRIES,
            java_system_properties=PROPERTIES,
            jaas_config=jaas,
            ssl_configuration=stores,
        )
        for info in infos
    ]
    try:
        for each in managed:
            each.run()
        for each in managed:
            until(partial(serves, each), "a member of the harness that serves")
        yield managed
    finally:
        for each in managed:
            each.destroy()


def serves(managed: Any) -> bool:
    assert managed.process.poll() is None, "the member has ended"
    try:
        return four_letter_word(managed.client_port, "srvr").startswith("Zookeeper version")
    except OSError:
        return False


@contextlib.contextmanager
def client(managed: Sequence[Any], **options: Any) -> Iterator[KazooClient]:
    is_secure = options.get("use_ssl", False)
    ports = [each.secure_client_port if is_secure else each.client_port for each in managed]
    zk = KazooClient(",".join(f"localhost:{port}" for port in ports), timeout=20.0, **options)
    try:
        zk.start(PATIENCE_SECONDS)
        yield zk
    finally:
        zk.stop()
        zk.close()


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_its_files_start_members_that_clients_reach_with_and_without_tls(
    common: Any, java: Path, certificates: Certificates
) -> None:
    alice = certificates.client("alice")
    key = str(alice / "keystore.pem")
    tls = {"use_ssl": True, "ca": str(alice / "truststore.pem"), "certfile": key, "keyfile": key}
    with servers(common, certificates.member("localhost"), None) as managed:
        assert Path(managed[0].working_path, "jaas.conf").read_text() == ""
        with client(managed) as zk, client(managed, **tls) as secure:
            zk.create("/app", b"one")
            zk.create("/list", acl=[make_acl("sasl", "bob", all=True)])
            zk.create("/closed", acl=[make_digest_acl("eve", "eve", all=True)])
            with pytest.raises(NoAuthError):
                zk.get("/closed")
            zk.add_auth("digest", "super:test")
            assert zk.get("/closed")[0] == b""
            secure.sync("/app")
            assert secure.get("/app")[0] == b"one"
        for each in managed:
            each.stop()
            assert each.process.returncode == 0
        for each in managed:
            each.run()
        for each in managed:
            until(partial(serves, each), "a member that was started again")
        with client(managed, **tls) as secure:
            assert secure.get("/app")[0] == b"one"


def test_its_jaas_file_lets_its_users_log_in(common: Any, java: Path, certificates: Certificates) -> None:
    with servers(common, certificates.member("localhost"), JAAS) as managed:
        login = {"mechanism": "DIGEST-MD5", "username": "jaasuser", "password": "jaas_password"}
        with client(managed, sasl_options=login) as zk, client(managed) as other:
            zk.create("/own", b"", acl=[make_acl("sasl", "jaasuser", all=True)])
            assert zk.get("/own")[0] == b""
            other.sync("/own")
            with pytest.raises(NoAuthError):
                other.get("/own")
