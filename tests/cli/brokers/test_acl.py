"""`zab broker acl` against a broker with an authorizer, as a super user and as nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.commands import Run
from tests.cli.json_page import check
from tests.rigs.kafka_broker import KafkaBroker, kafka_broker

pytestmark = pytest.mark.slow
SETTINGS = ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker whose clients are super users."""
    with kafka_broker(tmp_path_factory.mktemp("kafka"), settings=SETTINGS) as found:
        yield found


@pytest.fixture
def acl(guarded: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands for this broker."""
    monkeypatch.setenv("ZAB_BOOTSTRAP_SERVER", guarded.address)
    return Run(capsys)


def rows(run: Run, *words: str) -> list[tuple[str, ...]]:
    """What the command says, as JSON."""
    assert run("broker", "acl", *words, "--json") == 0, run.err
    lines = [json.loads(line) for line in run.out.splitlines()]
    for line in lines:
        check(f"broker acl {words[0]}", line)
    return [tuple(line.values()) for line in lines]


def test_rows_are_added_listed_and_removed(acl: Run) -> None:
    assert rows(acl, "add", "User:bob", "read,describe-configs", "--topic", "app-", "--prefixed") == [
        ("Topic", "app-", "prefixed", "User:bob", "*", operation, "Allow") for operation in ("DescribeConfigs", "Read")
    ]
    assert rows(acl, "add", "User:*", "all", "--topic", "app-1", "--host", "10.0.0.7", "--deny") == [
        ("Topic", "app-1", "literal", "User:*", "10.0.0.7", "All", "Deny")
    ]
    rows(acl, "add", "User:bob", "write", "--transactional-id", "id")
    rows(acl, "add", "User:bob", "read", "--group", "*")
    rows(acl, "add", "User:bob", "alter")
    names = [row[:2] for row in rows(acl, "list")]
    assert sorted(set(names)) == [
        ("Cluster", "kafka-cluster"),
        ("Group", "*"),
        ("Topic", "app-"),
        ("Topic", "app-1"),
        ("TransactionalId", "id"),
    ]
    assert [row[:2] for row in rows(acl, "list", "--group", "g")] == [("Group", "*")]
    assert {row[1] for row in rows(acl, "list", "--topic", "app-1")} == {"app-", "app-1"}
    assert {row[1] for row in rows(acl, "list", "--topic", "app-2")} == {"app-"}
    assert [row[1] for row in rows(acl, "list", "--principal", "User:*")] == ["app-1"]
    assert [row[0] for row in rows(acl, "list", "--cluster")] == ["Cluster"]
    assert acl("broker", "acl", "remove", "User:bob", "read", "--topic", "app-", "--prefixed") == 0
    assert acl.out == (
        "resource  name  pattern   principal  host  operation  permission\n"
        "Topic     app-  prefixed  User:bob   *     Read       Allow\n"
    )
    assert len(rows(acl, "remove", "User:bob")) == 4
    assert len(rows(acl, "remove", "User:*", "--host", "10.0.0.8")) == 0
    assert len(rows(acl, "remove", "User:*", "--host", "10.0.0.7")) == 1
    assert acl("broker", "acl", "list") == 0
    assert acl.out == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "bob", "read"), "'bob' is no principal"),
        (("add", "User:bob", "fly"), "'fly' is none of all, read"),
        (("add", "User:bob", "read", "--topic", "t", "--group", "g"), "name one resource"),
        (("add", "User:bob", "alter", "--prefixed"), "it needs --topic"),
        (("list", "--principal", "bob"), "'bob' is no principal"),
    ],
)
def test_words_that_make_no_sense(acl: Run, words: tuple[str, ...], why: str) -> None:
    assert acl("broker", "acl", *words) == 2
    assert why in " ".join(acl.err.split())


def test_a_row_that_the_broker_refuses(acl: Run) -> None:
    assert acl("broker", "acl", "add", "User:bob", "read", "--topic", "a/b") == 1
    assert acl.err.startswith("zab: INVALID_REQUEST User:bob")


def test_a_broker_without_an_authorizer(zab: Run) -> None:
    for words in (("list",), ("add", "User:bob", "alter"), ("remove", "User:bob")):
        assert zab("broker", "acl", *words) == 1
        assert "SECURITY_DISABLED" in zab.err
        assert "authorizer.class.name" in zab.err
