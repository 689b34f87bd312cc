"""The judges of ledgers: each rule is seen to be broken, and what may be is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attrs import evolve

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.managed.sweep import CURSOR_KEY
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.simulator.ledgers.judge import Judge, Outcome
from zab.simulator.world.verdict import SafetyError

B = tuple(BookieId(f"b{number}") for number in range(1, 6))
LEDGER = 7
DIGEST = Digest(DigestType.CRC32C, b"")


def metadata(ensemble: tuple[BookieId, ...] = B[:3]) -> LedgerMetadata:
    return LedgerMetadata(ensemble_size=3, write_quorum=3, ack_quorum=2, fragments=(Fragment(0, ensemble),))


def payload(entry: int) -> bytes:
    return b"p%d" % entry


def envelope(entry: int, lac: int = -1, text: bytes | None = None) -> bytes:
    length = sum(len(payload(each)) for each in range(entry + 1))
    return DIGEST.pack(Entry(LEDGER, entry, lac, length, payload(entry) if text is None else text))


@pytest.fixture
def judge() -> Judge:
    """A ledger with two entries, of which both are on two bookies and the first is acknowledged."""
    judge = Judge()
    judge.created(LEDGER, metadata())
    for entry in range(4):
        judge.appends_to(payload(entry))
    for entry in range(2):
        judge.sends(LEDGER, envelope(entry))
        for bookie in B[:2]:
            judge.has_copy(bookie, LEDGER, entry)
    judge.acknowledged(LEDGER, 0, payload(0))
    return judge


def close(judge: Judge, last: int, length: int | None = None) -> None:
    whole = sum(len(payload(entry)) for entry in range(last + 1))
    judge.changed(LEDGER, judge.of(LEDGER).metadata.closed_at(last, whole if length is None else length))


@contextmanager
def breaks(rule: str) -> Iterator[None]:
    """What is done breaks this rule."""
    with pytest.raises(SafetyError) as found:
        yield
    assert found.value.rule == rule


def test_a_ledger_that_keeps_everything_is_good(judge: Judge) -> None:
    judge.acknowledged(LEDGER, 1, payload(1))
    judge.sends(LEDGER, envelope(2, lac=1))
    close(judge, 1)
    judge.is_told(LEDGER, payload(2), Outcome.UNKNOWN)
    judge.is_told(LEDGER, payload(2), Outcome.NOT_WRITTEN)
    judge.is_told(LEDGER, payload(3), Outcome.NOT_WRITTEN)
    judge.reads(LEDGER, 1, payload(1))
    judge.hears_end(LEDGER, 1)
    judge.is_whole(LEDGER, [0, 1])
    judge.finish()


def test_g1_the_end_is_not_below_what_was_acknowledged(judge: Judge) -> None:
    with breaks("G1"):
        close(judge, -1)


def test_g1_nothing_is_acknowledged_above_the_end(judge: Judge) -> None:
    close(judge, 0)
    with breaks("G1"):
        judge.acknowledged(LEDGER, 1, payload(1))


def test_g1_what_is_acknowledged_is_where_the_metadata_say(judge: Judge) -> None:
    """S7: the ensemble has changed, and the entry is on the old one."""
    judge.changed(LEDGER, metadata().with_ensemble(1, (B[3], B[4], B[1])))
    with breaks("G1"):
        judge.acknowledged(LEDGER, 1, payload(1))


def test_g1_copies_that_were_lost_with_a_disk_were_copies(judge: Judge) -> None:
    judge.loses_disk(B[1])
    judge.acknowledged(LEDGER, 1, payload(1))
    close(judge, 1)


def test_a_ledger_is_closed_before_it_is_deleted(judge: Judge) -> None:
    with breaks("states"):
        judge.deleted(LEDGER)
    close(judge, 0)
    judge.deleted(LEDGER)
    assert (judge.closed, judge.not_closed) == ([], [])
    judge.finish()


def test_g2_an_end_is_what_the_metadata_say(judge: Judge) -> None:
    with breaks("G2"):
        judge.hears_end(LEDGER, 1)
    close(judge, 1)
    with breaks("G2"):
        judge.hears_end(LEDGER, 0)


def test_g2_the_length_is_that_of_the_entries(judge: Judge) -> None:
    with breaks("G2"):
        close(judge, 1, length=5)


def test_g2_nothing_is_in_a_ledger_that_nobody_sent(judge: Judge) -> None:
    with breaks("G2"):
        close(judge, 2)


def test_g2_readers_get_what_was_sent(judge: Judge) -> None:
    close(judge, 1)
    with breaks("G2"):
        judge.reads(LEDGER, 1, payload(0))
    with breaks("G2"):
        judge.is_whole(LEDGER, [0])


def test_g2_readers_end_at_the_end(judge: Judge) -> None:
    close(judge, 0)
    with breaks("G2"):
        judge.reads(LEDGER, 1, payload(1))


def test_g3_an_entry_has_the_same_bytes_everywhere(judge: Judge) -> None:
    with breaks("G3"):
        judge.sends(LEDGER, envelope(1, text=b"p0"))
    with breaks("G3"):
        judge.has_bytes(LEDGER, 1, envelope(1, lac=0), "is on b1")


def test_g3_the_entry_is_what_its_caller_appended(judge: Judge) -> None:
    with breaks("G3"):
        judge.acknowledged(LEDGER, 1, payload(3))


def test_g4_acknowledgements_are_in_order(judge: Judge) -> None:
    judge.sends(LEDGER, envelope(2))
    for bookie in B[:2]:
        judge.has_copy(bookie, LEDGER, 2)
    with breaks("G4"):
        judge.acknowledged(LEDGER, 2, payload(2))


def test_g5_no_lac_is_above_what_was_acknowledged(judge: Judge) -> None:
    judge.shows(LEDGER, 0, "a test")
    with breaks("G5"):
        judge.shows(LEDGER, 1, "a test")
    with breaks("G5"):
        judge.sends(LEDGER, envelope(2, lac=1))


def test_g5_nothing_is_read_above_what_was_acknowledged(judge: Judge) -> None:
    with breaks("G5"):
        judge.reads(LEDGER, 1, payload(1))


def test_g5_a_lac_is_below_its_entry(judge: Judge) -> None:
    judge.of(LEDGER).envelopes.clear()
    with breaks("G5"):
        judge.sends(LEDGER, envelope(0, lac=0))


def test_g5_what_was_shown_is_in_the_ledger(judge: Judge) -> None:
    judge.shows(LEDGER, 0, "a test")
    judge.of(LEDGER).acknowledged = -1
    with breaks("G5"):
        close(judge, -1)


def test_g6_every_entry_has_its_copies_at_the_end(judge: Judge) -> None:
    judge.sends(LEDGER, envelope(2))
    judge.has_copy(B[0], LEDGER, 2)
    with breaks("G6"):
        close(judge, 2)


def test_g6_copies_count_where_the_metadata_say(judge: Judge) -> None:
    """S9: the ledger is closed with another ensemble, which the entries were not written back to."""
    other = metadata((B[0], B[3], B[4]))
    with breaks("G6"):
        judge.changed(LEDGER, other.closed_at(0, len(payload(0))))


def test_outcomes_what_was_not_written_is_in_no_ledger(judge: Judge) -> None:
    judge.is_told(LEDGER, payload(1), Outcome.NOT_WRITTEN)
    close(judge, 1)
    with breaks("outcomes"):
        judge.finish()


def test_outcomes_are_right_as_soon_as_the_ledger_is_closed(judge: Judge) -> None:
    close(judge, 1)
    with breaks("outcomes"):
        judge.is_told(LEDGER, payload(1), Outcome.NOT_WRITTEN)
    with breaks("outcomes"):
        judge.is_told(LEDGER, payload(2), Outcome.WRITTEN)


def test_outcomes_there_is_one_for_each_append(judge: Judge) -> None:
    with breaks("outcomes"):
        judge.is_told(LEDGER, payload(0), Outcome.UNKNOWN)
    judge.is_told(LEDGER, payload(1), Outcome.NOT_WRITTEN)
    with breaks("outcomes"):
        judge.acknowledged(LEDGER, 1, payload(1))


def test_outcomes_a_payload_is_in_the_ledgers_once(judge: Judge) -> None:
    close(judge, 1)
    judge.created(8, metadata())
    other = Digest(DigestType.CRC32C, b"").pack(Entry(8, 0, -1, 2, payload(1)))
    judge.sends(8, other)
    for bookie in B[:2]:
        judge.has_copy(bookie, 8, 0)
    judge.changed(8, metadata().closed_at(0, 2))
    with breaks("outcomes"):
        judge.finish()


def test_what_nobody_appended_is_in_no_ledger(judge: Judge) -> None:
    with breaks("no strange entries"):
        judge.sends(LEDGER, envelope(2, text=b"pp"))
    with breaks("no strange ledgers"):
        judge.shows(8, -1, "a test")


def test_g1_what_was_acknowledged_is_where_its_fragment_moves(judge: Judge) -> None:
    """S7."""
    before = judge.of(LEDGER).metadata
    judge.changed(LEDGER, before.with_ensemble(1, B[2:5]))
    with breaks("G1"):
        judge.changed(LEDGER, before.with_ensemble(0, B[2:5]))


def test_what_a_cursor_stored_is_acknowledged_where_its_next_fragment_begins(judge: Judge) -> None:
    of_cursor = evolve(metadata(), custom={CURSOR_KEY: b"new"})
    judge.of(LEDGER).metadata = of_cursor
    moved = of_cursor.with_ensemble(2, B[1:4])
    with breaks("G5"):
        judge.reads(LEDGER, 1, payload(1))
    judge.changed(LEDGER, moved)
    judge.reads(LEDGER, 1, payload(1))
    judge.sends(LEDGER, envelope(2))
    with breaks("G1"):
        judge.changed(LEDGER, moved.with_ensemble(3, B[:3]))


def test_where_a_fragment_begins_says_nothing_of_appends(judge: Judge) -> None:
    judge.changed(LEDGER, metadata().with_ensemble(2, B[1:4]))
    with breaks("G5"):
        judge.reads(LEDGER, 1, payload(1))


def test_repair_a_member_that_takes_the_place_of_another_has_its_entries(judge: Judge) -> None:
    close(judge, 1)
    wanted = judge.of(LEDGER).metadata.with_member(0, 1, B[4])
    judge.has_copy(B[4], LEDGER, 0)
    with breaks("repair"):
        judge.changed(LEDGER, wanted)
    judge.has_copy(B[4], LEDGER, 1)
    judge.changed(LEDGER, wanted)
