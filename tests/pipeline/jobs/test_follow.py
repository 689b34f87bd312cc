"""Logs into Parquet, each transaction once: through kills, with the directories that belong together, and no others."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow.parquet
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError

from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.log_writer import poll, zxids_of
from tests.rigs.quick_java import quick_java
from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from zab.cli.exits import INTERRUPTED
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.follow import Progress, follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ["zxid", "part", "checksum"]


def rows_in(out: Path) -> list[tuple[int, int | None, int]]:
    """What a different reader from Spark sees: every file of the directory."""
    files = sorted(out.glob("part-*.parquet"))
    rows = [row for file in files for row in pyarrow.parquet.read_table(file, columns=COLUMNS).to_pylist()]
    return sorted(((row["zxid"], row["part"], row["checksum"]) for row in rows), key=lambda row: (row[0], row[1] or 0))


# -------------------------------------------------------------------------------------------- one session, no violence


@pytest.mark.spark
@pytest.mark.longest
def test_what_has_come_since_is_added(spark: "SparkSession", zab_directories: Directories, tmp_path: Path) -> None:
    """A directory that logs are shipped to: first some of the files, then the rest."""
    shipped, out, checkpoint = tmp_path / "shipped", tmp_path / "out", tmp_path / "checkpoint"
    source = zab_directories.members[0] / "version-1"
    shutil.copytree(source, shipped, ignore=shutil.ignore_patterns("snapshot.*", "committed"))
    logs = zab_directories.logs(0)
    later = [shipped / path.name for path in logs[len(logs) // 2 :]]
    for path in later:
        path.unlink()
    dirs, told = [str(shipped)], []
    follow(spark, dirs, str(out), str(checkpoint), once=True, rate=2000, on_progress=told.append)
    first = rows_in(out)
    assert 0 < len(first) < len(zab_directories.writes)
    assert [progress.batch for progress in told] == list(range(len(told)))
    assert sum(progress.rows for progress in told) == len(first)
    for path in later:
        shutil.copy(source / path.name, path)
    shutil.copy(source / "committed", shipped)
    follow(spark, dirs, str(out), str(checkpoint), once=True, columns=None, on_progress=told.append)
    rows = rows_in(out)
    following, ensemble = poll(zab_directories.members[:1])
    assert list(dict.fromkeys(row[0] for row in rows)) == zxids_of(following, ensemble.route(ensemble.earliest()))
    assert len({row[:2] for row in rows}) == len(rows)
    assert isinstance(told[-1], Progress)
    assert set(told[-1].zxids.values()) == {zab_directories.last_zxid}
    written = sorted(path.name for path in out.glob("*.parquet"))
    (out / "part-00000-of-a-batch-that-was-killed.parquet").write_bytes(b"PAR1")
    follow(spark, dirs, str(out), str(checkpoint), once=True)
    assert sorted(path.name for path in out.glob("*.parquet")) == written
    assert rows_in(out) == rows


@pytest.mark.spark
@pytest.mark.longest
def test_directories_that_do_not_belong_together_are_refused(
    spark: "SparkSession", zab_directories: Directories, zookeeper_directories: Directories, tmp_path: Path
) -> None:
    dirs = [str(path) for path in zab_directories.members]
    out, checkpoint, beside = str(tmp_path / "out"), str(tmp_path / "checkpoint"), str(tmp_path / "beside")
    follow(spark, dirs, out, checkpoint, once=True, columns=["zxid"])
    written = sorted(os.listdir(out))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").touch()
    attempts = [
        (dirs, beside, checkpoint, f"{checkpoint} does not belong to {beside}"),
        (dirs, out, beside, f"{out} was not written with the checkpoint {beside}"),
        (dirs, str(foreign), beside, f"{foreign} is not empty, and unknown to {beside}"),
        (dirs, beside, str(foreign), f"{foreign} is not empty, and is no checkpoint of this command"),
        (dirs, beside, str(foreign / "notes.txt"), "cannot be used for a checkpoint"),
        ([str(path) for path in zookeeper_directories.members], out, checkpoint, "the checkpoint follows the ensemble"),
        ([str(tmp_path / "nowhere")], beside, beside + "2", "nowhere does not exist"),
    ]
    for wrong_dirs, wrong_out, wrong_checkpoint, sentence in attempts:
        with pytest.raises(PipelineError) as raised:
            follow(spark, wrong_dirs, wrong_out, wrong_checkpoint, once=True)
        assert sentence in str(raised.value)
    with pytest.raises(PipelineError, match="there is no column colour"):
        follow(spark, dirs, beside, beside + "2", columns=["colour"], once=True)
    with pytest.raises(PipelineError, match=" is not there: the logs end at "):
        follow(spark, dirs, beside + "3", beside + "4", starting=1 << 60, once=True)
    assert not os.path.exists(beside + "3")
    assert sorted(os.listdir(out)) == written
    follow(spark, dirs, out, checkpoint, once=True, columns=["zxid"])


@pytest.mark.spark
@pytest.mark.longest
def test_damage_that_only_reading_finds_is_a_sentence(
    spark: "SparkSession", zab_directories: Directories, tmp_path: Path
) -> None:
    """In a closed file, which its index says is whole: a task of Spark fails, and says why. Mended, it goes on."""
    copy = zab_directories.copy(tmp_path)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    dirs = [str(copy.members[0])]
    injected = damage.flip_byte(copy, where="record")
    with pytest.raises(
        PipelineError, match=rf"^\S+{injected.file.name} is damaged at offset \d+: checksum of the batch"
    ):
        follow(spark, dirs, out, checkpoint, once=True)
    damaged = rows_in(tmp_path / "out")
    follow(spark, [*dirs, str(copy.members[1])], out, checkpoint, once=True)
    following, ensemble = poll(zab_directories.members[:1])
    expected = zxids_of(following, ensemble.route(ensemble.earliest()))
    assert list(dict.fromkeys(row[0] for row in rows_in(tmp_path / "out"))) == expected
    assert len(damaged) < len(expected)


@pytest.mark.spark
def test_a_checkpoint_in_use_is_refused(spark: "SparkSession", zab_directories: Directories, tmp_path: Path) -> None:
    import fcntl

    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    with (checkpoint / ".zab_follow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PipelineError, match="is in use by another process"):
            follow(spark, [str(zab_directories.members[0])], str(tmp_path / "out"), str(checkpoint), once=True)


def test_a_full_disk_is_named() -> None:
    from pyspark.errors import PySparkException

    from zab.pipeline.jobs import follow as module

    with (
        pytest.raises(PipelineError, match=r"no space is left for /out, /checkpoint or"),
        module._full_disk_named("/out", "/checkpoint"),
    ):
        raise PySparkException("Job aborted: java.io.IOException: No space left on device\n\tat java.base/…")
    with pytest.raises(PySparkException), module._full_disk_named("/out", "/checkpoint"):
        raise PySparkException("Job aborted: java.io.IOException: Connection reset")


@pytest.mark.spark
def test_a_long_list_of_files_is_read_from_its_summary(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark sums its list up every ten batches; files of older ones may be gone by then."""
    from zab.pipeline.jobs import follow as module

    metadata = tmp_path / "_spark_metadata"
    metadata.mkdir()

    def write(name: str, *paths: str) -> None:
        lines = [json.dumps({"path": f"file:///out/{path}", "action": "add"}) for path in paths]
        (metadata / name).write_text("\n".join(["v1", *lines]))

    write("8", "a")
    write("9.compact", "a", "b")
    write("10", "c")
    named = sorted(module._named(module._Files(spark), str(metadata)))
    assert named == ["a", "b", "c"]


# ------------------------------------------------------------------------------------------------ kill -9, three times


class Writing:
    """A client that writes until it is told to stop, through changes of leader."""

    def __init__(self, hosts: str) -> None:
        self.client = KazooClient(hosts, timeout=20.0)
        self.acknowledged: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self.client.start(timeout=60)
        self.client.create("/kill", b"")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.client.stop()
        self.client.close()

    def _write(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            pending = [self.client.set_async("/kill", b"%d" % number) for _ in range(20)]
            transaction = self.client.transaction()
            transaction.create(f"/kill/{number}", b"one")
            transaction.set_data("/kill", b"other")
            pending_parts = transaction.commit_async()
            for asked in pending:
                try:
                    self.acknowledged.append(asked.get(timeout=20).mzxid)
                except (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError):
                    time.sleep(0.05)
            pending_parts.wait(timeout=20)
            self._over.wait(0.1)


@contextmanager
def driver(dirs: list[Path], out: Path, checkpoint: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`zab pipeline follow`, with the JVM in one group of processes of its own, which is killed in the end."""
    options = [
        "--rate",
        "300",
        "--every",
        "0.1",
        "--memory",
        "512m",
        "--out",
        str(out),
        "--checkpoint",
        str(checkpoint),
    ]
    command = [sys.executable, "-m", "zab.cli.main", "pipeline", "follow", *map(str, dirs), *options]
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(quick_java("spark"))}
    with (out.parent / "driver.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def numbers(directory: Path) -> set[int]:
    """The numbers of the batches that have a file there."""
    if not directory.exists():
        return set()
    names = (name.removesuffix(".compact") for name in os.listdir(directory))
    return {int(name) for name in names if name.isdecimal()}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.longest
def test_each_transaction_once_across_kills_of_driver_and_jvm(spark: "SparkSession", tmp_path: Path) -> None:
    out, checkpoint, log = tmp_path / "out", tmp_path / "checkpoint", tmp_path / "driver.log"
    offsets, commits, named = checkpoint / "offsets", checkpoint / "commits", out / "_spark_metadata"
    points: dict[str, Callable[[], bool]] = {
        "in a batch": lambda: len(numbers(offsets) - numbers(commits)) == 1 and len(numbers(commits)) > 1,
        "when its files are named, before the batch is done": lambda: bool(numbers(named) - numbers(commits)),
        "Ctrl-C": lambda: len(numbers(commits)) > started + 1,
    }
    configuration = {"preAllocSize": 64, "snapCount": 3000, "autopurge.purgeInterval": 0, "tickTime": 500}
    with zab_servers(3, directory=tmp_path / "servers", configuration=configuration) as ensemble:
        dirs = [member.data_directory for member in ensemble.members]
        with Writing(ensemble.hosts) as writing:
            for what, is_there in points.items():
                started = len(numbers(commits))
                with driver(dirs, out, checkpoint) as process:
                    wait_for(is_there, process, what, log)
                    if what == "Ctrl-C":
                        os.killpg(process.pid, signal.SIGINT)
                        assert process.wait(LONG_PATIENCE_SECONDS) == INTERRUPTED
                if started == 0:
                    killed = ensemble.leader()
                    killed.kill()
                    killed.start()
        ensemble.wait()
        written = len(numbers(commits))
        wait_until_idle(dirs)
    # The members are gone, so that nothing comes after what is followed here: a session that expires would.
    follow(spark, map(str, dirs), str(out), str(checkpoint), once=True)
    following, ensembles = poll(dirs)
    expected = zxids_of(following, ensembles.route(0))
    rows = rows_in(out)
    assert list(dict.fromkeys(row[0] for row in rows)) == expected
    assert len({row[:2] for row in rows}) == len(rows)
    assert set(writing.acknowledged) <= set(expected)
    by_spark = {tuple(row) for row in spark.read.parquet(str(out)).select(COLUMNS).collect()}
    assert by_spark == set(rows)
    assert len(numbers(commits)) > written >= 4
    said = [line for line in log.read_text().splitlines() if not line.startswith("zab: ")]
    assert said == []


def wait_for(is_there: Callable[[], bool], process: "subprocess.Popen[bytes]", what: str, log: Path) -> None:
    deadline = time.monotonic() + LONG_PATIENCE_SECONDS
    while not is_there():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"not reached: {what}\n{log.read_text()}"
        time.sleep(0.002)


def wait_until_idle(dirs: list[Path]) -> None:
    """Until every member has said how far it is committed, as it does when nothing is written for a while."""
    deadline, before = time.monotonic() + LONG_PATIENCE_SECONDS, None
    while (now := [(path / "version-1" / "committed").read_bytes() for path in dirs]) != before or len(set(now)) > 1:
        assert time.monotonic() < deadline
        before = now
        time.sleep(0.3)
