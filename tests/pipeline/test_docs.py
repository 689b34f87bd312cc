"""What `docs/reference/pipeline.md` shows: commands that run and print these columns, and tables that are those of the
code."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.rigs.ensembles import Directories
from zab.cli.main import main
from zab.cli.pipeline.jobs import JOBS
from zab.pipeline.history.files import HISTORY
from zab.pipeline.jobs.history import VIOLATIONS
from zab.pipeline.jobs.hotspots import VIEWS
from zab.pipeline.jobs.locks import LOCKS, OVERLAPS, QUEUE
from zab.pipeline.jobs.sessions import LIVES, WAVES
from zab.pipeline.jobs.verify_ledgers import VERIFY_LEDGERS
from zab.pipeline.jobs.verify_topics import VERIFY_TOPICS
from zab.pipeline.ledgers import comparing as ledgers
from zab.pipeline.schema import DAMAGE, LEDGER, LOG, SESSIONS, TOPIC, ZNODES, Column
from zab.pipeline.topics import comparing
from zab.pipeline.verify.findings import DEVIATIONS, STATED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "reference" / "pipeline.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "reference" / "pipeline-columns.md").read_text(encoding="utf-8")

PLACES = {"/app/config": "/load/0/3", "/app": "/load"}
"""A znode and a subtree of the documentation, and where the directories of the tests have one."""
NAMED_OTHERWISE: dict[str, tuple[Column, ...]] = {
    **{f"hotspots --by {view}": columns for view, columns in VIEWS.items() if view != "subtree"},
    "sessions": LIVES,
    "sessions --show waves": WAVES,
    "locks --show queue": QUEUE,
    "locks --show summary": LOCKS,
    "locks --show overlaps": OVERLAPS,
    "verify --topics": VERIFY_TOPICS,
    "verify --ledgers": VERIFY_LEDGERS,
    "history": VIOLATIONS,
    "history: what is recorded": HISTORY,
}
"""The results whose columns are not a tuple with the name of the job, in the module of its name."""
RESULT_TITLES = re.findall(r"^## (.+)$", RESULTS, re.MULTILINE)
(JOB_FILE,) = re.findall(r"With this file, `nightly`:\n\n```\n(.*?)```", TEXT, re.DOTALL)
ELSEWHERE = {"follow", "package", "prepare", "history"}
"""Commands that need more than directories; they have tests of their own."""


def table(title: str, text: str = TEXT) -> list[tuple[str, ...]]:
    section = re.split(r"\n#+ ", text.split(f"# {title}\n")[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))) for line in lines]


@pytest.mark.parametrize(
    ("title", "columns"),
    [
        ("Columns of a log", LOG),
        ("Columns of a snapshot", ZNODES),
        ("Columns of its sessions", SESSIONS),
        ("Columns of damage", DAMAGE),
        ("Columns of a topic", TOPIC),
        ("Columns of a ledger", LEDGER),
    ],
)
def test_the_columns_are_those_of_the_code(title: str, columns: tuple[Column, ...]) -> None:
    assert table(title) == [(f"`{column.name}`", column.type, column.meaning) for column in columns]


def columns_of(title: str) -> tuple[Column, ...]:
    """What the code says of a section of the page of results."""
    if title in NAMED_OTHERWISE:
        return NAMED_OTHERWISE[title]
    columns: tuple[Column, ...] = getattr(import_module(f"zab.pipeline.jobs.{title}"), title.upper())
    return columns


@pytest.mark.parametrize("title", RESULT_TITLES)
def test_the_columns_of_results_are_those_of_the_code(title: str) -> None:
    assert table(title, RESULTS) == [(f"`{column.name}`", column.type, column.meaning) for column in columns_of(title)]


def test_every_result_is_there() -> None:
    assert set(RESULT_TITLES) >= NAMED_OTHERWISE.keys()
    first_words = {title.split()[0] for title in RESULT_TITLES}
    assert {name for name, job in JOBS.items() if job.gives_rows} - first_words == {"state"}, (
        "docs/reference/pipeline-columns.md"
    )


@pytest.mark.parametrize(
    ("title", "kinds"),
    [
        ("Kinds of deviations", DEVIATIONS),
        ("Kinds of notes", STATED),
        ("Kinds of deviations of topics", comparing.DEVIATIONS),
        ("Kinds of notes about topics", comparing.STATED),
        ("Kinds of deviations of ledgers", ledgers.DEVIATIONS),
        ("Kinds of notes about ledgers", ledgers.STATED),
    ],
)
def test_the_kinds_of_findings_are_those_of_the_code(title: str, kinds: dict[str, str]) -> None:
    assert table(title, RESULTS) == [(f"`{kind}`", meaning) for kind, meaning in kinds.items()]


def test_the_versions_of_spark_are_those_that_may_be_installed() -> None:
    """The versions that `make spark-versions` tries are the ends of the range."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (low, beyond) = re.findall(r'"pyspark\[sql\]>=(\S+),<(\S+)"', project)[0]
    (tried,) = re.findall(r"^SPARK_VERSIONS \?= (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    oldest, newest = tried.split()
    assert oldest.startswith(f"{low}.")
    assert minor(newest) < minor(beyond)
    assert minor(newest)[1] == minor(beyond)[1] - 1
    assert f"PySpark {low} and {newest.rpartition('.')[0]} work" in TEXT
    assert f"with PySpark {oldest} and with {newest}" in TEXT


def minor(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


def test_every_job_is_there() -> None:
    for name in JOBS:
        assert f"\n### {name}\n" in TEXT, f"docs/reference/pipeline.md has no section on {name}"
        assert f"$ zab pipeline {name} " in TEXT, f"docs/reference/pipeline.md shows no {name}"


def steps() -> list[tuple[str, str]]:
    """(command, first line that it prints)."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.S):
        lines = block.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ zab "):
                printed = lines[number + 1] if number + 1 < len(lines) else ""
                found.append((line[2:], "" if printed.startswith("$ ") else printed))
    return [step for step in found if step[0].split()[2] not in ELSEWHERE]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(("command", "printed"), steps())
def test_the_commands_run_and_print_these_columns(
    command: str,
    printed: str,
    spark: "SparkSession",
    zab_directories: Directories,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "data").symlink_to(zab_directories.members[0].parent)
    (tmp_path / "nightly").write_text(JOB_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    words = [PLACES.get(word, word) for word in shlex.split(command)]
    with pytest.raises(SystemExit) as ending:
        main(words[1:])
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    assert not ending.value.code, err
    if printed and command.startswith("zab pipeline") and not printed.startswith("zab"):
        # How many columns a terminal has room for depends on the values.
        columns, documented = out.splitlines()[0].split(), printed.split()
        count = min(len(columns), len(documented))
        assert columns[:count] == documented[:count]
        assert count > 0.7 * len(documented)
