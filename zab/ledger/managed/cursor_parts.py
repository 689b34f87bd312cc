"""A cursor of a log as its owner has it, and the owner as its cursors see it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from attrs import define, field

from zab.ledger.entries.ids import NONE
from zab.ledger.managed.cursor_state import CursorState
from zab.ledger.managed.events import Failed
from zab.ledger.managed.log_info import LogInfo, Position
from zab.ledger.managed.parts import Part
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.succession import Succession
from zab.ledger.placement.placement import Placement
from zab.ledger.writer.writer import LedgerWriter


class CursorsOwner(Protocol):
    """The owner of the log, as its cursors see it."""

    name: str
    logs: str
    root: str
    placement: Placement
    settings: LogSettings
    password: bytes
    list: Succession
    now_ms: int

    @property
    def wall_ms(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def info(self) -> LogInfo | None: ...

    @property
    def last_confirmed(self) -> Position | None: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def failed(self) -> Failed: ...

    def cursors_failed(self, why: str) -> None:
        """The coordination service refuses."""

    def cursor_is_taken(self) -> None:
        """Another owner has written a cursor's znode."""

    def cursors_are_loaded(self) -> None:
        """All cursors have been read."""


@define(eq=False)
class Cursor:
    """One cursor. `moves`: counts what it was told; `stored`: of these, how many are stored."""

    name: str
    path: str
    version: int
    created_ms: int
    state: CursorState
    stored_mark: Position
    ledger: int = NONE
    """The ledger that the znode names."""
    moves: int = 0
    stored: int = 0
    sending: tuple[int, Position] | None = None
    """What is being stored: `moves` and the mark of that time."""
    writer: LedgerWriter | None = None
    part: Part | None = None
    due_ms: int = 0
    """When it may be stored again."""
    ledger_due_ms: int = 0
    """When another ledger may be tried."""
    is_loaded: bool = True
    flushes: list[tuple[int, Hashable]] = field(factory=list)
    note: str = ""
    """What was wrong with it, for people."""

    @property
    def is_switching(self) -> bool:
        """Whether its writer writes a ledger that the znode does not name yet."""
        return self.writer is not None and self.writer.ledger != self.ledger
