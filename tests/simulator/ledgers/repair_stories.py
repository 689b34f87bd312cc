"""Stories of ledgers that lack copies, and are repaired. w is the writer, a and a2 are processes of auto-recovery.

Not here: stories without auto-recovery (`stories`).
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from tests.simulator.ledgers.story import Story, StoryReplicator, StoryWriter, is_add, is_read, is_write_back
from zab.coordination.operations import Create, Delete, Set
from zab.coordination.steps import Steps, read
from zab.ledger.entries.ids import BookieId
from zab.ledger.managed import sweep
from zab.ledger.managed.log_info import LOGS_ROOT, LedgerInfo, LogInfo, encode_log, log_path
from zab.ledger.metadata.cookies import decode_cookie
from zab.ledger.metadata.layout import AVAILABLE
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.repair_locks import Record, read_record
from zab.ledger.metadata.underreplication import lock_path, record_path
from zab.ledger.replication.decommission import Decommissioned, StillRegistered, decommission
from zab.ledger.replication.records import mark
from zab.ledger.replication.switches import disable, enable, write_delay
from zab.ledger.wire.messages import AddEntry, Request
from zab.simulator.ledgers.bookie_process import run_at_once
from zab.simulator.ledgers.cluster import ROOT

B1, B2, B3, B4, B5 = (BookieId(f"b{number}") for number in range(1, 6))


def written(story: Story, *ensemble: int, quorums: tuple[int, int, int] = (3, 3, 2)) -> StoryWriter:
    """A writer whose ledger has five entries, on all of their bookies."""
    w = story.writer(*ensemble, quorums=quorums)
    w.append(*"abcde")
    story.until(lambda: w.is_acknowledged(*"abcde"))
    story.until(lambda: all(len(story.copies(w.ledger, entry)) == quorums[1] for entry in range(5)))
    return w


def closed(story: Story, w: StoryWriter) -> None:
    w.close()
    story.until(lambda: story.metadata(w.ledger).is_closed)


def record(story: Story, ledger: int) -> Record | None:
    return at_once(story, read_record(ROOT, ledger))


def at_once(story: Story, steps: Steps[Any]) -> Any:
    return run_at_once(story.cluster.service.tree, steps)


def is_locked(story: Story, ledger: int) -> bool:
    return story.cluster.service.tree.data(lock_path(ROOT, ledger)) is not None


def adds_of(story: Story, a: StoryReplicator, number: int) -> list[int]:
    """The entries that were copied to a bookie."""
    sent = (request for client, bookie, request in story.sent if client is a and bookie == f"b{number}")
    return [request.entry for request in sent if isinstance(request, AddEntry) and is_write_back(request)]


def _is_late(request: Request) -> bool:
    return isinstance(request, AddEntry) and request.is_recovery and request.entry > 2


def repaired(story: Story, a: StoryReplicator, w: StoryWriter) -> None:
    story.until(lambda: a.worker.counts["ledgers repaired"] > 0 and record(story, w.ledger) is None)
    story.until(lambda: not is_locked(story, w.ledger))


# ------------------------------------------------------------------------------------------------------------- closed


def a_bookie_of_a_closed_ledger_is_lost() -> None:
    """b1 is wiped. Its entries are copied to b4, verbatim, then b4 is named in its place; the record goes."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    story.lose_disk(1)
    a = story.replicator()
    repaired(story, a, w)
    assert set(story.metadata(w.ledger).last_fragment.ensemble) == {B2, B3, *story.metadata(w.ledger).bookies} - {B1}
    assert a.worker.counts["entries copied"] == 5
    story.finish()


def a_striped_ledger_gets_the_entries_of_the_lost_member_alone() -> None:
    """4/2/2: b2 has the entries 0 and 1 of every four."""
    story = Story(5)
    w = written(story, 1, 2, 3, 4, quorums=(4, 2, 2))
    closed(story, w)
    story.kill(2)
    a = story.replicator()
    repaired(story, a, w)
    assert story.metadata(w.ledger).last_fragment.ensemble == (B1, B5, B3, B4)
    assert sorted(adds_of(story, a, 5)) == [0, 1, 4]
    story.finish()


def a_bookie_that_does_not_take_the_copies_is_left_out() -> None:
    """b4 is silent; another one gets the place."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    closed(story, w)
    a = story.replicator()
    story.hold(a, 4, is_write_back)
    story.kill(1)
    repaired(story, a, w)
    assert story.metadata(w.ledger).last_fragment.ensemble == (B5, B2, B3)
    story.finish()


def an_empty_ledger_names_a_lost_bookie() -> None:
    """Nothing is to be copied, and the metadata change all the same; else the auditor finds it for ever."""
    story = Story(4)
    w = story.writer(1, 2, 3)
    closed(story, w)
    story.kill(3)
    a = story.replicator()
    repaired(story, a, w)
    assert story.metadata(w.ledger).last_fragment.ensemble == (B1, B2, B4)
    story.finish()


def s19_entries_are_copied_back_to_a_bookie_that_is_fenced() -> None:
    """e is on b1 and b2. b3, which was away, was fenced by a recovery, and is marked as lacking entries."""
    story = Story(3)
    w, r = story.writer(1, 2, 3), story.recoverer()
    story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.hold(r, 3, is_write_back)
    r.recover(w.ledger)
    story.until(lambda: w.ledger in r.ended and story.is_fenced(3, w.ledger))
    assert story.copies(w.ledger, 0) == {1, 2}
    at_once(story, mark(ROOT, w.ledger, (B3,), 0))
    a = story.replicator()
    repaired(story, a, w)
    assert story.copies(w.ledger, 0) == {1, 2, 3}
    assert story.metadata(w.ledger).last_fragment.ensemble == (B1, B2, B3)
    story.finish()


def a_check_of_all_ledgers_finds_a_member_that_lacks_entries() -> None:
    """b3 never got the last entry, and nobody knows."""
    story = Story(3)
    w = written(story, 1, 2, 3)
    story.hold(w, 3, is_add)
    w.append("f")
    story.until(lambda: w.is_acknowledged("f"))
    closed(story, w)
    story.kill_client(w)

    a = story.replicator(ledgers_check_ms=1_000)
    repaired(story, a, w)
    assert adds_of(story, a, 3) == [5], "only what it lacks"
    assert story.copies(w.ledger, 5) == {1, 2, 3}
    story.finish()


# --------------------------------------------------------------------------------------------------------------- open


def s24_the_last_entry_of_the_last_but_one_fragment() -> None:
    """Fragments from 0 and 5, and nobody has written since: the LAC that entry 4 tells of is 3. b1, which is in the
    first fragment alone, is lost."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    w.lose(1)
    story.until(lambda: len(story.metadata(w.ledger).fragments) == 2)
    assert story.metadata(w.ledger).last_fragment.ensemble == (B4, B2, B3)
    story.kill(1)
    a = story.replicator()
    repaired(story, a, w)
    assert story.metadata(w.ledger).is_open, "its last fragment is whole"
    (new,) = story.metadata(w.ledger).bookies - {B2, B3, B4} or {B4}
    assert adds_of(story, a, int(new[1:])) == [0, 1, 2, 3, 4]
    w.append("f")
    story.until(lambda: w.is_acknowledged("f"))
    story.finish()


def a_writer_changes_its_last_fragment_while_an_older_one_is_repaired() -> None:
    """Fragments from 0 and 5. While the entries of the first are copied, w adds a third one."""
    story = Story(6)
    w = written(story, 1, 2, 3)
    w.lose(1)
    story.until(lambda: len(story.metadata(w.ledger).fragments) == 2)
    w.append("f")
    story.until(lambda: w.is_acknowledged("f"))
    story.kill(1)
    a = story.replicator()
    held = [story.hold(a, number, is_write_back) for number in range(2, 7)]
    story.until(lambda: any(hold.messages for hold in held))
    w.lose(2)
    story.until(lambda: len(story.metadata(w.ledger).fragments) == 3)
    story.release(*held)
    repaired(story, a, w)
    assert len(story.metadata(w.ledger).fragments) == 3
    story.finish()


def a_writer_that_lives_replaces_its_bookie_by_itself() -> None:
    """b1 is lost; w appends within the grace period, and is not fenced."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    story.kill(1)
    a = story.replicator()
    story.until(lambda: is_locked(story, w.ledger))
    w.append("f")
    story.until(lambda: w.is_acknowledged("f"))
    repaired(story, a, w)
    assert story.metadata(w.ledger).is_open
    assert B1 not in story.metadata(w.ledger).bookies
    w.append("g")
    story.until(lambda: w.is_acknowledged("g"))
    story.finish()


def a_writer_that_does_not_replace_its_bookie_is_fenced() -> None:
    """b1 is lost, and w does not hear of the coordination service. After the grace period the ledger is closed, then
    repaired."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    story.cut(w)
    story.kill(1)
    a = story.replicator()
    story.until(lambda: is_locked(story, w.ledger))
    story.pass_time(1_000)
    assert story.metadata(w.ledger).is_open
    repaired(story, a, w)
    assert story.last(w.ledger) == 4
    assert B1 not in story.metadata(w.ledger).bookies
    w.append("f")
    story.reconnect(w)
    story.until(lambda: "f" in w.outcomes)
    assert not w.is_acknowledged("f")
    story.finish()


def an_open_ledger_without_entries_names_a_lost_bookie() -> None:
    """A second loss would make it impossible to close it."""
    story = Story(5)
    w = story.writer(1, 2, 3)
    story.kill(2)
    a = story.replicator()
    repaired(story, a, w)
    assert story.last(w.ledger) == -1
    assert B2 not in story.metadata(w.ledger).bookies
    story.finish()


def other_ledgers_are_repaired_while_some_wait_for_their_writers() -> None:
    """Two ledgers are open, and their writers gone; three are closed."""
    story = Story(5)
    open_ones = []
    for number in range(2):
        w = story.writer(1, 2, 3)
        w.append(f"{number}.open")
        story.until(lambda w=w, number=number: w.is_acknowledged(f"{number}.open"))  # type: ignore[misc]
        story.kill_client(w)
        open_ones.append(w.ledger)
    closed_ones = [written_anew(story, number).ledger for number in range(3)]
    story.kill(1)
    a = story.replicator()
    story.until(lambda: all(B1 not in story.metadata(each).bookies for each in closed_ones))
    assert all(story.metadata(each).is_open for each in open_ones)
    story.until(lambda: all(B1 not in story.metadata(each).bookies for each in open_ones))
    story.until(lambda: a.worker.counts["ledgers repaired"] == 5)
    story.finish()


def other_ledgers_are_repaired_before_one_that_failed_is_tried_again() -> None:
    """b3 is lost. Nobody serves reads of four ledgers that name it, so these fail, and each try takes longer than they
    rest. Then two others are marked."""
    story = Story(5)
    hopeless = [written_anew(story, number).ledger for number in range(4)]
    others = [written_anew(story, number, 1, 4, 5).ledger for number in range(4, 6)]
    story.kill(3)
    a = story.replicator()
    for number in (1, 2):
        story.hold(a, number, lambda request: is_read(request) and request.ledger in hopeless)
    story.until(lambda: a.worker.counts["failures"] == len(hopeless))
    for ledger in others:
        at_once(story, mark(ROOT, ledger, (B4,), 0))
    story.until(lambda: a.worker.counts["failures"] > len(hopeless))
    assert [each for each in others if record(story, each) is not None] == []
    story.finish()


# ---------------------------------------------------------------------------------------------------- records and locks


def a_record_that_is_marked_again_meanwhile_stays() -> None:
    """While b1's entries are copied, somebody marks b2 as well."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    closed(story, w)
    story.kill(1)
    a = story.replicator()
    held = [story.hold(a, number, is_write_back) for number in (4, 5)]
    story.until(lambda: any(hold.messages for hold in held))
    at_once(story, mark(ROOT, w.ledger, (B2,), 0))
    story.release(*held)
    story.until(lambda: a.worker.counts["ledgers marked again"] > 0)
    story.until(lambda: a.worker.counts["ledgers repaired"] > 0)
    assert record(story, w.ledger) is None
    story.finish()


def a_worker_dies_while_it_copies() -> None:
    """Its lock goes with its session; the metadata never named the bookie that had half of the entries."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    closed(story, w)
    story.kill(1)
    a = story.replicator()
    held = [story.hold(a, number, _is_late) for number in (4, 5)]
    story.until(lambda: any(hold.messages for hold in held))
    assert B1 in story.metadata(w.ledger).bookies
    story.kill_client(a)
    a2 = story.replicator()
    repaired(story, a2, w)
    assert B1 not in story.metadata(w.ledger).bookies
    story.finish()


def a_worker_whose_session_is_over_begins_again() -> None:
    """a copies, and does not hear of the coordination service until its lock is gone. It may change nothing then,
    although everything is copied."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    closed(story, w)
    story.kill(1)
    a = story.replicator()
    held = [story.hold(a, number, is_write_back) for number in (4, 5)]
    story.until(lambda: any(hold.messages for hold in held))
    story.cut(a)
    story.until(lambda: not is_locked(story, w.ledger))
    story.release(*held)
    story.pass_time(500)
    assert B1 in story.metadata(w.ledger).bookies
    story.reconnect(a)
    repaired(story, a, w)
    story.finish()


def another_worker_repairs_while_the_first_one_hears_nothing() -> None:
    """a copies, and does not hear of the coordination service until its lock is gone; a2 repairs the ledger. Nothing
    of what a wanted to write is written."""
    story = Story(5)
    w = written(story, 1, 2, 3)
    closed(story, w)
    story.kill(1)
    a = story.replicator()
    held = [story.hold(a, number, is_write_back) for number in (4, 5)]
    story.until(lambda: any(hold.messages for hold in held))
    story.cut(a)
    a2 = story.replicator()
    repaired(story, a2, w)
    after = story.metadata(w.ledger)
    story.release(*held)
    story.pass_time(2_000)
    story.reconnect(a)
    story.pass_time(5_000)
    assert story.metadata(w.ledger) == after
    assert a.worker.counts["members replaced"] == 0
    story.finish()


def two_workers_share_the_ledgers() -> None:
    """Each takes those that the other has not locked."""
    story = Story(5)
    ledgers = []
    for _ in range(4):
        w = written_anew(story, len(ledgers))
        ledgers.append(w.ledger)
    story.kill(1)
    workers = [story.replicator(), story.replicator()]
    story.until(lambda: all(B1 not in story.metadata(each).bookies for each in ledgers))
    story.until(lambda: not any(is_locked(story, each) for each in ledgers))
    assert sum(a.worker.counts["members replaced"] for a in workers) == 4, "nothing is copied twice"
    assert sum(a.auditor.is_auditor for a in workers) == 1
    story.finish()


def written_anew(story: Story, number: int, *ensemble: int) -> StoryWriter:
    w = story.writer(*(ensemble or (1, 2, 3)))
    w.append(f"{number}.a", f"{number}.b")
    story.until(lambda: w.is_acknowledged(f"{number}.a", f"{number}.b"))
    closed(story, w)
    return w


def an_entry_with_one_copy_is_lost_with_its_bookie() -> None:
    """1/1/1: there is nothing to copy from. It is said once, and tried again when the bookie is back."""
    story = Story(3)
    w = story.writer(1, quorums=(1, 1, 1))
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    closed(story, w)
    story.kill(1)
    a = story.replicator()
    story.until(lambda: a.worker.counts["losses"] == 1)
    story.pass_time(10_000)
    assert a.worker.counts["losses"] == 1
    assert record(story, w.ledger) is not None
    story.start(1)
    repaired(story, a, w)
    assert story.metadata(w.ledger).bookies == {B1}
    story.finish()


# ------------------------------------------------------------------------------------------------------------ auditors


def the_auditor_goes_and_another_one_follows() -> None:
    """The one that waited watches the znode of the one that goes."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    candidates = [story.replicator(), story.replicator()]
    story.until(lambda: any(each.auditor.is_auditor for each in candidates))
    story.pass_time(1_000)
    a, a2 = sorted(candidates, key=lambda each: not each.auditor.is_auditor)
    assert not a2.auditor.is_auditor
    story.kill_client(a)
    story.until(lambda: a2.auditor.is_auditor)
    story.kill(1)
    repaired(story, a2, w)
    story.finish()


def a_bookie_that_comes_back_in_time_is_not_lost() -> None:
    """The delay is 60 s; b1 is restarted within it."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    at_once(story, write_delay(ROOT, 60))
    a = story.replicator()
    story.until(lambda: a.auditor.counts["searches"] > 0)
    story.kill(1)
    story.until(lambda: a.auditor.lost_bookies == {B1})
    story.pass_time(30_000)
    story.start(1)
    story.until(lambda: not a.auditor.lost_bookies)
    story.pass_time(60_000)
    assert a.auditor.counts["ledgers marked"] == 0
    story.kill(1)
    story.until(lambda: a.auditor.counts["ledgers marked"] == 1, 120_000)
    repaired(story, a, w)
    story.finish()


def a_bookie_is_lost_that_the_auditor_never_saw() -> None:
    """b4 comes, gets a ledger, and goes, while the auditor hears nothing: a check of all ledgers sees it named."""
    story = Story(4)
    story.kill(4)
    story.pass_time(10_000)
    a = story.replicator(ledgers_check_ms=1_000)
    story.until(lambda: a.auditor.counts["searches"] > 0)
    story.cut(a)
    story.start(4)
    w = written(story, 4, 2, 3)
    closed(story, w)
    story.kill_client(w)
    story.kill(4)
    at_once(story, read((Delete(f"{ROOT}/{AVAILABLE}/b4"),)))
    story.reconnect(a)
    repaired(story, a, w)
    assert story.metadata(w.ledger).last_fragment.ensemble == (B1, B2, B3)
    story.finish()


def two_bookies_are_lost_and_nobody_waits() -> None:
    """The delay is for restarts, of one bookie at a time."""
    story = Story(6)
    w = written(story, 1, 2, 3, 4, quorums=(4, 4, 2))
    closed(story, w)
    at_once(story, write_delay(ROOT, 10_000))
    a = story.replicator()
    story.until(lambda: a.auditor.counts["searches"] > 0)
    story.kill(1)
    story.kill(2)
    repaired(story, a, w)
    assert story.metadata(w.ledger).bookies.isdisjoint({B1, B2})
    story.finish()


def an_operator_does_not_wait() -> None:
    """The delay is long; written again as it is, it is a request to search at once."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    at_once(story, write_delay(ROOT, 10_000))
    a = story.replicator()
    story.until(lambda: a.auditor.counts["searches"] > 0)
    story.kill(1)
    story.until(lambda: a.auditor.lost_bookies == {B1})
    story.pass_time(5_000)
    assert a.auditor.counts["ledgers marked"] == 0
    at_once(story, write_delay(ROOT, 10_000))
    repaired(story, a, w)
    story.finish()


def nothing_is_done_while_it_is_disabled() -> None:
    """Neither is a lost bookie searched for, nor a record taken."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    a = story.replicator()
    story.until(lambda: a.auditor.counts["searches"] > 0)
    at_once(story, disable(ROOT))
    story.until(lambda: a.auditor.is_disabled)
    story.kill(1)
    story.pass_time(10_000)
    assert record(story, w.ledger) is None
    at_once(story, mark(ROOT, w.ledger, (B1,), 0))
    story.pass_time(10_000)
    assert not is_locked(story, w.ledger)
    assert B1 in story.metadata(w.ledger).bookies
    at_once(story, enable(ROOT))
    repaired(story, a, w)
    story.finish()


# --------------------------------------------------------------------------------------------------------- decommission


def a_bookie_is_decommissioned() -> None:
    """It must not run. Its ledgers are counted until none is left; then its cookie goes."""
    story = Story(4)
    w = written(story, 1, 2, 3)
    closed(story, w)
    tree = story.cluster.service.tree
    a = story.replicator()
    ended: list[object] = []
    progress: list[int] = []

    def steps() -> Steps[None]:
        ended.append((yield from decommission(ROOT, B1, lambda: 7, progress.append, pause_ms=500)))

    a.errand("decommission", steps)
    story.until(lambda: bool(ended))
    assert ended == [StillRegistered()]
    story.kill(1)
    story.until(lambda: tree.data(f"{ROOT}/available/b1") is None)
    cookie = tree.data(f"{ROOT}/cookies/b1")
    assert cookie is not None
    assert decode_cookie(cookie).bookie == B1
    a.errand("decommission", steps)
    story.until(lambda: len(ended) == 2)
    assert ended[1] == Decommissioned(had_cookie=True)
    assert progress[0] == 1
    assert progress[-1] == 0
    assert tree.data(f"{ROOT}/cookies/b1") is None
    assert tree.data(record_path(ROOT, w.ledger)) is None
    story.cluster.bookies.pop(1)
    story.finish()


# ------------------------------------------------------------------------------------------------------------ orphans

LOG = "orders"


def with_log(story: Story, *ledgers: int) -> None:
    """A log with these ledgers, also if there was one with others."""
    path, data = log_path(LOGS_ROOT, LOG), encode_log(LogInfo(ledgers=tuple(LedgerInfo(id=each) for each in ledgers)))

    def steps() -> Steps[None]:
        yield from read((Create(LOGS_ROOT),))
        (made,) = yield (Create(path, data),)
        if not made.ok:
            yield (Set(path, data, made.stat.version),)

    at_once(story, steps())


def checks(a: StoryReplicator) -> int:
    return a.auditor.counts["checks of orphans"]


def an_orphan_is_fenced_and_closed_and_deleted_a_day_later() -> None:
    """The log does not name the ledger of w, which sleeps and then goes on."""
    story = Story(4)
    w = story.writer(1, 2, 3, log=LOG, created_ms=0)
    w.append("a")
    story.until(lambda: w.is_acknowledged("a"))
    with_log(story)
    a = story.replicator(orphans_check_ms=1_000)
    story.until(lambda: story.metadata(w.ledger).is_closed)
    assert story.last(w.ledger) == 0
    w.append("b")
    story.until(lambda: "b" in w.outcomes)
    assert not w.is_acknowledged("b")
    done = checks(a)
    story.until(lambda: checks(a) >= done + 3)
    assert not story.judge.of(w.ledger).is_deleted
    with patch.object(sweep, "FENCED_MS", 5_000):
        story.until(lambda: a.auditor.counts["orphans deleted"] == 1)
    assert story.cluster.service.tree.data(ledger_path(ROOT, w.ledger)) is None
    assert a.auditor.counts["orphans closed"] == 1
    story.finish()


def a_ledger_that_its_log_names_is_kept_and_so_is_one_of_nobody() -> None:
    story = Story(4)
    w, other = story.writer(1, 2, 3, log=LOG, created_ms=0), story.writer(2, 3, 4, created_ms=0)
    with_log(story, w.ledger)
    a = story.replicator(orphans_check_ms=1_000)
    with patch.object(sweep, "FENCED_MS", 0):
        story.until(lambda: checks(a) >= 3)
    w.append("a")
    other.append("b")
    story.until(lambda: w.is_acknowledged("a") and other.is_acknowledged("b"))
    story.finish()


def orphans_are_closed_by_the_next_auditor_if_the_first_one_dies() -> None:
    """Two orphans; the bookies of one do not answer the first auditor."""
    story = Story(5)
    w, w2 = story.writer(1, 2, 3, log=LOG, created_ms=0), story.writer(3, 4, 5, log=LOG, created_ms=0)
    a = story.replicator(orphans_check_ms=1_000)
    held = [story.hold(a, number) for number in (1, 2, 3)]
    story.until(lambda: any(hold.messages for hold in held))
    story.replicator(orphans_check_ms=1_000)
    story.kill_client(a)
    story.until(lambda: story.metadata(w.ledger).is_closed and story.metadata(w2.ledger).is_closed)
    story.finish()
