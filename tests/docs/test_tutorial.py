"""docs/tutorial: each command and each program of the pages is run, in order, and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.page_steps import steps
from tests.rigs.local_ensemble import local_ensemble
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.tidy.sources import ROOT
from zab.cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.slow]
pytest_plugins = ["pytester"]

ENSEMBLE, CLIENT, TEST, KAFKA_TEST, REPORT = [
    (ROOT / "docs" / "tutorial" / f"first-{name}.md").read_text(encoding="utf-8")
    for name in ("ensemble", "client", "test", "kafka-test", "report")
]
HOSTS = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"
SETS_UP = ("make ", ". ", "pip ", "pytest ")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[str]:
    """An ensemble as `make run` starts it, with its data in `data`."""
    with local_ensemble(tmp_path / "data") as found:
        yield ",".join(f"127.0.0.1:{member.client_port}" for member in found.members)


def run(words: list[str], hosts: str, directory: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=directory,
        env={**os.environ, "ZAB_HOSTS": hosts, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout)
    return done.stdout


def is_as_shown(printed: str, shown: str) -> bool:
    """With anything in place of `…`, and without the blanks that fill the columns of tables."""
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), lines, re.S) is not None


def commands(page: str) -> list[tuple[str, str]]:
    return [step for step in steps(page) if not step[0].startswith(SETS_UP)]


def test_the_commands_of_the_first_ensemble(hosts: str, tmp_path: Path) -> None:
    shown = commands(ENSEMBLE)
    assert len(shown) >= 12
    for command, expected in shown:
        printed = run(["bash", "-c", command], hosts, tmp_path)
        assert is_as_shown(printed, expected), (command, printed)


def test_the_programs_of_the_first_client(hosts: str, tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", CLIENT, re.S)
    assert len(programs) == CLIENT.count("```python") == 3
    for program, expected in programs:
        assert HOSTS in program
        assert run([sys.executable, "-c", program.replace(HOSTS, hosts)], hosts, tmp_path) == expected


@pytest.mark.parametrize("page", [TEST, KAFKA_TEST], ids=["test", "kafka-test"])
def test_the_first_tests_are_outside_of_the_clone_whose_settings_pytest_would_read(page: str) -> None:
    [moved] = re.findall(r"^\$ cd (.*)$", page, re.M)
    assert f"$ mkdir {moved}\n" in page
    assert ROOT not in (ROOT / moved).resolve().parents
    assert page.index(f"$ cd {moved}") < page.index("$ pytest ")


@pytest.mark.parametrize(
    ("page", "count", "warnings"), [(TEST, 3, "error"), (KAFKA_TEST, 6, "default")], ids=["test", "kafka-test"]
)
def test_the_tests_of_the_first_tests_pass(pytester: pytest.Pytester, page: str, count: int, warnings: str) -> None:
    # kafka-python uses what is deprecated.
    pytester.makepyfile(test_first="\n\n".join(re.findall(r"```python\n(.*?)```", page, re.S)))
    arguments = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "zab.testing.plugin", "-W", warnings)
    pytester.runpytest_subprocess(*arguments, timeout=PATIENCE_SECONDS).assert_outcomes(passed=count)


@pytest.mark.spark
@pytest.mark.longest
def test_the_commands_of_the_first_report(
    hosts: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    ran = []
    for command, expected in commands(REPORT):
        words = shlex.split(command)
        ran.append(words[1])
        if words[1] != "pipeline":
            assert run(words, hosts, tmp_path) == expected
            continue
        with pytest.raises(SystemExit) as ending:
            main(words[1:])
        printed = capfd.readouterr().out
        assert not ending.value.code, printed
        assert not expected or is_as_shown(printed, expected.removesuffix("…\n")), (command, printed)
    assert ran.count("pipeline") == 3
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
