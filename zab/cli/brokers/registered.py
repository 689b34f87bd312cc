"""What the coordination service knows of brokers: who is registered, who is the controller, who leads what.

It is read below the chroot of `-s`, so it is there also when no broker answers. It is no moment: what changes while it
is read may be seen partly. What is deleted meanwhile is passed over.

Limits: `READS_COUNT` requests are under way at a time; a partition takes some 100 bytes here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import field, frozen

from zab.cli.znodes.walking import together
from zab.client import Client, NoNodeError, Stat, ZabError
from zab.partition.controller.znodes import (
    BROKERS,
    CONTROLLER,
    TOPICS,
    Broker,
    PartitionState,
    TopicPartition,
    TopicZnode,
    broker_path,
    decode_controller,
    state_path,
    topic_path,
)

__all__ = ["Registered", "read_registered"]

READS_COUNT: Final = 64


@frozen
class Registered:
    """controller: None if there is none. The others are by broker: how many partitions it leads, of how many it has a
    replica, of how many of these its replica is not in sync. offline: partitions without a leader that is registered.
    """

    brokers: tuple[Broker, ...]
    controller: int | None
    leads: Counter[int] = field(factory=Counter)
    replicas: Counter[int] = field(factory=Counter)
    lagging: Counter[int] = field(factory=Counter)
    under_replicated_count: int = 0
    offline_count: int = 0


async def read_registered(zk: Client) -> Registered:
    """Raises NoNodeError if no broker has ever registered there, MalformedError for what is no broker's, ZabError."""
    ids = sorted(int(each) for each in await zk.get_children(BROKERS) if each.isascii() and each.isdecimal())
    [controller] = await _read(zk, [CONTROLLER])
    found = zip(ids, await _read(zk, list(map(broker_path, ids))), strict=True)
    brokers = tuple(Broker.decode(broker, one[0], one[1].czxid) for broker, one in found if one is not None)
    replicas = await _replicas(zk)
    states = await _read(zk, list(map(state_path, replicas)))
    alive = {each.id for each in brokers}
    leads, held, lagging = Counter[int](), Counter[int](), Counter[int]()
    under_replicated = offline = 0
    for (place, ids_of), one in zip(replicas.items(), states, strict=True):
        state = None if one is None else PartitionState.decode(place, one[0], one[1].version)
        in_sync = set() if state is None else alive.intersection(state.isr)
        held.update(ids_of)
        lagging.update(each for each in ids_of if each not in in_sync)
        under_replicated += not in_sync.issuperset(ids_of)
        if state is not None and state.leader in alive:
            leads[state.leader] += 1
        else:
            offline += 1
    leader = None if controller is None else decode_controller(controller[0])
    return Registered(brokers, leader, leads, held, lagging, under_replicated, offline)


async def _replicas(zk: Client) -> dict[TopicPartition, tuple[int, ...]]:
    """The brokers of all partitions, topics in the order of their names."""
    try:
        topics = sorted(await zk.get_children(TOPICS))
    except NoNodeError:
        return {}
    places: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, one in zip(topics, await _read(zk, list(map(topic_path, topics))), strict=True):
        partitions = {} if one is None else TopicZnode.decode(topic, one[0]).partitions
        places.update((TopicPartition(topic, number), each.replicas) for number, each in sorted(partitions.items()))
    return places


async def _read(zk: Client, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
    """Data and stat of each; None for those that do not exist. Raises ZabError."""
    found: list[tuple[bytes, Stat] | None] = []
    for at in range(0, len(paths), READS_COUNT):
        for answer in await together([partial(zk.get, path) for path in paths[at : at + READS_COUNT]]):
            if isinstance(answer, NoNodeError):
                found.append(None)
            elif isinstance(answer, ZabError):
                raise answer
            else:
                data, stat = answer
                found.append((data or b"", stat))
    return found
