"""Which ledgers of a list may go: a prefix of it, so that a log never has a gap.

A ledger may go when it is closed and not the last one, every cursor is at or beyond its last entry, and either its time
is over or the log has too many bytes. Without cursors time and bytes alone decide; a log without limits keeps all.

This is the only rule of managed ledgers that uses wall clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol

from zab.coordination.operations import Delete, Exists
from zab.coordination.steps import Steps, read
from zab.ledger.managed.events import Failed, OwnerState, Trimmed
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position
from zab.ledger.managed.parts import Handlers
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.store import Taken, Written, write_log
from zab.ledger.managed.succession import Succession
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.store.events import Completed

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


class TrimsOwner(Protocol):
    """The owner of the log, as its trims see it."""

    root: str
    settings: LogSettings
    list: Succession
    state: OwnerState
    now_ms: int

    @property
    def wall_ms(self) -> int: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def failed(self) -> Failed: ...

    def trim_is_taken(self) -> None:
        """Another owner has written the list."""


class Trims:
    """When a log is trimmed, and who waits for that. `marks`, `left`: as those of `trim_ledgers`."""

    def __init__(
        self,
        owner: TrimsOwner,
        handlers: Handlers,
        out: list[Any],
        marks: Callable[[], Iterable[Position]],
        left: Callable[[Iterable[LedgerInfo]], None],
    ) -> None:
        self._owner, self._handlers, self._out = owner, handlers, out
        self._marks, self._left = marks, left
        self._asked: list[Hashable] = []
        self.due_ms: int | None = None
        """When the log is trimmed without being asked; None: never."""

    def ask(self, token: Hashable) -> None:
        """A caller wants it."""
        self._asked.append(token)
        self.soon()

    def check_times(self) -> None:
        if self.due_ms is not None and self.due_ms <= self._owner.now_ms:
            self.soon()

    def soon(self) -> None:
        """Trim, if the log has limits or somebody has asked. At the end of the owner these are told."""
        owner, of = self._owner, self._owner.settings
        if owner.state in (OwnerState.OPEN, OwnerState.TERMINATED):
            has_limits = of.retention_ms is not None or of.retention_bytes is not None
            self.due_ms = owner.now_ms + of.trim_ms if has_limits else None
            if has_limits or self._asked:
                self._handlers.offer("trim", self._trim)
        elif owner.is_over:
            self._answer(owner.failed)

    def _trim(self) -> Steps[None]:
        owner, of = self._owner, self._owner.settings
        given = owner.wall_ms, of.retention_ms, of.retention_bytes, self._left
        gone = yield from trim_ledgers(owner.list, owner.root, self._marks, *given)
        if owner.list.is_taken:
            owner.trim_is_taken()
        else:
            self._answer(Trimmed(gone, owner.list.info.first))

    def _answer(self, outcome: Trimmed | Failed) -> None:
        asked, self._asked = self._asked, []
        self._out.extend(Completed(token, outcome) for token in asked)
