"""Slots of one entry: what counts, what is sent again."""

from itertools import permutations, product

import pytest

from tests.ledger.quorums.enumeration import QUORUMS, subsets
from zab.ledger.entries.ids import BookieId
from zab.ledger.quorums.slots import Slots, SlotState
from zab.ledger.quorums.write_sets import write_set
from zab.quorum.high_water_mark import high_water_mark
from zab.quorum.ids import ServerId
from zab.quorum.quorums import AckQuorum

A, B, C, D = map(BookieId, "abcd")


def bookies(size: int) -> list[BookieId]:
    return [BookieId(f"b{index}") for index in range(size)]


@pytest.mark.parametrize(("size", "writes", "acks"), QUORUMS)
def test_an_entry_is_complete_with_any_ack_quorum_of_its_write_set_and_nothing_else(
    size: int, writes: int, acks: int
) -> None:
    ensemble = bookies(size)
    for entry, who in product(range(size), subsets(size)):
        indexes = write_set(entry, size, writes)
        slots = Slots(indexes, ensemble)
        for index in who:
            assert slots.acknowledge(ensemble[index]) == (index in indexes)
        quorum = AckQuorum(frozenset(map(ServerId, indexes)), acks)
        assert (slots.acknowledged >= acks) == quorum.contains(frozenset(map(ServerId, who)))


def test_an_acknowledgement_counts_once() -> None:
    slots = Slots((0, 1, 2), [A, B, C])
    assert slots.acknowledge(A)
    assert not slots.acknowledge(A)
    assert slots.acknowledged == 1


def test_a_bookie_that_is_replaced_does_not_count_any_more() -> None:
    slots = Slots((0, 1, 2), [A, B, C])
    slots.acknowledge(A)
    assert slots.repair([D, B, C]) == [D]
    assert slots.acknowledged == 0
    assert not slots.acknowledge(A)
    assert slots.acknowledge(D)


def test_a_bookie_that_comes_back_is_sent_the_entry_again() -> None:
    """The difference of the first and the last ensemble is empty, and yet the entry is sent (S8)."""
    slots = Slots((0, 1, 2), [A, B, C])
    slots.fail(A)
    assert slots.repair([D, B, C]) == [D]
    assert slots.repair([A, B, C]) == [A]


def test_a_bookie_at_another_index_does_not_count_at_this_one() -> None:
    slots = Slots((1, 2), [A, B, C])
    slots.acknowledge(B)
    assert slots.repair([A, C, B]) == [C, B]
    assert slots.acknowledged == 0


def test_repairing_twice_sends_once() -> None:
    slots = Slots((0, 1, 2), [A, B, C])
    slots.fail(B)
    assert slots.repair([A, D, C]) == [D]
    assert slots.repair([A, D, C]) == []


def test_a_failed_bookie_that_stays_is_sent_the_entry_again_unless_it_is_being_replaced() -> None:
    slots = Slots((0, 1, 2), [A, B, C])
    slots.fail(B)
    assert slots.repair([A, B, C], frozenset({B})) == []
    assert slots.states[1] == SlotState.FAILED
    assert slots.repair([A, B, C]) == [B]
    assert slots.waits_for(B)


def test_what_was_acknowledged_does_not_fail() -> None:
    slots = Slots((0, 1), [A, B])
    slots.acknowledge(A)
    assert not slots.fail(A)
    assert slots.acknowledged == 1
    assert not slots.fail(C)
    assert not slots.waits_for(A)
    assert not slots.waits_for(C)
    assert slots.waits_for(B)


def test_after_any_walk_of_changes_an_acknowledgement_is_of_the_bookie_at_that_index() -> None:
    """Whatever changes, answers and failures come in between: what counts is what the present ensemble holds."""
    ensembles = list(permutations([A, B, C, D], 3))
    for first, second, third in product(ensembles[::3], ensembles[::5], ensembles[::2]):
        slots = Slots((0, 2), first)
        has: set[BookieId] = set()
        for ensemble in (second, third):
            for bookie in (A, B):
                if slots.acknowledge(bookie):
                    has.add(bookie)
            slots.fail(C)
            slots.repair(ensemble)
            assert slots.bookies == [ensemble[0], ensemble[2]]
            counted = [b for b, s in zip(slots.bookies, slots.states, strict=True) if s == SlotState.ACKED]
            assert slots.acknowledged == len(counted)
            assert set(counted) <= has
            assert SlotState.FAILED not in slots.states


@pytest.mark.parametrize("acks", [1, 2, 3])
def test_the_last_add_confirmed_is_the_high_water_mark_of_the_write_set(acks: int) -> None:
    """Where every bookie gets every entry and acknowledges in order, the LAC is `zab.quorum.high_water_mark`."""
    ensemble = bookies(3)
    quorum = AckQuorum(frozenset(map(ServerId, range(3))), acks)
    for ends in product(range(-1, 4), repeat=3):
        entries = [Slots(write_set(entry, 3, 3), ensemble) for entry in range(4)]
        for bookie, end in zip(ensemble, ends, strict=True):
            for entry in range(end + 1):
                entries[entry].acknowledge(bookie)
        complete = [slots.acknowledged >= acks for slots in entries]
        confirmed = [*complete, False].index(False) - 1
        acknowledged = {ServerId(index): end for index, end in enumerate(ends)}
        assert confirmed == high_water_mark(quorum, acknowledged, -1)


def test_slots_show_what_they_hold() -> None:
    slots = Slots((2, 0), [A, B, C])
    slots.acknowledge(C)
    assert repr(slots) == "Slots(2:c=ACKED, 0:a=SENT)"
