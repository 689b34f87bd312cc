"""The report about what running ensembles left: the facts are those of their clients, and damage is on top."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from datatree.snapshot import load_snapshot
from datatree.zookeeper.snapshot import SnapshotReader, uncompressed
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.damage import Injected
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.page_elements import Elements
from zab.host.storage.disk import RealDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zab.pipeline.report.facts import EnsembleFacts

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java]

OURS, THEIRS = "ours", "theirs"


class Reported:
    """One report about both ensembles: ours with a record that differs on one member, ZooKeeper's as it is."""

    def __init__(self, facts: list[EnsembleFacts], html: str, injected: Injected, said: list[str]) -> None:
        self.facts = {found.ensemble: found for found in facts}
        self.html = html
        self.injected = injected
        self.said = said


@pytest.fixture(scope="module")
def reported(
    spark: SparkSession,
    zab_directories: Directories,
    zookeeper_directories: Directories,
    tmp_path_factory: pytest.TempPathFactory,
) -> Reported:
    from zab.pipeline.report.collect import collect
    from zab.pipeline.report.page import page

    copy = zab_directories.copy(tmp_path_factory.mktemp("damaged"))
    injected = damage.change_record(copy, member=2, mended="chain")
    dirs = [f"{OURS}={path}" for path in copy.members] + [f"{THEIRS}={path}" for path in zookeeper_directories.members]
    said: list[str] = []
    facts = collect(spark, dirs, say=said.append)
    return Reported(
        facts, page(facts, made=datetime.datetime.now(datetime.UTC), source=", ".join(dirs)), injected, said
    )


@pytest.fixture(params=[OURS, THEIRS])
def known(request: pytest.FixtureRequest) -> tuple[str, Directories]:
    name = {OURS: "zab_directories", THEIRS: "zookeeper_directories"}[request.param]
    found = request.getfixturevalue(name)
    assert isinstance(found, Directories)
    return request.param, found


@pytest.mark.longest
def test_the_largest_ensemble_comes_first(reported: Reported) -> None:
    counts = [found.transactions for found in reported.facts.values()]
    assert counts == sorted(counts, reverse=True)
    assert reported.facts.keys() == {OURS, THEIRS}


def test_what_was_written_is_counted(reported: Reported, known: tuple[str, Directories]) -> None:
    facts, directories = reported.facts[known[0]], known[1]
    assert facts.last_zxid == directories.last_zxid
    epochs = [epoch.epoch for epoch in facts.epochs]
    assert len(epochs) >= 3
    assert epochs == sorted({write.zxid >> 32 for write in directories.writes})
    assert sum(epoch.count for epoch in facts.epochs) == facts.transactions >= len(directories.writes)
    refused = sum(bool(write.error) for write in directories.writes)
    refused += sum(len(write.parts) for write in directories.writes if any(part.error for part in write.parts))
    assert refused <= facts.refused <= refused + 10 * len(directories.unknown) + 50
    assert sum(sum(counts) for counts in facts.writes.values()) == facts.operations > facts.transactions
    assert facts.hot[0].path == "/hot/0"
    assert facts.hot[0].writes >= sum(
        write.path == "/hot/0" and not write.error for write in directories.writes
    )  # fmt: skip
    assert (facts.sizes.largest_bytes, facts.sizes.largest_path) == (51_200, "/kinds/large")
    assert facts.sizes.values is not None
    valued = [write for write in directories.writes if write.operation in ("create", "setData") and not write.error]
    assert facts.sizes.values.total >= len(valued) > 0


def held_by(snapshot: Path) -> tuple[int, int]:
    """The zxid in the name of a snapshot, and how many znodes the file holds."""
    zxid = int(snapshot.name.partition(".")[2], 16)
    if snapshot.parent.name == "version-2":
        return zxid, sum(1 for _ in SnapshotReader(uncompressed([snapshot.read_bytes()], snapshot.name), snapshot.name))
    disk = RealDisk(str(snapshot.parents[1]), lock=False)
    return zxid, load_snapshot(disk, f"{snapshot.parent.name}/{snapshot.name}")[1].znode_count


def test_sessions_and_locks_are_those_of_the_clients(reported: Reported, known: tuple[str, Directories]) -> None:
    facts, directories = reported.facts[known[0]], known[1]
    ended = [life.ended for life in directories.lives]
    assert facts.sessions.expired == ended.count("expired")
    assert facts.sessions.open_at_end == ended.count("open") == facts.sessions.open_counts[-1]
    assert facts.sessions.closed >= ended.count("closed")
    assert sum(facts.sessions.expired_counts) == facts.sessions.expired
    assert max(wave.sessions for wave in facts.sessions.waves) >= 3
    holds = {row.path: row.holds for row in facts.locks.rows}
    assert holds == {
        lock: sum(hold.lock == lock for hold in directories.holds) for lock in {hold.lock for hold in directories.holds}
    }
    assert facts.locks.overlap_count == 0
    inherited = next(row for row in facts.locks.rows if row.path == "/locks/inherited")
    assert inherited.longest_handover_ms is not None
    assert inherited.longest_handover_ms >= 400


def test_the_members_are_listed_with_what_they_hold(reported: Reported, known: tuple[str, Directories]) -> None:
    facts, directories = reported.facts[known[0]], known[1]
    assert [member.member for member in facts.members] == ["1", "2", "3"]
    for number, member in enumerate(facts.members):
        assert member.log_count == len(directories.logs(number))
        assert member.snapshot_count == len(directories.snapshots(number))
        assert member.last_zxid == directories.last_zxid
        assert len(member.coverage) == facts.scale.count
    assert any(all(share in (None, 1.0) for share in member.coverage) for member in facts.members)
    snapshots = [path for number in range(3) for path in directories.snapshots(number)]
    assert (facts.sizes.snapshot_zxid, facts.sizes.znodes) in map(held_by, snapshots)


def test_the_member_that_differs_is_named_on_top(reported: Reported) -> None:
    healthy, sick = reported.facts[THEIRS].health, reported.facts[OURS].health
    assert (healthy.problem_count, healthy.problems) == (0, ())
    assert sick.problem_count >= 1
    injected = reported.injected
    assert injected.zxids is not None
    named = [problem for problem in sick.problems if problem.member == "3" and problem.zxid == injected.zxids[0]]
    assert named
    facts = reported.facts[OURS]
    assert named[0].time is not None
    assert facts.since - datetime.timedelta(seconds=1) <= named[0].time <= facts.until
    text = Elements(reported.html).text
    assert named[0].sentence in text
    assert f"{injected.zxids[0]:#x}" in text
    assert "All 3 members agree and their files are sound" in text


def test_paths_of_the_data_are_only_texts(reported: Reported) -> None:
    page = Elements(reported.html)
    assert page.open == []
    assert not any(tag == "script" for tag, _ in page.elements)
    assert reported.said[0] == "epochs"
    assert "health" in reported.said


def test_bounds_limit_what_is_counted(spark: SparkSession, zab_directories: Directories) -> None:
    from zab.pipeline.errors import PipelineError
    from zab.pipeline.report.collect import collect
    from zab.pipeline.report.counting import Bounds

    dirs = [str(path) for path in zab_directories.members]
    with pytest.raises(PipelineError, match="no transactions to report on"):
        collect(spark, dirs, bounds=Bounds(zxid_min=zab_directories.last_zxid + 1))
    with pytest.raises(PipelineError, match="does not exist"):
        collect(spark, [*dirs, str(Path("/nowhere/at/all"))])
