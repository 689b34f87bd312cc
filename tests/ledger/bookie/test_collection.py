"""Which ledgers are deleted, and how their space comes back (4.10, 4.11)."""

from __future__ import annotations

from collections import Counter
from random import Random
from struct import pack

import pytest
from attrs import evolve

from tests.ledger.bookie.coordination import INSTANCE, ROOT, MemberBench, create_ledgers, new_tree, run
from tests.ledger.bookie.kit import DIGEST, KEY, SMALL, Bench, add, envelope_of
from zab.coordination.operations import Children, Create, Delete, Exists, Get, Operation, Result, Set, ZooKeeperError
from zab.coordination.steps import BATCH_MAX, Pause
from zab.ledger.bookie.collection import Candidates, find_candidates
from zab.ledger.bookie.events import Collect, Compact, RemoveSegments, WriteSegment
from zab.ledger.bookie.gaps import DIRECTORIES_LISTED, IDS_PER_DIRECTORY, GapSearch, find_gone
from zab.ledger.bookie.segment import segment_path
from zab.ledger.bookie.tombstones import Tombstones, runs_of
from zab.ledger.entries.ids import ID_MAX, NONE
from zab.ledger.metadata.paths import LONG_FROM, ledger_path
from zab.ledger.wire.messages import ReadEntry, ReadLac, WriteLac
from zab.ledger.wire.status import Status
from zab.simulator.world.disk import PowerLossError

MINE = (*range(10), LONG_FROM + 5)


def bench_with(*, there: tuple[int, ...] = MINE, **limits: float) -> MemberBench:
    """A bookie with the ledgers MINE, of which these are in the metadata."""
    tree = new_tree()
    create_ledgers(tree, *there)
    bench = MemberBench(evolve(SMALL, **limits), tree)
    bench.ask(*(add(ledger, 0) for ledger in MINE))
    bench.settle()
    return bench


def delete(bench: MemberBench, *ledgers: int) -> None:
    for ledger in ledgers:
        assert bench.tree.apply(bench.session, Delete(ledger_path(ROOT, ledger))).ok


def test_a_ledger_that_is_gone_in_two_rounds_is_deleted() -> None:
    bench = bench_with()
    delete(bench, 3, LONG_FROM + 5)
    bench.collect()
    assert bench.answer(ReadEntry(3, 0)).status is Status.OK, "it has died younger than a round"
    delete(bench, 4)
    bench.collect()
    assert bench.answer(ReadEntry(4, 0)).status is Status.OK, "it has died younger than a round"
    assert bench.answer(ReadEntry(3, 0)).status is Status.NO_LEDGER
    assert sorted(bench.bookie.table.by_id) == [ledger for ledger in MINE if ledger not in (3, LONG_FROM + 5)]


def test_a_deleted_ledger_is_never_taken_again() -> None:
    """S11 (#4462): a writer that was asleep while its ledger was recovered and deleted; also after restarts."""
    bench = bench_with()
    delete(bench, 3)
    bench.collect()
    bench.collect()
    for seed in range(4):
        assert bench.answer(add(3, 1)).status is Status.FENCED
        assert bench.answer(add(3, 1, is_recovery=True)).status is Status.IO_ERROR
        assert bench.answer(ReadEntry(3, 0)).status is Status.NO_LEDGER
        assert bench.answer(ReadEntry(3, 0, KEY, is_fencing=True)).status is Status.NO_LEDGER
        assert bench.answer(ReadLac(3)).status is Status.NO_LEDGER
        assert bench.answer(WriteLac(3, 0, KEY, DIGEST.pack_lac(3, 0))).status is Status.NO_LEDGER
        bench.crash(seed)
        if seed == 1:
            bench.ask(add(100, 0))
            bench.flush()


def test_tombstones_are_durable_before_a_ledger_is_dropped() -> None:
    bench = bench_with()
    delete(bench, 3)
    bench.collect()
    bench.pass_ms(SMALL.collect_ms)
    bench.step()
    assert bench.journal
    assert bench.answers[bench.ask(add(3, 1))[0]].status is Status.FENCED
    assert bench.bookie.table.get(3) is not None
    denied = bench.ask(ReadEntry(3, 1, KEY, is_fencing=True))
    assert bench.statuses(denied) == [None], "a power cut would bring it back, not fenced"
    bench.store()
    assert bench.statuses(denied) == ["NO_LEDGER"]
    assert bench.bookie.table.get(3) is None


def test_no_add_of_a_deleted_ledger_is_taken_while_its_tombstone_is_on_its_way() -> None:
    """S11: the next entry of a ledger in the write cache goes a shorter way, which looks at no tombstones."""
    bench = bench_with()
    delete(bench, 3)
    bench.collect()
    bench.now_ms += SMALL.collect_ms
    bench.ask(add(3, 1))
    while 3 not in bench.bookie.table.tombstones:
        bench.step()
    assert bench.bookie.table.get(3) is not None
    assert bench.statuses(bench.ask(add(3, 2), add(3, 3, is_recovery=True))) == ["FENCED", "IO_ERROR"]
    bench.settle()
    assert bench.bookie.table.get(3) is None


def test_few_ledgers_are_deleted_and_dropped_in_a_step() -> None:
    """A round may find a million; each has a record, a look at the cache and at its long polls."""
    bench = bench_with()
    bench.bookie.deletion.add(MINE[:8])
    counts = []
    while bench.bookie.deadline_ms == 0 or bench.journal:
        before = len(bench.bookie.table), sum(each in bench.bookie.table.tombstones for each in MINE)
        bench.step()
        after = len(bench.bookie.table), sum(each in bench.bookie.table.tombstones for each in MINE)
        counts.append((before[0] - after[0], after[1] - before[1]))
        bench.store()
    assert max(dropped for dropped, _ in counts) <= SMALL.ledgers_per_step
    assert max(taken for _, taken in counts) <= SMALL.ledgers_per_step
    assert sorted(bench.bookie.table.by_id) == list(MINE[8:])
    assert bench.notes[-1] == "deleted 8 ledgers that are gone from the metadata"
    bench.crash()
    assert sorted(bench.bookie.table.by_id) == list(MINE[8:])


def test_long_polls_of_a_deleted_ledger_are_answered() -> None:
    bench = bench_with(watch_ms_max=1 << 40)
    delete(bench, 3)
    bench.collect()
    (number,) = bench.ask(ReadEntry(3, NONE, previous_lac=5, wait_ms=1 << 39, wants_piggyback=True))
    bench.collect()
    assert bench.answers[number].status is Status.NO_LEDGER


def test_a_ledger_that_is_made_while_the_metadata_are_read_is_no_candidate() -> None:
    """4.11, 1: the ledgers here are listed first."""
    bench = bench_with()

    def interfere(operation: Operation) -> Result | None:
        if isinstance(operation, Exists):
            bench.before = lambda operation: None
            bench.ask(add(77, 0))
        return None

    bench.collect()
    bench.before = interfere
    delete(bench, 3)
    bench.collect()
    bench.collect()
    assert bench.bookie.table.get(77) is not None


def test_a_lister_that_lags_deletes_nothing() -> None:
    """S13: the listing lacks live ledgers; each candidate is asked for by itself."""
    bench = bench_with()
    bench.before = lambda operation: Result(children=()) if isinstance(operation, Children) else None
    for _ in range(3):
        bench.collect()
    assert len(bench.bookie.table) == len(MINE)


@pytest.mark.parametrize("kind", [Children, Exists, Get])
@pytest.mark.parametrize("error", [ZooKeeperError.NOAUTH, ZooKeeperError.SYSTEMERROR])
def test_an_error_in_a_round_deletes_nothing_and_the_next_round_begins_again(
    kind: type[Operation], error: ZooKeeperError
) -> None:
    """S12 (#870): a lister that took an error for the end."""
    bench = bench_with()
    delete(bench, 3)
    bench.collect()
    bench.before = lambda operation: Result(error) if isinstance(operation, kind) else None
    bench.collect()
    assert bench.reports
    bench.before = lambda operation: None
    bench.collect()
    assert bench.bookie.table.get(3) is not None
    bench.collect()
    assert bench.bookie.table.get(3) is None


def test_many_ledgers_are_looked_for_in_parts() -> None:
    """A million ledgers make no step of seconds. Before each part of the candidates there is a `sync`."""
    tree = new_tree()
    mine = [*range(25_000), *range(100_000, 600_000, 10_000), LONG_FROM - 1, LONG_FROM]
    there = (7, 9_999, 10_000, 24_999, 100_000, LONG_FROM)
    create_ledgers(tree, *there)
    batches: list[Counter[str]] = []
    steps = find_candidates(ROOT, INSTANCE, mine)
    asked, session = next(steps), tree.begin_session()
    found: object = None
    while found is None:
        assert not isinstance(asked, Pause)
        batches.append(Counter(type(each).__name__ for each in asked))
        results = tuple(tree.apply(session, each) for each in asked)
        try:
            asked = steps.send(results)
        except StopIteration as end:
            found = end.value
    assert isinstance(found, Candidates)
    assert found.ledgers == frozenset(mine) - frozenset(there)
    assert max(batch["Children"] for batch in batches) <= 20
    assert max(batch["Exists"] for batch in batches) <= BATCH_MAX
    assert all(batch["Sync"] == 1 for batch in batches if batch["Exists"])


def test_another_service_deletes_nothing() -> None:
    """4.11, 2: an empty one, one of another cluster, one that becomes so during the round."""
    bench = bench_with(collect_share_max=1.0)
    delete(bench, *MINE)
    path = f"{ROOT}/INSTANCEID"
    bench.tree.apply(bench.session, Set(path, b"another"))
    for _ in range(3):
        bench.collect()
    bench.tree.apply(bench.session, Delete(path))
    for _ in range(3):
        bench.collect()
    assert len(bench.bookie.table) == len(MINE)
    bench.tree.apply(bench.session, Create(path, b"another"))
    answers = iter([b"0b4e1f2a-0000-4000-8000-000000000001", b"another"] * 3)
    bench.before = lambda operation: Result(data=next(answers)) if isinstance(operation, Get) else None
    for _ in range(3):
        bench.collect()
    assert len(bench.bookie.table) == len(MINE)
    answers = iter([b"another", b"0b4e1f2a-0000-4000-8000-000000000001"] * 3)
    for _ in range(3):
        bench.collect()
    assert len(bench.bookie.table) == len(MINE)


def test_too_many_at_a_time_need_a_third_round() -> None:
    """4.11, 5: the valve."""
    for limits in ({"collect_share_max": 0.2}, {"collect_share_max": 1.0, "collect_count_max": 2}):
        bench = bench_with(**limits)
        delete(bench, 1, 2, 3)
        bench.collect()
        bench.collect()
        assert len(bench.bookie.table) == len(MINE)
        assert any("3 of 11" in report for report in bench.reports)
        create_ledgers(bench.tree, 3)
        bench.collect()
        assert len(bench.bookie.table) == len(MINE) - 2


def test_the_operator_opens_the_valve() -> None:
    bench = bench_with(collect_share_max=0.2)
    delete(bench, 1, 2, 3)
    bench.step(Collect())
    bench.step(Collect(force=True))
    bench.settle()
    assert len(bench.bookie.table) == len(MINE) - 3


def test_nothing_is_deleted_without_a_session() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    bench.step(Collect(force=True))
    bench.pass_ms(SMALL.collect_ms)
    bench.settle()
    assert len(bench.bookie.table) == 1


def test_runs_of_tombstones() -> None:
    found = Tombstones([(5, 7), (1, 1), (9, 9), (3, 3)])
    assert list(found) == [(1, 1), (3, 3), (5, 7), (9, 9)]
    found.add_run(2, 2)
    found.add_run(8, 8)
    assert list(found) == [(1, 3), (5, 9)]
    found.add_run(0, 20)
    assert list(found) == [(0, 20)]
    assert [each in found for each in (0, 20, 21)] == [True, True, False]
    assert runs_of([1, 2, 3, 5, 7, 8]) == [(1, 3), (5, 5), (7, 8)]
    many = Tombstones((each, each) for each in range(0, 1000, 2))
    for each in range(1, 1000, 2):
        many.add_run(each, each)
    assert list(many) == [(0, 999)]
    assert Tombstones([(1, 2), (1 << 62, ID_MAX)]).pack() == pack(">4q", 1, 2, 1 << 62, ID_MAX)
    assert Tombstones().pack() == b""


def test_many_runs_at_once_are_as_one_after_the_other() -> None:
    rng = Random(5)
    for _ in range(300):
        ids = [sorted(rng.sample(range(60), rng.randrange(25))) for _ in range(2)]
        found = Tombstones(runs_of(ids[0]))
        found.add_runs(runs_of(ids[1]))
        assert list(found) == runs_of(sorted({*ids[0], *ids[1]})), ids
        begin, end = sorted(rng.sample(range(60), 2))
        there = [each for each in range(begin, end + 1) if each in found]
        gaps = [each for first, last in found.gaps(begin, end) for each in range(first, last + 1)]
        assert gaps == [each for each in range(min(there, default=0), max(there, default=0)) if each not in found]
        assert found.first_from(begin) == min((each for each in range(begin, 60) if each in found), default=None)


def with_gaps(**limits: float) -> MemberBench:
    """Every other ledger from 20 to 28 is deleted. 25 is in the metadata, and not here."""
    bench = bench_with(there=(*MINE, 20, 22, 24, 25, 26, 28), collect_share_max=1.0, **limits)
    bench.ask(*(add(ledger, 0) for ledger in range(20, 30, 2)))
    bench.settle()
    delete(bench, *range(20, 30, 2))
    bench.collect()
    bench.collect()
    return bench


def test_ids_between_tombstones_that_are_gone_get_tombstones_too() -> None:
    """4.10: of a million deletions a few runs are left, also where a bookie has one ledger of ten."""
    bench = with_gaps(tombstones_merge_from=5)
    assert list(bench.bookie.table.tombstones) == [(each, each) for each in range(20, 30, 2)]
    bench.answer(add(21, 0))
    bench.collect()
    for _ in range(2):
        assert list(bench.bookie.table.tombstones) == [(20, 20), (22, 24), (26, 28)]
        assert bench.answer(add(21, 1)).status is Status.OK, "it is here"
        assert bench.answer(add(25, 0)).status is Status.OK, "it is in the metadata"
        assert bench.answer(add(23, 0)).status is Status.FENCED
        bench.crash()


def test_few_tombstones_are_left_as_they_are() -> None:
    bench = with_gaps(tombstones_merge_from=6)
    bench.collect()
    assert len(bench.bookie.table.tombstones) == 5


def test_ids_that_may_be_given_out_now_get_no_tombstones() -> None:
    """A client may be slow to make its ledger: its id is older than others that were deleted since."""
    tombstones = Tombstones((each, each) for each in range(0, 40_000, 10))
    chosen = GapSearch().choose(ROOT, tombstones, 39_990)
    assert [each.path for each in chosen] == [f"{ROOT}/00/{each:04}" for each in range(2)]
    border = LONG_FROM // IDS_PER_DIRECTORY * IDS_PER_DIRECTORY
    both = Tombstones((each, each) for each in range(border, border + 40_000, 10))
    (only,) = GapSearch().choose(ROOT, both, border + 39_990)
    assert only.path == ledger_path(ROOT, border + IDS_PER_DIRECTORY).rpartition("/")[0], "that of two trees"


def test_gaps_are_looked_for_in_parts() -> None:
    tombstones = Tombstones((each, each) for each in range(0, 500_000, 1_000))
    search, paths = GapSearch(), []
    for _ in range(4):
        chosen = search.choose(ROOT, tombstones, 1 << 40)
        assert len(chosen) <= DIRECTORIES_LISTED
        paths += [each.path for each in chosen]
    assert paths == [f"{ROOT}/00/{each:04}" for each in range(50)] + [f"{ROOT}/00/{each:04}" for each in range(20)]


def test_another_service_fills_no_gaps() -> None:
    bench = with_gaps(tombstones_merge_from=5)
    chosen = GapSearch().choose(ROOT, bench.bookie.table.tombstones, 1 << 40)
    assert run(find_gone(ROOT, INSTANCE, chosen), bench.tree, bench.session) == [(21, 21), (23, 23), (27, 27)]
    assert run(find_gone(ROOT, b"another", chosen), bench.tree, bench.session) == []


def test_with_so_many_tombstones_nothing_is_deleted() -> None:
    bench = bench_with(tombstones_max=2, collect_share_max=1.0)
    delete(bench, 1, 3, 5)
    for _ in range(3):
        bench.collect()
    assert len(bench.bookie.table) == len(MINE)
    assert [report for report in bench.reports if "tombstones" in report] == [
        "there are 0 tombstones -> no ledger is deleted"
    ]
    assert bench.answer(add(1, 1)).status is Status.OK


def with_dead_ledgers(dead: int, *, live: int = 1) -> MemberBench:
    """Segments in which so many of the ledgers are deleted."""
    bench = bench_with(collect_share_max=1.0, compact_share=0.5)
    for ledger in range(dead):
        bench.ask(add(ledger, 1, bytes(1000)))
    bench.ask(add(9, 1, lac=NONE))
    bench.flush()
    delete(bench, *range(dead))
    bench.collect()
    bench.collect()
    return bench


def compact(bench: Bench) -> None:
    """A round of compactions, to its end."""
    bench.pass_ms(bench.config.compact_ms)
    bench.settle()
    while bench.bookie.compaction._under_way is not None:
        bench.pass_ms(1)
        bench.settle()


def test_a_segment_without_live_ledgers_is_removed() -> None:
    bench = bench_with(collect_share_max=1.0)
    bench.flush()
    assert len(bench.bookie.segments) == 1
    delete(bench, *MINE)
    bench.collect()
    bench.collect()
    compact(bench)
    assert len(bench.bookie.segments) == 0
    assert not [path for path in bench.disk.image() if path.startswith("entries/")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("live", [9, 0])
def test_a_power_cut_at_each_operation_of_a_compaction(seed: int, live: int) -> None:
    """What is listed is there at every moment, with a segment in the place of others or without one."""

    def begun() -> MemberBench:
        bench = with_dead_ledgers(6)
        if not live:
            bench.flush()
            delete(bench, *sorted({9, *MINE}.difference(range(6))))
            bench.collect()
            bench.collect()
        return bench

    whole = begun()
    begin = whole.disk.operations
    compact(whole)
    for at in range(1, whole.disk.operations - begin + 1):
        bench = begun()
        bench.disk.crash_after(at)
        with pytest.raises(PowerLossError):
            compact(bench)
        bench.disk.crash_after(None)
        bench.crash(1000 * seed + at)
        assert bench.answer(ReadEntry(9, 1)).status is (Status.OK if live else Status.NO_LEDGER)
        compact(bench)
        bench.crash(at)


def test_live_records_are_copied_as_they_are_and_the_newer_one_counts() -> None:
    """4.11, 8; case 10: of two copies of an entry the newer one."""
    bench = with_dead_ledgers(6)
    bench.ask(add(9, 1, lac=0), add(0, 5, bytes(900)))
    bench.flush()
    newest = envelope_of(9, 1, lac=0)
    before = [segment.number for segment in bench.bookie.segments.newest_first]
    sizes = sum(segment.size for segment in bench.bookie.segments.newest_first)
    compact(bench)
    segments = bench.bookie.segments.newest_first
    assert [segment.number for segment in segments] != before
    assert sum(segment.size for segment in segments) < sizes - 5000
    for _ in range(2):
        assert bench.answer(ReadEntry(9, 1)).envelope == newest
        assert bench.answer(ReadEntry(8, 0)).envelope == envelope_of(8, 0)
        assert bench.answer(ReadEntry(LONG_FROM + 5, 0)).envelope == envelope_of(LONG_FROM + 5, 0)
        bench.crash()


def test_of_two_copies_in_segments_that_become_one_the_newer_one_counts() -> None:
    bench = bench_with(collect_share_max=1.0, compact_share=0.5)
    bench.ask(add(9, 1, lac=NONE), *(add(0, entry, bytes(900)) for entry in range(3)))
    bench.flush()
    bench.ask(add(9, 1, lac=0), *(add(1, entry, bytes(900)) for entry in range(3)))
    bench.flush()
    assert len(bench.bookie.segments) == 2
    delete(bench, 0, 1)
    bench.collect()
    bench.collect()
    compact(bench)
    assert len(bench.bookie.segments) == 1
    for _ in range(2):
        assert bench.answer(ReadEntry(9, 1)).envelope == envelope_of(9, 1, lac=0)
        bench.crash()


def with_small_segments(count: int, **limits: int) -> Bench:
    """So many segments, each with an entry of ledger 1 and one of a ledger of its own; entry 0 is in all of them."""
    bench = Bench(evolve(SMALL, **limits))
    for each in range(count):
        bench.ask(add(1, 0, lac=-2 - each), add(1, each + 1), add(10 + each, 0))
        bench.flush()
    assert len(bench.bookie.segments) == count
    return bench


def test_small_segments_become_one() -> None:
    """A bookie with little to do flushes one every ten seconds: within days there would be 100,000."""
    bench = with_small_segments(8, compact_small_bytes=10_000)
    compact(bench)
    assert len(bench.bookie.segments) == 1
    for seed in range(2):
        assert bench.answer(ReadEntry(1, 0)).envelope == envelope_of(1, 0, lac=-9), "the newest"
        assert [bench.answer(ReadEntry(1, each + 1)).status for each in range(8)] == [Status.OK] * 8
        assert [bench.answer(ReadEntry(10 + each, 0)).status for each in range(8)] == [Status.OK] * 8
        bench.crash(seed)
    number = bench.bookie.segments.newest_first[0].number
    compact(bench)
    assert bench.bookie.segments.newest_first[0].number == number, "one alone is written again"


@pytest.mark.parametrize(
    "limits",
    [{"compact_segments_max": 3}, {"compact_rows_max": 6}, {"compact_bytes_max": 400}, {"compact_entries_max": 9}],
)
def test_so_much_is_compacted_at_a_time(limits: dict[str, int]) -> None:
    bench = with_small_segments(8, compact_small_bytes=10_000, **limits)
    bench.pass_ms(bench.config.compact_ms)
    groups = []
    while not groups or bench.bookie.compaction._search is not None:
        groups += [len(job.segments) for job in bench.jobs if isinstance(job, Compact)]
        if not bench.work():
            bench.pass_ms(1)
    assert groups == [3, 3, 2]
    assert len(bench.bookie.segments) == 3


def test_a_suspect_segment_is_left_alone() -> None:
    bench = with_dead_ledgers(6)
    segment = bench.bookie.segments.newest_first[0]
    row = segment.row(9)
    assert row is not None
    bench.disk.flip(segment_path(segment.number), 8 * (row.offset + 5))
    assert bench.answer(ReadEntry(9, row.first)).status is Status.IO_ERROR
    bench.pass_ms(bench.config.compact_ms)
    for _ in range(10):
        bench.step()
    assert not any(isinstance(job, Compact) and segment in job.segments for job in bench.jobs)


def test_a_compacted_segment_is_not_newer_than_what_came_after_its_parts() -> None:
    bench = with_dead_ledgers(6)
    bench.ask(add(9, 1, lac=0), *(add(8, entry, bytes(800)) for entry in range(5, 9)))
    bench.flush()
    compact(bench)
    assert len(bench.bookie.segments) == 2
    assert bench.bookie.segments.newest_first[1].replaced
    for _ in range(2):
        assert bench.answer(ReadEntry(9, 1)).envelope == envelope_of(9, 1, lac=0)
        bench.crash()


def test_a_replaced_segment_that_is_still_there_is_removed_at_the_start() -> None:
    """4.7: the power was lost between the two."""
    bench = with_dead_ledgers(6)
    bench.pass_ms(bench.config.compact_ms)
    while not any(isinstance(job, RemoveSegments) for job in bench.jobs):
        bench.work()
        bench.pass_ms(1)
    files = [path for path in bench.disk.image() if path.startswith("entries/")]
    bench.crash()
    left = [path for path in bench.disk.image() if path.startswith("entries/")]
    assert len(left) < len(files)
    assert bench.answer(ReadEntry(9, 1)).status is Status.OK


@pytest.mark.parametrize("at", [20, -1])
def test_what_a_damaged_segment_says_it_replaces_is_kept(at: int) -> None:
    """4.11, 8: by a valid one. Header or footer is damaged."""
    bench = with_dead_ledgers(6)
    bench.pass_ms(bench.config.compact_ms)
    while not any(isinstance(job, RemoveSegments) for job in bench.jobs):
        bench.work()
        bench.pass_ms(1)
    files = [path for path in bench.disk.image() if path.startswith("entries/")]
    path = segment_path(bench.bookie.segments.newest_first[0].number)
    bench.disk.flip(path, 8 * (at % bench.disk.size(path)))
    bench.restart()
    assert [each for each in bench.disk.image() if each.startswith("entries/")][: len(files)] == files
    assert bench.answer(ReadEntry(9, 1)).status is Status.OK
    bench.pass_ms(bench.config.compact_ms)
    bench.settle()
    assert bench.failure is None
    assert bench.answer(ReadEntry(9, 1)).status is Status.OK


@pytest.mark.parametrize("part", ["map", "index", "record"])
def test_a_damaged_segment_is_neither_removed_nor_copied(part: str) -> None:
    """S14 (#4607): a header with stale bytes made the collector believe that a log was empty."""
    bench = with_dead_ledgers(6)
    segment = bench.bookie.segments.newest_first[0]
    row = segment.row(9)
    assert row is not None
    at = {"map": segment.size - 70, "index": row.index_offset, "record": row.offset + 5}[part]
    bench.disk.flip(segment_path(segment.number), 8 * at)
    if part == "map":
        bench.restart()
    compact(bench)
    compact(bench)
    assert segment_path(segment.number) in bench.disk.image()
    assert bench.failure is None
    assert bench.reports or bench.notes
    # What is not damaged is still there, and what is damaged is no absence.
    assert bench.answer(ReadEntry(9, 1)).status in (Status.OK, Status.IO_ERROR)
    assert bench.answer(ReadEntry(9, 7)).status in (Status.NO_ENTRY, Status.IO_ERROR)


def test_no_room_for_a_compaction_changes_nothing() -> None:
    bench = with_dead_ledgers(6)
    bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + 10
    before = bench.bookie.segments.newest_first
    compact(bench)
    assert bench.bookie.segments.newest_first == before
    assert bench.failure is None
    bench.disk.capacity_bytes = 1 << 40
    compact(bench)
    assert bench.bookie.segments.newest_first != before


def test_a_read_under_way_survives_a_compaction() -> None:
    bench = with_dead_ledgers(6)
    (number,) = bench.ask(ReadEntry(9, 1))
    assert bench.reads
    bench.pass_ms(bench.config.compact_ms)
    for _ in range(20):
        bench.work()
        bench.pass_ms(1)
    bench.read_all()
    assert bench.answers[number].status is Status.OK


def test_one_compaction_at_a_time() -> None:
    bench = with_dead_ledgers(6)
    bench.pass_ms(bench.config.compact_ms)
    for _ in range(10):
        bench.step()
    assert sum(isinstance(job, Compact) for job in bench.jobs) == 1


def with_pieces(count: int, **limits: int) -> Bench:
    """A compaction of so many pieces, of 1000 bytes each, is due, and its first job is there."""
    limits = {"compact_small_bytes": 100_000, "piece_bytes": 1_000, "flush_bytes": 100_000} | limits
    bench = with_small_segments(2, **limits)
    bench.ask(*(add(1, 10 + entry, bytes(1_000)) for entry in range(count)))
    bench.flush()
    bench.pass_ms(bench.config.compact_ms)
    while not bench.jobs:
        bench.step()
    return bench


def test_a_flush_waits_for_one_piece_of_a_compaction() -> None:
    """Else adds are not read while hundreds of MiB are copied."""
    bench = with_pieces(10)
    bench.ask(add(50, 0))
    bench.store()
    bench.pass_ms(bench.config.flush_ms)
    bench.work()
    written = bench.disk.size(f"{segment_path(bench.bookie.checkpoints.next_segment - 2)}.tmp")
    assert written < 3_000
    bench.pass_ms(1_000)
    assert isinstance(bench.jobs[0], WriteSegment)
    bench.work()
    before = len(bench.bookie.segments)
    bench.settle()
    compact(bench)
    assert len(bench.bookie.segments) < before
    assert [bench.answer(ReadEntry(1, 10 + entry)).status for entry in range(10)] == [Status.OK] * 10


def test_a_compaction_writes_so_many_bytes_a_second() -> None:
    bench = with_pieces(30, compact_bytes_per_s=5_000)
    segments = bench.bookie.segments
    began = bench.now_ms
    while len(segments) > 1:
        if not bench.work():
            assert bench.bookie.deadline_ms > bench.now_ms
            bench.pass_ms(max(1, bench.bookie.deadline_ms - bench.now_ms))
    size = segments.newest_first[0].size
    assert size > 30_000
    took_ms = bench.now_ms - began
    assert size / 5 * 0.95 < took_ms < size / 5 * 1.1


@pytest.mark.parametrize("is_full", [False, True])
def test_a_compaction_that_fails_in_the_middle_leaves_nothing(is_full: bool) -> None:
    bench = with_pieces(10)
    before = bench.bookie.segments.newest_first
    for _ in range(3):
        bench.work()
        bench.pass_ms(1)
    assert any(path.endswith(".tmp") for path in bench.disk.image())
    if is_full:
        bench.disk.capacity_bytes = bench.disk.capacity_bytes - bench.disk.free_bytes() + 10
    else:
        segment = bench.bookie.segments.newest_first[0]
        row = segment.row(1)
        assert row is not None
        bench.disk.flip(segment_path(segment.number), 8 * (row.index_offset - 5))
    while bench.bookie.compaction._under_way is not None:
        bench.work()
        bench.pass_ms(1)
    bench.settle()
    assert bench.bookie.segments.newest_first == before
    assert not [path for path in bench.disk.image() if path.endswith(".tmp")]
    assert bench.failure is None
    bench.disk.capacity_bytes = 1 << 40
    compact(bench)
    assert (len(bench.bookie.segments) == 1) == is_full, "what is damaged is not tried again"
