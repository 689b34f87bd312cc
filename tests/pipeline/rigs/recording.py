"""The history of a run as Parquet: what the clients were told, and what the members hold at last.

What a member holds is there as a read after a sync, by a session of its own, after everything else: so a write that
was acknowledged and is gone at the end is a violation of the history alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.checker import Kind, Operation, Outcome, Replica
from zab.pipeline.history import operation as history
from zab.pipeline.history.files import read_history, write_history
from zab.pipeline.jobs.history import check_table

_NO_NODE = -101
_KINDS = {Kind.SET: history.SET, Kind.CREATE: history.CREATE, Kind.GET: history.GET, Kind.SYNC: history.SYNC}
_STATUS = {Outcome.OK: history.OK, Outcome.REFUSED: history.FAILED, Outcome.UNKNOWN: history.UNKNOWN}
_NS = 1_000_000_000


def record(path: Path, operations: Sequence[Operation], replicas: Sequence[Replica] = ()) -> None:
    """Write the history of one run to `path`."""
    write_history(path, [*map(recorded, operations), *_last_reads(operations, replicas)])


def violations(path: Path) -> list[str]:
    """What `zab pipeline history` has to say of a recorded run."""
    rows = check_table(read_history([path])).to_pylist()
    return [f"{row['kind']} {row['path']}: {row['sentence']}: {row['witness']}" for row in rows]


def recorded(one: Operation) -> history.Operation:
    """The same operation as a row of a history."""
    made = history.Operation(one.session, one.number, _KINDS[one.kind], one.path, _STATUS[one.outcome])
    made.client, made.invoked = f"client {one.client}", int(one.start * _NS)
    made.value = None if one.value is None else one.value.encode()
    if one.outcome is Outcome.UNKNOWN:
        return made
    made.returned, made.zxid = int(one.end * _NS), one.zxid
    if one.kind is Kind.GET and one.outcome is Outcome.OK and one.value is None:
        made.status, made.error = history.FAILED, _NO_NODE
    elif one.outcome is Outcome.OK and one.kind is not Kind.SYNC:
        made.version = one.version
        made.mzxid = one.modified if one.kind is Kind.GET else None
    return made


def _last_reads(operations: Sequence[Operation], replicas: Sequence[Replica]) -> Iterator[history.Operation]:
    ends = [one.end for one in operations if one.outcome is not Outcome.UNKNOWN]
    now = int(max(ends, default=0.0) * _NS) + _NS
    paths = sorted({one.path for one in operations if one.writes})
    for session, replica in enumerate(replicas, 1):
        times = {"invoked": now, "returned": now + _NS, "client": replica.name}
        yield history.Operation(-session, 0, history.SYNC, "/", history.OK, **times)
        for number, path in enumerate(paths, 1):
            held = replica.znodes.get(path)
            if held is None:
                gone = {"zxid": replica.zxid, "error": _NO_NODE, **times}
                yield history.Operation(-session, number, history.GET, path, history.FAILED, **gone)
            else:
                seen = {"value": held.value.encode(), "version": held.version, "mzxid": held.modified, **times}
                yield history.Operation(-session, number, history.GET, path, history.OK, **seen)
