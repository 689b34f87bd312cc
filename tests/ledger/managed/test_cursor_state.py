"""What a cursor has consumed, against a set of positions; and its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.ledger.managed.cursor_state import (
    ZNODE_RANGES_MAX,
    CursorState,
    StoredCursor,
    decode_cursor,
    encode_cursor,
)
from zab.ledger.managed.log_info import InvalidLogError, LedgerInfo, LogInfo, Position

SIZES = {3: 4, 5: 2, 9: 6}
INFO = LogInfo(
    ledgers=(LedgerInfo(id=3, entries=4), LedgerInfo(id=5, entries=2), LedgerInfo(id=9)),
)
END = Position(9, 5)
ALL = [Position(ledger, entry) for ledger, size in SIZES.items() for entry in range(size)]
MOVES = st.lists(
    st.tuples(st.sampled_from(ALL), st.integers(0, 3), st.sampled_from(["acknowledge", "mark"])), max_size=12
)


@given(MOVES)
def test_it_covers_what_was_consumed_and_nothing_else(moves):
    state, consumed = CursorState(Position(3, -1)), set()
    for position, more, kind in moves:
        if kind == "mark":
            state.mark_delete(position, INFO)
            consumed |= {each for each in ALL if each <= position}
        else:
            last = min(position.entry + more, SIZES[position.ledger] - 1)
            state.acknowledge(position.ledger, position.entry, last, INFO)
            consumed |= {Position(position.ledger, entry) for entry in range(position.entry, last + 1)}
        assert {each for each in ALL if state.covers(each)} == consumed
        assert state.backlog(INFO, END) == len(ALL) - len(consumed)
    first = next((each for each in ALL if each not in consumed), None)
    if first is not None:
        assert state.mark < first
        assert not [each for each in ALL if state.mark < each < first], "the mark lags behind"
    stored = StoredCursor(1, 2, 61, state)
    found = decode_cursor(encode_cursor(stored, ZNODE_RANGES_MAX))
    assert found.state == state
    assert found == stored


def test_a_mark_moves_over_the_end_of_a_ledger():
    state = CursorState(Position(3, -1))
    state.acknowledge(5, 0, 0, INFO)
    state.acknowledge(3, 0, 3, INFO)
    assert state.mark == Position(5, 0)
    state.acknowledge(5, 1, 1, INFO)
    state.acknowledge(9, 0, 0, INFO)
    assert (state.mark, list(state.ranges)) == (Position(9, 0), [])


def test_only_the_lowest_ranges_are_stored():
    state = CursorState(Position(9, -1))
    for entry in range(1, 20, 2):
        state.acknowledge(9, entry, entry, INFO)
    found = decode_cursor(encode_cursor(StoredCursor(1, 2, -1, state), 3)).state
    assert list(found.ranges) == [(9, 1, 1), (9, 3, 3), (9, 5, 5)]


def test_a_mark_in_a_ledger_that_was_trimmed_is_before_the_first_entry():
    state = CursorState(Position(2, 7))
    assert state.fit(INFO, END) == ""
    assert state.mark == Position(3, -1)


def test_a_mark_beyond_the_end_of_the_log_is_moved_back_and_told():
    state = CursorState(Position(12, 7))
    assert "beyond" in state.fit(INFO, END)
    assert state.mark == END


def test_ranges_of_ledgers_that_left_the_list_are_dropped():
    state = CursorState.of(Position(3, 0), [(3, 2, 2), (4, 1, 1), (9, 2, 2)], {})
    state.fit(INFO, END)
    assert list(state.ranges) == [(3, 2, 2), (9, 2, 2)]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("mark", None),
        ("mark", [1]),
        ("ranges", [[3, 2, 1]]),
        ("ranges", [[3, 1, 2], [3, 2, 4]]),
        ("ranges", [[3, 1, 2], [3, 3, 4]]),
        ("ranges", [[5, 1, 2], [3, 3, 4]]),
        ("ranges", [[3, 1]]),
        ("ranges", [[3, -1, 1]]),
        ("ranges", [[3, each, each] for each in range(0, 20_004, 2)]),
        ("props", {"a": 1}),
        ("props", []),
        ("ledger", "6"),
        ("v", 2),
    ],
)
def test_what_is_no_cursor_is_refused(member, value):
    stored = json.loads(encode_cursor(StoredCursor(1, 2, 61, CursorState(Position(3, 0))), 10)) | {member: value}
    with pytest.raises(InvalidLogError):
        decode_cursor(json.dumps(stored).encode())
