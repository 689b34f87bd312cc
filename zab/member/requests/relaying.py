"""What observers say through a master (`zab.protocol.observer_master`), as far as members have to do with it.

    the master    touches the sessions of its observers together with its own, and holds their trees against its own: of
                  one that differs it tells the leader, which has a quorum say who is right (E6 wrong trees)
    the leader    answers by the route on which it was asked

Not here: what is relayed (`zab.protocol.observer_master`), and what is asked (`between_members`).
"""

from __future__ import annotations

from typing import Protocol

from datatree.log.zxid import Zxid
from zab.member.sessions.sessions import Sessions
from zab.member.state.digests import Digests
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.quorum.ids import Link, Route


class Member(Protocol):
    """What is needed of a `zab.member.member.Member`."""

    peer: Peer
    digests: Digests
    sessions: Sessions

    def send(self, link: Link, message: msg.Message) -> None: ...


def on_ping(member: Member, link: Link, message: msg.Ping) -> None:
    """An observer has answered its master's ping."""
    member.sessions.touched_elsewhere(message.touched)
    own = member.digests.find(message.applied)
    if own not in (None, message.digest) and member.peer.link_to_leader is not None:
        suspicion = msg.Suspect(Zxid(message.applied), message.digest)
        member.send(member.peer.link_to_leader, msg.Relayed(link, msg.encode(suspicion)))


def answer(member: Member, route: Route, message: msg.Message) -> None:
    """To an observer, unless it follows in another way meanwhile."""
    leading = member.peer.leading
    if leading is not None and route in leading.attached:
        member.send(route[0], msg.Relayed(route[1], msg.encode(message)))
