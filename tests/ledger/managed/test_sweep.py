"""Ledgers that nobody names."""

import pytest

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Create
from zab.ledger.managed.cursor_state import CursorState, StoredCursor, encode_cursor
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position, cursor_path, encode_log, log_path
from zab.ledger.managed.sweep import CURSOR_KEY, FENCED_MS, LOG_KEY, ORPHAN_MS, Sweep, look_at

NOW = 10 * FENCED_MS


@pytest.fixture
def of():
    found = Coordination()
    for path, data in (
        (ROOT, b""),
        (LOGS, b""),
        (log_path(LOGS, NAME), encode_log(LogInfo(ledgers=(LedgerInfo(id=5),)))),
        (f"{log_path(LOGS, NAME)}/cursors", b""),
        (cursor_path(LOGS, NAME, "c"), encode_cursor(StoredCursor(0, 1, 6, CursorState(Position(5, -1))), 10)),
    ):
        found.apply(Create(path, data))
    return found


def swept(of, number, *, age_ms=ORPHAN_MS, closed=False, since=None, custom=None):
    found = metadata(ctime_ms=NOW - age_ms, custom={LOG_KEY: NAME.encode()} if custom is None else custom)
    ledger(of, number, found.closed_at(-1, 0) if closed else found)
    return of.run(look_at(ROOT, LOGS, number, NOW, since))[0]


def test_a_ledger_that_is_named_is_kept(of):
    assert swept(of, 5) is Sweep.KEEP


def test_the_ledger_of_a_cursor_is_kept(of):
    assert swept(of, 6, custom={LOG_KEY: NAME.encode(), CURSOR_KEY: b"c"}) is Sweep.KEEP
    assert swept(of, 7, custom={LOG_KEY: NAME.encode(), CURSOR_KEY: b"c"}) is Sweep.RECOVER
    assert swept(of, 8, custom={LOG_KEY: NAME.encode(), CURSOR_KEY: b"gone"}) is Sweep.RECOVER


def test_a_young_ledger_is_kept(of):
    assert swept(of, 7, age_ms=ORPHAN_MS - 1) is Sweep.KEEP


@pytest.mark.parametrize("custom", [{}, {LOG_KEY: b"\xff"}, {"application": b"pulsar"}])
def test_a_ledger_of_somebody_else_is_kept(of, custom):
    assert swept(of, 7, custom=custom) is Sweep.KEEP


def test_an_orphan_that_is_open_is_recovered_first(of):
    assert swept(of, 7, since=0) is Sweep.RECOVER


def test_an_orphan_of_a_log_that_is_gone_is_recovered(of):
    assert swept(of, 7, custom={LOG_KEY: b"gone"}) is Sweep.RECOVER


@pytest.mark.parametrize(("since", "wanted"), [(None, Sweep.WAIT), (1, Sweep.WAIT), (0, Sweep.DELETE)])
def test_an_orphan_is_deleted_a_day_after_it_was_seen_closed(of, since, wanted):
    at = None if since is None else NOW - FENCED_MS + since
    assert swept(of, 7, closed=True, since=at) is wanted


def test_a_ledger_that_is_gone_is_no_orphan(of):
    assert of.run(look_at(ROOT, LOGS, 99, NOW, None)) == (Sweep.KEEP, None)
