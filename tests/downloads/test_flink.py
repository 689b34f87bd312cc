"""Flink's connector for Kafka, unmodified, copies a topic exactly once: on our broker as on Kafka's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.downloads.kafka import jars
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

VERSION = "2.2.1"
CONNECTOR_VERSION = "5.0.0-2.2"
PROGRAM = Path(__file__).parent / "clients" / "FlinkProgram.java"
EXPECTED = ["failures: 1", "found: 1500 of 1500, complete true, repeated 0", "committed: 2", "states: 0"]


def flink_jars() -> Path:
    """The directory with the jars of Flink and its connector. Skips the test where they cannot be had."""
    own = (f"org.apache.flink:flink-{each}:{VERSION}" for each in ("clients", "streaming-java", "connector-base"))
    connector = f"org.apache.flink:flink-connector-kafka:{CONNECTOR_VERSION}"
    return jars(f"flink-kafka-{CONNECTOR_VERSION}", *own, connector, "org.slf4j:slf4j-nop:1.7.36")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path with the program, compiled: Flink loads its functions by their names."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")
    place = tmp_path_factory.mktemp("flink")
    found = f"{flink_jars()}/*"
    subprocess.run(
        ["javac", "-classpath", found, "-d", str(place), str(PROGRAM)],
        check=True,
        capture_output=True,
        timeout=LONG_PATIENCE_SECONDS,
    )
    return f"{place}:{found}"


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_a_job_that_fails_once_copies_each_record_once(
    request: pytest.FixtureRequest, classes: str, whose: str
) -> None:
    address = request.getfixturevalue(whose)
    options = ("-Xmx512m", *QUICK, "--add-opens", "java.base/java.util=ALL-UNNAMED", "-classpath", classes)
    ran = subprocess.run(
        ["java", *options, "FlinkProgram", address],
        capture_output=True,
        text=True,
        timeout=LONG_PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    assert ran.stdout.splitlines() == EXPECTED
