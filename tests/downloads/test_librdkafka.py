"""librdkafka's own tests, unmodified, against three brokers of ours; its client in JavaScript beside Kafka's broker."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import frozen

from tests.downloads.kafka import kafka_jars
from tests.downloads.librdkafka import Librdkafka, javascript, librdkafka
from tests.downloads.node import node
from tests.downloads.programs import PROGRAMS, lines_of
from tests.rigs.kafka_broker import kafka_brokers
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.long]

SETTINGS = (
    "auto.create.topics.enable=true",
    "num.partitions=4",
    "default.replication.factor=3",
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
    "super.users=User:admin",
    "allow.everyone.if.no.acl.found=true",
    "zookeeper.session.timeout.ms=10000",
    # Records with timestamps of long ago stay.
    "log.retention.check.interval.ms=300000",
)
KAFKA_VERSION = "3.9.1"
"""Tests for later versions skip themselves."""
TESTS = (
    *("0001", "0002", "0003", "0005", "0007", "0008", "0011", "0012", "0013", "0014", "0015", "0016", "0017", "0018"),
    *("0019", "0020", "0021", "0022", "0026", "0029", "0030", "0031", "0034", "0035", "0036", "0038", "0039"),
    *("0040", "0041", "0042", "0044", "0045", "0048", "0049", "0050", "0051", "0054", "0055", "0056", "0057", "0059"),
    *("0060", "0061", "0063", "0064", "0065", "0067", "0068", "0069", "0070", "0073", "0075", "0076", "0077", "0083"),
    *("0084", "0085", "0086", "0088", "0089", "0090", "0091", "0092", "0093", "0094", "0099", "0102", "0103", "0109"),
    *("0112", "0113", "0114", "0115", "0118", "0119", "0122", "0123", "0125", "0127", "0129", "0130", "0132", "0137"),
    "0140",
)
"""All that need a broker, without those that docs/reference/kafka-clients.md names."""
FAIL = {"0092_mixed_msgver"}
PASSED = 84
ADMINISTRATION = (
    *("DeleteTopics", "CreatePartitions", "DescribeConfigs", "Acls", "DeleteRecords", "DeleteGroups"),
    *("DescribeTopics", "DescribeCluster", "ConsumerGroupOffsets", "Scram"),
)
"""Parts of 0081, by words in their names. Those that set what is not there are left out."""
TRIES = 4
"""How often a part that failed is run again."""
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "kafka.admin.AclCommand",
    "kafka-run-class.sh": "",
}
IN_PARALLEL = 5
OUTPUT_CHARACTERS = 3000
"""What is shown of each test that failed."""


@frozen
class Runner:
    """librdkafka's runner of tests, with brokers."""

    library: Librdkafka
    directory: Path
    addresses: str

    def states(self, number: str, subtest: str = "") -> dict[str, str]:
        """What became of the tests with this number, by their names: PASSED, FAILED, SKIPPED."""
        place = self.directory / f"{number}{subtest}"
        place.mkdir(exist_ok=True)
        report, configuration = place / "report.json", place / "test.conf"
        report.unlink(missing_ok=True)
        configuration.write_text(f"bootstrap.servers={self.addresses}\n", encoding="utf-8")
        environment = {
            **os.environ,
            **({"SUBTESTS": subtest} if subtest else {}),
            "BROKERS": self.addresses,
            # It waits three times as long.
            "CI": "true",
            "KAFKA_PATH": str(self.directory),
            "LD_LIBRARY_PATH": self.library.libraries,
            "RDKAFKA_TEST_CONF": str(configuration),
            "TESTS": number,
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            "TEST_REPORT": str(report),
        }
        with (place / "output").open("w") as file, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                # Neither those without a broker, nor those that its authors know to fail; each in its short form.
                [self.library.runner, "-p1", "-L", "-K", "-Q"],
                cwd=place,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=LONG_PATIENCE_SECONDS,
                check=False,
            )
        if not report.exists():
            return {number: "FAILED"}
        told = json.loads(report.read_text())["tests"].values()
        return {each["name"]: each["state"] for each in told if each["name"].startswith(number)}

    def output(self, number: str, subtest: str = "") -> str:
        """The end of what its last run printed."""
        return (self.directory / f"{number}{subtest}" / "output").read_text(errors="replace")[-OUTPUT_CHARACTERS:]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    library = librdkafka()
    directory = tmp_path_factory.mktemp("librdkafka")
    tools = directory / "bin"
    tools.mkdir()
    for name, main_class in TOOLS.items():
        java = " ".join(("java", "-Xmx128m", *QUICK, "-classpath", f"'{kafka_jars()}/*'", main_class))
        (tools / name).write_text(f'#!/bin/sh\nexec {java} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    with kafka_brokers(directory, 3, settings=SETTINGS) as brokers:
        yield Runner(library, directory, ",".join(each.address for each in brokers))


def test_its_own_tests_pass_except_for_what_is_not_there(runner: Runner) -> None:
    states: dict[str, str] = {}
    with ThreadPoolExecutor(IN_PARALLEL) as workers:
        for found in workers.map(runner.states, TESTS):
            states |= found
    for _ in range(TRIES):
        # Some measure times, or look at the topics of others: they run again, alone.
        for name in [name for name, state in states.items() if state == "FAILED" and name not in FAIL]:
            del states[name]
            states |= runner.states(name[:4])
    passed = sorted(name for name, state in states.items() if state == "PASSED")
    failed = {name for name, state in states.items() if state == "FAILED"}
    assert failed == FAIL, "\n".join(map(runner.output, sorted({name[:4] for name in failed - FAIL})))
    assert len(passed) == PASSED, passed


def test_its_own_tests_of_administration_pass_except_for_what_is_not_there(runner: Runner) -> None:
    states = {part: runner.states("0081", part).get("0081_admin", "FAILED") for part in ADMINISTRATION}
    for _ in range(TRIES):
        # It wants deletions within 1.5 s, which a busy machine does not always give.
        for part in [part for part, state in states.items() if state == "FAILED"]:
            states[part] = runner.states("0081", part).get("0081_admin", "FAILED")
    failed = [part for part, state in states.items() if state != "PASSED"]
    assert not failed, "\n".join(runner.output("0081", part) for part in failed)


def test_its_client_in_javascript(ours: str, theirs: str) -> None:
    modules = javascript()
    environment = {**os.environ, "NODE_PATH": str(modules), "LD_LIBRARY_PATH": librdkafka().libraries}
    command = [node(), str(PROGRAMS / "confluent.js")]
    expected = lines_of(command, theirs, environment)
    assert len(expected) >= 16
    assert lines_of(command, ours, environment) == expected
