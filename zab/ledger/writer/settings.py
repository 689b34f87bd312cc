"""The settings of a ledger's writer, with their defaults and limits."""

from __future__ import annotations

from typing import Any, Final

from attrs import Attribute, field, frozen
from attrs.validators import ge, instance_of, le

ENTRY_BYTES_MAX: Final = 5 * 1024 * 1024
"""The largest payload that any setting allows: BookKeeper's bookies take frames of 5 MiB and some KiB by default."""


class UnsupportedError(ValueError):
    """A feature of BookKeeper that is not there."""


def _unsupported(_: Any, attribute: Attribute[bool], value: bool) -> None:
    if value:
        raise UnsupportedError(f"{attribute.name} is not supported: entries are durable before they are acknowledged")


def _ms(default: int, least: int = 0) -> int:
    found: int = field(default=default, validator=[instance_of(int), ge(least)])
    return found


@frozen(kw_only=True)
class WriterSettings:
    """Times are in milliseconds, sizes in bytes. Zero turns a limit off where it says so."""

    entry_bytes_max: int = field(default=1024 * 1024, validator=[instance_of(int), ge(1), le(ENTRY_BYTES_MAX)])
    """The largest payload of an entry; a larger one is refused."""
    pending_bytes_max: int = field(default=16 * 1024 * 1024, validator=[instance_of(int), ge(1)])
    """Payloads that are not acknowledged yet; above that, appends wait before they get an id. One entry always fits."""
    pending_entries_max: int = field(default=10_000, validator=[instance_of(int), ge(1)])
    """Entries that are not acknowledged yet; above that, appends wait."""
    waiting_appends_max: int = field(default=10_000, validator=[instance_of(int), ge(0)])
    """Appends that wait; above that, they are refused."""
    waiting_bytes_max: int = field(default=64 * 1024 * 1024, validator=[instance_of(int), ge(0)])
    """The payloads of appends that wait; above that, they are refused."""
    add_timeout_ms: int = _ms(5_000, 1)
    """A bookie that owes an answer, and has given none for so long, has failed."""
    quorum_timeout_ms: int = _ms(30_000)
    """An entry that is not acknowledged after so long ends the ledger. 0: never."""
    reconnect_ms: int = _ms(200)
    """What a broken connection had under way is sent again after so long; a second break is a failure. 0: the first
    one is."""
    busy_pause_ms: int = _ms(50, 1)
    """What a bookie was too busy for is sent again after so long, the next time after twice as long."""
    busy_tries_max: int = field(default=3, validator=[instance_of(int), ge(1)])
    """A bookie that is so often too busy for one entry has failed."""
    coalesce_ms: int = _ms(10)
    """Failures that do not hold an entry back wait so long for others: they are replaced by one change."""
    changes_max: int = field(default=10, validator=[instance_of(int), ge(1)])
    """More ensemble changes than that in `changes_window_ms` end the ledger."""
    changes_window_ms: int = _ms(60_000, 1)
    excluded_ms: int = _ms(30_000)
    """A bookie that failed is not chosen again by this writer for so long, unless the ledger would end without it."""
    retry_ms: int = _ms(1_000, 1)
    """A failed bookie that nobody can replace, and that is not needed, is replaced or tried again after so long."""
    metadata_bytes_max: int = field(default=256 * 1024, validator=[instance_of(int), ge(1024)])
    """A change that would make the ledger's znode larger ends the ledger."""
    explicit_lac_ms: int = _ms(0)
    """When no entry has told readers of the last acknowledged one for so long, it is written by itself. 0: never."""
    drain_ms: int = _ms(30_000)
    """So long closing waits for entries that are not acknowledged yet."""
    resolve_ms: int = _ms(10_000, 1)
    """So long it is waited for another one to close the ledger, or for the coordination service to answer at the end;
    then what is not decided is unknown."""
    deferred_sync: bool = field(default=False, validator=_unsupported)
    """BookKeeper's deferred durability is refused."""
