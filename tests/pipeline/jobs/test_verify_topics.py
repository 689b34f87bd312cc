"""`verify --topics` in Spark and on the command line: the same findings as in one process, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import Run
from tests.pipeline.rigs.topic_files import BrokerFiles, replica_files, rewrite
from zab.pipeline.jobs.verify_topics import VERIFY_TOPICS, replicas_in, verify_here, verify_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture
def brokers(tmp_path: Path) -> list[BrokerFiles]:
    return [replica_files(tmp_path / "logs", number) for number in (1, 2, 3)]


@pytest.mark.spark
def test_spark_finds_the_same_as_one_process(spark: SparkSession, tmp_path: Path, brokers: list[BrokerFiles]) -> None:
    rewrite(brokers[2], 11, b"other")
    brokers[1].save(starts={"t": 10})
    rows = verify_topics(spark, str(tmp_path)).collect()
    expected = verify_here(replicas_in([tmp_path])).findings
    assert [each.kind for each in expected] == ["differs", "begins"]
    assert [tuple(row) for row in rows] == [
        tuple(getattr(finding, column.name) for column in VERIFY_TOPICS) for finding in expected
    ]


@pytest.mark.spark
def test_the_exit_code_and_the_rows_say_what_differs(
    spark: SparkSession, tmp_path: Path, brokers: list[BrokerFiles], run: Run
) -> None:
    logs = tmp_path / "logs"
    assert run("pipeline", "verify", "--topics", logs) == 0
    assert "1 partition of 3 brokers, 90 batches, " in run.err
    assert "; 0 deviations" in run.err
    rewrite(brokers[2], 11, b"other")
    assert run("pipeline", "verify", "--topics", logs, "--out", tmp_path / "rows.json") == 1
    [row] = map(json.loads, (tmp_path / "rows.json").read_text().splitlines())
    assert (row["broker"], row["kind"], row["offset"], row["until"], row["epoch"]) == ("3", "differs", 22, 24, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--topics", "{logs}", "--topic", "orders"), 1, "no topic orders; the topics are t"),
        (("--topics", "{nowhere}"), 1, "does not exist"),
        (("{logs}",), 1, "for the log directories of brokers there is --topics"),
        (("--topics", "{logs}", "--snapshots"), 2, "about members, not about topics"),
        (("--topics", "{logs}", "--no-chains"), 2, "about members, not about topics"),
        (("{logs}", "--topic", "t"), 2, "it needs --topics"),
    ],
)
def test_wrong_input_is_told_before_spark_starts(
    tmp_path: Path, brokers: list[BrokerFiles], run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    places = {"logs": str(tmp_path / "logs"), "nowhere": str(tmp_path / "nowhere")}
    assert run("pipeline", "verify", *(word.format(**places) for word in words)) == code
    assert said in run.err
