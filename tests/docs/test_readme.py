"""What the README shows is what happens: its commands are run, in order, against an ensemble of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.zab_server import zab_servers
from zab.cli.servers.local_ensemble import OFFSETS
from zab.testing.kit.ports import free_ports_in_a_row

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
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zab_servers(3, directory=tmp_path_factory.mktemp("readme")) as servers:
        yield servers.hosts


def environment(hosts: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "ZAB_HOSTS": hosts, "PATH": path}


def test_the_commands_print_what_the_readme_says(hosts: str) -> None:
    ran = 0
    for command, printed in steps():
        if command.startswith(("git ", "make ", ". ")):
            continue
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
    assert ran == 6


def test_the_program_runs(hosts: str) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert HOSTS in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace(HOSTS, hosts)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("hello 0\n", 0), done.stderr


def test_other_ports_are_served_as_the_readme_says(tmp_path: Path) -> None:
    (command,) = re.findall(r"`(.venv/bin/zab ensemble --client-port 3181)`", README)
    assert "`export ZAB_HOSTS=127.0.0.1:3181`" in README
    port = str(free_ports_in_a_row(3, OFFSETS))
    words = command.replace(".venv/bin", str(Path(sys.executable).parent)).replace("3181", port).split()
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(f"serving at 127.0.0.1:{port},")
            env = environment(f"127.0.0.1:{port}")
            done = subprocess.run(["zab", "create", "/app"], capture_output=True, text=True, env=env, check=False)
            assert done.stdout == "Created /app\n", done.stderr
        finally:
            process.send_signal(signal.SIGINT)


def test_the_figures_are_those_of_the_benchmark() -> None:
    (table,) = re.findall(r"^\| \| ZooKeeper \| zab \|\n(.*?)\n\n", README, re.S | re.M)
    measured = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    figures = [figure for row in table.splitlines()[1:] for figure in re.findall(r"[\d,.]+", row.split("|", 2)[2])]
    assert len(figures) == 14
    assert [figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,])", measured)] == []


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name}: {target}"
