"""Adds: what is taken, what is refused, and when it is answered."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.ledger.bookie.kit import DIGEST, KEY, OTHER_KEY, SMALL, Bench, add, envelope_of
from zab.ledger.entries.ids import ID_MAX, NONE
from zab.ledger.entries.keys import NO_KEY
from zab.ledger.wire.messages import AddEntry, ForceLedger, ReadBatch, ReadEntry, WriteLac
from zab.ledger.wire.status import Status


def test_an_add_is_answered_when_it_is_durable_and_not_before() -> None:
    bench = Bench()
    numbers = bench.ask(*(add(1, entry) for entry in range(3)))
    assert bench.statuses(numbers) == [None, None, None]
    bench.store()
    assert bench.statuses(numbers) == ["OK", "OK", "OK"]
    bench.crash()
    assert [bench.answer(ReadEntry(1, entry)).envelope for entry in range(3)] == [envelope_of(1, e) for e in range(3)]


def test_the_adds_of_a_turn_are_one_append() -> None:
    bench = Bench()
    bench.ask(*(add(ledger, 0) for ledger in range(5)))
    assert len(bench.journal) == 1
    bench.ask(*(add(ledger, 1) for ledger in range(5)))
    operations = bench.disk.operations
    bench.store()
    # The header, the name and its directory, and one write for both turns.
    assert [each.split()[0] for each in list(bench.disk.log)[operations - bench.disk.operations :]][
        -1
    ] == "write_durable"
    assert sum(each.startswith("write_durable") for each in bench.disk.log) == 1
    assert len(bench.answered) == 10


def test_an_equal_duplicate_is_answered_when_the_first_one_is_durable() -> None:
    """S23: answered at once because it is in the cache, it counts as a copy that a power cut takes away."""
    bench = Bench()
    first = bench.ask(add(1, 0))
    again = bench.ask(add(1, 0))
    assert bench.statuses(first + again) == [None, None]
    assert sum(len(each.parts) > 1 for each in bench.journal) == 1, "there is a second copy"
    bench.store()
    assert bench.statuses(first + again) == ["OK", "OK"]
    assert bench.statuses(bench.ask(add(1, 0))) == ["OK"], "it is durable already"


def test_other_bytes_with_the_right_key_take_the_place_of_the_older_ones() -> None:
    """Wire facts 3.3, case 10: recovery by Java makes an entry again with another LAC."""
    bench = Bench()
    bench.answer(add(1, 0))
    bench.answer(add(1, 1, lac=NONE))
    newer = envelope_of(1, 1, lac=0)
    assert bench.answer(AddEntry(1, 1, KEY, newer, is_recovery=True)).status is Status.OK
    assert bench.answer(ReadEntry(1, 1)).envelope == newer
    bench.flush()
    assert bench.answer(ReadEntry(1, 1)).envelope == newer
    newest = envelope_of(1, 1, lac=NONE)
    bench.answer(AddEntry(1, 1, KEY, newest, is_recovery=True))
    bench.crash()
    assert bench.answer(ReadEntry(1, 1)).envelope == newest, "the segment of the replay is older than the other"
    bench.flush()
    assert bench.answer(ReadEntry(1, 1)).envelope == newest


def test_fenced_ledgers_take_recovery_adds_alone() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.answer(ReadEntry(1, NONE, KEY, is_fencing=True))
    assert bench.answer(add(1, 1)).status is Status.FENCED
    assert bench.answer(add(1, 1, is_recovery=True)).status is Status.OK
    assert bench.answer(add(1, 2)).status is Status.FENCED, "a recovery add has lifted the fence"


def test_another_key_is_refused() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    assert bench.answer(add(1, 1, key=OTHER_KEY)).status is Status.UNAUTHORIZED
    assert bench.answer(add(1, 1, key=b"short")).status is Status.UNAUTHORIZED
    assert bench.answer(add(2, 0, key=b"")).status is Status.UNAUTHORIZED
    assert bench.answer(WriteLac(1, 0, OTHER_KEY, DIGEST.pack_lac(1, 0))).status is Status.UNAUTHORIZED
    assert bench.answer(ReadEntry(1, 0, OTHER_KEY, is_fencing=True)).status is Status.UNAUTHORIZED
    assert bench.answer(ReadEntry(1, 0, b"", is_fencing=True)).status is Status.UNAUTHORIZED
    assert bench.answer(add(1, 1)).status is Status.OK, "a fence with another key has fenced it"
    bench.crash()
    assert bench.answer(add(1, 2, key=OTHER_KEY)).status is Status.UNAUTHORIZED, "the key is forgotten"


def test_a_key_of_zeros_is_let_in_and_replaced_by_the_first_other_one() -> None:
    """Wire facts 3.5, 7.6: BenchBookie knows no password."""
    bench = Bench()
    assert bench.answer(add(1, 0, key=NO_KEY)).status is Status.OK
    assert bench.answer(add(1, 1, key=KEY)).status is Status.OK
    assert bench.answer(add(1, 2, key=OTHER_KEY)).status is Status.UNAUTHORIZED
    assert bench.answer(add(1, 2, key=NO_KEY)).status is Status.OK
    bench.crash()
    assert bench.answer(add(1, 3, key=OTHER_KEY)).status is Status.UNAUTHORIZED
    assert bench.answer(add(1, 3, key=KEY)).status is Status.OK


@pytest.mark.parametrize(
    "request_",
    [
        AddEntry(-1, 0, KEY, envelope_of(-1, 0)),
        AddEntry(1, -1, KEY, envelope_of(1, -1)),
        AddEntry(1, -0x1000, KEY, envelope_of(1, -0x1000)),
        AddEntry(1, 0, KEY, envelope_of(2, 0)),
        AddEntry(1, 0, KEY, envelope_of(1, 1)),
        AddEntry(1, 7, KEY, envelope_of(1, 8)),
        AddEntry(1, 0, KEY, b""),
        AddEntry(1, 0, KEY, envelope_of(1, 0)[:31]),
        AddEntry(1, 7, KEY, envelope_of(1, 7)[:31]),
        AddEntry(1, 0, KEY, envelope_of(1, 0, bytes(SMALL.entry_bytes_max - 35))),
        AddEntry(1, 7, KEY, envelope_of(1, 7, bytes(SMALL.entry_bytes_max - 35))),
    ],
)
def test_adds_that_are_no_adds(request_: AddEntry) -> None:
    bench = Bench()
    bench.answer(add(1, 5))
    assert bench.answer(request_).status is Status.BAD_REQUEST
    assert bench.answer(request_).entry == request_.entry
    assert bench.bookie.table.highest == 1


def test_ids_and_sizes_at_their_limits_are_taken() -> None:
    bench = Bench()
    payload = bytes(SMALL.entry_bytes_max - 36)
    assert bench.answer(add(ID_MAX, ID_MAX, payload)).status is Status.OK
    bench.flush()
    assert bench.answer(ReadEntry(ID_MAX, ID_MAX)).envelope == envelope_of(ID_MAX, ID_MAX, payload)
    bench.crash()
    assert bench.answer(ReadEntry(ID_MAX, NONE)).envelope == envelope_of(ID_MAX, ID_MAX, payload)
    assert bench.answer(ReadBatch(ID_MAX, ID_MAX, 0, 100)).status is Status.OK


def test_a_deferred_add_is_answered_at_once_and_force_when_it_is_durable() -> None:
    """Wire facts 1.5, 1.7, case 13."""
    bench = Bench()
    assert bench.statuses(bench.ask(add(1, 0, is_deferred=True))) == ["OK"]
    assert bench.statuses(bench.ask(add(1, 1, is_deferred=True, is_recovery=True))) == [None], "recovery is synced"
    forced = bench.ask(ForceLedger(1))
    assert bench.statuses(forced) == [None]
    bench.store()
    assert bench.statuses(forced) == ["OK"]
    assert bench.statuses(bench.ask(ForceLedger(77))) == ["OK"], "the ledger need not exist"
    bench.crash()
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK


def test_entries_in_any_order_and_the_highest_id() -> None:
    bench = Bench()
    for entry in (5, 2, 9, 3):
        assert bench.answer(add(1, entry)).status is Status.OK
    assert bench.answer(ReadEntry(1, NONE)).envelope == envelope_of(1, 9)
    assert bench.answer(ReadEntry(1, 4)).status is Status.NO_ENTRY


def test_a_lac_that_is_not_below_its_entry_is_not_believed() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.answer(add(1, 1, lac=5))
    bench.answer(add(1, 1, lac=6, is_recovery=True))
    assert bench.answer(ReadEntry(1, 1)).max_lac == NONE


def test_a_full_cache_refuses_adds_and_no_fences() -> None:
    bench = Bench()
    entry = 0
    while bench.takes_adds:
        bench.ask(add(1, entry, bytes(1000)))
        entry += 1
        assert entry < 100
    assert bench.bookie.checkpoints.is_full
    while bench.answers.get(bench.numbers) is None:
        bench.ask(add(1, entry, bytes(1000)))
        entry += 1
        assert entry < 100
    assert bench.answers[bench.numbers].status is Status.TOO_MANY_REQUESTS
    assert bench.answer(ReadEntry(1, entry, KEY, is_fencing=True)).status is Status.NO_ENTRY
    bench.settle()
    assert bench.takes_adds
    assert bench.answer(add(2, 0)).status is Status.OK


def test_the_host_is_to_read_no_adds_while_the_journal_is_behind() -> None:
    bench = Bench(evolve(SMALL, journal_pending_bytes=1000))
    bench.ask(add(1, 0, bytes(1000)))
    assert not bench.takes_adds
    bench.store()
    assert bench.takes_adds


def test_there_are_not_more_ledgers_than_allowed() -> None:
    bench = Bench(evolve(SMALL, ledgers_max=2))
    bench.answer(add(1, 0))
    bench.answer(add(2, 0))
    assert bench.answer(add(3, 0)).status is Status.TOO_MANY_REQUESTS
    assert bench.answer(ReadEntry(3, 0, KEY, is_fencing=True)).status is Status.TOO_MANY_REQUESTS
    assert bench.answer(add(2, 1)).status is Status.OK


def test_ten_thousand_ledgers() -> None:
    bench = Bench(
        evolve(SMALL, flush_bytes=1 << 20, cache_bytes_max=1 << 22, journal_file_bytes=1 << 22, ledgers_per_step=2000)
    )
    bench.ask(*(add(ledger, 0) for ledger in range(10_000)))
    bench.settle()
    bench.flush()
    bench.crash()
    assert bench.opened.replayed == 0
    assert len(bench.bookie.table) == 10_000
    for ledger in (0, 4_321, 9_999):
        assert bench.answer(ReadEntry(ledger, NONE)).envelope == envelope_of(ledger, 0)
