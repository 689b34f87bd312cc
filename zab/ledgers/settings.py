"""The settings of a store of ledgers, with their defaults and limits."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from attrs import evolve, field, frozen
from attrs.validators import ge, instance_of

from zab.client import CREATOR_ALL_ACL, OPEN_ACL, READ_ACL, Acl, Tls
from zab.ledger.entries.ids import BookieId
from zab.ledger.managed.log_info import LOGS_ROOT
from zab.ledger.placement.placement import PlacementSettings
from zab.ledger.reader.events import ReaderSettings
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.wire.frames import FRAME_BYTES_MAX
from zab.ledger.writer.admission import BUDGET_BYTES_MAX
from zab.ledger.writer.settings import WriterSettings

ROOT: Final = "/ledgers"
"""Where BookKeeper keeps the metadata of ledgers, unless it is told otherwise."""
SECURED_ACL: Final = (*CREATOR_ALL_ACL, *READ_ACL)
"""The ACL of BookKeeper's znodes with `zkEnableSecurity`: the creator of one may change it, and everybody may read it.
The client needs a login, or a certificate that the members check."""


class Protocol(Enum):
    """The version of BookKeeper's protocol that adds and reads use. The rest is only in V3."""

    V2 = "v2"
    V3 = "v3"


def _count(default: int, least: int = 1) -> Any:
    return field(default=default, validator=[instance_of(int), ge(least)])


@frozen(kw_only=True)
class StoreSettings:
    """Times are in milliseconds, sizes in bytes."""

    root: str = ROOT
    """The znode that all ledgers are below."""
    logs_root: str = LOGS_ROOT
    """The znode that all managed ledgers are below."""
    protocol: Protocol = field(default=Protocol.V2, converter=Protocol)
    tls: Tls | Callable[[], ssl.SSLContext] | None = None
    """TLS with bookies, by StartTls: the stores of this client, or what returns the context for the next connection.
    None: in clear. A bookie without TLS is then not used at all."""
    tls_failed: Callable[[BookieId, str], None] | None = None
    """Called with a bookie, and the reason, each time that TLS with it fails. Nothing is raised for that: the bookie
    counts as one that cannot be reached."""
    acl: Sequence[Acl] = OPEN_ACL
    """The ACL of the znodes that this client creates; `SECURED_ACL` is that of BookKeeper's `zkEnableSecurity`."""
    writer: WriterSettings = WriterSettings()
    reader: ReaderSettings = ReaderSettings()
    recovery: RecoverySettings = RecoverySettings()
    placement: PlacementSettings = PlacementSettings()
    pending_bytes_max: int = _count(BUDGET_BYTES_MAX)
    """What all writers of the store together may have pending; above that, appends wait."""
    dial_timeout_ms: int = _count(5_000)
    """A connection to a bookie that is not open after so long has failed."""
    request_timeout_ms: int = _count(5_000)
    """A bookie that has not answered after so long is hung up on; the time that a long poll may wait is added."""
    redial_ms: int = _count(100, 0)
    """After a failed attempt a bookie is not dialled again for so long; requests fail at once."""
    unsent_bytes_max: int = _count(64 * 1024 * 1024)
    """A bookie that leaves more than that unread is hung up on."""
    frame_bytes_max: int = _count(FRAME_BYTES_MAX, 1024)
    """The largest answer of a bookie; a larger one ends its connection."""
    close_wait_ms: int = _count(10_000, 0)
    """At the end of the store's block, its open ledgers are closed. So long that may take."""


def settings_of(settings: StoreSettings | None, root: str | None) -> StoreSettings:
    """What a store is opened with. `root`: shorthand for that field. Raises StoreError: a store of TLS cannot be
    used."""
    of = settings or StoreSettings()
    if isinstance(of.tls, Tls):
        # The libraries of certificates are loaded by those alone who need them.
        from zab.client.tls_context import context_of

        context = context_of(of.tls)
        of = evolve(of, tls=lambda: context)
    return of if root is None else evolve(of, root=root)
