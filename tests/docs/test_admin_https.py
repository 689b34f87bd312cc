"""What docs/how-to/use-tls.md says of HTTPS of the admin server is what happens: its lines and commands, in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.rigs.processes import ended
from tests.rigs.zab_server import member_of_lines
from tests.tidy.sources import ROOT
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs" / "how-to" / "use-tls.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## HTTPS of the admin server\n", 1)[1].split("\n## ", 1)[0]
AT, NEED = 8080, "admin.needClientAuth=true"


class Page:
    """Somebody who has this section, and an admin port that is another one."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", command.replace(f":{AT}", f":{self.port}")],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.directory,
            env={**os.environ, "PATH": path, "HOME": str(self.directory)},
            check=False,
        )

    def does(self, shown: list[tuple[str, str]]) -> None:
        for command, expected in shown:
            done = self.run(command)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            pattern = ".*".join(map(re.escape, expected.strip().split("…")))
            assert not expected or re.fullmatch(pattern, done.stdout.strip(), re.S), (command, done.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.long
def test_from_certificates_to_a_backup_over_https(tmp_path: Path) -> None:
    client_port, admin_port = free_ports(2)
    page = Page(tmp_path, admin_port)
    [lines] = re.findall(r"^```\n(admin\.forceHttps.*?)^```$", SECTION, re.S | re.M)
    before, after = SECTION.split(f"`{NEED}`")
    make, *asking = steps(before)
    page.does([make])
    shutil.copytree(tmp_path / "certs" / "members" / "zab1", tmp_path / "tls")
    own = [
        *lines.replace("/etc/zab/tls", str(tmp_path / "tls")).splitlines(),
        f"dataDir={tmp_path / 'member'}",
        f"clientPort={client_port}",
        f"admin.serverPort={admin_port}",
        "admin.rateLimiterIntervalInMS=1",
    ]
    member = member_of_lines(1, tmp_path / "member", client_port, own)
    with ended([member]):
        member.start().wait_until_it_says("serving=true")
        page.does(asking)
        member.stop()
        member.config.write_text("\n".join([*own, NEED]) + "\n")
        member.start().wait_until_it_says("serving=true", times=2)
        page.does(steps(after))

        # Who shows no certificate is not answered, nor is who shows one of a client.
        [asked] = [command for command, _ in asking if command.startswith("curl")]
        assert page.run(asked).returncode != 0
        assert page.run(f"{asked} --cert certs/clients/client/keystore.pem").returncode != 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_certificates_of_server_lines_are_for_no_other_name(tmp_path: Path) -> None:
    [client_port, admin_port] = free_ports(2)
    page = Page(tmp_path, admin_port)
    page.does([("zab certs certs --host 127.0.0.2", "")])
    (directory,) = (tmp_path / "certs" / "members").iterdir()
    stores = {kind: directory / f"{kind}.pem" for kind in ("keystore", "quorum.truststore")}
    own = [
        "admin.forceHttps=true",
        f"ssl.quorum.keyStore.location={stores['keystore']}",
        "admin.serverAddress=0.0.0.0",
        f"dataDir={tmp_path / 'member'}",
        f"clientPort={client_port}",
        f"admin.serverPort={admin_port}",
    ]
    member = member_of_lines(1, tmp_path / "member", client_port, own)
    with ended([member]):
        member.start().wait_until_it_says("serving=true")
        ask = f"curl -s --cacert {stores['quorum.truststore']} https://HOST:{AT}/health/ready"
        assert page.run(ask.replace("HOST", "127.0.0.2")).stdout == '{"ready":true}'
        assert page.run(ask.replace("HOST", "127.0.0.1")).returncode != 0
