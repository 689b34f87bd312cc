"""The list of mutants and the gate that runs it; `make mutants` is the run itself (docs/contributing/mutants.md)."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import attrs
import pytest
import yaml

from tests.mutants import __main__ as program
from tests.mutants.__main__ import NOTHING, ROOMS, find
from tests.mutants.gate import Outcome, Verdict, Workbench
from tests.mutants.mutant import DIRECTORY, SIMULATED, Edit, Mutant, MutantError, mutants, read
from tests.tidy.rules import RULES
from tests.tidy.sources import ROOT

COUNT_MIN = 120
MUTANTS = mutants()


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= COUNT_MIN
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


@pytest.mark.slow
def test_each_can_be_made_of_the_sources_and_read() -> None:
    """Code that moves takes its mutants along: correct the lines in tests/testdata/mutants. (The syntax of Python is
    that of the next test.)"""
    problems = []
    for mutant in MUTANTS:
        try:
            for path, text in mutant.texts(ROOT).items():
                if path.endswith(".yaml"):
                    yaml.safe_load(text)
        except (MutantError, yaml.YAMLError) as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_each_is_python_and_uses_names_that_are_there(tmp_path: Path) -> None:
    """A killer that fails since a name is not defined would fail without the rule's test, too. Ruff reports errors of
    syntax whatever it is asked for."""
    for mutant in MUTANTS:
        for path, text in mutant.texts(ROOT).items():
            if path.endswith(".py"):
                (tmp_path / f"{mutant.name}.{path.replace('/', '.')}").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", "--quiet"]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_each_rule_has_one_and_no_other_is_named() -> None:
    broken = {rule for mutant in MUTANTS for rule in mutant.rules}
    assert broken == RULES.keys()


def test_each_names_a_killer_that_is_there() -> None:
    missing = []
    for mutant in MUTANTS:
        if mutant.killer.startswith(SIMULATED):
            assert mutant.killer.removeprefix(SIMULATED).isdecimal(), mutant
            continue
        path, *inside = mutant.killer.partition("[")[0].split("::")
        name = inside[-1] if inside else ""
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        if not text or (name and not re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE)):
            missing.append(f"{mutant.name}: {mutant.killer}")
    assert not missing, "\n".join(missing)


def test_a_mutant_is_read_as_it_is_written() -> None:
    text = """mutant one
rules  A1 B2
killer tests/test_it.py::test_one
file   it.py
 def double(number):
-    return 2 * number
+    return number

mutant two
rules  -
killer simulate:7
file   it.py
-ONE = 1
file   other.py
+TWO = 2
 THREE = 3
"""
    one, two = read(text)
    whole = Edit("it.py", "def double(number):\n    return 2 * number\n", "def double(number):\n    return number\n")
    assert one == Mutant("one", ("A1", "B2"), "tests/test_it.py::test_one", (whole,))
    assert two.rules == ()
    assert two.edits == (Edit("it.py", "ONE = 1\n", ""), Edit("other.py", "THREE = 3\n", "TWO = 2\nTHREE = 3\n"))


@pytest.mark.parametrize(
    "text",
    [
        "mutant one\nrules  -\nfile   it.py\n-x\n",
        "mutant one\nrules  -\nkiller t\n-x\n+y\n",
        "mutant one\nrules  -\nkiller t\nfile   it.py\n x\n",
        "mutant one\nrules  -\nkiller t\nfile   it.py\n-x\n*y\n",
    ],
)
def test_what_is_no_mutant_is_refused(text: str) -> None:
    with pytest.raises(MutantError):
        list(read(text))


@pytest.mark.parametrize("old", ["x = 1\n", "absent = 3\n", "= 1\ny"])
def test_a_place_that_is_not_there_once_is_refused(old: str, tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text("x = 1\ny = 2\nx = 1\n")
    with pytest.raises(MutantError, match="not once"):
        Mutant("one", (), "t", (Edit("it.py", old, ""),)).texts(tmp_path)


SOURCE = "def double(number):\n    return 2 * number\n"
TEST = "from it import double\n\n\ndef test_double():\n    assert double(3) == 6\n"


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    (tmp_path / "it.py").write_text(SOURCE)
    (tmp_path / "test_it.py").write_text(TEST)
    return Workbench(tmp_path)


def changed(new: str, killer: str = "test_it.py::test_double") -> Mutant:
    return Mutant("one", (), killer, (Edit("it.py", "    return 2 * number\n", new),))


@pytest.mark.slow
@pytest.mark.long
def test_a_mutant_whose_killer_fails_is_killed_and_undone(workbench: Workbench) -> None:
    assert workbench.verdict(changed("    return number\n"))[0] is Verdict.KILLED
    assert (workbench.directory / "it.py").read_text() == SOURCE
    assert workbench.passes(["test_it.py"]) == ""


@pytest.mark.slow
def test_what_killers_import_is_compiled_once(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert workbench.passes(["test_it.py"]) == ""
    assert list((workbench.directory / "__pycache__").glob("it.*.pyc"))


@pytest.mark.slow
def test_a_mutant_whose_killer_passes_has_survived(workbench: Workbench) -> None:
    assert workbench.verdict(changed("    return number + number\n"))[0] is Verdict.SURVIVED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "killer"),
    [("    return (\n", "test_it.py"), ("    return number\n", "test_it.py::test_absent"), ("    pass\n", "none.py")],
)
def test_a_killer_that_cannot_run_has_killed_nothing(new: str, killer: str, workbench: Workbench) -> None:
    assert workbench.verdict(changed(new, killer))[0] is Verdict.NOT_RUN


@pytest.mark.slow
def test_a_killer_that_is_skipped_has_not_run(workbench: Workbench) -> None:
    """It needs what is not installed here."""
    text = TEST.replace("    assert", "    import pytest\n\n    pytest.skip()\n    assert")
    (workbench.directory / "test_it.py").write_text(text)
    assert workbench.verdict(changed("    return number\n"))[0] is Verdict.NOT_RUN


HANGS = "    while True:\n        pass\n"


@pytest.mark.slow
def test_a_killer_that_takes_too_long_has_timed_out(workbench: Workbench) -> None:
    verdict, output = attrs.evolve(workbench, killer_seconds=2).verdict(changed(HANGS))
    assert verdict is Verdict.TIMED_OUT
    assert output.endswith("timed out after 2 s")


class Scripted(Workbench):
    """A workbench whose runs end with these exit codes, and print nothing."""

    codes: ClassVar[list[int | None]]

    def run(self, mutant: Mutant, command: Sequence[str]) -> Outcome:
        return Outcome(self.codes.pop(0), "")


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([0, 5, 0, 0], NOTHING),
        ([0, None, 0, 0], "TIMED OUT: quick tests of tests/protocol"),
        ([0, 0, 2, None], "NOT RUN: slow tests of tests/member tests/protocol; TIMED OUT: 100 seeds of the simulator"),
    ],
)
def test_search_that_did_not_come_to_its_end_has_not_found_that_nothing_notices(
    codes: list[int | None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, "it.py", "tests/member tests/protocol")
    Scripted.codes = [*codes]
    assert find(Scripted(tmp_path), changed(HANGS)) == said


@pytest.mark.parametrize(
    ("verdict", "code", "line"),
    [
        (Verdict.KILLED, 0, "0 not killed: none\n"),
        (Verdict.SURVIVED, 1, "1 not killed: one\n"),
        (Verdict.TIMED_OUT, 2, "error: 1 with a run that did not come to its end: one\n"),
        (Verdict.NOT_RUN, 2, "error: 1 with a run that did not come to its end: one\n"),
    ],
)
def test_run_whose_killer_timed_out_is_an_error(
    verdict: Verdict, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workbench = Mock(passes=lambda _killers: "", verdict=lambda _mutant: (verdict, ""))
    monkeypatch.setattr(program, "bench", lambda: contextlib.nullcontext(workbench))
    monkeypatch.setattr(program, "mutants", lambda: [changed(HANGS)])
    assert program.main([]) == code
    assert line in capsys.readouterr().out


def test_mutant_that_changes_nothing_has_not_run(workbench: Workbench) -> None:
    verdict, output = workbench.verdict(changed("    return 2 * number\n"))
    assert verdict is Verdict.NOT_RUN
    assert "stays as it is" in output


def test_mutant_of_other_sources_has_not_run(workbench: Workbench) -> None:
    """Its line is gone: that is no kill, and ends nobody else's run."""
    mutant = changed("    pass\n", "test_it.py")
    (workbench.directory / "it.py").write_text("def double(number):\n    return number + number\n")
    verdict, output = workbench.verdict(mutant)
    assert verdict is Verdict.NOT_RUN
    assert "has this 0 times" in output


@pytest.mark.slow
def test_killers_that_fail_on_the_code_as_it_is_are_noticed(workbench: Workbench) -> None:
    (workbench.directory / "it.py").write_text("def double(number):\n    return number\n")
    assert "test_double" in workbench.passes(["test_it.py"])


# ------------------------------------------------------------------------------------------ the page, and its commands

PAGE = (ROOT / "docs" / "contributing" / "mutants.md").read_text(encoding="utf-8")
EXAMPLE = "rollback_is_not_noticed"


def gate(*words: str) -> subprocess.CompletedProcess[str]:
    """What `make mutants MUTANTS="…"` runs."""
    command = [sys.executable, "-m", "tests.mutants", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


def test_make_runs_the_gate_with_what_it_is_told() -> None:
    assert "-m tests.mutants $(MUTANTS)\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^make mutants.*?(?=  |$)", PAGE, re.MULTILINE) == [
        "make mutants",
        f"make mutants MUTANTS={EXAMPLE}",
        'make mutants MUTANTS="--find NAME"',
    ]


@pytest.mark.slow
@pytest.mark.longest
def test_the_commands_of_the_page_say_what_the_page_says() -> None:
    done = gate(EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{EXAMPLE}: killed" in done.stdout
    assert done.stdout.endswith(" 0 not killed: none\n")
    assert re.search(rf" {EXAMPLE}: tests/protocol/\w+\.py::\w+", gate("--find", EXAMPLE).stdout)
    assert gate("no_such_mutant").returncode == 2


def test_the_page_shows_a_mutant_as_it_is_and_names_every_list() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.txt")}
    (shown,) = re.findall(r"```\n(mutant .*?)```", PAGE, re.DOTALL)
    assert f"\n{shown}" in texts["protocol.txt"]
    assert set(re.findall(r"`([\w-]+\.txt)`", PAGE)) == texts.keys()
