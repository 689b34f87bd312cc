"""The rows of `verify`, and the kinds of findings that they have.

A *deviation* (`DEVIATIONS`, by kind) is a fault. Other findings are only stated (`STATED`).

Invariants: every finding has a place: the member, and, if there is one, the file, the offset in it and the zxid.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from zab.pipeline.decoding.arrays import Mask

__all__ = ["DEVIATIONS", "STATED", "Drill", "Finding", "differ", "in_order"]

DEVIATIONS: Final = {
    "damaged": "bytes that differ from what was written",
    "unreadable": "a file of which nothing can be read",
    "foreign": "a file that belongs to another ensemble, or to another place in the history",
    "index": "a sidecar index that does not fit its log",
    "gap": "transactions are missing, and no snapshot covers them",
    "order": "zxids that do not rise",
    "shortened": "the log ends below what the member itself says was durable",
    "unread": "the given logs end before what they say was committed, or it is not known where they end",
    "chain": "a batch does not continue the hash chain of the one before it",
    "missing": "transactions at the end of an epoch that the others hold",
    "extra": "transactions at the end of an epoch that no other holds, though by its mark they were committed",
    "differs": "the same zxid, other bytes",
    "snapshot": "a snapshot that is damaged, of another history, or not what the log makes of an older one",
}
STATED: Final = {
    "holds": "which transactions a member holds",
    "epoch": "its first zxid",
    "replayed": "what a snapshot was compared with, or why it was not compared",
    "expected": "members of the configuration that were not given",
    "lags": "less at the end than other members",
    "begins": "less at the beginning than other members",
    "torn": "an end that was never acknowledged",
    "uncommitted": "an end that was never committed",
    "installed": "transactions that ZooKeeper's log lacks, with a snapshot in their place",
    "refused": "a refused multi, written in two ways that mean the same",
}


@frozen
class Finding:
    """One row; `DEVIATIONS` and `STATED` list the kinds."""

    ensemble: str
    member: str | None
    file: str | None
    offset: int | None
    zxid: int | None
    kind: str
    deviation: bool
    sentence: str


@frozen
class Drill:
    """Zxids from `low` to `high` whose contents (or, if those are the same, chains) differ between members."""

    ensemble: str
    low: int
    high: int
    is_chain: bool = False


def differ(values: npt.NDArray[np.uint64], present: Mask) -> Mask:
    """For each column, whether the values that are present differ."""
    high = np.where(present, values, 0).max(axis=0)
    low = np.where(present, values, np.uint64(0xFFFF_FFFF_FFFF_FFFF)).min(axis=0)
    different: Mask = (high != low) & (present.sum(axis=0) > 1)
    return different


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Deviations first; by ensemble, zxid and member."""
    return sorted(
        findings,
        key=lambda one: (not one.deviation, one.ensemble, one.zxid or 0, one.member or "", one.file or "", one.kind),
    )
