"""Judges a run from outside, only by the requests, answers and times of its clients.

    judge(records) -> list[Finding]      empty: ZooKeeper's guarantees hold
    demand_linearizability(records)      raises an error for the first finding

ZooKeeper's guarantees are not those of one register that is always linearizable. Judged is exactly this:

    writes      of all sessions, including refused ones, are linearizable: in one order, each does what its answer says,
                and comes after all writes that were answered before it was sent, and after earlier requests of its
                session
    reads       show a prefix of that order, never shorter than what their session has seen or written before; after a
                `sync`, at least everything that any client was told before the sync was sent
    zxids       count that order: a reply with a zxid shows the writes up to it, and none above; so a write has a higher
                zxid than everything that any client was told before, and a `sync`, and reads after it, have no lower
                one

Linearizability is local, so each znode has its own search (`znode_order`): Wing and Gong's. What joins the znodes is
the zxid, whose order all of them follow; so a session whose replies' zxids never fall does not go back on any znode.

It shares no code with the other judge of such histories, `zab pipeline history`, and works the other way round: that
one trusts zxids and compares, this one looks for an order. Both have to agree on every run (`make sim`, `make chaos`).

Znodes begin absent, since the record covers the whole life of an ensemble. The parts of a multi are judged separately;
the judges that see the committed history check that all of them happened or none (`session_checker`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from attrs import frozen

from zab.simulator.ensemble.judges.recorder import Record
from zab.simulator.ensemble.judges.znode_order import STEPS_MAX, Interval, Stuck, order_of, says_something
from zab.simulator.world.verdict import SafetyError, UndecidedError

__all__ = ["Finding", "demand_linearizability", "judge"]

LEFT_SHOWN_MAX: Final = 6
_ALWAYS: Final = -(1 << 62)
_WRITES: Final = frozenset({"create", "set", "delete"})


@frozen
class Finding:
    """An error in a history, or a question that could not be decided within the bound, which is no pass."""

    path: str
    is_undecided: bool
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


def judge(records: Iterable[Record], steps_max: int = STEPS_MAX) -> list[Finding]:
    """All errors in what the clients of one ensemble were told."""
    sessions: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        sessions[record.session if record.client is not None else 0].append(record)
    intervals: list[Interval] = []
    found: list[Finding] = []
    for session, asked in sessions.items():
        asked.sort(key=lambda record: (record.operation, -1 if record.part is None else record.part))
        if session:
            found += _goes_back(asked)
        intervals += _intervals(asked)
    found += _comes_late(intervals)
    znodes: dict[str, list[Interval]] = defaultdict(list)
    for interval in intervals:
        if says_something(interval.record):
            znodes[interval.record.path].append(interval)
    for path in sorted(znodes):
        stuck = order_of(znodes[path], steps_max)
        if stuck is not None:
            found.append(_explained(path, len(znodes[path]), stuck))
    return found


def demand_linearizability(records: Iterable[Record]) -> None:
    """Raises SafetyError for what is wrong, and UndecidedError."""
    for finding in sorted(judge(records), key=lambda finding: finding.is_undecided):
        if finding.is_undecided:
            raise UndecidedError(str(finding))
        raise SafetyError("linearizability", str(finding))


def _goes_back(asked: list[Record]) -> Iterator[Finding]:
    """Findings about replies of one session whose zxid falls, in the order of its requests."""
    highest: Record | None = None
    for record in asked:
        if record.zxid is None or record.status == "unknown":
            continue
        if highest is not None and highest.zxid is not None and record.zxid < highest.zxid:
            yield Finding(record.path, is_undecided=False, sentence=f"{_shown(record)} after {_shown(highest)}")
        else:
            highest = record


def _intervals(asked: list[Record]) -> Iterator[Interval]:
    """The operations of a session, each with the time before which it has to show everything."""
    synced = _ALWAYS
    for record in asked:
        invoked = _ALWAYS if record.invoked is None else record.invoked
        if record.kind == "sync" and record.status == "ok":
            synced = invoked
        yield Interval(record, invoked if record.kind in _WRITES else synced)


def _comes_late(intervals: list[Interval]) -> Iterator[Finding]:
    """Findings about answers with a zxid below one that a client was told before the time that they have to show."""
    answered = [one for one in intervals if one.record.zxid is not None and one.record.status != "unknown"]
    told = sorted((one for one in answered if one.record.returned is not None), key=lambda one: one.end)
    ends = [one.end for one in told]
    highest = list(accumulate((one.record for one in told), _higher))
    for one in answered:
        record, before = one.record, bisect_left(ends, one.start)
        if not before or not (record.kind == "sync" or says_something(record)):
            continue
        known = highest[before - 1]
        if _zxid(record) < _zxid(known) + (record.kind in _WRITES):
            yield Finding(record.path, is_undecided=False, sentence=f"{_shown(record)} after {_shown(known)}")


def _higher(one: Record, other: Record) -> Record:
    return other if _zxid(other) > _zxid(one) else one


def _zxid(record: Record) -> int:
    return record.zxid or 0


def _explained(path: str, count: int, stuck: Stuck) -> Finding:
    left = "; ".join(map(_shown, stuck.left[:LEFT_SHOWN_MAX]))
    if stuck.is_undecided:
        sentence = f"undecided: too many orders of {count} operations to try them all"
    else:
        sentence = f"no order explains its {count} operations"
    return Finding(
        path,
        stuck.is_undecided,
        f"{sentence}; after {stuck.taken_count} of them it is {stuck.state}, and then comes none of: {left}",
    )


def _shown(record: Record) -> str:
    who = "the ensemble" if record.client is None else f"{record.client} {record.session:#x}#{record.operation}"
    part = "" if record.part is None else f".{record.part}"
    parts = [f"{who}{part} {record.kind} {record.path} {record.status}"]
    parts += [f"{name} {value}" for name in _TOLD if (value := getattr(record, name)) is not None]
    return " ".join(parts)


_TOLD: Final = ("value", "expected", "version", "zxid", "mzxid", "error", "invoked", "returned")
