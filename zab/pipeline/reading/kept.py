"""Finds which transactions the logs of an ensemble keep, and checks that a user's bounds overlap with them.

Bounds that do not overlap would give no rows, which looks like an answer.

    check_range(dirs, Range.of(…))      raises PipelineError, which says what is kept, if nothing can lie within
    kept(dirs)                          what the logs of each ensemble keep

Only the beginning and the end of each ensemble's logs are read, in this process. Times may go back, in ZooKeeper's logs
with any change of leader, in native ones where a clock was wrong, so all logs are read before the answer is no.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Self

from attrs import frozen

from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.missing import beginning_zxid
from zab.pipeline.reading.planning import Range, Task, plan, read_task

__all__ = ["Kept", "check_range", "kept"]


@frozen
class Kept:
    """The transactions of one ensemble that may be shown: the first and the last zxid, and the lowest and highest time
    (in ms) at the beginning and the end of the logs. `is_whole`: the logs go back to the first transaction."""

    ensemble: str
    zxid_min: int
    zxid_max: int
    time_min: int
    time_max: int
    is_whole: bool

    @classmethod
    def of(cls, members: list[MemberFiles], tasks: list[Task]) -> Self | None:
        """Read the beginning and the end; None if there are no transactions. Raises PipelineError."""
        first = next(_transactions(tasks), None)
        last = next(_all_of_last(tasks), None)
        if first is None or last is None:
            return None
        ends = [first, *last]
        times = min(int(rows.time_ms.min()) for rows in ends), max(int(rows.time_ms.max()) for rows in ends)
        zxids = int(first.zxid[0]), int(last[-1].zxid[-1])
        return cls(members[0].ensemble, *zxids, *times, zxids[0] == beginning_zxid(members))

    def meets(self, wanted: Range) -> bool:
        """Whether something may lie within the bounds."""
        return (
            (wanted.zxid_min is None or wanted.zxid_min <= self.zxid_max)
            and (wanted.zxid_max is None or wanted.zxid_max >= self.zxid_min)
            and (wanted.time_min is None or wanted.time_min <= self.time_max)
            and (wanted.time_max is None or wanted.time_max >= self.time_min)
        )

    def __str__(self) -> str:
        return (
            f"{self.ensemble} has zxids {self.zxid_min:#x} to {self.zxid_max:#x}, "
            f"of {_time_text(self.time_min)} to {_time_text(self.time_max)}"
        )


def _transactions(tasks: Iterable[Task]) -> Iterator[Transactions]:
    for task in tasks:
        for _, found in read_task(task):
            if isinstance(found, Transactions) and len(found):
                yield found


def _all_of_last(tasks: list[Task]) -> Iterator[list[Transactions]]:
    """Yield the transactions of the last task that has any, then of the one before it, and so on."""
    for task in reversed(tasks):
        found = list(_transactions([task]))
        if found:
            yield found


def _time_text(time_ms: int) -> str:
    """2026-11-21T05:02:21.123Z"""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def kept(dirs: Dirs, *, uncommitted: bool = False) -> list[Kept]:
    """What the logs in these directories keep, by ensemble, as far as it may be shown. Raises PipelineError."""
    found = inventory(dirs)
    groups = [members for members in found.ensembles.values() if any(member.logs for member in members)]
    known = (Kept.of(members, _tasks(found, members, Range(), uncommitted)) for members in groups)
    return [one for one in known if one is not None]


def check_range(dirs: Dirs, wanted: Range, *, uncommitted: bool = False) -> None:
    """Raise PipelineError if no transaction of any ensemble in these directories can lie within the bounds."""
    if wanted == Range():
        return
    found = inventory(dirs)
    others = []
    for members in found.ensembles.values():
        if not any(member.logs for member in members):
            continue
        tasks = _tasks(found, members, Range(), uncommitted)
        known = Kept.of(members, tasks)
        if known is None:
            continue
        if known.meets(wanted) or _is_found(found, members, wanted, uncommitted):
            return
        others.append(known)
    if others:
        listed = "; ".join(map(str, others))
        raise PipelineError(f"nothing is kept of what was asked for, {_range_text(wanted)}: {listed}")


def _tasks(found: Inventory, members: list[MemberFiles], wanted: Range, uncommitted: bool) -> list[Task]:
    return plan(Inventory(members, found.dirs), wanted, members="one", uncommitted=uncommitted)


def _is_found(found: Inventory, members: list[MemberFiles], wanted: Range, uncommitted: bool) -> bool:
    """Whether times went back so far that something lies within the bounds after all."""
    if wanted.time_min is None and wanted.time_max is None:
        return False
    return next(_transactions(_tasks(found, members, wanted, uncommitted)), None) is not None


def _range_text(wanted: Range) -> str:
    told = []
    if wanted.zxid_min is not None:
        told.append(f"from zxid {wanted.zxid_min:#x} on")
    if wanted.zxid_max is not None:
        told.append(f"up to zxid {wanted.zxid_max:#x}")
    if wanted.time_min is not None:
        told.append(f"since {_time_text(wanted.time_min)}")
    if wanted.time_max is not None:
        told.append(f"until {_time_text(wanted.time_max)}")
    return ", ".join(told)
