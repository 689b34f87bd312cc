"""A bookie and the coordination service while it runs: sessions that expire, read-only and back."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bookie.wire import Wire, add
from zab.client import NoNodeError
from zab.ledger.wire.messages import Added, ReadEntry
from zab.ledger.wire.status import Status
from zab.testing import Bookies, free_ports


@pytest.fixture(scope="module")
def http_port() -> int:
    [port] = free_ports(1)
    return port


@pytest.fixture(scope="module")
def bookies(http_port: int) -> Iterator[Bookies]:
    keys = {"httpServerEnabled": True, "httpServerPort": http_port, "audit.enable": True}
    with Bookies(1, keys) as opened:
        yield opened


def asked(port: int, path: str, body: object = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, headers, method="GET" if data is None else "PUT"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def session_of(bookies: Bookies, path: str) -> int:
    """Whose the ephemeral is; 0: there is none."""
    with bookies.ensemble.connect() as zk:
        try:
            return int(zk.get(path)[1].ephemeral_owner)
        except NoNodeError:
            return 0


def test_a_session_that_expires_is_followed_by_another_one(bookies: Bookies) -> None:
    """The bookie serves all the time."""
    before = session_of(bookies, "/ledgers/available/b1")
    assert before
    with Wire(bookies.members[1].address) as wire:
        bookies.ensemble.expire(before)
        assert wire.ask(add(1, 0)).status is Status.OK
        bookies.wait_until(
            lambda: session_of(bookies, "/ledgers/available/b1") not in (0, before), "it is not registered again"
        )
        assert wire.ask(add(1, 1)).status is Status.OK


def test_read_only_and_back_by_the_port_for_administration(bookies: Bookies, http_port: int) -> None:
    path = "/api/v1/bookie/state/readonly"
    with Wire(bookies.members[1].address) as wire:
        assert wire.ask(add(2, 0)).status is Status.OK
        assert asked(http_port, path, {"readOnly": True}) == {"readOnly": True}
        bookies.wait_until(
            lambda: (
                bool(session_of(bookies, "/ledgers/available/readonly/b1"))
                and not session_of(bookies, "/ledgers/available/b1")
            ),
            "it is not registered as read-only",
        )
        assert asked(http_port, path) == {"readOnly": True}
        assert wire.ask(add(2, 1)) == Added(Status.READ_ONLY, 2, 1)
        assert wire.ask(ReadEntry(2, 0)).status is Status.OK
        assert asked(http_port, path, {"readOnly": False}) == {"readOnly": False}
        bookies.wait_until(lambda: bool(session_of(bookies, "/ledgers/available/b1")), "it is not writable again")
        assert wire.ask(add(2, 1)).status is Status.OK
    lines = (bookies.members[1].directory / "ledgers" / "audit.log").read_text().splitlines()
    operations = [line.partition("operation=")[2].split("\t")[0] for line in lines]
    assert [each for each in operations if "eadOnly" in each or "ritable" in each] == [
        *("orderReadOnly", "becomeReadOnly", "orderWritable", "becomeWritable")
    ]


def test_what_the_port_for_administration_says(bookies: Bookies, http_port: int) -> None:
    assert asked(http_port, "/heartbeat") == "OK\n"
    assert asked(http_port, "/api/v1/bookie/is_ready") == "OK"
    assert asked(http_port, "/health/ready") == {"ready": True}
    state = asked(http_port, "/api/v1/bookie/state")
    assert state == {"running": True, "readOnly": False, "shuttingDown": False, "availableForHighPriorityWrites": True}
    info = asked(http_port, "/api/v1/bookie/info")
    assert 0 < info["freeSpace"] < info["totalSpace"]
    config = asked(http_port, "/api/v1/config/server_config")
    assert (config["bookieId"], config["journalSyncData"]) == ("b1", True)
    with Wire(bookies.members[1].address) as wire:
        wire.send(*(add(3, entry) for entry in range(50)))
        wire.answers(50)
        assert wire.ask(ReadEntry(3, 0)).status is Status.OK
    metrics = asked(http_port, "/metrics")
    found = {line.split(" ")[0]: float(line.split(" ")[1]) for line in metrics.splitlines() if not line.startswith("#")}
    assert found["bookie_SERVER_STATUS"] == 1
    assert found['bookkeeper_server_ADD_ENTRY_REQUEST_count{success="true"}'] >= 50
    assert found['bookkeeper_server_READ_ENTRY_REQUEST_count{success="true"}'] >= 1
    assert found["bookkeeper_server_ADD_ENTRY_IN_PROGRESS"] == 0
    assert found["bookkeeper_server_READ_ENTRY_IN_PROGRESS"] == 0
    assert found["bookie_WRITE_BYTES"] > 0


@pytest.mark.parametrize("headers", [{"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}])
def test_web_pages_of_others_change_nothing(bookies: Bookies, http_port: int, headers: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        asked(http_port, "/api/v1/bookie/state/readonly", {"readOnly": True}, **headers)
    assert asked(http_port, "/api/v1/bookie/state/readonly") == {"readOnly": False}


@pytest.mark.parametrize("body", ["yes", {"readOnly": "true"}, {}, ["x" * 5000]])
def test_bodies_that_say_nothing_are_refused(bookies: Bookies, http_port: int, body: object) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        asked(http_port, "/api/v1/bookie/state/readonly", body)


def test_a_ledger_that_is_gone_from_the_metadata_is_deleted(bookies: Bookies, http_port: int) -> None:
    """Two rounds agree; the first one asks for the operator, since it would delete many of so few."""
    with Wire(bookies.members[1].address) as wire:
        assert wire.ask(add(4, 0)).status is Status.OK
        for _ in range(2):
            asked(http_port, "/api/v1/bookie/gc", {"force": True})
        bookies.wait_until(lambda: wire.ask(ReadEntry(4, 0)).status is Status.NO_LEDGER, "the ledger is not deleted")
        assert wire.ask(add(4, 1)).status is Status.FENCED


def test_status_shows_bookies_and_those_that_are_gone(bookies: Bookies) -> None:
    with bookies.ensemble.connect() as zk:
        zk.create("/ledgers/cookies/lost", b"5\n")
        command = [sys.executable, "-m", "zab.cli.main", "-s", bookies.ensemble.hosts, "status", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        zk.delete("/ledgers/cookies/lost")
    assert done.returncode == 1, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {line["bookie"]: (line["state"], line["address"]) for line in lines if line["type"] == "bookie"}
    assert found == {"b1": ("writable", bookies.members[1].address), "lost": ("gone", None)}
    assert "bookie_gone" in [line["name"] for line in lines if line["type"] == "alarm"]
