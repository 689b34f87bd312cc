"""What follows when the storage has done what the peer asked of it: each function takes one of its answers.

An answer from an older generation (C3 generations) changes only what it states about the files; the phase that asked is
over.
"""

from datatree.log.zxid import BEFORE_ALL
from zab.protocol import (
    broadcast,
    discovery,
    learner_synchronization,
    observer_master,
    synchronization,
)
from zab.protocol import events as ev
from zab.protocol.peer_state import PeerState


def on_durable(peer: PeerState, now: int, event: ev.Durable) -> None:
    """More of this member's log is durable: a leader counts itself, a learner acknowledges."""
    if event.generation != peer.generation:
        return
    assert peer.durable < event.zxid <= peer.history.last[0], (peer.durable, event.zxid, peer.history.last[0])
    peer.durable = event.zxid
    if peer.leading is not None:
        broadcast.leader_try_to_commit(peer, now, peer.leading)
    elif peer.following is not None:
        if peer.following.newleader is not None:
            learner_synchronization.learner_try_to_ack_newleader(peer, peer.following)
        if peer.durable > peer.following.acked:
            broadcast.learner_ack(peer, peer.following)
    if peer.committed > peer.delivered:
        peer.deliver()


def on_log_cut(peer: PeerState, now: int, event: ev.LogCut) -> None:
    pass  # memory was cut when the effect was emitted; the queue of storage effects keeps the order


def on_epochs_saved(peer: PeerState, now: int, event: ev.EpochsSaved) -> None:
    assert event.accepted >= peer.accepted_epoch
    assert event.current >= peer.current_epoch
    peer.accepted_epoch, peer.current_epoch = event.accepted, event.current
    if event.generation == peer.generation:
        if peer.leading is not None:
            discovery.leader_on_epochs_saved(peer, now, peer.leading)
        elif peer.following is not None:
            discovery.learner_on_epochs_saved(peer, peer.following)


def on_member_saved(peer: PeerState, now: int, event: ev.MemberSaved) -> None:
    peer.amnesiac = peer.is_marker_valid = False
    peer.recorded_lineage = peer.lineage
    peer.forget_history()
    if event.generation == peer.generation:
        if peer.leading is not None:
            synchronization.leader_try_to_establish(peer, now, peer.leading)
        elif peer.following is not None and peer.following.readmitting is not None:
            learner_synchronization.learner_readmitted(peer, peer.following)
        elif peer.following is not None:
            learner_synchronization.learner_ack_newleader(peer, peer.following)


def on_snapshot_installed(peer: PeerState, now: int, event: ev.SnapshotInstalled) -> None:
    # True in any generation: the files are replaced.
    peer.conflict = False
    if not event.recorded:
        peer.recorded_lineage = b""  # until ACK-LD
    peer.reset((event.zxid, event.chain), event.config)
    peer.beginning = event.zxid if event.begins else BEFORE_ALL
    peer.durable = peer.delivered = event.zxid
    peer.set_committed(max(peer.committed, event.zxid))
    if event.generation == peer.generation:
        assert peer.following is not None
        learner_synchronization.learner_on_snapshot_installed(peer, peer.following)


def on_log_read(peer: PeerState, now: int, event: ev.LogRead) -> None:
    leading, following = peer.leading, peer.following
    if leading is not None and event.link in leading.handlers:
        handler = leading.handlers[event.link]
        synchronization.leader_on_log_read(peer, leading, handler, event.position, event.batches)
    elif following is not None and following.mastering is not None and event.link in following.mastering.handlers:
        observer_master.on_log_read(peer, following.mastering, following.mastering.handlers[event.link], event)


def on_snapshot_offered(peer: PeerState, now: int, event: ev.SnapshotOffered) -> None:
    supplying = peer.supplying
    if supplying is not None and event.link in supplying.handlers:
        handler = supplying.handlers[event.link]
        synchronization.leader_on_snapshot_offered(peer, supplying, handler, (event.zxid, event.chain))


def on_nothing_to_offer(peer: PeerState, now: int, event: ev.NothingToOffer) -> None:
    supplying = peer.supplying
    if supplying is not None and event.link in supplying.handlers:
        synchronization.leader_on_nothing_to_offer(peer, supplying, supplying.handlers[event.link])


def on_snapshot_withdrawn(peer: PeerState, now: int, event: ev.SnapshotWithdrawn) -> None:
    supplying = peer.supplying
    if supplying is not None and event.link in supplying.handlers:
        synchronization.leader_on_snapshot_withdrawn(peer, supplying, supplying.handlers[event.link], event.zxid)
