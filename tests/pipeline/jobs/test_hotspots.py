"""Where the writes go, on histories whose answer is known."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.rigs.rows import History, columns, log_frame, moment, parent_of, random_history
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.hotspots import COLUMNS, VIEWS, hotspots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B = 0x100000A, 0x100000B


def by_key(frame: DataFrame, *names: str) -> dict[Any, dict[str, Any]]:
    rows = frame.toArrow().to_pylist()
    keyed = {tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]: row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def pick(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def story() -> History:
    history = History()
    history.open(A)
    history.create(A, "/a", b"12345")
    history.wait(10)
    history.create(A, "/a/x", None)
    history.set(B, "/a/x", b"123")
    with history.multi(B):
        history.set(B, "/a/x", b"1")
        history.create(B, "/a/x/deep", b"1")
        history.check(B, "/a")
    history.wait(60)
    history.create(A, "/ab", b"", ephemeral=True)
    history.refuse(A, "/a", -101)
    history.set_acl(A, "/a", "auth:x:r")
    history.delete(B, "/a/x/deep")
    history.close(A)
    return history


WRITES = ("writes", "bytes", "creates", "sets", "acls", "deletes")


def found(
    spark: SparkSession, log: History | DataFrame, by: str, *keys: str, **options: int
) -> dict[Any, dict[str, Any]]:
    """The rows of a view by key, of a log that has what the job says it needs and nothing else."""
    frame = log.frame(spark) if isinstance(log, History) else log
    result = hotspots(frame.select(*COLUMNS), by, **options)
    assert columns(result) == [(column.name, column.type) for column in VIEWS[by]]
    return by_key(result, *keys)


def test_by_path(spark: SparkSession) -> None:
    rows = found(spark, story(), "path", "path")
    assert {path: pick(row, *WRITES, "sessions") for path, row in rows.items()} == {
        "/a": (2, 5, 1, 0, 1, 0, 1),
        "/a/x": (3, 4, 1, 2, 0, 0, 2),
        "/a/x/deep": (2, 1, 1, 0, 0, 1, 1),
        "/ab": (2, 0, 1, 0, 0, 1, 1),
    }
    assert pick(rows["/a"], "first", "last") == (moment(0), moment(70))


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (1, {"/a": 7, "/ab": 2}),
        (2, {"/a": 2, "/a/x": 5, "/ab": 2}),
        (9, {"/a": 2, "/a/x": 3, "/a/x/deep": 2, "/ab": 2}),
    ],
)
def test_by_subtree(spark: SparkSession, depth: int, expected: dict[str, int]) -> None:
    rows = found(spark, story(), "subtree", "path", depth=depth)
    assert {path: row["writes"] for path, row in rows.items()} == expected


def test_by_session(spark: SparkSession) -> None:
    """/ab goes with session A, which is no write of A's."""
    rows = found(spark, story(), "session", "session")
    assert {session: pick(row, *WRITES, "refused", "paths") for session, row in rows.items()} == {
        A: (4, 5, 3, 0, 1, 0, 1, 3),
        B: (4, 5, 1, 2, 0, 1, 0, 2),
    }


def test_by_minute(spark: SparkSession) -> None:
    """Also where the log does not say what went with a session."""
    listed, bare = story(), story()
    bare.rows[-1]["paths"] = None
    for row in bare.rows:
        row["ensemble"] = "bare"
    rows = found(spark, log_frame(spark, listed.rows + bare.rows), "minute", "ensemble", "minute")
    names = (*WRITES, "refused", "sessions", "opened", "ended")
    for ensemble in ("e1", "bare"):
        assert pick(rows[ensemble, moment(0)], *names) == (5, 10, 3, 2, 0, 0, 0, 2, 1, 0)
        assert pick(rows[ensemble, moment(60)], *names) == (4, 0, 1, 0, 1, 2, 1, 2, 0, 1)
    assert len(rows) == 4


def test_churn(spark: SparkSession) -> None:
    """Three jobs live 0.5, 2 and 8 s, one is still there; one that the log did not see made goes at the end."""
    history = History()
    history.open(A)
    jobs = [history.create(A, "/jobs/j", sequential=True, ephemeral=number == 0) for number in range(4)]
    history.wait(0.5)
    history.delete(A, jobs[0])
    history.wait(1.5)
    history.delete(A, jobs[1])
    history.wait(6)
    history.delete(A, jobs[2])
    history.versions["/jobs/old"] = 3
    history.delete(A, "/jobs/old")
    history.create(A, "/x")
    rows = found(spark, history, "churn", "path")
    names = ("creates", "deletes", "churn", "ephemerals", "short_lived", "lived_ms")
    assert pick(rows["/jobs"], *names) == (4, 4, 4, 1, 1, 2000)
    assert pick(rows["/"], *names) == (1, 0, 0, 0, 0, None)
    rows = found(spark, history, "churn", "path", short_ms=2001)
    assert rows["/jobs"]["short_lived"] == 2


def test_skew_of_equal_and_of_lopsided_writes(spark: SparkSession) -> None:
    """e1: four paths with 5 writes each. e2: 200 paths with one each, and one that has 800: 0.8 for the top, and
    (801 + ... ) of the busiest three."""
    equal, lopsided = History("e1"), History("e2")
    for number in range(4):
        path = equal.create(A, f"/p{number}")
        for _ in range(4):
            equal.set(A, path, b"")
    for number in range(200):
        lopsided.create(B, f"/p{number:03}")
    hot = lopsided.create(A, "/hot")
    for _ in range(799):
        lopsided.set(A, hot, b"")
    rows = found(spark, log_frame(spark, equal.rows + lopsided.rows), "skew", "ensemble", "of")
    row = rows["e1", "path"]
    assert pick(row, "count", "writes", "top_share", "top_percent_share") == (4, 20, 0.25, 0.25)
    assert row["gini"] == pytest.approx(0)
    row = rows["e2", "path"]
    assert pick(row, "count", "writes", "top", "top_share") == (201, 1000, "/hot", 0.8)
    assert row["top_percent_share"] == pytest.approx(0.802)
    assert row["gini"] == pytest.approx(gini([1] * 200 + [800]))
    assert pick(rows["e2", "session"], "count", "top") == (2, "0x100000a")


def gini(values: list[int]) -> float:
    """By its definition: the mean difference of all pairs, over twice the mean."""
    pairs = sum(abs(one - other) for one in values for other in values)
    return pairs / (2 * len(values) * sum(values))


def test_counters_near_their_end(spark: SparkSession) -> None:
    """/near made 11 of its 2^31 names in 10 days and has 5 left, /wrapped is over, /old logs say no counters."""
    history = History()
    history.counters["/near"] = (1 << 31) - 16
    history.counters["/wrapped"] = (1 << 31) - 2
    for number in range(11):
        history.at(number * 86_400.0)
        history.create(A, "/near/n-", sequential=True)
    history.create(A, "/near/plain0000000001")
    history.create(A, "/wrapped/w", sequential=True)
    history.create(A, "/wrapped/w", sequential=True)
    history.rows[-1]["version"] = -(1 << 31)
    history.create(A, "/plain/2026030112")
    history.create(A, "/old/o0000000041")
    history.rows[-1]["version"] = None
    rows = found(spark, history, "counters", "path")
    names = ("next", "remaining", "creates", "sequential", "per_day")
    assert {path: pick(row, *names) for path, row in rows.items()} == {
        "/near": ((1 << 31) - 4, 4, 12, 11, 1.2),
        "/wrapped": (-(1 << 31), 0, 2, 2, None),
        "/old": (42, (1 << 31) - 42, 1, 1, None),
    }
    assert rows["/near"]["runs_out"] == moment((10 + 4 / 1.2) * 86_400)
    assert rows["/near"]["used"] == pytest.approx(1)
    assert rows["/old"]["runs_out"] is None


def test_another_view_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="one of path, subtree"):
        hotspots(story().frame(spark), by="colour")
    with pytest.raises(PipelineError, match="depth 1"):
        hotspots(story().frame(spark), by="subtree", depth=0)


def test_agrees_with_a_plain_count(spark: SparkSession) -> None:
    history = random_history(11)
    writes: Counter[str] = Counter()
    size: Counter[str] = Counter()
    born: dict[str, Any] = {}
    lives: dict[str, list[int]] = defaultdict(list)
    for row in history.rows:
        path = row["path"]
        if row["operation"] in ("create", "setData", "setACL", "delete"):
            writes[path] += 1
            size[path] += len(row["data"] or b"")
        if row["operation"] == "create":
            born[path] = row["time"]
        gone = [path] if row["operation"] == "delete" else row["paths"] or []
        writes.update(row["paths"] or [])
        for each in gone:
            lives[parent_of(each)].append(round((row["time"] - born.pop(each)).total_seconds() * 1000))
    frame = history.frame(spark)
    rows = found(spark, frame, "path", "path")
    assert {path: pick(row, "writes", "bytes") for path, row in rows.items()} == {
        path: (writes[path], size[path]) for path in writes
    }
    skew = found(spark, frame, "skew", "of")["path"]
    assert skew["gini"] == pytest.approx(gini(list(writes.values())))
    churn = found(spark, frame, "churn", "path")
    assert {path: row["deletes"] for path, row in churn.items() if row["deletes"]} == {
        path: len(lived) for path, lived in lives.items()
    }
    for path, lived in lives.items():
        assert churn[path]["short_lived"] == sum(each < 1000 for each in lived)
        assert churn[path]["lived_ms"] == statistics.median_low(lived)
