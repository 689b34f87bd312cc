"""`zab topic` against a real broker, and where there is none."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import uuid
from typing import Any, NoReturn

import pytest

from tests.cli.commands import Run, run, started
from tests.cli.json_page import check, table
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.brokers.topic_describe import _eligible, _text_of
from zab.testing.kit.ports import free_ports

__all__ = ["run"]


@pytest.fixture
def topic(zab: Run) -> str:
    """A topic of two partitions."""
    name = f"topic-{uuid.uuid4()}"
    assert zab("topic", "create", name, "-p", "2", "--config", "retention.ms=86400000") == 0, zab.err
    return name


def test_a_topic_is_created_once(zab: Run) -> None:
    name = f"new-{uuid.uuid4()}"
    assert zab("topic", "create", name, "--partitions", "3", "--replication-factor", "1") == 0
    assert zab.out == f"Created {name}: 3 partitions, replication factor 1\n"
    assert zab("topic", "create", name) == 1
    assert zab.err.startswith(f"zab: TOPIC_ALREADY_EXISTS {name}: ")
    assert zab("topic", "create", name, "--if-not-exists", "--json") == 0
    found = json.loads(zab.out)
    check("topic create", found)
    assert (found["partitions"], found["is_new"]) == (3, False)
    assert len(found["id"]) == 22


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-r", "2"], "INVALID_REPLICATION_FACTOR {}: "),
        (["-c", "retention.ms=soon"], "INVALID_CONFIG {}: retention.ms: 'soon' is not a whole number"),
        (["-c", "retention.mss=1"], "INVALID_CONFIG {}: retention.mss is unknown"),
        (["--assign", "0=77"], "INVALID_REPLICA_ASSIGNMENT {}"),
    ],
)
def test_what_the_broker_refuses_is_said_in_its_words(zab: Run, words: list[str], reason: str) -> None:
    name = f"refused-{uuid.uuid4()}"
    assert zab("topic", "create", name, *words) == 1
    assert zab.err.startswith("zab: " + reason.format(name)), zab.err
    assert zab("topic", "describe", name) == 1
    assert "zab topic create" in zab.err


@pytest.mark.parametrize(
    "words",
    [
        ["create", "t", "-c", "retention.ms"],
        ["create", "t", "-c", "a=1", "-c", "a=2"],
        ["create", "t", "--assign", "0=1", "-p", "2"],
        ["create", "t", "--assign", "0:1"],
        ["create", "t", "--assign", "0=1", "--assign", "0=2"],
        ["create", "t", "-p", "0"],
        ["alter", "t"],
        ["alter", "t", "-c", "a=1", "--delete-config", "a"],
    ],
)
def test_wrong_usage_asks_no_broker(run: Run, words: list[str]) -> None:
    assert run("--bootstrap-server", "127.0.0.1:1", "topic", *words) == 2


def test_names_are_listed_with_figures_for_programs(zab: Run, topic: str) -> None:
    assert zab("topic", "list") == 0
    assert topic in zab.out.splitlines()
    assert zab("topic", "list", "--json", "--internal") == 0
    lines = [json.loads(line) for line in zab.out.splitlines()]
    for line in lines:
        check("topic list", line)
    [own] = [line for line in lines if line["topic"] == topic]
    assert (own["partitions"], own["replication_factor"], own["under_replicated"], own["offline"]) == (2, 1, 0, 0)


def test_a_description_has_settings_leaders_offsets_and_sizes(zab: Run, topic: str) -> None:
    assert zab("produce", topic, "--partition", "1", __file__) == 0, zab.err
    count = int(zab.out.split()[0])
    assert zab("topic", "describe", topic, "--json") == 0
    first, *partitions = [json.loads(line) for line in zab.out.splitlines()]
    fields = table("Lines of `zab topic describe`")
    assert list(first) == fields["topic"]
    assert first["config"] == {"retention.ms": "86400000"}
    for number, line in enumerate(partitions):
        assert list(line) == fields["partition"]
        assert (line["partition"], line["leader"], line["replicas"], line["isr"]) == (number, 1, [1], [1])
        assert (line["is_offline"], line["is_under_replicated"]) == (False, False)
    assert [line["end"] for line in partitions] == [0, count]
    assert first["bytes"] == partitions[1]["bytes"] > partitions[0]["bytes"] == 0
    assert zab("topic", "describe", topic) == 0
    head, setting, columns, *rows = zab.out.splitlines()
    assert head.startswith(f"{topic}: 2 partitions, replication factor 1, ")
    assert setting == "  retention.ms=86400000"
    assert columns.split("  ")[0] == "partition"
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert zab("topic", "describe", "--under-replicated", "--offline") == 0
    assert zab.out == "", "nothing is so"


def test_partitions_that_are_not_well_are_said_to_be() -> None:
    common = {"type": "partition", "replicas": [1, 2], "elr": [2], "leader_epoch": 3, "begin": 0, "end": 7, "bytes": 9}
    one = {**common, "partition": 0, "leader": 1, "isr": [1], "is_offline": False, "is_under_replicated": True}
    two = {**common, "partition": 1, "leader": None, "isr": [], "is_offline": True, "is_under_replicated": True}
    topic = {"type": "topic", "topic": "t\x1b", "partitions": 2, "replication_factor": 2, "bytes": 9, "id": None}
    head, _, *rows = _text_of([{**topic, "config": {}}, one, two])
    assert "\x1b" not in head
    assert [row.split() for row in rows] == [
        ["0", "1", "3", "1,2", "1", "2", "0", "7", "9", "under-replicated"],
        ["1", "-", "3", "1,2", "-", "2", "0", "7", "9", "offline"],
    ]


def test_eligible_leaders_are_read_page_by_page() -> None:
    class Admin:
        """Tells of one partition at a time."""

        def describe_topic_partitions(self, topics: list[str], *, cursor: Any) -> dict[str, Any]:
            number = 0 if cursor is None else cursor["partition_index"]
            told = {"partition_index": number, "eligible_leader_replicas": [2] if number else None}
            following = None if number else {"topic_name": "t", "partition_index": 1}
            return {"topics": [{"name": "t", "partitions": [told]}], "next_cursor": following}

    assert _eligible(Admin(), ["t"]) == {("t", 0): [], ("t", 1): [2]}


def test_changes_are_made_in_order_until_one_is_refused(zab: Run, topic: str) -> None:
    words = ("-c", "max.message.bytes=2000", "--delete-config", "retention.ms", "-p", "3", "--assign", "0=1")
    assert zab("topic", "alter", topic, *words, "--json") == 0, zab.err
    lines = [json.loads(line) for line in zab.out.splitlines()]
    for line in lines:
        check("topic alter", line)
    assert [line["change"] for line in lines] == ["config", "config", "partitions", "assignment"]
    assert zab("topic", "alter", topic, "-c", "max.message.bytes=3000", "-p", "1") == 1
    assert zab.out == f"{topic}: max.message.bytes=3000\n"
    assert zab.err.startswith(f"zab: INVALID_PARTITIONS {topic}: ")
    assert zab("topic", "alter", topic, "-c", "max.message.bytes=many") == 1
    assert zab.err == f"zab: INVALID_CONFIG {topic}: max.message.bytes: 'many' is not a whole number\n"
    assert zab("topic", "alter", topic, "--assign", "0=1", "--assign", "1=9") == 1
    assert zab.err.startswith(f"zab: under way: partitions 0\nzab: INVALID_REPLICA_ASSIGNMENT {topic}-1")
    assert zab("topic", "describe", topic) == 0
    assert "max.message.bytes=3000" in zab.out
    assert "retention.ms" not in zab.out
    assert zab("topic", "alter", "nobody", "-p", "2") == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION nobody: " in zab.err


def test_a_topic_is_deleted_once(zab: Run, topic: str) -> None:
    assert zab("topic", "delete", topic, "--json") == 0
    check("topic delete", json.loads(zab.out))
    assert zab("topic", "delete", topic) == 1
    assert zab.err.startswith(f"zab: UNKNOWN_TOPIC_OR_PARTITION {topic}: ")


@pytest.mark.slow
def test_nobody_there_is_said_in_time() -> None:
    """Each is a process: kafka-python leaves sockets of refused connections to the collector of garbage."""
    [port] = free_ports(1)
    groups, feed = (["group", "list"], ["group", "delete", "g"]), ["changes", "--to-topic", "t"]
    commands = (["topic", "list"], ["produce", "t"], ["consume", "t"], *groups, feed)
    with contextlib.ExitStack() as stack:
        words = [("--wait", "0.2", *each, f"--bootstrap-server=127.0.0.1:{port}") for each in commands]
        for process in [stack.enter_context(started(*each)) for each in words]:
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 3
            assert said.startswith(f"zab: no broker answers at 127.0.0.1:{port} within 0.2 s\n")


def test_options_may_follow_the_command(run: Run) -> None:
    assert run("topic", "list", "--bootstrap-server", "nonsense") == 2
    assert run.err == "zab: --bootstrap-server: 'nonsense' is no HOST:PORT\n"
    assert run("topic", "list", "--client-config", "/none/at/all") == 2
    assert run.err == "zab: /none/at/all: it cannot be read: No such file or directory\n"


@pytest.mark.slow
def test_the_time_of_a_command_is_limited() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        limit = ("--timeout", "0.1", "--bootstrap-server", f"127.0.0.1:{port}")
        for words, more in ((["list"], ""), (["delete", "t"], "; whether a write was done is unknown")):
            with started("--wait", "600", "topic", *words, *limit) as process:
                _, said = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 124
            assert said.endswith(f"not done within 0.1 s (--timeout){more}\n")


def test_without_the_library_its_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.setitem(sys.modules, "kafka.errors", None)
    assert run("topic", "list") == 1
    assert run.err == "zab: the commands for topics need kafka-python: pip install 'zab[kafka]'\n"


def test_a_host_without_an_address_is_named(zab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert zab("--bootstrap-server", "nowhere.invalid:9092", "--wait", "0.2", "topic", "list") == 3
    assert zab.err.startswith("zab: no broker answers at nowhere.invalid:9092 within 0.2 s: nowhere.invalid: Name or ")


def test_a_topic_that_is_not_there_is_not_deleted(zab: Run) -> None:
    assert zab("topic", "delete", "nowhere") == 1
    assert zab.err == "zab: UNKNOWN_TOPIC_OR_PARTITION nowhere: there is no such topic\n"
