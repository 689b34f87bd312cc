"""A run of chaos as a program of its own, which may have namespaces for its processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.rigs.namespaces import IN_A_NAMESPACE

ROOT = Path(__file__).parents[2]


def chaos(module: str, directory: Path, *options: str, has_machines: bool = False) -> tuple[int, str]:
    """The exit code of `python -m module`, and what it prints. has_machines: each of its processes has a machine."""
    before, after = ((*IN_A_NAMESPACE,), ("--machines",)) if has_machines else ((), ())
    command = [*before, sys.executable, "-m", module, "--directory", str(directory), *after, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
