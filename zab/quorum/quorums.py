"""Which sets of servers decide.

    Majority       more than half of the voters: Zab's usual rule
    Hierarchical   a majority of the groups, each by a majority of its weight (`group.G=…`, `weight.N=…` in `zoo.cfg`)
    Joint          a quorum under both of two rules, while the second replaces the first
    AckQuorum      any Qa servers of a write set: BookKeeper's rule for one entry
    InSync         every server of a set that may shrink, but not below a minimum: Kafka's rule

Any two quorums of one rule intersect, which is all that Zab needs; ack quorums are the exception. Two ack quorums of a
write set may be disjoint: a reader that recovers a ledger therefore collects Qw - Qa + 1 answers, so that every ack
quorum shares a server with them.

The position that a quorum has reached in a log is its high-water mark (`zab.quorum.high_water_mark`).
"""

from collections.abc import Iterable, Mapping, Set
from typing import Protocol

import attrs

from zab.quorum.ids import ServerId


class Quorum(Protocol):
    """The quorum rule of one configuration."""

    @property
    def voters(self) -> frozenset[ServerId]:
        """The servers that may decide: those with a weight above 0."""

    def contains(self, servers: Set[ServerId]) -> bool:
        """Whether these servers include a quorum. Ids of servers that are not voters do not count."""


@attrs.frozen
class Majority:
    """More than half of the voters."""

    voters: frozenset[ServerId]

    def contains(self, servers: Set[ServerId]) -> bool:
        return len(self.voters & servers) > len(self.voters) // 2


def _voters_of(hierarchical: "Hierarchical") -> frozenset[ServerId]:
    return frozenset(
        server for group in hierarchical.groups for server in group if hierarchical.weights.get(server, 1) > 0
    )


@attrs.frozen
class Hierarchical:
    """A majority of the groups of non-zero weight, where a group counts by more than half of its weight."""

    groups: tuple[frozenset[ServerId], ...]
    weights: Mapping[ServerId, int]
    """The weight of each server; 1 for those not listed. A server of weight 0 never decides anything."""
    voters: frozenset[ServerId] = attrs.field(init=False, default=attrs.Factory(_voters_of, takes_self=True))

    def __attrs_post_init__(self) -> None:
        seen = [server for group in self.groups for server in group]
        assert len(seen) == len(set(seen)), "a server is in two groups"

    def _weight(self, servers: Iterable[ServerId]) -> int:
        return sum(self.weights.get(server, 1) for server in servers)

    def contains(self, servers: Set[ServerId]) -> bool:
        weights = [(self._weight(group), self._weight(group & servers)) for group in self.groups]
        weighted = [(total, present) for total, present in weights if total > 0]
        won = sum(present > total // 2 for total, present in weighted)
        return won > len(weighted) // 2


def rule_of(voters: Iterable[int], groups: Mapping[int, Iterable[int]], weights: Mapping[int, int]) -> Quorum:
    """The rule of a configuration: hierarchical if it has groups, else a majority."""
    if not groups:
        return Majority(frozenset(map(ServerId, voters)))
    of_groups = tuple(frozenset(map(ServerId, ids)) for ids in groups.values())
    return Hierarchical(of_groups, {ServerId(sid): weight for sid, weight in weights.items()})


@attrs.frozen
class Joint:
    """A quorum of the old configuration and one of the new, for as long as it is unknown which of them decides."""

    old: Quorum
    new: Quorum

    @property
    def voters(self) -> frozenset[ServerId]:
        return self.old.voters | self.new.voters

    def contains(self, servers: Set[ServerId]) -> bool:
        return self.old.contains(servers) and self.new.contains(servers)


def each_of(quorum: Quorum) -> tuple[Quorum, ...]:
    """The rules that a joint quorum joins; any other rule alone."""
    return (quorum.old, quorum.new) if isinstance(quorum, Joint) else (quorum,)


@attrs.frozen
class AckQuorum:
    """At least `size` servers of the write set."""

    voters: frozenset[ServerId]
    """The write set: the servers that an entry is sent to."""
    size: int
    """BookKeeper's Qa, from 1 to the size of the write set."""

    def __attrs_post_init__(self) -> None:
        assert 1 <= self.size <= len(self.voters), (self.size, self.voters)

    def contains(self, servers: Set[ServerId]) -> bool:
        return len(self.voters & servers) >= self.size


@attrs.frozen
class InSync:
    """Every server of the in-sync set, as long as the set has at least `size_min` of them; else nobody."""

    voters: frozenset[ServerId]
    """The in-sync set, the leader included."""
    size_min: int = 1
    """Kafka's `min.insync.replicas`."""

    def __attrs_post_init__(self) -> None:
        assert self.size_min >= 1, self.size_min

    def contains(self, servers: Set[ServerId]) -> bool:
        return len(self.voters) >= self.size_min and self.voters <= servers
