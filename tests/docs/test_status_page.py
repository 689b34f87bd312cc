"""What docs/status.md shows is what happens, and its tables are whole."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.docs.test_monitoring_page import steps
from tests.tidy.sources import ROOT
from zab.cli.servers.local_ensemble import ADMIN_OFFSET, LocalEnsemble
from zab.testing.ports import free_ports_in_a_row

PAGE = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnsemble]:
    first = free_ports_in_a_row(3, span=ADMIN_OFFSET + 2)
    found = LocalEnsemble(3, tmp_path_factory.mktemp("ensemble"), first)
    try:
        found.start()
        assert trio.run(found._wait_until_serving) is None
        yield found
    finally:
        found.stop()


def told(text: str, ensemble: LocalEnsemble) -> str:
    """With the ports of this ensemble."""
    for at, member in enumerate(ensemble.members):
        text = text.replace(f":{2181 + at}", f":{member.client_port}").replace(f":{8081 + at}", f":{member.admin_port}")
    return text


def test_the_commands_print_what_the_page_says(ensemble: LocalEnsemble, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    shown = steps(PAGE)
    assert shown
    for command, expected in shown:
        done = subprocess.run(
            ["bash", "-c", told(command, ensemble)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        code = re.search(r"# exit code (\d+)$", command)
        assert done.returncode == (int(code[1]) if code else 0), (command, done.stdout, done.stderr)
        pattern = r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in told(expected, ensemble).split())
        assert re.fullmatch(pattern, done.stdout.strip(), re.S), (command, done.stdout)


def named(section: str) -> set[str]:
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return {name for cell in re.findall(r"^\| (`[^|]*) \|", text, re.M) for name in re.findall(r"`(\w+)`", cell)}


def test_the_table_of_alarms_is_whole() -> None:
    tree = ast.parse((ROOT / "zab" / "upkeep" / "status.py").read_text(encoding="utf-8"))
    found = set()
    for item in ast.walk(tree):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in ("Alarm", "alarm"):
            second = item.args[1]
            if isinstance(second, ast.Constant):
                found.add(second.value)
    assert len(found) > 10
    assert named("`zab status`") == found
