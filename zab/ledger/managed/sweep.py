"""Ledgers that no managed ledger names: what a crash left. The auditor sweeps them (`zab.ledger.replication.orphans`).

    whose(root, logs, name)            the custom metadata of a ledger: the log that it belongs to
    may_be_orphan(metadata)            whether it says so; other ledgers are nobody's business here
    look_at(root, ledger, …)           what is to be done with one; the list is read after the ledger itself

A ledger whose custom metadata name a log, or a cursor of one, is an orphan if that log's list, or that cursor's znode,
does not name it, and it is older than `ORPHAN_MS`. An orphan is recovered first, which fences it; it is deleted only
when it has been closed for `FENCED_MS`. In this order no writer that sleeps can wake up and have its entries accepted.

The logs may be anywhere, and clients may see the znodes through a chroot. So a ledger names the directory of its log
relative to the parent of its own root, which is the same for everybody. A ledger that does not is left alone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from enum import Enum
from typing import Final

from zab.coordination.operations import Get, Sync
from zab.coordination.steps import Steps, read
from zab.ledger.managed.cursor_state import decode_cursor
from zab.ledger.managed.log_info import InvalidLogError, cursor_path
from zab.ledger.managed.store import read_log
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.store.ledgers import read_ledger

LOG_KEY: Final = "zab/log"
LOGS_KEY: Final = "zab/logs"
CURSOR_KEY: Final = "zab/cursor"
"""Names of custom metadata: whose ledger it is. The directory of its log is relative, as the docstring says."""
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


def whose(root: str, logs: str, name: str) -> dict[str, bytes]:
    """The custom metadata of each ledger of this log. root, logs: the directories of all ledgers and of all logs."""
    return {LOG_KEY: name.encode(), LOGS_KEY: posixpath.relpath(logs, posixpath.dirname(root)).encode()}


def may_be_orphan(metadata: LedgerMetadata) -> bool:
    return LOG_KEY in metadata.custom and LOGS_KEY in metadata.custom


def look_at(
    root: str, ledger: int, wall_ms: int, closed_for_ms: int | None = None
) -> Steps[tuple[Sweep, VersionedMetadata | None]]:
    """What is to be done with this ledger, and what it is. `closed_for_ms`: for how long the caller has known it as a
    closed orphan, None if it has not."""
    found = yield from read_ledger(root, ledger)
    if found is None:
        return Sweep.KEEP, None
    metadata = found.metadata
    log, logs = _text(metadata.custom.get(LOG_KEY)), _logs_of(root, metadata.custom)
    if log is None or logs is None or metadata.ctime_ms is None or wall_ms - metadata.ctime_ms < ORPHAN_MS:
        return Sweep.KEEP, found
    cursor = _text(metadata.custom.get(CURSOR_KEY))
    if cursor is None and CURSOR_KEY in metadata.custom:
        return Sweep.KEEP, found
    try:
        is_named = yield from _is_named(logs, log, cursor, ledger)
    except InvalidLogError:
        return Sweep.KEEP, found
    if is_named:
        return Sweep.KEEP, found
    if not metadata.is_closed:
        return Sweep.RECOVER, found
    is_old = closed_for_ms is not None and closed_for_ms >= FENCED_MS
    return (Sweep.DELETE if is_old else Sweep.WAIT), found


def _logs_of(root: str, custom: Mapping[str, bytes]) -> str | None:
    """The directory of the log. None: it is not named, or is outside of what can be seen here."""
    relative = _text(custom.get(LOGS_KEY))
    if relative is None:
        return None
    parts = [part for part in posixpath.dirname(root).split("/") if part]
    for part in relative.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part in ("", ".", "..") or not part.isprintable():
            return None
        else:
            parts.append(part)
    return "/" + "/".join(parts) if parts else None


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
