"""How a writer ends, and what becomes of entries: closed, sealed, fenced, failed, resolved."""

from typing import Any

import pytest

from tests.ledger.writer.rig import B0, B1, B2, B5, ROOT, Rig
from zab.coordination.driver import Connected, Results, Suspended
from zab.coordination.operations import Result, ZooKeeperError
from zab.ledger.metadata.ledger_metadata import LedgerState
from zab.ledger.store.events import BookieLost
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import (
    Appended,
    AppendUnknown,
    CloseFailed,
    LedgerClosed,
    LedgerNotOpenError,
    NotAppended,
    Reason,
    Resolve,
    Resolved,
    Unresolved,
    WriterEnded,
    WriterState,
)
from zab.ledger.writer.writer import LedgerWriter


def some_written(**settings: Any) -> Rig:
    """Entries 0 and 1 are acknowledged, 2 and 3 are not; the coordination service answers when it is told to."""
    rig = Rig(**settings)
    rig.append("a", "b", payload=b"12345")
    rig.answer_all(B0, B1, B2)
    rig.append("c", "d", payload=b"123")
    rig.is_answering = False
    return rig


def answer(rig: Rig) -> None:
    while rig.submits:
        rig.answer_one()


# -------------------------------------------------------------------------------------------------------------- closing


def test_a_close_waits_for_what_is_pending() -> None:
    rig = some_written()
    rig.close()
    assert not rig.submits
    rig.append("e")
    assert rig.outcomes["e"] == NotAppended(Reason.CLOSED)
    rig.answer_all(B0, B1)
    answer(rig)
    assert rig.outcomes["d"] == Appended(3)
    assert rig.outcomes["close"] == LedgerClosed(3, 16)
    assert (rig.metadata.is_closed, rig.metadata.last, rig.metadata.length) == (True, 3, 16)
    assert rig.effects == [WriterEnded(WriterState.CLOSED, Reason.CLOSED)]
    assert rig.writer.deadline_ms is None


def test_a_close_waits_only_so_long() -> None:
    rig = some_written(drain_ms=500)
    rig.close()
    rig.run_until(499)
    assert not rig.submits
    rig.run_until(1)
    answer(rig)
    assert rig.outcomes["c"] == rig.outcomes["d"] == NotAppended(Reason.CLOSED)
    assert rig.outcomes["close"] == LedgerClosed(1, 10), "the bytes up to the last acknowledged entry"


def test_a_close_without_draining_gives_up_what_is_pending() -> None:
    rig = some_written()
    rig.answer_all(B0)
    rig.close(is_draining=False)
    rig.answer_all(B1)
    assert "c" not in rig.outcomes, "nothing is released once the end is being written"
    answer(rig)
    assert rig.outcomes["c"] == NotAppended(Reason.CLOSED)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)


def test_a_second_close_may_end_the_draining_of_the_first() -> None:
    rig = some_written()
    rig.close("first")
    rig.close("second", is_draining=False)
    answer(rig)
    assert rig.outcomes["first"] == rig.outcomes["second"] == LedgerClosed(1, 10)
    rig.close("third")
    assert rig.outcomes["third"] == LedgerClosed(1, 10)


def test_an_empty_ledger_is_closed() -> None:
    rig = Rig()
    rig.close()
    assert rig.outcomes == {"close": LedgerClosed(-1, 0)}


def test_a_bookie_that_fails_while_a_close_drains_is_replaced() -> None:
    rig = some_written()
    rig.close()
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer_all(B0, B2)
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(3, 16)
    assert len(rig.fragments) == 2


def test_a_close_during_a_change_comes_after_it() -> None:
    rig = some_written()
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.close(is_draining=False)
    assert len(rig.submits) == 1
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)
    assert [first for first, _ in rig.fragments] == [0, 2]


def test_waiting_appends_are_refused_by_a_close() -> None:
    rig = Rig(pending_entries_max=1)
    rig.append("a", "b")
    rig.close(is_draining=False)
    assert rig.outcomes["b"] == rig.outcomes["a"] == NotAppended(Reason.CLOSED)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_close_whose_answer_is_lost_is_decided_by_what_is_there(is_done: bool) -> None:
    """S22: its own end is no foreign one."""
    rig = some_written()
    rig.close(is_draining=False)
    rig.lose_one(is_done=is_done)
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)
    assert rig.outcomes["c"] == NotAppended(Reason.CLOSED)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_close_whose_session_ends_is_decided_by_what_is_there(is_done: bool) -> None:
    rig = some_written()
    rig.close(is_draining=False)
    rig.expire(is_done=is_done)
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)


def test_a_close_that_finds_its_own_end_written_by_another_is_a_success() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.by_other(lambda metadata: metadata.closed_at(1, 10))
    rig.close(is_draining=False)
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)
    assert rig.outcomes["c"] == NotAppended(Reason.CLOSED)
    assert rig.writer.state is WriterState.CLOSED


def test_a_close_that_finds_another_end_says_of_each_entry_whether_it_is_in_it() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.by_other(lambda metadata: metadata.closed_at(2, 13))
    rig.close(is_draining=False)
    answer(rig)
    assert rig.outcomes["close"] == CloseFailed(Reason.CLOSED_BY_OTHER, 2)
    assert rig.outcomes["c"] == Appended(2)
    assert rig.outcomes["d"] == NotAppended(Reason.CLOSED_BY_OTHER)
    assert rig.completed[-3:] == ["c", "d", "close"], "in order"
    assert rig.effects == [WriterEnded(WriterState.FENCED, Reason.CLOSED_BY_OTHER)]


def test_an_end_before_an_acknowledged_entry_is_told() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.by_other(lambda metadata: metadata.closed_at(0, 5))
    rig.close(is_draining=False)
    answer(rig)
    [ended] = rig.effects
    assert ended.detail == "it ends at 0, and entry 1 was acknowledged"


def test_a_close_that_finds_a_recovery_waits_for_its_end() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.close(is_draining=False)
    answer(rig)
    assert "close" not in rig.outcomes
    assert rig.writer.state is WriterState.FENCED
    rig.close("late")
    rig.by_other(lambda metadata: metadata.closed_at(2, 13))
    answer(rig)
    assert rig.outcomes["close"] == rig.outcomes["late"] == CloseFailed(Reason.CLOSED_BY_OTHER, 2)
    assert rig.outcomes["c"] == Appended(2)
    assert rig.outcomes["d"] == NotAppended(Reason.CLOSED_BY_OTHER)


def test_a_recovery_that_ends_where_the_close_wanted_is_a_success() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.close(is_draining=False)
    answer(rig)
    rig.by_other(lambda metadata: metadata.closed_at(1, 10))
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)


def test_a_recovery_that_does_not_end_in_time_leaves_the_outcome_unknown() -> None:
    rig = some_written(resolve_ms=10_000)
    rig.by_other(lambda metadata: metadata.recovering())
    rig.close(is_draining=False)
    answer(rig)
    rig.run_until(9_999)
    assert "close" not in rig.outcomes
    rig.run_until(1)
    assert rig.outcomes["close"] == CloseFailed(Reason.FENCED)
    assert rig.outcomes["c"] == AppendUnknown(2, Reason.FENCED)
    assert list(rig.writer.unknown) == [2, 3]
    assert rig.writer.deadline_ms is None


def test_a_close_with_nothing_pending_does_not_wait_for_ever_for_a_recovery() -> None:
    rig = Rig()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.close()
    rig.run_until(10_000)
    assert rig.outcomes == {"close": CloseFailed(Reason.FENCED)}


def test_a_close_is_written_again_when_re_replication_came_first() -> None:
    rig = some_written()
    rig.step(BookieLost(B1))
    rig.later(10)
    answer(rig)
    rig.by_other(lambda metadata: metadata.with_member(0, 1, B5))
    rig.close(is_draining=False)
    answer(rig)
    assert rig.outcomes["close"] == LedgerClosed(1, 10)
    assert rig.fragments[0] == (0, "b0 b5 b2")


def test_a_close_of_a_ledger_that_somebody_else_writes_fails() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.with_ensemble(2, [B0, B1, B5]))
    rig.close(is_draining=False)
    answer(rig)
    assert rig.outcomes["close"] == CloseFailed(Reason.CONFLICT)
    assert rig.outcomes["c"] == AppendUnknown(2, Reason.CONFLICT)


def test_a_close_without_the_coordination_service_is_undecided_after_a_while() -> None:
    rig = some_written(resolve_ms=10_000)
    rig.close(is_draining=False)
    rig.step(Suspended())
    rig.run_until(10_000)
    assert rig.outcomes["close"] == CloseFailed(Reason.UNDECIDED)
    assert rig.outcomes["d"] == AppendUnknown(3, Reason.UNDECIDED)
    assert rig.writer.state is WriterState.FAILED
    answer(rig)
    rig.close("again")
    assert rig.outcomes["again"] == CloseFailed(Reason.UNDECIDED)
    rig.step(Connected(1), Resolve("resolve"))
    answer(rig)
    assert rig.outcomes["resolve"] == Resolved(1, (), (2, 3)), "the write was done after all"


def test_what_the_coordination_service_refuses_otherwise_is_told() -> None:
    rig = some_written()
    rig.close(is_draining=False)
    [submit] = rig.submits
    rig.submits.clear()
    rig.step(Results(submit.batch, (Result(ZooKeeperError.NOAUTH),)))
    assert rig.outcomes["close"] == CloseFailed(Reason.COORDINATION)
    assert rig.effects[-1].detail.endswith("NOAUTH")


# --------------------------------------------------------------------------------------------------------------- fenced


def test_a_bookie_that_says_fenced_ends_the_writer() -> None:
    """3.7: no outcome of what is pending is known; no send, no change and no close after that."""
    rig = some_written()
    rig.step(rig.take_add(B0, 2, Status.FENCED), rig.take_add(B1, 2), rig.take_add(B2, 2))
    assert rig.writer.state is WriterState.FENCED
    assert rig.outcomes["c"] == Appended(2), "two had it in that turn"
    assert rig.outcomes["d"] == AppendUnknown(3, Reason.FENCED)
    assert list(rig.writer.unknown) == [3]
    assert rig.effects == [WriterEnded(WriterState.FENCED, Reason.FENCED)]
    rig.sent.clear()
    rig.append("e")
    rig.step(BookieLost(B1))
    rig.run_until(60_000)
    assert rig.outcomes["e"] == NotAppended(Reason.FENCED)
    assert not rig.sent
    assert not rig.submits
    rig.close()
    assert rig.outcomes["close"] == CloseFailed(Reason.FENCED)


def test_a_fence_during_a_change_ends_it() -> None:
    rig = some_written()
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer(B0, 2, status=Status.FENCED)
    answer(rig)
    assert not rig.submits
    assert rig.outcomes["c"] == AppendUnknown(2, Reason.FENCED)
    assert rig.writer.deadline_ms is None


def test_a_change_that_finds_the_ledger_closed_knows_every_outcome() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.by_other(lambda metadata: metadata.closed_at(2, 13))
    rig.step(BookieLost(B1))
    rig.later(10)
    answer(rig)
    assert rig.outcomes["c"] == Appended(2)
    assert rig.outcomes["d"] == NotAppended(Reason.CLOSED_BY_OTHER)
    assert rig.writer.state is WriterState.FENCED


@pytest.mark.parametrize(("last", "written", "not_written"), [(1, (), (2, 3)), (2, (2,), (3,)), (3, (2, 3), ())])
def test_unknown_outcomes_are_resolved_by_the_end(
    last: int, written: tuple[int, ...], not_written: tuple[int, ...]
) -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.answer(B0, 2, status=Status.FENCED)
    rig.step(Resolve("first"))
    answer(rig)
    assert "first" not in rig.outcomes
    rig.by_other(lambda metadata: metadata.closed_at(last, 16))
    answer(rig)
    rig.step(Resolve("second"))
    assert rig.outcomes["first"] == rig.outcomes["second"] == Resolved(last, written, not_written)
    assert rig.writer.deadline_ms is None


def test_what_has_a_definite_outcome_is_not_resolved_again() -> None:
    """A close finds a recovery, and waits for its end: that tells every caller, so nothing is left to be resolved."""
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.close(is_draining=False)
    rig.by_other(lambda metadata: metadata.closed_at(2, 16))
    answer(rig)
    assert isinstance(rig.outcomes["c"], Appended)
    assert isinstance(rig.outcomes["d"], NotAppended)
    rig.step(Resolve("resolve"))
    assert rig.outcomes["resolve"] == Resolved(2, (), ())
    assert not rig.writer.unknown


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
def test_a_ledger_that_is_not_open_has_no_writer(state: LedgerState) -> None:
    rig = Rig()
    rig.by_other(lambda metadata: metadata.recovering())
    if state == LedgerState.CLOSED:
        rig.by_other(lambda metadata: metadata.closed_at(-1, 0))
    with pytest.raises(LedgerNotOpenError, match=f"ledger 0 is {state.name}, and cannot be written"):
        LedgerWriter(ROOT, rig.versioned, rig.placement)


def test_a_resolve_gives_up_after_a_while_and_may_be_asked_again() -> None:
    rig = some_written(resolve_ms=10_000)
    rig.answer(B0, 2, status=Status.FENCED)
    rig.step(Resolve("first"))
    answer(rig)
    rig.run_until(10_000)
    assert rig.outcomes["first"] == Unresolved(Reason.UNDECIDED)
    rig.step(Resolve("second"))
    answer(rig)
    rig.by_other(lambda metadata: metadata.recovering())
    rig.by_other(lambda metadata: metadata.closed_at(3, 16))
    answer(rig)
    assert rig.outcomes["second"] == Resolved(3, (2, 3), ())


def test_a_resolve_goes_on_in_the_next_session() -> None:
    rig = some_written()
    rig.by_other(lambda metadata: metadata.recovering())
    rig.answer(B0, 2, status=Status.FENCED)
    rig.step(Resolve("resolve"))
    answer(rig)
    rig.expire(is_done=False)
    rig.tree.fired.clear()
    answer(rig)
    rig.by_other(lambda metadata: metadata.closed_at(3, 16))
    answer(rig)
    assert rig.outcomes["resolve"] == Resolved(3, (2, 3), ())


def test_a_resolve_of_a_ledger_that_is_gone() -> None:
    rig = some_written()
    rig.answer(B0, 2, status=Status.FENCED)
    [path] = [path for path in rig.tree.znodes if "/L" in path]
    del rig.tree.znodes[path]
    rig.step(Resolve("resolve"))
    answer(rig)
    assert rig.outcomes["resolve"] == Unresolved(Reason.DELETED)


def test_nothing_is_resolved_while_the_ledger_is_written() -> None:
    rig = some_written()
    rig.step(Resolve("resolve"))
    assert rig.outcomes["resolve"] == Unresolved(Reason.UNDECIDED)


# --------------------------------------------------------------------------------------------------------------- failed


def test_another_password_ends_the_writer_at_once() -> None:
    rig = some_written()
    rig.answer(B1, 2, status=Status.UNAUTHORIZED)
    assert rig.outcomes["c"] == AppendUnknown(2, Reason.UNAUTHORIZED)
    assert rig.effects == [WriterEnded(WriterState.FAILED, Reason.UNAUTHORIZED, "b1")]
    rig.append("e")
    assert rig.outcomes["e"] == NotAppended(Reason.UNAUTHORIZED)
    rig.step(Resolve("resolve"))
    assert rig.writer.deadline_ms is not None
    rig.close()
    assert rig.outcomes["close"] == CloseFailed(Reason.UNAUTHORIZED)
