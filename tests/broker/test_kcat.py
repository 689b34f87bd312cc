"""kcat, where it is installed, against a real broker."""

from __future__ import annotations

import shutil
import subprocess
import uuid

import pytest

from tests.rigs.kafka_broker import KafkaBroker

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(KCAT is None, reason="kcat is not on PATH"),
]


def kcat(broker: KafkaBroker, *words: str, given: str = "") -> str:
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", broker.address, *words], input=given, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_lines_go_in_and_come_out(running_broker: KafkaBroker) -> None:
    topic = f"kcat-{uuid.uuid4()}"
    kcat(running_broker, "-P", "-t", topic, "-K:", given="a:1\nb:2\n")
    assert kcat(running_broker, "-C", "-t", topic, "-K:", "-e", "-q") == "a:1\nb:2\n"
    assert f'topic "{topic}" with 1 partitions' in kcat(running_broker, "-L", "-t", topic)
