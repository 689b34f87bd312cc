"""Ensemble changes: when, exactly how, and the cases C1 to C12."""

import pytest

from tests.ledger.writer.rig import B0, B1, B2, B3, B4, B5, Rig
from zab.coordination.driver import Connected, Suspended
from zab.ledger.store.events import BookieLost
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import (
    Appended,
    AppendUnknown,
    BookieFailed,
    FragmentShort,
    NotAppended,
    Reason,
    WriterEnded,
    WriterState,
)


def held(*, quorums: tuple[int, int, int] = (3, 3, 2), bookies: int = 6, **settings: int) -> Rig:
    """A writer whose coordination service does not answer by itself."""
    rig = Rig(quorums, bookies=bookies, **settings)
    rig.is_answering = False
    return rig


def replaced(rig: Rig, index: int) -> str:
    """The bookie that is at this index in the metadata now."""
    return rig.metadata.last_fragment.ensemble[index]


def new_of(rig: Rig, index: int, *known: str) -> str:
    found = replaced(rig, index)
    assert found not in known, found
    return found


# ---------------------------------------------------------------------------------------------------------------- when


def test_failures_that_hold_nothing_back_are_replaced_by_one_change() -> None:
    rig = held(quorums=(4, 4, 2))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.later(9)
    rig.answer(B2, 0, status=Status.IO_ERROR)
    assert not rig.submits
    rig.answer_all(B0, B3)
    assert rig.outcomes == {"a": Appended(0)}, "a change that has not begun holds nothing back"
    rig.later(1)
    assert len(rig.submits) == 1
    rig.answer_one()
    assert len(rig.fragments) == 2
    assert not {B1, B2} & set(rig.metadata.last_fragment.ensemble)


def test_a_failure_that_holds_entries_back_is_replaced_at_once() -> None:
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    assert len(rig.submits) == 1


def test_what_failed_is_told_with_the_reason_and_is_not_chosen_again_soon() -> None:
    rig = Rig(bookies=4, excluded_ms=30_000)
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.run_until(10)
    assert rig.fragments == [(0, "b0 b3 b2")]
    assert rig.effects == [BookieFailed(B1, "I/O error")]
    rig.answer(B0, 0, status=Status.IO_ERROR)
    rig.run_until(4_000)
    assert rig.fragments == [(0, "b0 b3 b2")], "nobody is left, and two suffice"


def test_a_bookie_that_failed_is_chosen_again_before_the_ledger_ends() -> None:
    """Bookies that are restarted one after the other."""
    rig = Rig((2, 2, 2), bookies=3, excluded_ms=30_000)
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    assert rig.fragments == [(0, "b0 b2")]
    rig.answer(B0, 0, status=Status.IO_ERROR)
    assert rig.fragments == [(0, "b1 b2")]


def test_a_lost_bookie_is_replaced_without_an_answer() -> None:
    rig = Rig()
    rig.step(BookieLost(B1), BookieLost(B5))
    rig.run_until(10)
    assert B1 not in rig.metadata.last_fragment.ensemble
    assert rig.effects == [BookieFailed(B1, "unreachable")]


def test_errors_count_for_the_quarantine_of_placement_but_read_only_does_not() -> None:
    rig = Rig((4, 4, 2))
    rig.placement._quarantine._errors = 1
    rig.append("a")
    rig.answer(B1, 0, status=Status.READ_ONLY)
    rig.answer(B2, 0, status=Status.IO_ERROR)
    assert rig.placement.quarantined(rig.now) == {B2}


def test_failing_bookies_are_sent_nothing_more() -> None:
    rig = held()
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.append("b")
    assert rig.adds(B1) == []
    assert rig.adds(B0) == [0, 1]
    rig.later(10)
    rig.append("c")
    rig.answer_one()
    assert rig.adds(new_of(rig, 1, B1)) == [0, 1, 2]  # type: ignore[arg-type]
    assert rig.adds(B0) == [0, 1, 2], "not twice"


# ---------------------------------------------------------------------------------------------------------------- steps


def test_nothing_is_released_during_a_change_and_all_that_is_complete_right_after_it() -> None:
    """S7: else the metadata say that entries are on bookies that never got them."""
    rig = held()
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.append("b", "c")
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer_all(B0, B2)
    assert rig.completed == ["a"]
    rig.answer_one()
    assert rig.completed == ["a", "b", "c"]
    assert [first for first, _ in rig.fragments] == [0, 1]


def test_acknowledgements_before_a_change_of_those_that_stay_count_after_it() -> None:
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.answer_one()
    rig.answer_all(new_of(rig, 1, B1))  # type: ignore[arg-type]
    assert rig.outcomes == {"a": Appended(0)}


def test_a_change_is_not_applied_before_the_metadata_have_it() -> None:
    """S6: else readers never find what was acknowledged on bookies that no metadata name."""
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    assert rig.adds(B3) == rig.adds(B4) == rig.adds(B5) == []
    assert rig.fragments == [(0, "b0 b1 b2")]
    rig.lose_one(is_done=False)
    assert rig.adds(B3) == rig.adds(B4) == rig.adds(B5) == []


@pytest.mark.parametrize("is_done", [True, False])
def test_a_change_whose_answer_is_lost_is_decided_by_what_is_there(is_done: bool) -> None:
    """2.6, rule 3; nothing is acknowledged until then."""
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.lose_one(is_done=is_done)
    rig.answer_all(B0, B2)
    assert rig.completed == []
    while rig.submits:
        rig.answer_one()
    rig.answer_all(new_of(rig, 1, B1))  # type: ignore[arg-type]
    assert rig.completed == ["a"]
    assert rig.versioned.version == 1, "written once"


@pytest.mark.parametrize("is_done", [True, False])
def test_a_change_whose_session_ends_is_decided_by_what_is_there(is_done: bool) -> None:
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.expire(is_done=is_done)
    while rig.submits:
        rig.answer_one()
    rig.answer_all(B0, B2, new_of(rig, 1, B1))  # type: ignore[arg-type]
    assert rig.completed == ["a"]
    assert rig.versioned.version == 1


def test_a_change_is_written_again_when_re_replication_came_first() -> None:
    rig = held()
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.append("b")
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer_one()
    first, second = rig.fragments
    rig.answer_all(B0, B2)
    rig.step(BookieLost(B2))
    rig.later(10)
    rig.by_other(lambda metadata: metadata.with_member(0, 1, B5))
    while rig.submits:
        rig.answer_one()
    assert rig.fragments[:2] == [(0, "b0 b5 b2"), second]
    assert rig.fragments[2][0] == 2
    assert first == (0, "b0 b1 b2")
    assert rig.writer.state is WriterState.OPEN


def test_a_ledger_that_somebody_else_writes_is_given_up() -> None:
    rig = held()
    rig.append("a")
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.by_other(lambda metadata: metadata.with_ensemble(0, [B0, B5, B4]))
    rig.answer_one()
    rig.answer_one()
    assert rig.outcomes == {"a": AppendUnknown(0, Reason.CONFLICT)}
    assert rig.writer.state is WriterState.FAILED


def test_a_ledger_that_is_deleted_is_given_up() -> None:
    rig = held()
    rig.append("a")
    rig.step(BookieLost(B1))
    rig.later(10)
    [path] = [path for path in rig.tree.znodes if "/L" in path]
    del rig.tree.znodes[path]
    rig.answer_one()
    assert rig.outcomes == {"a": AppendUnknown(0, Reason.DELETED)}
    assert rig.effects[-1] == WriterEnded(WriterState.FAILED, Reason.DELETED)


def test_a_failed_bookie_stays_if_nobody_can_replace_it_and_nobody_needs_it() -> None:
    """It is tried again, and replaced as soon as there is somebody."""
    rig = Rig(bookies=3, retry_ms=1_000)
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.run_until(10)
    rig.append("b")
    assert rig.adds(B1) == [0, 1], "it is tried with what it refused, and with the next entry"
    rig.answer_all(B0, B2)
    assert rig.completed == ["a", "b"]
    rig.answer(B1, 1, status=Status.IO_ERROR)
    rig.step(rig.knows(B0, B1, B2, B3))
    rig.run_until(980)
    assert rig.fragments == [(0, "b0 b1 b2")]
    rig.run_until(20)
    assert rig.fragments == [(0, "b0 b1 b2"), (2, "b0 b3 b2")]


def test_a_failed_bookie_that_stays_is_sent_what_it_missed() -> None:
    """Bookies that restart one after the other: the entry that b1 missed has to be acknowledged by it, as soon as b2 is
    away. Else it never is, and ends the ledger."""
    rig = Rig(bookies=3)
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.append("b")
    assert rig.adds(B1) == []
    rig.run_until(10)
    assert rig.adds(B1) == [0, 1]
    rig.forget(B2)
    rig.step(BookieLost(B2))
    rig.answer_all(B0, B1)
    assert rig.completed == ["a", "b"]


def test_a_failed_bookie_that_is_needed_and_cannot_be_replaced_seals_the_ledger() -> None:
    rig = Rig((3, 3, 3), bookies=3)
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    assert rig.outcomes == {"a": NotAppended(Reason.NOT_ENOUGH_BOOKIES)}
    assert rig.effects[-1] == WriterEnded(WriterState.CLOSED, Reason.NOT_ENOUGH_BOOKIES)
    assert (rig.metadata.is_closed, rig.metadata.last) == (True, -1)
    rig.append("b")
    assert rig.outcomes["b"] == NotAppended(Reason.NOT_ENOUGH_BOOKIES)


def test_one_that_can_be_replaced_is_while_another_stays() -> None:
    rig = Rig(bookies=4)
    rig.append("a")
    rig.answer_all(B0)
    rig.step(BookieLost(B1), BookieLost(B2))
    ensemble = rig.metadata.last_fragment.ensemble
    assert ensemble == (B0, B3, B2)
    assert rig.adds(B3) == [0]
    rig.answer_all(B3)
    assert rig.outcomes == {"a": Appended(0)}


def test_metadata_that_would_become_too_large_seal_the_ledger() -> None:
    rig = Rig(metadata_bytes_max=1_024, changes_max=1_000, excluded_ms=0)
    token = 0
    while rig.writer.state is WriterState.OPEN:
        assert token < 500
        rig.append(token)
        rig.answer_all(*rig.metadata.last_fragment.ensemble)
        token += 1
        rig.step(BookieLost(rig.metadata.last_fragment.ensemble[0]))
        rig.run_until(10)
    assert rig.effects[-1] == WriterEnded(WriterState.CLOSED, Reason.METADATA_TOO_LARGE)
    assert len(rig.fragments) > 2
    assert rig.metadata.last == token - 1


def test_a_fragment_with_entries_on_too_few_bookies_is_reported() -> None:
    """3.9"""
    rig = Rig()
    rig.append("a", "b")
    rig.answer_all(B0, B2)
    rig.answer(B1, 1, status=Status.IO_ERROR)
    rig.run_until(10)
    [short] = [each for each in rig.effects if isinstance(each, FragmentShort)]
    assert short == FragmentShort(rig.ledger, 0, 1, (B1,))


def test_a_fragment_whose_entries_are_on_all_bookies_is_not_reported() -> None:
    rig = Rig()
    rig.append("a", "b")
    rig.answer_all(B0, B1, B2)
    rig.step(BookieLost(B1))
    rig.run_until(10)
    assert len(rig.fragments) == 2
    assert not [each for each in rig.effects if isinstance(each, FragmentShort)]


def test_forgotten_entries_count_as_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.ledger.writer.pipeline.RELEASED_KEPT_MAX", 1)
    rig = Rig()
    for token in range(3):
        rig.append(token)
        rig.answer(B0, token)
        rig.answer(B2, token)
    rig.answer(B1, 2)
    rig.step(BookieLost(B1))
    rig.run_until(10)
    assert FragmentShort(rig.ledger, 0, 2, (B1,)) in rig.effects


# --------------------------------------------------------------------------------------------------------- C1 to C12


def test_c1_a_second_failure_during_a_change_is_the_next_change_before_anything_is_released() -> None:
    rig = held(quorums=(4, 4, 2), bookies=8)
    rig.append("a")
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer_all(B0, B3)
    rig.answer(B2, 0, status=Status.IO_ERROR)
    assert len(rig.submits) == 1, "never two at once"
    rig.answer_one()
    assert len(rig.submits) == 1
    first = new_of(rig, 1, B1)
    assert rig.completed == [], "an ack quorum has it, but the second change is under way"
    rig.answer_one()
    assert rig.completed == ["a"]
    assert rig.fragments == [(0, f"b0 {first} {new_of(rig, 2, B2)} b3")]


def test_c2_a_replacement_that_fails_before_it_answered_is_replaced_and_excluded() -> None:
    rig = held(quorums=(3, 3, 3))
    rig.append("a")
    rig.answer(B1, 0, status=Status.IO_ERROR)
    [change] = rig.submits
    [x] = [each for each in (B3, B4, B5) if each in rig.writer._changes.under_way.ensemble]  # type: ignore[union-attr]
    rig.step(BookieLost(x))
    assert list(rig.submits) == [change]
    rig.answer_one()
    assert replaced(rig, 1) == x
    assert rig.adds(x) == [], "it is known that it fails"
    rig.answer_one()
    assert new_of(rig, 1, B1, x) in (B3, B4, B5)
    rig.answer_all(B0, B2, new_of(rig, 1, B1, x))  # type: ignore[arg-type]
    assert rig.completed == ["a"]


def test_c3_all_fail_in_one_turn() -> None:
    rig = held()
    rig.append("a")
    rig.step(BookieLost(B0), BookieLost(B1), BookieLost(B2))
    assert len(rig.submits) == 1
    rig.answer_one()
    assert len(rig.fragments) == 1
    assert set(rig.metadata.last_fragment.ensemble) == {B3, B4, B5}
    rig.answer_all(B3, B5)
    assert rig.outcomes == {"a": Appended(0)}


def test_c3_all_fail_and_there_are_not_enough_others() -> None:
    rig = Rig(bookies=4)
    rig.append("a")
    rig.step(BookieLost(B0), BookieLost(B1), BookieLost(B2))
    assert rig.outcomes == {"a": NotAppended(Reason.NOT_ENOUGH_BOOKIES)}


def test_c4_a_bookie_comes_back_after_its_replacement_failed() -> None:
    """S8: the ensemble is what it was, and the entry is sent again."""
    rig = held(quorums=(3, 3, 3), bookies=4, excluded_ms=100)
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.answer(B1, 0, status=Status.IO_ERROR)
    rig.answer_one()
    assert rig.fragments == [(0, "b0 b3 b2")]
    rig.later(100)
    rig.answer(B3, 0, status=Status.IO_ERROR)
    rig.answer_one()
    assert rig.fragments == [(0, "b0 b1 b2")]
    assert rig.adds(B1) == [0]
    assert rig.completed == []
    rig.answer(B1, 0)
    assert rig.completed == ["a"]


def test_c5_a_late_acknowledgement_of_a_bookie_that_was_replaced_does_not_count() -> None:
    rig = held()
    rig.append("a")
    late = rig.take_add(B1, 0)
    rig.answer(B0, 0)
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.answer_one()
    rig.step(late)
    assert rig.completed == []
    rig.answer(B2, 0)
    assert rig.completed == ["a"]


def test_c6_an_acknowledgement_during_the_change_that_replaces_the_bookie_does_not_count_after_it() -> None:
    rig = held()
    rig.append("a")
    rig.answer(B0, 0)
    late = rig.take_add(B1, 0)
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.step(late)
    assert rig.completed == []
    rig.answer_one()
    assert rig.completed == [], "B0 has it, and B1 is no member any more"
    assert rig.adds(new_of(rig, 1, B1)) == [0]  # type: ignore[arg-type]
    rig.answer(B2, 0)
    assert rig.completed == ["a"]


def test_c7_entries_that_the_failed_bookie_never_had_to_hold_wait_and_are_released_right_after() -> None:
    rig = held(quorums=(4, 2, 2))
    rig.append("a", "b", "c")
    rig.answer_all(B0, B1)
    assert rig.completed == ["a"]
    rig.step(BookieLost(B0))
    rig.answer_all(B2, B3)
    assert rig.completed == ["a"]
    rig.answer_one()
    assert rig.completed == ["a", "b", "c"]
    assert [first for first, _ in rig.fragments] == [0, 1]


def test_c8_a_fragment_without_released_entries_is_replaced() -> None:
    rig = Rig()
    rig.append("a")
    rig.answer_all(B0, B2)
    rig.append("b")
    rig.step(BookieLost(B1))
    rig.run_until(10)
    assert [first for first, _ in rig.fragments] == [0, 1]
    rig.step(BookieLost(B2))
    rig.run_until(10)
    assert [first for first, _ in rig.fragments] == [0, 1], "no fragment is empty"
    assert not {B1, B2} & set(rig.metadata.last_fragment.ensemble)


def test_c9_recovery_that_begins_before_the_write_fences_the_writer() -> None:
    rig = held()
    rig.append("a", "b")
    rig.step(BookieLost(B1))
    rig.later(10)
    rig.by_other(lambda metadata: metadata.recovering())
    rig.answer_all(B0, B2)
    rig.answer_one()
    rig.answer_one()
    assert rig.outcomes == {"a": AppendUnknown(0, Reason.FENCED), "b": AppendUnknown(1, Reason.FENCED)}
    assert rig.writer.state is WriterState.FENCED
    assert list(rig.writer.unknown) == [0, 1]
    assert rig.fragments == [(0, "b0 b1 b2")]
    sent = len(rig.sent)
    rig.append("c")
    assert rig.outcomes["c"] == NotAppended(Reason.FENCED)
    assert len(rig.sent) == sent


def test_c10_nothing_is_acknowledged_while_the_coordination_service_is_away() -> None:
    """Appends go on up to the limits, then wait. The price of S6."""
    rig = held(pending_entries_max=3, quorum_timeout_ms=0)
    rig.append("a")
    rig.step(Suspended(), BookieLost(B1))
    rig.later(10)
    rig.append("b", "c", "d")
    rig.answer_all(B0, B2)
    rig.run_until(300_000)
    assert rig.completed == []
    assert rig.adds(B0) == []
    rig.is_answering = True
    rig.step(Connected(1))
    assert rig.completed == ["a", "b", "c"]
    assert rig.adds(B0) == [3]


def test_c11_too_many_changes_seal_the_ledger() -> None:
    rig = Rig(changes_max=2, changes_window_ms=60_000, excluded_ms=0)
    for _ in range(2):
        rig.step(BookieLost(rig.metadata.last_fragment.ensemble[0]))
        rig.run_until(10)
    assert rig.writer.state is WriterState.OPEN
    rig.append("a")
    rig.step(BookieLost(rig.metadata.last_fragment.ensemble[0]))
    rig.run_until(10)
    assert rig.effects[-1] == WriterEnded(WriterState.CLOSED, Reason.TOO_MANY_CHANGES)
    assert rig.outcomes == {"a": NotAppended(Reason.TOO_MANY_CHANGES)}


def test_c11_changes_that_are_long_ago_do_not_count() -> None:
    rig = Rig(changes_max=1, changes_window_ms=60_000, excluded_ms=0)
    for _ in range(5):
        rig.step(BookieLost(rig.metadata.last_fragment.ensemble[0]))
        rig.run_until(60_000)
    assert rig.writer.state is WriterState.OPEN


def test_c12_an_entry_that_is_not_acknowledged_in_time_seals_the_ledger() -> None:
    rig = Rig((3, 3, 3), quorum_timeout_ms=4_000)
    rig.append("a")
    rig.answer_all(B0, B1, B2)
    rig.later(1_000)
    rig.append("b", "c")
    rig.answer(B0, 1)
    rig.answer(B1, 1)
    rig.run_until(3_999)
    assert rig.writer.state is WriterState.OPEN
    rig.run_until(1)
    assert rig.outcomes["b"] == rig.outcomes["c"] == NotAppended(Reason.QUORUM_TIMEOUT)
    assert (rig.metadata.last, rig.metadata.length) == (0, 7)
    assert rig.effects[-1] == WriterEnded(WriterState.CLOSED, Reason.QUORUM_TIMEOUT)


def test_c12_also_while_a_change_cannot_be_written_and_then_the_outcome_is_unknown() -> None:
    rig = held(quorum_timeout_ms=30_000, resolve_ms=10_000)
    rig.append("a")
    rig.step(Suspended(), BookieLost(B1))
    rig.later(10)
    rig.answer_all(B0, B2)
    rig.run_until(39_980)
    assert rig.completed == []
    rig.run_until(20)
    assert rig.outcomes == {"a": AppendUnknown(0, Reason.UNDECIDED)}
    assert rig.effects[-1] == WriterEnded(WriterState.FAILED, Reason.UNDECIDED)
