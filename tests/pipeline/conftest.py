"""One Spark session for all tests of the pipeline that need one; importing this costs nothing without it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.rigs.ensembles import zab_directories, zookeeper_directories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark", "zab_directories", "zookeeper_directories"]

TEST_SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn500m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}
"""For short queries: nothing is compiled or checked that runs once, and nothing is planned again while it runs. The
cluster's tests run with Spark's own settings."""


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from zab.pipeline.spark_session import job_session

    with job_session("local[2]", name="zab tests", memory="1g", log_level="error", settings=TEST_SETTINGS) as session:
        yield session
