"""The changes of znodes with their old and new values, on histories whose answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.rigs.rows import CONTAINER, OPEN_ACL, History, columns, log_frame, moment, random_history
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.audit import AUDIT, COLUMNS, audit
from zab.pipeline.schema import ZNODES, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B = 0x100000A, 0x100000B


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = frame.toArrow().to_pylist()
    return sorted(
        found,
        key=lambda row: (row["ensemble"], row["zxid"], -1 if row["part"] is None else row["part"], row["path"] or ""),
    )


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    """(change, path, old, new) in the order of zxids."""
    return [(row["change"], row["path"], row["old"], row["new"]) for row in rows(frame)]


def story() -> History:
    """Second by second; the zxids are 0x100000001 and on."""
    history = History()
    history.open(A)  # 1
    history.wait(1)
    history.create(A, "/app", None)  # 2
    history.wait(1)
    history.create(A, "/app/x", b"one")  # 3
    history.wait(1)
    history.set(B, "/app/x", b"two")  # 4
    history.wait(1)
    with history.multi(A):  # 5
        history.set(A, "/app/x", b"three")
        history.check(A, "/app")
        history.create(A, "/app/y", b"", ephemeral=True)
        history.set(A, "/app/x", None)
    history.wait(1)
    history.set_acl(A, "/app/x", "auth:ann:r")  # 6
    history.wait(1)
    history.refuse(B, "/app/x", -102)  # 7
    history.create(B, "/other", b"o", operation="createContainer", owner=CONTAINER)  # 8
    history.delete(B, "/app/x")  # 9
    history.wait(1)
    history.expire(A)  # 10
    history.delete(0, "/other", operation="deleteContainer")  # 11
    return history


def test_columns_are_those_of_the_table(spark: SparkSession) -> None:
    assert columns(audit(story().frame(spark), refused=True)) == [(column.name, column.type) for column in AUDIT]


def test_each_change_has_its_old_and_new_value(spark: SparkSession) -> None:
    found = rows(audit(story().frame(spark)))
    assert [(row["change"], row["path"], row["old"], row["new"]) for row in found] == [
        ("create", "/app", None, None),
        ("create", "/app/x", None, b"one"),
        ("set", "/app/x", b"one", b"two"),
        ("set", "/app/x", b"two", b"three"),
        ("create", "/app/y", None, b""),
        ("set", "/app/x", b"three", None),
        ("acl", "/app/x", None, None),
        ("create", "/other", None, b"o"),
        ("delete", "/app/x", None, None),
        ("delete", "/app/y", b"", None),
        ("delete", "/other", b"o", None),
    ]
    base = 1 << 32
    assert [row["old_zxid"] and row["old_zxid"] - base for row in found] == [
        *(None, None, 3, 4, None, 5),
        *(None, None, 5, 5, 8),
    ]
    assert [row["session"] for row in found] == [A, A, B, A, A, A, A, B, B, A, 0]
    assert [row["operation"] for row in found][-2:] == ["closeSession", "deleteContainer"]
    assert [row["part"] for row in found if row["zxid"] == base + 5] == [0, 2, 3]
    versions = {"create": [0, 0, 0, 0], "set": [1, 2, 3], "acl": [1], "delete": [None, None, None]}
    assert {change: [row["version"] for row in found if row["change"] == change] for change in versions} == versions
    assert found[4]["owner"] == A
    assert found[2]["old_time"] == moment(2)
    acl, gone = found[6], found[8]
    assert (acl["old_acl"], acl["new_acl"]) == (OPEN_ACL, "auth:ann:r")
    assert (gone["old_acl"], gone["new_acl"]) == ("auth:ann:r", None)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"path": "/app/x", "since": moment(3), "until": moment(3)}, [("set", "/app/x", b"one", b"two")]),
        ({"subtree": "/app", "session": B}, [("set", "/app/x", b"one", b"two"), ("delete", "/app/x", None, None)]),
        ({"zxid_min": (1 << 32) + 10}, [("delete", "/app/y", b"", None), ("delete", "/other", b"o", None)]),
        ({"zxid_max": (1 << 32) + 2, "subtree": "/", "since": moment(1)},
         [("create", "/app", None, None)]),
        ({"subtree": "/ap"}, []),
        ({"path": "/app/x", "refused": True, "zxid_min": (1 << 32) + 7},
         [("refused", "/app/x", None, None), ("delete", "/app/x", None, None)]),
    ],
)  # fmt: skip
def test_bounds(spark: SparkSession, bounds: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    """The old value comes from before the bounds all the same."""
    assert values(audit(story().frame(spark), **bounds)) == expected


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_bound_without_a_zone_is_refused(spark: SparkSession, bound: str) -> None:
    with pytest.raises(PipelineError, match=r"^2026-.* has no time zone; write 2026-.*Z if it is UTC$"):
        audit(story().frame(spark), **{bound: moment(1).replace(tzinfo=None)})


def test_a_refused_write_has_its_error(spark: SparkSession) -> None:
    history = story()
    history.refuse(A, None, -110)
    found = [row for row in rows(audit(history.frame(spark), refused=True)) if row["change"] == "refused"]
    assert [(row["path"], row["error"], row["operation"]) for row in found] == [
        ("/app/x", -102, "error"),
        (None, -110, "error"),
    ]


def test_ensembles_do_not_mix(spark: SparkSession) -> None:
    one, other = History("e1"), History("e2")
    for history, value in ((one, b"1"), (other, b"2")):
        history.create(A, "/x", value)
        history.set(A, "/x", value + value)
    found = rows(audit(log_frame(spark, one.rows + other.rows)))
    assert [(row["ensemble"], row["old"]) for row in found] == [
        *(("e1", None), ("e1", b"1")),
        *(("e2", None), ("e2", b"2")),
    ]


def test_ephemerals_that_an_old_log_does_not_list_are_deleted_too(spark: SparkSession) -> None:
    history = History()
    history.open(A)
    history.create(A, "/kept", b"k")
    history.create(A, "/eph1", b"1", ephemeral=True)
    history.create(A, "/eph2", b"2", ephemeral=True)
    history.create(A, "/moved", b"m", ephemeral=True)
    history.delete(B, "/eph1")
    history.delete(B, "/moved")
    history.create(B, "/moved", b"B's", ephemeral=True)
    history.close(A, bare=True)
    history.set(B, "/moved", b"still")
    found = rows(audit(history.frame(spark), session=A))
    assert [(row["path"], row["old"]) for row in found if row["change"] == "delete"] == [("/eph2", b"2")]
    assert [row["operation"] for row in found][-1] == "closeSession"
    assert values(audit(history.frame(spark), path="/moved"))[-1] == ("set", "/moved", b"B's", b"still")


def test_what_is_older_than_the_log_comes_from_a_snapshot(spark: SparkSession) -> None:
    """/app/x was written at 4 and the snapshot taken then; the log begins at 5, or at 4 and has the write too."""
    history = story()
    znode = dict.fromkeys(column.name for column in ZNODES) | {
        "ensemble": "e1", "snapshot": "snapshot.100000004", "zxid": (1 << 32) + 4, "path": "/app/x", "data": b"two",
        "czxid": (1 << 32) + 3, "mzxid": (1 << 32) + 4, "mtime": moment(3), "version": 1, "aversion": 0,
        "acl": OPEN_ACL,
    }  # fmt: skip
    znodes = spark.createDataFrame(pa.Table.from_pylist([znode], schema=arrow_schema(ZNODES)))
    late = log_frame(spark, [row for row in history.rows if row["counter"] >= 5])
    unknown = rows(audit(late, path="/app/x"))
    assert (unknown[0]["change"], unknown[0]["old"], unknown[0]["old_known"]) == ("set", None, False)
    # The next one has null for what was there before, which is known; the ACL before is older than the log, too.
    expected = {"set": True, "delete": True, "acl": False}
    assert [row["old_known"] for row in unknown[1:]] == [expected.get(row["change"]) for row in unknown[1:]]
    assert True in [row["old_known"] for row in unknown]
    found = rows(audit(late, znodes=znodes, path="/app/x"))
    assert (found[0]["old"], found[0]["old_zxid"], found[0]["old_time"]) == (b"two", (1 << 32) + 4, moment(3))
    assert not any(row["old_known"] is False for row in found)
    assert found[2]["old_acl"] == OPEN_ACL
    early = log_frame(spark, [row for row in history.rows if row["counter"] >= 4])
    found = rows(audit(early, znodes=znodes, path="/app/x"))
    assert [(row["old"], row["new"]) for row in found[:2]] == [(None, b"two"), (b"two", b"three")]


def twin(history: History) -> list[tuple[Any, ...]]:
    """The expected rows by a plain replay: (zxid, part, change, path, old, new, old_zxid)."""
    state: dict[str, tuple[bytes | None, int]] = {}
    found: list[tuple[Any, ...]] = []
    for row in history.rows:
        zxid, part, path = row["zxid"], row["part"], row["path"]
        if row["operation"] == "create":
            found.append((zxid, part, "create", path, None, row["data"], None))
            state[path] = (row["data"], zxid)
        elif row["operation"] == "setData":
            old, old_zxid = state[path]
            found.append((zxid, part, "set", path, old, row["data"], old_zxid))
            state[path] = (row["data"], zxid)
        elif row["operation"] == "setACL":
            found.append((zxid, part, "acl", path, None, None, None))
        elif row["operation"] == "delete":
            old, old_zxid = state.pop(path)
            found.append((zxid, part, "delete", path, old, None, old_zxid))
        for gone in row["paths"] or ():
            old, old_zxid = state.pop(gone)
            found.append((zxid, None, "delete", gone, old, None, old_zxid))
    return found


def test_agrees_with_a_plain_replay(spark: SparkSession) -> None:
    history = random_history(7)
    names = ("zxid", "part", "change", "path", "old", "new", "old_zxid")
    found = [tuple(row[name] for name in names) for row in rows(audit(history.frame(spark).select(*COLUMNS)))]
    expected = twin(history)
    assert len(expected) > 300
    assert {entry[2] for entry in expected} == {"create", "set", "acl", "delete"}
    assert sorted(found, key=repr) == sorted(expected, key=repr)
