"""Checks that the promises of a message are on its sender's disk when it is sent.

    LEADERINFO e     acceptedEpoch e
    ACKEPOCH         acceptedEpoch as in LEADERINFO, and the end of the history that it names
    NEWLEADER e      currentEpoch e
    ACK-LD e         currentEpoch e, the history before NEWLEADER, and the member record, unless it comes later
    ACK z            the batch that ends at z
    READMITTED       the member record
    HANDOVER         it no longer leads, and its whole history is committed

These are rows of "Order of durable writes" in docs/explanation/zab.md; another row is that a leader counts itself only
with a member record. A broadcast also has a promise, the primary integrity of the paper: its primary has delivered what
earlier primaries broadcast. All checks need only the sender, once for each of its states, so they cost little.
"""

from __future__ import annotations

from collections.abc import Sequence

from datatree.log.zxid import BEFORE_ALL, counter_of, epoch_of
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.simulator.explorer.site import Broadcast, Disk, Led, Output, Sent, Site
from zab.simulator.world.verdict import SafetyError

__all__ = ["judge_promises"]


def judge_promises(site: Site, outputs: Sequence[Output]) -> None:
    """Check the messages that a server has just sent. Raises SafetyError."""
    peer = site.peer
    for output in outputs if peer is not None else ():
        assert peer is not None
        if isinstance(output, Sent) and isinstance(output.message, msg.HandOver):
            if peer.leading is not None or peer.committed != peer.history.last[0]:
                what = "leads on" if peer.leading is not None else "not all of its history is committed"
                raise SafetyError("promises", f"server {site.settings.sid} says HandOver, and {what}")
        elif isinstance(output, Sent):
            missing = _missing(peer, site.disk, output.message)
            if missing:
                name = type(output.message).__name__
                raise SafetyError("promises", f"server {site.settings.sid} says {name}, its disk has no such {missing}")
        elif isinstance(output, Led) and site.disk.member != peer.lineage:
            raise SafetyError("promises", f"server {site.settings.sid} counts itself without a member record")
        elif isinstance(output, Broadcast):
            _judge_primary_integrity(peer, output)


def _missing(peer: Peer, disk: Disk, message: msg.Message) -> str:
    """The promises of a message that are not on the disk; empty if there are none."""
    following = peer.following
    promised: list[tuple[str, bool]] = []
    if isinstance(message, msg.LeaderInfo):
        promised = [("acceptedEpoch", disk.accepted >= message.epoch)]
    elif isinstance(message, msg.NewLeader):
        promised = [("currentEpoch", disk.current >= message.epoch)]
    elif isinstance(message, msg.AckEpoch):
        assert following is not None
        assert following.epoch is not None
        is_held = message.zxid == BEFORE_ALL or (message.zxid, message.chain) in _positions(disk)
        promised = [("acceptedEpoch", disk.accepted >= following.epoch), ("position", is_held)]
    elif isinstance(message, msg.Ack) and counter_of(message.zxid) == 0:
        assert following is not None
        promised = [
            ("currentEpoch", disk.current >= message.epoch),
            ("history", disk.position[0] >= following.acked),
            ("member record", disk.member == peer.lineage or (peer.amnesiac and not following.is_founder)),
        ]
    elif isinstance(message, msg.Ack):
        promised = [("batch", message.zxid in {zxid for zxid, _ in _positions(disk)})]
    elif isinstance(message, msg.Readmitted):
        promised = [("member record", disk.member == peer.lineage)]
    return next((what for what, is_there in promised if not is_there), "")


def _positions(disk: Disk) -> set[tuple[int, bytes]]:
    return {(batch.zxid, batch.chain) for batch in disk.log}


def _judge_primary_integrity(peer: Peer, made: Broadcast) -> None:
    """Check that a primary has delivered its initial history before its first batch."""
    before = made.predecessor[0]
    if epoch_of(before) < made.batch.epoch and peer.delivered < before:
        reason = f"epoch {made.batch.epoch} broadcasts after {before:#x}, and has delivered up to {peer.delivered:#x}"
        raise SafetyError("primary_integrity", reason)
