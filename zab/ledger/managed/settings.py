"""The settings of a managed ledger's owner, with their defaults and limits."""

from __future__ import annotations

from typing import Any, Final

from attrs import Attribute, field, frozen
from attrs.validators import ge, instance_of, le, max_len, optional

from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.writer.settings import WriterSettings

HOUR_MS: Final = 3_600_000
KEEP_MS: Final = 4 * HOUR_MS
MIB: Final = 1024 * 1024
URI_MAX: Final = 500
"""Characters of the URI of an object store."""
LAC_MS: Final = 100
"""Readers that follow a log hear of its last entry after so long, if no other entry tells them."""


def _at_least(least: int, default: int) -> Any:
    return field(default=default, validator=[instance_of(int), ge(least)])


def _at_most(instance: LogSettings, attribute: Attribute[int], value: int) -> None:
    if value > instance.max_age_ms:
        raise ValueError(f"{attribute.name} {value} is above max_age_ms {instance.max_age_ms}")


def _is_absolute(_instance: object, attribute: Any, value: str) -> None:
    scheme, sep, rest = value.partition("://")
    if not (scheme and sep and rest) and not value.startswith("/"):
        raise ValueError(f"{attribute.name} is neither a URI nor a path from the root on: {value[:80]!r}")
    if sep and "@" in rest.partition("/")[0]:
        raise ValueError(f"{attribute.name} has a user or password, which the log's list would show to everybody")


_URI: Final[Any] = [instance_of(str), max_len(URI_MAX), _is_absolute]


@frozen(kw_only=True)
class OffloadSettings:
    """Where closed ledgers are copied to. Times are in milliseconds, sizes in bytes."""

    uri: str = field(validator=_URI)
    """A directory: a path from the root on, or a URI that `pyarrow.fs` takes (`s3://bucket/prefix?region=…`). Access is
    configured where each process runs, never here: the list of the log has this URI. Below it each log has a directory
    of its own."""
    keep_ms: int = _at_least(0, KEEP_MS)
    """So long after a ledger was copied bookies have it as well."""
    block_bytes: int = field(default=MIB, validator=[instance_of(int), ge(1), le(64 * MIB)])
    """Readers fetch blocks of this size."""
    retry_ms: int = _at_least(1, 60_000)
    """The pause after a copy that failed."""


@frozen(kw_only=True)
class LogSettings:
    """Times are in milliseconds, sizes in bytes."""

    max_entries: int = _at_least(1, 50_000)
    """A ledger with so many entries is rolled: it ends, and another one follows."""
    max_bytes: int = _at_least(1, 256 * 1024 * 1024)
    """A ledger with so many bytes of payload is rolled."""
    max_age_ms: int = _at_least(1, 4 * HOUR_MS)
    """A ledger that is so old and not empty is rolled; up to a twentieth later, so that logs do not roll together."""
    min_age_ms: int = field(default=0, validator=[instance_of(int), ge(0), _at_most])
    """No ledger is rolled before that, however large it is."""
    retention_ms: int | None = field(default=None, validator=optional([instance_of(int), ge(0)]))
    """So long a ledger is kept after it was closed, even if all cursors are beyond it. None: for ever."""
    retention_bytes: int | None = field(default=None, validator=optional([instance_of(int), ge(0)]))
    """When the log has more bytes than that, ledgers that all cursors are beyond go before their time. None: never."""
    trim_ms: int = _at_least(1, 60_000)
    """How often it is looked for ledgers that may go; besides, after each roll."""
    waiting_appends_max: int = _at_least(0, 10_000)
    """Appends that wait for the next ledger; above that, they are refused."""
    waiting_bytes_max: int = _at_least(0, 64 * 1024 * 1024)
    """The payloads of these; above that, appends are refused."""
    wait_ms: int = _at_least(1, 30_000)
    """So long an append waits for the next ledger; then it is refused, and is not in the log."""
    resolve_ms: int = _at_least(1, 10_000)
    """So long it is waited for the end of a ledger that this owner did not close itself; then the outcome of what was
    appended to it is unknown."""
    retry_ms: int = _at_least(1, 1_000)
    """The pause before another try when too few bookies are there, or a recovery was aborted."""
    watches: bool = True
    """Whether the list is watched, so that a claim is noticed before the next roll."""
    cursor_ms: int = _at_least(0, 1_000)
    """The least time between two writes of a cursor."""
    cursor_entries: int = _at_least(1, 50_000)
    """A cursor's ledger with so many states is replaced."""
    offload: OffloadSettings | None = None
    """Closed ledgers are copied to this object store. None: they stay on bookies; objects that are there are used."""
    writer: WriterSettings = WriterSettings(explicit_lac_ms=LAC_MS)
    recovery: RecoverySettings = RecoverySettings()
