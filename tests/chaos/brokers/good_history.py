"""A run of brokers in which nothing went wrong, and ways to change one thing in it.

Partition x-0 has the records a, b, then t1 of a transaction that is committed, its marker at 3, u1 of one that is
aborted, its marker at 5, and c. Partition y-0 has the answers to a and b, each with its marker. Consumer `r` reads x
alone; `g1` and `g2` are a group, one after the other; `w` reads x, answers in y and commits, exactly once.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from tests.chaos.brokers.history import (
    NOWHERE,
    Assign,
    Commit,
    Committed,
    History,
    Outcome,
    Partition,
    Poll,
    Record,
    Send,
    Transaction,
)

X: Partition = ("x", 0)
Y: Partition = ("y", 0)
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
PLACES = {"a": (X, 0), "b": (X, 1), "t1": (X, 2), "u1": (X, 4), "c": (X, 6), "A": (Y, 0), "B": (Y, 2)}


def record(value: str) -> Record:
    """As it is in the log."""
    return Record(*PLACES[value], value)


def send(client: str, number: int, value: str, start: float, **more: Any) -> Send:
    """One that takes half a second, at its place in the log."""
    partition, offset = PLACES[value]
    given = {"partition": partition, "offset": offset, "outcome": OK, "end": start + 0.5, **more}
    return Send(client=client, number=number, value=value, start=start, **given)


def poll(client: str, number: int, values: str, start: float, **more: Any) -> Poll:
    """One of records at their places, `values` with blanks between."""
    records = tuple(map(record, values.split()))
    return Poll(client=client, number=number, start=start, **{"end": start + 0.5, "records": records, **more})


def good_history() -> History:
    """See the docstring of the module."""
    return History(
        sends=(
            send("p", 1, "a", 1),
            send("p", 2, "b", 2),
            send("t", 1, "t1", 3, transaction="T1"),
            send("t", 4, "u1", 5, transaction="T2"),
            send("p", 3, "c", 7),
            send("w", 3, "A", 10, transaction="W1", source="a"),
            send("w", 7, "B", 13, transaction="W2", source="b"),
            Send(client="p", number=4, partition=X, value="lost", outcome=INFO, start=8),
            Send(client="p", number=5, partition=X, value="no", outcome=FAIL, start=8, end=9),
        ),
        transactions=(
            Transaction(client="t", number=3, name="T1", outcome=OK, start=3, asked=4, end=4.5),
            Transaction(client="t", number=6, name="T2", outcome=FAIL, start=5, end=6.5),
            Transaction(client="w", number=5, name="W1", outcome=OK, start=10, asked=11, end=11.5),
            Transaction(client="w", number=9, name="W2", outcome=INFO, start=13, asked=14, end=14.5),
        ),
        assigns=(
            Assign(client="r", number=1, positions={X: 0}, start=0, end=0),
            Assign(client="g1", number=1, positions={X: 0}, start=0, end=0),
            Assign(client="g2", number=2, positions={X: 2}, start=9.6, end=9.6),
            Assign(client="w", number=1, positions={X: 0}, start=0, end=0),
        ),
        polls=(
            poll("r", 2, "a b", 2.6),
            poll("r", 3, "t1 c", 8, is_committed=True),
            poll("g1", 2, "a b", 3, group="g"),
            poll("g2", 3, "t1 c", 10, group="g"),
            poll("w", 2, "a", 9, group="e", transaction="W1"),
            poll("w", 6, "b", 12, group="e", transaction="W2"),
        ),
        commits=(
            Commit(client="g1", number=3, group="g", offsets={X: 2}, outcome=OK, start=4, end=5),
            Commit(client="g2", number=4, group="g", offsets={X: 7}, outcome=INFO, start=11),
            Commit(client="w", number=4, group="e", offsets={X: 1}, outcome=OK, start=10.6, end=10.7, transaction="W1"),
            Commit(client="w", number=8, group="e", offsets={X: 2}, outcome=OK, start=13.6, end=13.7, transaction="W2"),
        ),
        committed=(
            Committed(client="g1", number=0, group="g", offsets={X: NOWHERE}, start=0, end=0.5),
            Committed(client="g2", number=1, group="g", offsets={X: 2}, start=9, end=9.5),
        ),
        ends={X: tuple(map(record, ("a", "b", "t1", "c"))), Y: tuple(map(record, "AB"))},
        replicas={X: {"1": b"x", "2": b"x", "3": b"x"}, Y: {"1": b"y", "2": b"y", "3": b"y"}},
    )


def with_send(value: str, **changes: Any) -> History:
    """With another send of this value."""
    history = good_history()
    return evolve(history, sends=tuple(evolve(s, **changes) if s.value == value else s for s in history.sends))


def with_poll(client: str, number: int, **changes: Any) -> History:
    """With another poll in place of this one."""
    history = good_history()
    wanted = (client, number)
    changed = tuple(evolve(p, **changes) if (p.client, p.number) == wanted else p for p in history.polls)
    return evolve(history, polls=changed)


def with_transaction(name: str, **changes: Any) -> History:
    """With another end of this transaction."""
    history = good_history()
    changed = tuple(evolve(t, **changes) if t.name == name else t for t in history.transactions)
    return evolve(history, transactions=changed)


def with_end(*values: Record) -> History:
    """With these records in x at the end."""
    history = good_history()
    return evolve(history, ends={**history.ends, X: values})


def more(**operations: Any) -> History:
    """With further operations: sends, polls, …"""
    history = good_history()
    return evolve(history, **{name: (*getattr(history, name), *added) for name, added in operations.items()})
