"""Kafka's own client in Java, unmodified: one program, which prints the same lines on our broker and Kafka's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.downloads.kafka import CLIENT_VERSIONS, client_jars
from tests.downloads.kafka_brokers import real_brokers
from tests.rigs.kafka_broker import kafka_broker
from tests.rigs.quick_java import QUICK
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "clients" / "KafkaProgram.java"
RUN_SECONDS = 240.0


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("ours")) as broker:
        yield broker.address


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("theirs")
    with zab_servers(1, directory=root / "member") as ensemble, real_brokers(root, 1, ensemble.hosts) as [broker]:
        yield broker.address


def lines_of(version: str, address: str) -> list[str]:
    """What the program prints with this client on this broker."""
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{client_jars(version)}/*", str(PROGRAM), address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"kafka-clients {version}" in ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_the_program_prints_the_same_lines_as_with_kafka(ours: str, theirs: str, version: str) -> None:
    expected = lines_of(version, theirs)
    assert len(expected) > 30
    assert lines_of(version, ours) == expected
