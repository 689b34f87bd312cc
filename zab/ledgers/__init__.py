"""The client of replicated ledgers, for trio: `async with zab.ledgers.open_store(zk) as store: …`.

`zab.ledgers.aio` is the same for asyncio, `zab.ledgers.sync` for threads that block. The rules are in `zab.ledger`,
which is pure; here is what drives its cores: `driving` gives them what happens and does what they ask for, over links
to bookies (`bookie_link`, `connection`) and the session of a client of the coordination service (`coordination`).
`store`, `writing` and `reading` are what a user sees. Everything but `on_trio`, `aio` and `on_threads` is without I/O.
"""

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Entry
from zab.ledger.managed.log_info import LogConfig, LogInfo, Position
from zab.ledger.managed.settings import LogSettings, OffloadSettings
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zab.ledger.placement.placement import PlacementSettings
from zab.ledger.reader.events import ReaderSettings
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.writer.events import Resolved
from zab.ledger.writer.settings import WriterSettings
from zab.ledgers.errors import (
    AppendUnknownError,
    BackpressureError,
    BadPasswordError,
    DigestError,
    EntryLostError,
    EntryTooLargeError,
    LacUnknownError,
    LedgerClosedByOtherError,
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerNotClosedError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchRootError,
    NotConfirmedError,
    NotEnoughBookiesError,
    ReadUnavailableError,
    RecoveryAbortedError,
    SealedError,
)
from zab.ledgers.log_errors import (
    ContendedError,
    LogClosedError,
    LogContentError,
    LogDamagedError,
    LogError,
    LogFencedError,
    LogTerminatedError,
    NoSuchCursorError,
    NoSuchLogError,
    NotWritableError,
    OffloadDamagedError,
    OffloadError,
    OffloadUnavailableError,
    TrimmedError,
)
from zab.ledgers.log_reading import LogEntries, LogEntry
from zab.ledgers.logged_changes import LoggedChanges
from zab.ledgers.logs import LogCursor, LogTicket, ManagedLog
from zab.ledgers.reading import Entries, LedgerReader
from zab.ledgers.settings import ROOT, SECURED_ACL, Protocol, StoreSettings
from zab.ledgers.store import LedgerInfo, LedgerStore
from zab.ledgers.trio_store import open_store
from zab.ledgers.writing import LedgerWriter, Ticket

__all__ = [
    "ROOT",
    "SECURED_ACL",
    "AppendUnknownError",
    "BackpressureError",
    "BadPasswordError",
    "ContendedError",
    "DigestError",
    "DigestType",
    "Entries",
    "Entry",
    "EntryLostError",
    "EntryTooLargeError",
    "Fragment",
    "LacUnknownError",
    "LedgerClosedByOtherError",
    "LedgerClosedError",
    "LedgerError",
    "LedgerFencedError",
    "LedgerInfo",
    "LedgerMetadata",
    "LedgerNotClosedError",
    "LedgerReader",
    "LedgerState",
    "LedgerStore",
    "LedgerWriter",
    "LogClosedError",
    "LogConfig",
    "LogContentError",
    "LogCursor",
    "LogDamagedError",
    "LogEntries",
    "LogEntry",
    "LogError",
    "LogFencedError",
    "LogInfo",
    "LogSettings",
    "LogTerminatedError",
    "LogTicket",
    "LoggedChanges",
    "ManagedLog",
    "MetadataConflictError",
    "MetadataUnavailableError",
    "NoSuchCursorError",
    "NoSuchLedgerError",
    "NoSuchLogError",
    "NoSuchRootError",
    "NotConfirmedError",
    "NotEnoughBookiesError",
    "NotWritableError",
    "OffloadDamagedError",
    "OffloadError",
    "OffloadSettings",
    "OffloadUnavailableError",
    "PlacementSettings",
    "Position",
    "Protocol",
    "ReadUnavailableError",
    "ReaderSettings",
    "RecoveryAbortedError",
    "RecoverySettings",
    "Resolved",
    "SealedError",
    "StoreSettings",
    "Ticket",
    "TrimmedError",
    "WriterSettings",
    "open_store",
]
