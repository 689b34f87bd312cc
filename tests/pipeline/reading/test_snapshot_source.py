"""Snapshots as DataFrames: which file is read, what its rows are, and what is said of those that cannot be."""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from datatree.snapshot import load_snapshot
from tests.datatree.zookeeper.snappy_files import snapped
from tests.pipeline.rigs.ensembles import Directories
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import DAMAGE, SESSIONS, ZNODES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZNODE_NAMES = [column.name for column in ZNODES]


def dirs_of(directories: Directories) -> list[str]:
    return [f"e={member}" for member in directories.members]


def zxid_of(file: Path) -> int:
    return int(file.name.split(".")[1], 16)


def break_one(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.spark
@pytest.mark.slow
def test_rows_are_the_znodes_of_the_newest_snapshot(spark: SparkSession, zab_directories: Directories) -> None:
    from zab.pipeline.reading.snapshot_source import read_snapshot

    newest = max((file for number in range(3) for file in zab_directories.snapshots(number)), key=zxid_of)
    disk = RealDisk(str(newest.parent.parent), lock=False)
    _, tree = load_snapshot(disk, f"version-1/{newest.name}")
    found = read_snapshot(spark, dirs_of(zab_directories))
    assert found.columns == ZNODE_NAMES
    rows = found.collect()
    assert {row.path.encode() for row in rows} == {path for shard in tree.shards for path in shard}
    assert {(row.ensemble, row.snapshot, row.zxid) for row in rows} == {("e", newest.name, zxid_of(newest))}
    sessions = read_snapshot(spark, dirs_of(zab_directories), sessions=True)
    assert sessions.columns == [column.name for column in SESSIONS]
    assert {row.session: row.timeout for row in sessions.collect()} == tree.sessions
    few = read_snapshot(spark, dirs_of(zab_directories), columns=["mzxid", "path"])
    assert few.columns == ["mzxid", "path"]
    assert sorted(map(tuple, few.collect())) == sorted((row.mzxid, row.path) for row in rows)


@pytest.mark.spark
@pytest.mark.slow
def test_snapshot_below_a_zxid_and_of_each_member(spark: SparkSession, zookeeper_directories: Directories) -> None:
    from zab.pipeline.reading.snapshot_source import read_snapshot

    below = zookeeper_directories.last_zxid - 0x100000000
    wanted = {
        str(number + 1): max(
            zxid_of(file) for file in zookeeper_directories.snapshots(number) if zxid_of(file) <= below
        )
        for number in range(3)
    }
    found = read_snapshot(
        spark, dirs_of(zookeeper_directories), at=below, members="all", columns=["member", "zxid", "path"]
    )
    assert {row.member: row.zxid for row in found.collect()} == wanted
    (one,) = read_snapshot(spark, dirs_of(zookeeper_directories), at=below).select("zxid").distinct().collect()
    assert one.zxid == max(wanted.values())


@pytest.mark.spark
@pytest.mark.slow
def test_sparks_own_interface(spark: SparkSession, zab_directories: Directories, tmp_path: Path) -> None:
    from zab.pipeline.reading.log_source import register
    from zab.pipeline.reading.snapshot_source import read_snapshot

    register(spark)
    names = read_snapshot(spark, dirs_of(zab_directories), columns=["path"]).collect()
    reader = spark.read.format("zab.snapshot").option("dirs", ",".join(map(str, zab_directories.members)))
    assert sorted(reader.load().select("path").collect()) == sorted(names)
    assert reader.option("sessions", "true").load().columns == [column.name for column in SESSIONS]
    early = zxid_of(zab_directories.snapshots(0)[1])
    at = spark.read.format("zab.snapshot").option("dirs", str(zab_directories.members[0])).option("at", hex(early))
    assert at.schema("zxid bigint").load().distinct().collect() == [(early,)]


def test_wrong_options_are_refused(zab_directories: Directories, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    from zab.pipeline.reading.snapshot_source import SnapshotSource

    dirs = str(zab_directories.members[0])
    for options, reason in (
        ({}, 'option "dirs" is missing'),
        ({"dirs": "[oops"}, "no JSON list"),
        ({"dirs": dirs, "at": "soon"}, "no zxid"),
        ({"dirs": dirs, "members": "some"}, "members"),
        ({"dirs": dirs, "colour": "red"}, "unknown option colour"),
        ({"dirs": dirs, "at": "1"}, "no whole snapshot of .* at or below 0x1; there are 0x"),
        ({"dirs": str(tmp_path / "nowhere")}, "does not exist"),
    ):
        with pytest.raises(PipelineError, match=reason):
            SnapshotSource(options).reader(StructType().add("path", "string"))
    with pytest.raises(PipelineError, match="no column pth string; it has ensemble string"):
        SnapshotSource({"dirs": dirs}).reader(StructType().add("pth", "string"))
    with pytest.raises(PipelineError, match="no column zxid string"):
        SnapshotSource({"dirs": dirs}).reader(StructType().add("zxid", "string"))


def test_what_cannot_be_read_is_passed_over_and_told(zab_directories: Directories, tmp_path: Path) -> None:
    from zab.pipeline.inventory import inventory
    from zab.pipeline.reading.snapshot_source import choose_tasks, snapshot_damage

    copy = zab_directories.copy(tmp_path)
    (one, two, *rest) = reversed(copy.snapshots(0))
    break_one(one)
    two.write_bytes(two.read_bytes()[:-1])
    dirs = [str(copy.members[0])]
    (task,) = choose_tasks(inventory(dirs), None, "one")
    assert task.file.name == rest[0].name
    found = list(snapshot_damage(dirs))
    assert [row["file"] for row in found] == sorted((str(one), str(two)), key=lambda name: zxid_of(Path(name)))
    assert [list(row) for row in found] == [[column.name for column in DAMAGE]] * 2
    assert all(row["kind"] == "damaged" and row["offset"] > 0 and row["member"] == "1" for row in found)
    for file in rest:
        break_one(file)
    with pytest.raises(PipelineError, match=r"no whole snapshot of .*; there are 0x.*checksum"):
        choose_tasks(inventory(dirs), None, "one")


def test_compressed_snapshots_are_read_and_without_its_library_snappy_is_explained(
    zookeeper_directories: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zab.pipeline.inventory import inventory
    from zab.pipeline.reading.snapshot_choice import Chosen, examine
    from zab.pipeline.reading.snapshot_source import choose_tasks, snapshot_damage

    newest = zookeeper_directories.snapshots(0)[-1]
    plain, gzipped, packed = (tmp_path / name / "version-2" for name in ("plain", "gzipped", "packed"))
    for directory in (plain, gzipped, packed):
        directory.mkdir(parents=True)
    shutil.copy(newest, plain)
    (gzipped / f"{newest.name}.gz").write_bytes(gzip.compress(newest.read_bytes()))
    (packed / f"{newest.name}.snappy").write_bytes(snapped(newest.read_bytes()))
    found = []
    for directory in (plain, gzipped, packed):
        (member,) = inventory([str(directory)]).members
        chosen = examine(member, member.snapshots[0])
        assert isinstance(chosen, Chosen)
        found.append(chosen.examined)
    assert found[0] == found[1] == found[2]
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(PipelineError, match=r"pip install 'zab\[snappy\]'"):
        choose_tasks(inventory([str(packed)]), None, "one")
    assert [row["offset"] for row in snapshot_damage([str(packed)])] == [0]


@pytest.mark.spark
@pytest.mark.slow
def test_damage_that_comes_later_ends_the_job_with_a_sentence(
    spark: SparkSession, zab_directories: Directories, tmp_path: Path
) -> None:
    from zab.pipeline.reading.snapshot_source import read_snapshot
    from zab.pipeline.spark_session import plain_errors

    copy = zab_directories.copy(tmp_path)
    found = read_snapshot(spark, [str(copy.members[0])])
    break_one(copy.snapshots(0)[-1])
    with pytest.raises(PipelineError, match=r"checksum.*it was whole when it was chosen"), plain_errors():
        found.collect()
