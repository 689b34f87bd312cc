"""The election links of a simulated member, on wires.

Each member keeps one connection open to each other one that it knows and sends its votes there; only the newest vote
waits for a connection that is not open. It is dialled again when it broke, at once when the other side has dialled us.
Who is not known, and has dialled us, is answered on the connection that it has opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.quorum.ids import ServerId
from zab.simulator.world.links import FRAME_BYTES
from zab.simulator.world.network import Wire
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

REDIAL_MS_MIN: Final = 20
REDIAL_MS_MAX: Final = 1_000


class ElectionLink:
    """The connection on which a process sends its votes to one other server."""

    __slots__ = ("back", "is_down", "is_up", "links", "outbox", "sid", "target", "wait_us", "waiting", "wire")

    def __init__(self, links: ElectionLinks, sid: ServerId) -> None:
        self.links = links
        self.sid = sid
        self.is_up = False
        self.is_down = False
        """The member was told that it is."""
        self.outbox: ev.SendNotification | None = None
        """The newest vote."""
        self.wire: Wire | None = None
        self.back: Wire | None = None
        """The other way, where the other side has no connection of its own to us."""
        self.target: ElectionLinks | None = None
        self.wait_us = REDIAL_MS_MIN * MS
        self.waiting = 0
        """Counts the waits, so that one that was cut short does nothing at its end."""


class ElectionLinks:
    """The election links of one process."""

    def __init__(
        self,
        process: Process,
        others: Iterable[ServerId],
        neighbour: Callable[[ServerId], ElectionLinks | None],
        connect_timeout_ms: int,
        tell: Callable[[ev.Event], None],
    ) -> None:
        """`neighbour` finds the links of the process of another server, None while there is none."""
        self._process = process
        self._sid = ServerId(process.sid)
        self._neighbour = neighbour
        self._connect_timeout_ms = connect_timeout_ms
        self._tell = tell
        self._links = {sid: ElectionLink(self, sid) for sid in others}
        self._inbound: dict[int, ElectionLink] = {}

    def start(self) -> None:
        for link in self._links.values():
            self._dial(link)

    def send(self, effect: ev.SendNotification) -> None:
        """Send a vote, in place of one that still waits."""
        sid, notification = effect.sid, effect.notification
        link = self._links.get(sid)
        process = self._process
        process.called()
        if effect.in_force:
            process.trace.carried(process.sid, effect.in_force + effect.outstanding)
        process.trace.carried(process.sid, msg.encode(notification))
        if process.trace.sink is not None:
            process.show(f"-> {sid} {process.trace.describe(notification)}")
        if link is None:
            self._answer(sid, effect)
            return
        link.outbox = effect
        if link.is_up:
            self._deliver(link)

    def _answer(self, sid: ServerId, effect: ev.SendNotification) -> None:
        """Send it to a server that is not known, and may have come by itself."""
        link = self._inbound.get(sid)
        if link is not None:
            if link.back is None:
                link.back = Wire(self._process.network, (self._process.sid, sid), link.links.heard_back(link))
            link.back.send(effect, FRAME_BYTES)

    def meet(self, others: Collection[ServerId]) -> None:
        """These are known from now on, and no others."""
        for sid in sorted(self._links.keys() - set(others)):
            link = self._links.pop(sid)
            link.waiting += 1
            if link.is_up:
                link.is_up = False
                self._cut(link)
                assert link.target is not None
                link.target.left(link, self._sid)
            inbound = self._inbound.pop(sid, None)
            if inbound is not None and inbound.is_up:
                # It has opened that for one that has its own way back, and opens another one.
                delay = self._process.network.delay(self._process.sid, sid)
                self._process.schedule.after(delay, inbound.links._lose, inbound, self)
        for sid in sorted(set(others) - self._links.keys()):
            link = self._links[sid] = ElectionLink(self, sid)
            self._dial(link)

    def left(self, link: ElectionLink, sid: ServerId) -> None:
        """A server has closed the connection that it had opened to us."""
        if self._inbound.get(sid) is link:
            del self._inbound[sid]

    def heard_back(self, link: ElectionLink) -> Callable[[Any], None]:
        """What a wire calls with the answers on a connection that this process has opened."""

        def receive(vote: ev.SendNotification) -> None:
            if not self._process.dead and link.is_up and self._links.get(link.sid) is link:
                self._hear(link.sid, vote)

        return receive

    @staticmethod
    def _cut(link: ElectionLink) -> None:
        for wire in (link.wire, link.back):
            if wire is not None:
                wire.cut()
        link.back = None

    def _deliver(self, link: ElectionLink) -> None:
        if link.outbox is not None:
            assert link.wire is not None
            link.wire.send(link.outbox, FRAME_BYTES)
            link.outbox = None

    # ------------------------------------------------------------------------------------------------------ dialling

    def _dial(self, link: ElectionLink) -> None:
        process = self._process
        there, back = process.network.delay(process.sid, link.sid), process.network.delay(link.sid, process.sid)
        if process.network.reaches(process.sid, link.sid):
            process.schedule.after(there + back, self._dialled, link, (there + back) // MS + 1)
        else:
            process.schedule.after(self._connect_timeout_ms * MS, self._refused, link)

    def _dialled(self, link: ElectionLink, round_trip_ms: int) -> None:
        process = self._process
        target = self._neighbour(link.sid)
        if process.dead or link.is_up or self._links.get(link.sid) is not link:
            return
        if target is None or not process.network.reaches(process.sid, link.sid):
            self._refused(link)
            return
        link.is_up, link.is_down, link.wait_us = True, False, REDIAL_MS_MIN * MS
        link.waiting += 1
        link.target = target
        link.wire = Wire(process.network, (process.sid, link.sid), lambda vote: target.receive(link, vote))
        self._tell(ev.ElectionLinkUp(link.sid, round_trip_ms))
        target.knocked(link, self._sid)
        self._deliver(link)

    def _refused(self, link: ElectionLink) -> None:
        if self._process.dead or link.is_up or self._links.get(link.sid) is not link:
            return
        if not link.is_down:
            link.is_down = True
            self._tell(ev.ElectionLinkDown(link.sid))
        link.waiting += 1
        self._process.schedule.after(link.wait_us, self._redial, link, link.waiting)
        link.wait_us = min(2 * link.wait_us, REDIAL_MS_MAX * MS)

    def _redial(self, link: ElectionLink, waiting: int) -> None:
        if not self._process.dead and not link.is_up and link.waiting == waiting:
            link.waiting += 1
            self._dial(link)

    def knocked(self, link: ElectionLink, sid: ServerId) -> None:
        """A server has opened its connection to us, in place of any older one; so it is there to be dialled."""
        self._inbound[sid] = link
        self._knock(sid)

    def _knock(self, sid: ServerId) -> None:
        own = self._links.get(sid)
        if own is not None and not own.is_up and own.is_down:
            self._redial(own, own.waiting)

    def receive(self, link: ElectionLink, vote: ev.SendNotification) -> None:
        """A vote arrived here."""
        sid = link.links._sid
        if not self._process.dead and self._inbound.get(sid) is link:
            self._hear(sid, vote)

    def _hear(self, sid: ServerId, vote: ev.SendNotification) -> None:
        """It has proven in the handshake who it is."""
        self._tell(ev.NotificationReceived(sid, vote.notification, vote.in_force, vote.outstanding, is_proven=True))

    # -------------------------------------------------------------------------------------------------------- ending

    def lose_to(self, sid: ServerId) -> None:
        """The connection to a server ends; it is dialled again at once."""
        link = self._links.get(sid)
        if link is not None and not self._process.dead and link.is_up:
            self._cut(link)
            link.is_up = False
            self._dial(link)

    def process_died(self, *, with_power: bool, silent_us: int) -> None:
        """Our connections end, and those of the others to us: they notice at once, or after a while."""
        process = self._process
        for link in self._links.values():
            self._cut(link)
        # Who knows us is not always one that we know.
        for sid in [*self._links, *(sid for sid in map(ServerId, self._inbound) if sid not in self._links)]:
            other = self._neighbour(sid)
            theirs = None if other is None or other is self else other._links.get(self._sid)
            if other is not None and theirs is not None and theirs.is_up and theirs.target is self:
                delay = silent_us if with_power else process.network.delay(process.sid, sid)
                process.schedule.after(delay, other._lose, theirs, self)

    def _lose(self, link: ElectionLink, target: ElectionLinks) -> None:
        if link.target is target and self._links.get(link.sid) is link:
            self.lose_to(link.sid)
