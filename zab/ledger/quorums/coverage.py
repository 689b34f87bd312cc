"""Quorum coverage: whether so many bookies have answered that no ack quorum consists of silent ones alone.

An entry that was acknowledged is on Qa members of its write set. As soon as fewer than Qa of a write set have not
answered, one that holds the entry is among those that have. So Qw - Qa + 1 answers that an entry is not there prove
that it was never acknowledged. An answer here is one that says something about entries: an error or a time-out is none.

Not here: which answers prove what (`zab.ledger.wire.status`), whom to ask.
"""

from __future__ import annotations

from collections.abc import Set

from zab.ledger.quorums.write_sets import write_sets


def absent_needed(write_quorum: int, ack_quorum: int) -> int:
    """How many members of the write set have to say that they do not have an entry, before nobody can have
    acknowledged it."""
    return write_quorum - ack_quorum + 1


def is_covered(unanswered: Set[int], ensemble_size: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether each write set has an answer of every possible ack quorum. `unanswered`: indexes of the ensemble."""
    return all(
        sum(index in unanswered for index in each) < ack_quorum for each in write_sets(ensemble_size, write_quorum)
    )


def can_acknowledge(failed: Set[int], ensemble_size: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether each write set still has an ack quorum of members that have not failed. `failed`: indexes."""
    return all(
        sum(index not in failed for index in each) >= ack_quorum for each in write_sets(ensemble_size, write_quorum)
    )
