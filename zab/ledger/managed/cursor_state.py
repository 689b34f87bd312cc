"""What a cursor has consumed: everything up to its mark, and ranges after that; and the bytes of that.

The mark moves over the ranges that adjoin it, over the ends of ledgers, too. Stored are the lowest ranges: at most
`RANGES_MAX` in a cursor's ledger, `ZNODE_RANGES_MAX` in its znode. What is left out is delivered again after a
takeover, which is what "at least once" means.

    {"created":ms,"epoch":7,"ledger":61,"mark":[57,120],"ranges":[[57,130,140]],"props":{},"v":1}

`ledger` -1: the state is in the znode itself. Else it is the last entry of that ledger, in the same form; if there is
no entry, the znode has it.

Not here: when and where it is stored (`cursors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen
from sortedcontainers import SortedDict

from zab.ledger.entries.ids import NONE
from zab.ledger.managed.log_info import InvalidLogError, LogInfo, Position, from_json, position_from, to_json, whole

RANGES_MAX: Final = 10_000
ZNODE_RANGES_MAX: Final = 1_000
PROPERTIES_BYTES_MAX: Final = 16 * 1024


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises ValueError if they are too large to be stored, or not in Unicode; TypeError if they are no texts."""
    texts = [text for pair in properties.items() for text in pair]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("names and values of a cursor's properties are texts")
    size = sum(len(text.encode()) for text in texts)
    if size > PROPERTIES_BYTES_MAX:
        raise ValueError(f"a cursor's properties have {size} bytes, at most {PROPERTIES_BYTES_MAX} are possible")


@define
class CursorState:
    """`mark`: it, and all before it, are consumed. `properties`: of the caller, stored with it."""

    mark: Position
    properties: dict[str, str] = field(factory=dict)
    _ranges: dict[int, SortedDict[int, int]] = field(factory=dict)
    """For each ledger, the last entry of each range by its first one; ranges neither touch nor overlap."""

    @property
    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Ledger, first and last entry, in order."""
        for ledger in sorted(self._ranges):
            for first, last in self._ranges[ledger].items():
                yield ledger, first, last

    def covers(self, position: Position) -> bool:
        """Whether this entry is consumed."""
        if position <= self.mark:
            return True
        ranges = self._ranges.get(position.ledger)
        if not ranges:
            return False
        at = ranges.bisect_right(position.entry) - 1
        return at >= 0 and ranges.peekitem(at)[1] >= position.entry

    def acknowledge(self, ledger: int, first: int, last: int, info: LogInfo) -> bool:
        """These entries are consumed. Whether that says anything new."""
        if ledger < self.mark.ledger or (ledger == self.mark.ledger and last <= self.mark.entry) or last < first:
            return False
        ranges = self._ranges.setdefault(ledger, SortedDict())
        at = ranges.bisect_right(first) - 1
        if at >= 0 and ranges.peekitem(at)[1] >= last:
            return False
        if at >= 0 and ranges.peekitem(at)[1] >= first - 1:
            first = ranges.peekitem(at)[0]
        while (at := ranges.bisect_left(first)) < len(ranges) and ranges.peekitem(at)[0] <= last + 1:
            last = max(last, ranges.popitem(at)[1])
        ranges[first] = last
        self.settle(info)
        return True

    def mark_delete(self, position: Position, info: LogInfo) -> bool:
        """Everything up to there is consumed. Whether that says anything new."""
        if position <= self.mark:
            return False
        self.mark = position
        self.settle(info)
        return True

    def settle(self, info: LogInfo) -> None:
        """Move the mark over what adjoins it; drop what is before it, and ranges of ledgers that are gone."""
        listed = {each.id: each for each in info.ledgers}
        for ledger in [each for each in self._ranges if each < self.mark.ledger or each not in listed]:
            del self._ranges[ledger]
        while True:
            ledger, entry = self.mark
            ranges = self._ranges.get(ledger)
            if ranges is not None:
                while ranges and ranges.peekitem(0)[0] <= entry + 1:
                    entry = max(entry, ranges.popitem(0)[1])
                if not ranges:
                    del self._ranges[ledger]
            self.mark = Position(ledger, entry)
            here, following = listed.get(ledger), info.after(ledger)
            is_at_end = here is None or (here.entries is not None and entry >= here.entries - 1)
            if not is_at_end or following is None or self._first_of(following.id) != 0:
                return
            self.mark = Position(following.id, NONE)

    def _first_of(self, ledger: int) -> int | None:
        ranges = self._ranges.get(ledger)
        return ranges.peekitem(0)[0] if ranges else None

    def fit(self, info: LogInfo, end: Position) -> str:
        """After it was read: it is about the ledgers that are there, and not beyond `end`. What was wrong, for people;
        "" if nothing was."""
        wrong = ""
        if info.ledgers and self.mark < info.first:
            self.mark = info.first
        if self.mark > end:
            wrong = f"the mark {self.mark} is beyond {end}, the end of the log"
            self.mark = end
        self.settle(info)
        return wrong

    def backlog(self, info: LogInfo, end: Position) -> int:
        """How many entries up to `end` are not consumed."""
        count = 0
        for each in info.ledgers:
            last = each.entries - 1 if each.entries is not None else (end.entry if end.ledger == each.id else NONE)
            first = self.mark.entry + 1 if each.id == self.mark.ledger else 0
            if each.id >= self.mark.ledger and last >= first:
                count += last - first + 1
                count -= sum(min(to, last) - of + 1 for of, to in self._ranges.get(each.id, {}).items() if of <= last)
        return count

    def lowest(self, count: int) -> tuple[tuple[int, int, int], ...]:
        """At most so many ranges."""
        return tuple(each for each, _ in zip(self.ranges, range(count), strict=False))

    def copy(self) -> CursorState:
        return CursorState(self.mark, dict(self.properties), {each: of.copy() for each, of in self._ranges.items()})

    @classmethod
    def of(cls, mark: Position, ranges: Iterable[tuple[int, int, int]], properties: Mapping[str, str]) -> CursorState:
        found = cls(mark, dict(properties))
        for ledger, first, last in ranges:
            found._ranges.setdefault(ledger, SortedDict())[first] = last
        return found


@frozen
class StoredCursor:
    """What a cursor's znode, or an entry of its ledger, says."""

    created_ms: int
    epoch: int
    ledger: int
    state: CursorState = field(hash=False)


def encode_cursor(stored: StoredCursor, ranges_max: int) -> bytes:
    """With the lowest ranges."""
    state = stored.state
    return to_json(
        {
            "created": stored.created_ms,
            "epoch": stored.epoch,
            "ledger": stored.ledger,
            "mark": state.mark,
            "ranges": state.lowest(ranges_max),
            "props": state.properties,
            "v": 1,
        }
    )


def decode_cursor(data: bytes) -> StoredCursor:
    """Raises InvalidLogError."""
    found = from_json(data)
    try:
        mark = position_from(found["mark"])
        if mark is None:
            raise InvalidLogError("a cursor without a mark")
        properties = found["props"]
        if not all(isinstance(text, str) for pair in properties.items() for text in pair):
            raise InvalidLogError("properties that are no texts")
        state = CursorState.of(mark, _ranges_of(found["ranges"]), properties)
        return StoredCursor(whole(found["created"]), whole(found["epoch"]), whole(found["ledger"]), state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidLogError):
            raise
        raise InvalidLogError(f"no cursor: {error!r}") from None


def _ranges_of(found: list[Any]) -> list[tuple[int, int, int]]:
    """In order, and apart from each other."""
    if len(found) > RANGES_MAX:
        raise InvalidLogError(f"{len(found)} ranges, at most {RANGES_MAX} are possible")
    ranges: list[tuple[int, int, int]] = []
    for ledger, first, last in found:
        one = whole(ledger), whole(first), whole(last)
        if one[1] > one[2] or one[1] < 0 or (ranges and (ranges[-1][0], ranges[-1][2] + 1) >= one[:2]):
            raise InvalidLogError(f"ranges that are not in order: {one}")
        ranges.append(one)
    return ranges
