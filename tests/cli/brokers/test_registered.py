"""`zab broker list`: what the znodes of brokers say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from zab.cli.brokers.registered import Registered, read_registered
from zab.client import NoNodeError
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
    assert (seen.under_replicated_count, seen.offline_count) == (3, 2)


async def test_no_controller_and_no_topics() -> None:
    znodes = Znodes()
    del znodes.data[CONTROLLER], znodes.children[TOPICS]
    seen = await found(znodes)
    assert (seen.controller, seen.offline_count) == (None, 0)


async def test_what_is_no_brokers_is_refused() -> None:
    znodes = Znodes()
    znodes.data[broker_path(1)] = b"{"
    with pytest.raises(MalformedError):
        await found(znodes)
    znodes.children.clear()
    with pytest.raises(NoNodeError):
        await found(znodes)
