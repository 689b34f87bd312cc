"""A standalone Spark cluster on this machine, from the installed PySpark: its heads, its workers, its applications.

    with spark_cluster(workers=2) as cluster:
        subprocess.run([...], env=cluster.environment)     # a driver, with `cluster.url`
    with spark_cluster(heads=2, zookeeper_hosts=ensemble.hosts) as cluster:
        cluster.active().kill()                            # the standby takes over; None where none leads

What Spark calls a master is a head here. Everything listens on free loopback ports. Leaving the block ends exactly the
processes started in it, whatever happened inside: workers are asked first, so that they end their executors; what does
not end is killed; and should this process itself be killed, a watchdog per daemon ends it. An executor ends by itself
when its worker is gone, a Python worker when its executor is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.rigs.processes import GuardedProcess
from tests.rigs.quick_java import quick_java
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.pipeline.java import spark_java_home
from zab.pipeline.spark_session import spark_home
from zab.testing.kit.ports import free_ports

HEAD, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = " ".join([*quick_java("spark"), f"-Dlog4j2.configurationFile={_LOGGING}"])
WORKER_MEMORY = "600m"
EXECUTOR_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}
"""For the drivers of tests: two executors of one core each, small, and quick to start."""

_STOP_SECONDS = 10.0
_PROBE_SECONDS = 0.05


class ClusterError(Exception):
    """Spark's daemons did not do what the test needs; the text has what they said."""


def wait_for(condition: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + patience_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"not within {patience_seconds:g} s: {what}")
        time.sleep(_PROBE_SECONDS)


@dataclass
class Daemon(GuardedProcess):
    """One head or worker. `web_port` answers /json/ with what it knows."""

    name: str
    web_port: int
    command: list[str]
    environment: dict[str, str]
    log: Path

    @property
    def journal(self) -> Path:
        return self.log

    def start(self, **popen: Any) -> Self:
        # spark-class replaces itself by the JVM: its pid is the daemon's.
        return super().start(env=self.environment, **popen)

    def status(self) -> dict[str, Any]:
        """What /json/ says; empty while nobody answers, or one that ends breaks off in the middle."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=5) as answer:
                found = json.load(answer)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return {}
        assert isinstance(found, dict)
        return found

    def check(self) -> None:
        if not self.running:
            raise ClusterError(f"{self.name} ended:\n{self.log_text()[-4000:]}")


@dataclass
class Cluster:
    """The daemons, all started. `url` names every head; `environment` is what a driver's process needs."""

    url: str
    directory: Path
    environment: dict[str, str]
    heads: list[Daemon] = field(default_factory=list)
    workers: list[Daemon] = field(default_factory=list)

    def active(self) -> Daemon | None:
        """The head that leads; None when none says so now."""
        return next((head for head in self.heads if head.running and _leads(head.status())), None)

    def status(self) -> dict[str, Any]:
        """What the head that leads says; empty while none does."""
        found = (head.status() for head in self.heads if head.running)
        return next(filter(_leads, found), {})

    def has_workers(self, count: int) -> bool:
        """Whether the head that leads has that many workers. Raises ClusterError when a daemon ended."""
        for daemon in (*self.heads, *self.workers):
            daemon.check()
        return self.status().get("aliveworkers") == count

    def work_directories(self) -> list[Path]:
        """The directories of all executors so far, each with its stderr and the files that were shipped to it."""
        return sorted(path for path in self.directory.glob("worker*/work/*/*") if path.is_dir())

    def log_text(self) -> str:
        """The end of what everybody said, for the message of a failure."""
        files = [daemon.log for daemon in (*self.heads, *self.workers)]
        files += [path / "stderr" for path in self.work_directories()]
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files if file.exists())


def _leads(status: dict[str, Any]) -> bool:
    return status.get("status") == "ALIVE"


@contextlib.contextmanager
def spark_cluster(
    *,
    workers: int = 2,
    heads: int = 1,
    zookeeper_hosts: str | None = None,
    directory: Path | None = None,
    java_home: Path | None = None,
) -> Iterator[Cluster]:
    """A head that leads and `workers` of one core each that know it, when the block is entered.

    zookeeper_hosts: an ensemble through which several heads elect the one that leads and keep what it knows.
    directory: for logs and work, else a temporary one. java_home: else the one that Spark gets from us."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="zab-cluster-", ignore_cleanup_errors=True)
            directory = Path(stack.enter_context(temporary))
        environment = _environment(directory, java_home or spark_java_home(), zookeeper_hosts)
        ports = free_ports(2 * heads + workers)
        url = "spark://" + ",".join(f"127.0.0.1:{port}" for port in ports[:heads])
        cluster = Cluster(url, directory, _driver_environment(environment))
        stack.callback(_end, cluster)
        for number, (port, web_port) in enumerate(zip(ports[:heads], ports[heads : 2 * heads], strict=True), 1):
            cluster.heads.append(_head(number, port, web_port, environment, directory))
            cluster.heads[-1].start()
        # A worker that finds nobody tries again after 5 s at the earliest.
        wait_for(lambda: _all_answer(cluster.heads) and cluster.active() is not None, "a head that leads")
        for number, web_port in enumerate(ports[2 * heads :], 1):
            cluster.workers.append(_worker(number, url, web_port, environment, directory))
            cluster.workers[-1].start()
        wait_for(lambda: cluster.has_workers(workers), f"{workers} workers")
        yield cluster


def _all_answer(heads: list[Daemon]) -> bool:
    for head in heads:
        head.check()
    return all(head.status() for head in heads)


def _end(cluster: Cluster) -> None:
    for worker in cluster.workers:
        worker.ask_to_end()
    for worker in cluster.workers:
        worker.stop(_STOP_SECONDS)
    for head in cluster.heads:
        head.kill()


def _environment(directory: Path, java_home: Path, zookeeper_hosts: str | None) -> dict[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    options = [JAVA_OPTIONS]
    if zookeeper_hosts is not None:
        options += [
            "-Dspark.deploy.recoveryMode=ZOOKEEPER",
            f"-Dspark.deploy.zookeeper.url={zookeeper_hosts}",
            "-Dspark.deploy.zookeeper.dir=/spark",
        ]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _driver_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """A driver finds Java, Spark and Python by itself; only its files are kept together with the rest."""
    return {name: value for name, value in environment.items() if name not in ("SPARK_HOME", "SPARK_DAEMON_JAVA_OPTS")}


def _head(number: int, port: int, web_port: int, environment: dict[str, str], directory: Path) -> Daemon:
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_port)]
    command = [str(spark_home() / "bin" / "spark-class"), HEAD, *arguments]
    return Daemon(f"head {number}", web_port, command, environment, directory / f"head{number}.log")


def _worker(number: int, url: str, web_port: int, environment: dict[str, str], directory: Path) -> Daemon:
    work = directory / f"worker{number}" / "work"
    work.mkdir(parents=True, exist_ok=True)
    arguments = ["--host", "127.0.0.1", "--webui-port", str(web_port), "--cores", "1", "--memory", WORKER_MEMORY]
    command = [str(spark_home() / "bin" / "spark-class"), WORKER, *arguments, "--work-dir", str(work), url]
    return Daemon(f"worker {number}", web_port, command, environment, directory / f"worker{number}.log")
