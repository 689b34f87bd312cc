"""What the files of a history prove, where it ends, and when to refuse it: one rule for all tools that read histories.

    unread(evidence) -> why the end of a history is unknown; None if it is known
    not_given(evidence) -> likewise, but only missing directories to name, not damage
    pairs(states, logs) -> which log directory belongs to which data directory
    member_count(members) -> how many members these directories belong to

`docs/reference/formats.md` has the table of what each file proves. In short: a transaction in a log was logged there; a
snapshot and `committed` say that everything up to their zxid was committed; an epoch says that there was a leader, but
not that it wrote anything. A log file without a transaction says nothing, whatever its name.

A directory that was not given may still exist. A member may keep its logs in a separate directory (`dataLogDir`), so a
data directory without logs does not tell where its history ends, and a log directory alone does not tell how much of it
is committed. If a proof goes beyond what was read, or the end is unknown, the history is refused, with the directory to
name. A majority counts members, not directories.

Deliberately not here: reading the files, and whether anything is missing in the middle of a history.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen

__all__ = ["DATA_DIRECTORY", "LOG_DIRECTORY", "Evidence", "beyond", "member_count", "not_given", "pairs", "unread"]

LOG_DIRECTORY: Final = "if it has a dataLogDir, name that, too"
DATA_DIRECTORY: Final = "name its dataDir, too"


@frozen
class Evidence:
    """What the files of one member say. Zxids and epochs are 0 if no file says one.

    has_records: there are epoch files, `myid` or a member record, as in every dataDir. has_log: there is a log file,
    with or without transactions. logged: the last transaction in the logs. snapshot: the newest one, by its name; None
    if there is none. committed: the number in the file of that name. mark: the largest high-water mark of all,
    including those in batches. epoch: from `currentEpoch`. damage: what was durable above the mark, and cannot be read.
    """

    name: str
    is_native: bool
    has_records: bool
    has_log: bool
    logged: int = 0
    snapshot: int | None = None
    committed: int = 0
    mark: int = 0
    epoch: int = 0
    damage: str | None = None

    @property
    def has_state(self) -> bool:
        """Whether it is more than a directory of logs."""
        return self.has_records or self.snapshot is not None

    @property
    def end(self) -> int:
        """The end of what was read."""
        return max(self.logged, self.snapshot or 0)


def beyond(proof: int, end: int) -> str | None:
    """What is wrong if something proves `proof`, and the history that was read ends at `end`; None if nothing."""
    return None if proof <= end else f"it says that {proof:#x} was durable here, and the log ends at {end:#x}"


def unread(members: Sequence[Evidence]) -> str | None:
    """Why the end of these members' history is unknown, and what to name; None if it is known."""
    return _beyond_what_was_read(members, has_log=True) or not_given(members) or _unreadable(members)


def _unreadable(members: Sequence[Evidence]) -> str | None:
    """What is damaged above the mark may have been committed, unless another member has an intact log."""
    damaged = next((one for one in members if one.damage is not None), None)
    if damaged is None or any(one.has_log and one.damage is None for one in members):
        return None
    return f"{damaged.name} does not say whether more than {damaged.mark:#x} is committed: {damaged.damage}"


def _beyond_what_was_read(members: Sequence[Evidence], *, has_log: bool) -> str | None:
    """A mark that no log or snapshot reaches, among members with a log, or without one."""
    end = max((one.end for one in members), default=0)
    for one in members:
        if one.mark > end and one.has_log == has_log:
            text = f"{one.name} says that {one.mark:#x} is committed, and what was read ends at {end:#x}"
            return f"{text}: {'log files are missing or damaged' if has_log else LOG_DIRECTORY}"
    return None


def not_given(members: Sequence[Evidence]) -> str | None:
    """The directory to name, so that the end of the history is known. Damage in the given directories does not
    count."""
    logged = max((one.logged for one in members), default=0)
    found = _beyond_what_was_read(members, has_log=False)
    if found is not None:
        return found
    if not any(one.has_log for one in members):
        return _without_logs(members)
    without = [one for one in members if one.has_records and not one.has_log]
    count = member_count((one.has_log, one.has_state) for one in members if one.has_log or one.has_records)
    for one in without:
        if not one.is_native and sum(other.has_log for other in members) < count:
            return f"{one.name} is one of {count} members, whose log may say what is committed: {LOG_DIRECTORY}"
        if one.snapshot is not None and one.snapshot > logged:
            ends = f"the logs given end at {logged:#x}"
            return f"{one.name} has a snapshot at {one.snapshot:#x}, and {ends}: {LOG_DIRECTORY}"
    if all(one.is_native and one.has_log and not one.has_records and not one.committed for one in members):
        uncommitted = max(members, key=lambda one: one.logged)
        mark = max(one.mark for one in members)
        if uncommitted.logged > mark:
            return (
                f"{uncommitted.name} has logs alone, up to {uncommitted.logged:#x}, and they do not say that more than "
                f"{mark:#x} is committed: {DATA_DIRECTORY}"
            )
    return None


def _without_logs(members: Sequence[Evidence]) -> str | None:
    """Accept snapshots that an operator put into a directory on their own. A member's snapshots have a log after them,
    unless `committed` says that there is nothing more."""
    of_members = [one for one in members if one.has_records]
    if not of_members or any(one.committed for one in of_members):
        return None
    one = max(of_members, key=lambda each: each.end)
    epoch = f", of whose epochs the last is {one.epoch}" if one.epoch > one.end >> 32 else ""
    found = f"a snapshot at {one.end:#x}" if one.snapshot is not None else "no snapshot"
    return f"{one.name} is the dataDir of a member{epoch}, with {found} and no log: {LOG_DIRECTORY}"


def member_count(members: Iterable[tuple[bool, bool]]) -> int:
    """How many members these directories (with logs, snapshots or records) belong to: one with only logs is part of a
    member, and so is one without; which belong together need not be known."""
    listed = list(members)
    whole = sum(has_log and has_state for has_log, has_state in listed)
    return whole + max(sum(not has_state for _, has_state in listed), sum(not has_log for has_log, _ in listed))


def pairs(states: Sequence[Sequence[str]], logs: Sequence[Sequence[str]]) -> Mapping[int, int]:
    """The log directory of each data directory, as far as their paths tell: the one that shares most names with it,
    from the front and from the back, if no other shares as many, in both directions. A single pair belongs together.
    Paths are lists of names."""
    if len(states) == len(logs) == 1:
        return {0: 0}
    found: dict[int, int] = {}
    for number, state in enumerate(states):
        best = _only_best([_alike(state, log) for log in logs])
        if best is not None and _only_best([_alike(other, logs[best]) for other in states]) == number:
            found[number] = best
    return found


def _only_best(scores: Sequence[int]) -> int | None:
    most = max(scores, default=0)
    return scores.index(most) if scores.count(most) == 1 else None


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    return _prefix(one, other) + _prefix(one[::-1], other[::-1])


def _prefix(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
