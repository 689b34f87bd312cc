"""The jobs on what running ensembles left, ours and the real ZooKeeper's, against what their clients saw."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.rigs.ensembles import Directories
from zab.pipeline.reading.frames import read_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# The leader's clock is this machine's, read at another moment of its work.
SLACK_SECONDS = 1.0


@pytest.fixture(params=["zab", pytest.param("zookeeper", marks=pytest.mark.java)])
def directories(request: pytest.FixtureRequest) -> Directories:
    found = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(found, Directories)
    return found


def log_of(spark: SparkSession, directories: Directories, columns: tuple[str, ...]) -> Any:
    return read_log(spark, [str(path) for path in directories.members], columns=columns, members="one")


def test_holders_knew_that_they_held(spark: SparkSession, directories: Directories) -> None:
    """By the log, each contender had its turn before its client said so, and had left soon after it let go."""
    from zab.pipeline.jobs.locks import COLUMNS, locks

    queue = locks(log_of(spark, directories, COLUMNS)).toArrow().to_pylist()
    turns = {f"{row['lock']}/{row['name']}": row for row in queue}
    assert len(directories.holds) > 10
    for hold in directories.holds:
        row = turns[hold.znode]
        assert (row["session"], row["held"]) == (hold.session, True)
        assert row["acquired"].timestamp() - SLACK_SECONDS <= hold.since
        assert hold.until - SLACK_SECONDS <= row["left"].timestamp() <= hold.gone + SLACK_SECONDS
    for lock in {hold.lock for hold in directories.holds}:
        mine = sorted((row for row in queue if row["lock"] == lock), key=lambda row: row["acquired_zxid"])
        assert all(one["left_zxid"] <= following["acquired_zxid"] for one, following in itertools.pairwise(mine))
    inherited = [row for row in queue if row["lock"] == "/locks/inherited" and row["previous_leaving"] == "expired"]
    assert [row["handover_ms"] > 0 for row in inherited] == [True]


def test_sessions_ended_as_their_clients_ended_them(spark: SparkSession, directories: Directories) -> None:
    from zab.pipeline.jobs.sessions import COLUMNS, sessions

    found = sessions(log_of(spark, directories, COLUMNS)).toArrow().to_pylist()
    by_session = {row["session"]: row for row in found}
    assert {life.ended for life in directories.lives} >= {"closed", "expired"}
    for life in directories.lives:
        row = by_session[life.session]
        assert (row["ending"] or "open") == life.ended
        if life.ended != "open":
            assert row["taken_paths"] == sorted(life.ephemerals)


def test_changes_lead_to_what_a_client_read_at_the_end(spark: SparkSession, directories: Directories) -> None:
    """Each change finds as old what the one before left, and the last ones are the tree."""
    from zab.pipeline.jobs.audit import COLUMNS, audit

    found = audit(log_of(spark, directories, COLUMNS), refused=True).toArrow().to_pylist()
    found.sort(key=lambda row: (row["zxid"], -1 if row["part"] is None else row["part"]))
    versions: dict[str, int] = {}
    data: dict[str, bytes | None] = {}
    for row in found:
        if row["change"] in ("set", "delete") and row["path"] in data:
            assert row["old"] == data[row["path"]]
        if row["change"] in ("create", "set"):
            versions[row["path"]] = 0 if row["change"] == "create" else versions.get(row["path"], 0) + 1
            assert row["version"] == (-1 if row["operation"] == "reconfig" else versions[row["path"]])
            data[row["path"]] = row["new"]
        elif row["change"] == "delete":
            del data[row["path"]]
    # What every ensemble begins with is in no log.
    expected = {path: znode.data for path, znode in directories.znodes.items() if path != "/"}
    for path in [path for path in {**data, **expected} if path.startswith("/zookeeper")]:
        data.pop(path, None)
        expected.pop(path, None)
    assert data == expected
    refused = [row for row in found if row["change"] == "refused"]
    assert {row["part"] for row in refused} >= {None, 0, 1, 2}
    assert all((row["error"] < 0) == (row["change"] == "refused") for row in found)
