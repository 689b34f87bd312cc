"""Spark's source and sink for Kafka, unmodified, in the PySpark of this project, on our broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from tests.downloads.kafka import jars

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.cluster, pytest.mark.long]

VERSION = "4.2.0"
"""The newest one in Maven Central; PySpark 4.3 takes it."""
PROGRAM = Path(__file__).parent / "clients" / "spark_kafka.py"
RUN_SECONDS = 400.0
EXPECTED = ["table: 500 1 0 n", "part: 20", "first: 500", "second: 0", "copied: 500 500 500"]


def connector() -> str:
    """The jars that PySpark lacks, with commas between them. Skips the test where they cannot be had."""
    import pyspark

    place = jars(f"spark-kafka-{VERSION}", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}")
    own = {each.name for each in (Path(pyspark.__file__).parent / "jars").iterdir()}
    names = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return ",".join(
        str(each) for each in sorted(place.iterdir()) if each.name.startswith(names) and each.name not in own
    )


def test_a_topic_is_a_table_and_a_stream(ours: str, tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_KAFKA_JARS": connector()}
    admin = KafkaAdminClient(bootstrap_servers=ours)
    topics = ["spark-from", "spark-to"]
    admin.create_topics([NewTopic(name, 1, 1) for name in topics])
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "checkpoint"), ours],
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    admin.delete_topics(topics)
    admin.close()
    assert ran.returncode == 0, ran.stderr[-8000:]
    assert ran.stdout.splitlines() == EXPECTED
