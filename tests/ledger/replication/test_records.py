"""Records, locks, switches and the election, against a simulated tree with answers that are lost."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Create, Delete, Get, Operation, Set
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.repair_locks import Record, lock, read_record, unlock
from zab.ledger.metadata.underreplication import (
    LOCKS,
    RECORDS,
    REPLICATION_LAYOUT,
    Underreplicated,
    decode_record,
    lock_path,
    record_path,
)
from zab.ledger.replication.election import stand, who_is_auditor
from zab.ledger.replication.records import list_locks, list_records, mark, prepare, remove, take
from zab.ledger.replication.switches import (
    Delay,
    disable,
    enable,
    first_delay,
    is_disabled,
    read_check_time,
    read_delay,
    write_check_time,
    write_delay,
)

ROOT = "/ledgers"
B1, B2 = BookieId("b1"), BookieId("b2")
FATES = ["answered", "done", "not done"]
LEDGER = 0x1234_5678_9ABC


@pytest.fixture
def there() -> Coordination:
    found = Coordination()
    found.apply(Create(ROOT))
    found.run(prepare(ROOT))
    return found


def other_session(there: Coordination) -> int:
    return there.tree.begin_session()


# ------------------------------------------------------------------------------------------------------------- records


def test_a_record_is_made_with_its_directories_and_is_where_bookkeeper_has_it(there: Coordination) -> None:
    assert there.run(mark(ROOT, LEDGER, (B1,), 17))
    path = f"{ROOT}/underreplication/ledgers/0000/1234/5678/9abc/urL{LEDGER:010}"
    data = there.tree.data(path)
    assert data is not None
    assert decode_record(data) == Underreplicated((B1,), 17)


def test_marking_again_adds_bookies_and_keeps_the_time(there: Coordination) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    assert there.run(mark(ROOT, LEDGER, (B2, B1), 99))
    assert not there.run(mark(ROOT, LEDGER, (B1, B2), 100)), "nothing is written"
    record = there.run(read_record(ROOT, LEDGER))
    assert record == Record(LEDGER, Underreplicated((B1, B2), 17), 1)


@pytest.mark.parametrize("fates", list(product(FATES, repeat=3)))
def test_a_mark_whose_answer_is_lost_is_made_once(there: Coordination, fates: tuple[str, ...]) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    there.lost.extend(fates)
    there.run(mark(ROOT, LEDGER, (B2,), 18))
    record = there.run(read_record(ROOT, LEDGER))
    assert record is not None
    assert record.content.missing == (B1, B2)


def test_directories_that_vanish_meanwhile_are_made_again(there: Coordination) -> None:
    """BookKeeper's workers delete empty ones."""
    path = record_path(ROOT, LEDGER)
    parent = path.rpartition("/")[0]
    deleted: list[str] = []

    def vanish(operation: Operation) -> None:
        if (
            isinstance(operation, Create)
            and operation.path == path
            and not deleted
            and there.tree.data(parent) is not None
        ):
            deleted.append(parent)
            there.tree.apply(there.session, Delete(parent))

    there.before = vanish
    assert there.run(mark(ROOT, LEDGER, (B1,), 17))
    assert deleted
    assert there.tree.data(path) is not None


def test_a_record_is_removed_with_its_empty_directories(there: Coordination) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    there.run(mark(ROOT, LEDGER + 1, (B1,), 17))
    assert there.run(remove(ROOT, LEDGER, 0))
    assert there.tree.children(f"{ROOT}/{RECORDS}/0000/1234/5678") == ["9abd"]
    assert there.run(remove(ROOT, LEDGER + 1, 0))
    assert there.tree.children(f"{ROOT}/{RECORDS}") == []


@pytest.mark.parametrize("fates", list(product(FATES, repeat=2)))
def test_a_record_that_was_marked_again_is_not_removed(there: Coordination, fates: tuple[str, ...]) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    there.run(mark(ROOT, LEDGER, (B2,), 17))
    there.lost.extend(fates)
    assert not there.run(remove(ROOT, LEDGER, 0))
    assert there.tree.data(record_path(ROOT, LEDGER)) is not None


@pytest.mark.parametrize("fates", list(product(FATES, repeat=2)))
def test_a_removal_whose_answer_is_lost_is_done(there: Coordination, fates: tuple[str, ...]) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    there.lost.extend(fates)
    assert there.run(remove(ROOT, LEDGER, 0))
    assert there.tree.data(record_path(ROOT, LEDGER)) is None


def test_records_that_are_laid_out_otherwise_are_refused(there: Coordination) -> None:
    there.apply(Set(f"{ROOT}/{REPLICATION_LAYOUT}", b'type: "OTHER"\nversion: 1\n'))
    with pytest.raises(InvalidMetadataError):
        there.run(prepare(ROOT))


def test_records_are_listed_in_the_order_of_ids_and_only_so_many(there: Coordination) -> None:
    for ledger in (70_000, 3, LEDGER):
        there.run(mark(ROOT, ledger, (B1,), 17))
    there.apply(Set(record_path(ROOT, 3), b"nonsense {"))
    assert [each.ledger for each in there.run(list_records(ROOT, 2))] == [3, 70_000]
    found = there.run(list_records(ROOT, 10))
    assert [each.ledger for each in found] == [3, 70_000, LEDGER]
    assert found[0].content.missing == ()


# --------------------------------------------------------------------------------------------------------------- locks


@pytest.mark.parametrize("fates", list(product(FATES, repeat=3)))
def test_a_lock_whose_answer_is_lost_is_ours(there: Coordination, fates: tuple[str, ...]) -> None:
    there.lost.extend(fates)
    assert there.run(lock(ROOT, LEDGER, B1, there.session))
    there.lost.clear()
    found = there.apply(Get(lock_path(ROOT, LEDGER)))
    assert found.stat.ephemeral_owner == there.session


@pytest.mark.parametrize("fates", list(product(FATES, repeat=3)))
def test_a_lock_of_another_session_is_not_ours_and_stays(there: Coordination, fates: tuple[str, ...]) -> None:
    other = other_session(there)
    there.tree.apply(other, Create(lock_path(ROOT, LEDGER), ephemeral=True))
    there.lost.extend(fates)
    assert not there.run(lock(ROOT, LEDGER, B1, there.session))
    assert there.run(list_locks(ROOT)) == {LEDGER}


def test_an_unlocking_whose_answer_is_lost_does_not_take_the_next_lock(there: Coordination) -> None:
    path = lock_path(ROOT, LEDGER)
    there.run(lock(ROOT, LEDGER, B1, there.session))
    other = other_session(there)

    def take_it(operation: Operation) -> None:
        if not isinstance(operation, Delete) and there.tree.data(path) is None:
            there.tree.apply(other, Create(path, ephemeral=True))

    there.before = take_it
    there.lost.append("done")
    there.run(unlock(ROOT, LEDGER, there.session))
    assert there.tree.data(path) is not None


def test_a_worker_takes_a_record_that_is_neither_locked_nor_skipped(there: Coordination) -> None:
    for ledger in (1, 2, 3):
        there.run(mark(ROOT, ledger, (B1,), 17))
    there.tree.apply(other_session(there), Create(lock_path(ROOT, 1), ephemeral=True))
    record = there.run(take(ROOT, B1, there.session, Random(1), {2}))
    assert record is not None
    assert record.ledger == 3
    assert there.run(list_locks(ROOT)) == {1, 3}
    assert there.run(take(ROOT, B1, there.session, Random(1), {2})) is None


def test_a_record_that_is_put_off_is_taken_if_there_is_no_other(there: Coordination) -> None:
    for ledger in (1, 2):
        there.run(mark(ROOT, ledger, (B1,), 17))
    taken = []
    for seed in range(10):
        record = there.run(take(ROOT, B1, there.session, Random(seed), set(), {1}))
        assert record is not None
        taken.append(record.ledger)
        there.run(unlock(ROOT, record.ledger, there.session))
    assert taken == [2] * 10
    there.tree.apply(other_session(there), Create(lock_path(ROOT, 2), ephemeral=True))
    record = there.run(take(ROOT, B1, there.session, Random(1), set(), {1}))
    assert record is not None
    assert record.ledger == 1
    there.run(unlock(ROOT, 1, there.session))
    assert there.run(take(ROOT, B1, there.session, Random(1), {1}, {1})) is None


def test_workers_do_not_all_begin_with_the_same_record(there: Coordination) -> None:
    for ledger in range(0, 2_000_000, 40_000):
        there.run(mark(ROOT, ledger, (B1,), 17))
    taken = set()
    for seed in range(10):
        record = there.run(take(ROOT, B1, there.session, Random(seed), set()))
        assert record is not None
        taken.add(record.ledger)
        there.run(unlock(ROOT, record.ledger, there.session))
    assert len(taken) > 5


def test_a_record_that_cannot_be_read_is_let_go(there: Coordination) -> None:
    there.run(mark(ROOT, LEDGER, (B1,), 17))
    there.apply(Set(record_path(ROOT, LEDGER), b"nonsense {"))
    assert there.run(take(ROOT, B1, there.session, Random(1), set())) is None
    assert there.tree.children(f"{ROOT}/{LOCKS}") == []


# ------------------------------------------------------------------------------------------------------------- switches


@pytest.mark.parametrize("fates", list(product(FATES, repeat=2)))
def test_disabled_and_enabled_again(there: Coordination, fates: tuple[str, ...]) -> None:
    assert not there.run(is_disabled(ROOT))
    assert there.run(disable(ROOT))
    assert not there.run(disable(ROOT))
    assert there.run(is_disabled(ROOT))
    there.lost.extend(fates)
    assert there.run(enable(ROOT))
    there.lost.clear()
    assert not there.run(enable(ROOT))
    assert not there.run(is_disabled(ROOT))


def test_a_delay_is_set_first_by_an_auditor_then_by_operators(there: Coordination) -> None:
    assert there.run(read_delay(ROOT)) is None
    there.run(first_delay(ROOT, 30))
    there.run(first_delay(ROOT, 60))
    assert there.run(read_delay(ROOT)) == Delay(30, 0)
    there.run(write_delay(ROOT, 30))
    assert there.run(read_delay(ROOT)) == Delay(30, 1), "which is a request to search at once"


def test_the_time_of_a_check_is_kept(there: Coordination) -> None:
    assert there.run(read_check_time(ROOT, "underreplication/checkallledgersctime")) is None
    for wall_ms in (5, 1_700_000_000_000):
        there.run(write_check_time(ROOT, "underreplication/checkallledgersctime", wall_ms))
        assert there.run(read_check_time(ROOT, "underreplication/checkallledgersctime")) == wall_ms


# ------------------------------------------------------------------------------------------------------------- election


def test_the_lowest_candidate_is_the_auditor_and_each_watches_the_one_before(there: Coordination) -> None:
    first = there.run(stand(ROOT, B1, there.session))
    assert first.is_auditor
    assert there.run(who_is_auditor(ROOT)) == "b1"
    first_session, there.session = there.session, other_session(there)
    second = there.run(stand(ROOT, B2, there.session))
    assert second.watched == first.own
    assert there.run(stand(ROOT, B2, there.session)) == second, "it is a candidate once"
    there.session, before = other_session(there), there.session
    third = there.run(stand(ROOT, BookieId("b3"), there.session))
    assert third.watched == second.own
    there.session = before
    there.tree.end_session(first_session)
    assert there.run(stand(ROOT, B2, there.session)).is_auditor
    assert there.run(who_is_auditor(ROOT)) == "b2"


@pytest.mark.parametrize("fates", list(product(FATES, repeat=4)))
def test_a_candidate_whose_answer_is_lost_is_one_candidate(there: Coordination, fates: tuple[str, ...]) -> None:
    there.lost.extend(fates)
    assert there.run(stand(ROOT, B1, there.session)).is_auditor
    assert len(there.tree.children(f"{ROOT}/underreplication/auditorelection")) == 1
