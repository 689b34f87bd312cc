"""Kafka's shell tools, their classes unmodified: each prints the same on our broker and on Kafka's."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.downloads.kafka import kafka_jars
from tests.rigs.quick_java import QUICK

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "clients" / "KafkaTools.java"
RUN_SECONDS = 300.0
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
COMMANDS = """
topics --create --topic a --partitions 2 --replication-factor 1 --config max.message.bytes=50000
topics --create --topic a --if-not-exists
topics --create --topic b --partitions 1 --replication-factor 1
topics --list
topics --alter --topic b --partitions 3
topics --describe --topic a
topics --describe --topic b
topics --describe --under-replicated-partitions
produce --topic a --max-messages 100 --repeating-keys 20 --value-prefix 7 --acks -1 --throughput 100000
offsets --topic b
offsets --topic-partitions a --time earliest
delete-records --offset-json-file FILE
offsets --topic-partitions a:0 --time -2
consume --topic a --messages 20 --group readers --hide-header --timeout 60000
groups --list
groups --group readers --topic a:1 --reset-offsets --to-offset 3 --execute
groups --describe --group readers --state
groups --delete --group readers
configs --alter --entity-type topics --entity-name a --add-config segment.bytes=1048576
configs --describe --entity-type topics --entity-name a
configs --alter --entity-type topics --entity-name a --delete-config segment.bytes
configs --describe --entity-type topics --entity-name a
configs --alter USER_X --add-config producer_byte_rate=1048576,request_percentage=12.5
configs --alter USER_X --add-config controller_mutation_rate=7.5
configs --describe USER_X
configs --alter USER_X --delete-config controller_mutation_rate
configs --describe USER_X
configs --alter X_AND_APP --add-config consumer_byte_rate=2048
configs --alter DEFAULTS --add-config consumer_byte_rate=4096
configs --alter --entity-type clients --entity-default --add-config producer_byte_rate=8192
configs --describe --entity-type users
configs --describe --entity-type clients
configs --describe --entity-type clients --entity-default
configs --describe --entity-type users --entity-type clients
configs --describe X_AND_APP
configs --alter USER_X --delete-config producer_byte_rate
configs --alter USER_X --delete-config producer_byte_rate
configs --alter USER_X --add-config no.such.rate=1
configs --alter USER_X --add-config producer_byte_rate=1.5
configs --describe USER_X
configs --alter USER_X --delete-config request_percentage
configs --alter X_AND_APP --delete-config consumer_byte_rate
configs --alter DEFAULTS --delete-config consumer_byte_rate
configs --alter --entity-type clients --entity-default --delete-config producer_byte_rate
configs --describe --entity-type users --entity-type clients
elect --election-type preferred --all-topic-partitions
acls --add --allow-principal User:alice --operation Read --operation Write --topic a
acls --add --deny-principal User:bob --deny-host 10.0.0.1 --producer --topic b
acls --add --allow-principal User:carol --consumer --topic a --group readers
acls --add --allow-principal User:* --operation Describe --topic a --resource-pattern-type prefixed
acls --list
acls --list --topic ab --resource-pattern-type match
acls --list --principal User:alice
acls --remove --force --allow-principal User:alice --operation Write --topic a
acls --remove --force --topic b
acls --list --topic *
acls --list
topics --delete --topic a
topics --delete --topic c
"""
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
    ran = subprocess.run(java, input=said, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
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
