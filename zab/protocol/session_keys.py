"""The keys of session passwords, as they come to members (G5 session keys).

    leader, discovery          a key of its secret, before those that there are, unless the first one is that
    leader, synchronization    SESSIONKEYS, right before NEWLEADER
    learner                    durable before its currentEpoch is, so before it counts, or serves anybody
    leader, broadcast          SESSIONKEYS again, with the first key alone, after the longest timeout of a session

So whoever may lead has the keys that were in use: it has the epoch of the last leader that made sessions, or a later
one. A key is made under the name of the secret by which members prove who they are; when that changes, the next leader
makes another key. The key before stays good until each client has come back, and has got a password of the new one, or
has expired: all come back when there is a new leader.

Without proof of who is at the other end a key follows from the lineage, and nothing of this travels: links leave it
out. Whoever is told nothing takes that key.

Not here: passwords (`session.identity`), files (`datatree.log.session_keys`), and how links keep a secret
(`zab.wire.seal`).
"""

from __future__ import annotations

from datatree.log.session_keys import KEY_BYTES, NamedKey, lineage_key
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import NEWLEADER_SENT, Following, Leading, LearnerHandler
from zab.protocol.states import BROADCAST

KEYS_MAX = 2
"""The one that is in use, and the one before."""
ALONE = b"alone\0\0\0"
"""In place of the name of a secret, where there is one server."""


def keys_of(peer: PeerState) -> list[bytes]:
    """What passwords are made with, the one in use first."""
    return [named.key for named in peer.session_keys or [lineage_key(peer.lineage)]]


# --------------------------------------------------------------------------------------------------------- the leader


def leader_renew(peer: PeerState) -> None:
    """Use a key of the present secret. Not while clients are served: a password made with it may come to a learner
    that does not have it yet."""
    if not peer.secret_name:
        _prove_nothing(peer)
    elif not peer.session_keys or peer.session_keys[0].name != peer.secret_name:
        if peer.secret_name != ALONE:
            peer.trace(f"the session key of secret {peer.secret_name.hex()} is not in use yet")
        made = NamedKey(peer.secret_name, peer.rng.randbytes(KEY_BYTES))
        _use(peer, next((key for key in peer.session_keys if key.name == peer.secret_name), made))


def leader_tell(peer: PeerState, handler: LearnerHandler) -> None:
    """A learner is about to be told of the epoch: it has to have the keys before."""
    if peer.session_keys:
        _tell(peer, [handler])


def leader_on_tick(peer: PeerState, now: int, leading: Leading) -> None:
    """The key before is good for as long as a client may stay away. While epochs are renewed, links are not in step."""
    if leading.serves_since is None or peer.phase is not BROADCAST or len(peer.session_keys) < KEYS_MAX:
        return
    if now - leading.serves_since >= peer.settings.session_timeout_max_ms:
        peer.trace("whoever was away has come back or expired -> the session key before is good no more")
        _take(peer, peer.session_keys[:1])
        _tell(peer, leading.at_least(NEWLEADER_SENT))


def _tell(peer: PeerState, handlers: list[LearnerHandler]) -> None:
    message = msg.SessionKeys([[key.name, key.key] for key in peer.session_keys])
    peer.emit(ev.Send(tuple(handler.link for handler in handlers), message))


# -------------------------------------------------------------------------------------------------------- the learner


def learner_on_session_keys(peer: PeerState, now: int, following: Following, message: msg.SessionKeys) -> None:
    """What the leader has is what counts."""
    following.is_told_keys = True
    keys = [NamedKey(name, key) for name, key in message.keys]
    if keys != peer.session_keys:
        _take(peer, keys)


def learner_on_newleader(peer: PeerState, following: Following) -> None:
    """The learner is about to count. Where nothing was said of keys, nobody proves anything."""
    if not following.is_told_keys:
        _prove_nothing(peer)


# --------------------------------------------------------------------------------------------------------- both of them


def _prove_nothing(peer: PeerState) -> None:
    """Use the key that all know. Where there never was another one, nothing has to be kept."""
    key = lineage_key(peer.lineage)
    if peer.session_keys and peer.session_keys[0] != key:
        _use(peer, key)


def _use(peer: PeerState, key: NamedKey) -> None:
    before = [other for other in peer.session_keys if other.name != key.name]
    _take(peer, [key, *before][:KEYS_MAX])


def _take(peer: PeerState, keys: list[NamedKey]) -> None:
    peer.session_keys = keys
    peer.emit(ev.SaveSessionKeys(peer.lineage, keys))
