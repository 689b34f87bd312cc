"""The rule that decides what is missing from a history, for everything that reads logs, compares them or replays them.

    is something missing between the zxids a and b, if nothing in between was found?
    same epoch              b is not a + 1
    b has a later epoch     b is not the first of it; or the epochs up to b are known to go further than a

How far an epoch is known to go, its *end*, follows from what may be shown (`visible`), and from *proofs*: a snapshot
holds committed state, so every transaction of its epoch up to its zxid existed, whether a log still has it or not. Its
name has the zxid, even if its content is damaged.

Transactions before the oldest one that is kept are not missing: retention removed them, unless that one is the first of
the ensemble (`beginning_zxid`). A snapshot of ZooKeeper at the beginning of an epoch has counter 0, which is no
transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zab.pipeline.member_files import MemberFiles

__all__ = ["COUNTER", "beginning_zxid", "between", "follows", "is_missing", "joined_ends", "proofs"]

COUNTER: Final = 0xFFFF_FFFF


def follows(last: int, first: int) -> bool:
    """Whether `first` may be the zxid right after `last`, judged by the numbers."""
    return first == last + 1 if first >> 32 == last >> 32 else first > last and first & COUNTER == 1


def is_missing(last: int, first: int, ends: Mapping[int, int]) -> bool:
    """Whether something belongs between these two zxids. `ends`: the last zxid of each epoch, as far as known."""
    if first >> 32 == last >> 32:
        return first > last + 1
    return first & COUNTER != 1 or any(last < zxid < first for zxid in ends.values())


def proofs(members: Iterable[MemberFiles], logged: Mapping[int, int]) -> dict[int, int]:
    """By epoch, the largest zxid that a snapshot proves and that none of these members' logs reaches. `logged`: the
    last zxid of each epoch that any of the logs has, whether it may be shown or not."""
    found = (
        snapshot.zxid
        for member in members
        for snapshot in member.snapshots
        if snapshot.lineage in (None, member.lineage)
    )
    beyond = {zxid >> 32: zxid for zxid in sorted(found) if zxid & COUNTER}
    return {epoch: zxid for epoch, zxid in beyond.items() if zxid > logged.get(epoch, 0)}


def beginning_zxid(members: Sequence[MemberFiles]) -> int | None:
    """The zxid of the ensemble's very first transaction, if the logs claim to have it."""
    for member in members:
        for log in member.logs[:1]:
            if log.is_usable and log.previous is not None and log.previous[0] == 0:
                return log.first
    return 1 << 32 | 1 if members[0].kind == "version-2" else None


def joined_ends(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """The larger end of each epoch."""
    return {epoch: max(one.get(epoch, 0), other.get(epoch, 0)) for epoch in one.keys() | other.keys()}


def between(after: int, following: int) -> str:
    """A phrase for what is missing between two zxids."""
    if following >> 32 == after >> 32:
        low, high = after + 1, following - 1
        return f"zxid {low:#x} is missing" if low == high else f"zxids {low:#x} to {high:#x} are missing"
    return f"what is between {after:#x} and {following:#x} is missing"
