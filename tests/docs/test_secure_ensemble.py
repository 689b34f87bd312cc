"""A secure ensemble from scratch, as docs/how-to/secure.md lists its steps: a newcomer's commands and lines, and no
others.

The members are on 127.0.0.1, 127.0.0.2 and 127.0.0.3, so that each has a host of its own, as on machines of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.rigs.processes import ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import member_of_lines
from tests.rigs.zookeeper_server import ZooKeeperMember
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.process

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
PASSWORD = "opensesame"
REFUSED, NOT_REACHED = 1, 3
"""Exit codes."""


class Newcomer:
    """A person in an empty directory, with `zab` in the path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "config.toml"

    def knows(self, lines: list[str]) -> None:
        """From now on the configuration file has these lines."""
        self.file.touch(mode=0o600)
        self.file.write_text("".join(f"{line}\n" for line in lines))

    def zab(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).parent / "zab"), *words],
            capture_output=True,
            text=True,
            input=said,
            timeout=PATIENCE_SECONDS,
            cwd=self.directory,
            env={**os.environ, "ZAB_CONFIG": str(self.file)},
            check=False,
        )

    def does(self, *words: str, said: str = "") -> str:
        """What the command prints. It succeeds."""
        done = self.zab(*words, said=said)
        assert done.returncode == 0, done.stderr
        return done.stdout


def is_ready(member: ZooKeeperMember) -> bool:
    """No four-letter word reaches it: there is no plain port."""
    return "serving=true" in member.log_text()


@contextlib.contextmanager
def started(members: list[ZooKeeperMember]) -> Iterator[None]:
    with ended(members):
        for member in members:
            member.start()
        for member in members:
            member.wait_until(partial(is_ready, member))
        yield


@pytest.mark.long
def test_a_newcomer_secures_an_ensemble(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    client_port, quorum_port, election_port = free_ports(3)

    # 1. A zoo.cfg with a server line for each member, without clientPort.
    basics = ["tickTime=2000", "initLimit=10", "syncLimit=5"]
    servers = [f"server.{number}={host}:{quorum_port}:{election_port}" for number, host in enumerate(HOSTS, 1)]
    (tmp_path / "zoo.cfg").write_text("".join(f"{line}\n" for line in servers))

    # 2. Certificates, and the lines that are printed; 3. a secret; 4. who may log in; 6. the audit log.
    printed = newcomer.does("certs", "certs", "--zoo-cfg", "zoo.cfg", "--place", "tls")
    [lines] = re.findall(r"^secureClientPort=.*?(?=\n\n)", printed, re.M | re.S)
    newcomer.does("secret", "secret")
    newcomer.does("user", "users", "bob", said=f"{PASSWORD}\n")
    members = []
    for number, host in enumerate(HOSTS, 1):
        home = tmp_path / f"machine{number}"
        shutil.copytree(tmp_path / "certs" / "members" / host, home / "tls")
        for name in ("secret", "users"):
            shutil.copy(tmp_path / name, home / name)
        own = [
            *basics,
            *servers,
            *re.sub(r"=tls/", f"={home}/tls/", lines).replace("=2281", f"={client_port}").splitlines(),
            f"secureClientPortAddress={host}",
            f"dataDir={home}/data",
            f"quorum.secretFile={home}/secret",
            f"sasl.usersFile={home}/users",
            "sessionRequireClientSASLAuth=true",
            "audit.enable=true",
        ]
        members.append(member_of_lines(number, home, client_port, own))
        (home / "data").mkdir()
        (home / "myid").rename(home / "data" / "myid")

    # 5. Clients get their certificates.
    [toml] = re.findall(r"^\[profiles.default\]\nhosts = .*\ntls = true\n.*?(?=\n\n)", printed, re.M | re.S)
    known = [
        *toml.replace(":2281", f":{client_port}").splitlines(),
        'sasl-user = "bob"',
        f'sasl-password = "{PASSWORD}"',
    ]
    newcomer.knows(known)

    with started(members):
        assert newcomer.does("create", "/hello", "world") == "Created /hello\n"
        assert newcomer.does("get", "/hello") == "world\n"
        who = newcomer.does("whoami")
        assert "sasl: bob" in who
        assert "x509: CN=client" in who
        newcomer.does("create", "/bobs", "b", "sasl:bob:cdrwa")
        newcomer.does("create", "/clients", "c", "x509:CN=client:cdrwa")
        assert [newcomer.does("get", path) for path in ("/bobs", "/clients")] == ["b\n", "c\n"]

        # Who comes without TLS, without a certificate or without a login is not let in.
        for left_out, code, reason in (
            (("tls", "ca", "key"), NOT_REACHED, "the server speaks TLS on this port"),
            (("key",), NOT_REACHED, "it wants a certificate of the client"),
            (("sasl",), REFUSED, "SESSIONCLOSEDREQUIRESASLAUTH"),
        ):
            newcomer.knows([line for line in known if not line.startswith(left_out)])
            refused = newcomer.zab("--wait", "1", "get", "/hello")
            assert (refused.returncode, refused.stdout) == (code, ""), refused
            assert reason in refused.stderr

        # Every change is in the audit log of the member that was asked for it.
        audits = list(tmp_path.glob("machine*/data/audit.log"))
        record = r"\tuser=ip:127.0.0.\d,x509:CN=client,sasl:bob\t.*operation=create\tznode=/hello\t.*result=success"
        members[0].wait_until(lambda: re.search(record, "".join(map(Path.read_text, audits))))
        assert all("proven=true" in member.log_text() for member in members)
        assert PASSWORD not in "".join([*map(Path.read_text, audits), *(member.log_text() for member in members)])
