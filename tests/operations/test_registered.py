"""What the znodes of brokers say, and the alarms that follow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from zab.client import NoNodeError
from zab.operations.registered import OF_ALL, read_registered
from zab.operations.verdicts.brokers import Registered, RegisteredBroker, alarms_of
from zab.partition.controller.znodes import (
    BROKERS,
    CONTROLLER,
    TOPICS,
    Assignment,
    Broker,
    MalformedError,
    PartitionState,
    TopicPartition,
    TopicZnode,
    broker_path,
    config_path,
    encode_config,
    encode_controller,
    state_path,
    topic_path,
)


class Znodes:
    """Two of three brokers are registered; the third had led a partition."""

    def __init__(self) -> None:
        self.data = {CONTROLLER: encode_controller(2, 0)}
        self.children = {BROKERS: ["2", "1"], TOPICS: ["t", "half-deleted"]}
        for broker in (1, 2):
            self.data[broker_path(broker)] = Broker(broker, (f"PLAINTEXT://h:{broker}",)).encode(0)
        assignments = {number: Assignment((1, 2, 3)) for number in range(3)}
        self.data[topic_path("t")] = TopicZnode(None, assignments).encode()
        for number, (leader, isr) in enumerate([(1, (1, 2)), (3, (3,))]):
            self.data[state_path(TopicPartition("t", number))] = PartitionState(leader, 0, isr).encode()

    async def get(self, path: str) -> tuple[bytes, Any]:
        await trio.lowlevel.checkpoint()
        if path not in self.data:
            raise NoNodeError(path)
        return self.data[path], SimpleNamespace(czxid=77, version=0)

    async def get_children(self, path: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        if path not in self.children:
            raise NoNodeError(path)
        return self.children[path]


async def found(znodes: Znodes) -> Registered:
    return await read_registered(znodes)  # type: ignore[arg-type]


async def test_only_what_is_registered_leads_and_is_in_sync() -> None:
    seen = await found(Znodes())
    assert [(each.id, each.epoch) for each in seen.brokers] == [(1, 77), (2, 77)]
    assert seen.controller == 2
    assert dict(seen.leads) == {1: 1}
    assert dict(seen.replicas) == {1: 3, 2: 3, 3: 3}
    assert dict(seen.lagging) == {1: 2, 2: 2, 3: 3}
    # One partition has a leader that is gone, and one has no state yet.
    assert (len(seen.under_replicated), seen.offline) == (3, ("t-1", "t-2"))


async def test_no_controller_and_no_topics() -> None:
    znodes = Znodes()
    del znodes.data[CONTROLLER], znodes.children[TOPICS]
    seen = await found(znodes)
    assert (seen.controller, seen.offline) == (None, ())


async def test_what_is_no_brokers_is_refused() -> None:
    znodes = Znodes()
    znodes.data[broker_path(1)] = b"{"
    with pytest.raises(MalformedError):
        await found(znodes)
    znodes.children.clear()
    with pytest.raises(NoNodeError):
        await found(znodes)


def names(registered: Registered) -> list[str]:
    return [f"{alarm.severity} {alarm.name}" for alarm in alarms_of(registered)]


async def test_a_broker_that_ended_is_named_with_what_follows() -> None:
    seen = await found(Znodes())
    assert seen.gone == (3,)
    assert names(seen) == ["critical partitions_offline", "warning broker_gone", "warning under_replicated"]
    [offline, gone, _] = alarms_of(seen)
    assert offline.reason == "2 partitions have no leader: t-1, t-2"
    assert gone.reason == "broker 3 is not registered, and has 3 replicas"


@pytest.mark.parametrize(
    ("path", "wanted", "is_short"),
    [(config_path("topics", "t"), 3, True), (config_path("topics", "t"), 2, False), (OF_ALL, 3, True)],
)
async def test_too_few_in_sync_are_those_that_the_topic_or_the_brokers_want(
    path: str, wanted: int, is_short: bool
) -> None:
    znodes = Znodes()
    znodes.data[path] = encode_config({"min.insync.replicas": str(wanted)})
    assert (await found(znodes)).short == (("t-0",) if is_short else ())


async def test_what_a_topic_wants_counts_before_what_the_brokers_want() -> None:
    znodes = Znodes()
    znodes.data[OF_ALL] = encode_config({"min.insync.replicas": "3"})
    znodes.data[config_path("topics", "t")] = encode_config({"min.insync.replicas": "1"})
    assert (await found(znodes)).short == ()


async def test_a_topic_that_wants_more_than_it_has_is_short_only_where_one_is_missing() -> None:
    znodes = Znodes()
    znodes.data[config_path("topics", "t")] = encode_config({"min.insync.replicas": "9"})
    znodes.data[topic_path("t")] = TopicZnode(None, {0: Assignment((1, 2))}).encode()
    assert (await found(znodes)).short == ()


async def test_a_leader_that_was_not_in_sync_is_an_alarm() -> None:
    znodes = Znodes()
    state = PartitionState(1, 5, (1,), recovering=True)
    znodes.data[state_path(TopicPartition("t", 0))] = state.encode()
    seen = await found(znodes)
    assert seen.unclean == ("t-0",)
    assert "warning unclean_leader" in names(seen)


def test_nobody_and_no_controller() -> None:
    assert names(Registered((), None)) == ["critical no_broker"]
    one = RegisteredBroker(1, 7, ("PLAINTEXT://h:1",), None)
    assert names(Registered((one,), None)) == ["critical no_controller"]
    assert names(Registered((one,), 1)) == []


def test_a_reason_names_a_few_partitions_and_counts_all() -> None:
    one = RegisteredBroker(1, 7, ("PLAINTEXT://h:1",), None)
    [alarm] = alarms_of(Registered((one,), 1, under_replicated=tuple(f"t-{number}" for number in range(9))))
    assert alarm.reason == "9 partitions have replicas that are not in sync: t-0, t-1, t-2, …"
