"""What members say to each other about requests.

    a learner asks its leader       Request: writes      Sync: is it committed?      Revalidate: whose session is it?
    and is told                     the batches          Synced                      Revalidated
    at every ping                   Ping: the sessions that were heard, and the digest of the tree

All questions of one turn that need a quorum share one round (`questions`).

Messages that arrive before a leader has caught up wait until it serves, except those about wrong
trees (`tree_integrity`).

Not here: what is replicated (`zab.protocol.broadcast`), and when the questions are asked (`turn_end`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from session.identity import SessionId
from zab.member.requests.applying import Applier
from zab.member.requests.processor import Processor
from zab.member.requests.questions import Questions
from zab.member.requests.relaying import Relay
from zab.member.requests.serving import Serving
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.trees.tree_integrity import TreeIntegrity
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.quorum.ids import NO_LINK, Link, Route, ServerId

M = TypeVar("M", bound=fx.MessageForMember)
W = TypeVar("W", Link, Route)
"""The link or route that a message came on."""


def _on(
    kind: type[M], take: Callable[[W, ServerId, M], None]
) -> tuple[type[object], Callable[[W, ServerId, Any], None]]:
    return kind, take


class MemberMessages:
    """Receives and sends the messages of one member about requests."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[fx.Send | fx.CloseLink],
        processor: Processor,
        questions: Questions,
        serving: Serving,
        applier: Applier,
        trees: TreeIntegrity,
    ) -> None:
        self._driver = driver
        self._peer = driver.peer
        self._outbox = outbox
        self._processor = processor
        self._clock = processor.state.clock
        self._metrics = processor.metrics
        self._sessions = processor.sessions
        self._questions = questions
        self._serving = serving
        self._applier = applier
        self._trees = trees
        self._relay = Relay(driver.peer, outbox, applier.digests, processor.sessions)
        self.early: list[fx.MemberMessage] = []
        """Messages of learners that came before this leader had caught up."""
        self._on_message = dict(
            (
                _on(mmsg.Request, self._on_request),
                _on(mmsg.Revalidate, self._on_revalidate),
                _on(mmsg.Sync, self._on_sync),
                _on(msg.Ping, self._on_ping),
                _on(mmsg.Revalidated, self._on_revalidated),
                _on(mmsg.Synced, self._on_synced),
            )
        )
        self._on_check = dict(
            (
                _on(mmsg.Suspect, trees.on_suspect),
                _on(mmsg.Compare, trees.on_compare),
                _on(mmsg.Compared, trees.on_compared),
                _on(mmsg.Verdict, trees.on_verdict),
                _on(mmsg.TreeWanted, trees.on_tree_wanted),
                _on(mmsg.TreeOffered, trees.repair.on_offered),
            )
        )
        """Handlers of messages that are answered even while clients are not served."""
        assert self._on_message.keys() | self._on_check.keys() == set(get_args(fx.MessageForMember))

    def drop_role(self) -> None:
        """Drop what was said to this leader: it ends with its role (G2 former roles)."""
        self.early.clear()

    def take(self, effect: fx.MemberMessage) -> None:
        """Handle a message of the leader or of a learner."""
        on_check = self._on_check.get(type(effect.message))
        if on_check is not None:
            on_check(effect.link, effect.sid, effect.message)
        elif self._serving.is_on:
            self._on_message[type(effect.message)]((effect.link, effect.behind), effect.sid, effect.message)
        elif isinstance(effect.message, msg.Ping) and self._peer.leading is None:
            self._relay.on_ping(effect.link, effect.message)
        elif isinstance(effect.message, msg.Ping):
            # Its touches are ignored: a leader that begins to serve gives every session its full timeout.
            self._trees.on_ping(effect.sid, effect.message)
        elif self._peer.serving:
            self.early.append(effect)

    def take_early(self) -> None:
        """Handle the messages that came before this member served."""
        early, self.early = self.early, []
        for message in early:
            self.take(message)

    def answer(self, route: Route, message: msg.Message) -> None:
        """Send an answer to a learner, unless it has gone meanwhile."""
        link, behind = route
        if behind != NO_LINK:
            self._relay.answer(route, message)
        elif link in self._peer.learners:
            self._outbox.send(link, message)

    def answer_ping(self, effect: fx.AnswerPing) -> None:
        """Tell the leader, or a master, that this learner is alive, and which sessions it has heard from."""
        if self._applier.is_between_states and self._serving.is_on:
            self._sessions.touches.touch_all(self._clock.now)
        self._tell(effect.link)
        self._trees.check.ask_leader()

    def tell_touched(self) -> None:
        """Report further touched sessions, for which one answer had no room."""
        link = self._peer.link_to_leader
        if link is not None:
            self._tell(link)
        else:
            self._sessions.touches.drop_untold()

    def _tell(self, link: Link) -> None:
        applied, touched = self._applier.applied, self._sessions.touches.take()
        digest = self._applier.digests.at(applied)
        self._outbox.send(link, msg.Ping(applied, applied, digest, touched, self._peer.is_low))

    def sync_confirmed(self, effect: fx.SyncConfirmed) -> None:
        """Answer the questions of a round, since a quorum has confirmed the leader."""
        confirmed = self._questions.confirmed(effect.token)
        for route, tag in confirmed.syncs:
            if route is None:
                self._questions.wait(tag, effect.zxid)
            else:
                self.answer(route, mmsg.Synced(tag, effect.zxid))
        self.finish_syncs()
        for connection in confirmed.doubted:
            self._sessions.refuse(connection)
        for route, tag in confirmed.missing:
            self.answer(route, mmsg.Revalidated(tag, False, effect.zxid))

    def finish_syncs(self) -> None:
        """Finish the syncs whose position is applied here."""
        if self._questions.confirmed_syncs and not self._applier.is_between_states:
            for tag in self._questions.done(self._applier.applied):
                self._processor.waiting.synced(tag)

    def _break_off(self, route: Route, reason: str) -> None:
        link, behind = route
        if behind != NO_LINK:
            self._driver.tell(ev.ObserverRefused(route, reason))
            return
        self._outbox.want(fx.CloseLink(link, reason))
        self._driver.tell(ev.QuorumLinkDown(link))

    # ----------------------------------------------------------------------------------------------------- the leader

    def _on_request(self, route: Route, sid: ServerId, message: mmsg.Request) -> None:
        if not self._processor.submit_forwarded(message, sid):
            self._break_off(route, "it forwarded a write that it may not send")

    def _on_revalidate(self, route: Route, sid: ServerId, message: mmsg.Revalidate) -> None:
        self._metrics.connection_revalidate_count += 1
        if self._sessions.revalidate(SessionId(message.session), max(0, message.timeout_ms), sid, self._clock.now):
            self._questions.owner(route, message.tag, self._processor.intake.arrived_count)
        else:
            self._questions.missing(route, message.tag)

    def _on_sync(self, route: Route, _sid: ServerId, message: mmsg.Sync) -> None:
        self._questions.sync(route, message.tag, self._processor.intake.arrived_count)

    def _on_ping(self, route: Route, sid: ServerId, message: msg.Ping) -> None:
        if self._peer.leading is None:
            self._relay.on_ping(route[0], message)
            return
        self._sessions.touches.learner_touched(message.touched, self._clock.now)
        self._trees.on_ping(sid, message)  # this may end the role

    # ------------------------------------------------------------------------------------------------------ a learner

    def _on_revalidated(self, _route: Route, _sid: ServerId, message: mmsg.Revalidated) -> None:
        self._sessions.revalidated(message.tag, message.valid, message.fence, self._clock.now)

    def _on_synced(self, route: Route, _sid: ServerId, message: mmsg.Synced) -> None:
        if self._questions.newest_tag < message.tag < self._processor.waiting.sync_tag:
            self._questions.wait(message.tag, message.zxid)
            self.finish_syncs()
        else:
            self._break_off(route, "it answers a sync that nobody waits for")
