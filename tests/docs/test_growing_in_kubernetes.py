"""docs/how-to/deploy.md: from three members to five while they run, with the ConfigMap's lines and the page's
command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.manifests import PAGE, one
from tests.rigs.processes import ended
from tests.rigs.zab_server import member_of_lines
from tests.rigs.zookeeper_server import ZooKeeperMember
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.process

HOST = re.compile(r"zab-(\d)\.zab-members:2888:3888")
[RIGHTS] = re.findall(r"^ *```\n( *reconfigEnabled=true\n.*?) *```", PAGE, re.S | re.M)
[FURTHER] = re.findall(r"^ *```\n( *server\.4=.*?) *```", PAGE, re.S | re.M)
[COMMAND] = re.findall(r"^ *kubectl exec -i zab-0 -- (zab .* reconfig add .*) < auth$", PAGE, re.M)
SERVING = '"serving": true'
PASSWORD, DIGEST = "wire", "super:VWtk8RlLl86/uVG5FIHgpHieL2Q="


class Pods:
    """Members 1..5 on this machine: what the manifests say, except for hosts, ports and paths."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "secret").write_text("00" * 32 + "\n")
        (directory / "secret").chmod(0o600)
        numbers = iter(free_ports(25))
        self.ports = {
            sid: dict(zip(("client", "quorum", "election", "admin", "metrics"), numbers, strict=False))
            for sid in range(1, 6)
        }

    def place(self, text: str) -> str:
        """The hosts of pods, and the client port after them in a line."""

        def here(match: re.Match[str]) -> str:
            own = self.ports[int(match[1]) + 1]
            client = f";127.0.0.1:{own['client']}" if match[2] else ""
            return f"127.0.0.1:{own['quorum']}:{own['election']}{client}"

        return re.sub(HOST.pattern + "(;2181)?", here, text)

    def lines(self, sid: int, *more: str) -> list[str]:
        text = self.place("\n".join([one("ConfigMap")["data"]["zoo.cfg"], *more]))
        own = self.ports[sid]
        for key, value in {
            "dataDir": self.directory / str(sid),
            "clientPort": own["client"],
            "tickTime": 500,
            "quorum.secretFile": self.directory / "secret",
            "admin.serverPort": own["admin"],
            "metricsProvider.httpPort": own["metrics"],
        }.items():
            text, count = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
            assert count == 1, key
        return text.splitlines()

    def member(self, sid: int, *more: str) -> ZooKeeperMember:
        return member_of_lines(sid, self.directory / str(sid), self.ports[sid]["client"], self.lines(sid, *more))

    def run(self, *words: str, said: str = "") -> str:
        hosts = ",".join(f"127.0.0.1:{self.ports[sid]['client']}" for sid in (1, 2, 3))
        done = subprocess.run(
            [sys.executable, "-m", *words],
            input=said,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "ZAB_HOSTS": hosts},
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


def serve(members: Sequence[ZooKeeperMember]) -> None:
    for member in members:
        member.wait_until_it_says(SERVING)


def test_the_lines_that_the_page_adds_go_on_from_those_of_the_manifests() -> None:
    assert HOST.findall(one("ConfigMap")["data"]["zoo.cfg"]) == ["0", "1", "2"]
    assert HOST.findall(FURTHER) == HOST.findall(COMMAND) == ["3", "4"]


@pytest.mark.longest
def test_two_pods_more_are_let_in_by_reconfig_add_and_not_before(tmp_path: Path) -> None:
    pods = Pods(tmp_path)
    three = [pods.member(sid) for sid in (1, 2, 3)]
    rights = RIGHTS.replace("super:…", DIGEST).strip()
    two = [pods.member(sid, FURTHER.strip(), rights) for sid in (4, 5)]
    with ended([*three, *two]):
        for member in three:
            member.start()
        serve(three)
        # Lines that only the new ones have help nothing.
        two[0].start().wait_until(
            lambda: any("server 4 is not in the configuration" in each.log_text() for each in three)
        )
        assert SERVING not in two[0].log_text()
        for member in three:
            times = member.log_text().count(SERVING)
            member.stop()
            member.config.write_text("\n".join(pods.lines(member.server_id, rights)) + "\n")
            member.start().wait_until_it_says(SERVING, times + 1)
        two[1].start()
        serve(two)
        assert pods.run("zab", "reconfig", "show").count("server.") == 3
        command = pods.place(COMMAND).replace("'", "").split()
        assert pods.run(*command, said=f"digest:super:{PASSWORD}\n").count("server.") == 5
        assert pods.run("zab", "reconfig", "show").count("participant") == 5
