"""The history of a run as records of the simulator's kind: what both judges of client histories take.

What a member holds at the end is there as a read after a sync, by a session of its own, after everything else: so a
write that was acknowledged and is gone at the end is a violation of the history alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.checker import Kind, Operation, Outcome, Replica
from zab.simulator.ensemble.judges.linearizability import judge
from zab.simulator.ensemble.judges.recorder import Record

_NO_NODE = -101
_STATUS = {Outcome.OK: "ok", Outcome.REFUSED: "failed", Outcome.UNKNOWN: "unknown"}
_NS = 1_000_000_000


def records_of(operations: Sequence[Operation], replicas: Sequence[Replica] = ()) -> list[Record]:
    """All of it."""
    return [*map(_record, operations), *_last_reads(operations, replicas)]


def judged(operations: Sequence[Operation], replicas: Sequence[Replica] = ()) -> list[str]:
    """What the search for an order has to say of a run; "undecided" is no pass."""
    return [str(finding) for finding in judge(records_of(operations, replicas))]


def _record(one: Operation) -> Record:
    value = None if one.value is None else one.value.encode()
    status = _STATUS[one.outcome]
    made = Record(f"client {one.client}", one.session, one.number, None, one.kind.value, one.path, status, value)
    made.invoked = int(one.start * _NS)
    if one.outcome is Outcome.UNKNOWN:
        return made
    made.returned, made.zxid = int(one.end * _NS), one.zxid
    if one.kind is Kind.GET and one.outcome is Outcome.OK and one.value is None:
        made.status, made.error = "failed", _NO_NODE
    elif one.outcome is Outcome.OK and one.kind is not Kind.SYNC:
        made.version = one.version
        made.mzxid = one.modified if one.kind is Kind.GET else None
    return made


def _last_reads(operations: Sequence[Operation], replicas: Sequence[Replica]) -> Iterator[Record]:
    ends = [one.end for one in operations if one.outcome is not Outcome.UNKNOWN]
    now = int(max(ends, default=0.0) * _NS) + _NS
    paths = sorted({one.path for one in operations if one.writes})
    for session, replica in enumerate(replicas, 1):
        times = {"invoked": now, "returned": now + _NS}
        yield Record(replica.name, -session, 0, None, "sync", "/", "ok", **times)
        for number, path in enumerate(paths, 1):
            held = replica.znodes.get(path)
            if held is None:
                gone = {"zxid": replica.zxid, "error": _NO_NODE, **times}
                yield Record(replica.name, -session, number, None, "get", path, "failed", **gone)
            else:
                seen = {"value": held.value.encode(), "version": held.version, "mzxid": held.modified, **times}
                yield Record(replica.name, -session, number, None, "get", path, "ok", **seen)
