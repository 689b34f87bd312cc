"""Fills a hole in the log of a member, while it counts for nothing (C9 holes).

    find(disk, recovered, filled)   at a start: the hole that others may fill; `filled` is the one filled before
    should_ask(peer)                some time after that, and repeatedly: whether to ask the other members now
    request(hole)                   the request to each of them, repeated as long as it sends something
    take(hole, data)                takes its answer
    put(disk, hole)                 at the next start, once nothing is missing: writes the files

If there is a quorum without this member, a leader synchronizes it before the others are asked. Otherwise each answer
continues where the one before ended, even if it was from another member. A wrong answer is detected by the chain at the
end; then all is dropped, and the next round begins with another member. A member whose hole is filled ends and
restarts: recovery decides what it is now.

Not here: holes themselves (`datatree.recovery.holes`); the choice of members, and connections.
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
"""The time between two rounds, and before the first."""


class Waiting(Protocol):
    """The state of this member that is read between two turns."""

    @property
    def amnesiac(self) -> bool:
        """Whether it counts for nothing."""

    @property
    def state(self) -> State:
        """Whether it has a leader."""


def find(disk: Disk, recovered: Recovered, filled: Hole | None) -> Hole | None:
    """The hole to fill; None if there is none, or if the one that was just filled is still there. Raises OSError."""
    hole = find_hole(disk, recovered)
    if hole is None or (filled is not None and hole.after[0] <= filled.after[0]):
        return None
    return hole


def should_ask(peer: Waiting) -> bool:
    """Whether to ask other members: only while there is no leader, since a leader would synchronize this member."""
    return peer.amnesiac and peer.state is LOOKING


def request(hole: Hole) -> HistoryRequest:
    """The request for the next missing batches."""
    assert hole.wanted is not None
    (zxid, chain), upto = hole.wanted
    return HistoryRequest(hole.lineage, zxid, chain, upto)


def take(hole: Hole, data: bytes) -> bool:
    """Take batches. False: there were none. Raises HoleError."""
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
    """Fill the hole in the files. False: it is gone, since a leader may have synchronized this member meanwhile. Raises
    OSError."""
    return find_hole(disk, examine(disk)) == hole.anew() and fill(disk, hole)
