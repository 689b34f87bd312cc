"""Stories of managed ledgers with two owners, by their numbers in docs/explanation/ledgers.md: what has to happen in
each. a is the old owner, b the new one.

Not here: what one owner decides alone (tests/ledger/managed).
"""

from __future__ import annotations

from typing import Any

from tests.simulator.ledgers.log_story import NAME, LogStory, StoryOwner
from tests.simulator.ledgers.story import is_add, is_fence
from zab.coordination.operations import Exists, Multi, Set
from zab.ledger.managed.cursor_events import CursorAcknowledge, CursorFlush, CursorMark, CursorOpen, CursorOpened
from zab.ledger.managed.cursor_state import StoredCursor, decode_cursor
from zab.ledger.managed.events import (
    Done,
    Failed,
    LogAppended,
    LogAppendUnknown,
    LogClose,
    LogEnded,
    LogNotAppended,
    LogReason,
    LogRoll,
    LogTrim,
    OwnerState,
)
from zab.ledger.managed.log_info import Position, cursor_path, log_path
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.reader.events import ReadDone
from zab.ledger.recovery.events import Recovered
from zab.ledger.writer.settings import WriterSettings
from zab.simulator.ledgers.cluster import ROOT
from zab.simulator.ledgers.log_owner import LOGS

UNWATCHED = {"watches": False}
"""The list is not watched, so that an old owner notices nothing by itself."""


def is_list_write(operation: Any) -> bool:
    """A write of a list, alone or with others."""
    parts = operation.parts if isinstance(operation, Multi) else (operation,)
    return any(isinstance(each, Set) and each.path == log_path(LOGS, NAME) for each in parts)


def is_roll(operation: Any) -> bool:
    """A ledger's end together with the list."""
    return is_list_write(operation) and len(operation.parts) == 3


def _two_owners(**settings: Any) -> tuple[LogStory, StoryOwner, StoryOwner]:
    """a has the log, with one entry."""
    story = LogStory(5, **settings)
    a, b = story.owner(), story.owner()
    a.take_over()
    a.write("before")
    return story, a, b


def m1_an_owner_that_sleeps_with_pending_appends() -> None:
    """a's appends have not reached any bookie; b takes over; a wakes up, and they are sent."""
    story, a, b = _two_owners(log=UNWATCHED)
    holds = [story.hold(a, number, is_add) for number in story.cluster.bookies]
    a.append("x", "y")
    story.until(lambda: sum(len(hold.messages) for hold in holds) == 6)
    b.take_over()
    b.write("after")
    story.release(*holds)
    story.until(lambda: a.state is OwnerState.FENCED)
    first = a.position("before")
    wanted = [LogAppendUnknown(Position(first.ledger, entry), LogReason.FENCED) for entry in (1, 2)]
    assert [a.outcomes["x"], a.outcomes["y"]] == wanted
    ended = a.events[-1]
    assert isinstance(ended, LogEnded)
    assert [each.entry for each in ended.unknown] == [1, 2]
    story.finish()
    assert story.texts() == ["before", "after"]


def m1_an_owner_that_sleeps_with_appends_that_one_bookie_has() -> None:
    """As before, but recovery finds x: it is in the log once, where a would have got it."""
    story, a, b = _two_owners(log=UNWATCHED)
    ensemble = [int(name[1:]) for name in story.metadata(a.ledger).last_fragment.ensemble]
    holds = [story.hold(a, number, is_add) for number in ensemble[1:]]
    a.append("x")
    story.until(lambda: bool(story.copies(a.ledger, 1)))
    old = a.ledger
    b.take_over()
    b.write("after")
    story.release(*holds)
    story.until(lambda: a.state is OwnerState.FENCED)
    assert a.outcomes["x"] == LogAppendUnknown(Position(old, 1), LogReason.FENCED)
    story.finish()
    assert story.texts() == ["before", "x", "after"]


def m2_a_fenced_owner_rolls_before_the_new_one_has_a_ledger() -> None:
    """b has claimed, and fences a's ledger; its next multi waits. a sees FENCED, and wants another ledger."""
    story, a, b = _two_owners(log=UNWATCHED)
    ensemble = [int(name[1:]) for name in story.metadata(a.ledger).last_fragment.ensemble]
    holds = [story.hold(a, number, is_add) for number in ensemble[1:]]
    a.append("x")
    story.until(lambda: bool(story.copies(a.ledger, 1)))
    b.take_over(wait=False)
    story.until(lambda: b.state is OwnerState.RECOVERING)
    waiting = story.hold_writes(b, is_list_write)
    story.until(lambda: bool(waiting.waiting))
    story.release(*holds)
    story.until(lambda: "x" in a.outcomes)
    waiting.release()
    story.until(lambda: OwnerState.OPEN in (a.state, b.state))
    story.finish()
    assert isinstance(a.outcomes["x"], LogAppendUnknown)
    assert story.texts() == ["before", "x"]


def m3_a_claim_before_a_roll_is_written() -> None:
    """a's roll waits while b claims: a's multi is refused as a whole, and its ledger is b's to recover."""
    story, a, b = _two_owners(log=UNWATCHED)
    old, rolling = a.ledger, story.hold_writes(a, is_roll)
    a.ask(LogRoll("roll"))
    story.until(lambda: bool(rolling.waiting))
    b.take_over()
    rolling.release()
    story.until(lambda: a.state is OwnerState.FENCED)
    assert a.outcomes["roll"] == Failed(LogReason.FENCED)
    assert [each.id for each in story.log().ledgers] == [old, b.ledger]
    story.finish()


def m3_a_roll_before_a_claim_is_written() -> None:
    """b's claim waits while a rolls: b is refused, reads the list again, and recovers a's new ledger."""
    story, a, b = _two_owners(log=UNWATCHED)
    claiming = story.hold_writes(b, is_list_write)
    b.take_over(wait=False)
    story.until(lambda: bool(claiming.waiting))
    assert a.call(LogRoll("roll")) == Done()
    a.write("rolled")
    claiming.release()
    story.until(lambda: b.state is OwnerState.OPEN)
    story.until(lambda: story.metadata(a.position("rolled").ledger).is_closed)
    story.finish()
    assert story.texts() == ["before", "rolled"]


def m4_the_answer_to_a_roll_is_lost() -> None:
    """a's multi is done, and a is not told; b claims. a's epoch is over, though the list names its new ledger."""
    story, a, b = _two_owners(log=UNWATCHED)
    before = story.log().ledgers
    a.ask(LogRoll("roll"))
    story.until(lambda: story.log().ledgers != before)
    story.cut(a)
    new = story.log().ledgers[-1].id
    b.take_over()
    story.reconnect(a)
    a.append("late")
    story.until(lambda: a.state is OwnerState.FENCED and "late" in a.outcomes)
    assert isinstance(a.outcomes["late"], LogNotAppended | LogAppendUnknown)
    assert story.judge.of(new).is_deleted, "it was empty"
    story.finish()
    assert story.texts() == ["before"]


def m5_a_third_owner_after_one_that_dies_while_it_recovers() -> None:
    """b has claimed, and dies in T3; c claims."""
    story, a, b = _two_owners(log=UNWATCHED)
    c = story.owner()
    fences = [story.hold(b, number, is_fence) for number in story.cluster.bookies]
    b.take_over(wait=False)
    story.until(lambda: sum(len(hold.messages) for hold in fences) == 3)
    story.kill_client(b)
    c.take_over()
    a.append("x")
    story.until(lambda: a.state is OwnerState.FENCED)
    assert story.log().epoch == 3
    story.finish()
    assert story.texts() == ["before"]


def m6_a_new_owner_dies_before_it_recovers() -> None:
    """b has claimed, and dies. a goes on with its ledger, and fails at the next roll; then c opens the log."""
    story, a, b = _two_owners(log=UNWATCHED)
    fences = [story.hold(b, number, is_fence) for number in story.cluster.bookies]
    b.take_over(wait=False)
    story.until(lambda: any(hold.messages for hold in fences) or story.log().epoch == 2)
    story.kill_client(b)
    for hold in fences:
        story.forget(hold)
    if story.metadata(a.ledger).is_open:
        a.write("still")
    a.ask(LogRoll("roll"))
    story.until(lambda: a.state is OwnerState.FENCED)
    c = story.owner()
    c.take_over()
    story.finish()
    assert story.texts()[0] == "before"


def m6_an_owner_that_watches_notices_a_claim_at_once() -> None:
    """It appends nothing, and no ledger is rolled."""
    story, a, b = _two_owners()
    fences = [story.hold(b, number, is_fence) for number in story.cluster.bookies]
    b.take_over(wait=False)
    story.until(lambda: a.state is OwnerState.FENCED)
    story.release(*fences)
    story.until(lambda: b.state is OwnerState.OPEN)
    story.finish()


def m7_the_ledger_of_the_old_owner_is_empty() -> None:
    """b drops it: it leaves the list, and its znode goes. a, which sleeps, sends its first entries to it."""
    story = LogStory(5, log=UNWATCHED)
    a, b = story.owner(), story.owner()
    a.take_over()
    old = a.ledger
    holds = [story.hold(a, number, is_add) for number in story.cluster.bookies]
    a.append("x")
    story.until(lambda: sum(len(hold.messages) for hold in holds) == 3)
    b.take_over()
    assert story.judge.of(old).is_deleted
    b.write("after")
    story.release(*holds)
    story.until(lambda: a.state is OwnerState.FENCED)
    assert isinstance(a.outcomes["x"], LogAppendUnknown)
    story.finish()
    assert story.texts() == ["after"]


def m7_bookies_have_forgotten_the_empty_ledger() -> None:
    """As before; a wakes up after the bookies have collected the ledger."""
    story = LogStory(3, log=UNWATCHED, gc_ms=300)
    a, b = story.owner(), story.owner()
    a.take_over()
    old = a.ledger
    holds = [story.hold(a, number, is_add) for number in story.cluster.bookies]
    a.append("x")
    story.until(lambda: sum(len(hold.messages) for hold in holds) == 3)
    b.take_over()
    story.until(lambda: not any(story.knows(number, old) for number in (1, 2, 3)))
    b.write("after")
    story.release(*holds)
    story.until(lambda: "x" in a.outcomes)
    assert isinstance(a.outcomes["x"], LogAppendUnknown)
    story.until(lambda: a.state is OwnerState.FENCED)
    story.finish()
    assert story.texts() == ["after"]


def m8_an_owner_trims_while_another_one_claims() -> None:
    """a's trim waits while b claims: nothing is deleted."""
    story, a, b = _two_owners(log={**UNWATCHED, "retention_ms": 0, "trim_ms": 1_000_000})
    trimming = story.hold_writes(a, lambda each: is_list_write(each) and not is_roll(each))
    a.call(LogRoll("roll"))
    story.until(lambda: bool(trimming.waiting))
    b.take_over(settings={"retention_ms": None})
    trimming.release()
    story.until(lambda: a.state is OwnerState.FENCED)
    ledger = a.position("before").ledger
    assert not story.judge.of(ledger).is_deleted
    story.finish()
    assert story.texts() == ["before"]


def m8_a_cursor_is_made_while_ledgers_are_trimmed() -> None:
    """The trim has been decided without the cursor: the cursor begins after it."""
    story, a, _ = _two_owners(log={**UNWATCHED, "retention_ms": 0, "trim_ms": 1_000_000})
    path = ledger_path(ROOT, a.ledger)
    looking = story.hold_writes(a, lambda each: isinstance(each, Exists) and each.path == path)
    a.call(LogRoll("roll"))
    story.until(lambda: bool(looking.waiting))
    a.ask(CursorOpen("open", "c"))
    story.pass_time(1)
    looking.release()
    story.until(lambda: "open" in a.outcomes)
    assert story.judge.of(a.position("before").ledger).is_deleted
    assert a.outcomes["open"] == CursorOpened(story.log().first, is_new=True)
    story.finish()


def m9_a_repair_closes_the_ledger_of_an_idle_owner() -> None:
    """Nobody claims: a finds the end of its ledger, and goes on in the next one."""
    story, a, _ = _two_owners()
    r = story.recoverer()
    old = a.ledger
    r.recover(old)
    story.until(lambda: old in r.ended)
    assert isinstance(r.ended[old], Recovered)
    a.write("x")
    assert a.state is OwnerState.OPEN
    assert a.position("x").ledger > old
    story.finish()
    assert story.texts() == ["before", "x"]


def m9_a_repair_closes_a_ledger_with_appends_that_one_bookie_has() -> None:
    """x is found, and counts as appended; y is not, and is appended to the next ledger. Both once, in order."""
    story, a, _ = _two_owners()
    ensemble = [int(name[1:]) for name in story.metadata(a.ledger).last_fragment.ensemble]
    r, old = story.recoverer(), a.ledger
    holds = [story.hold(a, number, is_add) for number in ensemble[1:]]
    a.append("x")
    story.until(lambda: bool(story.copies(old, 1)))
    holds.append(story.hold(a, ensemble[0], is_add))
    a.append("y")
    story.until(lambda: bool(holds[-1].messages))
    r.recover(old)
    story.until(lambda: old in r.ended)
    story.release(*holds)
    story.until(lambda: {"x", "y"} <= set(a.outcomes))
    story.finish()
    assert a.position("x") == Position(old, 1)
    assert a.position("y").ledger > old
    assert story.texts() == ["before", "x", "y"]


def m9_an_entry_is_consumed_while_a_repair_ends_its_ledger() -> None:
    """a's writer has ended, and a does not know where its ledger ends; what is consumed there is stored."""
    story, a, _ = _two_owners()
    r, old = story.recoverer(), a.ledger
    a.call(CursorOpen("open", "c"))
    waiting = story.hold_writes(a, lambda _operation: True)
    r.recover(old)
    story.until(lambda: old in r.ended)
    a.append("x")
    story.until(lambda: a.state is OwnerState.ROLLING)
    a.ask(CursorAcknowledge("c", *a.position("before"), a.position("before").entry), CursorFlush("flush", "c"))
    waiting.release()
    story.until(lambda: "flush" in a.outcomes and "x" in a.outcomes)
    assert a.outcomes["flush"] == Done()
    assert a.owner is not None
    assert a.owner.cursors.state("c").covers(a.position("before"))
    story.finish()


def m10_a_claim_after_an_owner_has_found_the_end_of_its_ledger() -> None:
    """A repair closes a's ledger; b claims between a's look at the list and a's multi: a appends nothing again."""
    story, a, b = _two_owners(log=UNWATCHED)
    ensemble = [int(name[1:]) for name in story.metadata(a.ledger).last_fragment.ensemble]
    r, old = story.recoverer(), a.ledger
    holds = [story.hold(a, number, is_add) for number in ensemble]
    a.append("x")
    story.until(lambda: all(hold.messages for hold in holds))
    r.recover(old)
    story.until(lambda: old in r.ended)
    rolling = story.hold_writes(a, is_list_write)
    story.release(*holds)
    story.until(lambda: bool(rolling.waiting))
    b.take_over()
    rolling.release()
    story.until(lambda: a.state is OwnerState.FENCED)
    assert a.outcomes["x"] == LogNotAppended(LogReason.FENCED)
    story.finish()
    assert story.texts() == ["before"]


def m11_a_cursor_of_the_old_owner_is_written_after_a_takeover() -> None:
    """a's cursor has a ledger; b takes over. What a acknowledges afterwards is stored nowhere."""
    story, a, b = _two_owners(log=UNWATCHED)
    a.write("1", "2", "3")
    assert isinstance(a.call(CursorOpen("open", "billing")), CursorOpened)
    mark = a.position("1")
    a.ask(CursorMark("billing", mark))
    assert a.call(CursorFlush("flush", "billing")) == Done()
    b.take_over()
    assert b.owner is not None
    assert b.owner.cursors.state("billing").mark == mark
    a.ask(CursorMark("billing", a.position("3")))
    assert a.call(CursorFlush("late", "billing")) == Failed(LogReason.FENCED)
    assert a.state is OwnerState.FENCED
    b.ask(CursorAcknowledge("billing", mark.ledger, mark.entry + 2, mark.entry + 2))
    assert b.call(CursorFlush("flush", "billing")) == Done()
    assert list(b.owner.cursors.state("billing").ranges) == [(mark.ledger, 3, 3)]
    assert b.call(LogClose("close")) == Done()
    assert story.cluster.service.tree.data(cursor_path(LOGS, NAME, "billing")) is not None
    c = story.owner()
    c.take_over()
    assert c.owner is not None
    assert c.owner.cursors.state("billing").mark == mark
    assert list(c.owner.cursors.state("billing").ranges) == [(mark.ledger, 3, 3)]
    story.finish()


def m11_a_cursor_in_a_znode_is_written_after_a_takeover() -> None:
    """a's cursor has no ledger yet; b takes over, and a stores what is consumed for the first time."""
    story, a, b = _two_owners(log=UNWATCHED)
    a.write("1", "2", "3")
    assert isinstance(a.call(CursorOpen("open", "billing")), CursorOpened)
    b.take_over()
    a.ask(CursorMark("billing", a.position("3")))
    assert a.call(CursorFlush("late", "billing")) == Failed(LogReason.FENCED)
    assert a.state is OwnerState.FENCED
    c = story.owner()
    c.take_over()
    assert c.owner is not None
    assert c.owner.cursors.state("billing").mark < a.position("1")
    story.finish()


def m12_two_contenders_claim_in_turn() -> None:
    """Each claim fences the other; one of them gets through."""
    story, a, b = _two_owners()
    c = story.owner()
    b.take_over(wait=False)
    c.take_over(wait=False)
    story.until(lambda: OwnerState.OPEN in (b.state, c.state) and OwnerState.FENCED in (b.state, c.state))
    winner = b if b.state is OwnerState.OPEN else c
    winner.write("after")
    assert a.state is OwnerState.FENCED
    story.finish()
    assert story.texts() == ["before", "after"]


def m14_the_clock_of_the_new_owner_is_an_hour_off() -> None:
    """No rule but retention uses it."""
    story, _, b = _two_owners()
    b.take_over()
    assert b.owner is not None
    b.owner.wall_offset_ms -= 3_600_000
    b.write("after")
    b.call(LogRoll("roll"))
    b.write("rolled")
    story.finish()
    assert story.texts() == ["before", "after", "rolled"]


def m15_a_trim_notices_that_another_owner_has_the_log() -> None:
    """The owner is fenced as a whole, with its appends."""
    story, a, b = _two_owners(log={**UNWATCHED, "retention_ms": 10_000_000})
    a.call(LogRoll("roll"))
    a.write("x")
    b.take_over()
    assert a.owner is not None
    a.owner.wall_offset_ms += 20_000_000
    assert a.call(LogTrim("trim")) == Failed(LogReason.FENCED)
    assert a.state is OwnerState.FENCED
    a.append("late")
    story.until(lambda: "late" in a.outcomes)
    assert a.outcomes["late"] == LogNotAppended(LogReason.FENCED)
    story.finish()
    assert story.texts() == ["before", "x"]


def m13_a_reader_follows_a_ledger_while_its_owner_changes() -> None:
    """It sees what is confirmed, then the end, and goes on in b's ledger: in order, without a gap, nothing twice."""
    story, a, b = _two_owners(log=UNWATCHED)
    ensemble = [int(name[1:]) for name in story.metadata(a.ledger).last_fragment.ensemble]
    reader, old = story.reader(), a.ledger
    reader.follow(old)
    holds = [story.hold(a, number, is_add) for number in ensemble[1:]]
    a.append("x")
    story.until(lambda: bool(story.copies(old, 1)))
    assert reader.found in ([], [0])
    b.take_over()
    story.until(lambda: bool(reader.outcomes))
    assert reader.outcomes == [ReadDone(1)]
    assert reader.found == [0, 1]
    b.write("after")
    reader.follow(b.ledger)
    b.write("more")
    story.until(lambda: len(reader.found) >= 3)
    story.release(*holds)
    story.finish()
    assert story.texts() == ["before", "x", "after", "more"]


def appends_that_wait_for_room_keep_their_order_over_a_roll() -> None:
    """The writer has room for one; the bookies are gone before the others are sent, and the ledger is given up."""
    writer = WriterSettings(add_timeout_ms=500, reconnect_ms=0, coalesce_ms=0, pending_entries_max=1)
    story = LogStory(3, log={"writer": writer})
    a = story.owner()
    a.take_over()
    for number in (1, 2):
        story.kill(number)
    a.append("1", "2", "3")
    story.until(lambda: a.state is OwnerState.ROLLING)
    a.append("4")
    for number in (1, 2):
        story.start(number)
    story.until(lambda: set("1234") <= set(a.outcomes))
    story.finish()
    assert story.texts() == list("1234")


def a_session_expires_while_its_owner_rolls() -> None:
    """The multi is done, and the session is over before the answer: the owner finds its new ledger, and goes on."""
    story, a, _ = _two_owners()
    before = story.log().ledgers
    a.ask(LogRoll("roll"))
    story.until(lambda: story.log().ledgers != before)
    story.cut(a)
    story.pass_time(story.profile.session_timeout_ms * 2)
    story.reconnect(a)
    story.until(lambda: "roll" in a.outcomes)
    assert a.outcomes["roll"] == Done()
    assert a.ledger == story.log().ledgers[-1].id
    a.write("x")
    story.finish()
    assert story.texts() == ["before", "x"]


def bookies_are_away_while_an_owner_rolls() -> None:
    """Appends wait; they are in the next ledger, in order, when the bookies are back."""
    story, a, _ = _few_bookies()
    for number in (2, 3):
        story.kill(number)
    story.pass_time(10_000)
    a.append("x", "y")
    story.until(lambda: a.state is OwnerState.ROLLING)
    a.append("z")
    story.pass_time(2_000)
    assert not {"x", "y", "z"} & set(a.outcomes)
    for number in (2, 3):
        story.start(number)
    story.until(lambda: {"x", "y", "z"} <= set(a.outcomes))
    assert all(isinstance(a.outcomes[text], LogAppended) for text in "xyz")
    story.finish()
    assert story.texts() == ["before", "x", "y", "z"]


def _few_bookies() -> tuple[LogStory, StoryOwner, StoryOwner]:
    story = LogStory(3)
    a, b = story.owner(), story.owner()
    a.take_over()
    a.write("before")
    return story, a, b


def m11_a_cursor_whose_znode_says_more_than_its_ledger() -> None:
    """a's cursor gets its ledger while more is consumed: the znode that names the ledger has that, too. a ends before
    the ledger has it; b finds it."""
    story, a, b = _two_owners(log={"cursor_ms": 600_000})
    a.write("x", "y")
    a.call(CursorOpen("open", "c"))
    holds = [story.hold(a, number, is_add) for number in story.cluster.bookies]
    a.ask(CursorAcknowledge("c", *a.position("before"), a.position("before").entry))
    story.until(lambda: sum(len(hold.messages) for hold in holds) == 3)
    a.ask(CursorAcknowledge("c", *a.position("y"), a.position("y").entry))
    story.release(*holds)
    story.until(lambda: _stored(story).ledger >= 0)
    a.machine.stop(with_power=False)
    b.take_over()
    opened = b.call(CursorOpen("open", "c"))
    assert opened == CursorOpened(a.position("before"), is_new=False)
    assert b.owner is not None
    assert [b.owner.cursors.state("c").covers(a.position(text)) for text in ("before", "x", "y")] == [True, False, True]
    story.finish()


def _stored(story: LogStory) -> StoredCursor:
    data = story.cluster.service.tree.data(cursor_path(LOGS, NAME, "c"))
    assert data is not None
    return decode_cursor(data)
