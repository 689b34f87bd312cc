"""What a bookie may say, and which rule it breaks if it says something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from attrs import evolve

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    BatchRead,
    EntryRead,
    LacRead,
    LacWritten,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    WriteLac,
)
from zab.ledger.wire.status import Status
from zab.simulator.ledgers.bookie_judge import Before, BookieJudge
from zab.simulator.ledgers.judge import Judge
from zab.simulator.world.verdict import SafetyError

B1, B2, B3 = BookieId("b1"), BookieId("b2"), BookieId("b3")
LEDGER = 7
KEY = bytes(20)
DIGEST = Digest(DigestType.CRC32C, b"")


def envelope(entry: int, lac: int = -1) -> bytes:
    return DIGEST.pack(Entry(LEDGER, entry, lac, entry + 1, b"x"))


class Bookies:
    """A ledger with three bookies, and what they say."""

    def __init__(self) -> None:
        self.judge = Judge()
        metadata = LedgerMetadata(ensemble_size=3, write_quorum=3, ack_quorum=2, fragments=(Fragment(0, (B1, B2, B3)),))
        self.judge.created(LEDGER, metadata)
        self.of = BookieJudge(self.judge)

    def answers(self, bookie: BookieId, request: Request, answer: Answer, before: Before | None = None) -> None:
        """With `before`, something else was said between question and answer."""
        self.of.answers(bookie, request, answer, self.of.asked(bookie, request) if before is None else before)

    def acknowledge(self, entry: int, bookie: BookieId = B1, *, is_recovery: bool = False, lac: int = -1) -> None:
        request = AddEntry(LEDGER, entry, KEY, envelope(entry, lac), is_recovery)
        self.answers(bookie, request, Added(Status.OK, LEDGER, entry))

    def read(
        self, entry: int, status: Status, *, is_fencing: bool = False, data: bytes = b"", max_lac: int | None = None
    ) -> None:
        request = ReadEntry(LEDGER, entry, KEY, is_fencing=is_fencing)
        self.answers(B1, request, EntryRead(status, LEDGER, entry, data, max_lac))

    def restarted(self, entries: list[int], *, lac: int = -1, is_fenced: bool = False) -> None:
        self.of.restarted(B1, LEDGER, entries, explicit_lac=lac, is_fenced=is_fenced)

    def delete(self) -> None:
        of = self.judge.of(LEDGER)
        of.metadata = of.metadata.closed_at(-1, 0)
        self.judge.deleted(LEDGER)

    def write_lac(self, lac: int) -> None:
        packet = DIGEST.pack_lac(LEDGER, lac)
        self.answers(B1, WriteLac(LEDGER, lac, KEY, packet), LacWritten(Status.OK, LEDGER))

    def read_lac(self, lac: int | None) -> None:
        packet = b"" if lac is None else DIGEST.pack_lac(LEDGER, lac)
        self.answers(B1, ReadLac(LEDGER), LacRead(Status.OK, LEDGER, packet, envelope(0)))


@pytest.fixture
def bookies() -> Bookies:
    return Bookies()


@contextmanager
def breaks(rule: str) -> Iterator[None]:
    with pytest.raises(SafetyError) as found:
        yield
    assert found.value.rule == rule


def test_what_a_bookie_may_say(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    bookies.read(1, Status.NO_ENTRY, is_fencing=True)
    bookies.acknowledge(0)
    bookies.acknowledge(1, is_recovery=True)
    bookies.acknowledge(1, B2)
    bookies.read(1, Status.OK, data=envelope(1))
    bookies.read(-1, Status.OK, data=envelope(1))
    bookies.read(0, Status.IO_ERROR)
    assert bookies.judge.of(LEDGER).copies == {0: {B1}, 1: {B1, B2}}


@pytest.mark.parametrize("entry", [1, -1])
def test_g8_who_denied_an_entry_takes_no_ordinary_add_of_it(bookies: Bookies, entry: int) -> None:
    """S1, S5."""
    bookies.read(entry, Status.NO_LEDGER if entry < 0 else Status.NO_ENTRY, is_fencing=True)
    with breaks("G8"):
        bookies.acknowledge(1)


def test_g8_only_fencing_reads_count(bookies: Bookies) -> None:
    bookies.read(1, Status.NO_ENTRY)
    bookies.acknowledge(1)


@pytest.mark.parametrize("entry", [0, -1])
def test_absence_is_not_said_of_what_was_acknowledged(bookies: Bookies, entry: int) -> None:
    """S3."""
    bookies.acknowledge(0)
    with breaks("absence"):
        bookies.read(entry, Status.NO_ENTRY)


def test_absence_in_a_batch(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    with breaks("absence"):
        bookies.answers(B1, ReadBatch(LEDGER, 0, 5, 100), BatchRead(Status.NO_ENTRY, LEDGER, 0))


def test_what_comes_between_question_and_answer_need_not_be_known(bookies: Bookies) -> None:
    request, lac = ReadEntry(LEDGER, 0), ReadLac(LEDGER)
    before, before_lac = bookies.of.asked(B1, request), bookies.of.asked(B1, lac)
    bookies.judge.of(LEDGER).acknowledged = 5
    bookies.acknowledge(0)
    bookies.write_lac(3)
    bookies.answers(B1, request, EntryRead(Status.NO_ENTRY, LEDGER, 0), before)
    bookies.answers(B1, lac, LacRead(Status.OK, LEDGER, b"", envelope(0)), before_lac)


def test_absence_may_be_said_of_a_ledger_that_is_gone(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    bookies.delete()
    bookies.read(0, Status.NO_LEDGER)


def test_the_highest_entry_is_the_highest(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    bookies.acknowledge(1)
    with breaks("absence"):
        bookies.read(-1, Status.OK, data=envelope(0))


@pytest.mark.parametrize(
    "show",
    [
        Bookies.read,
        lambda bookies, *_, data: bookies.answers(
            B1, ReadBatch(LEDGER, 0, 5, 100), BatchRead(Status.OK, LEDGER, 0, (data,))
        ),
    ],
)
def test_g3_a_bookie_answers_with_the_bytes_that_it_got(bookies: Bookies, show: Callable[..., None]) -> None:
    bookies.acknowledge(0)
    show(bookies, 0, Status.OK, data=envelope(0))
    with breaks("G3"):
        show(bookies, 0, Status.OK, data=envelope(0)[:-1] + b"y")


def test_g3_a_bookie_answers_with_the_entry_that_it_is_asked_for(bookies: Bookies) -> None:
    with breaks("G3"):
        bookies.read(0, Status.OK, data=envelope(1))


def test_g5_a_bookie_knows_no_lac_that_is_not_confirmed(bookies: Bookies) -> None:
    bookies.read(0, Status.OK, data=envelope(0), max_lac=-1)
    with breaks("G5"):
        bookies.read(0, Status.OK, data=envelope(0), max_lac=0)


def test_durability_an_explicit_lac_stays(bookies: Bookies) -> None:
    """S16."""
    bookies.judge.of(LEDGER).acknowledged = 5
    bookies.write_lac(3)
    bookies.read_lac(3)
    for lac in (2, None):
        with breaks("durability"):
            bookies.read_lac(lac)


def test_durability_what_was_acknowledged_is_there_after_a_start(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    bookies.acknowledge(1)
    bookies.restarted([0, 1, 2])
    with breaks("durability"):
        bookies.restarted([1, 2])
    bookies.delete()
    bookies.restarted([])


def test_durability_an_explicit_lac_is_there_after_a_start(bookies: Bookies) -> None:
    """S16."""
    bookies.judge.of(LEDGER).acknowledged = 5
    bookies.write_lac(3)
    bookies.restarted([], lac=3)
    with breaks("durability"):
        bookies.restarted([], lac=2)


@pytest.mark.parametrize("status", [Status.OK, Status.NO_ENTRY, Status.NO_LEDGER])
def test_durability_a_fence_is_there_after_a_start(bookies: Bookies, status: Status) -> None:
    """S5: whatever it has answered to a fencing read."""
    bookies.read(0, status, is_fencing=True, data=envelope(0) if status is Status.OK else b"")
    bookies.restarted([], is_fenced=True)
    with breaks("durability"):
        bookies.restarted([])


def test_durability_a_fence_in_a_batch_is_there_after_a_start(bookies: Bookies) -> None:
    request = ReadBatch(LEDGER, 0, 5, 100, is_fencing=True)
    bookies.answers(B1, request, BatchRead(Status.NO_ENTRY, LEDGER, 0))
    with breaks("durability"):
        bookies.restarted([])


def test_a_read_that_was_refused_fences_nothing_that_stays(bookies: Bookies) -> None:
    bookies.read(0, Status.TOO_MANY_REQUESTS, is_fencing=True)
    bookies.read(0, Status.NO_ENTRY)
    bookies.restarted([])


def test_an_add_that_need_not_be_durable_is_no_copy(bookies: Bookies) -> None:
    request = AddEntry(LEDGER, 0, KEY, envelope(0), is_deferred=True)
    bookies.answers(B1, request, Added(Status.OK, LEDGER, 0))
    assert not bookies.judge.of(LEDGER).copies


def test_marks_rise(bookies: Bookies) -> None:
    """S15."""
    bookies.of.checkpoints(B1, (3, 100))
    bookies.of.checkpoints(B1, (3, 100))
    bookies.of.removes_journals(B1, 3)
    with breaks("marks"):
        bookies.of.removes_journals(B1, 4)
    with breaks("marks"):
        bookies.of.checkpoints(B1, (3, 99))


def test_collection_takes_only_ledgers_that_are_gone(bookies: Bookies) -> None:
    """S12, S13."""
    bookies.of.removes(B1, 8)
    with breaks("collection"):
        bookies.of.removes(B1, LEDGER)
    bookies.delete()
    bookies.of.removes(B1, LEDGER)


def test_entries_go_that_the_metadata_of_a_closed_ledger_expect_elsewhere(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    other = BookieId("b4")
    of = bookies.judge.of(LEDGER)
    bookies.acknowledge(0, other)
    with breaks("collection"):
        bookies.of.empties(other, LEDGER)
    of.metadata = of.metadata.closed_at(0, 1)
    with breaks("collection"):
        bookies.of.empties(B1, LEDGER)
    of.metadata = evolve(of.metadata, fragments=(Fragment(0, (other, B2, B3)),))
    bookies.of.empties(B1, LEDGER)
    assert of.copies == {0: {other}}
    bookies.restarted([])


def test_a_bookie_that_lost_its_disk_has_acknowledged_nothing(bookies: Bookies) -> None:
    bookies.acknowledge(0)
    bookies.of.loses_disk(B1)
    bookies.read(0, Status.NO_LEDGER)
    assert bookies.judge.lost == {B1}
