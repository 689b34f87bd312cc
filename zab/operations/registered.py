"""What the coordination service knows of brokers: who is registered, who is the controller, who leads what.

It is read below the chroot of the client, so it is there also when no broker answers. It is no moment: what changes
while it is read may be seen partly. What is deleted meanwhile is passed over.

How many replicas have to be in sync is what the topic says, or the setting that was made for all brokers; what only
the files of the brokers say is not known here, and counts as 1.

Limits: `READS_COUNT` requests are under way at a time; a partition takes some 100 bytes here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import trio

from zab.client import Client, NoNodeError, Stat, ZabError
from zab.operations.verdicts.brokers import Registered, RegisteredBroker
from zab.partition.controller.znodes import (
    BROKERS,
    CONTROLLER,
    DEFAULT_NAME,
    TOPICS,
    Broker,
    PartitionState,
    TopicPartition,
    TopicZnode,
    broker_path,
    config_path,
    decode_config,
    decode_controller,
    state_path,
    topic_path,
)

__all__ = ["read_registered"]

READS_COUNT: Final = 64
MIN_ISR: Final = "min.insync.replicas"
OF_ALL: Final = config_path("brokers", DEFAULT_NAME)


async def read_registered(zk: Client) -> Registered:
    """Raises NoNodeError if no broker has ever registered there, MalformedError for what is no broker's, ZabError."""
    ids = sorted(int(each) for each in await zk.get_children(BROKERS) if each.isascii() and each.isdecimal())
    controller, of_all = await _read(zk, [CONTROLLER, OF_ALL])
    found = zip(ids, await _read(zk, list(map(broker_path, ids))), strict=True)
    brokers = tuple(_broker(Broker.decode(broker, one[0], one[1].czxid)) for broker, one in found if one is not None)
    replicas = await _replicas(zk)
    wanted = await _wanted(zk, sorted({place.topic for place in replicas}), _min_isr(OF_ALL, of_all, 1))
    states = await _read(zk, list(map(state_path, replicas)))
    alive = {each.id for each in brokers}
    leads, held, lagging = Counter[int](), Counter[int](), Counter[int]()
    under_replicated, offline, short, unclean = list[str](), list[str](), list[str](), list[str]()
    for (place, ids_of), one in zip(replicas.items(), states, strict=True):
        state = None if one is None else PartitionState.decode(place, one[0], one[1].version)
        in_sync = set() if state is None else alive.intersection(state.isr)
        held.update(ids_of)
        lagging.update(each for each in ids_of if each not in in_sync)
        if not in_sync.issuperset(ids_of):
            under_replicated.append(str(place))
        if state is None or state.leader not in alive:
            offline.append(str(place))
            continue
        leads[state.leader] += 1
        if len(in_sync) < min(wanted[place.topic], len(ids_of)):
            short.append(str(place))
        if state.recovering:
            unclean.append(str(place))
    leader = None if controller is None else decode_controller(controller[0])
    lists = map(tuple, (under_replicated, offline, short, unclean))
    return Registered(brokers, leader, leads, held, lagging, *lists)


def _broker(broker: Broker) -> RegisteredBroker:
    return RegisteredBroker(broker.id, broker.epoch, tuple(broker.endpoints), broker.rack)


async def _wanted(zk: Client, topics: Sequence[str], otherwise: int) -> dict[str, int]:
    """How many replicas of each topic have to be in sync."""
    paths = [config_path("topics", topic) for topic in topics]
    found = zip(topics, paths, await _read(zk, paths), strict=True)
    return {topic: _min_isr(path, one, otherwise) for topic, path, one in found}


def _min_isr(path: str, one: tuple[bytes, Stat] | None, otherwise: int) -> int:
    value = "" if one is None else decode_config(path, one[0]).get(MIN_ISR, "")
    return int(value) if value.isascii() and value.isdecimal() else otherwise


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
    found: list[tuple[bytes, Stat] | None] = [None] * len(paths)
    failures: list[ZabError] = []

    async def read(at: int) -> None:
        try:
            data, stat = await zk.get(paths[at])
            found[at] = data or b"", stat
        except NoNodeError:
            pass
        except ZabError as error:
            failures.append(error)

    for start in range(0, len(paths), READS_COUNT):
        async with trio.open_nursery() as nursery:
            for at in range(start, min(start + READS_COUNT, len(paths))):
                nursery.start_soon(read, at)
        if failures:
            raise failures[0]
    return found
