"""Lives of sessions and waves of expiry, on histories whose answer is known."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.rows import History, columns, log_frame, moment, random_history
from zab.pipeline.schema import SESSIONS, arrow_schema
from zab.pipeline.sessions import COLUMNS, LIVES, WAVES, sessions, waves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B, C, D = 0x100000A, 0x100000B, -0x100000C, 0x100000D


def lives(frame: DataFrame) -> dict[int, dict[str, Any]]:
    rows = frame.toArrow().to_pylist()
    assert len({row["session"] for row in rows}) == len(rows)
    return {row["session"]: row for row in rows}


def pick(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def story() -> History:
    """A closes, B expires with two ephemerals, C stays, D is older than the log."""
    history = History()
    history.open(A, timeout=4000)
    history.wait(1)
    history.open(B, timeout=6000)
    history.open(C)
    for path in ("/b2", "/b1", "/b3"):
        history.create(B, path, ephemeral=True)
    history.create(A, "/kept")
    history.wait(1)
    with history.multi(A):
        history.create(A, "/a", ephemeral=True)
        history.set(A, "/kept", b"x")
    history.delete(B, "/b3")
    history.refuse(A, "/kept", -103)
    history.wait(2)
    history.set(D, "/kept", b"d")
    history.close(A)
    history.refuse(A, "/kept", -112)
    history.wait(5)
    history.expire(B)
    return history


def test_columns_are_those_of_the_tables(spark: SparkSession) -> None:
    frame = sessions(story().frame(spark).select(*COLUMNS))
    assert columns(frame) == [(column.name, column.type) for column in LIVES]
    assert columns(waves(frame)) == [(column.name, column.type) for column in WAVES]


@pytest.mark.parametrize("bare", [False, True])
def test_each_session_has_its_life(spark: SparkSession, bare: bool) -> None:
    history = story()
    if bare:
        for row in history.rows:
            row["paths"] = None
    found = lives(sessions(history.frame(spark)))
    names = ("opened", "timeout", "last", "ended", "ending", "silent_ms", "lived_ms", "requests", "refused")
    assert {session: pick(row, *names) for session, row in found.items()} == {
        A: (moment(0), 4000, moment(2), moment(4), "closed", 2000, 4000, 3, 1),
        B: (moment(1), 6000, moment(2), moment(9), "expired", 7000, 8000, 4, 0),
        C: (moment(1), 10_000, moment(1), None, None, None, None, 0, 0),
        D: (None, None, moment(4), None, None, None, None, 1, 0),
    }
    assert {session: pick(row, "ephemerals", "taken", "taken_paths") for session, row in found.items()} == {
        A: (1, 1, ["/a"]),
        B: (3, 2, ["/b1", "/b2"]),
        C: (0, 0, []),
        D: (0, 0, []),
    }
    zxids = {row["operation"]: row["zxid"] for row in history.rows if row["session"] == B}
    assert pick(found[B], "last_zxid", "ended_zxid") == (zxids["delete"], zxids["closeSession"])


def test_a_close_with_number_0_before_the_timeout_is_the_clients(spark: SparkSession) -> None:
    history = History()
    for session, silent in ((A, 3.999), (B, 4.0)):
        history.open(session, timeout=4000)
        history.wait(silent)
        history.close(session, cxid=0)
    history.close(D, cxid=0)
    assert {session: row["ending"] for session, row in lives(sessions(history.frame(spark))).items()} == {
        A: "closed",
        B: "expired",
        D: "expired",
    }


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"since": moment(5)}, {B: "expired", C: None, D: None}),
        ({"until": moment(4)}, {A: "closed", B: None, C: None, D: None}),
        ({"until": moment(0.5)}, {A: None}),
        ({"zxid_min": (1 << 32) + 14}, {B: "expired", C: None, D: None}),
        ({"zxid_max": (1 << 32) + 2}, {A: None, B: None}),
    ],
)
def test_bounds(spark: SparkSession, bounds: dict[str, Any], expected: dict[int, str | None]) -> None:
    found = lives(sessions(story().frame(spark), **bounds))
    assert {session: row["ending"] for session, row in found.items()} == expected


def test_sessions_older_than_the_log_come_from_a_snapshot(spark: SparkSession) -> None:
    row = {"ensemble": "e1", "member": "1", "snapshot": "snapshot.1", "zxid": 1, "session": D, "timeout": 7000}
    other = row | {"session": 0x77, "timeout": 8000}
    known = spark.createDataFrame(pa.Table.from_pylist([row, other, row], schema=arrow_schema(SESSIONS)))
    found = lives(sessions(story().frame(spark), known=known))
    assert found[D]["timeout"] == 7000
    assert pick(found[0x77], "opened", "timeout", "last", "requests", "taken_paths") == (None, 8000, None, 0, [])
    assert found[A]["timeout"] == 4000


def expiries(seconds: list[float], ensemble: str = "e1", first: int = 0x500) -> History:
    """A session of one ephemeral for each of these moments at which one expires; a closed one between them."""
    history = History(ensemble)
    for number in range(len(seconds)):
        history.open(first + number, timeout=2000)
        history.create(first + number, f"/{ensemble}/{number:02}", ephemeral=True)
    history.open(A)
    for number, at in enumerate(seconds):
        history.at(at)
        history.expire(first + number)
    history.close(A)
    return history


def test_waves_are_sessions_that_expire_together(spark: SparkSession) -> None:
    """Three within 5 s of each other, across slots; two alone; four at once; and the other ensemble's do not count."""
    history = expiries([12.0, 16.9, 21.8, 40.0, 44.0, 60.0, 60.0, 60.0, 60.1])
    other = expiries([26.0, 64.0, 65.0], "e2")
    frame = waves(sessions(log_frame(spark, history.rows + other.rows)))
    found = sorted(frame.toArrow().to_pylist(), key=lambda row: row["began"])
    names = ("ensemble", "began", "ended", "sessions", "ephemerals", "session_ids", "last_heard")
    assert [pick(row, *names) for row in found] == [
        ("e1", moment(12), moment(21.8), 3, 3, [0x500, 0x501, 0x502], moment(0)),
        ("e1", moment(60), moment(60.1), 4, 4, [0x505, 0x506, 0x507, 0x508], moment(0)),
    ]
    assert found[0]["paths"] == ["/e1/00", "/e1/01", "/e1/02"]
    assert found[1]["ended_zxid"] - found[1]["began_zxid"] == 3


def test_limits_of_a_wave_are_options(spark: SparkSession) -> None:
    frame = sessions(expiries([12.0, 16.9, 21.8, 40.0]).frame(spark))
    assert waves(frame, within_ms=4899).count() == 0
    assert waves(frame, within_ms=4900).count() == 1
    assert waves(frame, within_ms=4899, least=1).count() == 4
    assert waves(frame, within_ms=20_000, least=4).count() == 1


def twin(history: History) -> dict[int, tuple[Any, ...]]:
    """(ending, requests, refused, ephemerals, taken) by going through the rows."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    ending: dict[int, str | None] = {}
    seen: set[tuple[int, int]] = set()
    for row in history.rows:
        session = row["session"]
        count = counts[session]
        ending.setdefault(session, None)
        if row["operation"] == "closeSession":
            ending[session] = "closed" if row["cxid"] else "expired"
            count[3] += len(row["paths"])
        elif row["operation"] != "createSession" and (session, row["zxid"]) not in seen:
            seen.add((session, row["zxid"]))
            count[0] += 1
            count[1] += row["operation"] == "error"
        if row["operation"] == "create":
            count[2] += row["owner"] == session
    return {session: (ending[session], *count) for session, count in counts.items()}


def test_agrees_with_a_plain_count(spark: SparkSession) -> None:
    history = random_history(3)
    names = ("ending", "requests", "refused", "ephemerals", "taken")
    found = {session: pick(row, *names) for session, row in lives(sessions(history.frame(spark))).items()}
    expected = twin(history)
    assert {value[0] for value in expected.values()} == {"closed", "expired", None}
    assert found == expected
