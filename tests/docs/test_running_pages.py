"""docs/how-to/reconfigure.md, docs/how-to/upgrade.md and docs/how-to/troubleshoot.md: what their commands print is what
happens, with real members, each with its own file, as one shell starts and ends them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.process, pytest.mark.long]

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
NAMES = ("reconfigure", "upgrade", "troubleshoot")
RECONFIGURATION, ROLLING, TROUBLE = [(PAGES / f"{name}.md").read_text(encoding="utf-8") for name in NAMES]
END = "the command has ended with "


def steps(page: str) -> list[tuple[str, str]]:
    """(command, what it prints), of all console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.S)
    return [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)]


class Machine:
    """Where the page is followed, by one shell with its jobs, and with ports that are free here."""

    def __init__(self, directory: Path, page: str) -> None:
        self.directory = directory
        shown = [f"{base}{number}" for base in (218, 281, 291) for number in range(1, 6)]
        self._ports = dict(zip(shown, map(str, free_ports(len(shown))), strict=True))
        [lines] = re.findall(r"```ini\n(.*?)```", page, re.S)
        (directory / "common").write_text(self.here(lines))
        profiles = directory / ".config" / "zab" / "config.toml"
        profiles.parent.mkdir(parents=True)
        profiles.write_text(f"[profiles.default]\nwait = {PATIENCE_SECONDS:.0f}\n")
        self._said = directory / "said"
        with self._said.open("wb") as said:
            self._shell = subprocess.Popen(
                ["bash", "-m"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=directory,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "HOME": str(directory),
                },
            )

    def here(self, text: str) -> str:
        return re.sub(r"\b2[189]\d\d\b", lambda found: self._ports.get(found[0], found[0]), text)

    def do(self, command: str) -> str:
        """What it prints."""
        printed, exit_code = self._run(self.here(command))
        expected = re.search(r" # exit code (\d+)$", command)
        assert exit_code == int(expected[1] if expected else 0), (command, printed, self._said.read_text())
        return printed

    def _run(self, command: str) -> tuple[str, int]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null; echo {END}$?\n".encode())
        self._shell.stdin.flush()
        too_late = Timer(PATIENCE_SECONDS, self._shell.kill)
        too_late.start()
        try:
            printed = ""
            for line in self._shell.stdout:
                before, end, code = line.decode().partition(END)
                printed += before
                if end:
                    return printed, int(code)
        finally:
            too_late.cancel()
        raise AssertionError((command, printed, self._said.read_text()))

    def end(self) -> None:
        self._shell.communicate(b"kill $(jobs -p); wait\n", PATIENCE_SECONDS)


@pytest.mark.parametrize("page", [RECONFIGURATION, ROLLING, TROUBLE], ids=NAMES)
def test_the_commands_print_what_the_page_says(tmp_path: Path, page: str) -> None:
    machine = Machine(tmp_path, page)
    try:
        for command, expected in steps(page):
            said = machine.do(command)
            pattern = ".*".join(map(re.escape, machine.here(expected).split("…")))
            assert re.fullmatch(pattern, said, re.S), (command, said)
    finally:
        machine.end()


@pytest.mark.parametrize("page", [RECONFIGURATION, ROLLING, TROUBLE], ids=NAMES)
def test_a_started_member_is_waited_for_as_long_as_a_slow_machine_needs(page: str) -> None:
    """All of them, before any other command goes to servers: the profile of `Machine` waits longer than readers do."""
    shown = [command for command, _ in steps(page)]
    started = 0
    for at, command in enumerate(shown):
        servers = re.match(r"for n in ([\d ]+); do zab server |zab server (\d)/zoo.cfg ", command)
        if servers:
            started += 1
            then = shown[at + 1]
            assert " --wait 60 sync" in then, then
            assert set((servers[1] or servers[2]).split()) <= set(re.findall(r"\b218(\d)\b", then)), then
    assert started >= 2


def test_each_command_is_shown() -> None:
    shown = " ".join(command for command, _ in steps(RECONFIGURATION))
    assert all(f"zab {words}" in shown for words in ("reconfig show", "reconfig add", "reconfig remove", "lead"))
