"""What docs/reference/commands.md shows is what happens: its commands are run, in order, against one ensemble."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.running import KINDS_OF_LONGEST, running
from zab.cli.commands import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")

SHOWN = [
    *("tree", "find", "du", "cp", "mv", "touch", "export", "import", "edit", "multi", "wait", "lock", "elect"),
    "shell",
]
"""The commands that this page is for."""


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


def steps() -> list[tuple[str, str]]:
    """(command, what it prints), of all console blocks. `$ command # 3` ends with the exit code 3."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.S)
    return [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)]


@pytest.mark.long
def test_the_commands_print_what_the_page_says(hosts: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    for command, expected in steps():
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, **home, "ZAB_HOSTS": hosts, "PATH": path},
            check=False,
        )
        code = re.search(r"# exit code (\d+)$", command)
        assert done.returncode == (int(code[1]) if code else 0), (command, done.stdout, done.stderr)
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, done.stdout, re.S), (command, done.stdout)


def test_each_command_of_the_page_is_shown() -> None:
    shown = {word for command, _ in steps() for word in re.findall(r"zab (\w+)", command)}
    assert {*SHOWN} <= shown
    assert {*SHOWN} <= COMMANDS.keys()
