"""The high-water mark: the position in a replicated log up to which enough replicas have it.

A replica that acknowledges a position says that it holds everything up to there. What enough of them hold survives the
loss of the others, so a reader may see it; what lies above the mark may still be lost, so nobody may. Whoever writes
the log computes the mark from the acknowledgements and tells the others, and the mark never falls.

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
    """The largest position that a quorum has acknowledged, from each voter's cumulative acknowledgement; `mark`, which
    is known already, if there is none above it."""
    for position in sorted(set(acknowledged.values()), reverse=True):
        if position <= mark:
            break
        # Plain loops: this is done for each acknowledgement. A position of somebody who is no voter is never the one:
        # whatever quorum is there is at the next position of a voter, too, and that comes before.
        holders = set()
        for server, durable in acknowledged.items():
            if durable >= position:
                holders.add(server)
        if quorum.contains(holders):
            return position
    return mark
