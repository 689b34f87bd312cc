"""Whether some order of operations on one znode explains them all: the search of Wing and Gong, with Lowe's memory.

    linearize(operations) -> an order, or None when there is none

What the znode was in the beginning is not known. An order is right when

- each operation does to the state what its reply says, where the reply says anything: a create finds no znode and makes
  version 0, a set raises the version by one, what demands a version finds it, a read shows the state, a refusal with
  NODEEXISTS, NONODE or BADVERSION is justified by it;
- an operation that returned before another was sent is before it. Only writes, refusals and reads with a `since` have
  to show what was new when they began; other reads may be as old as they like;
- operations of one session that were answered stand as the session sent them;
- writes stand by their zxids, and a read or refusal with a zxid stands behind exactly the writes up to that; a zxid
  that reads alone show belongs to a write whose reply did not say it;
- a write of unknown outcome may be anywhere behind its beginning, or nowhere.

A read that changes nothing that is known is taken as soon as it may be: it never hinders what comes after. A write of
unknown outcome is taken only when something that is due could not come without it. All else is tried, and a pair of
(operations taken, state) only once. The number of such pairs is limited: SearchLimitError.

`loose` is for the search of a smallest witness: writes that are not given, but may happen at any time and as often as
one likes, so that what still has no order has none whatever those did.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import define

from zab.pipeline.history_operation import DELETE, EXISTS, GET, SET, UNKNOWN, WRITES, Operation
from zab.pipeline.history_states import (
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
    """What the order has to keep to for one operation. `rank`: how many keys are before it, if that is known."""

    operation: Operation
    transition: Callable[[Operation, State], State | None]
    start: int
    end: int
    is_needed: bool
    is_write: bool
    rank: int | None = None
    after: int = 0
    """The bit of the operation that its session sent right before it."""

    @property
    def is_ranked(self) -> bool:
        return self.is_write and self.rank is not None


_Choice: TypeAlias = tuple[int, State, int]
"""The number of an operation, the state behind it, and how many keys are passed then."""


@define(eq=False)
class _Point:
    """Where the search stands: what is taken, how many keys are passed, the state, and what is left to try."""

    taken: int
    ranked: int
    state: State
    end_at: int
    order: list[int]
    choices: Iterator[_Choice]


class _Search:
    """The keys are the zxids that are known of writes, by answers or because reads show them, in their order."""

    def __init__(self, operations: Sequence[Operation], loose: Loose, steps_max: int) -> None:
        self._loose = loose
        self._steps_left = steps_max
        kept = sorted(filter(is_constraint, operations), key=_start_of)
        self.places = [
            _Place(one, transition_of(one), _start_of(one), _end_of(one), one.status != UNKNOWN, one.is_done)
            for one in kept
        ]
        self._shown: dict[int, int] = {}
        """Rank → the zxid that only reads say, so that it belongs to some write whose reply did not."""
        self._rank()
        reads = [place.operation for place in self.places if place.operation.kind == GET]
        self._read_values = {one.value for one in reads}
        # Of the reads that name a write, one that says most.
        named = [place.operation for place in self.places if not place.is_write and place.operation.mzxid is not None]
        self._first_shown = {one.mzxid: one for one in sorted(named, key=lambda one: one.kind == GET)}
        self._chain_sessions()
        self._by_end = sorted(
            (number for number, place in enumerate(self.places) if place.is_needed),
            key=lambda number: self.places[number].end,
        )
        self._needed = sum(1 << number for number, place in enumerate(self.places) if place.is_needed)
        self._seen: set[tuple[int, int, State]] = set()

    def _rank(self) -> None:
        ranked = [
            place for place in self.places if place.is_write and place.is_needed and place.operation.zxid is not None
        ]
        keys = sorted(place.operation.order for place in ranked)
        self._drop_prior(keys[0][0] if keys else _FAR)
        answered = {zxid for zxid, _ in keys}
        shown = {place.operation.mzxid for place in self.places if not place.is_write} - answered - {None}
        keys = sorted([*keys, *((zxid, -1) for zxid in shown if zxid is not None)])
        self._shown = {rank: zxid for rank, (zxid, _) in enumerate(keys) if zxid in shown}
        for place in ranked:
            place.rank = bisect_left(keys, place.operation.order)
        for place in self.places:
            if not place.is_write and place.operation.mzxid is not None:
                place.rank = bisect_right(keys, (place.operation.mzxid, _LAST_PART))
            if not place.is_write and place.operation.zxid is not None:
                rank = bisect_right(keys, (place.operation.zxid, _LAST_PART))
                place.rank = rank if place.rank in (None, rank) else _NOWHERE

    def _drop_prior(self, first_zxid: int) -> None:
        """Reads of what was there before the history say nothing about it."""
        unnamed = Loose.of(place.operation for place in self.places if place.is_write and not place.operation.zxid)
        values = unnamed.values | self._loose.values
        self.places = [
            place
            for place in self.places
            if place.is_write
            or place.operation.mzxid is None
            or place.operation.mzxid >= first_zxid
            or (bool(values) if place.operation.kind == EXISTS else place.operation.value in values)
        ]

    def _chain_sessions(self) -> None:
        last: dict[int, int] = {}
        numbers = [number for number, place in enumerate(self.places) if place.is_needed]
        for number in sorted(numbers, key=lambda number: self.places[number].operation.sent):
            session = self.places[number].operation.session
            if session:
                if session in last:
                    self.places[number].after = 1 << last[session]
                last[session] = number

    def run(self) -> list[int] | None:
        stack = [self._point(0, 0, BEGINNING, 0, [])]
        while stack:
            point = stack[-1]
            if point.taken & self._needed == self._needed:
                return [number for each in stack for number in each.order]
            chosen = next(point.choices, None)
            if chosen is None:
                stack.pop()
                continue
            number, state, ranked = chosen
            following = self._point(point.taken | 1 << number, ranked, state, point.end_at, [number])
            mark = following.taken, following.ranked, following.state
            if mark in self._seen:
                continue
            self._seen.add(mark)
            self._steps_left -= 1
            if self._steps_left < 0:
                raise SearchLimitError
            stack.append(following)
        return None

    def _point(self, taken: int, ranked: int, state: State, end_at: int, order: list[int]) -> _Point:
        """The point after taking every read that changes nothing."""
        while True:
            while end_at < len(self._by_end) and taken >> self._by_end[end_at] & 1:
                end_at += 1
            due = self.places[self._by_end[end_at]].end if end_at < len(self._by_end) else _FAR
            choices: list[_Choice] = []
            lacking: list[_Place] = []
            optional: list[int] = []
            before = taken
            for number in self._open(taken, due):
                place = self.places[number]
                if not place.is_needed:
                    optional.append(number)
                    continue
                after = place.transition(place.operation, state)
                if after == state and not place.is_write and place.rank in (None, ranked):
                    taken |= 1 << number
                    order.append(number)
                    continue
                if after is None:
                    lacking.append(place)
                choices += self._choices(number, ranked, state)
            if taken == before:
                choices.sort(key=self._preference)
                choices += self._optional_choices(optional, lacking, ranked, state)
                return _Point(taken, ranked, state, end_at, order, iter(choices))

    def _optional_choices(
        self, numbers: list[int], lacking: list[_Place], ranked: int, state: State
    ) -> Iterator[_Choice]:
        """Writes of unknown outcome that may come next.

        One that changes nothing for the operations that are due can come later just as well, or never; and of several
        that nothing tells apart, it does not matter which."""
        shown = self._shown.get(ranked)
        due = [place.operation for place in lacking]
        if shown is not None:
            due.append(self._first_shown[shown])
        wanted = {one.value for one in due if one.kind == GET}
        has_deficit = any(is_behind(state, one) for one in due)
        offered: set[tuple[str, int | None]] = set()
        for number in numbers:
            one = self.places[number].operation
            after = self.places[number].transition(one, state)
            if after is None:
                continue
            if shown is not None and shows(self._first_shown[shown], after):
                yield number, after._replace(mzxid=shown), ranked + 1
            if not due or (one.kind == SET and one.value not in wanted and not has_deficit):
                continue
            if one.kind == DELETE or one.value not in self._read_values:
                like = one.kind, one.demand
                if like in offered:
                    continue
                offered.add(like)
            yield number, after, ranked

    def _open(self, taken: int, due: int) -> Iterator[int]:
        """The operations that may come next by time and session."""
        number = (~taken & (taken + 1)).bit_length() - 1
        while number < len(self.places) and self.places[number].start <= due:
            after = self.places[number].after
            if not taken >> number & 1 and after & taken == after:
                yield number
            number += 1

    def _choices(self, number: int, ranked: int, state: State) -> Iterator[_Choice]:
        """What may come of this operation, if it comes next."""
        place = self.places[number]
        one = place.operation
        after = place.transition(one, state)
        behind_loose = loosely(one, self._loose) if self._loose is not NOTHING else None
        for each in (after, behind_loose):
            if each is None or (each is behind_loose and behind_loose == after):
                continue
            if not place.is_write and each is after:
                if place.rank in (None, ranked):
                    yield number, each, ranked
                continue
            # A write was done: this one, or a loose one before a read. It may be the one that a shown zxid belongs to.
            if place.is_ranked:
                if place.rank == ranked:
                    yield number, each, ranked + 1
                continue
            names = not place.is_write and one.mzxid is not None
            if not names and (place.is_write or place.rank in (None, ranked)):
                yield number, each, ranked
            shown = self._shown.get(ranked)
            may_name = place.is_write or (place.rank in (None, ranked + 1) and (not names or one.mzxid == shown))
            if shown is not None and may_name:
                yield number, each._replace(mzxid=shown), ranked + 1

    def _preference(self, choice: _Choice) -> tuple[bool, bool, int]:
        place = self.places[choice[0]]
        return not place.is_needed, not place.is_write, place.end


def linearize(
    operations: Sequence[Operation], *, loose: Loose = NOTHING, steps_max: int | None = None
) -> list[Operation] | None:
    """An order of the operations on one znode that is right, or None. Those that say nothing are left out.

    Raises SearchLimitError."""
    search = _Search(operations, loose, STEPS_MAX if steps_max is None else steps_max)
    order = search.run()
    return None if order is None else [search.places[number].operation for number in order]


def smallest(operations: Sequence[Operation]) -> list[Operation]:
    """Of operations without a right order, some that have none by themselves, whatever the writes among the others did.

    None of them can be left out. Pieces are left out by halves first, as long as what is left has no order.
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
