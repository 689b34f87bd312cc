"""A leader whose disk is slower than those of the others hands the lead over (C8 slow disk).

What a quorum of others has on disk is committed without the leader. But the leader delivers only what is durable on its
own disk, and proposes only a limited amount beyond that: the whole ensemble waits for its disk. A disk that hangs ends
the role (C4 stalled disk); one that is merely slow would keep the lead for ever.

    late        a batch that was committed a quarter of a tick before it was durable here
    at a ping   a half tick with a late batch counts as late; one in which batches were committed and none was late
                shows that the disk keeps up, and resets the count; one without commits shows nothing
    hands over  after a syncLimit of late half ticks, eight at least, if those that have what is committed are a quorum
                without the leader, to the one with the longest history (`handover`)

Variables: `leading.lag`. If the disks of a quorum are slow, nothing is committed without the leader, so nothing is
late.

Not here: disks that hang (`heartbeat`), and disks that are full (`disk_space`).
"""

from typing import Final

from zab.protocol import handover
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Leading
from zab.protocol.states import BROADCAST

LATE_COUNT_MIN: Final = 8


def leader_on_ping(peer: PeerState, now: int, leading: Leading) -> None:
    """Twice a tick: hand over if others are faster."""
    count, enough = leading.lag.weigh(now, peer.committed), max(LATE_COUNT_MIN, 2 * peer.settings.sync_limit)
    if count < enough or peer.phase is not BROADCAST or leading.heir is not None:
        return
    ready = [h for h in handover.candidates(leading) if h.acked >= peer.committed]
    if not peer.quorum.contains({h.sid for h in ready}):
        return
    heir = handover.best(ready).sid
    assert heir != peer.settings.sid
    if not handover.why_not(peer, heir):
        late_ms, leading.lag.count = leading.lag.late_ms, 0
        peer.trace(
            f"this member's disk is slow: a quorum of others had what is committed {late_ms} ms before -> hand over"
        )
        handover.hand_over(peer, now, heir)
