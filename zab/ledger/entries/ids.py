"""The names of ledgers, entries and bookies."""

from __future__ import annotations

import re
from typing import Final, NewType

LedgerId = NewType("LedgerId", int)
"""0 to 2^63 - 1."""

EntryId = NewType("EntryId", int)
"""0 to 2^63 - 1; `NONE` where there may be no entry."""

BookieId = NewType("BookieId", str)
"""What metadata and cookies name a bookie by. Its address is found in its registration, and may change."""

NONE: Final = -1
"""No entry: the last confirmed entry of a ledger that has none. In a read, the entry with the highest id."""

ID_MAX: Final = (1 << 63) - 1

BOOKIE_ID_CHARS_MAX: Final = 255
"""The limit for the name of a bookie; BookKeeper has none, and names a bookie `host:port` where nobody chose."""

_BOOKIE_ID: Final = re.compile(r"[A-Za-z0-9:_.\-]+", re.ASCII)


def is_bookie_id(text: str) -> bool:
    """Whether a bookie may have this name: letters, digits, `:`, `-`, `_` and `.`, but not `readonly`, which is a znode
    beside the names of bookies; nor `.` and `..`, which no znode can be called."""
    return (
        len(text) <= BOOKIE_ID_CHARS_MAX
        and _BOOKIE_ID.fullmatch(text) is not None
        and text not in ("readonly", ".", "..")
    )
