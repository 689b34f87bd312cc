"""Which disks may be lost, and which ledgers can never be closed afterwards."""

from __future__ import annotations

from random import Random

import pytest

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.simulator.ledgers.cluster import LedgerCluster
from zab.simulator.ledgers.judge import Judge, lost_entry
from zab.simulator.ledgers.losses import may_lose, why_blocked
from zab.simulator.ledgers.profile import draw

B = tuple(BookieId(f"b{number}") for number in range(1, 8))
LEDGER = 7


def judge_of(size: int, writes: int, acks: int, *fragments: Fragment) -> Judge:
    judge = Judge()
    judge.created(
        LEDGER,
        LedgerMetadata(
            ensemble_size=size,
            write_quorum=writes,
            ack_quorum=acks,
            fragments=fragments or (Fragment(0, B[:size]),),
        ),
    )
    return judge


def test_fewer_than_an_ack_quorum_of_an_ensemble_may_be_lost() -> None:
    judge = judge_of(3, 3, 2)
    assert may_lose(judge, B[0])
    judge.loses_disk(B[0])
    assert not may_lose(judge, B[1])
    assert may_lose(judge, B[3]), "it has no entry of the ledger"
    assert not may_lose(judge_of(3, 3, 1), B[0])


def test_whoever_has_an_entry_counts_wherever_the_metadata_say_it_is() -> None:
    """A recovery has moved copies, and has not closed yet."""
    judge = judge_of(3, 3, 2)
    for bookie in (B[3], B[1]):
        judge.has_copy(bookie, LEDGER, 0)
    judge.loses_disk(B[3])
    assert not may_lose(judge, B[1])
    assert may_lose(judge, B[0])


def test_a_bookie_that_was_never_started_loses_nothing_with_its_disk() -> None:
    """It has no cookie, so it starts under its name."""
    cluster = LedgerCluster(draw(0, Random(0)), None, repr)
    cluster.lose_disk(1)
    assert cluster.judge.lost == set()
    cluster.bookies[1].start()
    cluster.lose_disk(1)
    assert cluster.judge.lost == {B[0]}


def test_what_is_deleted_may_be_lost() -> None:
    judge = judge_of(3, 3, 1)
    judge.changed(LEDGER, judge.of(LEDGER).metadata.closed_at(-1, 0))
    judge.deleted(LEDGER)
    assert may_lose(judge, B[0])


@pytest.mark.parametrize(
    ("quorums", "lost", "is_blocked"),
    [
        ((3, 3, 2), {0}, False),
        ((3, 3, 2), {0, 1}, True),
        ((3, 3, 3), {0, 1}, False),
        ((3, 3, 3), {0, 1, 2}, True),
        ((5, 3, 2), {0, 2}, True),
        ((6, 3, 2), {0, 3}, False),
        ((4, 2, 2), {0, 2}, False),
        ((4, 2, 2), {0, 3}, True),
        ((3, 3, 2), {4, 5}, False),
    ],
)
def test_a_ledger_is_blocked_without_coverage(quorums: tuple[int, int, int], lost: set[int], is_blocked: bool) -> None:
    known = judge_of(*quorums).of(LEDGER)
    assert (why_blocked(known, {B[index] for index in lost}) is not None) == is_blocked


def test_a_ledger_is_blocked_without_the_entry_before_its_last_fragment() -> None:
    judge = judge_of(3, 3, 2, Fragment(0, B[:3]), Fragment(1, B[3:6]))
    for bookie in B[:2]:
        judge.has_copy(bookie, LEDGER, 0)
    known = judge.of(LEDGER)
    assert why_blocked(known, {B[0]}) is None
    reason = why_blocked(known, set(B[:2]))
    assert reason is not None
    assert "entry 0" in reason


def test_an_entry_is_lost_with_its_last_copy() -> None:
    judge = judge_of(3, 3, 2)
    for bookie in (*B[:2], B[5]):
        judge.has_copy(bookie, LEDGER, 0)
    known = judge.of(LEDGER)
    assert lost_entry(known, set(B)) is None, "nobody was told of it"
    known.shown = 0
    assert lost_entry(known, {B[0]}) is None
    assert lost_entry(known, set(B[:2])) == 0, "no reader asks another bookie"
