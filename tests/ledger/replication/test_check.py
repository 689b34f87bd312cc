"""The check of one ledger: what is asked, and what the answers prove."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.ledger.memory import LEDGER, MemoryBookie, envelope, ledger
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.replication.check import LedgerCheck
from zab.ledger.replication.events import CheckSettings
from zab.ledger.replication.members import Member, complete_members
from zab.ledger.store.events import Answered, Send
from zab.ledger.wire.messages import EntriesListed, ListEntries, ReadEntry, answer_without
from zab.ledger.wire.status import Status

CLOSED: dict[str, Any] = {"state": 3, "last": 9, "length": 100}


class Checked:
    """A check that is answered by bookies in memory."""

    def __init__(self, metadata: LedgerMetadata, *, listed: frozenset[str] = frozenset(), **settings: Any) -> None:
        self.metadata = metadata
        self.settings = CheckSettings(**settings)
        names = {bookie for fragment in metadata.fragments for bookie in fragment.ensemble}
        self.bookies = {name: MemoryBookie() for name in names}
        self.reads = True
        self.listed: Any = listed
        self.asked: list[Send] = []
        self.under_way = 0
        for member in complete_members(metadata):
            end = metadata.end_of(metadata.fragment_of(member.first))
            assert end is not None
            for entry in range(member.first, end + 1):
                self.bookies[member.bookie].entries[entry] = envelope(metadata, entry)

    def run(self) -> LedgerCheck:
        members = complete_members(self.metadata)
        versioned = VersionedMetadata(LEDGER, self.metadata, 3)
        check = LedgerCheck(versioned, members, self.settings, Random(1), listed=self.listed, reads=self.reads)
        sends = check.step(0, ())
        while not check.is_over:
            self.asked += sends
            self.under_way = max(self.under_way, len(sends))
            answers = [Answered(each.bookie, each.request, self.answer(each)) for each in sends]
            sends = check.step(0, answers)
        return check

    def answer(self, each: Send) -> Any:
        bookie = self.bookies[each.bookie]
        if bookie.status is None and isinstance(each.request, ListEntries):
            return EntriesListed(Status.OK, LEDGER, tuple((entry, entry) for entry in sorted(bookie.entries)))
        return answer_without(each.request, bookie.status) if bookie.status else bookie.answer(each.request)

    def read_from(self, bookie: str) -> list[int]:
        return [
            each.request.entry for each in self.asked if each.bookie == bookie and isinstance(each.request, ReadEntry)
        ]


def test_the_first_and_the_last_entry_of_each_member_are_read() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), (6, "b1 b2 b4"), **CLOSED))
    check = rig.run()
    assert check.missing == {}
    assert check.unknown == {}
    assert rig.read_from("b1") == [0, 5, 6, 9]
    assert rig.read_from("b3") == [0, 5]
    assert not any(isinstance(each.request, ListEntries) for each in rig.asked)


def test_of_a_striped_ledger_the_ends_of_each_share() -> None:
    rig = Checked(ledger((0, "b0 b1 b2 b3"), quorums=(4, 2, 2), **CLOSED))
    rig.run()
    assert rig.read_from("b0") == [0, 8]
    assert rig.read_from("b1") == [0, 9]
    assert rig.read_from("b3") == [2, 7]


def test_the_last_fragment_of_a_ledger_that_is_not_closed_is_not_read() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), (6, "b1 b2 b4")))
    rig.run()
    assert rig.read_from("b1") == [0, 5]
    assert rig.read_from("b4") == []


def test_a_sample_is_read_as_well() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED), sample_share=1.0)
    rig.run()
    assert len(rig.read_from("b1")) > 4
    few = Checked(ledger((0, "b1 b2 b3"), **CLOSED), sample_share=1.0, sample_max=1)
    few.run()
    assert len(few.read_from("b1")) <= 3


def test_a_member_that_lacks_an_entry_is_asked_for_its_list() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED))
    for entry in (3, 4, 9):
        del rig.bookies["b2"].entries[entry]
    assert rig.run().missing == {Member(0, 1, "b2"): ((3, 4), (9, 9))}


def test_what_is_in_the_middle_is_found_by_lists_alone() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED), listed=frozenset({"b2"}))
    del rig.bookies["b2"].entries[4]
    assert rig.run().missing == {Member(0, 1, "b2"): ((4, 4),)}


def test_a_member_without_the_ledger_lacks_its_share() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED))
    rig.bookies["b2"].status = Status.NO_LEDGER
    assert rig.run().missing == {Member(0, 1, "b2"): None}


def test_a_damaged_record_counts_for_the_whole_share() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED))
    rig.bookies["b3"].entries[9] = envelope(rig.metadata, 9)[:-1] + b"x"
    assert rig.run().missing == {Member(0, 2, "b3"): None}
    rig.bookies["b3"].status = Status.IO_ERROR
    assert rig.run().missing == {Member(0, 2, "b3"): None}


def test_silence_proves_nothing_and_is_not_asked_for_again() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), (6, "b1 b2 b3"), **CLOSED), reads_max=1)
    rig.bookies["b2"].status = Status.UNREACHABLE
    check = rig.run()
    assert check.missing == {}
    assert check.unknown == {Member(first, 1, "b2"): Status.UNREACHABLE for first in (0, 6)}
    assert len(rig.read_from("b2")) == 1


def test_a_bookie_that_does_not_answer_in_time_is_silent() -> None:
    metadata = ledger((0, "b1 b2 b3"), **CLOSED)
    versioned = VersionedMetadata(LEDGER, metadata, 3)
    check = LedgerCheck(versioned, complete_members(metadata), CheckSettings(request_timeout_ms=100), Random(1))
    assert check.step(0, ())
    assert check.deadline_ms == 100
    check.step(100, ())
    assert check.is_over
    assert len(check.unknown) == 3


def test_only_so_many_requests_are_under_way() -> None:
    rig = Checked(ledger(*((first, "b1 b2 b3") for first in range(10)), **CLOSED), reads_max=4)
    rig.run()
    assert rig.under_way == 4


def test_without_reads_only_lists_are_asked_for() -> None:
    rig = Checked(ledger((0, "b1 b2 b3"), **CLOSED), listed=frozenset({"b1", "b2"}))
    rig.reads = False
    rig.run()
    assert sorted(each.bookie for each in rig.asked) == ["b1", "b2"]
    assert all(isinstance(each.request, ListEntries) for each in rig.asked)
