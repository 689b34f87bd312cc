"""What docs/how-to/back-up.md shows is what happens."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.docs.status_commands import ensemble, told
from tests.tidy.sources import ROOT
from zab.cli.servers.local_ensemble import LocalEnsemble

__all__ = ["ensemble"]

PAGE = (ROOT / "docs" / "how-to" / "back-up.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_commands_print_what_the_page_says(ensemble: LocalEnsemble, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    shown = steps(PAGE)
    assert {word for command, _ in shown for word in re.findall(r"backup (\w+)", command)} >= {
        *("take", "list", "verify", "prune"),
    }
    for command, expected in shown:
        if "curl" in command and shutil.which("curl") is None:
            continue
        done = subprocess.run(
            ["bash", "-c", told(command, ensemble)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        parts = told(expected, ensemble).strip().split("…")
        pattern = ".*".join(map(re.escape, parts)).replace(r"\ files", r"\ files?")
        assert re.fullmatch(pattern, done.stdout.strip(), re.S), (command, done.stdout)
    # A password, and the whole tree: for their owner alone, whatever the umask is.
    private = ["backups/catalogue.json", "header"] + ["state"] * (shutil.which("curl") is not None)
    assert {name: (tmp_path / name).stat().st_mode & 0o077 for name in private} == dict.fromkeys(private, 0)
