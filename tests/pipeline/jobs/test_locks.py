"""The holders of locks over time, on histories whose answer is known.

Each story is the history of an ensemble of its own, so that one run of the job serves most of these tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.rigs.rows import History, columns, log_frame, moment, parent_of, random_history
from zab.pipeline.jobs.locks import COLUMNS, LOCKS, OVERLAPS, QUEUE, lock_summary, locks, overlaps
from zab.pipeline.schema import ZNODES, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B, C, D = 0x100000A, 0x100000B, 0x100000C, 0x100000D
KAZOO = "0123456789abcdef0123456789abcdef"
CURATOR = "_c_01234567-89ab-cdef-0123-456789abcdef-"

Row = dict[str, Any]
STORIES: dict[str, Callable[[History], None]] = {}


def told(story: Callable[[History], None]) -> Callable[[History], None]:
    STORIES[story.__name__] = story
    return story


def history_of(name: str) -> History:
    history = History(name)
    STORIES[name](history)
    return history


def rows(frame: DataFrame) -> list[Row]:
    found = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["ensemble"], row["lock"], row.get("entered_zxid") or 0, row["name"]))


def pick(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


class Found:
    """What the jobs found, by story."""

    def __init__(self, queue: list[Row], overlaps: list[Row], summary: list[Row]) -> None:
        self._queue, self._overlaps, self._summary = queue, overlaps, summary

    def queue(self, story: str) -> list[Row]:
        return [row for row in self._queue if row["ensemble"] == story]

    def overlaps(self, story: str) -> list[Row]:
        return [row for row in self._overlaps if row["ensemble"] == story]

    def summary(self, story: str) -> list[Row]:
        return [row for row in self._summary if row["ensemble"] == story]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    histories = [*map(history_of, STORIES), random_history(5, 700, ensemble="random")]
    log = log_frame(spark, [row for history in histories for row in history.rows])
    queue = locks(log.select(*COLUMNS)).cache()
    for frame, table in ((queue, QUEUE), (lock_summary(queue), LOCKS), (overlaps(queue), OVERLAPS)):
        assert columns(frame) == [(column.name, column.type) for column in table]
    summary = lock_summary(queue).toArrow().to_pylist()
    found = Found(rows(queue), rows(overlaps(queue)), summary)
    queue.unpersist()
    return found


def contend(history: History, session: int, prefix: str = "/lock/lock-") -> str:
    return history.create(session, prefix, ephemeral=True, sequential=True)


# Turns.


@told
def whole(history: History) -> None:
    """A holds 0-5 and releases; B, who waited from 1, holds 5-20 and expires (timeout 4 s); C waits from 2 and gives up
    at 6; D waits from 7, holds from 20, releases at 21; then nobody, until A comes back at 30 and stays."""
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


@told
def bare(history: History) -> None:
    """A log that does not say which ephemerals went with their sessions gives the same answer."""
    whole(history)
    for row in history.rows:
        row["paths"] = None


@pytest.mark.parametrize("story", ["whole", "bare"])
def test_each_contender_has_its_turn(found: Found, story: str) -> None:
    queue = found.queue(story)
    names = ("number", "session", "entered", "ahead", "held", "acquired", "left", "leaving", "waited_ms", "held_ms")
    assert [pick(row, *names) for row in queue] == [
        (0, A, moment(0), 0, True, moment(0), moment(5), "released", 0, 5000),
        (1, B, moment(1), 1, True, moment(5), moment(20), "expired", 4000, 15_000),
        (2, C, moment(2), 2, False, None, moment(6), "released", 4000, None),
        (3, D, moment(7), 1, True, moment(20), moment(21), "released", 13_000, 1000),
        (4, A, moment(30), 0, True, moment(30), None, None, 0, None),
    ]
    names = ("previous", "previous_leaving", "handover_ms", "free_ms")
    assert [pick(row, *names) for row in queue] == [
        (None, None, None, None),
        (A, "released", 0, None),
        (None, None, None, None),
        (B, "expired", 4000, None),
        (D, "released", None, 9000),
    ]
    assert {pick(row, "lock", "role", "library") for row in queue} == {("/lock", "lock", None)}
    released = next(row["zxid"] for row in history_of(story).rows if row["operation"] == "delete")
    assert queue[1]["acquired_zxid"] == queue[0]["left_zxid"] == released
    assert pick(queue[1], "session_ended", "session_ended_zxid") == (moment(20), queue[1]["left_zxid"])
    assert queue[0]["session_ended"] is None


def test_summary(found: Found) -> None:
    (row,) = found.summary("whole")
    assert pick(row, "lock", "role", "contenders", "sessions") == ("/lock", "lock", 5, 4)
    assert pick(row, "turns", "gave_up", "lost", "removed") == (4, 1, 1, 0)
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


@told
def recipes(history: History) -> None:
    for number, prefix in enumerate(RECIPES):
        contend(history, A, f"/{number:02}/{prefix}")


def test_recipes_are_known_by_their_names(found: Found) -> None:
    assert [pick(row, "role", "library") for row in found.queue("recipes")] == list(RECIPES.values())


@told
def others(history: History) -> None:
    history.create(A, "/queue/item-", sequential=True)
    history.create(A, "/plain/2026030112", ephemeral=True)
    history.create(A, "/ttl/t-", sequential=True, owner=-(1 << 56) + 5, operation="createTTL")
    history.delete(A, history.create(A, "/queue/item-", sequential=True))
    history.versions["/queue/older0000000001"] = 0
    history.delete(A, "/queue/older0000000001")


def test_other_children_are_no_contenders(found: Found) -> None:
    assert found.queue("others") == []


@told
def readers(history: History) -> None:
    paths = []
    for session, name in ((A, "read-"), (B, "read-"), (C, "write-"), (D, "read-")):
        paths.append(contend(history, session, f"/rw/{name}"))
        history.wait(1)
    for at, number in ((10, 1), (12, 0), (20, 2), (30, 3)):
        history.at(at)
        history.delete((A, B, C, D)[number], paths[number])


def test_readers_share_and_writers_wait_for_all(found: Found) -> None:
    """Readers at 0 and 1, writer at 2, reader at 3: the writer waits for both, the last reader for the writer."""
    assert [pick(row, "acquired", "left", "previous") for row in found.queue("readers")] == [
        (moment(0), moment(12), None),
        (moment(1), moment(10), None),
        (moment(12), moment(20), A),
        (moment(20), moment(30), C),
    ]


@told
def leases(history: History) -> None:
    contend(history, A, f"/leases/{CURATOR}lease-")
    history.wait(1)
    contend(history, B, f"/leases/{CURATOR}lease-")


def test_leases_are_had_at_once(found: Found) -> None:
    assert [pick(row, "held", "acquired", "waited_ms", "free_ms") for row in found.queue("leases")] == [
        (True, moment(0), 0, None),
        (True, moment(1), 0, None),
    ]


@told
def twice_in_the_queue(history: History) -> None:
    history.open(A)
    contend(history, A)
    contend(history, A)
    contend(history, B)
    history.wait(3)
    history.close(A)


def test_a_session_that_ends_takes_its_waiting_contender_along(found: Found) -> None:
    """Both of A's go at one moment: the second never had a turn."""
    queue = found.queue("twice_in_the_queue")
    assert [pick(row, "held", "leaving") for row in queue] == [(True, "closed"), (False, "closed"), (True, None)]
    assert pick(queue[2], "acquired", "previous", "previous_leaving") == (moment(3), A, "closed")


@told
def again(history: History) -> None:
    for at in (0, 10):
        history.at(at)
        path = contend(history, A)
        history.at(at + 4)
        history.delete(A, path)
        history.counters.clear()


def test_a_path_may_be_used_twice(found: Found) -> None:
    """The parent was deleted and made again, so the numbers start again."""
    assert [pick(row, "name", "acquired", "left", "free_ms") for row in found.queue("again")] == [
        ("lock-0000000000", moment(0), moment(4), None),
        ("lock-0000000000", moment(10), moment(14), 6000),
    ]


# What was before the log.


@told
def old_holder(history: History) -> None:
    """A holds from 0, B waits from 1 and C from 2; A releases at 5, B expires at 9."""
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


@told
def late(history: History) -> None:
    """A log that begins at 2 gives the same answer."""
    old_holder(history)
    del history.rows[:3]


def test_a_contender_older_than_the_log_is_known_by_its_end(found: Found) -> None:
    names = ("session", "entered", "held", "acquired", "left", "waited_ms", "held_ms")
    assert [pick(row, *names) for row in found.queue("late")] == [
        (A, None, True, None, moment(5), None, None),
        (B, None, True, moment(5), moment(9), None, 4000),
        (C, moment(2), True, moment(9), None, 7000, None),
    ]


def test_a_contender_older_than_the_log_comes_from_a_snapshot(spark: SparkSession, found: Found) -> None:
    znodes = [
        dict.fromkeys(column.name for column in ZNODES)
        | {"ensemble": "late", "path": row["path"], "czxid": row["zxid"], "ctime": row["time"], "owner": row["owner"]}
        for row in history_of("old_holder").rows
        if row["operation"] == "create"
    ]
    container = znodes[0] | {"path": "/lock/x0000000009", "owner": -(1 << 63)}
    table = pa.Table.from_pylist([*znodes, *znodes, container], schema=arrow_schema(ZNODES))
    seeded = rows(locks(history_of("late").frame(spark), znodes=spark.createDataFrame(table)))
    names = ("session", "entered", "held", "acquired", "left", "ahead", "waited_ms", "held_ms")
    before = found.queue("old_holder")
    assert [pick(row, *names) for row in seeded] == [pick(row, *names) for row in before]
    # How long B had been silent is not known without its last write and its timeout.
    assert [row["handover_ms"] for row in before] == [None, 0, 8000]
    assert [row["handover_ms"] for row in seeded] == [None, 0, None]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"until": moment(6)}, [(A, "released"), (B, None), (C, "released")]),
        ({"since": moment(5.5), "until": moment(5.6)}, [(B, None), (C, None)]),
        ({"subtree": "/lock", "since": moment(21)}, [(D, "released"), (A, None)]),
        ({"subtree": "/loc"}, []),
    ],
)
def test_bounds(spark: SparkSession, bounds: dict[str, Any], expected: list[tuple[int, str | None]]) -> None:
    queue = rows(locks(history_of("whole").frame(spark), **bounds))
    assert [pick(row, "session", "leaving") for row in queue] == expected


# Overlaps.


def removal(history: History) -> str:
    """D deletes the znode of A, who holds; B is next at once. Whatever comes then is at 9. Returns B's znode."""
    for session in (A, B, D):
        history.open(session)
    path = contend(history, A)
    second = contend(history, B)
    history.at(3)
    history.delete(D, path)
    history.at(9)
    return second


@told
def removed(history: History) -> None:
    removal(history)


@told
def session_ended(history: History) -> None:
    removal(history)
    history.close(A)


@told
def entered_again(history: History) -> None:
    removal(history)
    contend(history, A)


@told
def next_left(history: History) -> None:
    history.delete(B, removal(history))


@pytest.mark.parametrize("story", ["session_ended", "entered_again", "next_left", "removed"])
def test_a_holder_whose_znode_was_removed_may_overlap_with_the_next(found: Found, story: str) -> None:
    first = found.queue(story)[0]
    assert pick(first, "leaving", "removed_by", "held_ms") == ("removed", D, 3000)
    (row,) = found.overlaps(story)
    assert pick(row, "lock", "session", "removed", "removed_by") == ("/lock", A, moment(3), D)
    assert pick(row, "next_session", "began") == (B, moment(3))
    expected = (None, None, None) if story == "removed" else (moment(9), story.replace("_", " "), 6000)
    assert pick(row, "ended", "ended_by", "overlap_ms") == expected


@told
def apart(history: History) -> None:
    """A's session is over when the next one comes; a reader beside readers; and C's own next turn."""
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


def test_no_overlap_where_the_holder_was_gone_first(found: Found) -> None:
    assert [row["leaving"] for row in found.queue("apart")].count("removed") == 3
    assert found.overlaps("apart") == []
    assert found.overlaps("whole") == []


# The twin.


def twin(history: History) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(session, entered, held, acquired, left, leaving) by keeping every queue as it goes."""
    queues: dict[str, list[str]] = {}
    found: dict[tuple[str, int], list[Any]] = {}
    now: dict[str, tuple[str, int]] = {}

    def remove(path: str, row: Row, leaving: str) -> None:
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


def test_agrees_with_a_plain_replay(found: Found) -> None:
    expected = twin(random_history(5, 700))
    assert {state[5] for state in expected.values()} >= {"released", "removed", "closed", "expired"}
    assert {state[2] for state in expected.values()} == {True, False}
    names = ("session", "entered", "held", "acquired", "left", "leaving")
    assert expected == {
        (f"{row['lock']}/{row['name']}", row["entered_zxid"]): pick(row, *names) for row in found.queue("random")
    }
