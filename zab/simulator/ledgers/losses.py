"""Disks that are lost: which may be, so that all promises hold, and which ledgers can never be closed without them.

Fewer than Qa replicas of an entry may be lost until repair has replaced them; without repair, for good. A bookie that
lost its disk never comes back under its name, so it never says that it does not have an entry. A recovery that needs
its answer waits for ever, and cuts nothing off: such a ledger is **blocked**, which has to be proved from the metadata
and the losses.
"""

from __future__ import annotations

from collections.abc import Set

from zab.ledger.entries.ids import BookieId
from zab.ledger.quorums.write_sets import write_sets
from zab.simulator.ledgers.judge import Judge, Ledger


def may_lose(judge: Judge, bookie: BookieId) -> bool:
    """Whether all promises hold if this bookie loses its disk, too."""
    lost = judge.lost | {bookie}
    return all(_is_within_promise(known, bookie, lost) for known in judge.ledgers.values() if not known.is_deleted)


def _is_within_promise(known: Ledger, bookie: BookieId, lost: Set[BookieId]) -> bool:
    """For each entry, the bookies that have or had it, and for each fragment, which may get entries yet. Where a
    fragment gets no more entries, they are on its members: those that were replaced do not count."""
    quorum = known.metadata.ack_quorum
    ensembles = [fragment.ensemble for fragment in known.metadata.fragments]
    first_open = known.metadata.last + 1 if known.metadata.is_closed else known.metadata.last_fragment.first
    copies = [
        bookies.intersection(known.ensemble_of(entry)) if entry < first_open else bookies
        for entry, bookies in known.copies.items()
    ]
    groups = [*copies, *map(frozenset, ensembles)]
    return all(len(lost & group) < quorum for group in groups if bookie in group)


def why_blocked(known: Ledger, lost: Set[BookieId]) -> str | None:
    """Why no recovery can ever close this ledger; None: there is no reason.

    It may not if an acknowledged entry of the last fragment could have been on lost bookies alone, or if the entry
    before this fragment, whose length has to be known, is on none."""
    metadata = known.metadata
    fragment = metadata.last_fragment
    for indexes in write_sets(metadata.ensemble_size, metadata.write_quorum):
        gone = [fragment.ensemble[index] for index in indexes if fragment.ensemble[index] in lost]
        if len(gone) >= metadata.ack_quorum:
            return f"{', '.join(gone)} have lost their disks, and an ack quorum of them alone may have had an entry"
    before = fragment.first - 1
    if before >= 0 and known.copies.get(before, set()).intersection(known.ensemble_of(before)) <= lost:
        return f"entry {before}, which may be the last one, is on no bookie any more"
    return None
