"""Routes at the leader: through which master it hears an observer (`zab.protocol.observer_master`).

The leader knows one route at most for each observer, the newest that it was told of, and ignores what comes on any
other (O2 one route).
"""

from __future__ import annotations

from typing import Any

from zab.protocol import confirmation
from zab.protocol import effects as fx
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Attaching, Leading, LearnerHandler, ProtocolError
from zab.quorum.ids import Route, ServerId
from zab.wire.records import MessageError

_TO_LEADER = (mmsg.Request, mmsg.Revalidate, mmsg.Sync, mmsg.Suspect, mmsg.Compared)


def leader_on_attach(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Attach) -> None:
    """This learner has synchronized an observer, which has left the server that it followed before."""
    if not handler.served:
        raise ProtocolError("ATTACH before UPTODATE")
    if not peer.is_observer(message.sid) or message.sid == peer.settings.sid:
        peer.send(handler.link, msg.Detach(message.link))
        return
    direct = leading.handler_of(message.sid)
    if direct is not None:
        peer.drop_learner(leading, direct, f"it follows through server {handler.sid}")
    leader_forget_routes(peer, leading, message.sid)
    route = handler.link, message.link
    leading.attached[route] = message.sid
    assert len(set(leading.attached.values())) == len(leading.attached), "one route for each"
    leading.attaching.append(Attaching(confirmation.leader_confirm(peer, leading), route))
    confirmation.leader_answer_questions(peer, leading)


def leader_on_detach(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Detach) -> None:
    """An observer has left its master."""
    leading.attached.pop((handler.link, message.link), None)


def leader_on_relayed(
    peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.Relayed
) -> None:
    """Take what an observer sends through its master. On any route but its newest, it is ignored."""
    sid = leading.attached.get((handler.link, message.link))
    if sid is not None:
        peer.emit(fx.MemberMessage(handler.link, sid, opened(message, _TO_LEADER), message.link))


def leader_forget_routes(peer: PeerState, leading: Leading, sid: ServerId) -> None:
    """This server now follows in another way: its previous master must drop it."""
    for route in [route for route, other in leading.attached.items() if other == sid]:
        leader_detach(peer, leading, route)


def leader_detach(peer: PeerState, leading: Leading, route: Route) -> None:
    """Ignore what comes on this route from now on."""
    if leading.attached.pop(route, None) is not None:
        peer.send(route[0], msg.Detach(route[1]))


def leader_after_change(peer: PeerState, now: int, leading: Leading) -> None:
    """A server that is no longer an observer must follow the leader directly. It has a tick for that before it is
    missed."""
    turning = [sid for sid in leading.attached.values() if not peer.is_observer(sid)]
    for sid in turning:
        leader_forget_routes(peer, leading, sid)
    if turning:
        leading.next_tick = now + peer.settings.tick_ms


def opened(message: msg.Relayed, kinds: tuple[type[Any], ...]) -> Any:
    try:
        opened = msg.decode(message.message)
    except MessageError as error:
        raise ProtocolError(f"RELAYED of no message: {error}") from error
    if not isinstance(opened, kinds):
        raise ProtocolError(f"{type(opened).__name__} is not relayed")
    return opened
