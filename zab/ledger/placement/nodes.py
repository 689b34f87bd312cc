"""A bookie, as placement sees it."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.ledger.entries.ids import BookieId

DEFAULT_RACK: Final = "default"
"""The rack of bookies that do not name one: they count as all in the same place."""


@frozen
class BookieNode:
    """A bookie that is registered as available. `free`: bytes, None if it does not say."""

    id: BookieId
    rack: str = DEFAULT_RACK
    free: int | None = None
