"""Which brokers get the replicas of new partitions.

    start, shift      random, so that topics are spread; n brokers
    leader of i       brokers[(start + i) mod n]
    replica j         brokers[(leader + 1 + (shift + j) mod (n - 1)) mod n], j from 0 after the leader
    shift + 1         each time i passes a multiple of n, so that the same leader has other followers next time

With racks the brokers are ordered so that racks alternate, and a replica is taken only where its rack has none of the
partition yet, or all racks have one; and where its broker has none, or all have one (Kafka's AdminUtils). If some
brokers have a rack and others none, racks are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from zab.partition.controller.znodes import Broker


def assign(
    brokers: Iterable[Broker], partition_count: int, replication_factor: int, random: Random, first_partition: int = 0
) -> dict[int, tuple[int, ...]]:
    """The replicas of partitions first_partition … + partition_count - 1.

    Raises ValueError if there are fewer brokers than replicas.
    """
    known = sorted(brokers, key=lambda each: each.id)
    if not 0 < replication_factor <= len(known):
        raise ValueError(f"{replication_factor} replicas, {len(known)} brokers")
    racks = {each.id: each.rack for each in known if each.rack is not None}
    start, shift = random.randrange(len(known)), random.randrange(len(known))
    if len(racks) < len(known):
        ids = [each.id for each in known]
        return _without_racks(ids, partition_count, replication_factor, start, shift, first_partition)
    return _with_racks(racks, partition_count, replication_factor, start, shift, first_partition)


def _index(first: int, shift: int, replica: int, count: int) -> int:
    return (first + 1 + (shift + replica) % (count - 1)) % count


def _without_racks(
    ids: list[int], partition_count: int, replication_factor: int, start: int, shift: int, first_partition: int
) -> dict[int, tuple[int, ...]]:
    count, found = len(ids), {}
    for number in range(first_partition, first_partition + partition_count):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        others = [ids[_index(first, shift, each, count)] for each in range(replication_factor - 1)]
        found[number] = (ids[first], *others)
    return found


def alternating(racks: Mapping[int, str]) -> list[int]:
    """Brokers in such an order that neighbours are in different racks, as far as that goes."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    longest = max(len(each) for each in by_rack.values())
    return [by_rack[rack][at] for at in range(longest) for rack in sorted(by_rack) if at < len(by_rack[rack])]


def _with_racks(
    racks: Mapping[int, str],
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, tuple[int, ...]]:
    ids, rack_count, found = alternating(racks), len(set(racks.values())), {}
    count = len(ids)
    for number in range(first_partition, first_partition + partition_count):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        chosen, at = [ids[first]], 0
        while len(chosen) < replication_factor:
            candidate = ids[_index(first, shift * rack_count, at, count)]
            at += 1
            used = {racks[each] for each in chosen}
            if candidate not in chosen and (racks[candidate] not in used or len(used) == rack_count):
                chosen.append(candidate)
        found[number] = tuple(chosen)
    return found
