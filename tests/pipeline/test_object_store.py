"""Directories in an object store: the same as on a disk, read and written over S3's own protocol."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.commands import call
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.object_store import BUCKET, REGION, Store, store
from tests.pipeline.rigs.trees import local_state
from zab.cli.main import main
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.compact import compact_with, write_here
from zab.pipeline.jobs.verify import find, find_in_snapshots
from zab.pipeline.output import check_out
from zab.pipeline.reading.planning import Range, plan, task_batches
from zab.pipeline.state.local_state import local_moment
from zab.pipeline.verify.snapshots import examine_snapshot, snapshot_tasks
from zab.testing.kit.ports import free_ports

__all__ = ["store"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module", params=["zab_directories", "zookeeper_directories"])
def kept(request: pytest.FixtureRequest, store: Store) -> tuple[list[str], list[str]]:
    """(on the disk, in the store) the directories of the three members."""
    directories = request.getfixturevalue(request.param)
    assert isinstance(directories, Directories)
    here, there = [], []
    for number, member in enumerate(directories.members, 1):
        store.put(member, f"{directories.kind}/server{number}")
        here.append(f"e={member}")
        there.append(f"e={store.uri(f'{directories.kind}/server{number}')}")
    return here, there


@pytest.mark.parametrize(
    "words",
    [
        ("backup", "take", "--admin", "127.0.0.1:1"),
        ("backup", "list"),
        ("backup", "verify"),
        ("backup", "prune", "--keep", "1"),
        ("restore", "--to", "new"),
    ],
)
def test_a_bucket_that_is_not_there_is_said(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = store.uri("zab").replace(BUCKET, "user:hidden@nowhere", 1)
    done = call(capsys, *words, nowhere)
    assert done.code == 1
    [line, *more] = done.err.splitlines()
    assert line == "zab: s3://nowhere/zab: there is no bucket nowhere; it has to be made first"
    assert more == (["zab: s3://nowhere/zab does not exist"] if words[0] == "restore" else [])


@pytest.mark.long
def test_a_store_that_cannot_be_reached_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    uri = f"s3://{BUCKET}/zab?endpoint_override=127.0.0.1:{port}&scheme=http&region={REGION}"
    for words in (("list",), ("take", "--admin", "127.0.0.1:1")):
        done = call(capsys, "backup", *words, uri)
        assert done.code == 1
        assert re.fullmatch(f"zab: s3://{BUCKET}/zab: .*Could not connect to server\\n", done.err), done.err


def rows_of(dirs: list[str], columns: tuple[str, ...], wanted: Range | None = None) -> list[dict[str, Any]]:
    tasks = plan(inventory(dirs), wanted or Range(), members="one")
    return [row for task in tasks for batch in task_batches(task, columns) for row in batch.to_pylist()]


def test_logs_have_the_same_rows(kept: tuple[list[str], list[str]]) -> None:
    here, there = kept
    columns = ("zxid", "time", "session", "path", "data", "checksum")
    rows = rows_of(here, columns)
    assert rows_of(there, columns) == rows
    middle = rows[len(rows) // 2]["zxid"]
    assert rows_of(there, columns, Range.of(middle, middle, None, None)) == [
        one for one in rows if one["zxid"] == middle
    ]


def test_members_in_the_store_are_compared(kept: tuple[list[str], list[str]]) -> None:
    here, there = (inventory(dirs) for dirs in kept)
    told = [(one.member, one.kind, one.zxid, one.sentence) for one in find(there)]
    assert told == [(one.member, one.kind, one.zxid, one.sentence) for one in find(here)]
    assert find_in_snapshots(there, [examine_snapshot(task) for task in snapshot_tasks(there.members)]) == []


def test_a_state_comes_from_the_store(kept: tuple[list[str], list[str]], tmp_path: Path) -> None:
    here, there = kept
    state, known = (local_state(local_moment(dirs)) for dirs in (there, here))
    assert (state.zxid, state.znodes, state.sessions) == (known.zxid, known.znodes, known.sessions)
    with pytest.raises(SystemExit) as ending:
        main(["restore", *there, "--to", f"1={tmp_path / 'new'}"])
    assert not ending.value.code
    assert [path.name for path in (tmp_path / "new").glob("version-1/snapshot.*")] != []


def test_compact_writes_into_the_store_and_goes_on_there(store: Store, kept: tuple[list[str], list[str]]) -> None:
    _, there = kept
    lake = f"lake-{'native' if 'native' in there[0] else 'version-2'}"
    (first,) = compact_with(write_here, there, store.uri(lake))
    (again,) = compact_with(write_here, there, store.uri(lake))
    assert (first.rows, again.rows) == (len(rows_of(there, ("zxid",))), 0)
    names = store.names(lake)
    assert len([name for name in names if name.endswith(".parquet")]) == first.files
    assert {name for name in names if not name.endswith(".parquet")} == {"_manifest.json"}
    with store.files.open_input_stream(f"{BUCKET}/{lake}/_manifest.json") as stream:
        assert json.loads(stream.read())["ensembles"]["e"]["rows"] == first.rows


@pytest.mark.spark
def test_spark_reads_from_the_store(spark: SparkSession, store: Store, zab_directories: Directories) -> None:
    from zab.pipeline import read_log

    store.put(zab_directories.members[0], "spark")
    log = read_log(spark, [store.uri("spark")], columns=["zxid"], members="one")
    assert log.count() == len(rows_of([str(zab_directories.members[0])], ("zxid",)))


def test_the_ending_of_an_output_is_that_of_the_path(store: Store) -> None:
    for name, is_file in (("audit.json", True), ("audit.csv/", False), ("audit", False)):
        target = check_out(store.uri(name))
        assert (str(target.place), target.is_file) == (f"s3://{BUCKET}/{name.rstrip('/')}", is_file)


def test_what_is_not_in_the_store_is_a_sentence(store: Store) -> None:
    with pytest.raises(PipelineError, match="does not exist"):
        inventory([store.uri("nowhere")])
    with pytest.raises(PipelineError, match="no-such-bucket"):
        inventory([store.uri("").replace(BUCKET, "no-such-bucket")])
    store.files.create_dir(f"{BUCKET}/empty")
    with pytest.raises(PipelineError, match="holds no logs") as told:
        inventory([store.uri("empty").replace("s3://", "s3://test:hidden-key@")])
    assert "hidden-key" not in str(told.value)
