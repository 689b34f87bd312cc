"""How the bookies of a test are configured: the file of each, in memory.

BookKeeper's defaults are for large disks and long lives. Here journals are small, and sessions end soon. A test may set
any key but those that the kit decides itself: names, ports, directories, the ensemble.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from zab.bookie.config_file import BookieSettingsError, read_settings
from zab.bookie.settings import BookieSettings
from zab.configuration.properties import escaped
from zab.testing.broker_settings import Value
from zab.testing.kit.ports import HOST

COUNT_MAX: Final = 9
"""Bookies of a test."""
ROOT: Final = "/ledgers"
DEFAULTS: Final[Mapping[str, Value]] = {
    "zkTimeout": 2000,
    "journalMaxSizeMB": 16,
    "minUsableSizeForHighPriorityWrites": 1 << 20,
    "diskUsageThreshold": "0.999",
    "diskUsageLwmThreshold": "0.999",
    "diskUsageWarnThreshold": "0.99",
}
_OWN: Final = frozenset(
    {
        *("bookiePort", "bookieId", "advertisedAddress", "listeningInterface", "metadataServiceUri", "zkServers"),
        *("zkLedgersRootPath", "journalDirectory", "journalDirectories", "ledgerDirectories", "indexDirectories"),
    }
)


@frozen
class BookiePlace:
    """Where one bookie listens, its name, and where its data is."""

    name: str
    port: int
    directory: Path


def check_count(count: int) -> None:
    """Raises ValueError for so many bookies as there cannot be."""
    if not 1 <= count <= COUNT_MAX:
        raise ValueError(f"there are 1 to {COUNT_MAX} bookies, not {count}")


def bookie_settings(place: BookiePlace, uri: str, keys: Mapping[str, Value]) -> BookieSettings:
    """The settings of one bookie. Raises ValueError for what cannot be."""
    for key in keys:
        if key in _OWN:
            raise ValueError(f"{key} is for the kit to decide: it cannot be set")
    lines: dict[str, Value] = {
        **DEFAULTS,
        **keys,
        "bookieId": place.name,
        "bookiePort": place.port,
        "advertisedAddress": HOST,
        "journalDirectories": str(place.directory / "journal"),
        "ledgerDirectories": str(place.directory / "ledgers"),
        "metadataServiceUri": uri,
    }
    text = "".join(f"{key}={escaped(_text(value))}\n" for key, value in lines.items())
    try:
        settings = read_settings(text)
    except BookieSettingsError as error:
        raise ValueError(f"the settings of bookie {place.name}, {error}") from None
    for warning in settings.warnings:
        if "unknown" in warning:
            # A bookie passes over it, for the sake of files that were written for others. Here it is a mistake.
            raise ValueError(f"the settings of bookie {place.name}, {warning}")
    return settings


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
