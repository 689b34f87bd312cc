"""The groups of members that cannot reach each other, as named by a test."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def cut_between(groups: Iterable[Collection[int]], sids: Collection[int]) -> frozenset[frozenset[int]]:
    """The pairs that do not hear each other: those of different groups. Members that no group names are one more group.

    Raises ValueError for a member that is not there, or in two groups."""
    named = [frozenset(group) for group in groups]
    seen: set[int] = set()
    for group in named:
        unknown = sorted(group - set(sids))
        if unknown:
            raise ValueError(f"there is no member {unknown[0]}: there are {', '.join(map(str, sorted(sids)))}")
        twice = sorted(group & seen)
        if twice:
            raise ValueError(f"member {twice[0]} is in two groups")
        seen |= group
    named.append(frozenset(sids) - seen)
    place = {sid: number for number, group in enumerate(named) for sid in group}
    return frozenset(frozenset((one, two)) for one in sids for two in sids if one < two and place[one] != place[two])
