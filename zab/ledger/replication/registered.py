"""Which bookies are registered: the names alone, so that one that registered something unreadable is not taken for
lost."""

from __future__ import annotations

from typing import Final

from zab.coordination.operations import Children, Sync
from zab.coordination.steps import Steps, read
from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.layout import AVAILABLE, READ_ONLY

LISTS: Final = (AVAILABLE, READ_ONLY, AVAILABLE)
"""A bookie that changes from one to the other is in both for a moment, so in this order it is seen."""


def registered_names(root: str, *, watch: bool = False) -> Steps[frozenset[BookieId]]:
    """Available or read-only, now."""
    _, *listed = yield from read((Sync(root), *(Children(f"{root}/{each}", watch) for each in LISTS)))
    found = set[BookieId]()
    for path, each in zip(LISTS, listed, strict=True):
        if not each.is_missing:
            found.update(BookieId(name) for name in each.must(path).children if is_bookie_id(name))
    return frozenset(found)
