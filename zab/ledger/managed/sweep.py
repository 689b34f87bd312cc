"""Ledgers that no managed ledger names: what a crash left. The auditor sweeps them.

    look_at(root, logs, ledger, …)     what is to be done with one; the list is read after the ledger itself

A ledger whose custom metadata name a log, or a cursor of one, is an orphan if that log's list, or that cursor's znode,
does not name it, and it is older than `ORPHAN_MS`. An orphan is recovered first, which fences it; it is deleted only
when it has been closed for `FENCED_MS`. In this order no writer that sleeps can wake up and have its entries accepted.
Ledgers without such metadata are nobody's business here.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from zab.coordination.operations import Get, Sync
from zab.coordination.steps import Steps, read
from zab.ledger.managed.cursor_state import decode_cursor
from zab.ledger.managed.log_info import InvalidLogError, cursor_path
from zab.ledger.managed.store import read_log
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.store.ledgers import read_ledger

LOG_KEY: Final = "zab/log"
CURSOR_KEY: Final = "zab/cursor"
"""Names of custom metadata: whose ledger it is."""
ORPHAN_MS: Final = 3_600_000
"""A younger ledger may be in a multi that is under way, or be a cursor's next one."""
FENCED_MS: Final = 24 * 3_600_000
"""So long after it was first seen closed and unnamed, an orphan is deleted."""


class Sweep(Enum):
    """What is to be done with a ledger."""

    KEEP = "keep"
    RECOVER = "recover"
    DELETE = "delete"
    WAIT = "wait"
    """It is a closed orphan, and not long enough yet."""


def look_at(
    root: str, logs: str, ledger: int, wall_ms: int, closed_since_ms: int | None
) -> Steps[tuple[Sweep, VersionedMetadata | None]]:
    """What is to be done with this ledger, and what it is. `closed_since_ms`: when the caller first saw it as a closed
    orphan, None if it has not."""
    found = yield from read_ledger(root, ledger)
    if found is None:
        return Sweep.KEEP, None
    metadata = found.metadata
    log = _text(metadata.custom.get(LOG_KEY))
    cursor = _text(metadata.custom.get(CURSOR_KEY))
    if log is None or metadata.ctime_ms is None or wall_ms - metadata.ctime_ms < ORPHAN_MS:
        return Sweep.KEEP, found
    try:
        is_named = yield from _is_named(logs, log, cursor, ledger)
    except InvalidLogError:
        return Sweep.KEEP, found
    if is_named:
        return Sweep.KEEP, found
    if not metadata.is_closed:
        return Sweep.RECOVER, found
    is_old = closed_since_ms is not None and wall_ms - closed_since_ms >= FENCED_MS
    return (Sweep.DELETE if is_old else Sweep.WAIT), found


def _is_named(logs: str, log: str, cursor: str | None, ledger: int) -> Steps[bool]:
    if cursor is None:
        found = yield from read_log(logs, log)
        return found is not None and found.info.at(ledger) is not None
    path = cursor_path(logs, log, cursor)
    _, znode = yield from read((Sync(path), Get(path)))
    return not znode.is_missing and decode_cursor(znode.must(path).data).ledger == ledger


def _text(found: bytes | None) -> str | None:
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return None
