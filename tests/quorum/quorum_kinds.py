"""Quorums of every kind."""

from zab.quorum.quorums import AckQuorum, Hierarchical, InSync, Majority, Quorum

INTERSECTING: list[Quorum] = [
    Majority(frozenset({1})),
    Majority(frozenset({1, 2})),
    Majority(frozenset({1, 2, 3})),
    Majority(frozenset({1, 2, 3, 4, 5})),
    Hierarchical((frozenset({1, 2, 3}), frozenset({4, 5, 6}), frozenset({7, 8, 9})), {}),
    Hierarchical((frozenset({1, 2}), frozenset({3, 4, 5})), {1: 3, 5: 0}),
    Hierarchical((frozenset({1, 2, 3}), frozenset({4})), {4: 0}),
    InSync(frozenset({1})),
    InSync(frozenset({1, 2, 3}), 2),
]

ACK_QUORUMS = [AckQuorum(frozenset(range(1, size + 1)), least) for size in range(1, 6) for least in range(1, size + 1)]

QUORUMS: list[Quorum] = [*INTERSECTING, *ACK_QUORUMS, InSync(frozenset({1, 2}), 3)]
