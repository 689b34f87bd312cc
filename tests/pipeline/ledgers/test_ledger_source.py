"""Ledgers as DataFrames in Spark, and `verify --ledgers` there and on the command line."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import Run
from tests.pipeline.rigs.bookie_files import PAYLOAD, Bookies, rows_of
from tests.pipeline.rigs.copied_ledgers import UID, CopiedLedgers
from zab.ledger.entries.digests import DigestType
from zab.ledger.managed.objects import data_name
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.verify_ledgers import VERIFY_LEDGERS, given_in, verify_here, verify_ledgers
from zab.pipeline.schema import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = [column.name for column in LEDGER]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture
def bookies(tmp_path: Path) -> Bookies:
    """Three ledgers, one of them in the journal alone; bookie a lacks an entry of the first."""
    made = Bookies(tmp_path / "bookies")
    made.ledger(1, 8, without={"a": [5]})
    made.ledger(2, 5, digest_type=DigestType.HMAC, password=b"secret")
    made.flush()
    made.ledger(3, 4)
    return made


@pytest.fixture
def copied(bookies: Bookies, tmp_path: Path) -> CopiedLedgers:
    """Copies of the first ledger and of the second, which bookies no longer need to have."""
    made = CopiedLedgers(bookies, str(tmp_path / "archive"))
    made.copy(1)
    made.copy(2, is_on_bookies=False)
    return made


@pytest.mark.spark
def test_spark_reads_copies_in_object_stores(
    spark: SparkSession, bookies: Bookies, copied: CopiedLedgers, run: Run
) -> None:
    from zab.pipeline.ledgers.ledger_source import read_ledgers

    metadata, logs = str(bookies.export()), str(copied.export())
    frame = read_ledgers(spark, (), logs=logs, columns=["ledger", "bookie", "stored", "digest_ok", "payload"])
    expected = [(1, None, "object", True, PAYLOAD % entry) for entry in range(8)]
    expected += [(2, None, "object", None, PAYLOAD % entry) for entry in range(5)]
    assert sorted(map(tuple, frame.collect())) == expected
    assert read_ledgers(spark, [bookies.root], "1", logs=logs).count() == 3 * 8 - 1 + 8
    copied.flip(data_name(1, UID), 60)
    rows = verify_ledgers(spark, str(bookies.root), metadata, logs=logs).collect()
    assert [(row["kind"], row["bookie"], row["file"]) for row in rows] == [
        ("damaged", None, f"{copied.uri}/{data_name(1, UID)}"),
        ("fewer", "a", None),
    ]
    words = ("--metadata", metadata, "--logs", logs, "--ledger", "2")
    assert run("pipeline", "verify", "--ledgers", bookies.root, *words) == 0
    assert "1 ledger, 1 closed, on 4 bookies, 1 in object stores: 20 copies of entries, " in run.err


@pytest.mark.spark
def test_spark_has_the_rows_of_the_bookies(spark: SparkSession, bookies: Bookies) -> None:
    from zab.pipeline.ledgers.ledger_source import read_ledgers
    from zab.pipeline.reading.log_source import register

    metadata = str(bookies.export())
    frame = read_ledgers(spark, [bookies.root], metadata=metadata)
    assert frame.columns == ALL
    found = [row.asDict() for row in frame.collect()]
    key = lambda row: (row["bookie"], row["ledger"], row["entry"])  # noqa: E731
    expected = rows_of([bookies.root], ALL, metadata=metadata)
    assert sorted(found, key=key) == sorted(expected, key=key)
    assert len(expected) == 3 * (8 + 5 + 4) - 1
    few = read_ledgers(spark, [bookies.root], "2", columns=["digest_ok", "payload", "entry"])
    assert few.columns == ["digest_ok", "payload", "entry"]
    assert Counter(map(tuple, few.collect())) == {(None, None, entry): 3 for entry in range(5)}
    assert read_ledgers(spark, [bookies.root], "9").count() == 0
    register(spark)
    reader = spark.read.format("zab.ledger").option("dirs", str(bookies.root)).option("ledgers", "3")
    assert reader.load().count() == 12
    assert reader.schema("entry bigint").load().columns == ["entry"]
    with pytest.raises(PipelineError, match="there is no column colour"):
        read_ledgers(spark, [bookies.root], columns=["colour"])


@pytest.mark.spark
def test_damage_that_comes_later_ends_the_job_with_a_sentence(spark: SparkSession, bookies: Bookies) -> None:
    from zab.pipeline.ledgers.ledger_source import read_ledgers
    from zab.pipeline.spark_session import plain_errors

    frame = read_ledgers(spark, [bookies.root], "1", columns=["entry"])
    file = bookies.named["b"].segments()[0]
    content = bytearray(file.read_bytes())
    content[70] ^= 1
    file.write_bytes(content)
    with pytest.raises(PipelineError, match=f"{file} at offset 64: entry 0 of ledger 1"), plain_errors():
        frame.collect()


@pytest.mark.spark
def test_spark_finds_the_same_as_one_process(spark: SparkSession, bookies: Bookies, run: Run) -> None:
    metadata = str(bookies.export())
    expected = verify_here(given_in(bookies.dirs, metadata)).findings
    assert [(each.kind, each.entry, each.bookie) for each in expected] == [("fewer", 5, "a")]
    rows = verify_ledgers(spark, str(bookies.root), metadata).collect()
    names = [column.name for column in VERIFY_LEDGERS]
    assert [tuple(row) for row in rows] == [tuple(getattr(each, name) for name in names) for each in expected]
    assert run("pipeline", "verify", "--ledgers", bookies.root, "--metadata", metadata) == 0
    assert "ledger 1, entry 5, bookie a: fewer: " in run.err
    assert "3 ledgers, 3 closed, on 4 bookies: 50 copies of entries, " in run.err
    assert "; 0 deviations" in run.err
    bookies.ledger(4, 3, without={"a": [1], "c": [1]})
    out = bookies.root / "rows.json"
    words = ("--metadata", bookies.export(), "--ledger", "4", "--out", out)
    assert run("pipeline", "verify", "--ledgers", bookies.root, *words) == 1
    [row] = map(json.loads, out.read_text().splitlines())
    assert (row["ledger"], row["entry"], row["last"], row["kind"]) == (4, 1, 1, "missing")


@pytest.mark.spark
def test_the_program_of_the_page(
    spark: SparkSession, bookies: Bookies, copied: CopiedLedgers, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"
    (program,) = re.findall(r"## Ledgers\n.*?```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    # Relative paths are those of the JVM, which has started elsewhere.
    assert program.count('"bookies"') == 2
    program = program.replace('"bookies"', f'"{bookies.root}"').replace("ledgers.json", str(bookies.export()))
    program = program.replace("logs.json", str(copied.export()))
    exec(compile(program, "page.py", "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    assert "|     1|     a|    7|" in out
    assert "|    7|entry 7|" in out
    assert "|     1|object|    8|" in out


def test_what_the_source_refuses(bookies: Bookies) -> None:
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    from zab.pipeline.ledgers.ledger_source import LedgerSource

    for options, schema, sentence in (
        ({}, StructField("entry", LongType()), 'option "dirs" is missing'),
        (
            {"dirs": "x"},
            StructField("entry", IntegerType()),
            "zab.ledger has no column entry int; it has ledger bigint",
        ),
        ({"dirs": "x", "colour": "red"}, StructField("entry", LongType()), "unknown option colour"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            LedgerSource(options).reader(StructType([schema]))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--ledgers", "{dirs}"), 2, "it needs --metadata"),
        (("--ledgers", "--topics", "{dirs}", "--metadata", "x"), 2, "it excludes --topics"),
        (("{dirs}", "--metadata", "x"), 2, "it needs --ledgers"),
        (("{dirs}", "--ledger", "3"), 2, "it needs --ledgers"),
        (("{dirs}", "--logs", "x"), 2, "it needs --ledgers"),
        (("--ledgers", "{dirs}", "--metadata", "{file}", "--logs", "{dirs}/nowhere"), 1, "does not exist"),
        (("--ledgers", "{dirs}", "--metadata", "{file}", "--logs", "{file}"), 1, "no lists of managed ledgers below"),
        (("--ledgers", "{dirs}", "--metadata", "x", "--snapshots"), 2, "about members, not about ledgers"),
        (("--ledgers", "{dirs}", "--metadata", "{dirs}/nowhere"), 1, "does not exist"),
        (("--ledgers", "{dirs}", "--metadata", "{file}", "--ledger", "x"), 1, "option ledgers is like 3,7-12"),
        (("--ledgers", "{dirs}/nowhere", "--metadata", "{file}"), 1, "does not exist"),
    ],
)
def test_wrong_input_is_told_before_spark_starts(
    bookies: Bookies, run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    places = {"dirs": str(bookies.root), "file": str(bookies.export())}
    assert run("pipeline", "verify", *(word.format(**places) for word in words)) == code
    assert said in run.err
