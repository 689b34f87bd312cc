"""What docs/reference/status.md shows is what happens, and its tables are whole."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.docs.status_commands import ensemble, told
from tests.tidy.sources import ROOT
from zab.cli.servers.local_ensemble import LocalEnsemble
from zab.operations.verdicts.answers import Answer, Figures, of_srvr
from zab.operations.verdicts.status import status_of

__all__ = ["ensemble"]

PAGE = (ROOT / "docs" / "reference" / "status.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_commands_print_what_the_page_says(ensemble: LocalEnsemble, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    shown = steps(PAGE)
    assert shown
    for command, expected in shown:
        done = subprocess.run(
            ["bash", "-c", told(command, ensemble)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        code = re.search(r"# exit code (\d+)$", command)
        assert done.returncode == (int(code[1]) if code else 0), (command, done.stdout)
        pattern = r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in told(expected, ensemble).split())
        assert re.fullmatch(pattern, done.stdout.strip(), re.S), (command, done.stdout)


def named(section: str) -> set[str]:
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return {name for cell in re.findall(r"^\| (`[^|]*) \|", text, re.M) for name in re.findall(r"`(\w+)`", cell)}


def test_the_table_of_alarms_is_whole() -> None:
    tree = ast.parse((ROOT / "zab" / "operations" / "verdicts" / "status.py").read_text(encoding="utf-8"))
    found = set()
    for item in ast.walk(tree):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in ("Alarm", "alarm"):
            second = item.args[1]
            if isinstance(second, ast.Constant):
                found.add(second.value)
    assert len(found) > 10
    assert named("`zab status`") == found


def test_the_table_of_alarms_of_brokers_is_whole() -> None:
    source = (ROOT / "zab" / "operations" / "verdicts" / "brokers.py").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.split("\n## Brokers in `zab status`\n", 1)[1], re.M)
    made = re.findall(r"Alarm\((CRITICAL|WARNING), \"(\w+)\"", source)
    assert [(name, severity) for name, severity in rows[: len(made)]] == [
        (name, severity.lower()) for severity, name in made
    ]


SRVR = """Zookeeper version: 3.9.5-zab-0.1.0, built on 2026-01-01 00:00 UTC
Latency min/avg/max: 0/0.5/7
Received: 1
Sent: 1
Connections: 90
Outstanding: 0
Zxid: 0x100000001
Mode: leader
Node count: 5
"""


def test_what_srvr_does_not_tell_is_named() -> None:
    """A leader with everything wrong that figures can tell, asked by `mntr` and by `srvr`."""
    of_both: Figures = of_srvr(SRVR)
    told_by_mntr: Figures = {
        **of_both,
        "quorum_size": 3,
        "synced_followers": 1,
        "disk_space": 1,
        "writes_refused_for_room": 1,
        "avg_fsynctime": 90.0,
        "connection_limit": 100,
        "digest_mismatches_count": 1,
        "damage_found": 1,
        "audit_records_lost": 1,
    }
    spare = status_of([Answer("a", 1, source="mntr", figures=told_by_mntr)])
    none = status_of([Answer("a", 1, source="mntr", figures={**told_by_mntr, "synced_followers": 0})])
    assert spare.quorum == (2, 2)
    of_mntr = {alarm.name for status in (spare, none) for alarm in status.alarms}
    by_srvr = status_of([Answer("a", 1, source="srvr", figures=of_both)])
    assert (by_srvr.quorum, by_srvr.alarms) == (None, ())
    (bullet,) = re.findall(r"^- \*\*What `srvr` does not tell\*\*.*\n(?:  .*\n)*", PAGE, re.M)
    named_there = set(re.findall(r"`([a-z_]+)`", bullet)) - {"srvr"}
    assert named_there == of_mntr
