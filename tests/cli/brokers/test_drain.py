"""`zab broker drain` on three brokers in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import check
from zab.testing import Brokers

__all__ = ["run"]

pytestmark = pytest.mark.slow


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    """They have a topic of three partitions with two replicas each, and one with a replica on each."""
    with Brokers(3) as found:
        found.create_topic("two", 3, replication_factor=2)
        found.create_topic("three", 1, replication_factor=3)
        monkeypatch.setenv("ZAB_BOOTSTRAP_SERVER", found.bootstrap_servers)
        yield found


def leaders(run: Run) -> set[int]:
    return {line["leader"] for line in described(run)}


def described(run: Run) -> list[dict[str, object]]:
    assert run("topic", "describe", "--json") == 0, run.err
    return [found for line in run.out.splitlines() if (found := json.loads(line))["type"] == "partition"]


def test_leadership_is_moved_and_given_back(brokers: Brokers, run: Run, tmp_path: Path) -> None:
    before = {(line["topic"], line["partition"]): line["replicas"] for line in described(run)}
    assert run("broker", "drain", "1", "--plan", "--json") == 0, run.err
    planned = run.out
    assert planned
    assert leaders(run) == {1, 2, 3}
    assert run("broker", "drain", "1", "--json") == 0, run.err
    assert run.out == planned
    check("broker drain", json.loads(run.out.splitlines()[0]))
    assert "; broker 1 leads 0" in run.err
    assert run.err.endswith("; it can be stopped\n")
    moved = tmp_path / "moved"
    moved.write_text(run.out)
    assert leaders(run) == {2, 3}
    assert run("broker", "drain", "1") == 0
    assert run.out == ""
    assert run("broker", "drain", "1", "--undo", moved) == 0, run.err
    assert {(line["topic"], line["partition"]): line["replicas"] for line in described(run)} == before
    assert leaders(run) == {1, 2, 3}


def test_replicas_are_moved_where_there_is_a_broker_for_them(brokers: Brokers, run: Run) -> None:
    brokers.create_topic("single", 1, replication_factor=1)
    owner = brokers.leader("single")
    assert owner is not None
    assert run("broker", "drain", owner.id) == 1
    assert "no other one can take: single-0" in run.err
    assert run("broker", "drain", owner.id, "--replicas", "--at-once", "1") == 1
    assert run.err.endswith(f"zab: broker {owner.id} keeps 1 partition, which no other one can take: three-0\n")
    assert "1 replica left\n" in run.err
    kept = [line["topic"] for line in described(run) if owner.id in line["replicas"]]  # type: ignore[operator]
    assert kept == ["three"]


def test_what_makes_no_sense_is_refused(run: Run, tmp_path: Path, brokers: Brokers) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("[]\n")
    assert run("broker", "drain", "1", "--undo", wrong) == 2
    assert "line 1 is no line of zab broker drain --json" in run.err
    assert run("broker", "drain", "1", "--undo", tmp_path / "none") == 2
    assert run("broker", "drain", "1", "--undo", wrong, "--replicas") == 2
    assert run("broker", "drain", "77") == 2
    assert "there is no broker 77" in run.err
