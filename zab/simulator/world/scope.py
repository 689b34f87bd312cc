"""The part of a run that is needed to fail: the duration of faults, the faults, and the requests of clients.

A kept fault is the same as in the whole run: it happens at the same time, with the same choices. So the whole run comes
first to record them (`faults.Happened`). A request that is not kept is drawn but not sent, so that the client's other
requests stay the same.

`Kept` as text, for a command line: `t12 f3,5-7 c1:1-4,9 c2:` means 12 ticks, four faults, five requests of the first
client, and no requests of the second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from zab.simulator.world.faults import Happened

NUMBER_MAX: Final = 1_000_000
"""The largest number in the text of `Kept`; no run has so many of anything."""

_WORD: Final = re.compile(r"t(?P<ticks>\d+)|f(?P<faults>[\d,-]*)|c(?P<client>\d+):(?P<requests>[\d,-]*)")
_RANGE: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


class ScopeError(ValueError):
    """A scope is invalid; the text says why."""


@attrs.frozen
class Kept:
    """A part of a run. Faults, clients and each client's requests are counted from 1 in the whole run."""

    ticks: int
    """How long faults happen."""
    faults: tuple[int, ...]
    requests: Mapping[int, tuple[int, ...]]
    """The requests by client; other clients take no part."""

    def __str__(self) -> str:
        clients = [f"c{client}:{_ranges(numbers)}" for client, numbers in sorted(self.requests.items())]
        return " ".join([f"t{self.ticks}", f"f{_ranges(self.faults)}", *clients])

    @classmethod
    def parse(cls, text: str) -> Kept:
        """Parse the result of `str`. Raises ScopeError."""
        ticks, faults, requests = None, None, {}
        for word in text.split():
            match = _WORD.fullmatch(word)
            if match is None:
                raise ScopeError(f"{word!r} is none of t12 (ticks), f3,5-7 (faults) and c1:1-4,9 (a client's requests)")
            if match["ticks"] is not None:
                ticks = _number(match["ticks"])
            elif match["faults"] is not None:
                faults = _numbers(match["faults"])
            else:
                requests[_number(match["client"])] = _numbers(match["requests"])
        if ticks is None or faults is None:
            raise ScopeError("it says how many ticks there are, such as t12, and which faults, such as f3,5-7 or f")
        return cls(ticks, faults, requests)

    def faults_of(self, happened: Sequence[Happened]) -> list[Happened]:
        """The kept faults among those of the whole run."""
        return [happened[number - 1] for number in self.faults if number <= len(happened)]


def _ranges(numbers: Iterable[int]) -> str:
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _number(text: str) -> int:
    number = int(text) if len(text) <= len(str(NUMBER_MAX)) else NUMBER_MAX + 1
    if number > NUMBER_MAX:
        raise ScopeError(f"{text} is more than {NUMBER_MAX}")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ScopeError(f"{part!r} is neither a number nor a range such as 5-7")
        first = _number(match[1])
        numbers.update(range(first, 1 + _number(match[2] or match[1])))
    return tuple(sorted(numbers))
