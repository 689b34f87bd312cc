"""Judges what clients of ledgers were told.

    check(history) -> list[Violation]        empty: nothing to complain about

What is judged, by name:

    lost           an acknowledged value is not in its stream at the end
    moved          a value is not where it was acknowledged, or read
    duplicate      a value is at two places
    phantom        a value is seen that nobody appended to this stream
    not refused    a value is seen whose append has failed for certain
    order          a client's values are not in the order in which it appended them
    real time      a value that was acknowledged before another append began is after it; a value is read before its
                   append began
    two owners     values of one owner are among those of another one: its stream was taken over, and it went on
    skip           a reader passes over what is in the stream
    backwards      a reader is given what it had before
    two ends       a ledger has ended at two entries, or below what was acknowledged in it or read of it

`finals` decide: they are read after everything runs again and every ledger is closed. A stream without one is judged
by what was seen of it alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from math import inf
from operator import attrgetter
from typing import Final

from attrs import frozen

from tests.chaos.checker import Violation
from tests.chaos.ledgers.history import Append, Begin, History, Outcome, Place, Read, Record


@frozen
class _Known:
    """A history, and what follows from it."""

    history: History
    appends: dict[str, Append]
    places: dict[tuple[str, str], set[Place]]
    """Where each value of each stream was told to be."""
    final_places: dict[str, list[Place]]
    final_values: dict[str, frozenset[str]]

    @classmethod
    def of(cls, history: History) -> _Known:
        appends: dict[str, Append] = {}
        for append in history.appends:
            assert append.value not in appends, f"appended twice: {append}"
            appends[append.value] = append
        places: dict[tuple[str, str], set[Place]] = defaultdict(set)
        for append in history.appends:
            if append.place is not None:
                places[append.stream, append.value].add(append.place)
        for stream, record in _seen(history):
            places[stream, record.value].add(record.place)
        return cls(
            history,
            appends,
            places,
            {stream: [record.place for record in records] for stream, records in history.finals.items()},
            {stream: frozenset(record.value for record in records) for stream, records in history.finals.items()},
        )


def check(history: History) -> list[Violation]:
    """Every violation of the rules above, those of one rule together."""
    known = _Known.of(history)
    return [violation for rule in RULES for violation in rule(known)]


def _seen(history: History) -> Iterator[tuple[str, Record]]:
    """Everything that was read, with its stream."""
    for read in history.reads:
        for record in read.records:
            yield read.stream, record
    for stream, records in history.finals.items():
        for record in records:
            yield stream, record


# -------------------------------------------------------------------------------------------------------------- values


def _lost(known: _Known) -> Iterator[Violation]:
    for append in known.history.appends:
        values = known.final_values.get(append.stream)
        if append.outcome is Outcome.OK and values is not None and append.value not in values:
            yield Violation("lost", f"{append.value}, acknowledged at {append.place} of {append.stream}")


def _moved(known: _Known) -> Iterator[Violation]:
    by_place: dict[tuple[str, Place], set[str]] = defaultdict(set)
    for (stream, value), places in known.places.items():
        for place in places:
            by_place[stream, place].add(value)
    for (stream, place), values in by_place.items():
        if len(values) > 1:
            yield Violation("moved", f"{sorted(values)} were told to be at {place} of {stream}")


def _duplicates(known: _Known) -> Iterator[Violation]:
    for (stream, value), places in known.places.items():
        if len(places) > 1:
            yield Violation("duplicate", f"{value} is at {sorted(places)} of {stream}")


def _phantoms(known: _Known) -> Iterator[Violation]:
    for stream, value in known.places:
        append = known.appends.get(value)
        if append is None or append.stream != stream:
            where = "nobody appended it" if append is None else f"it was appended to {append.stream}"
            yield Violation("phantom", f"{value} in {stream}: {where}")


def _not_refused(known: _Known) -> Iterator[Violation]:
    for stream, value in known.places:
        append = known.appends.get(value)
        if append is not None and append.outcome is Outcome.FAIL:
            yield Violation("not refused", f"{value} is in {stream}, and its append has failed for certain")


# --------------------------------------------------------------------------------------------------------------- order


def _placed(known: _Known, stream: str) -> list[tuple[Place, Append]]:
    """The appends of a stream whose place is known, by their place."""
    found = []
    for append in known.history.appends:
        places = known.places.get((stream, append.value), ())
        if append.stream == stream and places:
            found.append((min(places), append))
    return sorted(found, key=lambda each: each[0])


def _streams(known: _Known) -> Iterable[str]:
    return dict.fromkeys(append.stream for append in known.history.appends)


def _order(known: _Known) -> Iterator[Violation]:
    for stream in _streams(known):
        placed = sorted(_placed(known, stream), key=lambda each: (each[1].client, each[1].number))
        for (low, before), (high, after) in pairwise(placed):
            if before.client == after.client and high < low:
                text = f"{before.value} is at {low} of {stream}, and {after.value}, appended after it, at {high}"
                yield Violation("order", text)


def _real_time(known: _Known) -> Iterator[Violation]:
    for stream in _streams(known):
        # From the end: the first acknowledgement of anything that has a higher place.
        earliest, first = inf, ""
        for place, append in reversed(_placed(known, stream)):
            if earliest < append.start:
                text = f"{append.value} at {place} of {stream} was begun after {first} above it was acknowledged"
                yield Violation("real time", text)
            if append.outcome is Outcome.OK and append.end < earliest:
                earliest, first = append.end, append.value
    for read in known.history.reads:
        for record in read.records:
            append = known.appends.get(record.value)
            if append is not None and read.end < append.start:
                text = f"{read.client} has read {record.value} of {read.stream} before its append began"
                yield Violation("real time", text)


def _two_owners(known: _Known) -> Iterator[Violation]:
    for stream in _streams(known):
        owners = [owner for owner, _ in groupby(append.client for _, append in _placed(known, stream))]
        for owner in dict.fromkeys(owners):
            if owners.count(owner) > 1:
                text = f"{owner} has values before and after those of others in {stream}: {owners}"
                yield Violation("two owners", text)


# ------------------------------------------------------------------------------------------------------------- readers


def _reads(known: _Known) -> Iterator[Violation]:
    steps: list[Read | Begin] = [*known.history.reads, *known.history.begins]
    steps.sort(key=attrgetter("client", "stream", "number"))
    for (client, stream), own in groupby(steps, key=attrgetter("client", "stream")):
        final = known.final_places.get(stream)
        at: Place | None = None
        for step in own:
            if isinstance(step, Begin):
                at = step.place
                continue
            assert at is not None, f"{client} reads {stream} from nowhere"
            for record in step.records:
                if record.place < at:
                    yield Violation("backwards", f"{client} at {at} of {stream} is given {record}")
                elif final is not None:
                    passed = [place for place in final if at <= place < record.place]
                    if passed:
                        yield Violation("skip", f"{client} at {at} of {stream} is given {record}, not {passed[:3]}")
                at = Place(record.place.ledger, record.place.entry + 1)


# ---------------------------------------------------------------------------------------------------------------- ends


def _two_ends(known: _Known) -> Iterator[Violation]:
    lasts: dict[int, set[int]] = defaultdict(set)
    for end in known.history.ends:
        lasts[end.ledger].add(end.last)
    for ledger, found in lasts.items():
        if len(found) > 1:
            yield Violation("two ends", f"ledger {ledger} was told to end at {sorted(found)}")
    for append in known.history.appends:
        place = append.place
        if place is not None and place.entry > min(lasts.get(place.ledger, {place.entry})):
            yield Violation("two ends", f"{append.value} was acknowledged at {place}, above the end of its ledger")
    for stream, record in _seen(known.history):
        place = record.place
        if place.entry > min(lasts.get(place.ledger, {place.entry})):
            yield Violation("two ends", f"{record.value} was read at {place} of {stream}, above the end of its ledger")


RULES: Final[tuple[Callable[[_Known], Iterator[Violation]], ...]] = (
    _lost,
    _moved,
    _duplicates,
    _phantoms,
    _not_refused,
    _order,
    _real_time,
    _two_owners,
    _reads,
    _two_ends,
)
