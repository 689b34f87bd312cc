"""What is made once for a whole run: the Spark session, and the files that ensembles left.

Files are made by the worker that needs them first; the others wait for it and read the same ones. They are shared: a
test that changes one takes a copy first. Each worker that needs Spark has a session of its own.
"""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.pipeline.rigs.ensembles import Directories, zab_run, zookeeper_run
from tests.rigs.quick_java import quick_java
from tests.rigs.zookeeper_data import RealFiles, make_real_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["real_files", "spark", "zab_directories", "zookeeper_directories"]

SPARK_SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": " ".join([*quick_java("spark"), "-Xmn500m"]),
}
"""For short queries: nothing is compiled or checked that runs once, and nothing is planned again while it runs. The
cluster's tests run with Spark's own settings."""

Made = TypeVar("Made")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Importing this module costs nothing without it.
    from zab.pipeline.spark_session import job_session

    with job_session("local[2]", name="zab tests", memory="1g", log_level="error", settings=SPARK_SETTINGS) as session:
        yield session


@pytest.fixture(scope="session")
def zab_directories(tmp_path_factory: pytest.TempPathFactory) -> Directories:
    """What three of our members left."""
    return once_a_run(tmp_path_factory, "zab-directories", zab_run)


@pytest.fixture(scope="session")
def zookeeper_directories(tmp_path_factory: pytest.TempPathFactory) -> Directories:
    """What three members of the real ZooKeeper left."""
    return once_a_run(tmp_path_factory, "zookeeper-directories", zookeeper_run)


@pytest.fixture(scope="session")
def real_files(tmp_path_factory: pytest.TempPathFactory) -> RealFiles:
    """What one real ZooKeeper left that was loaded with every kind of transaction."""
    return once_a_run(tmp_path_factory, "zookeeper-files", make_real_files)


def once_a_run(directories: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """What `make(directory)` returns; the first worker to come here makes it, or the next one, should that fail."""
    shared = directories.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = shared / f"{name}.pickle"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_bytes(pickle.dumps(make(directories.mktemp(name))))
        found: Made = pickle.loads(made.read_bytes())
    return found
