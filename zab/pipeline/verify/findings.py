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
    "gap": "transactions are missing, and no snapshot contains their effect",
    "order": "zxids that are not ascending",
    "shortened": "the log ends below what the member itself says was durable",
    "unread": "the given logs end below the zxid that they say is committed, or their end is unknown",
    "chain": "a batch does not continue the hash chain of the one before it",
    "missing": "transactions at the end of an epoch that the others hold",
    "extra": "transactions at the end of an epoch that no other holds, though by its mark they were committed",
    "differs": "different bytes with the same zxid",
    "snapshot": "a snapshot that is damaged, belongs to another history, or differs from the result of replaying "
    "the log on an older one",
}
STATED: Final = {
    "holds": "which transactions a member holds",
    "epoch": "the first zxid of an epoch",
    "replayed": "what a snapshot was compared with, or why it was not compared",
    "expected": "members of the configuration that were not given",
    "lags": "fewer transactions at the end than other members have",
    "begins": "fewer transactions at the beginning than other members have",
    "torn": "a torn write at the end, which was never acknowledged",
    "uncommitted": "transactions at the end that were never committed",
    "installed": "transactions that ZooKeeper's log lacks, replaced by a snapshot",
    "refused": "a refused multi, recorded in two equivalent forms",
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
