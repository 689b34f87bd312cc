"""Every job of `zab pipeline` on a standalone cluster with two workers, to which the package is shipped."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.pipeline.rigs.cluster import EXECUTOR_SETTINGS, Cluster, spark_cluster
from tests.pipeline.rigs.ensembles import Directories
from zab.cli.pipeline.jobs import JOBS
from zab.pipeline.shipping import package_archive
from zab.pipeline.spark_session import spark_home

pytestmark = pytest.mark.cluster

LINE_SECONDS_MAX = 240.0


class Driver:
    """`cluster_jobs`, and what it has said so far: of the workers under the name "", and of each job."""

    def __init__(self, cluster: Cluster, out: Path, dirs: list[str]) -> None:
        self.cluster = cluster
        self.out = out
        self.said: dict[str, Any] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.rigs.cluster_jobs", cluster.url, str(out), *dirs],
            env={**cluster.environment, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdout=subprocess.PIPE,
            text=True,
        )

    def of(self, name: str) -> Any:
        """What it says of this; waits for it."""
        assert self.process.stdout is not None
        watch = threading.Timer(LINE_SECONDS_MAX, self.process.kill)
        watch.start()
        try:
            while name not in self.said:
                line = self.process.stdout.readline()
                assert line, f"the driver ended before {name or 'its first job'}\n{self.cluster.log_text()}"
                found = json.loads(line)
                self.said[found["name"]] = found
        finally:
            watch.cancel()
        return self.said[name]

    def end(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def driver(zab_directories: Directories, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    top = tmp_path_factory.mktemp("cluster")
    out = top / "out"
    out.mkdir()
    with spark_cluster(workers=2, directory=top / "spark") as cluster:
        driver = Driver(cluster, out, [str(path) for path in zab_directories.members])
        try:
            yield driver
        finally:
            driver.end()


@pytest.mark.longest
def test_workers_run_what_was_shipped_to_them(driver: Driver) -> None:
    """It is installed in their Python, too: the archive has to come first."""
    workers = driver.of("")["workers"]
    executors = driver.cluster.work_directories()
    (archive,) = {file.name for path in executors for file in path.glob("zab-*.zip")}
    assert {file for file, _ in workers} == {f"./{archive}/zab/pipeline/schema.py"}
    assert {os.path.realpath(path) for _, path in workers} == {os.path.realpath(path) for path in executors}
    assert len(executors) == 2


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "audit" else pytest.mark.longest) for name in JOBS]
)
@pytest.mark.long
def test_job_runs_on_the_cluster(name: str, driver: Driver) -> None:
    job, definition = driver.of(name), JOBS[name]
    assert job["code"] == 0, job["said"]
    if definition.gives_rows and not definition.example:
        assert pyarrow.parquet.read_table(driver.out / name / "rows.parquet").num_columns > 0
    if "{out}" in " ".join(definition.example):
        assert any((driver.out / name).iterdir()), job["said"]


def test_rows_are_those_of_the_log(driver: Driver, zab_directories: Directories) -> None:
    """One job that has something to say of each write, and the stream, which has them all."""
    driver.of("follow")
    followed = pyarrow.parquet.ParquetDataset(sorted((driver.out / "follow" / "rows").glob("*.parquet")))
    zxids = set(followed.read(["zxid"])["zxid"].to_pylist())
    assert {write.zxid for write in zab_directories.writes} <= zxids
    driver.of("audit")
    changed = pyarrow.parquet.read_table(driver.out / "audit" / "rows.parquet", columns=["zxid"])
    done = {write.zxid for write in zab_directories.writes if write.operation == "setData"}
    assert done <= set(changed["zxid"].to_pylist())


SUBMITTED = """
import sys

import zab.pipeline.schema
from zab.pipeline import read_log
from zab.pipeline.spark_session import job_session

with job_session() as spark:
    rows = read_log(spark, sys.argv[1:], columns=["zxid", "path"], members="one")
    print(zab.pipeline.schema.__file__, spark.sparkContext.master, rows.select("zxid").distinct().count())
"""
"""As docs/reference/pipeline.md shows it."""


@pytest.mark.long
def test_a_program_is_submitted(driver: Driver, zab_directories: Directories, tmp_path: Path) -> None:
    """With the archive given to `--py-files`; it asks for no cluster, since it has been given one."""
    for name in JOBS:
        driver.of(name)
    assert driver.process.wait(LINE_SECONDS_MAX) == 0, "it has all cores until it ends"
    archive = package_archive(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    settings = [word for key, value in EXECUTOR_SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", driver.cluster.url, "--py-files", str(archive)]
    done = subprocess.run(
        [*submit, "--driver-memory", "512m", *settings, str(program), *map(str, zab_directories.members)],
        env=driver.cluster.environment,
        capture_output=True,
        text=True,
        timeout=LINE_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    file, url, count = done.stdout.split()
    assert (file, url) == (f"{archive}/zab/pipeline/schema.py", driver.cluster.url)
    assert int(count) >= len(zab_directories.writes)
