"""Kafka's shell tools, their classes unmodified: each prints the same on our broker and on Kafka's."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.downloads.kafka import kafka_jars
from tests.downloads.shell_commands import COMMANDS
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "clients" / "KafkaTools.java"
TOOLS = {
    "acls": "kafka.admin.AclCommand",
    "configs": "kafka.admin.ConfigCommand",
    "consume": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "elect": "org.apache.kafka.tools.LeaderElectionCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "produce": "org.apache.kafka.tools.VerifiableProducer",
    "topics": "org.apache.kafka.tools.TopicCommand",
}
SHORT = {
    "USER_X": "--entity-type users --entity-name x",
    "X_AND_APP": "--entity-type users --entity-name x --entity-type clients --entity-name app",
    "DEFAULTS": "--entity-type users --entity-default --entity-type clients --entity-default",
}
DELETED = {"partitions": [{"topic": "a", "partition": 0, "offset": 10}], "version": 1}
VARYING = re.compile(r"127\.0\.0\.1:\d+|TopicId: \S+|^\d{4}-\d\d-\d\d .*")
MEANWHILE = "{"
"""How the lines begin that the verifiable producer prints, also later."""


def commands(address: str, directory: Path) -> list[list[str]]:
    """Class and arguments of each."""
    file = directory / "deleted.json"
    file.write_text(json.dumps(DELETED))
    found = []
    for line in COMMANDS.strip().splitlines():
        words = [SHORT.get(word, word) for word in line.replace("FILE", str(file)).split()]
        tool, *arguments = " ".join(words).split()
        found.append([TOOLS[tool], "--bootstrap-server", address, *arguments])
    return found


def printed(address: str, directory: Path) -> list[list[str]]:
    """Each command and its lines, without what differs from run to run."""
    said = "".join("\t".join(command) + "\n" for command in commands(address, directory))
    java = ["java", "-Xmx256m", *QUICK, "-classpath", f"{kafka_jars()}/*", str(PROGRAM)]
    ran = subprocess.run(java, input=said, capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: list[list[str]] = []
    for line in ran.stdout.splitlines():
        if line.startswith("# "):
            found.append([VARYING.sub("…", line)])
        elif line and not line.startswith(MEANWHILE):
            found[-1].append(VARYING.sub("…", line))
    # Lists come in the order of a hash.
    unordered = TOOLS["acls"], TOOLS["configs"]
    return [
        [first, *sorted(map(str.strip, rest))] if any(each in first for each in unordered) else [first, *rest]
        for first, *rest in found
    ]


def test_the_tools_print_the_same_as_with_kafka(ours: str, theirs: str, tmp_path: Path) -> None:
    expected = printed(theirs, tmp_path)
    assert len(expected) == len(commands("", tmp_path))
    assert printed(ours, tmp_path) == expected
