"""What the README shows is what happens: its commands are run, in order, against an ensemble of its own."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.zab_server import zab_servers
from zab.cli.servers.local_ensemble import ADMIN_OFFSET
from zab.testing.ports import free_ports_in_a_row

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOSTS = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"


def steps() -> list[tuple[str, list[str]]]:
    """(command, lines it prints), of all console blocks."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    directory = tmp_path_factory.mktemp("readme")
    with zab_servers(3, directory=directory) as servers:
        yield servers.hosts, directory


def environment(hosts: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "ZAB_HOSTS": hosts, "PATH": path}


def test_the_commands_print_what_the_readme_says(ensemble: tuple[str, Path]) -> None:
    hosts, directory = ensemble
    ran = 0
    for command, printed in steps():
        if command.startswith(("make ", ". ")):
            continue
        if "data/1/version-1/" in command:
            logs = sorted(directory.rglob("log.*"))
            assert logs
            command = command.replace("data/1/version-1/log.100000001", shlex.quote(str(logs[0])))
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(hosts),
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        if printed:
            assert done.stdout.splitlines() == printed, command
        ran += 1
    assert ran >= 9


def test_the_program_runs(ensemble: tuple[str, Path]) -> None:
    hosts, _ = ensemble
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert HOSTS in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace(HOSTS, hosts)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("hello 0\n", 0), done.stderr


def test_other_ports_are_served_as_the_readme_says(tmp_path: Path) -> None:
    (command,) = re.findall(r"`(.venv/bin/zab ensemble --client-port 3181)`", README)
    assert "`export ZAB_HOSTS=127.0.0.1:3181`" in README
    port = str(free_ports_in_a_row(3, span=ADMIN_OFFSET + 2))
    words = command.replace(".venv/bin", str(Path(sys.executable).parent)).replace("3181", port).split()
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(f"serving at 127.0.0.1:{port},")
            hosts = environment(f"127.0.0.1:{port}")
            done = subprocess.run(["zab", "create", "/app"], capture_output=True, text=True, env=hosts, check=False)
            assert done.stdout == "Created /app\n", done.stderr
        finally:
            process.send_signal(signal.SIGINT)


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name}: {target}"
