"""Histories of one znode: from a model that keeps its promises, bent in one place, and judged by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random

from attrs import evolve

from zab.pipeline.history.operation import CREATE, DELETE, EXISTS, FAILED, GET, OK, SET, UNKNOWN, WRITES, Operation

PATH = "/x"
NONODE, BADVERSION, NODEEXISTS = -101, -103, -110
FAR = 1 << 62


class Model:
    """One znode of an ensemble whose members lag: writes in one order, reads of any state not older than allowed."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0
        self.zxid = 0
        self.states: list[tuple[int, bytes | None, int | None, int]] = [(0, None, None, 0)]
        """(zxid of the write, value, version or None when absent, when it was done)"""
        self.operations: list[Operation] = []
        self.seen: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.values = 0
        self.add(1, CREATE, None)

    def tick(self) -> int:
        self.now += self.rng.randint(1, 4)
        return self.now

    def add(self, session: int, kind: str, expected: int | None, status: str = OK) -> None:
        """A write: done somewhere between its beginning and its end; of unknown outcome, some time or never."""
        number = self.number(session)
        invoked = self.tick()
        self.values += kind != DELETE
        value = b"v%d" % self.values if kind != DELETE else None
        one = Operation(session, number, kind, PATH, status, value, expected, invoked=invoked)
        self.operations.append(one)
        if status == UNKNOWN and self.rng.random() < 0.4:
            return
        self.zxid += self.rng.randint(1, 3)
        error = self._apply(one)
        if status == UNKNOWN:
            return
        one.zxid, one.error = self.zxid, error or None
        one.status = FAILED if error else OK
        if not error and kind != DELETE:
            one.version = self.states[-1][2]
        one.returned = self.tick()
        self.seen[session] = len(self.states) - 1

    def number(self, session: int) -> int:
        self.numbers[session] = self.numbers.get(session, 0) + 1
        return self.numbers[session]

    def _apply(self, one: Operation) -> int:
        version = self.states[-1][2]
        if one.kind == CREATE:
            if version is not None:
                return NODEEXISTS
            self.states.append((self.zxid, one.value, 0, self.now))
            return 0
        if version is None:
            return NONODE
        if one.expected is not None and one.expected not in (-1, version):
            return BADVERSION
        made = (one.value, version + 1) if one.kind == SET else (None, None)
        self.states.append((self.zxid, *made, self.now))
        return 0

    def read(self, session: int, kind: str, *, synced: bool) -> None:
        number = self.number(session)
        invoked = self.tick()
        lowest = len(self.states) - 1 if synced else self.seen.get(session, 0)
        at = self.rng.randint(lowest, len(self.states) - 1)
        self.seen[session] = max(at, self.seen.get(session, 0))
        zxid, value, version, _ = self.states[at]
        shown = self.states[at + 1][0] - 1 if at + 1 < len(self.states) else self.zxid
        one = Operation(session, number, kind, PATH, OK, invoked=invoked, returned=self.tick(), zxid=shown)
        one.since = invoked if synced else None
        if version is None:
            one.status, one.error = FAILED, NONODE
        else:
            one.mzxid, one.version = zxid, version
            one.value = value if kind == GET else None
        self.operations.append(one)


def good_history(rng: Random, count: int, *, sets_only: bool = False) -> list[Operation]:
    """A create and so many operations of three sessions."""
    model = Model(rng)
    while len(model.operations) <= count:
        session = rng.randint(1, 3)
        if rng.random() < 0.5:
            kind = SET if sets_only else rng.choice((SET, SET, SET, DELETE, CREATE))
            expected = rng.choice((None, None, -1, 0, 1, 2)) if kind != CREATE else None
            model.add(session, kind, expected, UNKNOWN if rng.random() < 0.3 else OK)
        else:
            model.read(session, rng.choice((GET, GET, EXISTS)), synced=rng.random() < 0.5)
    return overlapping(rng, model.operations)


def overlapping(rng: Random, operations: list[Operation]) -> list[Operation]:
    """Begin some earlier and end some later than they were done: the order that was is still a right one."""
    for one in operations[1:]:
        if rng.random() < 0.5 and one.invoked is not None:
            moved = one.invoked - rng.randint(0, 8)
            one.invoked = max(moved, 2 + (operations[0].returned or 0))
            one.since = None if one.since is None else one.invoked
        if rng.random() < 0.5 and one.returned is not None:
            one.returned += rng.randint(0, 8)
    return operations


def bent(rng: Random, operations: list[Operation]) -> list[Operation]:
    """The history with one reply changed; the create that it begins with stays."""
    result = list(operations)
    place = rng.randrange(1, len(result))
    one = result[place]
    others = [each for each in operations if each is not one]
    other = rng.choice(others)
    changes: list[dict[str, object]] = [{"since": one.invoked}] if one.kind in (GET, EXISTS) else []
    if one.zxid is not None:
        changes += [{"zxid": one.zxid + rng.choice((-3, -2, -1, 1, 2, 3))}]
    if one.version is not None and one.kind != CREATE:
        changes += [{"version": max(0, one.version + rng.choice((-1, 1)))}]
    if one.kind == GET and one.status == OK and other.mzxid is not None and other.kind == GET:
        changes += [{"mzxid": other.mzxid, "value": other.value, "version": other.version}]
    if one.kind == GET and one.status == OK and other.value is not None:
        changes += [{"value": other.value}]
    if one.status == OK and one.kind in WRITES:
        changes += [{"status": FAILED, "error": BADVERSION if one.kind != CREATE else NODEEXISTS, "version": None}]
    if one.returned is not None and other.returned is not None and one.kind in WRITES:
        late = max(each.returned or 0 for each in operations) + 1
        changes += [{"invoked": late, "returned": late + 1, "operation": len(operations) + 1}]
    if changes:
        result[place] = evolve(one, **rng.choice(changes))
    return result


def without_zxids(operations: Sequence[Operation]) -> list[Operation]:
    """What a client that keeps only values and versions records."""
    return [evolve(one, zxid=None, mzxid=None) for one in operations]


def without_versions(operations: Sequence[Operation]) -> list[Operation]:
    """What a client that keeps only values records; versions that were demanded and found go with them."""
    return [evolve(one, zxid=None, mzxid=None, version=None, expected=None) for one in operations
            if one.error != BADVERSION]  # fmt: skip


# ------------------------------------------------------------------------------------------------------- brute force


def has_order(operations: Sequence[Operation]) -> bool:
    """Whether any order of the answered operations, with any of the others in it, is right. Tries them all."""
    known = [one for one in operations if one.status != UNKNOWN and counts(one)]
    unknown = [one for one in operations if one.status == UNKNOWN and one.kind in WRITES]
    for size in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, size):
            if any(is_right(order) for order in orders([*known, *chosen])):
                return True
    return False


def counts(one: Operation) -> bool:
    if one.kind in WRITES:
        if one.status == OK:
            return True
        reasons = (NODEEXISTS,) if one.kind == CREATE else (NONODE, BADVERSION)
        return one.error in reasons and not (one.error == BADVERSION and (one.expected is None or one.expected < 0))
    return one.status == OK or one.error == NONODE


def orders(operations: list[Operation]) -> Iterator[list[Operation]]:
    """All orders in which nothing comes before what was over when it began, or before what its session sent first."""

    def before(one: Operation, other: Operation) -> bool:
        start = other.invoked if other.kind in WRITES else other.since
        end = FAR if one.returned is None else one.returned
        in_session = one.session == other.session and UNKNOWN not in (one.status, other.status)
        return (start is not None and end < start) or (in_session and one.operation < other.operation)

    def rest(left: list[Operation], taken: list[Operation]) -> Iterator[list[Operation]]:
        if not left:
            yield list(taken)
        for one in left:
            if not any(before(other, one) for other in left if other is not one):
                taken.append(one)
                yield from rest([other for other in left if other is not one], taken)
                taken.pop()

    return rest(operations, [])


def is_right(order: list[Operation]) -> bool:
    """Whether the replies are those of a new znode to which this happened. Any zxid fits a write of unknown outcome."""
    state: tuple[bytes | None, int] | None = None
    writes = [one for one in order if one.kind in WRITES and one.status != FAILED]
    said = {id(one): one.mzxid if one.zxid is None else one.zxid for one in writes}
    zxids = {each: zxid for each, zxid in said.items() if zxid is not None}
    last: Operation | None = None
    done = 0
    reads: list[tuple[int, int]] = []
    for one in order:
        if one.kind in WRITES and one.status != FAILED:
            after = written(one, state)
            if after == "wrong":
                return False
            state = after  # type: ignore[assignment]
            last = one
            done += 1
            continue
        if one.zxid is not None:
            reads.append((done, one.zxid))
        if one.kind in WRITES:
            if not refused(one, state):
                return False
        elif one.status == FAILED:
            if state is not None:
                return False
        else:
            if state is None or (one.kind == GET and one.value != state[0]):
                return False
            if one.version is not None and one.version != state[1]:
                return False
            if one.mzxid is not None:
                assert last is not None
                if zxids.setdefault(id(last), one.mzxid) != one.mzxid:
                    return False
    given = [(place, zxids[id(one)]) for place, one in enumerate(writes, 1) if id(one) in zxids]
    rising = all(one[1] < other[1] for one, other in itertools.pairwise(given))
    return rising and all((zxid <= seen) == (place <= done) for done, seen in reads for place, zxid in given)


def written(one: Operation, state: tuple[bytes | None, int] | None) -> tuple[bytes | None, int] | str | None:
    if one.kind == CREATE:
        return (one.value, 0) if state is None and one.version in (None, 0) else "wrong"
    if state is None or (one.expected is not None and one.expected >= 0 and one.expected != state[1]):
        return "wrong"
    if one.kind == DELETE:
        return None
    return (one.value, state[1] + 1) if one.version in (None, state[1] + 1) else "wrong"


def refused(one: Operation, state: tuple[bytes | None, int] | None) -> bool:
    if one.error == NODEEXISTS:
        return state is not None
    if one.error == NONODE:
        return state is None
    return state is not None and state[1] != one.expected
