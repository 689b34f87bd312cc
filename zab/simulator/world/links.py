"""Links between simulated servers (`zab.host.loop.links`), on wires.

A process dials a link; after the handshake (`zab.wire.handshake`) each end is told that the link is up, messages go
both ways, and each end is told once that it is down, unless it closed the link itself. Each process numbers its own
ends. Urgent messages overtake waiting ones (H2 turn budget). Wires are not tampered with, so nothing is sealed.

A link ends by a close (sent messages arrive, then the end), a reset (messages on their way are lost, both ends notice),
or a power loss of the other side (noticed after a while).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import frozen

from zab.simulator.world.network import Wire
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS
from zab.wire.handshake import Agreed, Dialling, Listening
from zab.wire.link_protocol import LinkProtocol, TakeAtOnce, take_nothing

GREETING_MS: Final = 5_000
FRAME_BYTES: Final = 30
"""The approximate size of small items on a slow wire."""

_END: Final = "end"

Message = TypeVar("Message")
Input = TypeVar("Input")


class Greeter(Protocol):
    """The handshakes of a process."""

    def dialling(self, sid: int) -> Dialling:
        """The handshake of a link that it dials to this server."""
        ...

    def listening(self) -> Listening:
        """The handshake of a link that is dialled to it."""
        ...

    def overhear(self, payload: bytes) -> None:
        """Note a part of a handshake, which strangers may repeat."""
        ...


@frozen
class _Part:
    """A part of a handshake."""

    payload: bytes


@frozen
class _Arrived:
    """A message that has arrived on a link."""

    link: int
    payload: bytes


class LinkEnd:
    """One end of a link."""

    __slots__ = (
        "closing",
        "gone",
        "handshake",
        "inbound",
        "is_admitted",
        "number",
        "other",
        "out",
        "owner",
        "sid",
        "up",
    )

    def __init__(
        self, owner: Links[Any, Any], number: int, sid: int, handshake: Dialling | Listening, *, inbound: bool
    ) -> None:
        self.owner = owner
        self.number = number
        self.sid = sid
        self.handshake = handshake
        self.inbound = inbound
        self.out: Wire | None = None
        self.other: LinkEnd | None = None
        self.up = False
        self.is_admitted = False
        self.closing = False
        self.gone = False


class Links(Generic[Message, Input]):
    """The links of one process. `reach` finds the links of a server's process; None while there is none. Each turn
    calls all methods of the port, at each of which the process may end."""

    has_news = has_unsent = has_knocks = True

    def __init__(
        self,
        process: Process,
        protocol: LinkProtocol[Message, Input],
        greeter: Greeter,
        reach: Callable[[int], Links[Message, Input] | None],
        connect_limit_ms: int,
    ) -> None:
        self._process = process
        self._protocol = protocol
        self._greeter = greeter
        self._reach = reach
        self._connect_limit_ms = connect_limit_ms
        self._next = 1
        self.ends: dict[int, LinkEnd] = {}
        self._unflushed: dict[LinkEnd, None] = {}
        self._happened: list[Input | _Arrived] = []

    def _tell(self, event: Input | _Arrived) -> None:
        self._happened.append(event)
        self._process.wake(self._process.schedule.now)

    # --------------------------------------------------------------------------------------------------------- opening

    def _new_end(self, sid: int, handshake: Dialling | Listening, *, inbound: bool) -> LinkEnd:
        end = LinkEnd(self, self._next, sid, handshake, inbound=inbound)
        self._next += 1
        self.ends[end.number] = end
        self._process.schedule.after(GREETING_MS * MS, self._check_greeting, end)
        return end

    def dial(self, sid: int) -> None:
        """Open a link to a server."""
        end = self._new_end(sid, self._greeter.dialling(sid), inbound=False)
        self._process.schedule.after(self._process.network.delay(self._process.sid, sid), self._knock, end)

    def _knock(self, end: LinkEnd) -> None:
        process = self._process
        if process.dead or end.gone:
            return
        target = self._reach(end.sid)
        if not process.network.reaches(process.sid, end.sid):
            process.schedule.after(self._connect_limit_ms * MS, self.lose, end)
        elif target is None:
            process.schedule.after(process.network.delay(end.sid, process.sid), self.lose, end)
        else:
            target.knocked(end, process.sid)

    def knocked(self, dialled: LinkEnd, sid: int) -> None:
        """Begin a handshake with a server that has dialled this process."""
        end = self._new_end(sid, self._greeter.listening(), inbound=True)
        end.other, dialled.other = dialled, end
        network = self._process.network
        end.out = Wire(network, (self._process.sid, sid), dialled.owner.receiver(dialled))
        dialled.out = Wire(network, (sid, self._process.sid), self.receiver(end))
        assert isinstance(dialled.handshake, Dialling)
        dialled.owner._say(dialled, dialled.handshake.hello())

    def _say(self, end: LinkEnd, payload: bytes) -> None:
        assert end.out is not None
        self._process.trace.carried(self._process.sid, payload)
        self._greeter.overhear(payload)
        end.out.send(_Part(payload), FRAME_BYTES)

    def _check_greeting(self, end: LinkEnd) -> None:
        if not end.up and not end.gone:
            self.lose(end)

    # ------------------------------------------------------------------------------------------------------- receiving

    def receiver(self, end: LinkEnd) -> Callable[[Any], None]:
        """The function that a wire calls with each item that arrives at this end."""

        def receive(item: Any) -> None:
            if end.gone or end.closing or self._process.dead:
                return
            if item is _END:
                self.lose(end)
            elif isinstance(item, _Part):
                self._shake(end, item.payload)
            else:
                protocol = self._protocol
                assert end.is_admitted or not end.inbound or len(item) <= protocol.joining_bytes_max, len(item)
                self._tell(_Arrived(end.number, item))

        return receive

    def _shake(self, end: LinkEnd, payload: bytes) -> None:
        """Take one step of the handshake."""
        handshake = end.handshake
        agreed: Agreed
        if isinstance(handshake, Dialling):
            proof, agreed = handshake.welcomed(payload)
            self._say(end, proof)
        elif not handshake.has_welcomed:
            self._say(end, handshake.welcome(payload))
            return
        else:
            agreed = handshake.proven(payload)
        assert agreed.sid == end.sid
        end.up = True
        self._tell(self._protocol.up(end.number, end.sid, end.inbound, agreed.features))

    def receive(self, inputs: list[Any], take_at_once: TakeAtOnce = take_nothing) -> None:
        """Append what happened since the last turn, except for what the service takes at once."""
        happened, self._happened = self._happened, []
        for event in happened:
            if not isinstance(event, _Arrived):
                inputs.append(event)
            elif inputs or not take_at_once(event.link, event.payload):
                inputs.append(self._protocol.received(event.link, self._protocol.decode(event.payload)))

    # --------------------------------------------------------------------------------------------------------- sending

    def send(self, links: Iterable[int], message: Message) -> None:
        """Queue one message on each of these links."""
        process = self._process
        process.called()
        data = self._protocol.encode(message)
        urgent, admits = type(message) in self._protocol.urgent, type(message) in self._protocol.admitting
        process.trace.carried(process.sid, data)
        for number in links:
            end = self.ends.get(number)
            if end is None or end.closing:
                continue
            assert end.out is not None
            end.out.push(data, len(data), urgent=urgent)
            end.is_admitted = end.is_admitted or admits
            self._unflushed[end] = None
            if process.trace.sink is not None:
                process.show(f"-> {end.sid} {process.trace.describe(message)}")

    def send_now(self, link: int, message: Message) -> bool:
        """Send one message, with what is queued, without waiting for the end of a turn. False: the link is gone."""
        end = self.ends.get(link)
        if end is None or end.closing:
            return False
        assert end.out is not None
        self.send((link,), message)
        end.out.flush()
        return True

    def flush(self) -> None:
        """Send what is queued, at the end of a turn."""
        self._process.called()
        unflushed, self._unflushed = self._unflushed, {}
        for end in unflushed:
            if end.out is not None:
                end.out.flush()

    def unsent_bytes(self, link: int) -> int:
        end = self.ends.get(link)
        return 0 if end is None or end.out is None else end.out.queued_bytes

    def accept(self, now: int) -> None:
        """Do nothing: connections are accepted at once here."""

    # --------------------------------------------------------------------------------------------------------- closing

    def close(self, link: int, reason: str) -> None:
        """Close a link; messages sent before arrive."""
        self._process.called()
        end = self.ends.pop(link, None)
        if end is None:
            return
        end.closing = True
        self._process.show(f"-> {end.sid} closes link {link}: {reason}")
        if end.out is not None:
            end.out.push(_END, FRAME_BYTES)
            self._unflushed[end] = None

    def lose(self, end: LinkEnd) -> None:
        """Drop this end; the turn is told, unless it has closed the link."""
        if end.gone:
            return
        end.gone = True
        self.ends.pop(end.number, None)
        if end.out is not None:
            end.out.send(_END, FRAME_BYTES)
        if end.closing or self._process.dead:
            return
        if end.up:
            self._tell(self._protocol.down(end.number))
        elif not end.inbound:
            self._tell(self._protocol.refused(end.sid))

    def break_off(self, link: int, reason: str) -> None:
        """Reset a link; messages on their way are lost."""
        end = self.ends.get(link)
        if end is not None:
            self._reset(end)

    def break_off_dialled(self, sid: int, reason: str) -> None:
        """Reset the links that we dialled to a server."""
        for end in [end for end in self.ends.values() if end.sid == sid and not end.inbound]:
            self._reset(end)

    def break_off_all(self, sid: int) -> None:
        """Reset all links to a server."""
        for end in [end for end in self.ends.values() if end.sid == sid]:
            self._reset(end)

    def lose_side(self, sid: int) -> None:
        """Drop this side of all links to a server, without notice to the other side."""
        for end in [end for end in self.ends.values() if end.sid == sid]:
            self._cut(end)
            self.lose(end)

    def _cut(self, end: LinkEnd) -> None:
        for one in (end, end.other):
            if one is not None and one.out is not None:
                one.out.cut()

    def _reset(self, end: LinkEnd) -> None:
        other = end.other
        self._cut(end)
        self.lose(end)
        if other is not None:
            delay = self._process.network.delay(self._process.sid, end.sid)
            self._process.schedule.after(delay, other.owner.lose, other)

    def process_died(self, *, with_power: bool, gracefully: bool, silent_us: int) -> None:
        """End all links by the kernel; or without power, by timeouts of the others."""
        for end in list(self.ends.values()):
            other = end.other
            end.gone = True
            if end.out is None or other is None:
                continue
            if with_power:
                end.out.cut()
                self._process.schedule.after(silent_us, other.owner.lose, other)
            elif gracefully:
                end.out.urgent.clear()
                end.out.ordinary.clear()
                end.out.send(_END, FRAME_BYTES)
            else:
                end.out.cut()
                if other.out is not None:
                    other.out.cut()
                delay = self._process.network.delay(self._process.sid, end.sid)
                self._process.schedule.after(delay, other.owner.lose, other)
        self.ends.clear()
