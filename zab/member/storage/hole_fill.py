"""What a member decides about a hole in its log, while it counts for nothing (C9 holes).

    find(disk, recovered, filled)   at a start: the hole that others may fill; `filled` is what was filled before it
    should_ask(peer)                some time after that, and again: whether the others are to be asked now
    request(hole)                   what to ask each of them, as long as it has something
    take(hole, data)                its answer
    put(disk, hole)                 at the next start, once nothing is missing: into the files

Where there is a quorum without this member, a leader synchronizes it sooner than the others are asked. Else each answer
goes on where the one before ended, whoever gave it. One that is not true is found out by the chain at the end; then all
is dropped, and the next round begins with another member. A member whose hole is filled ends, and starts anew: recovery
says what it is now.

Not here: what a hole is, and what fills it (`datatree.recovery.holes`); who is asked, and over what.
"""

from __future__ import annotations

from typing import Final, Protocol

from datatree.log.batch import BatchError, parse
from datatree.log.disk import Disk
from datatree.recovery.holes import Hole, HoleError, fill, find_hole
from datatree.recovery.recover import examine
from datatree.recovery.recovered import Recovered
from zab.member.storage.snapshot_request import HistoryRequest
from zab.protocol.states import LOOKING, State

FILL_MS: Final = 2000
"""Between two rounds, and before the first."""


class Waiting(Protocol):
    """What is looked at of this member, between two turns of it."""

    @property
    def amnesiac(self) -> bool:
        """Whether it counts for nothing."""

    @property
    def state(self) -> State:
        """Whether it has a leader."""


def find(disk: Disk, recovered: Recovered, filled: Hole | None) -> Hole | None:
    """None too where the one that was just filled is still there. Raises OSError."""
    hole = find_hole(disk, recovered)
    if hole is None or (filled is not None and hole.after[0] <= filled.after[0]):
        return None
    return hole


def should_ask(peer: Waiting) -> bool:
    """While nobody leads: a leader that is there is about to fill this member in its own way."""
    return peer.amnesiac and peer.state is LOOKING


def request(hole: Hole) -> HistoryRequest:
    """For the batches that are missing next."""
    assert hole.wanted is not None
    (zxid, chain), upto = hole.wanted
    return HistoryRequest(hole.lineage, zxid, chain, upto)


def take(hole: Hole, data: bytes) -> bool:
    """Whether anything came. Raises HoleError."""
    at = 0
    while at < len(data):
        try:
            batch = parse(data, at)
        except BatchError as error:
            raise HoleError(error.reason) from error
        hole.take(batch)
        at += len(batch.raw)
    return at > 0


def put(disk: Disk, hole: Hole) -> bool:
    """Whether it was still there, and is filled: others may have filled this member meanwhile. Raises OSError."""
    return find_hole(disk, examine(disk)) == hole.anew() and fill(disk, hole)
