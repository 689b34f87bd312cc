"""What clients of ledgers did, and what they were told: the input of the checker.

A stream is what is read from its beginning to its end: one ledger, or a managed ledger, which is a list of ledgers. A
place is the ledger and the entry. An append has an outcome: OK it is at this place; FAIL it is nowhere, and never will
be; INFO nobody knows.

One clock is for all clients: `start` is taken before an operation is begun, `end` after its answer; `end` is infinite
without one. `client` is one incarnation of one client, `number` the order in which it began its operations. A value is
appended once, so that a value that is read names the append that it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from attrs import field, frozen

from tests.chaos import outcome
from tests.chaos.outcome import Outcome


class Place(NamedTuple):
    """A ledger and an entry."""

    ledger: int
    entry: int


@frozen(kw_only=True)
class Operation(outcome.Operation):
    """What all operations have: they are on one stream."""

    stream: str


@frozen(kw_only=True)
class Append(Operation):
    """One entry. place: where it was acknowledged; None unless it is OK."""

    value: str
    outcome: Outcome
    place: Place | None = None


class Record(NamedTuple):
    """What a reader is given."""

    place: Place
    value: str


@frozen(kw_only=True)
class Read(Operation):
    """The entries that a reader was given since its last read, in their order."""

    records: tuple[Record, ...]


@frozen(kw_only=True)
class Begin(Operation):
    """From here on this client reads the stream from this place on."""

    place: Place


@frozen(kw_only=True)
class End(Operation):
    """A ledger was closed, or recovered: this is its last entry, -1 without one."""

    ledger: int
    last: int


@frozen
class History:
    """A run. Each tuple is in any order."""

    appends: tuple[Append, ...] = ()
    reads: tuple[Read, ...] = ()
    begins: tuple[Begin, ...] = ()
    ends: tuple[End, ...] = ()
    finals: Mapping[str, tuple[Record, ...]] = field(factory=lambda: MappingProxyType({}))
    """What is in each stream when everything runs again and every ledger is closed, from its beginning to its end."""
