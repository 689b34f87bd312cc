"""Lives of sessions and waves of expiry, on histories whose answer is known.

Each history is that of an ensemble of its own, so that one run of the job serves most of these tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.rigs.rows import History, columns, log_frame, moment, random_history
from zab.pipeline.jobs.sessions import COLUMNS, LIVES, WAVES, sessions, waves
from zab.pipeline.schema import SESSIONS, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B, C, D = 0x100000A, 0x100000B, -0x100000C, 0x100000D


def lives(rows: list[dict[str, Any]], ensemble: str = "e1") -> dict[int, dict[str, Any]]:
    """By session."""
    mine = [row for row in rows if row["ensemble"] == ensemble]
    assert len({row["session"] for row in mine}) == len(mine)
    return {row["session"]: row for row in mine}


def pick(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def story(ensemble: str = "e1", *, bare: bool = False) -> History:
    """A closes, B expires with two ephemerals, C stays, D is older than the log."""
    history = History(ensemble)
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
    history.close(A, bare=bare)
    history.refuse(A, "/kept", -112)
    history.wait(5)
    history.expire(B, bare=bare)
    return history


def early_closes() -> History:
    """All with number 0: A's before its timeout of 4 s is over, B's after it, D's nobody knows when. C began to count
    at 0 and wrote, and the last one began at 1."""
    history = History("early")
    for session, silent in ((A, 3.999), (B, 4.0)):
        history.open(session, timeout=4000)
        history.wait(silent)
        history.close(session, cxid=0)
    history.close(D, cxid=0)
    for session, cxid in ((C, 0), (0x600, 1)):
        history.open(session, timeout=4000)
        history.create(session, f"/early/{session}")
        history.rows[-1]["cxid"] = cxid
        history.wait(4.0)
        history.close(session, cxid=0)
    return history


def expiries(ensemble: str, seconds: list[float], first: int = 0x500) -> History:
    """A session of one ephemeral for each of these moments at which one expires, and one that is closed at the end."""
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


HISTORIES = (
    story("listed"),
    story("bare", bare=True),
    early_closes(),
    expiries("red", [12.0, 16.9, 21.8, 40.0, 44.0, 60.0, 60.0, 60.0, 60.1]),
    expiries("blue", [26.0, 64.0, 65.0]),
    random_history(3, ensemble="random"),
)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Iterator[DataFrame]:
    log = log_frame(spark, [row for history in HISTORIES for row in history.rows])
    frame = sessions(log.select(*COLUMNS)).cache()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def found(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def test_columns_are_those_of_the_tables(frame: DataFrame) -> None:
    assert columns(frame) == [(column.name, column.type) for column in LIVES]
    assert columns(waves(frame)) == [(column.name, column.type) for column in WAVES]


@pytest.mark.parametrize("ensemble", ["listed", "bare"])
def test_each_session_has_its_life(found: list[dict[str, Any]], ensemble: str) -> None:
    mine = lives(found, ensemble)
    names = ("opened", "timeout", "last", "ended", "ending", "silent_ms", "lived_ms", "requests", "refused")
    assert {session: pick(row, *names) for session, row in mine.items()} == {
        A: (moment(0), 4000, moment(2), moment(4), "closed", 2000, 4000, 3, 1),
        B: (moment(1), 6000, moment(2), moment(9), "expired", 7000, 8000, 4, 0),
        C: (moment(1), 10_000, moment(1), None, None, None, None, 0, 0),
        D: (None, None, moment(4), None, None, None, None, 1, 0),
    }
    assert {session: pick(row, "ephemerals", "taken", "taken_paths") for session, row in mine.items()} == {
        A: (1, 1, ["/a"]),
        B: (3, 2, ["/b1", "/b2"]),
        C: (0, 0, []),
        D: (0, 0, []),
    }
    zxids = {row["operation"]: row["zxid"] for row in story().rows if row["session"] == B}
    assert pick(mine[B], "last_zxid", "ended_zxid") == (zxids["delete"], zxids["closeSession"])


def test_whose_a_close_with_number_0_is_as_far_as_the_log_can_tell(found: list[dict[str, Any]]) -> None:
    assert {session: row["ending"] for session, row in lives(found, "early").items()} == {
        A: "closed",
        B: "closed or expired",
        C: "closed or expired",
        D: "closed or expired",
        0x600: "expired",
    }


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"since": moment(5)}, {B: "expired", C: None, D: None}),
        ({"until": moment(4)}, {A: "closed", B: None, C: None, D: None}),
        ({"zxid_min": (1 << 32) + 14, "zxid_max": (1 << 32) + 14}, {B: "expired", C: None, D: None}),
    ],
)
def test_bounds(spark: SparkSession, bounds: dict[str, Any], expected: dict[int, str | None]) -> None:
    rows = sessions(story().frame(spark), **bounds).toArrow().to_pylist()
    assert {session: row["ending"] for session, row in lives(rows).items()} == expected


def test_sessions_older_than_the_log_come_from_a_snapshot(spark: SparkSession) -> None:
    row = {"ensemble": "e1", "member": "1", "snapshot": "snapshot.1", "zxid": 1, "session": D, "timeout": 7000}
    other = row | {"session": 0x77, "timeout": 8000}
    known = spark.createDataFrame(pa.Table.from_pylist([row, other, row], schema=arrow_schema(SESSIONS)))
    mine = lives(sessions(story().frame(spark), known=known).toArrow().to_pylist())
    assert mine[D]["timeout"] == 7000
    assert pick(mine[0x77], "opened", "timeout", "last", "requests", "taken_paths") == (None, 8000, None, 0, [])
    assert mine[A]["timeout"] == 4000


def test_waves_are_sessions_that_expire_together(frame: DataFrame) -> None:
    """Three within 5 s of each other, across slots; two alone; four at once; and the other ensemble's do not count."""
    rows = waves(frame.where("ensemble in ('red', 'blue')")).toArrow().to_pylist()
    rows.sort(key=lambda row: row["began"])
    names = ("ensemble", "began", "ended", "sessions", "ephemerals", "session_ids", "last_heard")
    assert [pick(row, *names) for row in rows] == [
        ("red", moment(12), moment(21.8), 3, 3, [0x500, 0x501, 0x502], moment(0)),
        ("red", moment(60), moment(60.1), 4, 4, [0x505, 0x506, 0x507, 0x508], moment(0)),
    ]
    assert rows[0]["paths"] == ["/red/00", "/red/01", "/red/02"]
    assert rows[1]["ended_zxid"] - rows[1]["began_zxid"] == 3


@pytest.mark.parametrize(
    ("within_ms", "least", "counts"),
    [
        (4899, 3, [4]),
        (4900, 3, [3, 4]),
        (4899, 1, [1, 1, 1, 2, 4]),
        (20_000, 4, [9]),
    ],
)
def test_limits_of_a_wave_are_options(frame: DataFrame, within_ms: int, least: int, counts: list[int]) -> None:
    rows = waves(frame.where("ensemble = 'red'"), within_ms=within_ms, least=least).toArrow().to_pylist()
    assert sorted(row["sessions"] for row in rows) == counts


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


def test_agrees_with_a_plain_count(found: list[dict[str, Any]]) -> None:
    names = ("ending", "requests", "refused", "ephemerals", "taken")
    expected = twin(HISTORIES[-1])
    assert {value[0] for value in expected.values()} == {"closed", "expired", None}
    assert {session: pick(row, *names) for session, row in lives(found, "random").items()} == expected
