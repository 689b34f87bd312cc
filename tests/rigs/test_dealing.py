"""What goes to one worker. A test that ends its worker has failed once, and the rest of its group is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rigs.dealing import group

ROOT = Path(__file__).parents[2]
TESTS = """
import os

def test_first(): pass
def test_ends_its_worker(): os._exit(1)
def test_last(): pass
"""


class Item:
    """What stands for a test with these marks."""

    nodeid = "tests/test_a.py::test_b"
    _fixtureinfo = SimpleNamespace(name2fixturedefs={})

    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def get_closest_marker(self, name: str) -> bool | None:
        return name in self.marks or None


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (["spark", "slow"], "spark"),
        (["spark", "cluster"], "tests/test_a.py"),
        (["spark", "cluster", "slow"], "tests/test_a.py::test_b"),
        (["slow"], "tests/test_a.py::test_b"),
        ([], "tests/test_a.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_starts_no_spark_of_its_own_waits_for_the_session(marks: list[str], expected: str) -> None:
    item: Any = Item(*marks)
    assert group(item) == expected


@pytest.mark.slow
@pytest.mark.long
def test_the_rest_of_a_group_is_run(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(TESTS)
    options = ("-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-n", "1", "-q", str(tmp_path))
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout, done.stdout
