"""The rules of changes: what the writer, recovery and re-replication may change of a ledger's metadata.

| change | from | to | by | what differs |
|---|---|---|---|---|
| ENSEMBLE | open | open | the writer | the last fragment's ensemble, or one fragment more |
| CLOSE | open | closed | the writer | the end |
| RECOVER | open | in recovery | a recoverer | nothing else |
| RECOVERED | in recovery | closed | a recoverer | the end, and the fragments from the last one on |
| MEMBER | any | the same | re-replication | one member of one fragment; of the last one only if the ledger is closed |

Nobody changes a closed ledger in any other way, and what was said at its creation never changes. BookKeeper takes two
liberties that are refused here: its writers close a ledger that is in recovery, and its tools recover closed ledgers by
force.

Not here: whether an end is the right one (`zab.ledger.writer`, `zab.ledger.recovery`); how a change is written without
overwriting another one (`zab.ledger.store`).
"""

from __future__ import annotations

from enum import Enum
from operator import attrgetter
from typing import Final

from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState


class Change(Enum):
    """What a write of metadata may do."""

    ENSEMBLE = "another ensemble from some entry on"
    CLOSE = "the writer closes"
    RECOVER = "recovery begins"
    RECOVERED = "recovery closes"
    MEMBER = "a member is replaced"


BY_WRITER: Final = frozenset({Change.ENSEMBLE, Change.CLOSE})
BY_RECOVERY: Final = frozenset({Change.RECOVER, Change.RECOVERED})
BY_REPLICATION: Final = frozenset({Change.MEMBER})
ALL_CHANGES: Final = BY_WRITER | BY_RECOVERY | BY_REPLICATION


_at_creation: Final = attrgetter(
    *("ensemble_size", "write_quorum", "ack_quorum", "digest_type", "password", "ctime_ms", "custom", "token"),
    *("format_version", "has_password", "undeclared"),
)


class ForbiddenChangeError(Exception):
    """A change that nobody may make, or not this one."""


def check_change(before: LedgerMetadata, after: LedgerMetadata, allowed: frozenset[Change] = ALL_CHANGES) -> Change:
    """What a write does that replaces `before` by `after`. Raises ForbiddenChangeError."""
    if _at_creation(before) != _at_creation(after):
        raise ForbiddenChangeError("what a ledger was created with never changes")
    change = _change(before, after)
    if change not in allowed:
        raise ForbiddenChangeError(f"not by this one: {change.value}")
    return change


def _change(before: LedgerMetadata, after: LedgerMetadata) -> Change:
    states = (before.state, after.state)
    if before.state == after.state:
        if before.is_open and _is_writers(before.fragments, after.fragments):
            return Change.ENSEMBLE
        _check_member(before, after)
        return Change.MEMBER
    if states == (LedgerState.OPEN, LedgerState.IN_RECOVERY):
        if before.fragments != after.fragments:
            raise ForbiddenChangeError("fragments change with the beginning of a recovery")
        return Change.RECOVER
    if states == (LedgerState.OPEN, LedgerState.CLOSED):
        if before.fragments != after.fragments:
            raise ForbiddenChangeError("fragments change when the writer closes")
        return Change.CLOSE
    if states == (LedgerState.IN_RECOVERY, LedgerState.CLOSED):
        _check_recovered(before.fragments, after)
        return Change.RECOVERED
    raise ForbiddenChangeError(f"{before.state.name} does not become {after.state.name}")


def _is_writers(before: tuple[Fragment, ...], after: tuple[Fragment, ...]) -> bool:
    """The last fragment has another ensemble, or a fragment follows."""
    if len(after) == len(before) + 1:
        return after[:-1] == before
    return after[:-1] == before[:-1] and after[-1].first == before[-1].first and after != before


def _check_member(before: LedgerMetadata, after: LedgerMetadata) -> None:
    if (before.last, before.length) != (after.last, after.length):
        raise ForbiddenChangeError(f"the end of a closed ledger moves from {before.last} to {after.last}")
    if [each.first for each in before.fragments] != [each.first for each in after.fragments]:
        raise ForbiddenChangeError("the first entries of fragments change")
    differs = [
        (old, index)
        for old, new in zip(before.fragments, after.fragments, strict=True)
        for index, (was, is_now) in enumerate(zip(old.ensemble, new.ensemble, strict=True))
        if was != is_now
    ]
    if len(differs) != 1:
        raise ForbiddenChangeError(f"{len(differs)} members change at once")
    if differs[0][0] == before.last_fragment and not before.is_closed:
        raise ForbiddenChangeError("a member of the last fragment changes, and the ledger is not closed")


def _check_recovered(before: tuple[Fragment, ...], after: LedgerMetadata) -> None:
    """All but the last fragment stay; the last one stays, gets another ensemble, is followed by others, or is empty and
    goes."""
    stay, first = before[:-1], before[-1].first
    if after.fragments[: len(stay)] != stay:
        raise ForbiddenChangeError("a recovery changes a fragment before the last one")
    recovered = after.fragments[len(stay) :]
    if recovered and recovered[0].first != first:
        raise ForbiddenChangeError(f"the last fragment began at {first}, after recovery at {recovered[0].first}")
    if not recovered and after.last >= first:
        raise ForbiddenChangeError(f"a recovery ends at {after.last}, in a last fragment that is gone")
    if after.last < first - 1:
        raise ForbiddenChangeError(f"a recovery ends at {after.last}, before the last fragment, which began at {first}")
