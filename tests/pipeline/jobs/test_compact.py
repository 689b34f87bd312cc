"""Logs as Parquet: every transaction once, also when a run is killed at any of its steps; and only what is new."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datatree.log.batch import Batch
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.member_logs import ensemble, history, logs, member
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.compact import COLUMNS, Compacted, WriteTask, _Writing, compact, compact_with, write_here
from zab.pipeline.jobs.compact_output import Output, partition
from zab.pipeline.places import Place
from zab.pipeline.reading.planning import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEAGE = "000102030405060708090a0b0c0d0e0f"


def run(directories: list[Path] | list[str], out: Path, **options: bool) -> list[Compacted]:
    return compact_with(write_here, [str(path) for path in directories], str(out), **options)


def files(out: Path) -> list[Path]:
    """What a reader of Parquet sees."""
    return sorted(out.glob("ensemble=*/**/*.parquet"))


def zxids(out: Path) -> list[int]:
    """All rows, file by file."""
    return sorted(zxid for path in files(out) for zxid in pq.ParquetFile(path).read().column("zxid").to_pylist())


def of(batches: list[Batch]) -> list[int]:
    return [zxid for batch in batches for zxid in range(batch.first, batch.zxid + 1)]


def visible_names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_each_transaction_is_there_once_by_epoch_and_day(tmp_path: Path) -> None:
    batches = history(40, 60)
    directories = ensemble(tmp_path / "e", batches, batches, batches[:80])
    out = tmp_path / "out"
    (added,) = run(directories, out)
    assert zxids(out) == of(batches)
    assert (added.ensemble, added.first, added.last) == (LINEAGE, batches[0].first, batches[-1].zxid)
    assert (added.transactions, added.rows, added.files) == (len(of(batches)), len(of(batches)), len(files(out)))
    for path in files(out):
        names = [part.name for part in (path.parents[2], path.parents[1], path.parent)]
        table = pq.ParquetFile(path).read()
        assert tuple(table.column_names) == COLUMNS
        epochs = {zxid >> 32 for zxid in table.column("zxid").to_pylist()}
        days = {time.date().isoformat() for time in table.column("time").to_pylist()}
        assert [names] == [[f"ensemble={LINEAGE}", f"epoch={epoch}", f"day={day}"] for epoch in epochs for day in days]
        found = table.column("zxid").to_pylist()
        assert path.name == f"{found[0]:016x}-{found[-1]:016x}.parquet"
    assert visible_names(out) == {f"ensemble={LINEAGE}", "_manifest.json"}


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    batches = history(40, 60)
    out = tmp_path / "out"
    first = run(ensemble(tmp_path / "one", batches[:70]), out)
    before = {path: path.stat().st_mtime_ns for path in files(out)}
    (nothing,) = run([tmp_path / "one" / "server1"], out)
    assert (nothing.rows, nothing.first, nothing.files) == (0, None, 0)
    (more,) = run(ensemble(tmp_path / "two", batches), out)
    assert (more.first, more.last) == (batches[70].first, batches[-1].zxid)
    assert zxids(out) == of(batches)
    assert {path: path.stat().st_mtime_ns for path in files(out)}.items() >= before.items()
    manifest = json.loads((out / "_manifest.json").read_text())["ensembles"][LINEAGE]
    assert manifest["rows"] == manifest["transactions"] == first[0].rows + more.rows == len(of(batches))


def test_what_a_leader_could_take_back_is_left_for_later(tmp_path: Path) -> None:
    batches = history(40, committed=30)
    (directory,) = ensemble(tmp_path / "e", batches, marks={1: batches[29].zxid})
    out = tmp_path / "out"
    run([directory], out)
    assert zxids(out) == of(batches[:30])
    run([directory], out, uncommitted=True)
    assert zxids(out) == of(batches)


def test_ensembles_are_kept_apart_and_go_on_by_themselves(tmp_path: Path) -> None:
    one, other = history(20), history(30, seed=2)
    first = ensemble(tmp_path / "first", one)
    second = ensemble(tmp_path / "second", other)
    out = tmp_path / "out"
    run([f"north={first[0]}"], out)
    results = run([f"north={first[0]}", f"a.b-c={second[0]}"], out)
    assert [(result.ensemble, result.rows) for result in results] == [("a.b-c", len(of(other))), ("north", 0)]
    assert visible_names(out) == {"ensemble=north", "ensemble=a.b-c", "_manifest.json"}
    # Another history under a known name is refused.
    manifest = out / "_manifest.json"
    manifest.write_text(manifest.read_text().replace(LINEAGE, "ff" * 16))
    with pytest.raises(PipelineError, match="has the history of another ensemble north"):
        run([f"north={first[0]}"], out)


def test_a_hole_is_told_and_nothing_is_written_unless_it_is_allowed(tmp_path: Path) -> None:
    batches = history(20, 60)
    one, other = ensemble(tmp_path / "e", batches, batches)
    lost = logs(one)[2]
    missing = of(list(lost.batches()))
    lost.path.unlink()
    lost.index_path.unlink()
    out = tmp_path / "out"
    with pytest.raises(PipelineError, match=f"between zxids {missing[0] - 1:#x} and {missing[-1] + 1:#x} is missing"):
        run([one], out)
    assert not out.exists()
    (added,) = run([one], out, allow_holes=True)
    assert zxids(out) == [zxid for zxid in of(batches) if zxid not in missing]
    assert added.holes == ((missing[0] - 1, missing[-1] + 1),)
    assert json.loads((out / "_manifest.json").read_text())["ensembles"][LINEAGE]["holes"] == [list(added.holes[0])]
    # With a member that has them nothing is missing.
    run([one, other], tmp_path / "whole")
    assert zxids(tmp_path / "whole") == of(batches)


def test_logs_that_no_longer_reach_back_to_what_is_there_are_a_hole_too(tmp_path: Path) -> None:
    batches = history(20, 60)
    (directory,) = ensemble(tmp_path / "e", batches[:10])
    out = tmp_path / "out"
    run([directory], out)
    whole = member(tmp_path / "later", 1, batches)
    for log in logs(whole)[:3]:
        log.path.unlink()
        log.index_path.unlink()
    with pytest.raises(PipelineError, match="is missing in the logs given"):
        run([whole], out)
    assert zxids(out) == of(batches[:10])


KILLED_RUN = """
import os, sys
from zab.pipeline.jobs import compact_output
from zab.pipeline.jobs.compact import compact_with, write_here

step, dirs, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
count = 0

def dies(real):
    def call(self, *more):
        global count
        if count == step:
            os._exit(9)
        count += 1
        return real(self, *more)
    return call

for name in ("_move", "_write"):
    setattr(compact_output.Output, name, dies(getattr(compact_output.Output, name)))

def write_and_die(tasks):
    reports = write_here(tasks)
    if step < 0:
        os._exit(9)
    return reports

compact_with(write_and_die, [dirs], out)
print(count)
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_run_that_is_killed_at_any_step_is_finished_or_undone_by_the_next(tmp_path: Path) -> None:
    batches = history(40, 60)
    (early,) = ensemble(tmp_path / "early", batches[:20])
    (late,) = ensemble(tmp_path / "late", batches)
    begun = tmp_path / "begun"
    run([early], begun)

    def killed(step: int, out: Path) -> subprocess.CompletedProcess[str]:
        shutil.copytree(begun, out)
        words = [sys.executable, "-c", KILLED_RUN, str(step), str(late), str(out)]
        return subprocess.run(words, check=False, capture_output=True, text=True)

    whole = killed(1000, tmp_path / "whole")
    steps = int(whole.stdout)
    assert steps >= 4, whole.stderr
    for step in range(-1, steps):
        out = tmp_path / f"killed {step}"
        assert killed(step, out).returncode == 9
        rows = zxids(out)
        assert len(rows) == len(set(rows)), "nothing twice, even before the next run"
        results = run([late], out)
        assert zxids(out) == of(batches), f"killed at step {step}"
        # Until the manifest knew of its files, a killed run had done nothing; from then on it had done all.
        assert bool(results[0].rows) == (step < 1)
        assert visible_names(out) == {f"ensemble={LINEAGE}", "_manifest.json"}


def test_a_run_that_fails_among_its_renames_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = history(40, 60)
    (directory,) = ensemble(tmp_path / "e", batches)
    out = tmp_path / "out"
    real, moved = Output._move, []

    def fail(self: Output, source: Place, target: Place) -> None:
        if moved:
            raise OSError(28, "No space left on device")
        moved.append(target)
        real(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Output, "_move", fail)
        with pytest.raises(PipelineError, match="cannot be written: No space left on device"):
            run([directory], out)
    assert 0 < len(zxids(out)) < len(of(batches))
    assert run([directory], out)[0].rows == 0
    assert zxids(out) == of(batches)


def test_two_runs_at_once_do_not_both_count(tmp_path: Path) -> None:
    batches = history(40)
    (directory,) = ensemble(tmp_path / "e", batches)
    out = tmp_path / "out"
    slow = Output(str(out))
    aside = slow.begin()
    run([directory], out)
    with pytest.raises(PipelineError, match="another run has written to"):
        slow.commit(aside, [("part", "ensemble=a/epoch=1/day=2026-01-02/1-2.parquet")], {})
    begun = Output(str(out))
    aside = begun.begin()
    Output(str(out))
    with pytest.raises(PipelineError, match="another run has begun on"):
        begun.commit(aside, [("part", "ensemble=a/epoch=1/day=2026-01-02/1-2.parquet")], {})
    assert zxids(out) == of(batches)


def test_an_output_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (directory,) = ensemble(tmp_path / "e", history(10))
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("mine")
    with pytest.raises(PipelineError, match=r"holds precious.txt and no _manifest.json: it is no output of compact"):
        run([directory], out)
    assert visible_names(out) == {"precious.txt"}
    with pytest.raises(PipelineError, match="is a file"):
        run([directory], out / "precious.txt")
    other = tmp_path / "other"
    run([directory], other)
    for content, match in (
        ("{", "is damaged"),
        ('{"format": "x", "version": 3}', "has format x 3"),
        ('{"format": "zab compact", "version": 1, "ensembles": {"a": {}}, "pending": []}', "is damaged"),
    ):
        (other / "_manifest.json").write_text(content)
        with pytest.raises(PipelineError, match=match):
            run([directory], other)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (directory,) = ensemble(tmp_path / "e", history(10))
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be written"):
        run([directory], tmp_path / "file" / "out")


@pytest.mark.parametrize("name", ["2024", "1e5", "12d", "3.", "2024-01-02", "NaN", ""])
def test_names_that_read_as_numbers_are_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="reads as a number or a date"):
        partition(name, 1, "2026-01-02")


def test_names_are_escaped_as_spark_does() -> None:
    assert partition("/data/a=b %", 1, "2026-01-02") == "ensemble=%2Fdata%2Fa%3Db %25/epoch=1/day=2026-01-02"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zab", pytest.param("zookeeper", marks=pytest.mark.java)])
def test_real_histories_come_out_whole_also_where_a_member_is_damaged(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    directories = request.getfixturevalue(f"{kind}_directories")
    assert isinstance(directories, Directories)
    copy = directories.copy(tmp_path / "copy")
    injected = damage.flip_byte(copy, 0)
    assert injected.zxids
    out = tmp_path / "out"
    (added,) = run([f"e={path}" for path in copy.members], out)
    found = set(zxids(out))
    assert {write.zxid for write in directories.writes} <= found
    assert added.last == directories.last_zxid
    assert added.transactions == len(found)
    assert set(range(injected.zxids[0], injected.zxids[1] + 1)) <= found
    if directories.kind == NATIVE:
        with pytest.raises(PipelineError, match="is missing"):
            run([copy.members[0]], tmp_path / "alone")


# -------------------------------------------------------------------------------------------------------------- Spark


@pytest.mark.spark
def test_spark_writes_and_reads_the_same_rows_as_the_logs_have(spark: SparkSession, tmp_path: Path) -> None:
    from zab.pipeline.reading.frames import read_log

    batches = history(40, 60)
    directories = ensemble(tmp_path / "e", batches, batches)
    named = [f"a.b={path}" for path in directories]
    out = str(tmp_path / "out")
    (added,) = compact(spark, named, out)
    assert added.rows == len(of(batches))
    read = spark.read.parquet(out)
    types = dict(read.dtypes)
    assert (types["ensemble"], types["epoch"], types["day"]) == ("string", "int", "date")
    columns = ["ensemble", "epoch", *COLUMNS]
    expected = read_log(spark, named, members="one").select(columns)
    assert sorted(map(tuple, read.select(columns).collect())) == sorted(map(tuple, expected.collect()))
    assert compact(spark, named, out)[0].rows == 0
    with pytest.raises(PipelineError, match="does not exist"):
        compact(spark, str(tmp_path / "none"), out)


def rows_of(*rows: tuple[int, int]) -> pa.RecordBatch:
    """(counter of the zxid, day after 1970) of each row."""
    times = [1000 * 86_400_000 * day for _, day in rows]
    columns = [pa.array([1 << 32 | counter for counter, _ in rows]), pa.array(times, pa.timestamp("us", tz="UTC"))]
    return pa.record_batch(columns, names=["zxid", "time"])


def writing(tmp_path: Path) -> _Writing:
    return _Writing(WriteTask("e", Task(), Place("", str(tmp_path))))


def test_a_multi_is_one_transaction_and_each_day_has_its_file(tmp_path: Path) -> None:
    run = writing(tmp_path)
    run.add(rows_of((1, 0), (2, 0), (2, 0), (3, 1)))
    run.finish()
    assert (run.report.transactions, run.report.runs) == (3, [(1 << 32 | 1, 1 << 32 | 3)])
    assert {part.day: part.rows for part in run.report.parts} == {"1970-01-01": 3, "1970-01-02": 1}


def test_few_files_are_open_at_once(tmp_path: Path) -> None:
    run = writing(tmp_path)
    for day in range(40):
        run.add(rows_of((day + 1, day)))
        assert len(run._open) <= 16
    run.finish()
    assert sum(part.rows for part in run.report.parts) == 40
