"""`zab broker quota` against a broker."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import Run
from tests.cli.json_page import check

pytestmark = pytest.mark.slow


def rows(run: Run, *words: str) -> list[tuple[object, ...]]:
    """What the command says, as JSON."""
    assert run("broker", "quota", *words, "--json") == 0, run.err
    lines = [json.loads(line) for line in run.out.splitlines()]
    for line in lines:
        check(f"broker quota {words[0]}", line)
    return [tuple(line.values()) for line in lines]


def test_quotas_are_set_listed_and_removed(zab: Run) -> None:
    assert rows(zab, "set", "producer_byte_rate=1048576", "request_percentage=12.5", "--user", "alice") == [
        ("alice", None, "producer_byte_rate", 1048576),
        ("alice", None, "request_percentage", 12.5),
    ]
    assert rows(zab, "set", "consumer_byte_rate=5e5", "--default-user", "--client-id", "app") == [
        ("<default>", "app", "consumer_byte_rate", 500000)
    ]
    rows(zab, "set", "consumer_byte_rate=1", "--default-client-id")
    assert zab("broker", "quota", "list") == 0
    assert zab.out == (
        "user       client_id  quota               value\n"
        "-          <default>  consumer_byte_rate  1\n"
        "<default>  app        consumer_byte_rate  500000\n"
        "alice      -          producer_byte_rate  1048576\n"
        "alice      -          request_percentage  12.5\n"
    )
    assert [row[:2] for row in rows(zab, "list", "--client-id", "app")] == [("<default>", "app")]
    assert {row[0] for row in rows(zab, "list", "--user", "alice")} == {"alice"}
    assert rows(zab, "remove", "producer_byte_rate", "--user", "alice") == [("alice", None, "request_percentage", 12.5)]
    assert rows(zab, "remove", "--user", "alice") == []
    rows(zab, "remove", "--default-client-id")
    rows(zab, "remove", "--client-id", "app", "--default-user")
    assert rows(zab, "list") == []


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("set", "producer_byte_rate=1"), 2, "whose?"),
        (("set", "producer_byte_rate=many", "--user", "u"), 2, "is no KEY=NUMBER"),
        (("set", "producer_byte_rate", "--user", "u"), 2, "is no KEY=NUMBER"),
        (("set", "request_percentage=inf", "--user", "u"), 2, "is no KEY=NUMBER"),
        (("set", "request_percentage=nan", "--user", "u"), 2, "is no KEY=NUMBER"),
        (("set", "request_percentage=-1", "--user", "u"), 2, "is no KEY=NUMBER"),
        (("set", "producer_byte_rate=1", "--user", "u", "--default-user"), 2, "--user or --default-user"),
        (("remove",), 2, "whose?"),
        (("set", "no_such_rate=1", "--user", "u"), 1, "INVALID_REQUEST user u: Invalid configuration key no_such_rate"),
        (("set", "producer_byte_rate=0", "--client-id", "c"), 1, "must be greater than 0"),
    ],
)
def test_what_is_no_quota_is_refused(zab: Run, words: tuple[str, ...], code: int, why: str) -> None:
    assert zab("broker", "quota", *words) == code
    assert why in zab.err
