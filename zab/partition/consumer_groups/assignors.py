"""The assignors of the coordinator, by Kafka's names: who is to own which partition.

    uniform   all members get the same number, give or take one, and keep as many as they can of what they had (the
              default). Members that subscribe to different topics: `uneven`
    range     of each topic, a run of partitions for each of its members, in the order of their ids, static members
              first: topics with as many partitions are assigned alike

Both give what Kafka 4.1 gives for the same members and topics in the same order, and what members had. There that order
is one of hash tables; here members and topics are sorted by their ids.

An assignor reads what it is given, and nothing else. The work grows with the members and their partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from attrs import define, frozen

from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.uneven import assign_uneven

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Partitions by the id of their topic; no set is empty."""


@frozen
class MemberSpec:
    """What an assignor is told about a member: its instance, the topics that it subscribes to and that exist, and what
    it was to own before."""

    instance_id: str | None
    topics: frozenset[Uuid]
    owned: Partitions


Specs: TypeAlias = Mapping[str, MemberSpec]
"""By member id, in the order in which members are served."""
Counts: TypeAlias = Mapping[Uuid, int]
"""How many partitions each topic has that a member subscribes to, in the order in which topics are served."""
Target: TypeAlias = dict[str, dict[Uuid, frozenset[int]]]
"""What each member is to own."""
Assignor: TypeAlias = Callable[[Specs, Counts, bool], Target]
"""The last argument: whether all members subscribe to the same."""


# ------------------------------------------------------------------------------------------------------------- uniform


def uniform(members: Specs, counts: Counts, is_even: bool) -> Target:
    """See the top of the file."""
    if not members or not counts:
        return {member_id: {} for member_id in members}
    if is_even:
        return _even(members, counts)
    subscribed = {member_id: each.topics for member_id, each in members.items()}
    kept = {member_id: _kept(each) for member_id, each in members.items()}
    return assign_uneven(subscribed, kept, counts)


def _kept(member: MemberSpec) -> dict[Uuid, frozenset[int]]:
    return {topic: partitions for topic, partitions in member.owned.items() if topic in member.topics}


@define
class _Quotas:
    """How many partitions a member gets: `least`, and `extra` members one more."""

    least: int
    extra: int
    left: int
    """Members that were not asked yet, with the one that is."""

    def keep(self, member: MemberSpec) -> tuple[dict[Uuid, frozenset[int]], set[tuple[Uuid, int]], int]:
        """What the next member keeps, what it gives up, and how many it lacks."""
        may_have_extra = self.extra > 0
        room = self.least + may_have_extra
        kept: dict[Uuid, frozenset[int]] = {}
        given_up: set[tuple[Uuid, int]] = set()
        for topic, partitions in _kept(member).items():
            stays = sorted(partitions)[:room]
            room -= len(stays)
            if stays:
                kept[topic] = frozenset(stays)
            given_up |= {(topic, each) for each in partitions.difference(stays)}
        if room and may_have_extra and self.left > self.extra:
            room -= 1
            may_have_extra = False
        self.extra -= may_have_extra
        self.left -= 1
        return kept, given_up, room


def _even(members: Specs, counts: Counts) -> Target:
    owned = {(topic, each) for spec in members.values() for topic, own in spec.owned.items() for each in own}
    free = [(topic, index) for topic, count in counts.items() for index in range(count) if (topic, index) not in owned]
    least, extra = divmod(sum(counts.values()), len(members))
    quotas = _Quotas(least, extra, len(members))
    target: Target = {}
    lacks: dict[str, int] = {}
    for member_id, spec in members.items():
        target[member_id], given_up, lacks[member_id] = quotas.keep(spec)
        free += sorted(given_up, key=_in_order_of(spec.owned))
    at = 0
    for member_id, count in lacks.items():
        gets = free[at : at + count]
        at += len(gets)
        _add(target[member_id], gets)
    assert at == len(free), "quotas add up to all partitions"
    return target


def _in_order_of(owned: Partitions) -> Callable[[tuple[Uuid, int]], tuple[int, int]]:
    place = {topic: at for at, topic in enumerate(owned)}
    return lambda each: (place[each[0]], each[1])


def _add(own: dict[Uuid, frozenset[int]], partitions: list[tuple[Uuid, int]]) -> None:
    more: dict[Uuid, set[int]] = {}
    for topic, index in partitions:
        more.setdefault(topic, set()).add(index)
    for topic, indexes in more.items():
        own[topic] = own.get(topic, frozenset()) | indexes


# --------------------------------------------------------------------------------------------------------------- range


def range_(members: Specs, counts: Counts, is_even: bool) -> Target:
    """See the top of the file."""
    in_order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    subscribers = dict.fromkeys(counts, 0)
    for spec in members.values():
        for topic in spec.topics:
            subscribers[topic] += 1
    served = dict.fromkeys(counts, 0)
    target: Target = {member_id: {} for member_id in members}
    for member_id in in_order:
        for topic in members[member_id].topics:
            least, extra = divmod(counts[topic], subscribers[topic])
            at = served[topic]
            served[topic] += 1
            start = at * least + min(at, extra)
            end = start + least + (at < extra)
            if start < end:
                target[member_id][topic] = frozenset(range(start, end))
    return target


def _rank(member_id: str, spec: MemberSpec) -> tuple[bool, str]:
    return (True, member_id) if spec.instance_id is None else (False, spec.instance_id)


UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniform, RANGE: range_}
