"""The high-water mark: the position in a replicated log up to which enough replicas have it.

A replica that acknowledges a position holds everything up to it. What enough replicas hold survives the loss of the
others, so readers may see it; what is above the mark may still be lost, so no reader may. The writer of the log
computes the mark from the acknowledgements and announces it; the mark never falls.

Three systems build on this, and differ only in what "enough" means (`zab.quorum.quorums`):

    Zab             the last committed zxid       a majority of the voters
    BookKeeper      the last add confirmed (LAC)  an ack quorum of the write set
    Kafka           the high watermark            every member of the in-sync set: the minimum of their log ends
"""

from collections.abc import Mapping
from typing import TypeVar

from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum

PositionT = TypeVar("PositionT", bound=int)


def high_water_mark(quorum: Quorum, acknowledged: Mapping[ServerId, PositionT], mark: PositionT) -> PositionT:
    """The largest position that a quorum has acknowledged, given each server's cumulative acknowledgement; never below
    `mark`, which is known already."""
    for position in sorted(set(acknowledged.values()), reverse=True):
        if position <= mark:
            break
        # Plain loops, because this runs for each acknowledgement. The position of a server that is not a voter is never
        # the result: a quorum that is complete there is complete at the next voter's position as well, and the loop
        # reaches that first.
        holders = set()
        for server, durable in acknowledged.items():
            if durable >= position:
                holders.add(server)
        if quorum.contains(holders):
            return position
    return mark
