"""The uniform assignor where members subscribe to different topics: as balanced as their subscriptions allow.

1. Members keep what they had of the topics to which they still subscribe.
2. Partitions that nobody has go to the subscriber that has least, topics with most partitions for a subscriber first.
3. Of each topic, partitions go from subscribers that have most to those that have least, until they differ by one at
   most; and again for all topics, until nothing moves, or `ROUNDS_MAX` times.

This is Kafka's algorithm (`UniformHeterogeneousAssignmentBuilder`, 4.1), with its ties: members by their place, topics
by their ids as Java compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.kafka.primitives import Uuid

ROUNDS_MAX: Final = 16
"""Members whose subscriptions overlap may take many rounds; each about halves the imbalance."""

_NOBODY: Final = -1


def java_order(topic: Uuid) -> tuple[int, int]:
    """Java compares ids as two signed numbers."""
    return int.from_bytes(topic[:8], "big", signed=True), int.from_bytes(topic[8:], "big", signed=True)


def assign_uneven(
    subscribed: Mapping[str, frozenset[Uuid]],
    kept: Mapping[str, Mapping[Uuid, frozenset[int]]],
    counts: Mapping[Uuid, int],
) -> dict[str, dict[Uuid, frozenset[int]]]:
    """What each member is to own; `kept` has only topics to which it subscribes. Each topic has a subscriber."""
    work = _Work(subscribed, kept, counts)
    work.hand_out()
    work.balance()
    return work.target()


class _Work:
    def __init__(
        self,
        subscribed: Mapping[str, frozenset[Uuid]],
        kept: Mapping[str, Mapping[Uuid, frozenset[int]]],
        counts: Mapping[Uuid, int],
    ) -> None:
        self._members = list(subscribed)
        self._counts = counts
        self._subscribers: dict[Uuid, list[int]] = {topic: [] for topic in counts}
        self._owners = {topic: [_NOBODY] * count for topic, count in counts.items()}
        self._sizes = [0] * len(self._members)
        for place, member_id in enumerate(self._members):
            for topic in subscribed[member_id]:
                self._subscribers[topic].append(place)
            for topic, partitions in kept[member_id].items():
                self._sizes[place] += len(partitions)
                for index in partitions:
                    self._owners[topic][index] = place
        self._topics = sorted(counts, key=self._rank)

    def _rank(self, topic: Uuid) -> tuple[float, int, tuple[int, int]]:
        count = len(self._subscribers[topic])
        return -self._counts[topic] / count, count, java_order(topic)

    def hand_out(self) -> None:
        """Partitions that nobody has."""
        for topic in self._topics:
            free = [index for index, owner in enumerate(self._owners[topic]) if owner == _NOBODY]
            if free:
                loads = _Loads(self._sizes, self._subscribers[topic])
                for index in free:
                    self._give(topic, index, loads.next_least())

    def balance(self) -> None:
        """Step 3 of the top of the file."""
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        last_moved: Uuid | None = None
        for _ in range(ROUNDS_MAX):
            for topic in topics:
                if topic == last_moved:
                    return
                if self._balance_topic(topic) or last_moved is None:
                    last_moved = topic

    def _balance_topic(self, topic: Uuid) -> bool:
        """Whether something moved."""
        loads = _Loads(self._sizes, self._subscribers[topic])
        if loads.imbalance <= 1:
            return False
        own: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic]):
            own.setdefault(owner, []).append(index)
        has_moved = False
        while not loads.is_balanced:
            giver = loads.next_most(own)
            if giver is None:
                break
            index = own[giver].pop()
            taker = loads.next_least()
            if loads.is_balanced:
                break
            self._give(topic, index, taker)
            has_moved = True
        return has_moved

    def _give(self, topic: Uuid, index: int, place: int) -> None:
        before = self._owners[topic][index]
        if before != _NOBODY:
            self._sizes[before] -= 1
        self._owners[topic][index] = place
        self._sizes[place] += 1

    def target(self) -> dict[str, dict[Uuid, frozenset[int]]]:
        found: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic, owners in self._owners.items():
            for index, place in enumerate(owners):
                found[place].setdefault(topic, set()).add(index)
        return {
            member_id: {topic: frozenset(indexes) for topic, indexes in own.items()}
            for member_id, own in zip(self._members, found, strict=True)
        }


class _Loads:
    """The subscribers of a topic by how many partitions they have: a range of those that have least, which grows to the
    right as they are given more, and one of those that have most, which grows to the left as they give."""

    def __init__(self, sizes: list[int], subscribers: list[int]) -> None:
        self._sizes = sizes
        self._members = members = sorted(subscribers, key=lambda place: (sizes[place], place))
        self.imbalance = sizes[members[-1]] - sizes[members[0]]
        self._least_end = 0
        self._least_count = sizes[members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(members)
        self._most_count = sizes[members[-1]] + 1
        self._next_most = len(members) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether the ranges differ by one at most."""
        return self._most_count - self._least_count <= 1

    def next_least(self) -> int:
        """The member that gets the next partition."""
        members = self._members
        if self._next_least >= self._least_end:
            self._least_count += 1
            while self._least_end < len(members) and self._sizes[members[self._least_end]] == self._least_count:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return members[self._next_least - 1]

    def next_most(self, own: Mapping[int, list[int]]) -> int | None:
        """The member that gives the next partition, of those that have some of this topic; None: there is none."""
        while (place := self._next_most_of_all()) is not None and not own.get(place):
            self._exclude()
        return place

    def _next_most_of_all(self) -> int | None:
        members = self._members
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_count = self._sizes[members[self._most_start - 1]]
            else:
                self._most_count -= 1
            while self._most_start > 0 and self._sizes[members[self._most_start - 1]] == self._most_count:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return members[self._next_most + 1]

    def _exclude(self) -> None:
        """The last giver has nothing to give: it leaves the range."""
        members, at, end = self._members, self._next_most + 1, self._most_end - 1
        members[at], members[end] = members[end], members[at]
        self._most_end -= 1
