"""What every command of the pipeline says of input that cannot be used, end to end: one sentence, an exit code, nothing
left half written, and no stack trace.

The cases go through all of `JOBS`, so that a new command has to behave as well.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.datatree.histories import Author
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.load import Recorder, Worker, connect, disconnect, every_kind
from tests.rigs.zab_server import zab_servers
from zab.cli.main import main
from zab.cli.pipeline.jobs import JOBS
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError
from zab.pipeline.output import Target
from zab.pipeline.places import open_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

READING = sorted(name for name, job in JOBS.items() if job.takes_dirs)
SMALL_DISK_KIB = 64


class Zab:
    """Runs `zab` in this process; `out` and `err` of the last run."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        with pytest.raises(SystemExit) as ending:
            main([str(word) for word in words])
        self.out, self.err = self._capfd.readouterr()
        assert "Traceback" not in self.err + self.out
        return int(ending.value.code or 0)

    def job(self, name: str, dirs: Sequence[object], place: Path, *words: object) -> int:
        """One of `JOBS`, with the least that it needs; its output belongs into `place`."""
        place.mkdir(exist_ok=True)
        return self("pipeline", name, *dirs, *(word.format(out=place) for word in JOBS[name].example), *words)

    def refused(self, name: str, dirs: Sequence[object], place: Path, *words: object) -> str:
        """The sentence with which the job fails, having written nothing."""
        code = self.job(name, dirs, place, *words)
        lines = self.err.splitlines()
        assert (code, self.out, len(lines)) == (1, "", 1), (code, self.out, self.err)
        assert lines[0].startswith("zab: ")
        assert not [path for path in place.rglob("*") if path.is_file()]
        return lines[0].removeprefix("zab: ")


@pytest.fixture
def zab(capfd: pytest.CaptureFixture[str]) -> Zab:
    return Zab(capfd)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with directories is said before Spark takes its time to start."""

    def start(*_arguments: object, **_options: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("zab.pipeline.spark_session.job_session", start)


@pytest.fixture
def quiet_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as `zab` starts it: what goes wrong comes as an exception, Spark's own log would say it again."""
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")


def dirs_of(directories: Directories) -> list[Path]:
    return list(directories.members)


# Directories.


@pytest.mark.parametrize("name", READING)
@pytest.mark.usefixtures("no_spark")
def test_a_directory_that_does_not_exist(zab: Zab, name: str, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert zab.refused(name, [absent], tmp_path / "out") == f"{absent} does not exist"


@pytest.mark.parametrize("name", READING)
@pytest.mark.usefixtures("no_spark")
def test_a_directory_without_anything(zab: Zab, name: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    sentence = zab.refused(name, [empty], tmp_path / "out")
    assert sentence.startswith(f"{empty} holds no logs and no snapshots")


@pytest.mark.parametrize("name", READING)
@pytest.mark.usefixtures("no_spark")
def test_a_file_is_no_directory(zab: Zab, name: str, tmp_path: Path) -> None:
    file = tmp_path / "log.1"
    file.write_bytes(b"ZLOG")
    assert zab.refused(name, [file], tmp_path / "out").startswith(f"{file} is a file")


@pytest.mark.parametrize("name", READING)
@pytest.mark.java
@pytest.mark.usefixtures("no_spark")
def test_a_directory_that_mixes_versions(
    zab: Zab, name: str, zab_directories: Directories, zookeeper_directories: Directories, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    mixed = damage.mixed_versions(copy, zookeeper_directories)
    sentence = zab.refused(name, [mixed], tmp_path / "out")
    assert sentence.startswith(f"{mixed} holds both version-1 and version-2")
    both = tmp_path / "both"
    shutil.copytree(copy.members[1] / "version-1", both)
    shutil.copy(zookeeper_directories.logs()[0], both)
    assert zab.refused(name, [both], tmp_path / "out") == f"{both} mixes files of zab and of ZooKeeper"


# A state may be that of a snapshot, snapshots may be compared, and a directory may be followed before it has logs.
@pytest.mark.parametrize("name", sorted(set(READING) - {"state", "diff", "verify", "follow"}))
def test_a_directory_with_snapshots_alone(
    zab: Zab, name: str, zab_directories: Directories, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    for member in range(3):
        damage.without_logs(copy, member)
    sentence = zab.refused(name, dirs_of(copy), tmp_path / "out")
    assert "no logs" in sentence or "no transactions" in sentence


def another_ensemble(place: Path) -> Path:
    """A member's directory of another lineage."""
    from datatree.log.transaction_log import LogContents, TransactionLog
    from tests.datatree.histories import LINEAGE, START

    place.mkdir()
    author = Author()
    log = TransactionLog(RealDisk(str(place)), LogContents(LINEAGE, [], START, 0))
    for _ in range(5):
        log.append([author.batch(3)])
    log.close()
    return place


@pytest.mark.parametrize("name", READING)
@pytest.mark.usefixtures("no_spark")
def test_a_directory_of_another_ensemble(zab: Zab, name: str, zab_directories: Directories, tmp_path: Path) -> None:
    other = another_ensemble(tmp_path / "other")
    sentence = zab.refused(name, [f"prod={zab_directories.members[0]}", f"prod={other}"], tmp_path / "out")
    assert "prod" in sentence
    assert str(other) in sentence


@pytest.mark.java
@pytest.mark.parametrize("name", ["audit", "report"])
@pytest.mark.usefixtures("quiet_spark")
def test_one_member_of_zookeeper_alone(zab: Zab, name: str, zookeeper_directories: Directories, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    assert zab.job(name, [zookeeper_directories.members[0]], place) == 1
    assert "give the directories of a majority" in zab.err
    assert list(place.iterdir()) == []


# Ranges.


@pytest.mark.parametrize("name", sorted(name for name in READING if JOBS[name].takes_range))
def test_a_range_outside_of_what_is_kept(
    zab: Zab, name: str, zab_directories: Directories, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    dirs, beyond = dirs_of(zab_directories), f"{zab_directories.last_zxid + 1:#x}"
    assert beyond in zab.refused(name, dirs, tmp_path / "out", "--zxid-min", beyond)
    if name == "audit":
        assert "2099" in zab.refused(name, dirs, tmp_path / "out", "--since", "2099-01-01T00:00:00Z")
        assert "1999" in zab.refused(name, dirs, tmp_path / "out", "--until", "1999-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "words", [("--zxid-min", "0x5", "--zxid-max", "0x4"), ("--since", "2026-02-01", "--until", "2026-01-01")]
)
@pytest.mark.usefixtures("no_spark")
def test_an_empty_range(zab: Zab, words: tuple[str, ...], zab_directories: Directories, tmp_path: Path) -> None:
    assert zab.job("audit", dirs_of(zab_directories), tmp_path / "out", *words) in (1, 2)
    assert zab.out == ""


# Outputs.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of SMALL_DISK_KIB; skipped where this process may not mount one: see the limit on file sizes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_KIB}k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a file system")
    yield place
    # Lazily: a task of Spark's that was cancelled may not have closed its part yet.
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("out", ["changes.json", "changes.parquet", "parts"])
@pytest.mark.long
def test_a_full_disk(
    zab: Zab, out: str, zab_directories: Directories, quiet_spark: SparkSession, small_disk: Path
) -> None:
    code = zab("pipeline", "audit", *dirs_of(zab_directories), "--out", small_disk / out)
    (line,) = zab.err.splitlines()
    assert (code, line[: len(f"zab: {small_disk}")]) == (1, f"zab: {small_disk}")
    assert line.endswith(" cannot be written: the disk is full")
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_for_a_page(small_disk: Path) -> None:
    out = small_disk / "report.html"
    with pytest.raises(PipelineError, match="cannot be written: the disk is full"):
        Target(open_place(str(out)), "html", is_file=True, overwrite=False).write_bytes(bytes(SMALL_DISK_KIB << 11))
    assert list(small_disk.iterdir()) == []


def test_a_limit_on_the_size_of_files(zab_directories: Directories, tmp_path: Path) -> None:
    """The way that needs no mount: what is written meets a limit, in a process of its own, which needs no Spark."""
    place = tmp_path / "restored"
    place.mkdir()
    words = ["restore", *map(str, zab_directories.members), "--to", f"1={place / 'member'}"]
    limited = subprocess.run(
        [sys.executable, "-m", "zab.cli.main", *words],
        capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert limited.returncode == 1, limited
    assert "Traceback" not in limited.stderr
    assert limited.stderr.startswith("zab: ")
    assert "File too large" in limited.stderr
    assert not [path for path in place.rglob("*") if path.is_file()]


def test_an_output_that_is_there_already(zab: Zab, zab_directories: Directories, tmp_path: Path) -> None:
    out = tmp_path / "precious.json"
    out.write_text("precious")
    assert zab("pipeline", "audit", *dirs_of(zab_directories), "--out", out) == 1
    assert zab.err == f"zab: {out} is there already; --overwrite replaces it\n"
    assert out.read_text() == "precious"


@pytest.mark.longest
def test_a_checkpoint_of_other_directories(
    zab: Zab, zab_directories: Directories, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    other = another_ensemble(tmp_path / "other")
    follow = ("--out", tmp_path / "rows", "--checkpoint", tmp_path / "checkpoint", "--once")
    assert zab("pipeline", "follow", *dirs_of(zab_directories), *follow) == 0
    before = sorted(path for path in (tmp_path / "rows").rglob("*"))
    assert zab("pipeline", "follow", other, *follow) == 1
    (line,) = zab.err.splitlines()
    assert line.startswith("zab: ")
    assert "checkpoint" in line
    assert sorted(path for path in (tmp_path / "rows").rglob("*")) == before


# Damage, and directories that are in use.


@pytest.mark.long
def test_damage_is_never_left_out_in_silence(
    zab: Zab, zab_directories: Directories, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    injected = damage.flip_byte(copy)
    out = tmp_path / "changes.json"
    assert zab("pipeline", "audit", copy.members[0], "--out", out) == 0
    assert injected.file.name in zab.err
    assert injected.zxids is not None
    zxids = {json.loads(line)["zxid"] for line in out.read_text().splitlines()}
    assert len(zxids) > 1000
    assert not zxids & set(range(injected.zxids[0], injected.zxids[1] + 1))
    # With another member beside it nothing is missing, and there is nothing to say.
    assert zab("pipeline", "audit", *copy.members[:2], "--out", out, "--overwrite") == 0
    assert injected.file.name not in zab.err
    assert zxids < {json.loads(line)["zxid"] for line in out.read_text().splitlines()}


@pytest.mark.long
def test_stray_files_change_nothing(
    zab: Zab, zab_directories: Directories, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    whole, strayed = tmp_path / "whole.csv", tmp_path / "strayed.csv"
    assert zab("pipeline", "audit", copy.members[0], "--out", whole) == 0
    damage.stray_files(copy)
    damage.empty_segment(copy)
    assert zab("pipeline", "audit", copy.members[0], "--out", strayed) == 0
    assert strayed.read_bytes() == whole.read_bytes()


def wait_for_writes(workers: Sequence[Worker], count: int) -> None:
    """Until so many more were acknowledged."""
    deadline = time.monotonic() + 120
    until = acknowledged_by(workers) + count
    while acknowledged_by(workers) < until:
        assert time.monotonic() < deadline, "no writes get through"
        time.sleep(0.02)


def acknowledged_by(workers: Sequence[Worker]) -> int:
    return sum(len(worker.recorder.writes) for worker in workers)


@pytest.mark.longest
def test_directories_that_are_being_written(zab: Zab, quiet_spark: SparkSession, tmp_path: Path) -> None:
    configuration = {"tickTime": 500, "snapCount": 300, "preAllocSize": 64, "autopurge.purgeInterval": 0}
    configuration |= {"maxSessionTimeout": 60_000}
    # Without a change of leader: each would leave writes in the log that nobody got an answer to.
    with zab_servers(3, directory=tmp_path / "running", configuration=configuration) as ensemble:
        founder = Recorder(connect(ensemble.hosts))
        every_kind(founder)
        workers = [Worker(ensemble.hosts, number, seed=7) for number in range(2)]
        for worker in workers:
            worker.start()
        try:
            dirs = [member.data_directory for member in ensemble.members]
            acknowledged: list[set[int]] = []
            shown: list[set[int]] = []
            for number in range(2):
                wait_for_writes(workers, 250)
                acknowledged.append({write.zxid for worker in workers for write in list(worker.recorder.writes)})
                out = tmp_path / f"changes{number}.json"
                assert zab("pipeline", "audit", *dirs, "--subtree", "/load", "--out", out) == 0
                told = rf"zab: [0-9,]+ rows in {out}\nzab: \w+ has zxids .*, from its beginning\n"
                assert re.fullmatch(told, zab.err)
                shown.append({json.loads(line)["zxid"] for line in out.read_text().splitlines()})
        finally:
            for worker in workers:
                worker.finish()
            disconnect(founder.client)
        written = {write.zxid for worker in workers for write in worker.recorder.writes}
    assert shown[0] < shown[1]
    # What was seen lies below the mark: none of it is anything but an answered write, or one under way.
    for seen, known in zip(shown, acknowledged, strict=True):
        assert len(seen) > 50
        assert max(seen) > sorted(known)[len(known) // 2]
        assert len(seen - written) <= 4
