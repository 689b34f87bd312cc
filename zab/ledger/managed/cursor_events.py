"""What is asked of the cursors of a managed ledger, by its owner's callers.

    CursorOpen(token, name, …)         ->  Completed(token, CursorOpened | Failed)    made if there is none
    CursorAcknowledge(name, …)             these entries are consumed
    CursorMark(name, position)             everything up to there is consumed
    CursorProperties(name, properties)     stored with it
    CursorFlush(token, name)           ->  Completed(token, Done | Failed)            when all of that is stored
    CursorDelete(token, name)          ->  Completed(token, Done | Failed)

What is not stored yet is delivered again after a takeover.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from zab.ledger.managed.log_info import Position


@frozen
class CursorOpen:
    """`is_earliest`: a new one begins before the first entry; else after the last one that is acknowledged now."""

    token: Hashable
    name: str
    is_earliest: bool = True


@frozen
class CursorAcknowledge:
    name: str
    ledger: int
    first: int
    last: int


@frozen
class CursorMark:
    name: str
    position: Position


@frozen
class CursorProperties:
    name: str
    properties: Mapping[str, str] = field(factory=dict, hash=False)


@frozen
class CursorFlush:
    token: Hashable
    name: str


@frozen
class CursorDelete:
    token: Hashable
    name: str


CursorCall: TypeAlias = CursorOpen | CursorAcknowledge | CursorMark | CursorProperties | CursorFlush | CursorDelete


@frozen
class CursorOpened:
    """It is there. `mark`: everything up to it is consumed."""

    mark: Position
    is_new: bool
