"""docs/reconfiguration.md, docs/rolling.md and docs/trouble.md: what their commands print is what happens, with real
members, each with its own file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.processes import ServerProcess, ended
from zab.testing.ports import free_ports

pytestmark = pytest.mark.process

PAGES = Path(__file__).parents[2] / "docs"
NAMES = ("reconfiguration", "rolling", "trouble")
RECONFIGURATION, ROLLING, TROUBLE = [(PAGES / f"{name}.md").read_text(encoding="utf-8") for name in NAMES]
SECONDS = 120


def steps(page: str) -> list[tuple[str, str]]:
    """(command, what it prints), of all console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.S)
    return [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)]


class Machine:
    """Where the page is followed, with ports that are free here."""

    def __init__(self, directory: Path, page: str) -> None:
        self.directory = directory
        shown = [f"{base}{number}" for base in (218, 281, 291) for number in range(1, 6)]
        self._ports = dict(zip(shown, map(str, free_ports(len(shown))), strict=True))
        [lines] = re.findall(r"```ini\n(.*?)```", page, re.S)
        self._lines = self.here(lines).splitlines()
        self.members: dict[int, ServerProcess] = {}
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
        }

    def here(self, text: str) -> str:
        return re.sub(r"\b2[189]\d\d\b", lambda found: self._ports.get(found[0], found[0]), text)

    def member(self, number: int) -> ServerProcess:
        """The one with this id: its file names those of the page's file, and itself."""
        own = self.here(f"server.{number}=127.0.0.1:281{number}:291{number};127.0.0.1:218{number}")
        directory = self.directory / f"{number}-{len(self.members)}"
        lines = [line for line in self._lines if not line.startswith("dataDir=")]
        lines += [f"dataDir={directory}", *([] if own in lines else [own])]
        return ServerProcess(number, directory, int(self._ports[f"218{number}"]), lines)

    def start(self, *numbers: int) -> None:
        started = []
        for number in numbers:
            if number in self.members:
                self.members[number].stop()
            self.members[number] = self.member(number)
            started.append(self.members[number].start())
        for member in started:
            member.wait_until_it_says("serving=true")

    def do(self, command: str) -> str:
        """What it prints. What it exports stays."""
        variable = re.fullmatch(r"export (\w+)=(.*)", command)
        if variable:
            self._environment[variable[1]] = self.here(variable[2])
            return ""
        servers = re.match(r"for n in ([\d ]+); do zab server \$n/zoo.cfg & done$|zab server (\d)/zoo.cfg &$", command)
        if servers:
            self.start(*map(int, (servers[1] or servers[2]).split()))
            return ""
        killed = re.fullmatch(r"kill %(\d)", command)
        if killed:
            self.members.pop(int(killed[1])).stop()
            return ""
        code = re.search(r" # exit code (\d+)$", command)
        done = subprocess.run(
            ["bash", "-c", self.here(command)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=self.directory,
            env=self._environment,
            check=False,
        )
        assert done.returncode == int(code[1] if code else 0), (command, done.stdout, done.stderr)
        return done.stdout


@pytest.mark.parametrize("page", [RECONFIGURATION, ROLLING, TROUBLE], ids=NAMES)
def test_the_commands_print_what_the_page_says(tmp_path: Path, page: str) -> None:
    machine = Machine(tmp_path, page)
    with ended(machine.members.values()):
        for command, expected in steps(page):
            said = machine.do(command)
            pattern = ".*".join(map(re.escape, machine.here(expected).split("…")))
            assert re.fullmatch(pattern, said, re.S), (command, said)


def test_each_command_is_shown() -> None:
    shown = " ".join(command for command, _ in steps(RECONFIGURATION))
    assert all(f"zab {words}" in shown for words in ("reconfig show", "reconfig add", "reconfig remove", "lead"))
