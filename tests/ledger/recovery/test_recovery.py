"""Recovery, message by message. G and S: the numbers of promises and scenarios in docs/explanation/ledgers.md."""

from random import Random

import pytest

from tests.ledger.memory import LEDGER, ROOT, Rig, envelope, ledger
from zab.coordination.driver import Connected, Expired, Suspended
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import ID_MAX, NONE
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerState
from zab.ledger.placement.placement import Placement
from zab.ledger.recovery.events import (
    BadPassword,
    NoSuchLedger,
    Recovered,
    RecoveryAborted,
    RecoverySettings,
)
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.events import Answered
from zab.ledger.wire.messages import Added, AddEntry, EntryRead, ReadEntry
from zab.ledger.wire.status import Status

OPEN = ledger((0, "b1 b2 b3"))
SETTINGS = RecoverySettings()


def recovering(metadata=OPEN, spare="", losses=(), before_write=None, **options):
    core = Recovery(ROOT, LEDGER, Placement(Random(1)), token="r", **options)
    names = " ".join(sorted(metadata.bookies))
    return Rig(core, metadata, names, spare, losses=losses, before_write=before_write)


def with_entries(count, metadata=OPEN, spare="", **options):
    """A rig whose bookies will have so many entries; nobody has been asked yet."""
    rig = recovering(metadata, spare, **options)
    for entry in range(count):
        rig.store(metadata, entry, "b1 b2 b3")
    return rig


def end_of(rig):
    outcome = rig.outcomes["r"]
    assert isinstance(outcome, Recovered), outcome
    assert outcome.versioned.metadata == rig.metadata
    assert outcome.versioned.version == rig.znodes.version
    assert rig.core.is_over
    return rig.metadata.last, rig.metadata.length


# ------------------------------------------------------------------------------------------------------------ the way


def test_a_ledger_is_marked_before_the_first_bookie_is_asked():
    """R1: the writer could move the last fragment to bookies that are not fenced."""
    rig = recovering()
    assert rig.znodes.history == [OPEN, OPEN.recovering()]
    assert {bookie for bookie, _ in rig.sent} == {"b1", "b2", "b3"}
    for _, request in rig.sent:
        assert (request.entry, request.is_fencing, request.is_urgent, len(request.key)) == (NONE, True, True, 20)


def test_everything_that_is_found_is_in_the_closed_ledger():
    rig = with_entries(5)
    rig.run()
    assert end_of(rig) == (4, 50)
    assert rig.metadata.fragments == OPEN.fragments
    assert all(bookie.fenced for bookie in rig.bookies.values())


def test_an_empty_ledger_is_closed_as_such():
    rig = recovering()
    rig.run()
    assert end_of(rig) == (NONE, 0)


def test_a_closed_ledger_is_left_alone():
    closed = ledger((0, "b1 b2 b3"), state=LedgerState.CLOSED, last=8, length=90)
    rig = recovering(closed)
    assert end_of(rig) == (8, 90)
    assert not rig.sent
    assert rig.znodes.history == [closed]


def test_a_ledger_that_is_gone_is_said_to_be():
    rig = with_entries(1)
    rig.znodes.remove()
    rig.run()
    assert rig.outcomes == {"r": NoSuchLedger()}


def test_another_password_asks_no_bookie():
    rig = recovering(password=b"another")
    assert rig.outcomes == {"r": BadPassword()}
    assert not rig.sent
    assert rig.metadata.is_open


def test_entries_are_written_back_verbatim_before_the_ledger_is_closed():
    """S20, G6: an entry that survived on one bookie would be lost with it. G3: the bytes are the writer's."""
    rig = recovering()
    rig.store(OPEN, 0, "b2", lac=NONE)
    rig.run(without=("b1", "b3"))
    rig.answer("b1", entry=NONE)
    rig.run(without=("b1", "b3"))
    rig.answer("b1", entry=1)
    assert not rig.outcomes
    adds = [(bookie, each) for bookie, each in rig.sent if isinstance(each, AddEntry)]
    assert {bookie for bookie, _ in adds} == {"b1", "b3"}
    for _, add in adds:
        assert add.envelope == envelope(OPEN, 0, NONE)
        assert (add.is_recovery, add.is_urgent, add.is_deferred, len(add.key)) == (True, True, False, 20)
    assert rig.metadata.state == LedgerState.IN_RECOVERY
    rig.run()
    assert end_of(rig) == (0, 10)
    assert all(bookie.entries == {0: envelope(OPEN, 0, NONE)} for bookie in rig.bookies.values())


# ------------------------------------------------------------------------------------------------------- R2: LAC phase


def test_the_lac_phase_ends_when_it_is_covered():
    rig = recovering()
    rig.answer("b1")
    assert [each.entry for _, each in rig.sent] == [NONE, NONE]
    rig.answer("b3")
    assert {each.entry for _, each in rig.sent} == {NONE, 0, 1, 2, 3}


@pytest.mark.parametrize("status", [status for status in Status if not status.proves_absence and status != Status.OK])
def test_errors_are_no_answers_in_the_lac_phase(status):
    """S4: a bookie that may have lost entries says UNKNOWN_LEDGER_STATE. Asked again, it may answer."""
    rig = recovering()
    rig.answer("b1")
    rig.answer("b2", status)
    rig.answer("b3", status)
    assert not rig.sent
    rig.pass_ms(SETTINGS.retry_ms)
    assert sorted(bookie for bookie, _ in rig.sent) == ["b2", "b3"]
    rig.answer("b2")
    assert any(each.entry == 0 for _, each in rig.sent)


def test_reading_starts_after_the_highest_lac_that_a_record_proves():
    rig = with_entries(8)
    rig.bookies["b1"].entries[7] = envelope(OPEN, 7, lac=4)
    rig.answer("b1")
    rig.answer("b2", Status.NO_ENTRY)
    assert min(each.entry for _, each in rig.sent if each.entry != NONE) == 5


def test_a_record_with_a_wrong_digest_proves_nothing():
    rig = recovering()
    damaged = bytearray(envelope(OPEN, 7, lac=6))
    damaged[20] ^= 1
    rig.bookies["b1"].entries[7] = bytes(damaged)
    rig.answer("b1")
    rig.answer("b2")
    assert {each.entry for _, each in rig.sent} == {NONE}
    rig.answer("b3")
    assert min(each.entry for _, each in rig.sent if each.entry != NONE) == 0


REPAIRED = ledger((0, "b1 b2 b4"), (10, "b1 b2 b3"))
"""Entries before 10 may be copies of BookKeeper's repair: those have the LAC that it knew, which comes after them."""


def test_a_lac_that_is_not_before_its_entry_proves_nothing_but_the_bookie_has_answered():
    """Else a recovery never ends while one of the other bookies is away."""
    rig = recovering(REPAIRED)
    rig.store(REPAIRED, 5, "b1", lac=12)
    rig.answer("b1", entry=NONE)
    rig.answer("b2", entry=NONE)
    assert min(each.entry for _, each in rig.sent if each.entry != NONE) == 10


def test_the_length_is_read_from_a_copy_that_repair_made():
    rig = recovering(REPAIRED)
    rig.store(REPAIRED, 9, "b1 b2 b4", lac=12)
    rig.run()
    assert end_of(rig) == (9, 100)


def test_without_a_digest_such_a_lac_is_damage():
    metadata = ledger((0, "b1 b2 b3"), digest_type=DigestType.DUMMY)
    rig = recovering(metadata)
    rig.store(metadata, 7, "b1", lac=7)
    rig.answer("b1", entry=NONE)
    rig.answer("b2", entry=NONE)
    assert {each.entry for _, each in rig.sent} == {NONE}


def test_a_lac_without_a_record_is_not_looked_at():
    """A LAC that no digest covers would make recovery skip entries."""
    rig = recovering()
    for bookie in ("b1", "b2"):
        request = rig.take(bookie)
        rig.step(Answered(bookie, request, EntryRead(Status.NO_ENTRY, LEDGER, NONE, max_lac=40)))
    assert min(each.entry for _, each in rig.sent if each.entry != NONE) == 0


def test_reading_starts_at_the_last_fragment_at_the_earliest():
    """S2: a fragment that the writer has left is never written to again, and keeps its ensemble."""
    metadata = ledger((0, "b1 b2"), (1000, "b2 b3"), (2000, "b4 b5"), quorums=(2, 2, 2))
    rig = recovering(metadata, spare="b6")
    rig.store(metadata, 1999, "b2 b3", lac=1998)
    rig.answer("b4")
    assert {each.entry for _, each in rig.sent if each.entry != NONE} == {2000, 2001, 2002, 2003}
    assert {bookie for bookie, _ in rig.sent} == {"b4", "b5"}
    rig.run()
    assert end_of(rig) == (1999, 20000)
    assert rig.metadata.fragments == metadata.fragments[:2]


# ------------------------------------------------------------------------------------------------------- R3: verdicts


def test_every_read_after_the_lac_phase_fences():
    """S1, G7: b1 has answered the LAC phase before e0 was stored on b2, and the fence of b3 is lost. The reads of e0
    fence b3, so e0 gets no second acknowledgement after the verdict."""
    rig = recovering()
    rig.answer("b1")
    rig.store(OPEN, 0, "b2", lac=NONE)
    rig.answer("b2")
    rig.lose("b3", entry=NONE)
    assert all(each.is_fencing and each.is_urgent and len(each.key) == 20 for _, each in rig.sent)
    rig.answer("b1", entry=0)
    rig.answer("b3", entry=0)
    assert end_of(rig) == (NONE, 0)
    late = AddEntry(LEDGER, 0, bytes(20), envelope(OPEN, 0, NONE))
    assert rig.bookies["b3"].answer(late).status == Status.FENCED


def test_one_valid_record_is_enough():
    """An entry with fewer than Qa copies may have been acknowledged, if a copy was lost since."""
    rig = recovering()
    rig.store(OPEN, 0, "b3", lac=NONE)
    for bookie in ("b1", "b2"):
        rig.answer(bookie, entry=NONE)
    rig.answer("b1", entry=0)
    rig.answer("b3", entry=0)
    rig.answer("b2", entry=0)
    rig.run()
    assert end_of(rig) == (0, 10)


@pytest.mark.parametrize("status", [status for status in Status if not status.proves_absence and status != Status.OK])
def test_errors_are_no_proof_that_an_entry_is_not_there(status):
    """S4, S3: e was acknowledged by b1 and b2; b2 has lost it and says so, b3 never had it, b1 is slow."""
    rig = recovering()
    rig.store(OPEN, 0, "b1", lac=NONE)
    for bookie in ("b1", "b2"):
        rig.answer(bookie, entry=NONE)
    rig.answer("b2", status, entry=0)
    rig.answer("b3", entry=0)
    assert not rig.outcomes
    assert rig.metadata.state == LedgerState.IN_RECOVERY
    rig.run()
    assert end_of(rig) == (0, 10)


def test_a_damaged_record_is_no_proof_either_way():
    rig = recovering()
    for bookie in ("b1", "b2"):
        rig.answer(bookie, entry=NONE)
    rig.bookies["b1"].entries[0] = envelope(OPEN, 0)[:-1] + b"x"
    rig.bookies["b2"].entries[0] = envelope(OPEN, 3)
    rig.answer("b1", entry=0)
    rig.answer("b2", entry=0)
    rig.answer("b3", entry=0)
    assert not any(isinstance(each, AddEntry) for _, each in rig.sent)
    assert not rig.outcomes
    rig.store(OPEN, 0, "b1", lac=NONE)
    rig.pass_ms(SETTINGS.retry_ms)
    rig.answer("b1", entry=0)
    rig.run()
    assert end_of(rig) == (0, 10)


def test_a_bookie_that_hangs_holds_nothing_up():
    """S18: Qw - Qa + 1 proofs are a verdict. The other members may be silent."""
    rig = with_entries(3)
    rig.run(without=("b2",))
    assert end_of(rig) == (2, 30)


def test_verdicts_are_used_in_order():
    """G4: what lies behind a gap was never acknowledged."""
    rig = recovering()
    rig.store(OPEN, 0, "b1 b2", lac=NONE)
    rig.store(OPEN, 2, "b1 b2", lac=NONE)
    rig.run()
    assert end_of(rig) == (0, 10)
    assert 2 not in rig.bookies["b3"].entries


def test_nothing_is_written_back_before_its_predecessors_are_decided():
    """G3: copies of entries beyond the end would stay on bookies."""
    rig = recovering()
    rig.store(OPEN, 1, "b1 b2 b3", lac=NONE)
    for bookie in ("b1", "b2"):
        rig.answer(bookie, Status.NO_ENTRY, entry=NONE)
    for bookie in ("b1", "b2", "b3"):
        rig.answer(bookie, entry=1)
    assert not any(isinstance(each, AddEntry) for _, each in rig.sent)


def test_the_window_is_bounded_in_entries_and_in_bytes():
    rig = with_entries(200)
    rig.bookies["b1"].entries[199] = envelope(OPEN, 199, lac=NONE)
    rig.answer("b1", entry=NONE)
    rig.answer("b2", Status.NO_ENTRY, entry=NONE)
    assert {each.entry for _, each in rig.sent if each.entry != NONE} == set(range(64))
    rig = with_entries(200, settings=RecoverySettings(window_bytes=8_000, entry_bytes=1_000))
    for bookie in ("b1", "b2"):
        rig.answer(bookie, Status.NO_ENTRY, entry=NONE)
    assert {each.entry for _, each in rig.sent if each.entry != NONE} == set(range(8))


def test_what_is_not_confirmed_counts_in_the_window():
    rig = with_entries(9, settings=RecoverySettings(window_entries=4))
    for bookie in ("b1", "b2"):
        rig.answer(bookie, Status.NO_ENTRY, entry=NONE)
    for entry in range(4):
        rig.answer("b1", entry=entry)
    assert max(each.entry for _, each in rig.sent) == 3
    rig.answer("b1", entry=0, of=AddEntry)
    rig.answer("b2", entry=0, of=AddEntry)
    assert max(each.entry for _, each in rig.sent) == 4


def test_no_entry_is_asked_for_that_has_no_id():
    """The ids of a hostile writer: no request can name one above the largest."""
    metadata = ledger((0, "b1 b2 b3"), (ID_MAX - 1, "b1 b2 b3"))
    rig = recovering(metadata)
    rig.answer("b1", entry=NONE)
    rig.answer("b2", entry=NONE)
    assert {each.entry for _, each in rig.sent} == {NONE, ID_MAX - 1, ID_MAX}


def test_striped_entries_are_asked_of_their_write_sets():
    metadata = ledger((0, "b1 b2 b3 b4"), quorums=(4, 2, 2))
    rig = recovering(metadata)
    for bookie in ("b1", "b2", "b3", "b4"):
        rig.answer(bookie, entry=NONE)
    asked = {entry: {bookie for bookie, each in rig.sent if each.entry == entry} for entry in range(4)}
    assert asked == {0: {"b1", "b2"}, 1: {"b2", "b3"}, 2: {"b3", "b4"}, 3: {"b4", "b1"}}


def test_the_length_of_the_last_entry_is_read_if_nothing_else_was():
    """Everything up to the proved LAC is acknowledged; the rest of the fragment is gone."""
    rig = with_entries(3)
    for bookie in ("b1", "b2"):
        rig.bookies[bookie].entries[5] = envelope(OPEN, 5, lac=2)
    rig.answer("b1", entry=NONE)
    for bookie in ("b1", "b2", "b3"):
        rig.bookies[bookie].entries.pop(5, None)
    rig.answer("b2", Status.NO_ENTRY, entry=NONE)
    rig.answer("b1", entry=3)
    rig.answer("b2", entry=3)
    assert not rig.outcomes
    reads = [each for _, each in rig.sent if each.entry == 2]
    assert len(reads) == 3
    assert not any(each.is_fencing for each in reads)
    rig.answer("b1", Status.NO_ENTRY, entry=2)
    rig.answer("b2", Status.NO_ENTRY, entry=2)
    rig.answer("b3", entry=2)
    assert end_of(rig) == (2, 30)


# ------------------------------------------------------------------------------------------------------ R4: write back


def two_heard(rig):
    for bookie in ("b1", "b2"):
        rig.answer(bookie, Status.NO_ENTRY, entry=NONE)


def test_a_member_that_fails_is_replaced_from_the_first_unconfirmed_entry_on():
    """S9, S10, G9: only the closing write says so, and reads go on to the old ensemble."""
    rig = with_entries(3, spare="b4", settings=RecoverySettings(window_entries=2))
    two_heard(rig)
    rig.answer("b1", entry=0)
    for bookie in ("b1", "b2", "b3"):
        rig.answer(bookie, entry=0, of=AddEntry)
    rig.answer("b1", entry=1, of=ReadEntry)
    rig.answer("b2", entry=1, of=AddEntry)
    rig.answer("b3", Status.IO_ERROR, entry=1, of=AddEntry)
    moved = rig.take("b4", entry=1, of=AddEntry)
    assert moved.envelope == envelope(OPEN, 1)
    assert rig.metadata == OPEN.recovering()
    rig.step(Answered("b4", moved, rig.bookies["b4"].answer(moved)))
    assert all(bookie != "b4" for bookie, each in rig.sent if isinstance(each, ReadEntry))
    rig.run()
    assert end_of(rig) == (2, 30)
    assert rig.znodes.history[:-1] == [OPEN, OPEN.recovering()]
    assert rig.metadata.fragments == (OPEN.fragments[0], Fragment(1, ("b1", "b2", "b4")))
    assert sorted(rig.bookies["b4"].entries) == [1, 2]


def test_a_member_that_fails_at_the_first_entry_is_replaced_in_the_last_fragment():
    rig = with_entries(1, spare="b4")
    rig.bookies["b3"].entries.clear()
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b3", Status.READ_ONLY, entry=0, of=AddEntry)
    rig.run()
    assert end_of(rig) == (0, 10)
    assert rig.metadata.fragments == (Fragment(0, ("b1", "b2", "b4")),)


def test_a_recovery_that_dies_leaves_the_last_fragment_to_the_next():
    """S9: r has moved its copies to b4 and dies before it closes. r' asks b1, b2, b3, and not b4."""
    rig = with_entries(1, spare="b4")
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b3", Status.IO_ERROR, entry=0, of=AddEntry)
    assert any(bookie == "b4" for bookie, _ in rig.sent)
    again = recovering(rig.metadata, spare="b4")
    assert {bookie for bookie, _ in again.sent} == {"b1", "b2", "b3"}


def test_an_acknowledgement_of_a_bookie_that_was_replaced_does_not_count():
    rig = with_entries(1, spare="b4 b5")
    two_heard(rig)
    rig.answer("b1", entry=0)
    late = rig.take("b3", entry=0, of=AddEntry)
    rig.answer("b2", Status.IO_ERROR, entry=0, of=AddEntry)
    rig.step(Answered("b3", late, rig.bookies["b3"].answer(late)))
    rig.answer("b2", Status.NO_ENTRY, entry=1)
    rig.answer("b3", Status.NO_ENTRY, entry=1)
    (replaced,) = {bookie for bookie, each in rig.sent if isinstance(each, AddEntry)} - {"b1"}
    assert replaced in ("b4", "b5")
    add = AddEntry(LEDGER, 0, bytes(20), b"")
    rig.step(Answered("b2", add, rig.bookies["b2"].answer(late)))
    assert not rig.outcomes
    rig.answer("b1", entry=0, of=AddEntry)
    assert end_of(rig) == (0, 10)


def test_an_acknowledgement_of_another_ledger_does_not_count():
    """A bookie that answers so, or a host that mixes up its recoveries, must not make a copy of nothing."""
    rig = with_entries(1)
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b2", Status.NO_ENTRY, entry=1)
    rig.answer("b3", Status.NO_ENTRY, entry=1)
    for bookie in ("b1", "b2", "b3"):
        request = next(each for name, each in rig.sent if name == bookie and isinstance(each, AddEntry))
        rig.step(Answered(bookie, request, Added(Status.OK, LEDGER + 1, 0)))
    assert not rig.outcomes
    rig.answer("b1", entry=0, of=AddEntry)
    rig.answer("b2", entry=0, of=AddEntry)
    assert end_of(rig) == (0, 10)


def test_without_a_replacement_it_goes_on_as_long_as_every_write_set_gets_qa():
    rig = with_entries(2)
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b3", Status.UNREACHABLE, entry=0, of=AddEntry)
    rig.bookies["b3"].status = Status.UNREACHABLE
    rig.run(without=("b3",))
    assert end_of(rig) == (1, 20)
    assert rig.metadata.fragments == OPEN.fragments


def test_without_enough_bookies_it_is_aborted_and_the_ledger_stays_in_recovery():
    rig = with_entries(1)
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b2", Status.READ_ONLY, entry=0, of=AddEntry)
    rig.answer("b3", Status.IO_ERROR, entry=0, of=AddEntry)
    aborted = rig.outcomes["r"]
    assert isinstance(aborted, RecoveryAborted)
    assert (aborted.entry, aborted.needed) == (0, 2)
    assert aborted.unknown == {"b2": Status.READ_ONLY, "b3": Status.IO_ERROR}
    assert rig.metadata == OPEN.recovering()


def test_an_add_that_is_not_answered_has_failed():
    rig = with_entries(1, spare="b4")
    two_heard(rig)
    rig.answer("b1", entry=0)
    rig.answer("b1", entry=0, of=AddEntry)
    rig.pass_ms(SETTINGS.request_timeout_ms)
    assert any(bookie == "b4" and isinstance(each, AddEntry) for bookie, each in rig.sent)


def test_a_bookie_that_is_too_busy_for_an_add_is_asked_again_and_then_replaced():
    rig = with_entries(1, spare="b4")
    two_heard(rig)
    rig.answer("b1", entry=0)
    for _ in range(SETTINGS.busy_max - 1):
        rig.answer("b3", Status.TOO_MANY_REQUESTS, entry=0, of=AddEntry)
        assert not any(bookie in ("b3", "b4") and isinstance(each, AddEntry) for bookie, each in rig.sent)
        rig.pass_ms(SETTINGS.retry_ms)
    rig.answer("b3", Status.TOO_MANY_REQUESTS, entry=0, of=AddEntry)
    assert any(bookie == "b4" for bookie, _ in rig.sent)


def test_what_a_replaced_bookie_owes_is_never_waited_for():
    """A recovery that goes on for long after it was due would step all the time."""
    rig = with_entries(3, spare="b4", settings=RecoverySettings(window_entries=2))
    two_heard(rig)
    rig.answer("b1", entry=0, of=ReadEntry)
    rig.answer("b1", entry=1, of=ReadEntry)
    rig.answer("b3", Status.IO_ERROR, entry=0, of=AddEntry)
    for bookie in ("b1", "b2", "b4"):
        for entry in (0, 1):
            rig.answer(bookie, entry=entry, of=AddEntry)
    rig.pass_ms(SETTINGS.request_timeout_ms)
    assert not rig.outcomes
    assert rig.core.deadline_ms > rig.now


# ------------------------------------------------------------------------------------------------------------ R5: close


def test_another_end_is_accepted_whatever_it_says():
    """S21, G2: r2 had a late positive for entry 10 and has written it back; r1 has closed at 9."""
    rig = with_entries(11)
    theirs = OPEN.closed_at(9, 100)
    rig.before_write = lambda rig: rig.znodes.put(theirs)
    rig.run()
    assert end_of(rig) == (9, 100)
    assert rig.metadata == theirs
    assert 10 in rig.bookies["b3"].entries


def test_older_fragments_that_were_repaired_meanwhile_are_merged():
    metadata = ledger((0, "b1 b2 b3"), (2, "b4 b2 b3"))
    rig = recovering(metadata, spare="b5 b6")
    repaired = (Fragment(0, ("b1", "b2", "b5")), metadata.fragments[1])
    rig.store(metadata, 2, "b4 b2 b3")
    rig.before_write = lambda rig: rig.change(fragments=repaired)
    for bookie in ("b4", "b2"):
        rig.answer(bookie, Status.NO_ENTRY, entry=NONE)
    rig.answer("b4", entry=2)
    rig.answer("b3", Status.IO_ERROR, entry=2, of=AddEntry)
    rig.run()
    assert end_of(rig) == (2, 30)
    assert rig.metadata.fragments[0] == repaired[0]
    assert rig.metadata.fragments[1].ensemble[:2] == ("b4", "b2")
    assert rig.metadata.fragments[1].ensemble[2] in ("b5", "b6", "b1")


def test_another_last_fragment_is_recovered_from_the_beginning():
    """It cannot be, while a ledger is in recovery; if it is all the same, what was learnt about the old one is void."""
    rig = with_entries(1, spare="b4")
    rig.before_write = lambda rig: rig.change(fragments=(Fragment(0, ("b1", "b2", "b4")),))
    rig.run()
    assert end_of(rig) == (0, 10)
    assert rig.metadata.fragments[0].ensemble == ("b1", "b2", "b4")
    assert rig.bookies["b4"].fenced


def test_a_ledger_that_is_opened_again_for_ever_is_given_up():
    rig = recovering(settings=RecoverySettings(restarts_max=2))
    changes = []

    def change(rig):
        changes.append(rig.metadata)
        rig.change(fragments=(Fragment(0, tuple(reversed(rig.metadata.fragments[0].ensemble))),))
        rig.before_write = change

    rig.before_write = change
    rig.run()
    assert isinstance(rig.outcomes["r"], RecoveryAborted)
    assert len(changes) == 3


@pytest.mark.parametrize("loss", ["done", "not done"])
def test_a_closing_write_whose_answer_is_lost_is_decided_by_what_is_there(loss):
    """S22: its own CLOSED is not somebody else's."""
    rig = with_entries(2)
    rig.losses = [loss]
    rig.run()
    assert end_of(rig) == (1, 20)
    closings = [each for each in rig.znodes.history if each.is_closed]
    assert len(closings) == 1


@pytest.mark.parametrize("loss", ["done", "not done"])
def test_a_mark_whose_answer_is_lost_is_decided_by_what_is_there(loss):
    rig = recovering(losses=[loss])
    assert rig.metadata == OPEN.recovering()
    assert len(rig.sent) == 3
    rig.run()
    assert end_of(rig) == (NONE, 0)


def test_a_writer_that_is_faster_is_recovered_as_it_is_now():
    """R1: refused, so it is read again. The base is what was marked."""
    moved = (*OPEN.fragments, Fragment(5, ("b1", "b2", "b4")))
    rig = recovering(spare="b4", before_write=lambda rig: rig.change(fragments=moved))
    assert {bookie for bookie, _ in rig.sent} == {"b1", "b2", "b4"}
    assert rig.metadata.state == LedgerState.IN_RECOVERY


@pytest.mark.parametrize("loss", ["done", "not done"])
def test_a_session_that_expires_while_the_ledger_is_closed(loss):
    """Nobody knows whether the last write was done: it looks before it writes again."""
    rig = with_entries(2)
    rig.is_coordination_held = True
    rig.run()
    assert not rig.outcomes
    if loss == "done":
        rig.znodes.put(OPEN.closed_at(1, 20))
    rig.is_coordination_held = False
    rig.step(Suspended(), Expired())
    assert not rig.outcomes
    rig.step(Connected(2))
    assert end_of(rig) == (1, 20)
    assert len([each for each in rig.znodes.history if each.is_closed]) == 1


# ---------------------------------------------------------------------------------------------------------- giving up


def test_a_recovery_that_gets_no_further_is_aborted_with_what_is_missing():
    rig = with_entries(1)
    rig.run(without=("b2", "b3"))
    for _ in range(20):
        rig.pass_ms(SETTINGS.patience_ms // 20)
        for bookie in ("b2", "b3"):
            for each in [request for name, request in rig.sent if name == bookie]:
                rig.sent.remove((bookie, each))
    aborted = rig.outcomes["r"]
    assert isinstance(aborted, RecoveryAborted)
    assert (aborted.needed, aborted.answered) == (2, {"b1"})
    assert aborted.unknown == {"b2": Status.TIMED_OUT, "b3": Status.TIMED_OUT}
    assert rig.metadata == OPEN.recovering()
    assert rig.core.deadline_ms is None
    rig.pass_ms(1)
    assert not rig.sent


def test_an_entry_without_a_verdict_aborts_with_its_id():
    rig = recovering()
    for bookie in ("b1", "b2"):
        rig.answer(bookie, entry=NONE)
    rig.answer("b1", entry=0)
    rig.answer("b2", Status.UNKNOWN_LEDGER_STATE, entry=0)
    rig.answer("b3", Status.UNKNOWN_LEDGER_STATE, entry=0)
    while not rig.outcomes:
        rig.pass_ms(1_000)
    aborted = rig.outcomes["r"]
    assert isinstance(aborted, RecoveryAborted)
    assert (aborted.entry, aborted.needed, aborted.answered) == (0, 2, {"b1"})
    assert set(aborted.unknown) == {"b2", "b3"}


def test_an_entry_that_was_confirmed_and_is_nowhere_aborts():
    rig = recovering()
    rig.store(OPEN, 5, "b1", lac=2)
    rig.answer("b1", entry=NONE)
    rig.answer("b2", entry=NONE)
    rig.bookies["b1"].entries.clear()
    rig.run()
    aborted = rig.outcomes["r"]
    assert isinstance(aborted, RecoveryAborted)
    assert aborted.entry == 2


def test_the_deadline_is_that_of_what_is_due_next():
    rig = recovering()
    assert rig.core.deadline_ms == SETTINGS.request_timeout_ms
    rig.answer("b1", Status.IO_ERROR)
    assert rig.core.deadline_ms == SETTINGS.retry_ms
    rig.pass_ms(SETTINGS.retry_ms)
    rig.answer("b1", Status.IO_ERROR)
    assert rig.core.deadline_ms == 3 * SETTINGS.retry_ms
