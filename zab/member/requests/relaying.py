"""Messages of observers that follow a master (`zab.protocol.observer_master`), at the master and at the leader.

    the master    touches the sessions of its observers together with its own, and compares their trees with its own: it
                  reports a difference to the leader, which asks a quorum which tree is right (E6 wrong trees)
    the leader    answers on the route of the question

Not here: relaying itself (`zab.protocol.observer_master`), and the questions (`between_members`).
"""

from __future__ import annotations

from datatree.log.zxid import Zxid
from zab.member.sessions.sessions import Sessions
from zab.member.state.digests import Digests
from zab.member.state.outbox import Outbox
from zab.protocol import effects as fx
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.quorum.ids import Link, Route


class Relay:
    """Relaying at one member, which may be a master of observers, or the leader."""

    def __init__(self, peer: Peer, outbox: Outbox[fx.Send], digests: Digests, sessions: Sessions) -> None:
        self._peer = peer
        self._outbox = outbox
        self._digests = digests
        self._sessions = sessions

    def on_ping(self, link: Link, message: msg.Ping) -> None:
        """Handle an observer's answer to its master's ping."""
        self._sessions.touches.touched_elsewhere(message.touched)
        own = self._digests.find(message.applied)
        if own not in (None, message.digest) and self._peer.link_to_leader is not None:
            suspicion = mmsg.Suspect(Zxid(message.applied), message.digest)
            self._outbox.send(self._peer.link_to_leader, msg.Relayed(link, msg.encode(suspicion)))

    def answer(self, route: Route, message: msg.Message) -> None:
        """Send an answer to an observer, unless its route has changed meanwhile."""
        leading = self._peer.leading
        if leading is not None and route in leading.attached:
            self._outbox.send(route[0], msg.Relayed(route[1], msg.encode(message)))
