"""Reads: entries, batches, LACs, lists."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.ledger.bookie.kit import DIGEST, KEY, SMALL, Bench, add, envelope_of
from zab.ledger.bookie.events import Space
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import (
    Authenticate,
    BookieInfo,
    BookieInfoWanted,
    GetBookieInfo,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    StartTls,
    WriteLac,
)
from zab.ledger.wire.status import Status


@pytest.fixture(params=["in the cache", "in a segment", "replayed"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Ledger 1 has 0 to 9, ledger 2 has 3, 5, 6, ledger 3 an explicit LAC alone."""
    bench = Bench()
    bench.ask(*(add(1, entry) for entry in range(10)))
    bench.ask(*(add(2, entry) for entry in (3, 5, 6)))
    bench.answer(WriteLac(3, 4, KEY, DIGEST.pack_lac(3, 4)))
    if request.param == "in a segment":
        bench.flush()
    elif request.param == "replayed":
        bench.crash()
    return bench


def test_an_entry(bench: Bench) -> None:
    answer = bench.answer(ReadEntry(1, 4))
    assert (answer.status, answer.entry, answer.envelope, answer.max_lac) == (Status.OK, 4, envelope_of(1, 4), 8)
    assert bench.answer(ReadEntry(1, 4)) == answer, "from the cache of reads it is another"


def test_the_entry_with_the_highest_id(bench: Bench) -> None:
    """Wire facts 1.6, case 9: the reply echoes -1; also where lower ids are missing."""
    answer = bench.answer(ReadEntry(2, NONE))
    assert (answer.entry, answer.envelope) == (NONE, envelope_of(2, 6))
    assert bench.answer(ReadEntry(3, NONE)).status is Status.NO_ENTRY
    assert bench.answer(ReadEntry(9, NONE)).status is Status.NO_LEDGER


def test_what_is_not_here(bench: Bench) -> None:
    assert bench.answer(ReadEntry(1, 10)).status is Status.NO_ENTRY
    assert bench.answer(ReadEntry(2, 4)).status is Status.NO_ENTRY
    assert bench.answer(ReadEntry(9, 0)).status is Status.NO_LEDGER
    assert bench.answer(ReadEntry(-5, 0)).status is Status.BAD_REQUEST
    assert bench.answer(ReadEntry(1, -2)).status is Status.BAD_REQUEST


def test_a_batch_ends_at_the_first_entry_that_is_missing(bench: Bench) -> None:
    """Wire facts 2.3, case 14."""
    assert bench.answer(ReadBatch(2, 5, 0, 1 << 20)).envelopes == (envelope_of(2, 5), envelope_of(2, 6))
    assert bench.answer(ReadBatch(2, 4, 0, 1 << 20)).status is Status.NO_ENTRY
    assert bench.answer(ReadBatch(9, 0, 0, 1 << 20)).status is Status.NO_LEDGER
    assert bench.answer(ReadBatch(1, -1, 0, 1 << 20)).status is Status.BAD_REQUEST


def test_the_limits_of_a_batch(bench: Bench) -> None:
    """Wire facts 2.3: 36 bytes before the first entry, 4 before each; the first one whatever its size."""
    size = len(envelope_of(1, 0)) + 4
    assert len(bench.answer(ReadBatch(1, 2, 3, 1 << 20)).envelopes) == 3
    assert len(bench.answer(ReadBatch(1, 0, -1, 36 + 4 * size)).envelopes) == 4
    assert len(bench.answer(ReadBatch(1, 0, 0, 36 + 4 * size - 1)).envelopes) == 3
    assert len(bench.answer(ReadBatch(1, 0, 0, 0)).envelopes) == 1
    assert len(bench.answer(ReadBatch(1, 0, 0, -(1 << 62))).envelopes) == 1


def test_the_limits_of_the_bookie_for_batches() -> None:
    bench = Bench(evolve(SMALL, batch_count_max=2))
    bench.ask(*(add(1, entry) for entry in range(9)))
    assert len(bench.answer(ReadBatch(1, 0, 0, 1 << 40)).envelopes) == 2
    bench = Bench(evolve(SMALL, batch_bytes_max=200))
    bench.ask(*(add(1, entry) for entry in range(9)))
    assert len(bench.answer(ReadBatch(1, 0, 0, 1 << 40)).envelopes) == 3


def test_a_batch_that_takes_long_has_what_was_found_in_time() -> None:
    """Each read of the disk takes 60 ms. Who asks has a time-out, and would ask for the same again, for ever."""
    bench = Bench(evolve(SMALL, batch_ms_max=200))
    bench.ask(*(add(1, entry, b"p" * 900) for entry in range(7)))
    bench.flush()
    found: list[int] = []
    while sum(found) < 7:
        began_ms = bench.now_ms
        (number,) = bench.ask(ReadBatch(1, sum(found), 0, 1 << 20))
        while number not in bench.answers:
            bench.now_ms += 60
            bench.step(bench.entry_files.read(bench.reads.popleft()))
        assert bench.now_ms - began_ms <= 240
        found.append(len(bench.answers[number].envelopes))
    assert len(found) > 1


def test_a_batch_that_waits_too_long_has_one_entry() -> None:
    bench = Bench(evolve(SMALL, batch_ms_max=200, long_reads_max=1))
    bench.ask(*(add(1, entry, b"p" * 900) for entry in range(7)))
    bench.flush()
    numbers = bench.ask(*(ReadBatch(1, 0, 0, 1 << 20) for _ in range(2)))
    bench.now_ms += 200
    bench.settle()
    assert [len(bench.answers[number].envelopes) for number in numbers] == [1, 1]


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_step_begins_few_batches_and_lists_and_few_gather_at_a_time(is_flushed: bool) -> None:
    """A request of 44 bytes may have an answer of 5 MiB: thousands of them hold up no step, and fill no memory."""
    bench = Bench(evolve(SMALL, long_reads_max=3, long_reads_per_step=2))
    bench.ask(*(add(1, entry) for entry in range(9)))
    if is_flushed:
        bench.flush()
    bench.store()
    numbers = bench.ask(*(ReadBatch(1, 0, 0, 1 << 20) for _ in range(4)), ListEntries(1), ListEntries(1))
    fence = bench.ask(ReadBatch(1, 2, 0, 1 << 20, KEY, is_fencing=True))
    at_once = sum(number in bench.answers for number in numbers)
    assert at_once == (0 if is_flushed else 3), "two in the first step, and one after the fence in the second"
    assert len(bench.reads) == (3 if is_flushed else 0)
    assert (bench.bookie.deadline_ms == 0) is not is_flushed
    bench.settle()
    assert bench.statuses([*numbers, *fence]) == ["OK"] * 7


def test_the_list_of_entries(bench: Bench) -> None:
    assert bench.answer(ListEntries(1)).runs == ((0, 9),)
    assert bench.answer(ListEntries(2)).runs == ((3, 3), (5, 6))
    assert bench.answer(ListEntries(3)).runs == ()
    assert bench.answer(ListEntries(9)).status is Status.NO_LEDGER
    bench.ask(add(1, 12), add(2, 4))
    assert bench.answer(ListEntries(1)).runs == ((0, 9), (12, 12))
    assert bench.answer(ListEntries(2)).runs == ((3, 6),)


def test_a_list_is_complete_although_a_flush_ends_while_it_is_made() -> None:
    bench = Bench()
    bench.ask(add(1, 0), add(1, 2))
    bench.flush()
    bench.ask(add(1, 4))
    bench.store()
    bench.pass_ms(SMALL.flush_ms)
    (number,) = bench.ask(ListEntries(1))
    assert bench.reads
    while bench.work():
        pass
    bench.read_all()
    assert bench.answers[number].runs == ((0, 0), (2, 2), (4, 4))


def test_a_list_is_not_longer_than_allowed() -> None:
    bench = Bench(evolve(SMALL, runs_max=3))
    bench.ask(*(add(1, entry) for entry in range(0, 8, 2)))
    assert bench.answer(ListEntries(1)).status is Status.TOO_MANY_REQUESTS
    bench.flush()
    assert bench.answer(ListEntries(1)).status is Status.TOO_MANY_REQUESTS


def test_an_explicit_lac_is_kept_as_it_came() -> None:
    """S16 (#1527, #1532), case 12: it is durable, and the packet is the same."""
    bench = Bench()
    bench.answer(add(1, 0))
    packet = DIGEST.pack_lac(1, 0)
    number = bench.ask(WriteLac(1, 0, KEY, packet))
    assert bench.statuses(number) == [None]
    bench.store()
    assert bench.statuses(number) == ["OK"]
    for _ in range(2):
        bench.crash()
        answer = bench.answer(ReadLac(1))
        assert (answer.packet, answer.envelope) == (packet, envelope_of(1, 0))
        assert bench.answer(ReadEntry(1, 0)).max_lac == 0
        bench.flush()


def test_a_lower_explicit_lac_changes_nothing() -> None:
    bench = Bench()
    bench.answer(WriteLac(1, 5, KEY, DIGEST.pack_lac(1, 5)))
    assert bench.answer(WriteLac(1, 4, KEY, DIGEST.pack_lac(1, 4))).status is Status.OK
    assert bench.answer(ReadLac(1)).packet == DIGEST.pack_lac(1, 5)


def test_explicit_lacs_that_are_none() -> None:
    bench = Bench()
    for packet in (b"", DIGEST.pack_lac(1, 3)[:15], DIGEST.pack_lac(1, 3) + bytes(17), DIGEST.pack_lac(2, 3)):
        assert bench.answer(WriteLac(1, 3, KEY, packet)).status is Status.BAD_REQUEST
    assert bench.answer(WriteLac(-1, 3, KEY, DIGEST.pack_lac(-1, 3))).status is Status.BAD_REQUEST
    assert bench.answer(WriteLac(1, -2, KEY, DIGEST.pack_lac(1, -2))).status is Status.BAD_REQUEST
    assert bench.answer(ReadLac(1)).status is Status.NO_LEDGER


def test_lacs_of_ledgers_without_entries(bench: Bench) -> None:
    """Wire facts 1.7: explicit LAC but no entries is OK; neither is NO_ENTRY."""
    assert bench.answer(ReadLac(3)).packet == DIGEST.pack_lac(3, 4)
    assert bench.answer(ReadLac(9)).status is Status.NO_LEDGER
    bench.answer(ReadEntry(4, 0, KEY, is_fencing=True))
    assert bench.answer(ReadLac(4)).status is Status.NO_ENTRY
    assert bench.answer(ReadLac(-4)).status is Status.BAD_REQUEST


def test_what_the_bookie_says_of_itself() -> None:
    bench = Bench()
    bench.step(Space(10, 100))
    assert bench.answer(GetBookieInfo(BookieInfoWanted.CAPACITY)) == BookieInfo(Status.OK, 100, None)
    assert bench.answer(GetBookieInfo(BookieInfoWanted.FREE)) == BookieInfo(Status.OK, None, 10)
    assert bench.answer(StartTls()).status is Status.BAD_REQUEST
    assert bench.answer(Authenticate("plugin", b"")).status is Status.BAD_REQUEST


def test_urgent_reads_go_first_and_so_many_bytes_are_read_at_a_time() -> None:
    bench = Bench(evolve(SMALL, read_bytes_under_way=1))
    for ledger in range(4):
        bench.ask(add(ledger, 0))
    bench.flush()
    bench.ask(ReadEntry(0, 0), ReadEntry(1, 0), ReadEntry(2, 0, is_urgent=True), ReadEntry(3, 0, KEY, is_fencing=True))
    assert len(bench.reads) == 1
    bench.settle()
    assert [answer.ledger for _, _, answer in bench.answered[-4:]] == [2, 3, 0, 1]


def test_so_many_reads_wait_at_a_time() -> None:
    bench = Bench(evolve(SMALL, reads_max=4))
    bench.ask(add(1, 0), add(1, 1))
    bench.flush()
    numbers = bench.ask(*(ReadEntry(1, 0) for _ in range(3)))
    assert bench.statuses(numbers) == [None, None, "TOO_MANY_REQUESTS"]
    numbers = bench.ask(*(ReadEntry(1, 0, is_urgent=True) for _ in range(3)))
    assert bench.statuses(numbers) == [None, None, "TOO_MANY_REQUESTS"]
    bench.settle()
    assert bench.statuses(numbers) == ["OK", "OK", "TOO_MANY_REQUESTS"]
