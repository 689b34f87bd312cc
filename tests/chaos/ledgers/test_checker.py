"""The checker of ledgers finds each kind of broken promise: a good history, and bad ones that differ in one thing."""

from __future__ import annotations

import random
from math import inf

import pytest
from attrs import evolve

from tests.chaos.ledgers.checker import check
from tests.chaos.ledgers.good_history import (
    INFO,
    append,
    good_history,
    more,
    read,
    record,
    with_append,
    with_final,
    with_read,
)
from tests.chaos.ledgers.history import Begin, End, History, Place, Record


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def at(ledger: int, entry: int, value: str) -> Record:
    return Record(Place(ledger, entry), value)


def end(last: int) -> End:
    return End(client="r2", number=1, start=6, end=7, stream="7", ledger=7, last=last)


def test_a_good_history_has_nothing_to_complain_about_in_whatever_order_it_was_recorded() -> None:
    assert check(good_history()) == []
    for seed in range(20):
        shuffled = good_history()
        for name in ("appends", "reads", "begins", "ends"):
            operations = list(getattr(shuffled, name))
            random.Random(seed).shuffle(operations)
            shuffled = evolve(shuffled, **{name: tuple(operations)})
        assert check(shuffled) == []


@pytest.mark.parametrize(
    "history",
    [
        # Nobody knows whether c is there: it is not.
        evolve(
            with_final("7", record("a"), record("b")),
            reads=tuple(each for each in good_history().reads if each.number != 3),
            ends=(end(1),),
        ),
        # A reader begins in the middle, and ends before the end.
        more(
            begins=[Begin(client="u", number=1, start=0, stream="7", place=Place(7, 1))], reads=[read("u", 2, "b", 8)]
        ),
        # An owner whose last append is unknown: it is there, before the values of the next one.
        evolve(
            with_final("log", *map(record, "kl"), at(8, 2, "maybe"), *map(record, "mn")),
            appends=more(appends=[append("o1", 4, "maybe", 1.4, outcome=INFO, end=inf)]).appends,
            reads=tuple(each for each in good_history().reads if each.stream == "7"),
        ),
    ],
)
def test_what_may_be_is_not_complained_about(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        ("lost", with_final("7", record("a"), record("c"))),
        ("lost", with_final("log", *map(record, "kmn"))),
        ("moved", with_append("b", place=Place(7, 0))),
        ("moved", with_read(2, at(7, 0, "a"), at(7, 1, "c"))),
        ("duplicate", with_final("log", *map(record, "klmn"), at(9, 2, "l"))),
        ("duplicate", with_append("b", place=Place(7, 5))),
        ("phantom", with_final("7", *map(record, "abc"), at(7, 3, "who?"))),
        ("phantom", with_final("7", *map(record, "abc"), at(7, 3, "k"))),
        ("not refused", with_final("log", *map(record, "kl"), at(8, 2, "no"), *map(record, "mn"))),
        ("order", with_append("c", number=0)),
        # n was acknowledged before m began.
        ("real time", with_append("m", start=6)),
        ("real time", with_append("c", start=20)),
        # o1 went on after o2 had taken over: its ledger is the one after o2's first entry.
        (
            "two owners",
            evolve(
                with_final("log", *map(record, "klmn"), at(9, 2, "late")),
                appends=more(appends=[append("o1", 4, "late", 6, outcome=INFO, end=inf)]).appends,
            ),
        ),
        ("skip", with_read(2, record("b"))),
        ("skip", with_read(6, record("n"))),
        ("backwards", with_read(3, record("b"), record("c"))),
        ("backwards", with_read(2, record("a"), record("a"))),
        ("two ends", more(ends=[end(5)])),
        ("two ends", evolve(good_history(), reads=(), ends=(end(0),), finals={})),
        ("two ends", evolve(with_append("b", outcome=INFO, place=None), appends=(), ends=(end(1),), finals={})),
    ],
)
def test_a_bad_history_is_found(rule: str, history: History) -> None:
    assert rule in rules(history), rules(history)
