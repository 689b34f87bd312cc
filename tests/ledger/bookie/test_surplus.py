"""Closed ledgers that other bookies have are emptied here, and nothing that anybody needs is."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.ledger.bookie.coordination import ROOT, MemberBench, new_tree
from tests.ledger.bookie.kit import SMALL, add, envelope_of
from zab.coordination.operations import Create, Delete, Get, Operation, Result, Set, ZooKeeperError
from zab.ledger.bookie.events import Collect
from zab.ledger.bookie.surplus import CONFIRMED_TOGETHER, PAUSE_MS, READ_TOGETHER
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zab.ledger.metadata.paths import ledger_path, parents_of
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.metadata.underreplication import Underreplicated, encode_record, lock_path, record_path
from zab.ledger.wire.messages import ListEntries, ReadEntry
from zab.ledger.wire.status import Status

LIMITS = evolve(SMALL, surplus_ms=600_000, collect_ms=1 << 40, collect_share_max=1.0, compact_ms=1 << 40)
HERE, THERE = BookieId("b1"), BookieId("b2")


def metadata(bookie: BookieId, state: LedgerState = LedgerState.CLOSED) -> bytes:
    is_closed = state is LedgerState.CLOSED
    return encode_metadata(
        LedgerMetadata(
            ensemble_size=1,
            write_quorum=1,
            ack_quorum=1,
            fragments=(Fragment(0, (bookie,)),),
            state=state,
            last=0 if is_closed else -1,
            length=7 if is_closed else 0,
        )
    )


class SurplusBench(MemberBench):
    """A bookie with the first entry of each of these ledgers, in a segment."""

    def __init__(self, ledgers: dict[int, bytes], **limits: float) -> None:
        super().__init__(evolve(LIMITS, **limits), new_tree())
        for ledger, data in ledgers.items():
            self.put(ledger_path(ROOT, ledger), data)
            assert self.answer(add(ledger, 0)).status is Status.OK
            if ledger % 50 == 0:
                self.flush()
        self.flush()

    def put(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        other = self.tree.begin_session()
        for parent in parents_of(ROOT, path):
            self.tree.apply(other, Create(parent))
        assert self.tree.apply(other, Create(path, data, ephemeral=ephemeral)).ok

    def change(self, ledger: int, data: bytes) -> None:
        assert self.tree.apply(self.session, Set(ledger_path(ROOT, ledger), data, -1)).ok

    def look(self, rounds: int = 1) -> None:
        """So many rounds, to their end."""
        for _ in range(rounds):
            self.pass_ms(self.config.surplus_ms)
            self.settle()
            while self.bookie.deadline_ms <= self.now_ms + PAUSE_MS:
                self.pass_ms(PAUSE_MS)
                self.settle()

    def compact(self) -> None:
        """Write segments again, without what is not live."""
        self.bookie.compaction.begin(2.0)
        self.settle()
        while self.bookie.compaction._under_way is not None:
            self.pass_ms(1)
            self.settle()

    def has(self, ledger: int) -> Status:
        self.compact()
        return self.answer(ReadEntry(ledger, 0)).status


def test_a_closed_ledger_that_other_bookies_have_is_emptied_after_two_rounds() -> None:
    bench = SurplusBench({1: metadata(THERE), 2: metadata(HERE)})
    bench.look()
    assert bench.has(1) is Status.OK, "it was let go of after one round"
    bench.look()
    assert bench.has(1) is Status.UNKNOWN_LEDGER_STATE
    assert bench.has(2) is Status.OK
    assert bench.notes[-1] == "let go of the entries of 1 ledgers that other bookies have"
    assert not bench.tree.apply(bench.session, Get(lock_path(ROOT, 1))).ok, "the lock is still held"


@pytest.mark.parametrize(
    "kept",
    [
        metadata(HERE),
        metadata(THERE, LedgerState.OPEN),
        metadata(THERE, LedgerState.IN_RECOVERY),
        b"no metadata",
    ],
    ids=["here", "open", "in recovery", "unreadable"],
)
def test_what_may_be_needed_is_kept(kept: bytes) -> None:
    bench = SurplusBench({1: kept})
    bench.look(3)
    assert bench.has(1) is Status.OK


def test_the_fence_outlives_the_entries_and_power_cuts() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look(2)
    for _ in range(2):
        assert bench.has(1) is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(add(1, 1)).status is Status.FENCED
        assert bench.answer(ListEntries(1)).status is Status.UNKNOWN_LEDGER_STATE
        bench.crash()


def test_nothing_goes_before_it_is_durable_that_entries_may_be_lost() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look()
    bench.pass_ms(bench.config.surplus_ms)
    bench.pass_ms(PAUSE_MS)
    assert bench.journal
    assert not bench.bookie.table.emptied
    bench.store()
    assert bench.bookie.table.emptied == {1}


def test_copies_that_a_repair_brings_back_are_kept() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look(2)
    assert bench.answer(add(1, 0, is_recovery=True)).status is Status.OK
    bench.flush()
    for _ in range(2):
        assert bench.has(1) is Status.OK
        assert bench.answer(ReadEntry(1, 0)).envelope == envelope_of(1, 0)
        bench.crash()


def test_copies_between_two_rounds_begin_the_wait_again() -> None:
    """A client that repairs without the lock: its copies are here before the metadata name this bookie."""
    bench = SurplusBench({1: metadata(THERE)})
    bench.look()
    assert bench.answer(add(1, 0, is_recovery=True)).status is Status.OK
    bench.look()
    assert bench.has(1) is Status.OK
    bench.change(1, metadata(HERE))
    bench.look(2)
    assert bench.has(1) is Status.OK


def test_copies_while_the_lock_is_taken_are_kept() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look()

    def before(operation: Operation) -> Result | None:
        if operation == Get(record_path(ROOT, 1)):
            bench.ask(add(1, 0, is_recovery=True))
        return None

    bench.before = before
    bench.look()
    assert bench.has(1) is Status.OK


def test_a_ledger_that_is_being_repaired_is_left_alone() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.put(lock_path(ROOT, 1), ephemeral=True)
    bench.look(2)
    assert bench.has(1) is Status.OK
    assert bench.tree.apply(bench.session, Get(lock_path(ROOT, 1))).ok, "the lock of another is gone"


def test_a_ledger_that_lacks_copies_is_left_alone() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.put(record_path(ROOT, 1), encode_record(Underreplicated((THERE,))))
    bench.look(2)
    assert bench.has(1) is Status.OK


def test_metadata_are_read_once_more_under_the_lock() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look()

    def before(operation: Operation) -> Result | None:
        if isinstance(operation, Create) and operation.path == lock_path(ROOT, 1):
            bench.change(1, metadata(HERE))
        return None

    bench.before = before
    bench.look()
    assert bench.has(1) is Status.OK


def test_another_service_empties_nothing() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    assert bench.tree.apply(bench.session, Set(f"{ROOT}/INSTANCEID", b"another", -1)).ok
    bench.look(3)
    assert bench.has(1) is Status.OK
    assert "INSTANCEID is not this bookie's" in bench.reports[-1]


def test_an_error_under_the_lock_gives_it_back() -> None:
    bench = SurplusBench({1: metadata(THERE)})
    bench.look()
    bench.before = lambda operation: Result(ZooKeeperError.NOAUTH) if operation == Get(record_path(ROOT, 1)) else None
    bench.look()
    bench.before = lambda operation: None
    assert not bench.tree.apply(bench.session, Get(lock_path(ROOT, 1))).ok
    assert bench.has(1) is Status.OK
    bench.look(2)
    assert bench.has(1) is Status.UNKNOWN_LEDGER_STATE


def test_too_many_at_a_time_need_a_third_round_or_the_operator() -> None:
    bench = SurplusBench({1: metadata(THERE), 2: metadata(HERE)}, collect_share_max=0.2)
    bench.look(2)
    assert bench.has(1) is Status.OK
    assert bench.reports[-1].startswith("1 of 2 ledgers here are stored here, and their metadata name other bookies")
    bench.look()
    assert bench.has(1) is Status.UNKNOWN_LEDGER_STATE
    bench = SurplusBench({1: metadata(THERE)}, collect_share_max=0.2)
    bench.look()
    bench.step(Collect(force=True))
    bench.look()
    assert bench.has(1) is Status.UNKNOWN_LEDGER_STATE


def test_many_ledgers_are_looked_at_in_parts() -> None:
    count = READ_TOGETHER + CONFIRMED_TOGETHER + 1
    bench = SurplusBench(dict.fromkeys(range(count), metadata(THERE)))
    sizes: list[int] = []
    reads: list[str] = []

    def before(operation: Operation) -> Result | None:
        if isinstance(operation, Get):
            reads.append(operation.path)
        return None

    bench.before = before
    bench.pass_ms(bench.config.surplus_ms)
    sizes.append(len(reads))
    bench.pass_ms(PAUSE_MS)
    sizes.append(len(reads) - sizes[0])
    assert sizes == [READ_TOGETHER + 1, CONFIRMED_TOGETHER + 2]
    bench.look()
    assert bench.bookie.table.emptied == set(range(count))


def test_zero_is_never() -> None:
    bench = SurplusBench({1: metadata(THERE)}, surplus_ms=0)
    for _ in range(3):
        bench.pass_ms(LIMITS.surplus_ms)
        bench.settle()
    assert bench.has(1) is Status.OK


def test_a_ledger_that_is_deleted_after_it_was_emptied_leaves_nothing() -> None:
    bench = SurplusBench({1: metadata(THERE), 2: metadata(HERE)}, collect_ms=300_000)
    bench.look(2)
    assert bench.tree.apply(bench.session, Delete(ledger_path(ROOT, 1))).ok
    bench.collect()
    bench.collect()
    assert 1 not in bench.bookie.table.by_id
    assert bench.bookie.table.emptied == set()
