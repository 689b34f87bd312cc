"""The connections between members: quorum links, and the election's, on simulated wires.

As `zab.server.links` and `zab.server.election_links` have them, seen from the member:

    quorum      whoever follows dials; both ends greet; then `QuorumLinkUp` at each, messages both ways, and
                `QuorumLinkDown` once, unless the member itself has closed it. Each process numbers its own ends.
                Acknowledgements, pings and confirmations overtake what waits to be sent (H2).
    election    each member keeps one connection open to each other one and sends its votes there; only the newest vote
                waits for a connection that is not open. It is dialled again when it broke, at once when the other side
                has dialled us.

How a connection ends: closed (what was sent arrives, then the end), reset (what is on its way is lost, both ends hear
of it), or its other side lost its power (nothing is heard for a while).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from zab import events as ev
from zab import message as msg
from zab.simulator.ensemble.described import described
from zab.simulator.world.network import Wire
from zab.simulator.world.schedule import MS

if TYPE_CHECKING:
    from zab.simulator.ensemble.process import Process

URGENT: Final = frozenset({msg.Ack, msg.Ping, msg.Confirm, msg.Confirmed})
"""What overtakes, as in the server; a test compares."""
GREETING_MS: Final = 5_000
REDIAL_MS_MIN: Final = 20
REDIAL_MS_MAX: Final = 1_000
FRAME_BYTES: Final = 30
"""About what the small items take on a slow wire."""

_HELLO: Final = "hello"
_END: Final = "end"


class LinkEnd:
    """One end of a quorum link."""

    __slots__ = ("closing", "gone", "inbound", "number", "other", "out", "process", "sid", "up")

    def __init__(self, process: Process, number: int, sid: int, *, inbound: bool) -> None:
        self.process = process
        self.number = number
        self.sid = sid
        self.inbound = inbound
        self.out: Wire | None = None
        self.other: LinkEnd | None = None
        self.up = False
        self.closing = False
        self.gone = False


class QuorumLinks:
    """The quorum links of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._next = 1
        self.ends: dict[int, LinkEnd] = {}
        self._unflushed: dict[LinkEnd, None] = {}

    # ------------------------------------------------------------------------------------------------------- opening

    def _new_end(self, sid: int, *, inbound: bool) -> LinkEnd:
        end = LinkEnd(self._process, self._next, sid, inbound=inbound)
        self._next += 1
        self.ends[end.number] = end
        self._process.schedule.after(GREETING_MS * MS, self._check_greeting, end)
        return end

    def dial(self, sid: int) -> None:
        """Connect to the quorum port of a server."""
        end = self._new_end(sid, inbound=False)
        self._process.schedule.after(self._process.network.delay(self._process.sid, sid), self._knock, end)

    def _knock(self, end: LinkEnd) -> None:
        process = self._process
        if process.dead or end.gone:
            return
        target = process.ensemble.machines[end.sid].process
        if not process.network.reaches(process.sid, end.sid):
            process.schedule.after(process.config.connect_to_leader_limit_ms * MS, self.lose, end)
        elif target is None:
            process.schedule.after(process.network.delay(end.sid, process.sid), self.lose, end)
        else:
            target.links.accept(end)

    def accept(self, dialled: LinkEnd) -> None:
        """Somebody has dialled this process."""
        end = self._new_end(dialled.process.sid, inbound=True)
        end.other, dialled.other = dialled, end
        network = self._process.network
        end.out = Wire(network, (self._process.sid, dialled.process.sid), dialled.process.links.receiver(dialled))
        dialled.out = Wire(network, (dialled.process.sid, self._process.sid), self.receiver(end))
        dialled.out.send(_HELLO, FRAME_BYTES)

    def _check_greeting(self, end: LinkEnd) -> None:
        if not end.up and not end.gone:
            self.lose(end)

    # ----------------------------------------------------------------------------------------------------- receiving

    def receiver(self, end: LinkEnd) -> Any:
        """What a wire calls with each item that arrives at this end."""

        def receive(item: Any) -> None:
            if end.gone or end.closing or end.process.dead:
                return
            if item is _END:
                self.lose(end)
            elif item is _HELLO:
                self._greeted(end)
            else:
                end.process.give(ev.MessageReceived(end.number, msg.decode(item)))

        return receive

    def _greeted(self, end: LinkEnd) -> None:
        end.up = True
        if end.inbound:
            assert end.out is not None
            end.out.send(_HELLO, FRAME_BYTES)
        end.process.give(ev.QuorumLinkUp(end.number, end.sid, end.inbound))

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, numbers: Iterable[int], message: msg.Message) -> None:
        """Queue one message on each of these links."""
        data = msg.encode(message)
        urgent = type(message) in URGENT
        process = self._process
        process.trace.carried(process.sid, data)
        for number in numbers:
            end = self.ends.get(number)
            if end is None or end.closing:
                continue
            assert end.out is not None
            end.out.push(data, len(data), urgent=urgent)
            self._unflushed[end] = None
            if process.trace.sink is not None:
                process.trace.line(process.name, f"-> {end.sid} {described(message)}")

    def flush(self) -> None:
        """At the end of a turn."""
        unflushed, self._unflushed = self._unflushed, {}
        for end in unflushed:
            if end.out is not None:
                end.out.flush()

    def unsent_bytes(self, number: int) -> int:
        end = self.ends.get(number)
        return 0 if end is None or end.out is None else end.out.queued_bytes

    # ------------------------------------------------------------------------------------------------------- closing

    def close(self, number: int, reason: str) -> None:
        """The member closes a link: what it sent before arrives."""
        end = self.ends.pop(number, None)
        if end is None:
            return
        end.closing = True
        if self._process.trace.sink is not None:
            self._process.trace.line(self._process.name, f"-> {end.sid} closes link {number}: {reason}")
        if end.out is not None:
            end.out.push(_END, FRAME_BYTES)
            self._unflushed[end] = None

    def lose(self, end: LinkEnd) -> None:
        """This end is no more; its member is told, unless it has let go of it."""
        if end.gone:
            return
        end.gone = True
        self.ends.pop(end.number, None)
        if end.out is not None:
            end.out.send(_END, FRAME_BYTES)
        if not end.closing and not end.process.dead and (end.up or not end.inbound):
            end.process.give(ev.QuorumLinkDown(end.number if end.up else 0))

    def break_off(self, end: LinkEnd) -> None:
        """Reset a link: both ends lose what is on its way."""
        other = end.other
        for one in (end, other):
            if one is not None and one.out is not None:
                one.out.cut()
        self.lose(end)
        if other is not None:
            delay = self._process.network.delay(end.process.sid, end.sid)
            self._process.schedule.after(delay, other.process.links.lose, other)

    def break_off_to(self, sid: int, *, dialled_only: bool = False) -> None:
        """Reset all links to a server."""
        for end in [end for end in self.ends.values() if end.sid == sid]:
            if not (dialled_only and end.inbound):
                self.break_off(end)

    def process_died(self, *, with_power: bool, gracefully: bool, silent_us: int) -> None:
        """The kernel closes what the process had open; or nobody does, and the others find out after a while."""
        for end in list(self.ends.values()):
            other = end.other
            end.gone = True
            if end.out is None or other is None:
                continue
            if with_power:
                end.out.cut()
                self._process.schedule.after(silent_us, other.process.links.lose, other)
            elif gracefully:
                end.out.urgent.clear()
                end.out.ordinary.clear()
                end.out.send(_END, FRAME_BYTES)
            else:
                end.out.cut()
                if other.out is not None:
                    other.out.cut()
                delay = self._process.network.delay(end.process.sid, end.sid)
                self._process.schedule.after(delay, other.process.links.lose, other)
        self.ends.clear()


class ElectionLink:
    """The connection on which a process sends its votes to one other server."""

    __slots__ = ("is_down", "is_up", "links", "outbox", "sid", "target", "wait_us", "waiting", "wire")

    def __init__(self, links: ElectionLinks, sid: int) -> None:
        self.links = links
        self.sid = sid
        self.is_up = False
        self.is_down = False
        """The member was told that it is."""
        self.outbox: msg.Notification | None = None
        self.wire: Wire | None = None
        self.target: Process | None = None
        self.wait_us = REDIAL_MS_MIN * MS
        self.waiting = 0
        """Counts the waits, so that one that was cut short does nothing at its end."""


class ElectionLinks:
    """The election links of one process."""

    def __init__(self, process: Process, others: Iterable[int]) -> None:
        self._process = process
        self._links = {sid: ElectionLink(self, sid) for sid in others}
        self._inbound: dict[int, ElectionLink] = {}

    def start(self) -> None:
        for link in self._links.values():
            self._dial(link)

    def send(self, sid: int, notification: msg.Notification) -> None:
        """Send a vote, in place of one that still waits."""
        link = self._links[sid]
        process = self._process
        process.trace.carried(process.sid, msg.encode(notification))
        if process.trace.sink is not None:
            process.trace.line(process.name, f"-> {sid} {described(notification)}")
        link.outbox = notification
        if link.is_up:
            self._deliver(link)

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
            process.schedule.after(process.config.election_connect_timeout_ms * MS, self._refused, link)

    def _dialled(self, link: ElectionLink, round_trip_ms: int) -> None:
        process = self._process
        target = process.ensemble.machines[link.sid].process
        if process.dead or link.is_up:
            return
        if target is None or not process.network.reaches(process.sid, link.sid):
            self._refused(link)
            return
        link.is_up, link.is_down, link.wait_us = True, False, REDIAL_MS_MIN * MS
        link.waiting += 1
        link.target = target
        link.wire = Wire(process.network, (process.sid, link.sid), lambda vote: target.election.receive(link, vote))
        process.give(ev.ElectionLinkUp(link.sid, round_trip_ms))
        target.election.knocked(link, process.sid)
        self._deliver(link)

    def _refused(self, link: ElectionLink) -> None:
        if self._process.dead or link.is_up:
            return
        if not link.is_down:
            link.is_down = True
            self._process.give(ev.ElectionLinkDown(link.sid))
        link.waiting += 1
        self._process.schedule.after(link.wait_us, self._redial, link, link.waiting)
        link.wait_us = min(2 * link.wait_us, REDIAL_MS_MAX * MS)

    def _redial(self, link: ElectionLink, waiting: int) -> None:
        if not self._process.dead and not link.is_up and link.waiting == waiting:
            link.waiting += 1
            self._dial(link)

    def knocked(self, link: ElectionLink, sid: int) -> None:
        """A server has opened its connection to us, in place of any older one; so it is there to be dialled."""
        self._inbound[sid] = link
        own = self._links[sid]
        if not own.is_up and own.is_down:
            self._redial(own, own.waiting)

    def receive(self, link: ElectionLink, notification: msg.Notification) -> None:
        """A vote arrived here."""
        sid = link.links._process.sid
        if not self._process.dead and self._inbound.get(sid) is link:
            self._process.give(ev.NotificationReceived(sid, notification))

    # -------------------------------------------------------------------------------------------------------- ending

    def lose_to(self, sid: int) -> None:
        """The connection to a server ends; it is dialled again at once."""
        link = self._links[sid]
        if not self._process.dead and link.is_up:
            assert link.wire is not None
            link.wire.cut()
            link.is_up = False
            self._dial(link)

    def process_died(self, *, with_power: bool, silent_us: int) -> None:
        """Our connections end, and those of the others to us: they notice at once, or after a while."""
        process = self._process
        for link in self._links.values():
            if link.wire is not None:
                link.wire.cut()
            other = process.ensemble.machines[link.sid].process
            if other is not None and other is not process:
                theirs = other.election._links[process.sid]
                if theirs.is_up and theirs.target is process:
                    delay = silent_us if with_power else process.network.delay(process.sid, link.sid)
                    process.schedule.after(delay, other.election._lose, theirs, process)

    def _lose(self, link: ElectionLink, target: Process) -> None:
        if link.target is target:
            self.lose_to(link.sid)
