"""The state of running ensembles' directories through Spark: the same as without it, and each exact snapshot's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from datatree.zookeeper.state import ZooKeeperState
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.trees import local_state
from tests.pipeline.rigs.txn_rows import znode_rows
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import ZNODES
from zab.pipeline.state.local_state import local_moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONFIG = "/zookeeper/config"


def dirs_of(directories: Directories, name: str = "e") -> list[str]:
    return [f"{name}={member}" for member in directories.members]


def rows_of(znodes: DataFrame, ensemble: str = "e") -> dict[str, tuple[Any, ...]]:
    rows = [row for row in znodes.collect() if row.ensemble == ensemble]
    found = {row.path: tuple(bytes(v) if isinstance(v, bytearray) else v for v in row[4:]) for row in rows}
    assert len(found) == len(rows)
    del found[CONFIG]
    return found


def expected(state: ZooKeeperState) -> dict[str, tuple[Any, ...]]:
    names = [column.name for column in ZNODES][4:]
    found = {}
    for row in znode_rows((state.znodes[path] for path in sorted(state.znodes)), state.zxid):
        row["ctime"], row["mtime"] = (row[name].replace(tzinfo=None) for name in ("ctime", "mtime"))
        found[row["path"]] = tuple(row[name] for name in names)
    del found[CONFIG]
    return found


def check(spark: SparkSession, directories: Directories, at: Any) -> None:
    from zab.pipeline.state.state_of import state_of

    dirs = dirs_of(directories)
    moment = local_moment(dirs, at)
    found = state_of(spark, dirs, at)
    assert found.moments == (moment,)
    state = local_state(moment)
    assert rows_of(found.znodes) == expected(state)
    assert {row.session: row.timeout for row in found.sessions.collect()} == state.sessions
    labels = {tuple(row) for row in found.znodes.select("ensemble", "member", "snapshot", "zxid").collect()}
    label = moment.label
    assert labels == {(label.ensemble, label.member, label.snapshot, moment.zxid)}


def test_state_of_ours_at_a_zxid_from_a_snapshot(spark: SparkSession, zab_directories: Directories) -> None:
    check(spark, zab_directories, zab_directories.killed_zxid)


def test_state_of_zookeepers_at_a_time_from_a_snapshot(spark: SparkSession, zookeeper_directories: Directories) -> None:
    """At the zxid of a snapshot there is no transaction to tell the time: a moment after it has one."""
    dirs = dirs_of(zookeeper_directories)
    acknowledged = (write.zxid for write in reversed(zookeeper_directories.writes))
    at = next(zxid for zxid in acknowledged if zxid <= zookeeper_directories.killed_zxid and time_of(dirs, zxid))
    time = time_of(dirs, at)
    assert time is not None
    check(spark, zookeeper_directories, time + timedelta(milliseconds=3))


def time_of(dirs: Sequence[str], zxid: int) -> datetime | None:
    return local_moment(dirs, zxid).time


def test_state_of_several_ensembles(
    spark: SparkSession, zab_directories: Directories, zookeeper_directories: Directories
) -> None:
    from zab.pipeline.state.state_of import state_of

    dirs = [*dirs_of(zab_directories, "ours"), *dirs_of(zookeeper_directories, "theirs")]
    found = state_of(spark, dirs)
    assert [moment.ensemble for moment in found.moments] == ["ours", "theirs"]
    for name, directories in (("ours", zab_directories), ("theirs", zookeeper_directories)):
        state = local_state(local_moment(dirs_of(directories)))
        assert rows_of(found.znodes, name) == expected(state)


def test_state_without_any_snapshot(spark: SparkSession, zab_directories: Directories, tmp_path: Path) -> None:
    copy = zab_directories.copy(tmp_path)
    for number in range(3):
        for file in copy.snapshots(number):
            file.unlink()
    check(spark, copy, None)


def test_what_is_not_kept_is_a_sentence(spark: SparkSession, zab_directories: Directories) -> None:
    from zab.pipeline.state.state_of import state_of

    with pytest.raises(PipelineError, match="beyond the end"):
        state_of(spark, dirs_of(zab_directories), zab_directories.last_zxid + 5)
