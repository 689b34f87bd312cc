"""Ledgers that nobody names."""

from itertools import accumulate

import pytest

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Create
from zab.ledger.managed.cursor_state import CursorState, StoredCursor, encode_cursor
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position, cursor_path, encode_log, log_path
from zab.ledger.managed.sweep import CURSOR_KEY, FENCED_MS, LOG_KEY, LOGS_KEY, ORPHAN_MS, Sweep, look_at, whose
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata

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


def swept(of, number, *, age_ms=ORPHAN_MS, closed=False, closed_for_ms=None, root=ROOT, **changed):
    custom = {key: value for key, value in (whose(ROOT, LOGS, NAME) | changed).items() if value is not None}
    found = metadata(ctime_ms=NOW - age_ms, custom=custom)
    ledger(of, number, found.closed_at(-1, 0) if closed else found)
    return of.run(look_at(root, number, NOW, closed_for_ms))[0]


def test_a_ledger_that_is_named_is_kept(of):
    assert swept(of, 5) is Sweep.KEEP


def test_the_ledger_of_a_cursor_is_kept(of):
    assert swept(of, 6, **{CURSOR_KEY: b"c"}) is Sweep.KEEP
    assert swept(of, 7, **{CURSOR_KEY: b"c"}) is Sweep.RECOVER
    assert swept(of, 8, **{CURSOR_KEY: b"gone"}) is Sweep.RECOVER


def test_a_young_ledger_is_kept(of):
    assert swept(of, 7, age_ms=ORPHAN_MS - 1) is Sweep.KEEP


@pytest.mark.parametrize(
    "changed",
    [
        {LOG_KEY: None},
        {LOG_KEY: b"\xff"},
        {LOG_KEY: b""},
        {LOG_KEY: b"x" * 1_000},
        {LOGS_KEY: None},
        {LOGS_KEY: b"\xff"},
        {CURSOR_KEY: b"\xff"},
        {CURSOR_KEY: b""},
    ],
)
def test_a_ledger_that_does_not_say_whose_it_is_is_kept(of, changed):
    assert swept(of, 7, **changed) is Sweep.KEEP


@pytest.mark.parametrize(
    "logs", ["", ".", "..", "../logs", "/logs", "logs/", "logs//x", "logs/.", "a\0b", "a\nb", "\ue000"]
)
def test_a_directory_of_logs_that_cannot_be_is_not_looked_into(of, logs):
    assert swept(of, 7, **{LOGS_KEY: logs.encode()}) is Sweep.KEEP


@pytest.mark.parametrize(
    ("root", "logs", "relative", "seen"),
    [
        ("/ledgers", "/logs", "logs", "/logs"),
        ("/app/ledgers", "/app/logs", "logs", "/app/logs"),
        ("/app/ledgers", "/logs", "../logs", "/logs"),
        ("/a/b/ledgers", "/a/c/d", "../c/d", "/a/c/d"),
        ("/ledgers", "/ledgers/logs", "ledgers/logs", "/ledgers/logs"),
    ],
)
def test_the_logs_are_found_from_the_root_of_the_ledgers(root, logs, relative, seen):
    custom = whose(root, logs, NAME)
    assert custom[LOGS_KEY] == relative.encode()
    assert asked_by(root, custom) == log_path(seen, NAME)


def test_a_bookie_without_the_chroot_of_the_client_finds_the_same_log():
    custom = whose("/ledgers", "/logs", NAME)
    assert asked_by("/app/ledgers", custom) == log_path("/app/logs", NAME)


def asked_by(root, custom):
    """The log that is read for a ledger below this root."""
    of, found = Coordination(), metadata(ctime_ms=NOW - ORPHAN_MS, custom=custom)
    for place in accumulate(ledger_path(root, 7).split("/")[1:-1], lambda above, name: f"{above}/{name}"):
        of.apply(Create(f"/{place}"))
    of.apply(Create(ledger_path(root, 7), encode_metadata(found)))
    assert of.run(look_at(root, 7, NOW))[0] is Sweep.RECOVER
    return of.asked[-1].path


def test_an_orphan_that_is_open_is_recovered_first(of):
    assert swept(of, 7, closed_for_ms=FENCED_MS) is Sweep.RECOVER


def test_an_orphan_of_a_log_that_is_gone_is_recovered(of):
    assert swept(of, 7, **{LOG_KEY: b"gone"}) is Sweep.RECOVER


@pytest.mark.parametrize(
    ("closed_for_ms", "wanted"), [(None, Sweep.WAIT), (FENCED_MS - 1, Sweep.WAIT), (FENCED_MS, Sweep.DELETE)]
)
def test_an_orphan_is_deleted_a_day_after_it_was_seen_closed(of, closed_for_ms, wanted):
    assert swept(of, 7, closed=True, closed_for_ms=closed_for_ms) is wanted


def test_a_ledger_that_is_gone_is_no_orphan(of):
    assert of.run(look_at(ROOT, 99, NOW)) == (Sweep.KEEP, None)
