"""The state at a moment, through Spark, against the replay over a whole tree."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import fuzzy, history, states
from tests.pipeline.rigs.txn_rows import log_frame, moment, session_frame, znode_frame, znode_rows
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import SESSIONS, ZNODES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TXNS, TREE = history(7, 400)
MOMENTS = states(TXNS)
NAMES = [column.name for column in ZNODES if column.name not in ("ensemble", "member", "snapshot", "zxid")]


def rows_of(found: DataFrame) -> dict[str, tuple[Any, ...]]:
    assert found.columns == [column.name for column in ZNODES]
    rows = found.collect()
    by_path = {row.path: tuple(bytes(v) if isinstance(v, bytearray) else v for v in row[4:]) for row in rows}
    assert len(by_path) == len(rows)
    return by_path


def expected(state: ZooKeeperState) -> dict[str, tuple[Any, ...]]:
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    found = {}
    for row in znode_rows(znodes, state.zxid):
        row["ctime"], row["mtime"] = (row[name].replace(tzinfo=None) for name in ("ctime", "mtime"))
        found[row["path"]] = tuple(row[name] for name in NAMES)
    return found


def sorted_znodes(state: ZooKeeperState) -> list[Any]:
    return [state.znodes[path] for path in sorted(state.znodes)]


def test_state_from_the_beginning_at_any_zxid(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import state

    log = log_frame(spark, TXNS).cache()
    for zxid in (137, 400):
        found = rows_of(state(log, at=zxid, exact=True))
        own, theirs = found.pop("/zookeeper/config"), expected(MOMENTS[zxid])
        assert own[NAMES.index("version")] == -1
        assert own[NAMES.index("aversion")] == theirs.pop("/zookeeper/config")[NAMES.index("aversion")]
        assert found == theirs
    assert rows_of(state(log)).keys() == {path.decode() for path in MOMENTS[400].znodes}
    log.unpersist()


def test_state_from_an_exact_snapshot(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import state

    base = znode_frame(spark, sorted_znodes(MOMENTS[150]), 150)
    log = log_frame(spark, TXNS)
    label = Label("mine", None, "snapshot.96", 333)
    for exact in (True, False):
        found = state(log, base, at=333, exact=exact, label=label)
        assert rows_of(found) == expected(MOMENTS[333])
        assert {row[:4] for row in found.select(*found.columns[:4]).collect()} == {("mine", None, "snapshot.96", 333)}


def test_state_from_a_fuzzy_snapshot(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import state

    base = znode_frame(spark, fuzzy(MOMENTS[:300], 200, Random(3)), 200)
    assert rows_of(state(log_frame(spark, TXNS), base, at=320)) == expected(MOMENTS[320])


def test_a_time_means_the_last_transaction_at_or_before_it(spark: SparkSession) -> None:
    """The times of this log are 10,000 ms and the zxid; one of a new leader whose clock is behind comes last."""
    from zab.pipeline.state.frames import last_zxid, session_state, state

    late = evolve(TXNS[299], time=10_200)
    log = log_frame(spark, [*TXNS[:299], late, *TXNS[300:]]).cache()
    assert last_zxid(log, moment(10_137)) == 137
    assert last_zxid(log, moment(10_137).replace(tzinfo=None)) == 137
    assert last_zxid(log, moment(10_200)) == 300
    assert last_zxid(log, moment(10_299)) == 300
    assert last_zxid(log, moment(10_301)) == 301
    assert last_zxid(log, None) == 400
    assert last_zxid(log, 77) == 77
    with pytest.raises(PipelineError, match="no transaction at or before 1970-01-01"):
        last_zxid(log, moment(1))
    assert rows_of(state(log, at=moment(10_137))).keys() == {path.decode() for path in MOMENTS[137].znodes}
    sessions = session_state(log, at=moment(10_137))
    assert {row.session: row.timeout for row in sessions.collect()} == MOMENTS[137].sessions
    log.unpersist()


def test_sessions_at_a_moment(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import session_state

    log = log_frame(spark, TXNS)
    base = session_frame(spark, MOMENTS[100].sessions, 100)
    found = session_state(log, base, at=350, base_zxid=100, label=Label("mine", None, "snapshot.64", 350))
    assert found.columns == [column.name for column in SESSIONS]
    rows = found.collect()
    assert {row.session: row.timeout for row in rows} == MOMENTS[350].sessions
    assert {row[:4] for row in rows} == {("mine", None, "snapshot.64", 350)}
    assert MOMENTS[100].sessions.keys() - MOMENTS[350].sessions.keys()


def test_sessions_closed_without_a_list(spark: SparkSession) -> None:
    """As ZooKeeper before 3.6 logged it: the reader has null for the paths."""
    from pyspark.sql import functions as F  # noqa: N812

    from zab.pipeline.state.frames import state

    unlisted = [evolve(txn, rest=()) if txn.type == OpCode.CLOSE_SESSION else txn for txn in TXNS]
    assert unlisted != TXNS
    log = log_frame(spark, unlisted).withColumn("paths", F.lit(None).cast("array<string>"))
    base = znode_frame(spark, sorted_znodes(MOMENTS[150]), 150)
    found = rows_of(state(log, base, at=400, is_closing_listed=False))
    assert found == expected(MOMENTS[400])
    assert rows_of(state(log, base, at=400)) != found


def test_refused_multis_change_nothing(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import state

    made = Txn(1, 5, 9, 0, OpCode.CREATE, 1, b"/a", b"x", (None, 0))
    refused = ((OpCode.ERROR, 0, b"", None, None), (OpCode.ERROR, -110, b"", None, None))
    log = log_frame(spark, [made, Txn(2, 6, 9, 1, OpCode.MULTI, 0, b"", None, refused)])
    found = rows_of(state(log))
    assert found["/a"][NAMES.index("mzxid")] == 1
    assert found["/"][NAMES.index("num_children")] == 2


def test_names_that_are_hard_to_take_apart(spark: SparkSession) -> None:
    from zab.pipeline.state.frames import state

    paths = ["/a", "/a/ä\U0001f40e", "/a/ä\U0001f40e/x'\"\\", "/a/a", "/a/a/a", "/%2F", "/%2F/ "]
    txns = [
        Txn(zxid, 5, 9, 0, OpCode.CREATE, zxid, path.encode(), b"", (None, 0)) for zxid, path in enumerate(paths, 1)
    ]
    found = rows_of(state(log_frame(spark, txns)))
    count = NAMES.index("num_children")
    assert {path: found[path][count] for path in paths} == dict(zip(paths, (2, 1, 0, 1, 0, 1, 0), strict=True))
    assert CONFIG.decode() in found
