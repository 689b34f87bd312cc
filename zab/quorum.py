"""Which sets of voters decide, and the high-water mark that their acknowledgements imply.

Two quorums of one configuration always intersect; that is all the protocol needs to know of them. A majority is the
usual kind; a hierarchical quorum (`group.G=…`, `weight.N=…` in `zoo.cfg`) wins a majority of the groups, each by a
majority of its weight. Voters with weight 0 never decide anything.

The high-water mark is the pattern that this service, the ledger and the partition share: only what is at or below it is
visible. Here it is the largest position that a quorum has acknowledged (`high_water_mark`).
"""

from collections.abc import Iterable, Mapping, Set
from typing import Protocol

import attrs


class Quorum(Protocol):
    """The rule of one configuration."""

    @property
    def voters(self) -> frozenset[int]:
        """The server ids that may decide: all with a weight above 0."""

    def contains(self, servers: Set[int]) -> bool:
        """Whether these servers include a quorum; ids that are no voters count for nothing."""


@attrs.frozen
class Majority:
    """More than half of the voters."""

    voters: frozenset[int]

    def contains(self, servers: Set[int]) -> bool:
        return len(self.voters & servers) > len(self.voters) // 2


def _voters_of(hierarchical: "Hierarchical") -> frozenset[int]:
    return frozenset(
        server for group in hierarchical.groups for server in group if hierarchical.weights.get(server, 1) > 0
    )


@attrs.frozen
class Hierarchical:
    """A majority of the groups of non-zero weight, each by more than half of its weight."""

    groups: tuple[frozenset[int], ...]
    weights: Mapping[int, int]
    """Weight of a server; 1 where nothing is said."""
    voters: frozenset[int] = attrs.field(init=False, default=attrs.Factory(_voters_of, takes_self=True))

    def __attrs_post_init__(self) -> None:
        seen = [server for group in self.groups for server in group]
        assert len(seen) == len(set(seen)), "a server stands in two groups"

    def _weight(self, servers: Iterable[int]) -> int:
        return sum(self.weights.get(server, 1) for server in servers)

    def contains(self, servers: Set[int]) -> bool:
        weights = [(self._weight(group), self._weight(group & servers)) for group in self.groups]
        weighted = [(total, present) for total, present in weights if total > 0]
        won = sum(present > total // 2 for total, present in weighted)
        return won > len(weighted) // 2


def high_water_mark(quorum: Quorum, acknowledged: Mapping[int, int], mark: int) -> int:
    """The largest position that a quorum has acknowledged, from each voter's cumulative acknowledgement; `mark`, which
    is known already, if there is none above it."""
    positions = {position for server, position in acknowledged.items() if position > mark and server in quorum.voters}
    for position in sorted(positions, reverse=True):
        if quorum.contains({server for server, durable in acknowledged.items() if durable >= position}):
            return position
    return mark
