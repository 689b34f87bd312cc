"""The write set of an entry: the indexes of its fragment's ensemble that it is sent to, in order.

Entry e goes to Qw consecutive indexes from e mod E on, cyclically, so entries rotate over an ensemble that is larger
than the write quorum.

Not here: which bookies these indexes are (`zab.ledger.metadata`), who has acknowledged (`slots`).
"""

from functools import cache
from typing import Final

ENSEMBLE_SIZE_MAX: Final = 100
"""A larger ensemble is refused: BookKeeper's users have a handful, and the write sets of one have E x Qw members."""


@cache
def write_sets(ensemble_size: int, write_quorum: int) -> tuple[tuple[int, ...], ...]:
    """The write sets of entries 0 … E - 1; entry e has that of e mod E. Raises ValueError unless 1 <= Qw <= E."""
    if not 1 <= write_quorum <= ensemble_size:
        raise ValueError(f"a write quorum of {write_quorum} in an ensemble of {ensemble_size}")
    return tuple(
        tuple((first + offset) % ensemble_size for offset in range(write_quorum)) for first in range(ensemble_size)
    )


def write_set(entry: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """The indexes that this entry (from 0) is sent to."""
    assert entry >= 0, entry
    return write_sets(ensemble_size, write_quorum)[entry % ensemble_size]
