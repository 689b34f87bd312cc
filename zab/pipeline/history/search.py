"""Searches for an order of operations on one znode that explains them all: Wing and Gong, with Lowe's memoization.

    linearize(operations) -> an order, or None when there is none

The state of the znode at the beginning is unknown. An order is right when

- each operation has the effect that its reply reports: a create finds no znode and makes version 0, a set raises the
  version by one, an operation that demands a version finds it, a read shows the state, and the state justifies a
  refusal with NODEEXISTS, NONODE or BADVERSION;
- an operation that returned before another was sent comes before it. Only writes, refusals and reads with a `since`
  have to show the state at their beginning; other reads may show any older state;
- operations of one session that were answered come in the order in which the session sent them;
- writes come in the order of their zxids; a read or refusal with a zxid comes after exactly the writes up to that zxid;
  a zxid that only reads show belongs to a write whose reply did not say it;
- a write of unknown outcome may be anywhere after its beginning, or nowhere.

A read that adds nothing to what is known is taken as soon as possible, because it never excludes a later choice. A
write of unknown outcome is taken only when an operation that is due could not come without it. All other choices are
tried, but a pair of (operations taken, state) only once. The number of such pairs is limited: SearchLimitError.

`loose` is for the search for a smallest witness: writes that are left out, but may happen at any time and any number of
times. If operations have no order even then, they have none whatever those writes did.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained
from typing import Final, TypeAlias

from attrs import define

from zab.pipeline.history.operation import DELETE, EXISTS, GET, SET, UNKNOWN, WRITES, Operation
from zab.pipeline.history.states import (
    BEGINNING,
    NOTHING,
    Loose,
    State,
    is_behind,
    is_constraint,
    loosely,
    shows,
    transition_of,
)

__all__ = ["SearchLimitError", "linearize", "smallest"]


STEPS_MAX = 30_000
SHRINK_STEPS_MAX = 1_000
_FAR: Final = 1 << 62
_LAST_PART: Final = 1 << 31
_NOWHERE: Final = -1


class SearchLimitError(Exception):
    """Too many orders to try all of them."""


@define(eq=False)
class _Place:
    """The constraints on one operation's place in the order. `rank`: how many keys are before it, if that is known."""

    operation: Operation
    transition: Callable[[Operation, State], State | None]
    start: int
    end: int
    is_needed: bool
    is_write: bool
    rank: int | None = None
    chain: int | None = None
    """The chain of its session; None for an operation outside of all chains."""
    position: int = 0
    """Its index in its chain, or the number of its bit."""

    @property
    def is_ranked(self) -> bool:
        return self.is_write and self.rank is not None


_Choice: TypeAlias = tuple[_Place, State, int]
"""An operation, the state after it, and how many keys are passed then."""


@define(eq=False)
class _Point:
    """A point of the search. `heads`: how much of each chain is taken. `taken`: a bit for each operation taken that is
    in no chain. `ranked`: how many keys are passed. `end_at`: the index, among the operations by their ends, of the
    first one that is not taken. `order`: what was taken last."""

    heads: list[int]
    taken: int
    ranked: int
    state: State
    end_at: int
    order: list[_Place]
    choices: Iterator[_Choice] = iter(())


class _Search:
    """The keys are the zxids that are known of writes, by answers or because reads show them, in their order.

    The operations of a session that were answered are a chain, of which only the first that is left can come next.
    Writes of unknown outcome, and what no session did, stand alone."""

    def __init__(self, operations: Sequence[Operation], loose: Loose, steps_max: int) -> None:
        self._loose = loose
        self._steps_left = steps_max
        kept = sorted(filter(is_constraint, operations), key=_start_of)
        self._places = [
            _Place(one, transition_of(one), _start_of(one), _end_of(one), one.status != UNKNOWN, one.is_done)
            for one in kept
        ]
        self._shown: dict[int, int] = {}
        """Rank → the zxid that only reads say, so that it belongs to some write whose reply did not."""
        self._rank()
        # Of the reads that name a write, one that says most.
        named = [place.operation for place in self._places if not place.is_write and place.operation.mzxid is not None]
        self._first_shown = {one.mzxid: one for one in sorted(named, key=lambda one: one.kind == GET)}
        self._chains: list[list[_Place]] = []
        self._alone: list[_Place] = []
        self._chain()
        self._alone_starts = [place.start for place in self._alone]
        self._by_end = sorted((place for place in self._places if place.is_needed), key=lambda place: place.end)
        self._sort_optional()
        self._seen: set[tuple[tuple[int, ...], int, int, State]] = set()

    def _rank(self) -> None:
        writes = [place for place in self._places if place.is_write and place.is_needed]
        ranked = [place for place in writes if place.operation.zxid is not None]
        keys = sorted(place.operation.order for place in ranked)
        self._drop_prior(keys[0][0] if keys else _FAR)
        answered = {zxid for zxid, _ in keys}
        shown = {place.operation.mzxid for place in self._places if not place.is_write} - answered - {None}
        keys = sorted([*keys, *((zxid, -1) for zxid in shown if zxid is not None)])
        self._shown = {rank: zxid for rank, (zxid, _) in enumerate(keys) if zxid in shown}
        for place in ranked:
            place.rank = bisect_left(keys, place.operation.order)
        for place in self._places:
            if not place.is_write and place.operation.mzxid is not None:
                place.rank = bisect_right(keys, (place.operation.mzxid, _LAST_PART))
            if not place.is_write and place.operation.zxid is not None:
                rank = bisect_right(keys, (place.operation.zxid, _LAST_PART))
                place.rank = rank if place.rank in (None, rank) else _NOWHERE

    def _drop_prior(self, first_zxid: int) -> None:
        """Drop reads of what there was before the history: they say nothing about it."""
        unnamed = Loose.of(place.operation for place in self._places if place.is_write and not place.operation.zxid)
        values = unnamed.values | self._loose.values
        self._places = [
            place
            for place in self._places
            if place.is_write
            or place.operation.mzxid is None
            or place.operation.mzxid >= first_zxid
            or (bool(values) if place.operation.kind == EXISTS else place.operation.value in values)
        ]

    def _chain(self) -> None:
        sessions: dict[int, list[_Place]] = defaultdict(list)
        for place in self._places:
            if place.is_needed and place.operation.session:
                sessions[place.operation.session].append(place)
            else:
                place.position = len(self._alone)
                self._alone.append(place)
        for number, chain in enumerate(sessions.values()):
            chain.sort(key=lambda place: place.operation.sent)
            self._chains.append(chain)
            for position, place in enumerate(chain):
                place.chain, place.position = number, position

    def _sort_optional(self) -> None:
        """Sort the bits of writes of unknown outcome: by value, if some read has it; else by what they do."""
        read = {place.operation.value for place in self._places if place.operation.kind == GET}
        self._optional = 0
        self._demanding: list[tuple[int, Operation]] = []
        self._of_value: dict[bytes | None, int] = defaultdict(int)
        self._alike: dict[tuple[str, int | None], int] = defaultdict(int)
        for place in self._alone:
            if place.is_needed:
                continue
            bit, one = 1 << place.position, place.operation
            self._optional |= bit
            if one.demand is not None:
                self._demanding.append((bit, one))
            if one.kind != DELETE and one.value in read:
                self._of_value[one.value] |= bit
            else:
                self._alike[one.kind, one.demand] |= bit

    def run(self) -> list[_Place] | None:
        stack = [self._settled(_Point([0] * len(self._chains), 0, 0, BEGINNING, 0, []))]
        while stack:
            point = stack[-1]
            if point.end_at == len(self._by_end):
                return [place for each in stack for place in each.order]
            chosen = next(point.choices, None)
            if chosen is None:
                stack.pop()
                continue
            place, state, ranked = chosen
            following = _Point(point.heads.copy(), point.taken, ranked, state, point.end_at, [])
            self._take(following, place)
            following = self._settled(following)
            mark = tuple(following.heads), following.taken, following.ranked, following.state
            if mark in self._seen:
                continue
            self._seen.add(mark)
            self._steps_left -= 1
            if self._steps_left < 0:
                raise SearchLimitError
            stack.append(following)
        return None

    def _is_taken(self, point: _Point, place: _Place) -> bool:
        if place.chain is None:
            return bool(point.taken >> place.position & 1)
        return point.heads[place.chain] > place.position

    def _take(self, point: _Point, place: _Place) -> None:
        point.order.append(place)
        if place.chain is None:
            point.taken |= 1 << place.position
        else:
            point.heads[place.chain] += 1

    def _settled(self, point: _Point) -> _Point:
        """The point after every read that changes nothing, with what there is to choose from."""
        while True:
            while point.end_at < len(self._by_end) and self._is_taken(point, self._by_end[point.end_at]):
                point.end_at += 1
            due = self._by_end[point.end_at].end if point.end_at < len(self._by_end) else _FAR
            before = len(point.order)
            left = [place for place in self._needed(point, due) if not self._read_on(point, place, due)]
            if len(point.order) == before:
                break
        choices: list[_Choice] = []
        lacking: list[Operation] = []
        for place in left:
            if place.transition(place.operation, point.state) is None:
                lacking.append(place.operation)
            choices += self._choices(place, point.ranked, point.state)
        choices.sort(key=lambda choice: (not choice[0].is_write, choice[0].end))
        point.choices = chained(choices, self._optional_choices(point, due, lacking))
        return point

    def _needed(self, point: _Point, due: int) -> Iterator[_Place]:
        """The answered operations that may come next by time and session."""
        for number, head in enumerate(point.heads):
            if head < len(self._chains[number]) and self._chains[number][head].start <= due:
                yield self._chains[number][head]
        for number in _bits(self._open(due) & ~self._optional & ~point.taken):
            yield self._alone[number]

    def _open(self, due: int) -> int:
        """The bits of the operations outside of chains that may come next by time."""
        return (1 << bisect_right(self._alone_starts, due)) - 1

    def _read_on(self, point: _Point, place: _Place, due: int) -> bool:
        """Take this operation and the ones after it in its session, as long as they are reads that change nothing.

        Returns whether it was taken."""
        count = len(point.order)
        while (
            not place.is_write
            and place.start <= due
            and place.rank in (None, point.ranked)
            and place.transition(place.operation, point.state) == point.state
        ):
            self._take(point, place)
            if place.chain is None or point.heads[place.chain] == len(self._chains[place.chain]):
                break
            place = self._chains[place.chain][point.heads[place.chain]]
        return len(point.order) > count

    def _optional_choices(self, point: _Point, due: int, lacking: list[Operation]) -> Iterator[_Choice]:
        """Yield writes of unknown outcome that may come next.

        A write that changes nothing for the operations that are due can come later just as well, or never. Of several
        identical ones, any will do."""
        free = self._open(due) & self._optional & ~point.taken
        shown = self._shown.get(point.ranked)
        first = None if shown is None else self._first_shown[shown]
        wants = lacking if first is None else [*lacking, first]
        if not free or not wants:
            return
        if first is not None:
            for place in self._candidates(free, first.value if first.kind == GET else None, first.kind != GET):
                after = place.transition(place.operation, point.state)
                if after is not None and shows(first, after):
                    yield place, after._replace(mzxid=shown), point.ranked + 1
        wanted = {one.value for one in wants if one.kind == GET}
        has_deficit = any(is_behind(point.state, one) for one in wants) or self._is_awaited(free, point.state)
        for place in self._candidates(free, None, True):
            one = place.operation
            if one.kind == SET and one.value not in wanted and not has_deficit:
                continue
            after = place.transition(one, point.state)
            if after is not None:
                yield place, after, point.ranked

    def _is_awaited(self, free: int, state: State) -> bool:
        """Whether one of the writes with these bits demands a later version, which a set may make."""
        return any(bit & free and is_behind(state, one) for bit, one in self._demanding)

    def _candidates(self, free: int, value: bytes | None, any_value: bool) -> Iterator[_Place]:
        """Yield, among the bits `free`, those with a value that is read, and one of each kind of the others."""
        for mask in self._alike.values() if any_value else ():
            if mask & free:
                yield self._alone[_lowest(mask & free)]
        for known, mask in self._of_value.items():
            if any_value or known == value:
                for number in _bits(mask & free):
                    yield self._alone[number]

    def _choices(self, place: _Place, ranked: int, state: State) -> Iterator[_Choice]:
        """Yield the possible results of this operation, if it comes next."""
        one = place.operation
        after = place.transition(one, state)
        after_loose = loosely(one, self._loose) if self._loose is not NOTHING else None
        for each in (after, after_loose):
            if each is None or (each is after_loose and after_loose == after):
                continue
            if not place.is_write and each is after:
                if place.rank in (None, ranked):
                    yield place, each, ranked
                continue
            # A write was done: this one, or a loose one before a read. It may be the one that a shown zxid belongs to.
            if place.is_ranked:
                if place.rank == ranked:
                    yield place, each, ranked + 1
                continue
            names = not place.is_write and one.mzxid is not None
            if not names and (place.is_write or place.rank in (None, ranked)):
                yield place, each, ranked
            shown = self._shown.get(ranked)
            may_name = place.is_write or (place.rank in (None, ranked + 1) and (not names or one.mzxid == shown))
            if shown is not None and may_name:
                yield place, each._replace(mzxid=shown), ranked + 1


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bits(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, rising."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def linearize(
    operations: Sequence[Operation], *, loose: Loose = NOTHING, steps_max: int | None = None
) -> list[Operation] | None:
    """A right order of the operations on one znode, or None. Operations that say nothing are left out.

    Raises SearchLimitError."""
    order = _Search(operations, loose, STEPS_MAX if steps_max is None else steps_max).run()
    return None if order is None else [place.operation for place in order]


def smallest(operations: Sequence[Operation]) -> list[Operation]:
    """A few of these operations, which have no right order, that have none either, whatever the other writes did.

    None of them can be left out. First halves are left out, then smaller pieces, as long as the rest has no order.
    """
    kept = [one for one in sorted(operations, key=_end_of) if is_constraint(one)]
    size = max(1, len(kept) // 2)
    while True:
        start, has_shrunk = 0, False
        while start < len(kept):
            trial = kept[:start] + kept[start + size :]
            if trial and _has_no_order(trial, operations):
                kept, has_shrunk = trial, True
            else:
                start += size
        if size == 1 and not has_shrunk:
            return sorted(kept, key=_start_of)
        size = max(1, size // 2)


def _has_no_order(kept: Sequence[Operation], operations: Sequence[Operation]) -> bool:
    chosen = set(map(id, kept))
    loose = Loose.of(one for one in operations if id(one) not in chosen)
    try:
        return linearize(kept, loose=loose, steps_max=SHRINK_STEPS_MAX) is None
    except SearchLimitError:
        return False


def _start_of(one: Operation) -> int:
    start = one.since if one.kind not in WRITES else one.invoked
    return -_FAR if start is None else start


def _end_of(one: Operation) -> int:
    return _FAR if one.returned is None or one.status == UNKNOWN else one.returned
