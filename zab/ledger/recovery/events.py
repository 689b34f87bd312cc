"""The settings of a recovery, and how one ends.

Its inputs and effects are those of every client (`zab.ledger.store.events`): it is told `ClientInput`, asks for `Send`
and `Submit`, and ends with `Completed(token, outcome)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.wire.status import Status

MIB: Final = 1 << 20


@frozen
class RecoverySettings:
    """Limits of one recovery."""

    window_entries: int = 64
    """The most entries that are read or written back at the same time."""
    window_bytes: int = 4 * MIB
    """The most bytes of these; one entry is always allowed."""
    entry_bytes: int = MIB
    """What an entry counts as before any was seen; after that, an entry that is not read yet counts as the largest."""
    request_timeout_ms: int = 5_000
    retry_ms: int = 100
    """How long a bookie whose answer proves nothing is left alone before it is asked again; doubles each time."""
    retry_max_ms: int = 2_000
    busy_max: int = 3
    """A bookie that answers an add so often with TOO_MANY_REQUESTS has failed."""
    patience_ms: int = 30_000
    """A recovery that has not got any further for so long is aborted."""
    restarts_max: int = 10
    """How often it begins again because somebody else changed the ledger."""


@frozen
class Recovered:
    """The ledger is closed, by this recovery or by somebody else: `versioned` says where."""

    versioned: VersionedMetadata


@frozen
class RecoveryAborted:
    """The recovery got no further; the ledger stays as it is, and may be recovered later.

    needed: how many bookies have to answer (for coverage: of the whole ensemble, in the worst case), answered: who did,
    unknown: the others, with what they said last, None if nothing.
    """

    reason: str
    entry: int = NONE
    """The entry that could not be decided, measured or written back; -1: none in particular."""
    needed: int = 0
    answered: frozenset[BookieId] = frozenset()
    unknown: Mapping[BookieId, Status | None] = field(factory=dict, hash=False)


@frozen
class NoSuchLedger:
    """There is no metadata: the ledger was deleted, or never was."""


@frozen
class BadPassword:
    """The metadata has another password. No bookie was asked."""


RecoveryOutcome: TypeAlias = Recovered | RecoveryAborted | NoSuchLedger | BadPassword
