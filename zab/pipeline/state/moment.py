"""Decides what a state at one moment is built from: which snapshot, which stretch of the logs, and if they suffice.

    moment_of(logs, members, at) -> Moment

`at` is a zxid, a time, or None for the end of what is kept. The moment has the zxid of the last transaction at or below
it. The rules:

1. A time has a zone, and means the last transaction whose time is at or below it.
2. The state begins with the newest whole snapshot that is exact at or below that zxid; without one, it begins empty, if
   the logs go back to the beginning of the ensemble.
3. The logs must have every transaction from there to the moment; what one member lacks may come from another: the first
   is the next one after the snapshot or the first of its epoch, no epoch has a hole, none ends early.
4. The end has to be known (`datatree.history`): a directory that was not given may hold more. If the caller names a
   zxid, the end does not have to be known.
5. Anything else raises a PipelineError that says what is kept.

`Logs` reads the logs: with Spark (`state_of`), or in this process (`local_state`). The stretch that the state needs is
read once: rule 3 counts the same transactions that the state is made of.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from attrs import define, field, frozen

from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Inventory
from zab.pipeline.member_files import LogFile, LogKind, MemberFiles
from zab.pipeline.places import Place
from zab.pipeline.reading.missing import beginning_zxid, is_missing, joined_ends, proofs
from zab.pipeline.reading.snapshot_choice import Chosen, Problem, choose
from zab.pipeline.reading.visible import committed_epochs, epoch_ends, logged_ends, mark, survey, unread_of
from zab.pipeline.state.epochs import Epoch
from zab.pipeline.times import ms_since_1970

__all__ = ["Logs", "Moment", "Stretch", "ensembles_of", "moment_of"]

_EPOCH_FILES: Final = ("acceptedEpoch", "currentEpoch")
_EPOCH_FILE_BYTES: Final = 64
_EPOCH_DIGITS: Final = 9


@frozen
class Stretch:
    """Transactions that were read: the contents of each epoch. A subclass keeps their effects."""

    epochs: Sequence[Epoch] = ()


class Logs(Protocol):
    """The logs of one ensemble, each transaction once, as far as they may be shown."""

    def last_at(self, time_ms: int) -> int | None:
        """The zxid of the last transaction whose time is at or below this one."""
        ...

    def stretch(self, after: int, until: int, *, is_exact: bool) -> Stretch:
        """Read the transactions above `after` up to `until`. is_exact: the state at `after` has no effects of them."""
        ...

    def time_of(self, zxid: int) -> datetime | None:
        """When this transaction was made; None if it is missing."""
        ...


@frozen
class Moment:
    """One moment of one ensemble: the state is `base` and the transactions after it up to `zxid`."""

    members: tuple[MemberFiles, ...]
    zxid: int
    time: datetime | None
    """When the last transaction was made; None if there is none after the snapshot."""
    base: Chosen | None
    """The snapshot to begin with; None: the state begins empty."""
    problems: tuple[Problem, ...]
    """Snapshots that were skipped because they cannot be read."""
    txn_count: int
    """How many transactions are between `base` and `zxid`."""
    last_epoch: int
    """The latest epoch that the members' files mention, committed or not."""
    logged: int = 0
    """How far the logs go, if no moment was named and it is not known that all of it is committed; else 0."""
    stretch: Stretch = field(factory=Stretch, eq=False, repr=False)
    """The transactions between `base` and `zxid`, as they were read."""

    @property
    def ensemble(self) -> str:
        return self.members[0].ensemble

    @property
    def kind(self) -> LogKind:
        return self.members[0].kind

    @property
    def is_exact(self) -> bool:
        """Whether it begins with a state that has no effects of later transactions."""
        return _is_exact(self.base)

    @property
    def base_zxid(self) -> int:
        return 0 if self.base is None else self.base.file.zxid

    @property
    def label(self) -> Label:
        """The label of the rows."""
        if self.base is None:
            return Label(self.ensemble, None, None, self.zxid)
        return Label(self.ensemble, self.base.member.member, self.base.file.name, self.zxid)


def _is_exact(base: Chosen | None) -> bool:
    return base is None or base.file.kind == "native"


def ensembles_of(found: Inventory) -> list[tuple[MemberFiles, ...]]:
    """The members of each ensemble."""
    return [tuple(members) for members in found.ensembles.values()]


@define
class _Kept:
    """What an ensemble's files keep, judged by their ends and names."""

    members: Sequence[MemberFiles]
    end: int
    """The last zxid in the logs that may be shown; 0 without any."""
    ends: dict[int, int]
    """The last zxid of each epoch, as far as it is known (`zab.pipeline.reading.missing`)."""
    logged: int = 0
    """The last zxid in the logs."""
    unread: str | None = None
    """Why the end is not known (`datatree.history.unread`)."""
    problems: tuple[Problem, ...] = ()
    """Snapshots that were looked at and cannot be read."""

    @classmethod
    def of(cls, members: Sequence[MemberFiles], *, uncommitted: bool) -> "_Kept":
        """Raises PipelineError."""
        surveys = [survey(member) for member in members]
        reason = unread_of(members, surveys)
        if not any(member.logs for member in members):
            return cls(members, 0, proofs(members, {}), unread=reason)
        ends = epoch_ends(surveys)
        logged = max(found.last for found in surveys)
        if uncommitted:
            end = logged
        elif members[0].kind == "native":
            end = mark(surveys)
        else:
            ends = committed_epochs(members, surveys)
            end = max(ends.values(), default=0)
        return cls(members, end, joined_ends(ends, proofs(members, logged_ends(surveys))), logged, reason)

    def check_end(self) -> None:
        """Raise PipelineError if the end is not known."""
        if self.unread is not None:
            newest = max([self.end, *self.snapshots])
            raise PipelineError(f"{self.unread}; --at {newest:#x} is what can be read here; {self}")

    @property
    def logs(self) -> list[LogFile]:
        return [log for member in self.members for log in member.logs if log.is_usable]

    @property
    def snapshots(self) -> list[int]:
        return sorted({file.zxid for member in self.members for file in member.snapshots})

    def __str__(self) -> str:
        firsts = [log.first for log in self.logs]
        logs = f"transactions from {min(firsts):#x} to {self.end:#x}" if firsts else "no transactions"
        return f"kept are {logs}, and {self.snapshots_said}"

    @property
    def snapshots_said(self) -> str:
        snapshots = ", ".join(map(hex, self.snapshots)) or "none"
        unreadable = f"; not readable: {', '.join(map(str, self.problems))}" if self.problems else ""
        return f"snapshots at {snapshots}{unreadable}"


def moment_of(
    logs: Logs, members: Sequence[MemberFiles], at: int | datetime | None = None, *, uncommitted: bool = False
) -> Moment:
    """The moment `at` of the ensemble with these members. Raises PipelineError."""
    kept = _Kept.of(members, uncommitted=uncommitted)
    wanted = _wanted(logs, kept, at)
    choice = choose(members, wanted, exact=True)
    base, kept.problems = choice.chosen, choice.problems
    after = 0 if base is None else base.file.zxid
    is_read = kept.end > after and wanted > after
    stretch = logs.stretch(after, wanted, is_exact=_is_exact(base)) if is_read else Stretch()
    epochs = stretch.epochs
    if base is None and not (epochs and _is_from_the_beginning(members, epochs[0].first)):
        raise PipelineError(
            f"the state at {wanted:#x} cannot be put together: no snapshot to begin with is exact at or below it, and "
            f"the logs do not go back to the beginning; {kept}"
        )
    _check_whole(epochs, after, kept, wanted)
    zxid = epochs[-1].last if epochs else after
    if isinstance(at, int) and at > max(zxid, kept.end):
        raise PipelineError(f"zxid {at:#x} is beyond the end of what may be shown of {_name(members)}; {kept}")
    if base is not None and base.examined.exact_from > zxid:
        raise PipelineError(
            f"{base.file.place} has effects of transactions up to {base.examined.exact_from:#x}, which the logs do not "
            f"have; {kept}"
        )
    return Moment(
        members=tuple(members),
        zxid=zxid,
        time=epochs[-1].time if epochs else None,
        base=base,
        problems=choice.problems,
        txn_count=sum(epoch.count for epoch in epochs),
        last_epoch=_last_epoch(members, kept, zxid),
        logged=kept.logged if at is None and kept.logged > zxid else 0,
        stretch=stretch,
    )


def _wanted(logs: Logs, kept: _Kept, at: int | datetime | None) -> int:
    """The zxid to reach."""
    if at is None:
        kept.check_end()
        return max([kept.end, *kept.snapshots])
    if isinstance(at, int):
        return at
    time_ms = ms_since_1970(at)
    found = logs.last_at(time_ms) if kept.end else None
    if found is None:
        first = min((log.first for log in kept.logs), default=0)
        begun = logs.time_of(first) if kept.end else None
        times = "" if begun is None else f"; the first transaction was at {begun.isoformat(timespec='milliseconds')}"
        raise PipelineError(
            f"there is no transaction of {_name(kept.members)} at or before {at.isoformat()}; {kept}{times}"
        )
    if found >= kept.end:
        kept.check_end()
    return found


def _name(members: Sequence[MemberFiles]) -> str:
    return f"ensemble {members[0].ensemble}"


def _is_from_the_beginning(members: Sequence[MemberFiles], first: int) -> bool:
    return first == beginning_zxid(members)


def _check_whole(epochs: Sequence[Epoch], after: int, kept: _Kept, wanted: int) -> None:
    """Raise PipelineError unless every transaction after `after` is there, as far as the files can tell."""
    last = after
    for epoch in epochs:
        if is_missing(last, epoch.first, kept.ends):
            raise PipelineError(_missing(last, epoch.first, wanted, kept))
        lacking = epoch.last - epoch.first + 1 - epoch.count
        if lacking:
            raise PipelineError(
                f"the state at {wanted:#x} cannot be put together: of the transactions from {epoch.first:#x} to "
                f"{epoch.last:#x}, {abs(lacking)} {'are missing or damaged' if lacking > 0 else 'are there twice'} "
                f"(zab pipeline verify names them); {kept}"
            )
        last = epoch.last
    for zxid in kept.ends.values():
        # All transactions up to it in its epoch existed, and some of them belong to the state.
        if zxid > last and max(last + 1, zxid >> 32 << 32 | 1) <= wanted:
            raise PipelineError(_missing(last, min(zxid, wanted) + 1, wanted, kept))


def _missing(last: int, following: int, wanted: int, kept: _Kept) -> str:
    return (
        f"the state at {wanted:#x} cannot be put together: the transactions between {last:#x} and {following:#x} are "
        f"missing or damaged; before them all can be read up to {last:#x}; {kept.snapshots_said}"
    )


def _last_epoch(members: Sequence[MemberFiles], kept: _Kept, zxid: int) -> int:
    said = [log.first >> 32 for member in members for log in member.logs]
    for member in members:
        for name in _EPOCH_FILES:
            said.append(_epoch_in(member.directory / name))
    return max([*said, *(one >> 32 for one in (*kept.ends.values(), kept.end, zxid))])


def _epoch_in(file: Place) -> int:
    """The epoch in a member's epoch file, 0 if there is none."""
    try:
        line = file.read(0, _EPOCH_FILE_BYTES).partition(b"\n")[0]
    except OSError:
        return 0
    # Larger ones are impossible: zxids are positive numbers of 64 bits.
    return int(line) if line.isdigit() and len(line) <= _EPOCH_DIGITS else 0
