"""Metadata of ledgers with little to say."""

from typing import Any

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata

A, B, C, D, E, F = map(BookieId, "abcdef")


def ledger(**differs: Any) -> LedgerMetadata:
    """Open, with quorums 3/3/2, one fragment on A, B and C. `fragments`: as pairs of first entry and ensemble."""
    fragments = differs.pop("fragments", ((0, (A, B, C)),))
    given = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2, **differs}
    return LedgerMetadata(fragments=tuple(Fragment(first, ensemble) for first, ensemble in fragments), **given)
