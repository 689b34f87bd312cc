"""A history of ledgers without a fault, and changes of it.

The ledger `7`: w appends a, b, c; the answer of c is lost, r recovers the ledger, and finds it. The log `log`: o1
appends k, l to ledger 8 and has an append refused; o2 takes over, and appends m, n to ledger 9. t reads both.
"""

from __future__ import annotations

from math import inf
from typing import Any

from attrs import evolve

from tests.chaos.ledgers.history import Append, Begin, End, History, Outcome, Place, Read, Record

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
PLACES = {
    "a": Place(7, 0),
    "b": Place(7, 1),
    "c": Place(7, 2),
    "k": Place(8, 0),
    "l": Place(8, 1),
    "m": Place(9, 0),
    "n": Place(9, 1),
}


def record(value: str) -> Record:
    """A value where it is."""
    return Record(PLACES[value], value)


def append(client: str, number: int, value: str, start: float, **changes: Any) -> Append:
    """An append that takes half a second, acknowledged at its place."""
    place = PLACES.get(value)
    stream = "7" if place is not None and place.ledger == 7 else "log"
    given = {"outcome": OK, "place": place, "end": start + 0.5, "stream": stream, **changes}
    if given["outcome"] is not OK:
        given["place"] = None
    return Append(client=client, number=number, value=value, start=start, **given)


def read(client: str, number: int, values: str, end: float, **changes: Any) -> Read:
    """These values, one letter each, of the stream of the first."""
    records = tuple(map(record, values.split()))
    given = {"stream": "7" if records[0].place.ledger == 7 else "log", **changes}
    return Read(client=client, number=number, records=records, start=end - 0.2, end=end, **given)


def good_history() -> History:
    """See the docstring of the module."""
    return History(
        appends=(
            append("w", 1, "a", 1),
            append("w", 2, "b", 1.1),
            append("w", 3, "c", 2, outcome=INFO, end=inf),
            append("o1", 1, "k", 1),
            append("o1", 2, "l", 1.2),
            append("o1", 3, "no", 1.3, outcome=FAIL),
            append("o2", 1, "m", 5),
            append("o2", 2, "n", 5.1),
        ),
        reads=(read("t", 2, "a b", 3), read("t", 3, "c", 6), read("t", 5, "k l", 3), read("t", 6, "m n", 7)),
        begins=(
            Begin(client="t", number=1, start=0, end=0, stream="7", place=Place(7, 0)),
            Begin(client="t", number=4, start=0, end=0, stream="log", place=Place(8, 0)),
        ),
        ends=(
            End(client="r", number=1, start=4, end=5, stream="7", ledger=7, last=2),
            End(client="last", number=1, start=9, end=9.5, stream="7", ledger=7, last=2),
        ),
        finals={"7": tuple(map(record, "abc")), "log": tuple(map(record, "klmn"))},
    )


def with_append(value: str, **changes: Any) -> History:
    """With another append of this value."""
    history = good_history()
    changed = tuple(evolve(each, **changes) if each.value == value else each for each in history.appends)
    return evolve(history, appends=changed)


def with_read(number: int, *records: Record) -> History:
    """With these records in place of those of a read of t."""
    history = good_history()
    changed = tuple(evolve(each, records=records) if each.number == number else each for each in history.reads)
    return evolve(history, reads=changed)


def with_final(stream: str, *records: Record) -> History:
    """With these records in a stream at the end."""
    history = good_history()
    return evolve(history, finals={**history.finals, stream: records})


def more(**operations: Any) -> History:
    """With further operations: appends, reads, …"""
    history = good_history()
    return evolve(history, **{name: (*getattr(history, name), *added) for name, added in operations.items()})
