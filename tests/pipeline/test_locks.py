"""Who held which lock when, on histories whose answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.rows import History, columns, log_frame, moment, parent_of, random_history
from zab.pipeline.locks import COLUMNS, LOCKS, OVERLAPS, QUEUE, lock_summary, locks, overlaps
from zab.pipeline.schema import ZNODES, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B, C, D = 0x100000A, 0x100000B, 0x100000C, 0x100000D
KAZOO = "0123456789abcdef0123456789abcdef"
CURATOR = "_c_01234567-89ab-cdef-0123-456789abcdef-"


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["ensemble"], row["lock"], row["entered_zxid"] or 0, row["number"]))


def pick(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def contend(history: History, session: int, prefix: str = "/lock/lock-") -> str:
    return history.create(session, prefix, ephemeral=True, sequential=True)


def story() -> History:
    """A holds 0-5 and releases; B, who waited from 1, holds 5-20 and expires (timeout 4 s); C waits from 2 and gives up
    at 6; D waits from 7, holds from 20, releases at 21; then nobody, until A comes back at 30 and stays."""
    history = History()
    for session in (A, B, C, D):
        history.open(session, timeout=4000)
    first = contend(history, A)
    history.at(1)
    contend(history, B)
    history.at(2)
    third = contend(history, C)
    history.at(5)
    history.delete(A, first)
    history.at(6)
    history.delete(C, third)
    history.at(7)
    fourth = contend(history, D)
    history.at(20)
    history.expire(B)
    history.at(21)
    history.delete(D, fourth)
    history.at(30)
    contend(history, A)
    return history


def test_columns_are_those_of_the_tables(spark: SparkSession) -> None:
    queue = locks(story().frame(spark).select(*COLUMNS))
    for frame, table in ((queue, QUEUE), (lock_summary(queue), LOCKS), (overlaps(queue), OVERLAPS)):
        assert columns(frame) == [(column.name, column.type) for column in table]


@pytest.mark.parametrize("bare", [False, True])
def test_each_contender_has_its_turn(spark: SparkSession, bare: bool) -> None:
    history = story()
    if bare:
        for row in history.rows:
            row["paths"] = None
    found = rows(locks(history.frame(spark)))
    names = ("number", "session", "entered", "ahead", "held", "acquired", "left", "leaving", "waited_ms", "held_ms")
    assert [pick(row, *names) for row in found] == [
        (0, A, moment(0), 0, True, moment(0), moment(5), "released", 0, 5000),
        (1, B, moment(1), 1, True, moment(5), moment(20), "expired", 4000, 15_000),
        (2, C, moment(2), 2, False, None, moment(6), "released", 4000, None),
        (3, D, moment(7), 1, True, moment(20), moment(21), "released", 13_000, 1000),
        (4, A, moment(30), 0, True, moment(30), None, None, 0, None),
    ]
    names = ("previous", "previous_leaving", "handover_ms", "free_ms")
    assert [pick(row, *names) for row in found] == [
        (None, None, None, None),
        (A, "released", 0, None),
        (None, None, None, None),
        (B, "expired", 4000, None),
        (D, "released", None, 9000),
    ]
    assert {pick(row, "ensemble", "lock", "role", "library") for row in found} == {("e1", "/lock", "lock", None)}
    released = next(row["zxid"] for row in history.rows if row["operation"] == "delete")
    assert found[1]["acquired_zxid"] == found[0]["left_zxid"] == released
    assert pick(found[1], "session_ended", "session_ended_zxid") == (moment(20), found[1]["left_zxid"])
    assert found[0]["session_ended"] is None


def test_summary(spark: SparkSession) -> None:
    (row,) = lock_summary(locks(story().frame(spark))).toArrow().to_pylist()
    assert pick(row, "lock", "role", "contenders", "sessions", "turns", "gave_up", "lost", "removed") == (
        *("/lock", "lock", 5, 4),
        *(4, 1, 1, 0),
    )
    assert pick(row, "waited_ms", "waited_ms_max", "held_ms", "held_ms_max") == (0, 13_000, 5000, 15_000)
    assert pick(row, "handover_ms", "handover_ms_max", "ahead_max", "holder") == (0, 4000, 2, A)


RECIPES = {
    f"{KAZOO}__lock__": ("lock", "kazoo"),
    f"{KAZOO}__rlock__": ("read", "kazoo"),
    f"{CURATOR}lock-": ("lock", "curator"),
    f"{CURATOR}latch-": ("election", "curator"),
    f"{CURATOR}lease-": ("lease", "curator"),
    f"{CURATOR}__READ__": ("read", "curator"),
    f"{CURATOR}__WRIT__": ("write", "curator"),
    "n_": ("election", None),
    "guid-n_": ("election", None),
    "read-": ("read", None),
    "write-": ("write", None),
    "lock-": ("lock", None),
    "LOCK_": ("lock", None),
    "thread-": ("other", None),
    "member_": ("other", None),
    "": ("other", None),
}


def test_recipes_are_known_by_their_names(spark: SparkSession) -> None:
    history = History()
    for number, prefix in enumerate(RECIPES):
        contend(history, A, f"/{number:02}/{prefix}")
    found = rows(locks(history.frame(spark)))
    assert [pick(row, "role", "library") for row in found] == list(RECIPES.values())


def test_other_children_are_no_contenders(spark: SparkSession) -> None:
    history = History()
    history.create(A, "/queue/item-", sequential=True)
    history.create(A, "/plain/2026030112", ephemeral=True)
    history.create(A, "/ttl/t-", sequential=True, owner=-(1 << 56) + 5, operation="createTTL")
    item = history.create(A, "/queue/item-", sequential=True)
    history.delete(A, item)
    assert rows(locks(history.frame(spark))) == []


def test_readers_share_and_writers_wait_for_all(spark: SparkSession) -> None:
    """Readers at 0 and 1, writer at 2, reader at 3: the writer waits for both, the last reader for the writer."""
    history = History()
    paths = []
    for session, name in ((A, "read-"), (B, "read-"), (C, "write-"), (D, "read-")):
        paths.append(contend(history, session, f"/rw/{name}"))
        history.wait(1)
    for at, number in ((10, 1), (12, 0), (20, 2), (30, 3)):
        history.at(at)
        history.delete((A, B, C, D)[number], paths[number])
    found = rows(locks(history.frame(spark)))
    assert [pick(row, "acquired", "left", "previous") for row in found] == [
        (moment(0), moment(12), None),
        (moment(1), moment(10), None),
        (moment(12), moment(20), A),
        (moment(20), moment(30), C),
    ]


def test_leases_are_had_at_once(spark: SparkSession) -> None:
    history = History()
    contend(history, A, f"/leases/{CURATOR}lease-")
    history.wait(1)
    contend(history, B, f"/leases/{CURATOR}lease-")
    found = rows(locks(history.frame(spark)))
    assert [pick(row, "held", "acquired", "waited_ms", "free_ms") for row in found] == [
        (True, moment(0), 0, None),
        (True, moment(1), 0, None),
    ]


def test_a_session_that_ends_takes_its_waiting_contender_along(spark: SparkSession) -> None:
    """Both of A's go at one moment: the second never had a turn."""
    history = History()
    history.open(A)
    contend(history, A)
    contend(history, A)
    contend(history, B)
    history.wait(3)
    history.close(A)
    found = rows(locks(history.frame(spark)))
    assert [pick(row, "held", "leaving") for row in found] == [(True, "closed"), (False, "closed"), (True, None)]
    assert pick(found[2], "acquired", "previous", "previous_leaving") == (moment(3), A, "closed")


def test_a_path_may_be_used_twice(spark: SparkSession) -> None:
    """The parent was deleted and made again, so the numbers begin anew."""
    history = History()
    for at in (0, 10):
        history.at(at)
        path = contend(history, A)
        history.at(at + 4)
        history.delete(A, path)
        history.counters.clear()
    found = rows(locks(history.frame(spark)))
    assert [pick(row, "name", "acquired", "left", "free_ms") for row in found] == [
        ("lock-0000000000", moment(0), moment(4), None),
        ("lock-0000000000", moment(10), moment(14), 6000),
    ]


def old_holder() -> tuple[History, list[dict[str, Any]]]:
    """A holds from 0, B waits from 1 and C from 2; the log begins at 2, A releases at 5."""
    history = History()
    history.open(A)
    path = contend(history, A)
    history.at(1)
    contend(history, B)
    history.at(2)
    contend(history, C)
    history.at(5)
    history.delete(A, path)
    history.at(9)
    history.expire(B)
    return history, [row for row in history.rows if row["counter"] >= 4]


def test_a_contender_older_than_the_log_is_known_by_its_end(spark: SparkSession) -> None:
    _, late = old_holder()
    found = rows(locks(log_frame(spark, late)))
    names = ("session", "entered", "held", "acquired", "left", "waited_ms", "held_ms")
    assert [pick(row, *names) for row in found] == [
        (A, None, True, None, moment(5), None, None),
        (B, None, True, moment(5), moment(9), None, 4000),
        (C, moment(2), True, moment(9), None, 7000, None),
    ]


def test_a_contender_older_than_the_log_comes_from_a_snapshot(spark: SparkSession) -> None:
    history, late = old_holder()
    znodes = [
        dict.fromkeys(column.name for column in ZNODES)
        | {"ensemble": "e1", "path": row["path"], "czxid": row["zxid"], "ctime": row["time"], "owner": row["owner"]}
        for row in history.rows
        if row["operation"] == "create"
    ]
    persistent = znodes[0] | {"path": "/lock/x0000000009", "owner": -(1 << 63)}
    table = pa.Table.from_pylist([*znodes, *znodes, persistent], schema=arrow_schema(ZNODES))
    whole = rows(locks(history.frame(spark)))
    found = rows(locks(log_frame(spark, late), znodes=spark.createDataFrame(table)))
    names = ("session", "entered", "held", "acquired", "left", "ahead", "waited_ms", "held_ms")
    assert [pick(row, *names) for row in found] == [pick(row, *names) for row in whole]
    # How long B had been silent is not known without its last write and its timeout.
    assert [row["handover_ms"] for row in whole] == [None, 0, 8000]
    assert [row["handover_ms"] for row in found] == [None, 0, None]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"since": moment(20)}, [(B, "expired"), (D, "released"), (A, None)]),
        ({"until": moment(6)}, [(A, "released"), (B, None), (C, "released")]),
        ({"since": moment(5.5), "until": moment(5.6)}, [(B, None), (C, None)]),
        ({"subtree": "/lock", "since": moment(21)}, [(D, "released"), (A, None)]),
        ({"subtree": "/loc"}, []),
    ],
)
def test_bounds(spark: SparkSession, bounds: dict[str, Any], expected: list[tuple[int, str | None]]) -> None:
    assert [pick(row, "session", "leaving") for row in rows(locks(story().frame(spark), **bounds))] == expected


def removal(*, after: str) -> History:
    """D deletes the znode of A, who holds; B is next at once. Then what `after` says happens at 9."""
    history = History()
    for session in (A, B, D):
        history.open(session)
    path = contend(history, A)
    second = contend(history, B)
    history.at(3)
    history.delete(D, path)
    history.at(9)
    if after == "session ended":
        history.close(A)
    elif after == "entered again":
        contend(history, A)
    elif after == "next left":
        history.delete(B, second)
    return history


@pytest.mark.parametrize("after", ["session ended", "entered again", "next left", ""])
def test_a_holder_whose_znode_was_removed_may_overlap_with_the_next(spark: SparkSession, after: str) -> None:
    queue = locks(removal(after=after).frame(spark))
    first = rows(queue)[0]
    assert pick(first, "leaving", "removed_by", "held_ms") == ("removed", D, 3000)
    (row,) = overlaps(queue).toArrow().to_pylist()
    assert pick(row, "lock", "session", "removed", "removed_by", "next_session", "began") == (
        *("/lock", A, moment(3)),
        *(D, B, moment(3)),
    )
    expected = (moment(9), after, 6000) if after else (None, None, None)
    assert pick(row, "ended", "ended_by", "overlap_ms") == expected


def test_no_overlap_where_the_holder_was_gone_first(spark: SparkSession) -> None:
    """A's session is over when the next one comes; a reader beside readers; A's own next turn; and a plain release."""
    history = History()
    history.open(A)
    history.delete(D, contend(history, A))
    history.wait(1)
    history.close(A)
    history.wait(1)
    contend(history, B)
    history.delete(D, contend(history, A, "/rw/read-"))
    contend(history, B, "/rw/read-")
    history.delete(D, contend(history, C, "/own/lock-"))
    contend(history, C, "/own/lock-")
    assert overlaps(locks(history.frame(spark))).count() == 0
    assert overlaps(locks(story().frame(spark))).count() == 0


def twin(history: History) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(session, entered, held, acquired, left, leaving) by keeping every queue as it goes."""
    queues: dict[str, list[str]] = {}
    found: dict[tuple[str, int], list[Any]] = {}
    now: dict[str, tuple[str, int]] = {}

    def remove(path: str, row: dict[str, Any], leaving: str) -> None:
        key = now.pop(path)
        found[key][4:6] = row["time"], leaving
        queues[parent_of(path)].remove(path)

    for row in history.rows:
        path = row["path"]
        if row["operation"] == "create" and path.startswith("/lock"):
            now[path] = path, row["zxid"]
            found[now[path]] = [row["session"], row["time"], False, None, None, None]
            queues.setdefault(parent_of(path), []).append(path)
        elif row["operation"] == "delete" and path in now:
            remove(path, row, "released" if found[now[path]][0] == row["session"] else "removed")
        for gone in row["paths"] or ():
            if gone in now:
                remove(gone, row, "closed" if row["cxid"] else "expired")
        for queue in queues.values():
            for at, path in enumerate(queue):
                before = [each for each in queue[:at] if "rlock" not in path or "rlock" not in each]
                state = found[now[path]]
                if not before and not state[2]:
                    state[2:4] = True, row["time"]
    return {key: tuple(state) for key, state in found.items()}


def test_agrees_with_a_plain_replay(spark: SparkSession) -> None:
    history = random_history(5, 700)
    expected = twin(history)
    assert {state[5] for state in expected.values()} >= {"released", "removed", "closed", "expired"}
    assert {state[2] for state in expected.values()} == {True, False}
    names = ("session", "entered", "held", "acquired", "left", "leaving")
    found = {
        (f"{row['lock']}/{row['name']}", row["entered_zxid"]): pick(row, *names)
        for row in rows(locks(history.frame(spark)))
    }
    assert found == expected
