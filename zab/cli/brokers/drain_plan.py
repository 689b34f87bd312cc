"""What `zab broker drain` moves, and to where: a plan, before anything is done.

    leadership_plan(partitions, broker)             other replicas come first, those in sync before others
    replica_plan(partitions, broker, brokers)       another broker takes the replica, the one that has fewest
    undo_plan(partitions, text)                     what each partition had before, by the lines of an earlier drain

A move is a new list of replicas; the first of them is who leads. Where nobody can take over, the partition is among the
`stuck`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import frozen

__all__ = ["LINE_BYTES_MAX", "Move", "Plan", "Replicas", "leadership_plan", "replica_plan", "undo_plan"]

LINE_BYTES_MAX: Final = 64 * 1024


@frozen
class Replicas:
    """A partition as it is."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@frozen
class Move:
    """A partition, and the replicas that it is to have."""

    place: Replicas
    replicas: tuple[int, ...]

    @property
    def is_of_order(self) -> bool:
        """Nothing is copied: the same brokers have it."""
        return set(self.replicas) == set(self.place.replicas)


@frozen
class Plan:
    """stuck: the partitions that stay, since there is nobody to take them."""

    moves: tuple[Move, ...]
    stuck: tuple[Replicas, ...] = ()


def leadership_plan(partitions: Iterable[Replicas], broker: int) -> Plan:
    """Have others lead what this broker leads, or would lead after an election of preferred leaders."""
    moves, stuck = [], []
    for place in partitions:
        if broker not in place.replicas or (place.replicas[0] != broker and place.leader != broker):
            continue
        others = _others(place, broker)
        if others and others[0] in place.in_sync:
            moves.append(Move(place, (*others, broker)))
        else:
            stuck.append(place)
    return Plan(tuple(moves), tuple(stuck))


def replica_plan(partitions: Iterable[Replicas], broker: int, brokers: Iterable[int]) -> Plan:
    """Have others keep what this broker keeps. `brokers`: those that run."""
    places = list(partitions)
    load = Counter({each: 0 for each in brokers if each != broker})
    for place in places:
        load.update(each for each in place.replicas if each in load)
    moves, stuck = [], []
    for place in places:
        if broker not in place.replicas:
            continue
        able = [each for each in load if each not in place.replicas]
        if not able:
            stuck.append(place)
            continue
        taker = min(able, key=lambda each: (load[each], each))
        load[taker] += 1
        moves.append(Move(place, (*_others(place, broker), taker)))
    return Plan(tuple(moves), tuple(stuck))


def _others(place: Replicas, broker: int) -> list[int]:
    """The other replicas in their order, those in sync before others."""
    others = [each for each in place.replicas if each != broker]
    return sorted(others, key=lambda each: each not in place.in_sync)


def undo_plan(partitions: Iterable[Replicas], lines: Iterable[str]) -> Plan:
    """What the lines of `zab broker drain --json` say that partitions had before. A topic that is gone is passed over.
    Raises ValueError."""
    known = {(place.topic, place.partition): place for place in partitions}
    moves: dict[tuple[str, int], Move] = {}
    for number, line in enumerate(lines, 1):
        where, former = _former(line, number)
        place = known.get(where)
        # What was moved twice had before what the first line says.
        if place is not None and where not in moves:
            moves[where] = Move(place, former)
    return Plan(tuple(move for move in moves.values() if move.replicas != move.place.replicas))


def _former(line: str, number: int) -> tuple[tuple[str, int], tuple[int, ...]]:
    try:
        found: Any = json.loads(line) if len(line) <= LINE_BYTES_MAX else None
    except ValueError:
        found = None
    match found:
        case {"topic": str(topic), "partition": int(partition), "former": [*former]} if _is_replicas(former):
            return (topic, partition), tuple(former)
    raise ValueError(f"line {number} is no line of zab broker drain --json")


def _is_replicas(former: Sequence[object]) -> bool:
    is_number = all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in former)
    return bool(former) and is_number and len(set(former)) == len(former)
