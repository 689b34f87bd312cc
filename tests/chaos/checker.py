"""Judges a recorded history of a running ensemble: what the clients were told, and what its members hold in the end.

    check(operations, replicas) -> list[Violation]        empty: nothing to complain about

Every value that is written is unique, so that a value that is read names the write it came from. An operation is
`unknown` when its connection was lost before its reply came. Judged is, by name:

    lost           an acknowledged write is missing in a replica: its path, its value where nothing later was written,
                   or the count of versions, which a write that was lost and then overwritten leaves too low
    refused write  a value whose write was refused is seen, by a read or in a replica
    phantom        a value is seen that nobody wrote
    two orders     two writes share a zxid; zxid, version and real time put acknowledged writes in different orders (one
                   that ended before another began has the smaller zxid); a write is seen under two zxids
    backwards      the zxid of a session's replies falls, in the order of its requests
    not one state  a read at zxid z does not show exactly the last write of its path up to z; so sessions read their own
                   writes, and never what was replaced
    stale sync     a reply from a `sync` of its session on is older than what anybody was told before the sync began
    diverged       replicas differ in zxid, digest or content

The clock is one for all clients: `start` is taken before sending, `end` after receiving.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise


class Outcome(enum.Enum):
    """What the client was told."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Kind(enum.Enum):
    """What was asked. SET and CREATE write; GET reads one path; SYNC neither."""

    SET = "set"
    CREATE = "create"
    GET = "get"
    SYNC = "sync"


@dataclass(frozen=True)
class Operation:
    """One request and its reply.

    number: order in which the session sent its requests. value: written or read; None for a GET of an absent path.
    zxid: of the reply's header; of an acknowledged write its own. modified: mzxid of the znode read. version: of the
    znode after a SET or CREATE, or as read. end: infinite while UNKNOWN.
    """

    client: int
    session: int
    number: int
    kind: Kind
    path: str
    value: str | None
    outcome: Outcome
    start: float
    end: float = float("inf")
    zxid: int = 0
    modified: int = 0
    version: int = 0

    @property
    def writes(self) -> bool:
        return self.kind in (Kind.SET, Kind.CREATE)

    @property
    def acknowledged(self) -> bool:
        return self.writes and self.outcome is Outcome.OK

    def __str__(self) -> str:
        return (
            f"client {self.client} session {self.session:#x} #{self.number} {self.kind.value} {self.path}"
            f"={self.value} {self.outcome.value} zxid {self.zxid:#x} mzxid {self.modified:#x} version {self.version}"
            f" [{self.start:.4f}, {self.end:.4f}]"
        )


@dataclass(frozen=True)
class Held:
    """A znode as a replica holds it."""

    value: str
    modified: int
    version: int


@dataclass(frozen=True)
class Replica:
    """A member at the end: its last zxid, the digest of its tree, and the znodes that the clients wrote."""

    name: str
    zxid: int
    digest: int
    znodes: Mapping[str, Held]


@dataclass(frozen=True)
class Violation:
    """One broken promise. `rule` is one of the names above."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def check(operations: Sequence[Operation], replicas: Sequence[Replica]) -> list[Violation]:
    """Every violation of the rules above, those of one rule together."""
    history = _History(operations, replicas)
    return [
        *_lost(history),
        *_unwritten_values(history),
        *_two_orders(history),
        *_backwards(history),
        *_not_one_state(history),
        *_stale_syncs(history),
        *_diverged(replicas),
    ]


@dataclass
class _Path:
    """What is known of the writes to one path: the acknowledged ones by zxid, and how many are unknown."""

    acknowledged: list[Operation] = field(default_factory=list)
    unknown_count: int = 0
    zxids: list[int] = field(default_factory=list)


class _History:
    def __init__(self, operations: Sequence[Operation], replicas: Sequence[Replica]) -> None:
        self.operations = operations
        self.replicas = replicas
        self.paths: dict[str, _Path] = defaultdict(_Path)
        self.writer_of: dict[tuple[str, str], Operation] = {}
        self.sessions: dict[int, list[Operation]] = defaultdict(list)
        for operation in operations:
            self.sessions[operation.session].append(operation)
            if operation.writes:
                assert operation.value is not None
                assert (operation.path, operation.value) not in self.writer_of, (
                    f"a value was written twice: {operation}"
                )
                self.writer_of[operation.path, operation.value] = operation
                if operation.acknowledged:
                    self.paths[operation.path].acknowledged.append(operation)
                elif operation.outcome is Outcome.UNKNOWN:
                    self.paths[operation.path].unknown_count += 1
        for path in self.paths.values():
            path.acknowledged.sort(key=lambda operation: operation.zxid)
            path.zxids = [operation.zxid for operation in path.acknowledged]
        for session in self.sessions.values():
            session.sort(key=lambda operation: operation.number)

    def answered(self, session: list[Operation]) -> list[Operation]:
        return [operation for operation in session if operation.outcome is not Outcome.UNKNOWN]

    def sightings(self) -> Iterator[tuple[str, str, int, int, str]]:
        """(path, value, mzxid, version, where) of every value that anybody saw, writers' acknowledgements included."""
        for operation in self.operations:
            if operation.outcome is Outcome.OK and operation.kind is Kind.GET and operation.value is not None:
                yield operation.path, operation.value, operation.modified, operation.version, str(operation)
            elif operation.acknowledged:
                assert operation.value is not None
                yield operation.path, operation.value, operation.zxid, operation.version, str(operation)
        for replica in self.replicas:
            for path, held in replica.znodes.items():
                yield path, held.value, held.modified, held.version, f"replica {replica.name}"


def _lost(history: _History) -> Iterator[Violation]:
    for path, known in history.paths.items():
        if not known.acknowledged:
            continue
        last = known.acknowledged[-1]
        for replica in history.replicas:
            held = replica.znodes.get(path)
            if held is None:
                yield Violation("lost", f"replica {replica.name} has no {path}, but: {last}")
            elif held.modified < last.zxid or (held.modified == last.zxid and held.value != last.value):
                yield Violation(
                    "lost", f"replica {replica.name} holds {path}={held.value} of {held.modified:#x}, but: {last}"
                )
            else:
                yield from _lost_versions(path, known, replica.name, held)


def _lost_versions(path: str, known: _Path, name: str, held: Held) -> Iterator[Violation]:
    """A SET raises the version by one: every version has its write, acknowledged or unknown, and no two share one."""
    versions = {operation.version for operation in known.acknowledged}
    if len(versions) < len(known.acknowledged):
        doubled = [a for a, b in pairwise(sorted(known.acknowledged, key=_version)) if a.version == b.version]
        yield Violation("lost", f"{path}: two acknowledged writes made version {doubled[0].version}: {doubled[0]}")
    unexplained = held.version + 1 - len(versions)
    if unexplained > known.unknown_count:
        text = f"{unexplained} versions without an acknowledged write, {known.unknown_count} writes unknown"
        yield Violation("phantom", f"replica {name}: {path} has version {held.version}: {text}")
    if held.version < max(versions):
        yield Violation("lost", f"replica {name}: {path} has version {held.version}, {max(versions)} was acknowledged")


def _version(operation: Operation) -> int:
    return operation.version


def _unwritten_values(history: _History) -> Iterator[Violation]:
    for path, value, _modified, _version, where in history.sightings():
        writer = history.writer_of.get((path, value))
        if writer is None:
            yield Violation("phantom", f"nobody wrote {path}={value}: {where}")
        elif writer.outcome is Outcome.REFUSED:
            yield Violation("refused write", f"{path}={value} was refused, and seen: {where}")


def _two_orders(history: _History) -> Iterator[Violation]:
    acknowledged = sorted((each for each in history.operations if each.acknowledged), key=lambda each: each.zxid)
    for before, after in pairwise(acknowledged):
        if before.zxid == after.zxid:
            yield Violation("two orders", f"one zxid for two writes: {before} and {after}")
    for known in history.paths.values():
        for before, after in pairwise(known.acknowledged):
            if after.version < before.version:
                yield Violation("two orders", f"zxid and version disagree: {before} and {after}")
    yield from _against_real_time(acknowledged)
    seen: dict[tuple[str, str], tuple[int, int, str]] = {}
    for path, value, modified, version, where in history.sightings():
        first = seen.setdefault((path, value), (modified, version, where))
        if first[:2] != (modified, version):
            yield Violation("two orders", f"one write with two zxids or versions: {first[2]} and {where}")


def _against_real_time(acknowledged: list[Operation]) -> Iterator[Violation]:
    """No write that ended before another began may have a larger zxid."""
    by_end = sorted(acknowledged, key=lambda operation: operation.end)
    largest: Operation | None = None
    position = 0
    for operation in sorted(acknowledged, key=lambda operation: operation.start):
        while position < len(by_end) and by_end[position].end < operation.start:
            if largest is None or by_end[position].zxid > largest.zxid:
                largest = by_end[position]
            position += 1
        if largest is not None and largest.zxid > operation.zxid:
            yield Violation("two orders", f"the later has the smaller zxid: {largest} and then {operation}")


def _backwards(history: _History) -> Iterator[Violation]:
    for session in history.sessions.values():
        for before, after in pairwise(history.answered(session)):
            if after.zxid < before.zxid:
                yield Violation("backwards", f"{before} and then {after}")


def _not_one_state(history: _History) -> Iterator[Violation]:
    for read in history.operations:
        if read.kind is not Kind.GET or read.outcome is not Outcome.OK:
            continue
        known = history.paths[read.path]
        position = bisect_right(known.zxids, read.zxid)
        last = known.acknowledged[position - 1] if position else None
        if read.value is None:
            if last is not None:
                yield Violation("not one state", f"absent after it was written: {last} and then {read}")
            continue
        if read.modified > read.zxid:
            yield Violation("not one state", f"a value from the future: {read}")
        if last is not None and last.zxid > read.modified:
            yield Violation("not one state", f"an old value: {read}, after {last}")


def _stale_syncs(history: _History) -> Iterator[Violation]:
    """What anybody was told before a sync began, the session sees after it."""
    told = sorted((each for each in history.operations if each.outcome is Outcome.OK), key=lambda each: each.end)
    ends = [operation.end for operation in told]
    highest = list(accumulate((operation.zxid for operation in told), max, initial=0))
    for session in history.sessions.values():
        required = 0
        for operation in history.answered(session):
            if operation.outcome is Outcome.OK and operation.kind is Kind.SYNC:
                required = max(required, highest[bisect_left(ends, operation.start)])
            if operation.zxid < required:
                yield Violation(
                    "stale sync", f"zxid {required:#x} was known before the sync of this session: {operation}"
                )


def _diverged(replicas: Sequence[Replica]) -> Iterable[Violation]:
    for one, other in pairwise(replicas):
        if one.zxid != other.zxid:
            yield Violation("diverged", f"{one.name} ends at {one.zxid:#x}, {other.name} at {other.zxid:#x}")
        elif one.digest != other.digest:
            yield Violation(
                "diverged",
                f"at {one.zxid:#x} {one.name} has digest {one.digest:016x}, {other.name} {other.digest:016x}",
            )
        differing = [
            path for path in one.znodes.keys() | other.znodes.keys() if one.znodes.get(path) != other.znodes.get(path)
        ]
        if differing:
            yield Violation("diverged", f"{one.name} and {other.name} differ in {sorted(differing)[:5]}")
