"""docs/explanation/partitioned-log.md: what it names is there."""

from __future__ import annotations

import re

from tests.tidy.sources import ROOT
from zab.configuration.fields import settings_of
from zab.partition.purgatory.timing_wheel import SIZE, TICK_MS
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.topic_settings import topic_keys

PAGE = (ROOT / "docs" / "explanation" / "partitioned-log.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:zab|tests)/[\w/.]+)`")
OF_CLIENTS = {"fetch.min.bytes", "fetch.max.wait.ms"}


def cells(title: str) -> list[list[str]]:
    """The cells of the rows of the table below a heading."""
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_file_that_the_page_names_is_there() -> None:
    paths = PATH.findall(PAGE)
    assert len(paths) > 70
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_every_row_names_its_files() -> None:
    for title in ("The life of a produce", "The life of a fetch", "The life of a rebalance", "The life of a fail-over"):
        rows = cells(title)
        assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
        assert all(len(PATH.findall(row[1])) == 1 for row in rows), title
    rows = cells("Where each subject is in the code")
    assert len(rows) > 20
    assert all(PATH.findall(row[2]) for row in rows)


def test_every_setting_that_the_page_names_is_one() -> None:
    known = {each.key for each in settings_of(BrokerConfig)} | set(topic_keys()) | OF_CLIENTS
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=\w+)?`", PAGE))
    assert len(named) > 5
    assert named <= known


def test_the_wheel_is_as_large_as_the_page_says() -> None:
    assert f"levels of {SIZE} buckets from {TICK_MS} ms on" in PAGE
