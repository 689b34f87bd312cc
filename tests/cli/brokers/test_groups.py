"""`zab group` and `zab broker list` against a real broker."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, TopicPartition

from tests.cli.commands import Run
from tests.cli.json_page import check, table
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(zab: Run, tmp_path: Path) -> str:
    """A topic of two partitions, with three records in the first."""
    name = f"groups-{uuid.uuid4()}"
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n")
    assert zab("topic", "create", name, "-p", "2") == 0, zab.err
    assert zab("produce", name, path, "-p", "0") == 0, zab.err
    return name


@pytest.fixture
def group(zab: Run, topic: str) -> str:
    """A group that has committed two of them, and has no members."""
    name = f"group-{uuid.uuid4()}"
    assert zab("consume", topic, "-g", name, "-n", "2") == 0, zab.err
    return name


@pytest.fixture
def member(running_broker: KafkaBroker, topic: str, group: str) -> Iterator[KafkaConsumer]:
    """A member of the group, which has both partitions."""
    consumer = KafkaConsumer(
        bootstrap_servers=running_broker.address, group_id=group, client_id="somebody", enable_auto_commit=False
    )
    consumer.subscribe([topic])
    consumer.topics()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline
        consumer.poll(1000)
    yield consumer
    consumer.close()


def test_a_group_is_listed_and_described(zab: Run, topic: str, group: str) -> None:
    assert zab("group", "list", "--json", "--state", "empty") == 0
    lines = [json.loads(line) for line in zab.out.splitlines()]
    for line in lines:
        check("group list", line)
    assert {"group": group, "state": "Empty", "kind": "classic", "protocol": "consumer"} in lines
    assert zab("group", "list", "--state", "Stable") == 0
    assert group not in zab.out
    assert zab("group", "describe", group, "--json") == 0
    fields = table("Lines of `zab group describe`")
    first, *partitions = [json.loads(line) for line in zab.out.splitlines()]
    assert list(first) == fields["group"]
    assert (first["state"], first["members"], first["lag"]) == ("Empty", 0, 1)
    assert all(list(line) == fields["partition"] for line in partitions)
    told = [(line["topic"], line["partition"], line["committed"], line["end"], line["lag"]) for line in partitions]
    assert told == [(topic, 0, 2, 3, 1), (topic, 1, 0, 0, 0)]
    assert zab("group", "describe", group) == 0
    assert zab.out.splitlines()[0] == f"{group}: Empty, 0 members, lag 1"


def test_a_group_with_members_is_not_reset_and_not_deleted(
    zab: Run, topic: str, group: str, member: KafkaConsumer
) -> None:
    assert zab("group", "describe", group, "--json") == 0
    first, told, *partitions = [json.loads(line) for line in zab.out.splitlines()]
    assert list(told) == table("Lines of `zab group describe`")["member"]
    assert (first["state"], told["client"], told["partitions"]) == ("Stable", "somebody", 2)
    assert {line["member"] for line in partitions} == {told["member"]}
    assert zab("group", "reset", group, "--to", "beginning", "--execute") == 1
    assert zab.err == f"zab: NON_EMPTY_GROUP {group}: it has 1 member, which would commit over it; stop them first\n"
    assert zab("group", "delete", group) == 1
    assert zab.err == f"zab: NON_EMPTY_GROUP {group}: it has members; stop them first\n"
    assert member.committed(TopicPartition(topic, 0)) == 2


def test_a_group_whose_partitions_the_broker_assigns(zab: Run, topic: str, running_broker: KafkaBroker) -> None:
    group = f"group-{uuid.uuid4()}"
    settings = {"bootstrap.servers": running_broker.address, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**settings, "client.id": "somebody", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE_SECONDS
        seen = 0
        while seen < 3:
            assert time.monotonic() < deadline
            message = consumer.poll(0.2)
            seen += message is not None and message.error() is None
        consumer.commit(asynchronous=False)
        assert zab("group", "list", "--json") == 0
        listed = [json.loads(line) for line in zab.out.splitlines()]
        assert {"group": group, "state": "Stable", "kind": "consumer", "protocol": "consumer"} in listed
        assert zab("group", "describe", group, "--json") == 0, zab.err
        first, member, *partitions = [json.loads(line) for line in zab.out.splitlines()]
        fields = table("Lines of `zab group describe`")
        assert (list(first), list(member)) == (fields["group"], fields["member"])
        assert all(list(line) == fields["partition"] for line in partitions)
        assert (first["kind"], first["state"], first["members"], first["lag"]) == ("consumer", "Stable", 1, 0)
        assert first["epoch"] == first["target_epoch"] == member["epoch"] > 0
        assert (first["assignor"], member["kind"], member["client"]) == ("uniform", "consumer", "somebody")
        assert member["assigned"] == member["target"] == {topic: [0, 1]}
        assert (member["topics"], member["regex"], member["partitions"]) == ([topic], None, 2)
        assert {line["member"] for line in partitions} == {member["member"]}
        assert zab("group", "describe", group) == 0
        told, of_member, *_ = zab.out.splitlines()
        assert told == f"{group}: Stable, 1 member, lag 0, epoch {first['epoch']}, target of epoch {first['epoch']}"
        assert of_member.endswith(f", 2 partitions, epoch {first['epoch']}, subscribes to {topic}")
        assert zab("group", "reset", group, "--to", "beginning", "--execute") == 1
        assert zab.err.startswith(f"zab: NON_EMPTY_GROUP {group}: it has 1 member")
    finally:
        consumer.close()
    assert zab("group", "describe", group) == 0
    assert zab.out.startswith(f"{group}: Empty, 0 members")


def test_a_plan_is_shown_before_it_is_done(zab: Run, topic: str, group: str) -> None:
    assert zab("group", "reset", group, "--to", "beginning", "--topic", f"{topic}:0") == 0
    columns, row, end = zab.out.splitlines()
    assert columns.split() == ["topic", "partition", "committed", "new", "change"]
    assert row.split() == [topic, "0", "2", "0", "-2"]
    assert end == f"{group}: 1 offset would be set; --execute sets them"
    for position, expected in {"end": 3, "1": 1, "99": 3, "now": 3, "18000 days ago": 0}.items():
        assert zab("group", "reset", group, "--to", position, "--execute", "--json") == 0, zab.err
        lines = [json.loads(line) for line in zab.out.splitlines()]
        for line in lines:
            check("group reset", line)
        assert [(line["partition"], line["new"], line["is_done"]) for line in lines] == [
            (0, expected, True),
            (1, 0, True),
        ], position
    assert zab("consume", topic, "-g", group) == 0
    assert zab.out == "a\nb\nc\n"


def test_a_new_group_begins_where_it_is_told(zab: Run, topic: str) -> None:
    name = f"new-{uuid.uuid4()}"
    assert zab("group", "reset", name, "--to", "2") == 1
    assert zab.err.startswith(f"zab: GROUP_ID_NOT_FOUND {name}: ")
    assert zab("group", "reset", name, "--to", "2", "--topic", topic, "--execute") == 0, zab.err
    assert zab("consume", topic, "-g", name) == 0
    assert zab.out == "c\n"


def test_what_does_not_exist_is_refused(zab: Run, topic: str, group: str) -> None:
    name = f"none-{uuid.uuid4()}"
    for words in (["describe", name], ["delete", name]):
        assert zab("group", *words) == 1
        assert zab.err == f"zab: GROUP_ID_NOT_FOUND {name}: there is no such group\n"
    assert zab("group", "reset", group, "--to", "end", "--topic", f"{topic}:2") == 1
    assert zab.err == f"zab: UNKNOWN_TOPIC_OR_PARTITION {topic}-2: the topic has 2 partitions\n"
    assert zab("group", "reset", group, "--to", "end", "--topic", name) == 1
    assert zab.err.startswith(f"zab: UNKNOWN_TOPIC_OR_PARTITION {name}: ")
    for words in (["--to", "soon"], ["--to", "end", "--topic", "a:x"], ["--to", "end", "--topic", "a", "--topic", "a"]):
        assert zab("group", "reset", group, *words) == 2


def test_a_group_is_deleted_once(zab: Run, group: str) -> None:
    assert zab("group", "delete", group, "--json") == 0
    check("group delete", json.loads(zab.out))
    assert zab("group", "delete", group) == 1


def test_registered_brokers_are_listed(zab: Run, running_broker: KafkaBroker, topic: str) -> None:
    settings = dict(line.split("=", 1) for line in running_broker.settings.read_text().splitlines() if "=" in line)
    members = settings["zookeeper.connect"]
    assert zab("-s", members, "broker", "list", "--json") == 0, zab.err
    broker, brokers = [json.loads(line) for line in zab.out.splitlines()]
    fields = table("Lines of `zab broker list`")
    assert (list(broker), list(brokers)) == (fields["broker"], fields["brokers"])
    assert (broker["broker"], broker["is_controller"], broker["lagging"]) == (1, True, 0)
    assert f"PLAINTEXT://{running_broker.address}" in broker["endpoints"]
    assert broker["leads"] == broker["replicas"] >= 2
    assert (brokers["count"], brokers["controller"], brokers["offline"]) == (1, 1, 0)
    assert zab("-s", members, "broker", "list") == 0
    assert zab.out.endswith("1 broker; partitions: 0 under-replicated, 0 offline\n")
    assert zab("-s", f"{members}/elsewhere", "broker", "list") == 1
    assert zab.err == f"zab: no broker has registered at {members}/elsewhere\n"


def test_status_shows_the_brokers_beside_the_members(zab: Run, running_broker: KafkaBroker, topic: str) -> None:
    lines = running_broker.settings.read_text().splitlines()
    members = next(line for line in lines if line.startswith("zookeeper.connect=")).partition("=")[2]
    zab("-s", members, "status", "--json")
    lines = [json.loads(line) for line in zab.out.splitlines()]
    [broker] = [line for line in lines if line["type"] == "broker"]
    assert list(broker) == table("Lines of `zab status`")["broker"]
    assert (broker["broker"], broker["is_controller"], broker["lagging"]) == (1, True, 0)
    assert not [line for line in lines if line["type"] == "alarm" and "broker" in line["name"]]
    assert zab("-s", members, "status") == 0, zab.out
    assert "broker  epoch" in zab.out


def test_an_offset_that_a_partition_does_not_have_is_said_when_a_group_is_reset(
    zab: Run, topic: str, group: str
) -> None:
    assert zab("group", "reset", group, "--to", "99999") == 0
    assert f"zab: {topic}-0 has no offset 99999; " in zab.err
    assert zab("group", "reset", group, "--to", "beginning") == 0
    assert zab.err == ""
