"""The checks of `zab doctor` for a broker: from facts to verdicts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import evolve

from zab.operations.verdicts.broker_checks import Directory, Safety, of_cluster, of_directory, of_safety
from zab.operations.verdicts.brokers import Registered, RegisteredBroker
from zab.operations.verdicts.checks import Check

SAFE = Safety(replicas=3, offsets_replicas=3, min_in_sync=2, elects_uncleanly=False, syncs=False)
THERE = Directory(path="logs", owner=(1, "cluster"), is_clean=True, partitions=4)
ONE = RegisteredBroker(1, 7, ("PLAINTEXT://h:1",), None)


def said(checks: Iterable[Check]) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.subject) for each in checks]


def test_three_replicas_of_which_two_have_to_be_in_sync_are_safe() -> None:
    assert said(of_safety(SAFE, {})) == [("ok", "")]


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        (evolve(SAFE, min_in_sync=1), ["min.insync.replicas"]),
        (evolve(SAFE, min_in_sync=3), ["min.insync.replicas"]),
        (evolve(SAFE, elects_uncleanly=True), ["unclean.leader.election.enable"]),
        (evolve(SAFE, offsets_replicas=1), ["offsets.topic.replication.factor"]),
        (evolve(SAFE, transactions_replicas=1), ["transaction.state.log.replication.factor"]),
        (evolve(SAFE, transactions_min_in_sync=1), ["transaction.state.log.min.isr"]),
        (evolve(SAFE, transactions_min_in_sync=3), ["transaction.state.log.min.isr"]),
        (evolve(SAFE, replicas=1), ["default.replication.factor", "log.flush.mode"]),
        (evolve(SAFE, replicas=1, offsets_replicas=1, syncs=True), ["default.replication.factor"]),
    ],
)
def test_what_endangers_data_is_named(changed: Safety, keys: list[str]) -> None:
    assert said(of_safety(changed, {})) == [("warning", key) for key in keys]


def test_a_danger_has_its_line_and_what_to_do() -> None:
    [danger] = of_safety(evolve(SAFE, min_in_sync=1), {"min.insync.replicas": 7})
    assert danger.said.startswith("line 7: min.insync.replicas: of 3 replicas one is enough")
    assert danger.action == "set it to 2"
    [danger] = of_safety(evolve(SAFE, min_in_sync=1), {})
    assert danger.said.startswith("min.insync.replicas is not set: ")


@pytest.mark.parametrize("least", [1, 2])
def test_with_two_replicas_there_is_one_advice(least: int) -> None:
    two = evolve(SAFE, replicas=2, min_in_sync=least, transactions_replicas=2, transactions_min_in_sync=least)
    dangers = list(of_safety(two, {}))
    assert [each.subject for each in dangers] == ["min.insync.replicas", "transaction.state.log.min.isr"]
    assert {each.action for each in dangers} == {"have three replicas, and set it to 2"}


def test_a_directory_of_another_broker_or_cluster_fails() -> None:
    assert said(of_directory(THERE, 1, "cluster")) == [("ok", "logs")]
    assert said(of_directory(THERE, -1, None)) == [("ok", "logs")]
    assert said(of_directory(THERE, 2, "cluster"))[0] == ("failed", "logs")
    assert said(of_directory(THERE, 1, "other"))[0] == ("failed", "logs")


def test_damage_is_named_with_its_file() -> None:
    damaged = evolve(THERE, damaged=(("t-0/partition.metadata", "it is missing"),))
    assert said(of_directory(damaged, 1, "cluster"))[0] == ("failed", "logs/t-0/partition.metadata")
    assert said(of_directory(evolve(THERE, owner=None), 1, None))[0] == ("warning", "logs")
    assert said(of_directory(evolve(THERE, exists=False), 1, None)) == [("skipped", "logs")]
    assert said(of_directory(evolve(THERE, error="no"), 1, None)) == [("failed", "logs")]


@pytest.mark.parametrize(
    ("directory", "stop"),
    [
        (THERE, "the last stop was clean"),
        (evolve(THERE, is_clean=False), "the last stop was not clean: the next start reads the ends of the logs again"),
        (evolve(THERE, is_clean=False, is_registered=True), "the broker is registered"),
        (evolve(THERE, is_clean=False, partitions=0), "the last stop was clean"),
    ],
)
def test_the_last_stop(directory: Directory, stop: str) -> None:
    [check] = of_directory(directory, 1, "cluster")
    assert check.said == f"{directory.partitions} partitions; {stop}"


def test_the_cluster_has_the_alarms_of_status() -> None:
    [check] = of_cluster(Registered((ONE,), 1), 1)
    assert check.said == "1 broker, all replicas are in sync; this one is registered"
    assert "not registered" in next(iter(of_cluster(Registered((ONE,), 1), 2))).said
    assert said(of_cluster(Registered((ONE,), None), 1)) == [("failed", "")]
    assert said(of_cluster(Registered((ONE,), 1, under_replicated=("t-0",)), 1)) == [("warning", "")]
    assert said(of_cluster("nobody answers", 1)) == [("failed", "")]
