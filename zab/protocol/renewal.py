"""The renewal of an epoch: from broadcast back to discovery over the open links; clients do not notice (F1 renewal).

The leader renews its epoch when the epoch's counter runs out, or when a server can only follow in a higher epoch than
the leader's, because it has accepted one. The leader stops proposing; once everything proposed is committed it takes a
new epoch and begins discovery again. Its learners get a LEADERINFO in broadcast, and go through discovery and
synchronization once more. No election takes place, no history changes, and clients stay where they are. There is one
exception: a learner that lags so far that it would need a snapshot is dropped, and connects again without clients.

ZooKeeper's leader gives up when its counter runs out, and a learner of it that has promised a higher epoch dials in
vain.
"""

from datatree.log.zxid import BEFORE_ALL, EPOCH_MAX, Epoch, next_epoch
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import INFORMED, UP_TO_DATE, Following, Leading, ProtocolError
from zab.protocol.states import BROADCAST, DISCOVERY, LEADING


def leader_want_renewal(peer: PeerState, now: int, leading: Leading, above: Epoch) -> None:
    """Stop proposing; once everything is committed, renew the epoch to one above this."""
    leading.renewal_wanted = True
    leading.renewal_above = max(leading.renewal_above, above)
    leader_try_to_renew(peer, now, leading)


def leader_try_to_renew(peer: PeerState, now: int, leading: Leading) -> None:
    """Renew the epoch if that is wanted and nothing is in flight."""
    if leading.renewal_wanted and peer.phase is BROADCAST and peer.committed == peer.history.last[0]:
        _leader_renew(peer, now, leading)


def _leader_renew(peer: PeerState, now: int, leading: Leading) -> None:
    assert leading.epoch is not None
    assert leading.established
    for handler in list(leading.handlers.values()):
        if not handler.served or handler.stage != UP_TO_DATE:
            peer.drop_learner(leading, handler, "the epoch is renewed")
            continue
        handler.stage = INFORMED
        handler.accepted_epoch = leading.epoch
        handler.decided = False
        handler.acked = BEFORE_ALL
    leading.epoch = next_epoch(peer.accepted_epoch, leading.renewal_above)
    leading.epoch_accepted = leading.current_saving = leading.epoch_current = False
    leading.renewal_wanted = False
    leading.acke_recv.clear()
    leading.deadline = now + peer.settings.init_ms
    peer.become(LEADING, DISCOVERY)
    peer.trace(f"the epoch is renewed: {peer.current_epoch} -> {leading.epoch}")
    peer.save_epochs(leading.epoch, peer.current_epoch)


def learner_renew(peer: PeerState, following: Following, message: msg.LeaderInfo) -> None:
    """LEADERINFO in broadcast: the leader renews its epoch, and this member stays its learner."""
    if message.lineage != peer.lineage:
        raise ProtocolError(f"renewal in lineage {message.lineage.hex()}, here is {peer.lineage.hex()}")
    if not peer.accepted_epoch < message.epoch < EPOCH_MAX:
        raise ProtocolError(f"renewal to epoch {message.epoch}, epoch {peer.accepted_epoch} is accepted here")
    assert following.synchronized
    following.epoch = None
    following.epoch_saved = False
    following.current_saving = False
    following.synchronized = False
    following.acked = BEFORE_ALL
    peer.become(peer.state, DISCOVERY)
