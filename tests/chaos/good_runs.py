"""A run in which nothing went wrong, and ways to change one thing in it."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.checker import Held, Kind, Operation, Outcome, Replica

A, B = 0xA, 0xB


def operation(
    session: int, number: int, kind: Kind, path: str, value: str | None, start: float, **more: object
) -> Operation:
    given = {"client": session, "outcome": Outcome.OK, "end": start + 1, **more}
    return Operation(session=session, number=number, kind=kind, path=path, value=value, start=start, **given)  # type: ignore[arg-type]


def good_history() -> list[Operation]:
    """Two sessions; x is created and set three times, one of them unknown; y is created and read."""
    return [
        operation(A, 1, Kind.CREATE, "/x", "x0", 0, zxid=1),
        operation(A, 2, Kind.SET, "/x", "x1", 2, zxid=2, version=1),
        operation(B, 1, Kind.GET, "/x", "x0", 2.5, zxid=1, modified=1),
        operation(B, 2, Kind.CREATE, "/y", "y0", 4, zxid=3),
        operation(B, 3, Kind.SYNC, "/", None, 6, zxid=3),
        operation(B, 4, Kind.GET, "/x", "x1", 8, zxid=3, modified=2, version=1),
        operation(B, 5, Kind.SET, "/x", "no", 10, zxid=4, outcome=Outcome.REFUSED),
        operation(A, 3, Kind.SET, "/x", "x2", 12, outcome=Outcome.UNKNOWN, end=float("inf")),
        operation(A, 4, Kind.GET, "/x", "x2", 14, zxid=5, modified=5, version=2),
        operation(A, 5, Kind.SET, "/x", "x3", 16, zxid=6, version=3),
        operation(B, 6, Kind.GET, "/z", None, 18, zxid=6),
    ]


def good_replicas() -> list[Replica]:
    znodes = {"/x": Held("x3", 6, 3), "/y": Held("y0", 3, 0)}
    return [Replica(name, 6, 0xD16E57, dict(znodes)) for name in ("one", "two", "three")]


def with_operation(index: int, **changes: object) -> list[Operation]:
    history = good_history()
    history[index] = replace(history[index], **changes)  # type: ignore[arg-type]
    return history


def with_znode(path: str, held: Held | None, *, everywhere: bool = True) -> list[Replica]:
    changed = []
    for index, replica in enumerate(good_replicas()):
        znodes = dict(replica.znodes)
        if everywhere or index == 0:
            znodes.pop(path, None)
            if held is not None:
                znodes[path] = held
        changed.append(replace(replica, znodes=znodes))
    return changed
