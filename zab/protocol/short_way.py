"""The short way of broadcast: PROPOSAL, COMMIT and ACK in the steady state, straight from the bytes of a link.

    take_message(peer, now, link, payload) -> bool     True: it is done. False: nothing was changed, and the message, or
    take_durable(peer, now, event) -> bool             the event, has to go the general way (`Peer.step`)
    take_proposal(peer, now, event) -> bool

Nearly all messages between members are these three, and in the steady state each of them does one thing. They are
recognized by the bytes with which they begin, and are neither decoded into a message nor wrapped in an event. What
follows from them is done by the functions of the general way, so both ways lead to the same state, with the same
effects in the same order (the simulator compares whole runs).

Nothing is refused here. Whatever is not plain in every respect goes the general way, where every rule and every error
stands: a case that is forgotten here costs time, and nothing else. Plain is:

    every role   broadcast is under way, and no configuration is outstanding; the log has become durable
    a leader     an ACK of a proposal of this epoch from a learner that serves; nothing is handed over or renewed;
                 transactions of its own member that are no reconfiguration
    a learner    it serves, and is no master of observers; a PROPOSAL of one batch of this epoch that continues its
                 history and is no reconfiguration; a COMMIT of a batch that it has

Messages have one encoding each (`zab.wire.plain`), so every version sends these bytes, and no other bytes mean the
same.

The effects stay in `peer.effects`, where the next step finds them.

Not here: when a turn ends without a step of the member (`zab.member.member`).
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from datatree.log import batch as codec
from datatree.log.zxid import COUNTER_BITS, COUNTER_MAX, Epoch, make_zxid
from zab.protocol import broadcast, storage_answers
from zab.protocol.events import Durable, Propose
from zab.protocol.message import Ack, encode
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import UP_TO_DATE, Following, Leading
from zab.protocol.states import BROADCAST
from zab.quorum.ids import Link

_ZXID: Final = Struct(">Q")
_read_zxid: Final = _ZXID.unpack_from
_ACK: Final = b"\x83\x03"
"""An array of three that begins with the type of ACK."""
_COMMIT: Final = b"\x82\x04\x1b"
"""An array of two: the type of COMMIT, and a zxid of eight bytes."""
_COMMIT_BYTES: Final = len(_COMMIT) + _ZXID.size
_PROPOSAL: Final = b"\x82\x02\x81"
"""An array of two: the type of PROPOSAL, and an array of one."""
_LENGTHS: Final = {
    _PROPOSAL + b"\x58": (Struct(">B"), 24),
    _PROPOSAL + b"\x59": (Struct(">H"), 1 << 8),
    _PROPOSAL + b"\x5a": (Struct(">I"), 1 << 16),
}
"""The length of the batch, by what comes before it: how to read it, and the least one that is written like this."""
_LENGTH_AT: Final = len(_PROPOSAL) + 1


def take_durable(peer: PeerState, now: int, event: Durable) -> bool:
    """Take note that more of this member's log is durable."""
    if peer.phase is not BROADCAST or peer.halted or peer.memberships.outstanding is not None:
        return False
    following, leading = peer.following, peer.leading
    if following is not None:
        if not following.up_to_date or following.newleader is not None or peer.settings.has_observer_masters:
            return False
    elif leading is None or leading.heir is not None or leading.renewal_wanted:
        return False
    storage_answers.on_durable(peer, now, event)
    return True


def take_proposal(peer: PeerState, now: int, event: Propose) -> bool:
    """Make a batch of the member's transactions, and broadcast it."""
    if peer.halted or peer.leading is None or event.flags & codec.RECONFIG:
        return False
    broadcast.leader_propose(peer, now, peer.leading, event)
    return True


def take_message(peer: PeerState, now: int, link: Link, payload: bytes) -> bool:
    """Take a message that came on this link."""
    if peer.phase is not BROADCAST or peer.halted or peer.memberships.outstanding is not None:
        return False
    following, leading = peer.following, peer.leading
    if following is not None:
        if link != following.link or not following.up_to_date or peer.settings.has_observer_masters:
            return False
        if payload.startswith(_PROPOSAL):
            return _take_proposal(peer, now, following, payload)
        return payload.startswith(_COMMIT) and _take_commit(peer, now, following, payload)
    return leading is not None and payload.startswith(_ACK) and _take_ack(peer, now, leading, link, payload)


def _take_ack(peer: PeerState, now: int, leading: Leading, link: Link, payload: bytes) -> bool:
    """LeaderProcessACK, of a proposal of this epoch."""
    handler, epoch = leading.handlers.get(link), leading.epoch
    if handler is None or handler.stage is not UP_TO_DATE or leading.heir is not None or leading.renewal_wanted:
        return False
    assert epoch is not None, "who broadcasts has an epoch"
    head = _ack_head(epoch)
    if len(payload) != len(head) + _ZXID.size or not payload.startswith(head):
        return False
    (zxid,) = _read_zxid(payload, len(head))
    if zxid >> COUNTER_BITS != epoch or not zxid & COUNTER_MAX or not handler.acked <= zxid <= handler.cursor:
        return False
    is_news = zxid > peer.committed
    if is_news and zxid not in peer.history.batches:
        return False
    assert leading.established
    assert zxid <= peer.history.last[0], "a learner is sent nothing beyond the history"
    handler.heard_at = now
    handler.acked = leading.acknowledged[handler.sid] = zxid
    if is_news:
        broadcast.leader_try_to_commit(peer, now, leading)
    return True


@lru_cache(maxsize=16)
def _ack_head(epoch: Epoch) -> bytes:
    """How an ACK of a proposal of this epoch begins, up to the eight bytes of its zxid."""
    return encode(Ack(epoch, make_zxid(epoch, 1)))[: -_ZXID.size]


def _take_commit(peer: PeerState, now: int, following: Following, payload: bytes) -> bool:
    """FollowerProcessCOMMIT."""
    if len(payload) != _COMMIT_BYTES:
        return False
    (zxid,) = _read_zxid(payload, len(_COMMIT))
    if zxid not in peer.history.batches:
        return False
    assert zxid <= peer.history.last[0]
    following.deadline = now + peer.settings.sync_ms
    broadcast.learner_raise_mark(peer, zxid, "COMMIT")
    return True


def _take_proposal(peer: PeerState, now: int, following: Following, payload: bytes) -> bool:
    """FollowerProcessPROPOSE, of one batch that continues the history."""
    length = _LENGTHS.get(payload[:_LENGTH_AT]) if len(payload) > codec.HEADER_BYTES else None
    if length is None or following.fetching:
        return False
    read, least = length
    begins = _LENGTH_AT + read.size
    (size,) = read.unpack_from(payload, _LENGTH_AT)
    if size < least or size != len(payload) - begins:
        return False
    history = peer.history
    try:
        batch = codec.parse(payload, begins)
    except codec.BatchError:
        return False
    if len(batch.raw) != size or batch.epoch != following.epoch or batch.flags & codec.RECONFIG:
        return False
    if batch.mark > peer.committed and batch.mark not in history.batches:
        return False
    if not codec.follows(history.last[0], batch) or not codec.continues(history.last[1], batch):
        return False
    following.deadline = now + peer.settings.sync_ms
    assert following.synchronized, "who serves has acknowledged NEWLEADER"
    assert batch.zxid >> COUNTER_BITS == following.epoch
    history.append(batch)
    broadcast.learner_log(peer, following, [batch])
    broadcast.learner_raise_mark(peer, batch.mark, broadcast.MARK_OF_A_BATCH)
    return True
