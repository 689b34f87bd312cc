"""Places in the feed of changes as JSON, for those who store them: `{"zxid": "0x…", "part": 0, "history": "…"}`.

The zxid is text, since many readers of JSON round numbers of more than 53 bits.
"""

from __future__ import annotations

from typing import Any

from zab.client.core.records import Place

__all__ = ["place_fields", "place_of"]


def place_fields(place: Place) -> dict[str, Any]:
    return {"zxid": f"{place.zxid:#x}", "part": place.part, "history": place.history_id}


def place_of(fields: Any) -> Place:
    """Other members are ignored. Raises ValueError for what is no place."""
    try:
        place = Place(int(fields["zxid"], 16), int(fields["part"]), str(fields["history"]))
        bytes.fromhex(place.history_id)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{str(fields)[:80]} is no place in a feed") from None
    if not (0 <= place.zxid < 1 << 63 and -(1 << 31) <= place.part < 1 << 31):
        raise ValueError(f"{str(fields)[:80]} is no place in a feed")
    return place
