"""The server that a learner dials: its leader, or an observer's master (`observer_master`).

    a follower              its leader, repeatedly for a while: it may not know yet that it leads
    a voter of an           its leader, too: what is outstanding may need its vote to be committed, and a master only
    outstanding one         sends what is committed (O3 voters dial)
    an observer             the voters near it (`observerMaster.near`), the nearest first; the others, in random order;
                            then the leader. If the leader is near, it is the last of these

So observers spread over the masters, also when one of them fails, and history rarely crosses long distances. Before it
dials for the first time, an observer waits for a random time, up to `observer.reconnectDelayMs`.

Variables: `following.source`, `following.untried`. Invariant: an observer that has accepted the epoch of its source
elects before it turns to another one.

Not here: what it then sends (`discovery`).
"""

from zab.protocol import effects as fx
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following
from zab.protocol.states import OBSERVING
from zab.quorum.ids import ServerId


def begin(peer: PeerState, now: int, following: Following) -> None:
    """The election named a leader."""
    settings = peer.settings
    if peer.state is OBSERVING and settings.has_observer_masters and settings.sid not in peer.memberships.candidates:
        following.untried = _observer_masters(peer, following.leader)
    _choose(following)
    if peer.state is OBSERVING and settings.reconnect_delay_ms:
        following.redial_at = now + peer.rng.randrange(settings.reconnect_delay_ms)
        following.deadline = following.redial_at + settings.init_ms
        following.dialled = 0
    else:
        dial(peer, following)


def _observer_masters(peer: PeerState, leader: ServerId) -> list[ServerId]:
    """The masters to try before the leader, in order."""
    voters = peer.quorum.voters - {peer.settings.sid}
    near = [sid for sid in peer.settings.near_observer_masters if sid in voters]
    if leader in near:
        return near[: near.index(leader)]
    others = voters - {leader, *near}
    return near + peer.rng.sample(sorted(others), len(others))


def dial(peer: PeerState, following: Following) -> None:
    """Dial the source."""
    assert following.link is None
    assert following.source != peer.settings.sid
    peer.emit(fx.ConnectQuorum(following.source, as_observer=following.source != following.leader))


def try_next(peer: PeerState, now: int, following: Following) -> bool:
    """The source failed: turn to the next one, or to the leader. False if it is the leader, or if this observer has
    promised something to it already."""
    if following.source == following.leader or following.epoch is not None:
        return False
    if following.link is not None:
        peer.emit(fx.CloseLink(following.link, "another master is tried"))
        following.link = None
    assert not following.up_to_date, "it has promised nothing"
    peer.trace(f"server {following.source} is no master for this observer -> try the next one, or the leader")
    _choose(following)
    following.deadline = now + peer.settings.init_ms
    dial(peer, following)
    return True


def named(following: Following) -> str:
    """The source, in words."""
    is_leader = following.source == following.leader
    return f"{'leader' if is_leader else 'master'} {following.source}"


def _choose(following: Following) -> None:
    following.source = following.untried.pop(0) if following.untried else following.leader
