"""Requests and answers, as writers, readers and bookies know them: nothing here depends on the version of the protocol.

Every answer names the ids of its request, whatever its status is. What a version cannot say, it leaves out: v2 has no
`is_deferred`, no long poll and no `max_lac`; v3 has no `ReadBatch`.

Not here: how a client finds the request of an answer, and what a bookie must keep for its answer (`codec.py`).
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from zab.ledger.wire.status import Status

# ------------------------------------------------------------------------------------------------------------ requests


@attrs.frozen
class AddEntry:
    """Store an entry. `is_recovery`: even if the ledger is fenced. `is_deferred`: answer before it is durable.
    `is_urgent`: even from the space that is kept for recovery."""

    ledger: int
    entry: int
    key: bytes
    """The master key, 20 bytes."""
    envelope: bytes
    is_recovery: bool = False
    is_deferred: bool = False
    is_urgent: bool = False


@attrs.frozen
class ReadEntry:
    """Read an entry; `entry` -1: the one with the highest id. `is_fencing`: fence the ledger first, with the ledger's
    `key`.

    With `previous_lac` it waits up to `wait_ms` until the bookie knows of a higher LAC. With `wants_piggyback` it then
    asks for the entry after `previous_lac`, and `entry` is -1.
    """

    ledger: int
    entry: int
    key: bytes = b""
    is_fencing: bool = False
    is_urgent: bool = False
    previous_lac: int | None = None
    wait_ms: int | None = None
    wants_piggyback: bool = False


@attrs.frozen
class ReadBatch:
    """Read consecutive entries from `first` on: at most `count_max` (0: any number), and `size_max` bytes. The first is
    read in any case."""

    ledger: int
    first: int
    count_max: int
    size_max: int
    key: bytes = b""
    is_fencing: bool = False
    is_urgent: bool = False


@attrs.frozen
class WriteLac:
    """Keep an explicit LAC: a packet (`entries/envelope.py`) that says `lac`."""

    ledger: int
    lac: int
    key: bytes
    packet: bytes


@attrs.frozen
class ReadLac:
    """Read the explicit LAC, and the entry with the highest id."""

    ledger: int


@attrs.frozen
class ForceLedger:
    """Answer when everything of this ledger that was answered before is durable."""

    ledger: int


class BookieInfoWanted(enum.IntFlag):
    """What a client wants to know of a bookie."""

    NOTHING = 0
    CAPACITY = 1
    FREE = 2


@attrs.frozen
class GetBookieInfo:
    """Ask for the size of the bookie's disks, and for what is free of it."""

    wants: BookieInfoWanted


@attrs.frozen
class ListEntries:
    """Ask which entries of a ledger the bookie has."""

    ledger: int


@attrs.frozen
class StartTls:
    """Go on in TLS on this connection, if the answer is OK."""


@attrs.frozen
class Authenticate:
    """One message of a login."""

    plugin: str
    payload: bytes


Request: TypeAlias = (
    AddEntry
    | ReadEntry
    | ReadBatch
    | WriteLac
    | ReadLac
    | ForceLedger
    | GetBookieInfo
    | ListEntries
    | StartTls
    | Authenticate
)

# ------------------------------------------------------------------------------------------------------------- answers


@attrs.frozen
class Added:
    """The answer to AddEntry."""

    status: Status
    ledger: int
    entry: int


@attrs.frozen
class EntryRead:
    """The answer to ReadEntry. `entry` is that of the request, so -1 for the last entry; with a piggyback it is the id
    of the entry in the answer, or -1 if it has none."""

    status: Status
    ledger: int
    entry: int
    envelope: bytes = b""
    """Empty if the answer has no entry; an envelope never is."""
    max_lac: int | None = None
    """The LAC that the bookie knows, with no digest to prove it."""
    lac_time_ms: int | None = None
    """When the bookie learnt of that LAC, in milliseconds since 1970 by its clock."""


@attrs.frozen
class BatchRead:
    """The answer to ReadBatch: the entries from `first` on, perhaps fewer than asked for."""

    status: Status
    ledger: int
    first: int
    envelopes: tuple[bytes, ...] = ()


@attrs.frozen
class LacWritten:
    """The answer to WriteLac."""

    status: Status
    ledger: int


@attrs.frozen
class LacRead:
    """The answer to ReadLac. Empty: there is none."""

    status: Status
    ledger: int
    packet: bytes = b""
    envelope: bytes = b""


@attrs.frozen
class Forced:
    """The answer to ForceLedger."""

    status: Status
    ledger: int


@attrs.frozen
class BookieInfo:
    """The answer to GetBookieInfo, in bytes; None: not asked for."""

    status: Status
    capacity: int | None = None
    free: int | None = None


@attrs.frozen
class EntriesListed:
    """The answer to ListEntries: sorted runs of ids, each with its first and its last id."""

    status: Status
    ledger: int
    runs: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class TlsStarted:
    """The answer to StartTls."""

    status: Status


@attrs.frozen
class Authenticated:
    """The answer to Authenticate."""

    status: Status
    plugin: str = ""
    payload: bytes = b""


Answer: TypeAlias = (
    Added
    | EntryRead
    | BatchRead
    | LacWritten
    | LacRead
    | Forced
    | BookieInfo
    | EntriesListed
    | TlsStarted
    | Authenticated
)


def answer_without(request: Request, status: Status) -> Answer:
    """The answer that says `status`, and nothing else but the ids of the request: for refusals, for ForceLedger and
    WriteLac, and for what a host says itself when a bookie does not answer."""
    match request:
        case AddEntry(ledger, entry):
            return Added(status, ledger, entry)
        case ReadEntry(ledger, entry):
            return EntryRead(status, ledger, entry)
        case ReadBatch(ledger, first):
            return BatchRead(status, ledger, first)
        case WriteLac(ledger):
            return LacWritten(status, ledger)
        case ReadLac(ledger):
            return LacRead(status, ledger)
        case ForceLedger(ledger):
            return Forced(status, ledger)
        case GetBookieInfo():
            return BookieInfo(status)
        case ListEntries(ledger):
            return EntriesListed(status, ledger)
        case StartTls():
            return TlsStarted(status)
        case Authenticate(plugin):
            return Authenticated(status, plugin)
