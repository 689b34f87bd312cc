"""The checker of brokers finds each kind of broken promise: a good history, and bad ones that differ in one thing."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from tests.chaos.brokers.checker import check
from tests.chaos.brokers.good_history import (
    FAIL,
    INFO,
    NOWHERE,
    OK,
    X,
    Y,
    good_history,
    more,
    poll,
    record,
    send,
    with_end,
    with_poll,
    with_send,
    with_transaction,
)
from tests.chaos.brokers.history import Assign, Commit, Committed, History, Record, Send

END = ("a", "b", "t1", "c")


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def ends(*values: str) -> History:
    return with_end(*map(record, values))


def commit(offset: int, start: float, **changes: object) -> Commit:
    given = {"outcome": OK, "end": start + 0.5, "group": "g", **changes}
    return Commit(client="g3", number=int(start), offsets={X: offset}, start=start, **given)  # type: ignore[arg-type]


def told(offset: int, start: float) -> Committed:
    return Committed(client="g3", number=int(start), group="g", offsets={X: offset}, start=start, end=start + 0.5)


def test_a_good_history_has_nothing_to_complain_about_in_whatever_order_it_was_recorded() -> None:
    assert check(good_history()) == []
    for seed in range(20):
        shuffled = good_history()
        for name in ("sends", "polls", "assigns", "commits", "committed", "transactions"):
            operations = list(getattr(shuffled, name))
            random.Random(seed).shuffle(operations)
            shuffled = evolve(shuffled, **{name: tuple(operations)})
        assert check(shuffled) == []


@pytest.mark.parametrize(
    "history",
    [
        # What nobody knows may have happened or not.
        with_send("c", outcome=INFO, offset=None, end=float("inf")),
        evolve(
            ends("a", "b", "t1"),
            polls=tuple(each for each in good_history().polls if record("c") not in each.records),
            sends=with_send("c", outcome=INFO, offset=None).sends,
        ),
        with_end(*map(record, END), Record(X, 7, "lost")),
        with_transaction("T1", outcome=INFO),
        # A producer without idempotence may repeat itself.
        evolve(with_end(*map(record, END), Record(X, 7, "b")), sends=with_send("b", is_idempotent=False).sends),
        # Without the isolation, what is aborted may be seen, and what is not committed yet.
        more(polls=[poll("v", 1, "a b t1 u1", 3.4, is_committed=False)]),
        # A consumer is sent back, and elsewhere.
        more(
            assigns=[Assign(client="r", number=4, positions={X: 1}, start=9, end=9)], polls=[poll("r", 5, "b t1 c", 9)]
        ),
        more(assigns=[Assign(client="r", number=4, positions={X: None}, start=9, end=9)], polls=[poll("r", 5, "c", 9)]),
        more(assigns=[Assign(client="r", number=4, positions={Y: 0}, start=9, end=9)], polls=[poll("r", 5, "A", 12)]),
        # The commit that nobody knows of, before and after.
        more(committed=[told(2, 12), told(7, 13)]),
        # One that is on its way; one that was refused.
        more(committed=[told(4, 11)], commits=[commit(4, 11.2)]),
        more(committed=[told(2, 8)], commits=[commit(4, 6, outcome=FAIL)]),
    ],
)
def test_what_may_be_is_not_complained_about(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        ("inconsistent-offsets", with_send("b", offset=0)),
        ("inconsistent-offsets", with_end(record("a"), Record(X, 1, "lost"), record("t1"), record("c"))),
        ("duplicate", with_end(*map(record, END), Record(X, 7, "b"))),
        ("duplicate", with_send("b", offset=8)),
        ("phantom", with_end(*map(record, END), Record(X, 7, "who?"))),
        ("phantom", with_end(*map(record, END), Record(X, 7, "A"))),
        # What was acknowledged is gone, at the end or, without one, under what was seen.
        ("lost-write", ends("a", "b", "t1")),
        ("lost-write", ends("a", "b", "c")),
        ("lost-write", evolve(with_poll("r", 2, records=(record("a"),)), ends={}, polls=(poll("r", 3, "t1 c", 8),))),
        # Somebody has seen a value of a transaction that nobody knows the end of: then all of it has to be there.
        (
            "lost-write",
            evolve(
                more(
                    sends=[
                        Send(
                            client="t",
                            number=2,
                            partition=X,
                            value="t2",
                            outcome=OK,
                            offset=7,
                            start=3.1,
                            end=3.6,
                            transaction="T1",
                        )
                    ]
                ),
                transactions=with_transaction("T1", outcome=INFO).transactions,
            ),
        ),
        ("aborted-read", ends("a", "b", "t1", "u1", "c")),
        ("aborted-read", with_poll("r", 3, records=(record("t1"), record("u1"), record("c")))),
        ("aborted-read", with_end(*map(record, END), Record(X, 7, "no"))),
        # Its transaction was still open; or nobody has ever ended it.
        ("precommitted-read", with_transaction("T1", asked=9)),
        ("precommitted-read", evolve(good_history(), transactions=good_history().transactions[1:])),
        ("int-nonmonotonic-poll", with_poll("r", 2, records=(record("b"), record("a")))),
        ("nonmonotonic-poll", with_poll("r", 3, records=(record("b"), record("t1"), record("c")))),
        ("nonmonotonic-poll", with_poll("g2", 3, records=(record("b"), record("t1"), record("c")))),
        ("int-poll-skip", with_poll("r", 2, records=(record("a"), record("t1")))),
        ("poll-skip", with_poll("r", 3, records=(record("c"),))),
        ("poll-skip", with_poll("g1", 2, records=(record("b"),))),
        ("nonmonotonic-send", with_send("c", number=0)),
        (
            "int-nonmonotonic-send",
            more(
                sends=[
                    Send(
                        client="t",
                        number=0,
                        partition=X,
                        value="t0",
                        outcome=OK,
                        offset=3,
                        start=3,
                        end=3.6,
                        transaction="T1",
                    )
                ]
            ),
        ),
        # The newest commit is gone, or all of them; nobody has committed this; what was refused is there.
        ("lost-commit", more(committed=[told(2, 15)], commits=[commit(7, 13)])),
        ("lost-commit", more(committed=[told(NOWHERE, 6)])),
        ("lost-commit", more(committed=[told(5, 6)])),
        ("lost-commit", more(committed=[told(4, 8)], commits=[commit(4, 6, outcome=FAIL)])),
        # One that is not begun yet.
        ("lost-commit", evolve(more(commits=[commit(4, 8)]), committed=(told(4, 6),))),
        (
            "group-skip",
            evolve(good_history(), polls=tuple(each for each in good_history().polls if each.client != "g1")),
        ),
        # a was answered twice; b was committed past without an answer.
        (
            "not-exactly-once",
            more(
                sends=[
                    Send(
                        client="q",
                        number=1,
                        partition=Y,
                        value="A2",
                        outcome=OK,
                        offset=4,
                        start=15,
                        end=16,
                        source="a",
                    )
                ]
            ),
        ),
        (
            "not-exactly-once",
            evolve(
                with_transaction("W2", outcome=OK),
                sends=tuple(each for each in good_history().sends if each.value != "B"),
                ends={},
            ),
        ),
        ("diverged", evolve(good_history(), replicas={X: {"1": b"x", "2": b"x", "3": b"y"}})),
        # a was acknowledged before b was begun, and is after it.
        ("G0-realtime", evolve(with_send("a", start=2.6, end=2.9), polls=())),
        # The readers of c had ended before c was sent; one of b before a was sent, which is before b in the log.
        ("G1c-realtime", with_send("c", start=20, end=21)),
        (
            "G1c-realtime",
            evolve(
                good_history(),
                sends=(send("p", 1, "a", 2.4), send("q", 1, "b", 1, outcome=INFO, end=float("inf"))),
                polls=(poll("v", 1, "b", 1.5),),
            ),
        ),
        # Two transactions that have read each other.
        (
            "G1c",
            evolve(
                good_history(),
                polls=(poll("w", 2, "a B", 9, transaction="W1"), poll("w", 6, "b A", 12, transaction="W2")),
            ),
        ),
        # t1 was read before c was sent, and its transaction has read c.
        ("G1c-realtime", more(polls=[poll("v", 1, "t1", 5), poll("t", 2, "c", 7.6, transaction="T1")])),
    ],
)
def test_a_bad_history_is_found(rule: str, history: History) -> None:
    assert rule in rules(history), rules(history)
