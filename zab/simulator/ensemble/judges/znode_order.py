"""Searches an order of one znode's operations that explains them all: Wing and Gong's search, with Lowe's memo.

    order_of(operations) -> None if there is such an order; otherwise how far the best attempt came

    state       the znode: absent, or a value, its version, and the zxid that wrote it if a client was told
    operation   a step from a state to the next one, or no step if its answer contradicts the state
    candidate   an operation that has no remaining predecessor

Predecessors define the consistency: in real time, operations answered before a write was sent; in a session, earlier
operations; by zxid, every write up to the one that a reply names. A read may be stale in real time: it counts from the
beginning of its session's last `sync` (`Interval.start`).

The search takes one candidate after the other and backtracks if none is left. It never visits a pair of
(operations taken, state) twice, which is Lowe's memo ("Testing for linearizability", 2017). Five more things keep it
short, and none loses an order:

- an operation that changes nothing is taken as soon as possible;
- of writes without a reply that no answer distinguishes, only the one sent first is tried;
- a write without a reply whose value was read, and was written by no other, has happened, with the zxid and version
  that were read with it;
- a write with a zxid comes after everything that was answered with a lower one;
- if every answer names a zxid, such a write is taken as soon as possible, without alternatives.

Steps are bounded: beyond `STEPS_MAX` the result is undecided, which does not count as an order.

Reference: Wing and Gong, "Testing and verifying concurrent objects", 1993. Checks across znodes, and of whole sessions,
are in `linearizability`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain as chained
from typing import Final, NamedTuple

from attrs import define, evolve, field, frozen

from datatree.errors import ErrorCode
from zab.simulator.ensemble.judges.recorder import Record

__all__ = ["STEPS_MAX", "Interval", "Stuck", "order_of", "says_something"]

STEPS_MAX: Final = 50_000
"""How many choices are tried for one znode before it is undecided."""

_NONODE, _BADVERSION, _NODEEXISTS = int(ErrorCode.NONODE), int(ErrorCode.BADVERSION), int(ErrorCode.NODEEXISTS)
_WRITES: Final = frozenset({"create", "set", "delete"})
_ALWAYS: Final = -(1 << 62)
_NEVER: Final = 1 << 62
_LAST_PART: Final = 1 << 31


@frozen
class Interval:
    """An operation, and the time before which it has to show everything. `start` and `end` in ns of one clock."""

    record: Record
    start: int

    @property
    def end(self) -> int:
        returned = self.record.returned
        return _NEVER if returned is None or self.record.status == "unknown" else returned


@frozen
class Stuck:
    """No order exists, or none was found. `left`: operations that could not come next after the best attempt."""

    is_undecided: bool
    taken_count: int
    state: str
    left: list[Record]


class Znode(NamedTuple):
    """A state. `version` is None while the znode is absent."""

    value: bytes | None
    version: int | None
    mzxid: int | None
    """None if no answer has told it yet: then it is above `above`, and not above `below`."""
    above: int
    below: int
    seen: int
    """The highest zxid that the operations taken so far have named."""


_ABSENT: Final = Znode(None, None, _ALWAYS, _ALWAYS, _NEVER, _ALWAYS)


def says_something(record: Record) -> bool:
    """Whether the operation changed this znode, or its answer tells its state."""
    if record.status == "failed":
        return record.error in _REASONS.get(record.kind, ())
    return record.kind in _WRITES or (record.kind in ("get", "exists") and record.status == "ok")


_REASONS: Final = {
    "create": (_NODEEXISTS,),
    "set": (_NONODE, _BADVERSION),
    "delete": (_NONODE, _BADVERSION),
    "get": (_NONODE,),
    "exists": (_NONODE,),
}


def _shows_value(record: Record) -> bool:
    return record.kind == "get" and record.status == "ok"


def _demand(record: Record) -> int | None:
    return record.expected if record.expected is not None and record.expected >= 0 else None


def _wrote(record: Record, state: Znode) -> Znode | None:
    """The state after a write; None if it is impossible in this state."""
    demand, version = _demand(record), state.version
    if (version is None) != (record.kind == "create") or (demand is not None and demand != version):
        return None
    made = None if record.kind == "delete" else 0 if version is None else version + 1
    if record.version is not None and record.version != made:
        return None
    value = None if record.kind == "delete" else record.value
    if record.zxid is None or record.status != "ok":
        return Znode(value, made, None, state.seen, _NEVER, state.seen)
    return Znode(value, made, record.zxid, 0, _NEVER, max(state.seen, record.zxid))


def _agrees(record: Record, state: Znode) -> bool:
    """Whether this answer to a read, or refusal, is possible in this state, apart from zxids."""
    if record.status == "failed":
        if record.error == _NONODE:
            return state.version is None
        is_there = state.version is not None
        return is_there and not (record.error == _BADVERSION and _demand(record) == state.version)
    if state.version is None or (record.version is not None and record.version != state.version):
        return False
    return record.kind != "get" or record.value == state.value


def _told(record: Record, state: Znode, keys: Sequence[tuple[int, int]]) -> Znode | None:
    """The state with the zxids of the answer; None if they contradict it."""
    zxid, shown = record.zxid, record.mzxid if record.status == "ok" else None
    if state.mzxid is None:
        below = state.below if zxid is None else min(state.below, zxid)
        state = state._replace(below=below)
        if shown is not None:
            at = bisect_left(keys, (shown, -1))
            is_of_another = at < len(keys) and keys[at][0] == shown
            if is_of_another or not state.above < shown <= below:
                return None
            state = state._replace(mzxid=shown, above=0, below=_NEVER, seen=max(state.seen, shown))
    elif shown not in (None, state.mzxid) or (zxid is not None and zxid < state.mzxid):
        return None
    return state if zxid is None or zxid <= state.seen else state._replace(seen=zxid)


@define(eq=False)
class _Place:
    """An operation in the search."""

    interval: Interval
    record: Record
    """The record of the interval, completed by what a read told about it."""
    is_write: bool
    is_needed: bool
    rank: int | None = None
    """How many writes with a zxid come before it, if its answer says that."""
    chain: int = -1
    position: int = 0


@define(eq=False)
class _Point:
    heads: list[int]
    """How many operations of each chain are taken."""
    optional: int
    """A bit for each write without a reply that is taken."""
    ranked: int
    state: Znode
    end_at: int
    choices: Iterator[tuple[_Place, Znode]] = iter(())


@define(eq=False)
class _Search:
    intervals: Sequence[Interval]
    steps_left: int
    keys: list[tuple[int, int]] = field(factory=list)
    """(zxid, part) of the writes that have one, in order."""
    chains: list[list[_Place]] = field(factory=list)
    by_end: list[_Place] = field(factory=list)
    optional: list[_Place] = field(factory=list)
    below: dict[int, list[_Place]] = field(factory=lambda: defaultdict(list))
    """Rank → the operations answered after exactly this many writes."""
    all_ranked: bool = False
    """Whether every answer names a zxid."""
    shown: set[bytes | None] = field(factory=set)
    """All values that were read."""
    best: tuple[int, Znode, list[Record]] = (-1, _ABSENT, [])

    def __attrs_post_init__(self) -> None:
        places = []
        for interval, record in zip(self.intervals, self._witnessed(), strict=True):
            is_write = record.kind in _WRITES and record.status != "failed"
            places.append(_Place(interval, record, is_write, is_needed=record.status != "unknown"))
        self._rank([place for place in places if place.is_needed])
        self._chain([place for place in places if place.is_needed])
        optional = [place for place in places if not place.is_needed]
        self.optional = sorted(optional, key=lambda place: (place.record.kind == "delete", place.interval.start))
        self.shown = {place.record.value for place in places if _shows_value(place.record)}
        self.by_end = sorted((place for place in places if place.is_needed), key=lambda place: place.interval.end)

    def _witnessed(self) -> Iterator[Record]:
        """The records; a write without a reply that was read gets the answer that follows from the read."""
        records = [interval.record for interval in self.intervals]
        written = Counter(record.value for record in records if record.kind in ("create", "set"))
        reads = {record.value: record for record in records if _shows_value(record)}
        for record in records:
            read = reads.get(record.value) if record.status == "unknown" and record.kind != "delete" else None
            if read is None or read.mzxid is None or written[record.value] != 1:
                yield record
            else:
                yield evolve(record, status="ok", zxid=read.mzxid, version=read.version)

    def _rank(self, places: list[_Place]) -> None:
        ranked = [place for place in places if place.is_write and place.record.zxid is not None]
        self.keys = sorted(_key(place.record) for place in ranked)
        for place in ranked:
            place.rank = bisect_left(self.keys, _key(place.record))
        for place in places:
            zxid = place.record.mzxid if place.record.zxid is None else place.record.zxid
            if not place.is_write and zxid is not None:
                place.rank = bisect_right(self.keys, (zxid, _LAST_PART))
                self.below[place.rank].append(place)
        self.all_ranked = all(place.rank is not None for place in places)

    def _chain(self, places: list[_Place]) -> None:
        """Make chains of operations with a known order: those of a session as sent, and those of the ensemble by zxid.
        Operations without a reply may come after later ones of their session."""
        chains: dict[object, list[_Place]] = defaultdict(list)
        for place in places:
            had_reply, is_own = place.interval.record.status != "unknown", place.record.client is None
            chains[None if is_own else place.record.session if had_reply else place].append(place)
        for whose, chain in chains.items():
            chain.sort(key=lambda place: _key(place.record) if whose is None else _sent(place.record))
            for position, place in enumerate(chain):
                place.chain, place.position = len(self.chains), position
            self.chains.append(chain)

    # ------------------------------------------------------------------------------------------------------ the search

    def run(self) -> Stuck | None:
        seen: set[tuple[tuple[int, ...], int, Znode]] = set()
        stack = [self._settled(_Point([0] * len(self.chains), 0, 0, _ABSENT, 0))]
        while stack:
            point = stack[-1]
            if point.end_at == len(self.by_end):
                return None
            chosen = next(point.choices, None)
            if chosen is None:
                stack.pop()
                continue
            place, state = chosen
            following = _Point(point.heads.copy(), point.optional, point.ranked, state, point.end_at)
            self._take(following, place)
            following = self._settled(following)
            mark = tuple(following.heads), following.optional, following.state
            if mark in seen:
                continue
            seen.add(mark)
            self.steps_left -= 1
            if self.steps_left < 0:
                return self._stuck(is_undecided=True)
            stack.append(following)
        return self._stuck(is_undecided=False)

    def _stuck(self, *, is_undecided: bool) -> Stuck:
        count, state, left = self.best
        what = "absent" if state.version is None else f"{state.value!r} at version {state.version}"
        return Stuck(is_undecided, count, what, left)

    def _is_taken(self, point: _Point, place: _Place) -> bool:
        return point.heads[place.chain] > place.position

    def _take(self, point: _Point, place: _Place) -> None:
        if not place.is_needed:
            point.optional |= 1 << self.optional.index(place)
            return
        point.heads[place.chain] += 1
        if place.is_write and place.rank is not None:
            point.ranked += 1

    def _settled(self, point: _Point) -> _Point:
        """The point after taking all operations that change nothing, with the choices from there."""
        while True:
            while point.end_at < len(self.by_end) and self._is_taken(point, self.by_end[point.end_at]):
                point.end_at += 1
            due = self.by_end[point.end_at].interval.end if point.end_at < len(self.by_end) else _NEVER
            ready = [place for place in self._heads(point) if self._may_come(point, place, due)]
            taken = [place for place in ready if self._take_early(point, place)]
            if not taken:
                break
        self._note_best(point)
        needed = self._needed(point, ready)
        settling = [choice for choice in needed if self._settles(choice[0])]
        point.choices = iter(settling) if settling else chained(needed, self._without_reply(point, due))
        return point

    def _settles(self, place: _Place) -> bool:
        """Whether this write, which may come, needs no alternatives: everything answered with a lower zxid is taken,
        and its result does not depend on the state before, so a write without a reply before it was seen by nobody.
        """
        record = place.record
        return self.all_ranked and place.is_write and (record.kind != "set" or record.version is not None)

    def _heads(self, point: _Point) -> Iterator[_Place]:
        for chain, head in zip(self.chains, point.heads, strict=True):
            if head < len(chain):
                yield chain[head]

    def _may_come(self, point: _Point, place: _Place, due: int) -> bool:
        if place.interval.start > due or place.rank not in (None, point.ranked):
            return False
        if place.is_write and place.rank is not None:
            return all(self._is_taken(point, other) for other in self.below[point.ranked])
        return True

    def _take_early(self, point: _Point, place: _Place) -> bool:
        """Take a read or refusal that fits here, and would not fit better elsewhere. True: it was taken."""
        record, state = place.record, point.state
        if place.is_write or not _agrees(record, state):
            return False
        after = _told(record, state, self.keys)
        if after is None:
            return False
        shows_the_write = record.mzxid is not None and record.mzxid == state.mzxid
        is_open = point.optional.bit_count() < len(self.optional)
        if after == state or (after._replace(seen=state.seen) == state and (shows_the_write or not is_open)):
            point.state = after
            self._take(point, place)
            return True
        return False

    def _needed(self, point: _Point, ready: list[_Place]) -> list[tuple[_Place, Znode]]:
        inorder = sorted(ready, key=lambda place: (place.is_write, place.interval.end))
        after = [(place, self._after(point.state, place)) for place in inorder]
        return [(place, state) for place, state in after if state is not None]

    def _after(self, state: Znode, place: _Place) -> Znode | None:
        record = place.record
        if not place.is_write:
            return _told(record, state, self.keys) if _agrees(record, state) else None
        if place.is_needed and record.zxid is not None:
            # After what was told already; only the parts of one multi share a zxid.
            known = state.seen if state.mzxid is None or record.part is None else state.seen - 1
            if record.zxid <= known:
                return None
        return _wrote(record, state)

    def _without_reply(self, point: _Point, due: int) -> Iterator[tuple[_Place, Znode]]:
        """Writes without a reply that may have happened here: first those whose value was read here, then one of each
        kind of the others; deletes last, since the next expected version is mostly higher."""
        sorts: set[object] = set()
        for is_shown in (True, False):
            for number, place in enumerate(self.optional):
                record = place.record
                if point.optional >> number & 1 or place.interval.start > due:
                    continue
                if (record.kind != "delete" and record.value in self.shown) != is_shown:
                    continue
                sort = (record.kind, _demand(record), record.value if is_shown else None)
                after = self._after(point.state, place) if sort not in sorts else None
                sorts.add(sort)
                if after is not None:
                    yield place, after

    def _note_best(self, point: _Point) -> None:
        count = sum(point.heads)
        if count > self.best[0]:
            self.best = count, point.state, [place.interval.record for place in self._heads(point)]


def _key(record: Record) -> tuple[int, int]:
    return record.zxid or 0, -1 if record.part is None else record.part


def _sent(record: Record) -> tuple[int, int]:
    return record.operation, -1 if record.part is None else record.part


def order_of(intervals: Sequence[Interval], steps_max: int = STEPS_MAX) -> Stuck | None:
    """None if an order explains these operations, all on one znode that began absent; otherwise why not."""
    return _Search(intervals, steps_max).run()
