"""Kafka Streams, unmodified, counts words exactly once: on our broker as on Kafka's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.downloads.kafka import VERSION, stream_jars
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "clients" / "KafkaStreamsProgram.java"
RIGHT = "counts: 5600 of 5600, wrong 0"


def command(directory: Path, address: str) -> list[str]:
    start = ("java", "-Xmx256m", *QUICK, "-classpath", f"{stream_jars(VERSION)}/*", str(PROGRAM))
    return [*start, "1", str(directory), address]


def lines_of(directory: Path, address: str) -> list[str]:
    ran = subprocess.run(
        command(directory, address), capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    assert RIGHT in ran.stdout, ran.stdout + ran.stderr[-8000:]
    return ran.stdout.splitlines()


def test_it_counts_on_our_broker_as_on_kafkas(ours: str, theirs: str, tmp_path: Path) -> None:
    assert lines_of(tmp_path / "ours", ours) == lines_of(tmp_path / "theirs", theirs)
