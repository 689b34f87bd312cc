"""A log that goes with its ledgers and cursors, whatever answer is lost on the way."""

import pytest

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import CoordinationError, Create, Delete, Result, Set, ZooKeeperError
from zab.ledger.managed.cursor_state import CursorState, StoredCursor, encode_cursor
from zab.ledger.managed.deleting import delete_log
from zab.ledger.managed.log_info import (
    LedgerInfo,
    LogInfo,
    Position,
    cursor_path,
    cursors_path,
    encode_log,
    log_path,
    owner_path,
)
from zab.ledger.managed.store import Taken, VersionedLog

INFO = LogInfo(
    owner="me",
    ledgers=(LedgerInfo(id=1, entries=1, length=1, closed_ms=5), LedgerInfo(id=2, entries=1, length=1, closed_ms=6)),
)
OPERATIONS = 40
"""More than a deletion needs."""


def there():
    """A log of two ledgers with a hint and two cursors, one of which has a ledger."""
    of = Coordination()
    for path in (LOGS, ROOT):
        of.apply(Create(path))
    for number in (1, 2, 3):
        ledger(of, number, metadata().closed_at(0, 1))
    of.apply(Create(log_path(LOGS, NAME), encode_log(INFO)))
    of.apply(Create(owner_path(LOGS, NAME)))
    of.apply(Create(cursors_path(LOGS, NAME)))
    for name, its in (("one", 3), ("other", -1)):
        stored = StoredCursor(5, 1, its, CursorState(Position(1, 0)))
        of.apply(Create(cursor_path(LOGS, NAME, name), encode_cursor(stored, 10)))
    of.asked.clear()
    return of


def delete(of):
    return of.run(delete_log(ROOT, VersionedLog(log_path(LOGS, NAME), INFO, 0), None, 9))


def all_below(of, path):
    return [
        below for child in of.tree.children(path) for below in (f"{path}/{child}", *all_below(of, f"{path}/{child}"))
    ]


@pytest.mark.parametrize("fate", ["done", "not done"])
@pytest.mark.parametrize("at", range(OPERATIONS))
def test_nothing_is_left_whichever_answer_is_lost(at, fate):
    of = there()
    of.lost.extend(["answered"] * at + [fate])
    assert delete(of) is None
    assert of.tree.children(LOGS) == []
    assert [path for path in all_below(of, ROOT) if "/L" in path] == []
    assert len(of.asked) < OPERATIONS


def test_an_owner_that_claims_the_log_meanwhile_has_it():
    of = there()

    def before(operation):
        if operation == Delete(cursors_path(LOGS, NAME)):
            of.tree.apply(of.session, Set(log_path(LOGS, NAME), encode_log(INFO.claimed("other"))))

    of.before = before
    assert delete(of) == Taken(None)


@pytest.mark.parametrize("kept", [cursor_path(LOGS, NAME, "one"), owner_path(LOGS, NAME), log_path(LOGS, NAME)])
def test_a_znode_that_cannot_be_deleted_is_told(kept):
    """It was asked for again and again, without a pause."""
    of = there()
    apply, refused = of.apply, Result(ZooKeeperError.NOAUTH)
    of.apply = lambda operation: (
        refused if isinstance(operation, Delete) and operation.path == kept else apply(operation)
    )
    with pytest.raises(CoordinationError, match=kept):
        delete(of)


def test_a_hint_that_an_earlier_owner_makes_again_goes_too():
    of = there()

    def before(operation):
        if isinstance(operation, Delete) and operation.path == log_path(LOGS, NAME):
            of.before = lambda _operation: None
            of.tree.apply(of.session, Create(owner_path(LOGS, NAME)))

    of.before = before
    assert delete(of) is None
    assert of.asked.count(Delete(owner_path(LOGS, NAME))) == 2
    assert of.tree.children(LOGS) == []


def test_a_child_that_is_no_part_of_a_log_is_kept_and_told():
    of = there()
    of.apply(Create(f"{log_path(LOGS, NAME)}/notes"))
    with pytest.raises(CoordinationError, match=log_path(LOGS, NAME)):
        delete(of)
    assert of.tree.children(log_path(LOGS, NAME)) == ["notes"]
