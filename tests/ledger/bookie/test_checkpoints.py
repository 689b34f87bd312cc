"""When the cache is flushed, what a checkpoint says, and what is removed."""

from __future__ import annotations

import errno
from collections import deque

import pytest
from attrs import evolve

from tests.ledger.bookie.kit import KEY, SMALL, Bench, add
from zab.ledger.bookie.entry_files import EntryFiles
from zab.ledger.bookie.events import (
    JobFailed,
    Ordered,
    PrepareJournal,
    RemoveSegments,
    SaveCheckpoint,
    SaveState,
    Space,
    WriteSegment,
)
from zab.ledger.wire.messages import ReadEntry
from zab.ledger.wire.status import Status


def journals(bench: Bench) -> list[str]:
    return sorted(path for path in bench.disk.image() if path.startswith("journal/0"))


def test_a_full_generation_is_flushed_at_once_and_others_in_time() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    assert not bench.jobs
    bench.pass_ms(SMALL.flush_ms - 1)
    assert not bench.jobs
    bench.pass_ms(1)
    assert isinstance(bench.jobs[0], WriteSegment)
    bench.settle()
    for entry in range(1, 9):
        bench.answer(add(1, entry, bytes(1000)))
    assert isinstance(bench.jobs[-1], WriteSegment)


def test_a_fence_alone_makes_a_checkpoint_without_a_segment() -> None:
    bench = Bench()
    bench.answer(ReadEntry(1, 0, KEY, is_fencing=True))
    bench.flush()
    assert len(bench.bookie.segments) == 0
    assert bench.bookie.checkpoints.mark == bench.bookie._journal.mark
    bench.pass_ms(SMALL.flush_ms)
    assert not bench.jobs, "nothing has changed"


def test_the_mark_is_where_the_journal_was_durable_when_the_cache_was_swapped() -> None:
    """4.7: too high, and what was not durable then is lost."""
    bench = Bench()
    bench.answer(add(1, 0))
    durable = bench.bookie._journal.mark
    bench.ask(add(1, 1))
    bench.pass_ms(SMALL.flush_ms)
    bench.ask(add(1, 2))
    bench.store()
    bench.settle()
    assert bench.bookie.checkpoints.mark == durable
    bench.crash()
    assert bench.opened.replayed == 2
    assert bench.answer(ReadEntry(1, 2)).status is Status.OK


def test_what_is_journaled_during_a_checkpoint_gets_another_one() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.pass_ms(SMALL.flush_ms)
    bench.answer(ReadEntry(1, 0, KEY, is_fencing=True))
    bench.settle()
    assert bench.bookie.checkpoints.mark < bench.bookie._journal.mark
    bench.flush()
    assert bench.bookie.checkpoints.mark == bench.bookie._journal.mark


def test_one_checkpoint_at_a_time_and_in_order() -> None:
    """S15 (#4105, #4740): of two flushers the older one came last, and the mark fell."""
    bench = Bench()
    bench.answer(add(1, 0))
    bench.pass_ms(SMALL.flush_ms)
    kinds = []
    for entry in range(1, 40):
        bench.ask(add(1, entry, bytes(300)))
        bench.store()
        bench.pass_ms(SMALL.flush_ms)
        own = [job for job in bench.jobs if not isinstance(job, PrepareJournal)]
        assert len(own) <= 1, "two are under way"
        kinds += [type(job) for job in own]
        bench.work()
    order = [WriteSegment, SaveState, SaveCheckpoint]
    wanted = [order[at % 3] for at in range(len(kinds))]
    kinds = [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] is not kind]
    assert kinds == wanted[: len(kinds)]
    assert kinds.count(SaveCheckpoint) >= 2


def test_the_mark_never_falls() -> None:
    """S15 (#3329, #4844)."""
    bench = Bench()
    files = EntryFiles(bench.disk, SMALL, bench.identity)
    files.perform(SaveCheckpoint((3, 100), 2))
    files.perform(SaveCheckpoint((3, 100), 3))
    with pytest.raises(AssertionError):
        files.perform(SaveCheckpoint((3, 99), 4))


def test_journals_before_the_mark_and_old_states_are_removed() -> None:
    bench = Bench(evolve(SMALL, journal_file_bytes=600))
    for entry in range(20):
        bench.answer(add(1, entry, bytes(100)))
    assert len(journals(bench)) > 4
    bench.flush()
    assert len(journals(bench)) == 1
    for entry in range(20, 24):
        bench.answer(add(1, entry))
        bench.flush()
    assert sum(path.startswith("state/") for path in bench.disk.image()) == 2


def test_a_long_state_is_written_once_so_much_was_journaled() -> None:
    """Else a bookie of two million ledgers writes 100 MB every ten seconds, for one entry."""
    bench = Bench(evolve(SMALL, state_small_bytes=1_000, ledgers_per_step=1_000))
    for first in range(0, 200, 10):
        bench.ask(*(add(ledger, 0, b"") for ledger in range(first, first + 10)))
        bench.flush()
    before = bench.bookie.checkpoints._next_state
    mark = bench.bookie.checkpoints.mark
    for entry in range(1, 41):
        bench.answer(add(7, entry, bytes(300)))
        bench.flush()
    assert bench.bookie.checkpoints.mark > mark, "journals would never be removed"
    assert bench.bookie.checkpoints._next_state - before <= 4
    bench.crash()
    assert bench.opened.replayed < 40
    for entry in range(41):
        assert bench.answer(ReadEntry(7, entry)).status is Status.OK
    for ledger in range(200):
        assert bench.answer(ReadEntry(ledger, 0)).status is Status.OK


def test_without_room_a_long_state_is_written_all_the_same() -> None:
    """Only then journals are removed."""
    bench = Bench(evolve(SMALL, state_small_bytes=100, ledgers_per_step=1_000))
    bench.ask(*(add(ledger, 0, b"") for ledger in range(100)))
    bench.flush()
    mark = bench.bookie.checkpoints.mark
    bench.answer(add(7, 1))
    bench.flush()
    assert bench.bookie.checkpoints.mark == mark
    bench.step(Ordered(read_only=True))
    bench.answer(ReadEntry(300, 0, KEY, is_fencing=True))
    bench.flush()
    assert bench.bookie.checkpoints.mark > mark


def test_the_state_is_collected_in_slices_and_has_what_changes_meanwhile() -> None:
    bench = Bench()
    bench.ask(*(add(ledger, 0) for ledger in range(30)))
    bench.store()
    bench.pass_ms(SMALL.flush_ms)
    bench.work()
    steps = 0
    while not bench.jobs:
        bench.answer(ReadEntry(steps, 5, KEY, is_fencing=True))
        steps += 1
    assert steps > 2
    bench.settle()
    bench.flush()
    bench.crash()
    for ledger in range(30):
        wanted = Status.FENCED if ledger < steps else Status.OK
        assert bench.answer(add(ledger, 1)).status is wanted


def test_the_next_journal_file_is_made_before_the_current_one_is_full() -> None:
    bench = Bench(evolve(SMALL, journal_file_bytes=2000))
    bench.answer(add(1, 0, bytes(500)))
    assert not bench.jobs
    bench.answer(add(1, 1, bytes(500)))
    assert len(bench.jobs) == 1
    bench.work()
    assert "journal/prepared" in bench.disk.image()
    bench.answer(add(1, 2, bytes(500)))
    assert not bench.jobs, "it is asked for again"
    bench.answer(add(1, 3, bytes(500)))
    assert len(journals(bench)) == 2
    assert "journal/prepared" not in bench.disk.image()


def test_without_room_it_is_read_only_and_tries_again() -> None:
    """4.12."""
    bench = Bench()
    bench.answer(add(1, 0, bytes(3000)))
    bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + 1000
    bench.pass_ms(SMALL.flush_ms)
    bench.work()
    assert bench.reports
    assert bench.failure is None
    assert bench.answer(add(1, 1)).status is Status.READ_ONLY
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK
    assert not [path for path in bench.disk.image() if path.endswith(".tmp")]
    bench.disk.capacity_bytes = 1 << 40
    bench.pass_ms(SMALL.space_check_ms)
    bench.settle()
    assert bench.answer(add(1, 1)).status is Status.OK
    assert len(bench.bookie.segments) == 1
    bench.crash()
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK


def test_each_job_that_found_no_room_is_tried_again() -> None:
    """4.12: also the flush, when a removal that came after it found none either, as some file systems have it."""
    bench = Bench()
    bench.answer(add(1, 0))
    bench.pass_ms(SMALL.flush_ms)
    flush = bench.jobs.popleft()
    removal = RemoveSegments((7,))
    bench.step(JobFailed(flush, "full", True), JobFailed(removal, "full", True))
    assert not bench.jobs
    bench.pass_ms(SMALL.space_check_ms)
    assert list(bench.jobs) == [flush, removal]


def test_a_journal_that_cannot_be_prepared_makes_it_read_only() -> None:
    """4.12: no room for the next file, found while there is still some in this one."""
    bench = Bench(evolve(SMALL, journal_file_bytes=2000))
    bench.answer(add(1, 0, bytes(500)))
    bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + 1000
    bench.answer(add(1, 1, bytes(500)))
    bench.work()
    assert bench.answer(add(1, 2)).status is Status.READ_ONLY
    assert bench.answer(ReadEntry(1, 7, KEY, is_fencing=True)).status is Status.NO_ENTRY, "fences are taken still"


def test_what_found_no_room_is_tried_again_when_the_space_is_looked_at_and_reported_once() -> None:
    """4.12: not at each append; and as long as it finds none the bookie is read-only, whatever share is used."""
    bench = Bench(evolve(SMALL, journal_file_bytes=6000))
    bench.answer(add(1, 0, bytes(1500)))
    bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + 1000
    bench.answer(add(1, 1, bytes(1500)))
    tries = 0
    for round_ in range(3):
        while bench.work():
            tries += 1
        for entry in range(3):
            bench.answer(ReadEntry(10 * round_ + entry + 2, 7, KEY, is_fencing=True))
        assert not bench.jobs
        bench.now_ms += SMALL.space_check_ms
        bench.step(Space(50, 100))
        assert bench.answer(add(1, 2)).status is Status.READ_ONLY, "it flaps"
        bench.jobs = deque(job for job in bench.jobs if isinstance(job, PrepareJournal))
    assert tries == 3
    assert len([report for report in bench.reports if "PrepareJournal" in report]) == 1
    bench.disk.capacity_bytes = 1 << 40
    assert bench.work()
    assert bench.answer(add(1, 2)).status is Status.OK
    assert "journal/prepared" in bench.disk.image()


@pytest.mark.parametrize("job", range(3))
def test_any_other_failure_of_a_job_ends_the_bookie(job: int) -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.pass_ms(SMALL.flush_ms)
    for _ in range(job):
        bench.work()
        bench.step()
    bench.disk.fail_after(1, errno.EIO)
    bench.work()
    assert bench.failure is not None
    numbers = bench.ask(add(1, 1))
    assert bench.statuses(numbers) == [None]
    assert not bench.journal


def test_a_failure_of_the_journal_is_final() -> None:
    """4.5: a second sync proves nothing."""
    bench = Bench()
    numbers = bench.ask(add(1, 0), ReadEntry(1, 7, KEY, is_fencing=True))
    bench.disk.fail_after(1, errno.EIO)
    bench.store()
    assert bench.failure is not None
    assert bench.statuses(numbers) == [None, None]
    assert bench.statuses(bench.ask(ReadEntry(1, 0))) == [None]
