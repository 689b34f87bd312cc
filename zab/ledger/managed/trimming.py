"""Which ledgers of a list may go: a prefix of it, so that a log never has a gap.

A ledger may go when it is closed and not the last one, every cursor is at or beyond its last entry, and either its time
is over or the log has too many bytes. Without cursors time and bytes alone decide; a log without limits keeps all.

This is the only rule of managed ledgers that uses wall clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zab.coordination.operations import Delete, Exists
from zab.coordination.steps import Steps, read
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position
from zab.ledger.managed.store import Taken, Written, write_log
from zab.ledger.managed.succession import Succession
from zab.ledger.metadata.paths import ledger_path

TRIMMED_AT_ONCE_MAX: Final = 50
"""So many ledgers go in one multi."""


def trimmable(
    info: LogInfo, marks: Iterable[Position], wall_ms: int, retention_ms: int | None, retention_bytes: int | None
) -> int:
    """How many ledgers may go, from the first one on. `marks`: of all durable cursors, as they are stored."""
    least = min(marks, default=None)
    length = info.length
    count = 0
    for each in info.ledgers[:-1]:
        if each.entries is None or (least is not None and least < each.last):
            break
        is_old = retention_ms is not None and wall_ms - (each.closed_ms or 0) >= retention_ms
        is_too_much = retention_bytes is not None and length > retention_bytes
        if not (is_old or is_too_much):
            break
        count += 1
        length -= each.length
    return count


def trim_ledgers(
    of: Succession,
    root: str,
    marks: Callable[[], Iterable[Position]],
    wall_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
    left: Callable[[Iterable[LedgerInfo]], None] = lambda _ledgers: None,
) -> Steps[int]:
    """Trim what may go. In one multi each time: the list without the ledgers, and the ledgers. Returns how many went;
    with `of.is_taken` another owner has the log. `left`: told which ones the list no longer names."""
    gone = 0
    while True:
        log = of.known
        count = trimmable(log.info, marks(), wall_ms, retention_ms, retention_bytes)
        count = min(count, TRIMMED_AT_ONCE_MAX)
        if count == 0:
            return gone
        paths = [ledger_path(root, each.id) for each in log.info.ledgers[:count]]
        there = yield from read(Exists(path) for path in paths)
        # An operator may have deleted one.
        parts = [Delete(path) for path, each in zip(paths, there, strict=True) if not each.is_missing]
        written = yield from write_log(log, log.info.without(count), parts)
        if isinstance(written, Written):
            of.wrote(written.log)
            left(log.info.ledgers[:count])
            gone += count
        elif isinstance(written, Taken) and not of.adopt(written.current):
            return gone
