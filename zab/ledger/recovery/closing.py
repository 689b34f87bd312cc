"""The end of a recovery: the metadata that it closes the ledger with, and what it does if somebody else was first.

    closed by another                               theirs counts, whatever it says
    recovering, with the same last fragment         only older fragments were repaired: close on top of them
    anything else                                   begin again with what is there now

The closing write is the only one that says anything about ensembles. If no entry of the last fragment is left, the
fragment goes: readers never look there, and the next member of the list may be replaced by repair.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from attrs import evolve

from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState


@enum.unique
class Next(enum.Enum):
    """What a recovery does after its closing write was refused, or its answer was lost."""

    ACCEPT = "accept"
    CLOSE_AGAIN = "close again"
    BEGIN_AGAIN = "begin again"


def closed(base: LedgerMetadata, local: Sequence[Fragment], last: int, length: int) -> LedgerMetadata:
    """The closed ledger. `local`: what replaces the last fragment of `base`."""
    older = base.fragments[:-1]
    kept = older if older and last < base.last_fragment.first else (*older, *local)
    return evolve(base, fragments=kept, state=LedgerState.CLOSED, last=last, length=length)


def next_after(base: LedgerMetadata, current: LedgerMetadata) -> Next:
    """`base`: what this recovery wanted to close. `current`: what is there."""
    if current.is_closed:
        return Next.ACCEPT
    if current.state == LedgerState.IN_RECOVERY and current.last_fragment == base.last_fragment:
        return Next.CLOSE_AGAIN
    return Next.BEGIN_AGAIN
