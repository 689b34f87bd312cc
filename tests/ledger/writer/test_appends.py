"""Appends: ids, what is sent, what counts, what is released and when; room; and what is refused."""

import pytest

from tests.ledger.writer.rig import B0, B1, B2, B3, Rig
from zab.ledger.store.events import Answered, BookieLost
from zab.ledger.wire.messages import Added, AddEntry, WriteLac
from zab.ledger.wire.status import Status
from zab.ledger.writer.admission import SharedBudget
from zab.ledger.writer.events import (
    Append,
    Appended,
    Cancel,
    NotAppended,
    Reason,
    WriterState,
)
from zab.ledger.writer.settings import ENTRY_BYTES_MAX, UnsupportedError, WriterSettings


def test_an_entry_is_acknowledged_with_an_ack_quorum() -> None:
    rig = Rig()
    rig.append("a")
    assert [each.bookie for each in rig.sent] == [B0, B1, B2]
    rig.answer(B1, 0)
    assert rig.outcomes == {}
    rig.answer(B2, 0)
    assert rig.outcomes == {"a": Appended(0)}
    assert rig.writer.last_confirmed == 0


def test_an_acknowledgement_counts_once() -> None:
    rig = Rig()
    rig.append("a")
    [again, *_] = [each for each in rig.sent if each.bookie == B1]
    rig.answer(B1, 0)
    rig.step(Answered(B1, again.request, Added(Status.OK, rig.ledger, 0)))
    assert rig.outcomes == {}


def test_entries_go_to_their_write_sets() -> None:
    rig = Rig((4, 2, 2))
    rig.append("a", "b", "c", "d", "e")
    assert [rig.adds(bookie) for bookie in (B0, B1, B2, B3)] == [[0, 3, 4], [0, 1, 4], [1, 2], [2, 3]]


def test_an_answer_of_a_bookie_outside_of_the_write_set_does_not_count() -> None:
    rig = Rig((4, 2, 1))
    rig.append("a")
    request = rig.sent[0].request
    rig.step(Answered(B3, request, Added(Status.OK, rig.ledger, 0)))
    rig.step(Answered(B0, request, Added(Status.OK, rig.ledger + 1, 0)))
    assert rig.outcomes == {}


def test_acknowledgements_come_in_order_without_gaps() -> None:
    """G4: an entry waits for all before it."""
    rig = Rig()
    rig.append("a", "b", "c")
    for bookie in (B0, B1):
        rig.answer(bookie, 2)
        rig.answer(bookie, 1)
    assert rig.completed == []
    rig.step(rig.take_add(B0, 0), rig.take_add(B1, 0))
    assert rig.completed == ["a", "b", "c"]
    assert [rig.outcomes[token] for token in "abc"] == [Appended(0), Appended(1), Appended(2)]


def test_an_entry_says_which_was_released_last_when_it_was_made() -> None:
    """G5: no bookie knows of a LAC that the caller does not."""
    rig = Rig()
    rig.append("a", "b", payload=b"12345")
    rig.answer_all(B0)
    rig.append("c", payload=b"123")
    assert {rig.entry(each).last_confirmed for each in rig.sent} == {-1}
    rig.answer(B1, 0)
    rig.append("d", payload=b"")
    made = {each.entry: each for each in map(rig.entry, rig.sent)}
    assert made[2].last_confirmed == -1
    assert made[3].last_confirmed == 0
    assert [made[entry].length for entry in (1, 2, 3)] == [10, 13, 13]
    assert made[2].payload == b"123"
    assert rig.writer.length == 13


def test_requests_have_the_key_of_the_password() -> None:
    rig = Rig(password=b"secret")
    rig.append("a")
    for each in rig.sent:
        assert isinstance(each.request, AddEntry)
        assert each.request.key == rig.digest.master_key
        assert not each.request.is_recovery


def test_late_answers_of_released_entries_change_nothing() -> None:
    rig = Rig()
    rig.append("a")
    rig.answer_all(B0, B1)
    rig.answer_all(B2)
    assert rig.completed == ["a"]
    assert rig.writer.deadline_ms is None, "nothing is under way any more"


# ------------------------------------------------------------------------------------------------------------ statuses


@pytest.mark.parametrize(
    "status",
    [
        *(Status.READ_ONLY, Status.IO_ERROR, Status.UNKNOWN_LEDGER_STATE, Status.BAD_VERSION, Status.BAD_REQUEST),
        *(Status.TIMED_OUT, Status.NO_LEDGER),
    ],
)
def test_a_bookie_that_refuses_is_replaced(status: Status) -> None:
    rig = Rig()
    rig.append("a")
    rig.answer(B1, 0, status=status)
    rig.run_until(10)
    assert rig.fragments == [(0, f"b0 {rig.metadata.last_fragment.ensemble[1]} b2")]
    assert B1 not in rig.metadata.last_fragment.ensemble


def test_too_many_is_tried_again_with_growing_pauses_and_then_is_a_failure() -> None:
    rig = Rig()
    rig.append("a")
    for pause in (50, 100):
        rig.answer(B1, 0, status=Status.TOO_MANY_REQUESTS)
        rig.later(pause - 1)
        assert rig.adds(B1) == []
        rig.later(1)
        assert rig.adds(B1) == [0]
    assert len(rig.fragments) == 1
    rig.answer(B1, 0, status=Status.TOO_MANY_REQUESTS)
    rig.run_until(10)
    assert B1 not in rig.metadata.last_fragment.ensemble


def test_a_bookie_that_is_busy_once_may_answer_later() -> None:
    rig = Rig((3, 3, 3))
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.answer(B1, 0, status=Status.TOO_MANY_REQUESTS)
    rig.later(50)
    rig.answer(B1, 0)
    assert rig.outcomes == {"a": Appended(0)}
    assert rig.writer.deadline_ms is None


def test_a_busy_bookie_has_a_window_that_grows_with_its_answers() -> None:
    rig = Rig()
    rig.append(*range(8))
    rig.answer(B1, 0, status=Status.TOO_MANY_REQUESTS)
    rig.append(*range(8, 20))
    assert rig.adds(B1) == [1, 2, 3, 4, 5, 6, 7], "half of the eight that were under way, so there is no room"
    assert rig.adds(B0) == list(range(20))
    rig.answer(B1, 1, 2, 3, 4)
    assert rig.adds(B1) == [5, 6, 7, 8, 9, 10, 11, 12], "the window is eight"
    rig.later(50)
    while rig.adds(B1):
        rig.answer(B1, rig.adds(B1)[0])
    rig.answer_all(B0)
    assert rig.completed == list(range(20))
    assert rig.writer._pipeline.peers[B1].window is None, "nothing waits for it"
    rig.append(*range(20, 40))
    assert rig.adds(B1) == list(range(20, 40))


def test_a_broken_connection_is_given_a_while_to_come_back() -> None:
    rig = Rig()
    rig.append("a", "b")
    rig.answer_all(B1, status=Status.UNREACHABLE)
    rig.later(199)
    assert rig.adds(B1) == []
    rig.later(1)
    assert rig.adds(B1) == [0, 1]
    assert len(rig.fragments) == 1
    rig.answer(B1, 0, status=Status.UNREACHABLE)
    rig.run_until(10)
    assert B1 not in rig.metadata.last_fragment.ensemble


@pytest.mark.parametrize("status", [Status.UNREACHABLE, Status.TOO_MANY_REQUESTS])
def test_a_break_that_concerns_released_entries_alone_is_no_failure(status: Status) -> None:
    """Nobody waits for them. A connection that does not come back is told, and a bookie that stays busy is noticed by
    other entries."""
    rig = Rig()
    rig.append("a")
    rig.answer_all(B0, B1)
    rig.step(BookieLost(B1))
    rig.run_until(10)
    before = rig.fragments
    assert len(before) == 2
    rig.answer(B2, 0, status=status)
    rig.run_until(10)
    assert rig.fragments == before


def test_without_that_while_the_first_break_is_a_failure() -> None:
    rig = Rig(reconnect_ms=0)
    rig.append("a")
    rig.answer(B1, 0, status=Status.UNREACHABLE)
    rig.run_until(10)
    assert B1 not in rig.metadata.last_fragment.ensemble


def test_a_bookie_that_owes_an_answer_for_too_long_is_replaced() -> None:
    """Even if nothing waits for it."""
    rig = Rig()
    rig.append("a")
    rig.later(3_000)
    rig.answer_all(B0, B1)
    rig.append("b")
    rig.answer_all(B0, B1)
    rig.forget(B2)
    rig.run_until(1_999)
    assert len(rig.fragments) == 1
    rig.run_until(20)
    assert B2 not in rig.metadata.last_fragment.ensemble


def test_a_bookie_that_answers_something_but_not_the_first_entry_is_replaced() -> None:
    rig = Rig((3, 3, 3))
    rig.append("a")
    rig.answer_all(B0, B1)
    rig.forget(B2)
    for token in range(6):
        rig.later(1_000)
        rig.append(token)
        rig.answer_all(B0, B1, B2)
        if len(rig.adds(B2)) == 0 and B2 not in rig.metadata.last_fragment.ensemble:
            break
    assert token == 4, "after five seconds"


# ------------------------------------------------------------------------------------------------------- explicit LAC


def test_the_last_entry_of_a_burst_is_told_by_an_explicit_lac() -> None:
    rig = Rig(explicit_lac_ms=200)
    rig.append("a", "b")
    rig.answer_all(B0, B1, B2)
    rig.run_until(199)
    assert rig.lacs() == []
    rig.run_until(1)
    assert rig.lacs() == [(B0, 1), (B1, 1), (B2, 1)]
    request = rig.sent[0].request
    assert isinstance(request, WriteLac)
    assert rig.digest.open_lac(request.packet, rig.ledger) == 1
    rig.run_until(1_000)
    assert len(rig.lacs()) == 3, "once"


def test_an_entry_that_tells_it_makes_the_explicit_one_needless() -> None:
    rig = Rig(explicit_lac_ms=200)
    rig.append("a")
    rig.answer_all(B0, B1, B2)
    rig.later(100)
    rig.append("b")
    rig.run_until(1_000)
    assert rig.lacs() == []


def test_there_is_no_explicit_lac_by_default() -> None:
    rig = Rig()
    rig.append("a")
    rig.answer_all(B0, B1, B2)
    rig.run_until(10_000)
    assert rig.lacs() == []


# ----------------------------------------------------------------------------------------------------------------- room


def test_appends_wait_for_room_in_entries_before_they_get_an_id() -> None:
    rig = Rig(pending_entries_max=2)
    rig.append("a", "b", "c", "d")
    assert rig.adds(B0) == [0, 1]
    rig.step(Cancel("c"))
    rig.answer(B0, 0)
    rig.answer(B1, 0)
    assert rig.adds(B0) == [1, 2]
    rig.answer_all(B0, B1)
    assert rig.outcomes == {"a": Appended(0), "b": Appended(1), "d": Appended(2)}


def test_appends_wait_for_room_in_bytes_but_one_entry_always_fits() -> None:
    rig = Rig(pending_bytes_max=10)
    rig.append("a", payload=b"x" * 20)
    rig.append("b", "c", "d", payload=b"x" * 5)
    assert rig.adds(B0) == [0]
    rig.answer_all(B0, B1)
    assert rig.adds(B0) == [1, 2]
    rig.step(Append(b"", "e"))
    assert rig.adds(B0) == [1, 2], "those that wait come first"
    rig.answer_all(B0, B1)
    assert rig.adds(B0) == [3, 4]


def test_an_append_may_be_refused_rather_than_wait() -> None:
    rig = Rig(pending_entries_max=1)
    rig.step(Append(b"", "a", may_wait=False), Append(b"", "b", may_wait=False))
    assert rig.outcomes == {"b": NotAppended(Reason.NO_ROOM)}


@pytest.mark.parametrize("limits", [{"waiting_appends_max": 2}, {"waiting_bytes_max": 15}])
def test_so_many_appends_wait_and_no_more(limits: dict[str, int]) -> None:
    rig = Rig(pending_entries_max=1, **limits)
    rig.append("a", "b", "c", "d")
    assert rig.outcomes == {"d": NotAppended(Reason.NO_ROOM)}
    rig.step(Cancel("b"))
    rig.append("e")
    assert "e" not in rig.outcomes


def test_two_appends_that_wait_need_two_tokens() -> None:
    """The caller's fault: the first one would be lost without an answer, and its bytes counted for ever."""
    rig = Rig(pending_entries_max=1)
    rig.append("a", "b")
    with pytest.raises(AssertionError, match="the token 'b'"):
        rig.append("b")


def test_writers_share_a_budget() -> None:
    budget = SharedBudget(10)
    first, second = Rig(budget=budget), Rig(budget=budget)
    first.append("a", payload=b"x" * 8)
    second.append("b", payload=b"x" * 8)
    assert second.adds(B0) == []
    assert second.writer.waits_for_budget
    assert second.writer.deadline_ms == second.now + 10
    first.answer_all(B0, B1)
    assert budget.used == 0
    second.later(10)
    assert second.adds(B0) == [0]
    assert budget.used == 8
    second.close(is_draining=False)
    assert budget.used == 0, "what was not released goes as well"


def test_an_entry_that_is_too_large_is_refused() -> None:
    rig = Rig(entry_bytes_max=10)
    rig.append("a", payload=b"x" * 11)
    rig.append("b", payload=b"x" * 10)
    assert rig.outcomes == {"a": NotAppended(Reason.ENTRY_TOO_LARGE)}
    assert rig.adds(B0) == [0]
    assert rig.writer.state is WriterState.OPEN


def test_released_entries_whose_write_set_lacks_them_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.ledger.writer.pipeline.RELEASED_KEPT_MAX", 5)
    rig = Rig()
    for token in range(20):
        rig.append(token)
        rig.answer(B0, token)
        rig.answer(B1, token)
    pipeline = rig.writer._pipeline
    assert len(pipeline._ops) == 5
    assert all(op.request is None for op in pipeline._ops.values())
    rig.answer_all(B2)
    assert pipeline._ops == {}


def test_deferred_durability_is_refused() -> None:
    """3.10: nobody may believe that force() is there."""
    with pytest.raises(UnsupportedError, match="deferred_sync is not supported"):
        WriterSettings(deferred_sync=True)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"entry_bytes_max": 0}, {"entry_bytes_max": ENTRY_BYTES_MAX + 1}, {"pending_entries_max": 0}),
        *({"add_timeout_ms": 0}, {"quorum_timeout_ms": -1}, {"changes_max": 0}, {"busy_tries_max": 0}),
        *({"pending_bytes_max": 0}, {"metadata_bytes_max": 10}, {"resolve_ms": 0}),
    ],
)
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        WriterSettings(**wrong)  # type: ignore[arg-type]


def test_an_append_gets_its_id_before_the_next_step() -> None:
    """It is sent with that step, after what came before, and only if there is room for it at once."""
    rig = Rig(pending_entries_max=2, entry_bytes_max=10)
    rig.append("a")
    assert rig.writer.append_now(rig.now, Append(b"b", "b"))
    assert rig.writer.last_pushed == 1
    assert rig.adds(B0) == [0]
    rig.step()
    assert rig.adds(B0) == [0, 1]
    assert not rig.writer.append_now(rig.now, Append(b"c", "c"))
    assert rig.writer.last_pushed == 1
    rig.append("c")
    rig.answer_all(B0, B1)
    assert not rig.writer.append_now(rig.now, Append(b"x" * 11, "large"))
    rig.answer_all(B0, B1)
    rig.close()
    assert not rig.writer.append_now(rig.now, Append(b"d", "d"))
    assert [rig.outcomes[each] for each in "abc"] == [Appended(0), Appended(1), Appended(2)]


def test_an_append_that_gets_its_id_at_once_is_within_the_budget_of_all() -> None:
    budget = SharedBudget(10)
    one, other = (Rig(budget=budget) for _ in range(2))
    assert one.writer.append_now(one.now, Append(b"x" * 8, "a"))
    one.step()
    assert not other.writer.append_now(other.now, Append(b"x" * 3, "b"))
    assert other.writer.append_now(other.now, Append(b"x" * 2, "c"))
