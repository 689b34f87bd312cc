"""What is below the root of all ledgers, and the text that says how ledgers are laid out.

BookKeeper refuses to delete a root that has children it does not know, so nothing else may be put there.

| path below the root | data |
|---|---|
| `LAYOUT` | `Layout`: two lines |
| `INSTANCEID` | a UUID as text, made when the root is |
| `available/<bookie>`, `available/readonly/<bookie>` | ephemeral; `service_info.py` |
| `cookies/<bookie>` | `cookies.py` |
| `idgen/ID-` | sequential ephemerals, whose numbers are ids below 2^31 - 1 |
| `idgen-long/HOB-`, below it `ID-` | the same for ids from there on; as soon as it exists it makes all ids |
| `underreplication` | `underreplication.py` |
| `disableHealthCheck` | exists or not |
| everything of 2 or 3 digits | `paths.py` |
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.text_format import string_of

LAYOUT: Final = "LAYOUT"
INSTANCE_ID: Final = "INSTANCEID"
AVAILABLE: Final = "available"
READ_ONLY: Final = "available/readonly"
COOKIES: Final = "cookies"
IDS: Final = "idgen"
LONG_IDS: Final = "idgen-long"
UNDERREPLICATION: Final = "underreplication"
DISABLE_HEALTH_CHECK: Final = "disableHealthCheck"

HIERARCHICAL: Final = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"

_LAYOUT_VERSION: Final = 2
_FACTORY_VERSION: Final = 1
_TEXT: Final = re.compile(r"([0-9]{1,9})\n([^\s:]+):([0-9]{1,9})\n?", re.ASCII)


@attrs.frozen
class Layout:
    """The content of `LAYOUT`. The default is the one layout that is written and served here."""

    factory: str = HIERARCHICAL
    """The class of BookKeeper that knows the paths."""
    factory_version: int = _FACTORY_VERSION
    layout_version: int = _LAYOUT_VERSION

    @property
    def is_served(self) -> bool:
        """Whether its paths are those of `paths.py`."""
        return self == Layout()


def encode_layout(layout: Layout) -> bytes:
    """The data of the znode."""
    return f"{layout.layout_version}\n{layout.factory}:{layout.factory_version}".encode()


def decode_layout(data: bytes) -> Layout:
    """The layout in the data of the znode. Raises InvalidMetadataError."""
    found = _TEXT.fullmatch(string_of(data, "layout"))
    if found is None:
        raise InvalidMetadataError(f"not a layout of ledgers: {data[:60]!r}")
    version, factory, factory_version = found.groups()
    return Layout(factory, int(factory_version), int(version))
