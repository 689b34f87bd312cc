"""A test that ends its worker has failed once, and the rest of its group is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]
TESTS = """
import os

def test_first(): pass
def test_ends_its_worker(): os._exit(1)
def test_last(): pass
"""


def test_the_rest_of_a_group_is_run(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(TESTS)
    options = ("-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-n", "1", "-q", str(tmp_path))
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout, done.stdout
