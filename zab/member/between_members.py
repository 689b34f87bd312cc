"""What members say to each other about requests: functions on a `Member`, as the phases are on a peer.

    a learner asks its leader       Request: writes      Sync: is it committed?      Revalidate: whose session is it?
    and is told                     the batches          Synced                      Revalidated
    at every ping                   Ping: the sessions that were heard, and the digest of the tree

Questions that need a quorum are one round for all that were asked in a turn (`questions`).

What comes before a leader has caught up waits until it serves; what is about wrong trees does not wait (`wrong_trees`).

Not here: what is replicated (`zab.protocol.broadcast`), and when the questions are asked (`turn_end`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, get_args

from session.identity import SessionId
from zab.member.events import MemberEffect
from zab.member.requests import relaying
from zab.member.requests.questions import Questions
from zab.member.sessions.sessions import Sessions
from zab.member.trees import tree_repair, wrong_trees
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.quorum.ids import NO_LINK, Link, Route, ServerId


class Member(wrong_trees.Member, Protocol):
    """What is needed of a `zab.member.member.Member`."""

    now: int
    questions: Questions
    sessions: Sessions
    early: list[ev.MemberMessage]
    asks: bool

    @property
    def serving(self) -> bool: ...

    def want(self, effect: MemberEffect) -> None: ...


def take(member: Member, effect: ev.MemberMessage) -> None:
    """A message of the leader or of a learner, for this member."""
    on_check = _ON_CHECK.get(type(effect.message))
    if on_check is not None:
        on_check(member, effect.link, effect.sid, effect.message)
    elif member.serving:
        _ON_MESSAGE[type(effect.message)](member, (effect.link, effect.behind), effect.sid, effect.message)
    elif isinstance(effect.message, msg.Ping) and member.peer.leading is None:
        relaying.on_ping(member, effect.link, effect.message)
    elif isinstance(effect.message, msg.Ping):
        # Its touches count for nothing: a leader that begins to serve gives every session its full timeout.
        wrong_trees.on_ping(member, effect.sid, effect.message)
    elif member.peer.serving:
        member.early.append(effect)


def take_early(member: Member) -> None:
    """What came before this member served."""
    early, member.early = member.early, []
    for message in early:
        take(member, message)


def answer(member: Member, route: Route, message: msg.Message) -> None:
    """To a learner, unless it has gone meanwhile."""
    link, behind = route
    if behind != NO_LINK:
        relaying.answer(member, route, message)
    elif link in member.peer.learners:
        member.send(link, message)


def answer_ping(member: Member, effect: ev.AnswerPing) -> None:
    """The leader, or a master, hears that this learner is there, and of which sessions it heard."""
    if member.is_between_states and member.serving:
        member.sessions.touch_all(member.now)
    _tell(member, effect.link)
    member.asks = True


def tell_touched(member: Member) -> None:
    """Of more sessions than one answer had room for."""
    link = member.peer.link_to_leader
    member.sessions.has_untold = False
    if link is not None:
        _tell(member, link)


def _tell(member: Member, link: Link) -> None:
    applied, touched = member.applied, member.sessions.take_touches()
    member.send(link, msg.Ping(applied, applied, member.digests.at(applied), touched, member.peer.is_low))


def sync_confirmed(member: Member, effect: ev.SyncConfirmed) -> None:
    """A quorum has confirmed the leader: the questions of that round have their answers."""
    confirmed = member.questions.confirmed(effect.token)
    for route, tag in confirmed.syncs:
        if route is None:
            member.questions.wait(tag, effect.zxid)
        else:
            answer(member, route, msg.Synced(tag, effect.zxid))
    finish_syncs(member)
    for connection in confirmed.doubted:
        member.sessions.refuse(connection)
    for route, tag in confirmed.missing:
        answer(member, route, msg.Revalidated(tag, False, effect.zxid))


def finish_syncs(member: Member) -> None:
    """Those are done whose position is applied here."""
    if member.questions.confirmed_syncs and not member.is_between_states:
        for tag in member.questions.done(member.applied):
            member.processor.synced(tag)


def _break_off(member: Member, route: Route, reason: str) -> None:
    link, behind = route
    if behind != NO_LINK:
        member.tell(ev.ObserverRefused(route, reason))
        return
    member.want(ev.CloseLink(link, reason))
    member.tell(ev.QuorumLinkDown(link))


# --------------------------------------------------------------------------------------------------------- the leader


def _on_request(member: Member, route: Route, sid: ServerId, message: msg.Request) -> None:
    if not member.processor.submit_forwarded(message, sid):
        _break_off(member, route, "it forwarded what it may not")


def _on_revalidate(member: Member, route: Route, sid: ServerId, message: msg.Revalidate) -> None:
    member.metrics.connection_revalidate_count += 1
    if member.sessions.revalidate(SessionId(message.session), max(0, message.timeout_ms), sid, member.now):
        member.questions.owner(route, message.tag, member.processor.intake.arrived_count)
    else:
        member.questions.missing(route, message.tag)


def _on_sync(member: Member, route: Route, _sid: ServerId, message: msg.Sync) -> None:
    member.questions.sync(route, message.tag, member.processor.intake.arrived_count)


def _on_ping(member: Member, route: Route, sid: ServerId, message: msg.Ping) -> None:
    if member.peer.leading is None:
        relaying.on_ping(member, route[0], message)
        return
    member.sessions.learner_touched(message.touched, member.now)
    wrong_trees.on_ping(member, sid, message)  # this may end the role


# ---------------------------------------------------------------------------------------------------------- a learner


def _on_revalidated(member: Member, _route: Route, _sid: ServerId, message: msg.Revalidated) -> None:
    member.sessions.revalidated(message.tag, message.valid, message.fence, member.now)


def _on_synced(member: Member, route: Route, _sid: ServerId, message: msg.Synced) -> None:
    if member.questions.newest_tag < message.tag < member.processor.sync_tag:
        member.questions.wait(message.tag, message.zxid)
        finish_syncs(member)
    else:
        _break_off(member, route, "it answers a sync that nobody waits for")


M = TypeVar("M", bound=ev.MessageForMember)
W = TypeVar("W", Link, Route)
"""From where it came."""


def _on(
    kind: type[M], take: Callable[[Member, W, ServerId, M], None]
) -> tuple[type[object], Callable[[Member, W, ServerId, Any], None]]:
    return kind, take


_ON_MESSAGE = dict(
    (
        _on(msg.Request, _on_request),
        _on(msg.Revalidate, _on_revalidate),
        _on(msg.Sync, _on_sync),
        _on(msg.Ping, _on_ping),
        _on(msg.Revalidated, _on_revalidated),
        _on(msg.Synced, _on_synced),
    )
)

_ON_CHECK = dict(
    (
        _on(msg.Suspect, wrong_trees.on_suspect),
        _on(msg.Compare, wrong_trees.on_compare),
        _on(msg.Compared, wrong_trees.on_compared),
        _on(msg.Verdict, wrong_trees.on_verdict),
        _on(msg.TreeWanted, wrong_trees.on_tree_wanted),
        _on(msg.TreeOffered, tree_repair.on_offered),
    )
)
"""What is answered also while clients are not served."""
assert _ON_MESSAGE.keys() | _ON_CHECK.keys() == set(get_args(ev.MessageForMember))
