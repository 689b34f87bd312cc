"""Stories of ledgers that lost data or hung somewhere, by their numbers in docs/explanation/ledgers.md: what has to
happen in each. w is the writer, r a recoverer.

Not here: stories in which a single core decides alone (tests/ledger).
"""

from __future__ import annotations

from tests.simulator.ledgers.story import Story, is_add, is_any, is_fence, is_read, is_write_back
from zab.ledger.recovery.events import Recovered, RecoveryAborted
from zab.ledger.writer.events import AppendUnknown, LedgerClosed, Reason, Unresolved
from zab.simulator.ledgers.losses import why_blocked


def s1_an_entry_gets_its_last_copy_while_it_is_read() -> None:
    """w sends e to nobody yet. r fences b1; e reaches b2; r fences b2; its fence to b3 is lost. r reads e: b1 no, b3
    no. e reaches b3."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    adds = {number: story.hold(w, number, is_add) for number in (1, 2, 3)}
    w.append("e")
    story.until(lambda: all(hold.messages for hold in adds.values()))
    fences = {number: story.hold(r, number, is_fence) for number in (2, 3)}
    r.recover(w.ledger)
    story.until(lambda: story.is_fenced(1, w.ledger))
    story.release(adds[2])
    story.until(lambda: story.copies(w.ledger, 0) == {2})
    read = story.hold(r, 2, is_read)
    story.release(fences[2])
    story.until(lambda: bool(read.messages))
    story.pass_time(20)
    story.release(adds[3])
    story.pass_time(20)
    story.forget(fences[3])
    story.release(read, adds[1])
    story.until(lambda: w.ledger in r.ended and "e" in w.outcomes)
    assert isinstance(w.outcomes["e"], AppendUnknown)
    assert story.last(w.ledger) == -1
    story.finish()


def s2_a_last_fragment_without_entries() -> None:
    """Fragments from 0 and 2; nothing was stored in the last one, and a bookie of it fails."""
    story = Story(6)
    w, r = story.writer(1, 2, 3), story.recoverer()
    w.append("a", "b")
    story.until(lambda: w.is_acknowledged("a", "b"))
    w.lose(1)
    story.until(lambda: len(story.metadata(w.ledger).fragments) == 2)
    story.hold(r, 2, is_write_back)
    r.recover(w.ledger)
    story.until(lambda: w.ledger in r.ended)
    assert isinstance(r.ended[w.ledger], Recovered), r.ended
    assert story.last(w.ledger) == 1
    assert not [request for _, _, request in story.sent if is_write_back(request)], "nothing is to be written back"
    story.finish()


def s3_a_bookie_that_cannot_say_whether_it_has_an_entry() -> None:
    """e is on b1 and b2; b3 never had it, b1 is down, b2 is slow."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.kill_client(w)
    story.kill(1)
    read = story.hold(r, 2, is_read)
    r.recover(w.ledger)
    story.until(lambda: bool(read.messages))
    story.pass_time(500)
    assert not story.metadata(w.ledger).is_closed
    story.release(read)
    story.until(lambda: w.ledger in r.ended)
    assert story.last(w.ledger) == 0
    story.finish()


def s4_a_bookie_whose_disk_was_replaced() -> None:
    """e is on b1 and b2. The disk of b2 is lost; b3 never had e, b1 is slow."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.kill_client(w)
    story.lose_disk(2)
    read = story.hold(r, 1, is_read)
    r.recover(w.ledger)
    story.until(lambda: bool(read.messages))
    story.pass_time(2000)
    assert not story.metadata(w.ledger).is_closed
    story.release(read)
    story.until(lambda: w.ledger in r.ended)
    assert story.last(w.ledger) == 0
    story.until(lambda: story.cluster.bookie(2) is not None)
    assert story.bookie(2).id == "b2-1"
    story.finish()


def a_ledger_that_lost_too_many_disks_is_not_closed() -> None:
    """e is on b1, b2 and b3; the disks of b1 and b2 are lost. Unknown is not absent: nothing is cut off."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.kill_client(w)
    known = story.judge.of(w.ledger)
    for number in (1, 2):
        assert why_blocked(known, story.judge.lost) is None
        story.lose_disk(number)
    r.recover(w.ledger)
    story.until(lambda: w.ledger in r.ended)
    aborted = r.ended[w.ledger]
    assert isinstance(aborted, RecoveryAborted)
    assert set(aborted.unknown) == {"b1", "b2"}
    assert not story.metadata(w.ledger).is_closed
    assert why_blocked(known, story.judge.lost) is not None


def s5_bookies_lose_their_power_before_their_fences() -> None:
    """e is on b2. r asks b1, whose disk is slow, and b3; both lose their power. e reaches them."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    first, third = story.hold(w, 1, is_add), story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: story.copies(w.ledger, 0) == {2})
    story.slow_disk(1, 500)
    held = story.hold(r, 2, is_any)
    r.recover(w.ledger)
    story.until(lambda: story.is_fenced(1, w.ledger) and story.is_fenced(3, w.ledger))
    story.pass_time(100)
    for number in (1, 3):
        story.power(number)
        story.slow_disk(number, 0)
        story.start(number)
    story.release(first, third)
    story.until(lambda: "e" in w.outcomes)
    story.release(held)
    story.until(lambda: w.ledger in r.ended)
    story.finish()


def s6_bookies_fail_while_the_coordination_service_is_away() -> None:
    """w replaces two of them, and cannot say so in the metadata."""
    story = Story(6)
    w = story.writer(1, 2, 3)
    third = story.hold(w, 3, is_add)
    story.cut(w)
    w.lose(1, 2)
    story.pass_time(20)
    w.append("e")
    story.pass_time(500)
    assert not w.is_acknowledged("e")
    story.reconnect(w)
    story.until(lambda: w.is_acknowledged("e"))
    story.release(third)
    story.finish()


def s7_entries_are_complete_while_their_fragment_changes() -> None:
    """b1 and b2 fail, and have entries 5 and 6; w writes a fragment from 5 on. Their answers come meanwhile."""
    story = Story(6)
    w = story.writer(1, 2, 3)
    w.append("0", "1", "2", "3", "4")
    story.until(lambda: w.is_acknowledged("4") and story.copies(w.ledger, 4) == {1, 2, 3})
    story.pass_time(20)
    third = story.hold(w, 3, is_add)
    answers = [story.hold_answers(w, number) for number in (1, 2)]
    w.append("5", "6")
    story.until(lambda: all(len(hold.messages) == 2 for hold in answers))
    story.cut(w)
    w.lose(1, 2)
    story.pass_time(20)
    story.release(*answers)
    story.pass_time(20)
    story.reconnect(w)
    story.until(lambda: len(story.metadata(w.ledger).fragments) == 2)
    assert story.metadata(w.ledger).last_fragment.first == 5
    story.release(third)
    story.until(lambda: w.is_acknowledged("5", "6"))
    story.finish()


def s9_a_recovery_that_dies_while_it_writes_back() -> None:
    """e is on b1 and b2. r moves copies from b1 and b3 to b4 and b5, and dies before these have one. Another one begins
    when b1 is down."""
    story = Story(5)
    w, r = story.writer(1, 2, 3), story.recoverer()
    story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.kill_client(w)
    held = [story.hold(r, number, is_write_back) for number in (1, 3, 4, 5)]
    r.recover(w.ledger)
    story.until(lambda: all(hold.messages for hold in held))
    story.pass_time(20)
    story.kill_client(r)
    assert [each.ensemble for each in story.metadata(w.ledger).fragments] == [("b1", "b2", "b3")]
    again = story.recoverer()
    story.kill(1)
    again.recover(w.ledger)
    story.until(lambda: w.ledger in again.ended)
    assert story.last(w.ledger) == 0
    story.finish()


def s10_a_recovery_goes_on_after_it_moved_its_copies() -> None:
    """Entries 0 to 2 are on b1 and b2, which take no copies: r moves those of entry 0 to b4 and b5, and reads on."""
    story = Story(5)
    w, r = story.writer(1, 2, 3), story.recoverer()
    story.hold(w, 3, is_add)
    w.append("a", "b", "c")
    story.until(lambda: w.is_acknowledged("a", "b", "c"))
    story.kill_client(w)
    for number in (1, 2):
        story.hold(r, number, is_write_back)
    r.recover(w.ledger)
    story.until(lambda: w.ledger in r.ended)
    assert story.last(w.ledger) == 2
    assert set(story.metadata(w.ledger).last_fragment.ensemble) == {"b3", "b4", "b5"}
    story.finish()


def s11_a_writer_that_was_asleep_while_its_ledger_was_deleted() -> None:
    """r recovers the empty ledger and deletes it; bookies collect it; w wakes and appends."""
    story = Story(3, gc_ms=300)
    w, r = story.writer(1, 2, 3), story.recoverer()
    w.stand_still()
    r.recover(w.ledger)
    story.until(lambda: w.ledger in r.ended and all(story.knows(number, w.ledger) for number in (1, 2, 3)))
    r.delete(w.ledger)
    story.until(lambda: not any(story.knows(number, w.ledger) for number in (1, 2, 3)))
    for number in (1, 2, 3):
        story.power(number)
        story.start(number)
    w.go_on()
    w.append("e")
    story.until(lambda: "e" in w.outcomes)
    assert isinstance(w.outcomes["e"], AppendUnknown)
    w.close()
    story.until(lambda: "resolve" in w.outcomes)
    assert w.outcomes["resolve"] == Unresolved(Reason.DELETED)
    story.finish()


def s12_the_collector_hears_of_an_outage_instead_of_a_list() -> None:
    """Rounds of collection break off, at each of their operations."""
    story = Story(3, gc_ms=300, operation_us=2_000)
    w = story.writer(1, 2, 3)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e") and story.knows(3, w.ledger))
    for _ in range(20):
        story.pass_time(307)
        story.cluster.service.lose_connections()
    assert all(story.knows(number, w.ledger) for number in (1, 2, 3))
    story.finish()


def s13_the_collector_is_served_by_a_member_that_lags() -> None:
    """Its list lacks the newest ledger, for many rounds."""
    story = Story(3, gc_ms=300, lag=20)
    story.cluster.service._rng.randint = lambda _low, high: high  # type: ignore[method-assign]
    w = story.writer(1, 2, 3)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    story.pass_time(5_000)
    assert all(story.knows(number, w.ledger) for number in (1, 2, 3))
    story.finish()


def s16_a_lac_that_readers_were_told_survives_all_bookies() -> None:
    """A reader learns of entry 1 from an explicit LAC. All bookies lose their power."""
    story = Story(3, explicit_lac_ms=50)
    w, reader = story.writer(1, 2, 3), story.reader()
    w.append("a", "b")
    reader.follow(w.ledger)
    story.until(lambda: reader.found == [0, 1])
    story.kill_client(w)
    for number in (1, 2, 3):
        story.power(number)
    for number in (1, 2, 3):
        story.start(number)
    another = story.reader()
    another.follow(w.ledger)
    story.until(lambda: another.found == [0, 1])
    story.finish()


def s20_an_entry_with_one_copy() -> None:
    """e is on b1 alone: r closes the ledger after it when it has as many copies as an entry that was acknowledged."""
    story = Story(4)
    w, r = story.writer(1, 2, 3), story.recoverer()
    for number in (2, 3):
        story.hold(w, number, is_add)
    w.append("e")
    story.until(lambda: story.copies(w.ledger, 0) == {1})
    held = [story.hold(r, number, is_write_back) for number in (2, 3)]
    denies = [story.hold(r, number, is_read) for number in (2, 3)]
    r.recover(w.ledger)
    story.until(lambda: all(hold.messages for hold in denies))
    story.pass_time(20)
    story.release(*denies)
    story.pass_time(100)
    assert not story.metadata(w.ledger).is_closed
    story.release(*held)
    story.until(lambda: w.ledger in r.ended)
    assert story.last(w.ledger) == 0
    story.power(1)
    story.finish()


def s21_two_recoverers_with_two_ends() -> None:
    """Entry 1 is on b3 alone. One recoverer does not hear of b3, and its end is 0; the other one writes it back."""
    story = Story(4)
    w = story.writer(1, 2, 3)
    one, other = story.recoverer(), story.recoverer()
    w.append("a")
    story.until(lambda: story.copies(w.ledger, 0) == {1, 2, 3})
    for number in (1, 2):
        story.hold(w, number, is_add)
    w.append("b")
    story.until(lambda: story.copies(w.ledger, 1) == {3})
    story.kill_client(w)
    story.hold(one, 3, is_any)
    reads = story.hold(one, 1, is_read)
    one.recover(w.ledger)
    story.until(lambda: bool(reads.messages))
    story.cut(one)
    story.release(reads)
    story.pass_time(50)
    reads = story.hold(other, 3, is_read)
    denies = [story.hold(other, number, is_read) for number in (1, 2)]
    other.recover(w.ledger)
    story.until(lambda: bool(reads.messages))
    story.cut(other)
    story.release(reads)
    story.until(lambda: len(story.copies(w.ledger, 1)) == 3)
    story.release(*denies)
    story.pass_time(50)
    assert not story.metadata(w.ledger).is_closed
    story.reconnect(one)
    story.until(lambda: w.ledger in one.ended)
    story.reconnect(other)
    story.until(lambda: w.ledger in other.ended)
    ends = [each.ended[w.ledger] for each in (one, other)]
    assert [isinstance(end, Recovered) and end.versioned.metadata.last for end in ends] == [0, 0]
    story.finish()


def s22_the_answer_to_a_closing_write_is_lost() -> None:
    """The write was done: its author is told that the ledger is closed, where it has closed it."""
    story = Story(3)
    w = story.writer(1, 2, 3)
    w.append("e")
    story.until(lambda: w.is_acknowledged("e"))
    w.close()
    story.until(lambda: story.metadata(w.ledger).is_closed)
    story.cluster.service.lose_connections()
    story.until(lambda: "close" in w.outcomes)
    assert w.outcomes["close"] == LedgerClosed(0, 1)
    story.finish()


def s23_an_add_that_is_sent_again_before_it_is_durable() -> None:
    """The connection with b1, whose disk is slow, breaks; w sends e again. b1 loses its power."""
    story = Story(3)
    w = story.writer(1, 2, 3)
    story.slow_disk(1, 800)
    third = story.hold(w, 3, is_add)
    w.append("e")
    story.until(lambda: story.copies(w.ledger, 0) == {2})
    story.lose_connection(w, 1)
    story.pass_time(250)
    again = [bookie for _, bookie, request in story.sent if is_add(request) and bookie == "b1"]
    assert len(again) == 2, "it is not sent again"
    story.power(1)
    story.slow_disk(1, 0)
    story.start(1)
    assert story.copies(w.ledger, 0) == {2}
    story.release(third)
    story.finish()
