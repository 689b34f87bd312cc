"""How the keys of session passwords reach members (G5 session keys).

    leader, discovery          adds a key for its secret in front of the existing ones, unless the first one is that
    leader, synchronization    SESSIONKEYS, right before NEWLEADER
    learner                    makes them durable before its currentEpoch, so before it counts, or serves clients
    leader, broadcast          SESSIONKEYS again, with the first key only, after the longest timeout of a session

So every server that may lead has the keys that were in use: it has the epoch of the last leader that made sessions, or
a later one. A key is named after the secret by which members prove who they are; when the secret changes, the next
leader makes another key. The previous key stays valid until each client has come back and got a password made with the
new one, or has expired: all clients come back when there is a new leader.

Without proof of who is at the other end, the key is derived from the lineage, and is never sent: links leave it out. A
member that is sent no keys uses the derived one.

Not here: passwords (`session.identity`), files (`datatree.log.session_keys`), and how links encrypt (`zab.wire.seal`).
"""

from __future__ import annotations

from datatree.log.session_keys import KEY_BYTES, NamedKey, lineage_key
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import NEWLEADER_SENT, Following, Leading, LearnerHandler
from zab.protocol.states import BROADCAST

KEYS_MAX = 2
"""The key in use, and the previous one."""
ALONE = b"alone\0\0\0"
"""In place of the name of a secret, if there is only one server."""


def keys_of(peer: PeerState) -> list[bytes]:
    """The keys that passwords are made with, the one in use first."""
    return [named.key for named in peer.session_keys or [lineage_key(peer.lineage)]]


# --------------------------------------------------------------------------------------------------------- the leader


def leader_renew(peer: PeerState) -> None:
    """Use a key of the present secret. Not while clients are served: a password made with it may reach a learner that
    does not have it yet."""
    if not peer.secret_name:
        _prove_nothing(peer)
    elif not peer.session_keys or peer.session_keys[0].name != peer.secret_name:
        if peer.secret_name != ALONE:
            peer.trace(f"the session key of secret {peer.secret_name.hex()} is not in use yet")
        made = NamedKey(peer.secret_name, peer.rng.randbytes(KEY_BYTES))
        _use(peer, next((key for key in peer.session_keys if key.name == peer.secret_name), made))


def leader_tell(peer: PeerState, handler: LearnerHandler) -> None:
    """A learner is about to hear of the epoch: it must have the keys before."""
    if peer.session_keys:
        _tell(peer, [handler])


def leader_on_tick(peer: PeerState, now: int, leading: Leading) -> None:
    """The previous key is valid for as long as a client may stay away. While epochs are renewed, links are not in
    step."""
    if leading.serves_since is None or peer.phase is not BROADCAST or len(peer.session_keys) < KEYS_MAX:
        return
    if now - leading.serves_since >= peer.settings.session_timeout_max_ms:
        peer.trace("all clients have come back or expired -> the previous session key is no longer valid")
        _take(peer, peer.session_keys[:1])
        _tell(peer, leading.at_least(NEWLEADER_SENT))


def _tell(peer: PeerState, handlers: list[LearnerHandler]) -> None:
    message = msg.SessionKeys([[key.name, key.key] for key in peer.session_keys])
    peer.emit(fx.Send(tuple(handler.link for handler in handlers), message))


# -------------------------------------------------------------------------------------------------------- the learner


def learner_on_session_keys(peer: PeerState, now: int, following: Following, message: msg.SessionKeys) -> None:
    """Adopt the leader's keys."""
    following.is_told_keys = True
    keys = [NamedKey(name, key) for name, key in message.keys]
    if keys != peer.session_keys:
        _take(peer, keys)


def learner_on_newleader(peer: PeerState, following: Following) -> None:
    """The learner is about to count. If no keys were sent, members prove nothing."""
    if not following.is_told_keys:
        _prove_nothing(peer)


# --------------------------------------------------------------------------------------------------------- both of them


def _prove_nothing(peer: PeerState) -> None:
    """Use the key that is derived from the lineage. If there never was another one, nothing needs to be stored."""
    key = lineage_key(peer.lineage)
    if peer.session_keys and peer.session_keys[0] != key:
        _use(peer, key)


def _use(peer: PeerState, key: NamedKey) -> None:
    before = [other for other in peer.session_keys if other.name != key.name]
    _take(peer, [key, *before][:KEYS_MAX])


def _take(peer: PeerState, keys: list[NamedKey]) -> None:
    peer.session_keys = keys
    peer.emit(fx.SaveSessionKeys(peer.lineage, keys))
