"""The election links of a simulated member: `ElectionConnections`, as on a server, over wires.

    after Dial      there          the other process is asked, when it is not paused
                    and back       the dial succeeds or is refused; without an answer it fails at the timeout
    first           the proof      sent before the votes, after which the other side admits the connection

Connections break like those of TCP. If one side is gone and the other does not know it, what the other sends is lost,
and its connection is reset. Bytes on their way to a machine without power are lost without notice.

Not here: the decisions (`zab.member.membership.election_connections`), when something breaks (`faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random
from typing import Any, Final

import attrs

from zab.member.membership.election_connections import (
    Abandon,
    Close,
    Dial,
    Effect,
    ElectionConnections,
    Send,
    Tell,
    Wait,
)
from zab.member.membership.greeting import LIFE_BYTES
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.quorum.ids import ServerId
from zab.simulator.world.links import FRAME_BYTES
from zab.simulator.world.network import Wire
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

_END: Final = "end"


@attrs.frozen
class _Place:
    """The address of a server, which never changes here."""

    sid: ServerId

    @property
    def text(self) -> str:
        return f"10.0.0.{self.sid}:3888"


@attrs.frozen
class _Proof:
    """The last part of a handshake, by a process of this life."""

    life: bytes


class _End:
    """One end of a connection. Arriving items are handled when the process is not paused."""

    __slots__ = ("is_dialled", "is_over", "links", "other", "out", "sid")

    other: _End
    out: Wire
    """To the other end."""

    def __init__(self, links: ElectionLinks, sid: ServerId, *, is_dialled: bool) -> None:
        self.links = links
        self.sid = sid
        """The server of the other end."""
        self.is_dialled = is_dialled
        """Whether this side dialled."""
        self.is_over = False
        links.ends[self] = None


class ElectionLinks:
    """The election links of one process."""

    def __init__(
        self,
        process: Process,
        others: Iterable[ServerId],
        neighbour: Callable[[ServerId], ElectionLinks | None],
        connect_timeout_ms: int,
        tell: Callable[[ev.Event], None],
        rng: Random,
    ) -> None:
        """`neighbour` finds the links of another server's process; None while there is none."""
        self.process = process
        self.sid = ServerId(process.sid)
        self._neighbour = neighbour
        self._connect_timeout_ms = connect_timeout_ms
        self._tell = tell
        self.rng = rng
        self.life = rng.randbytes(LIFE_BYTES)
        self.connections: ElectionConnections[_End] = ElectionConnections({sid: _Place(sid) for sid in others}, rng)
        self.ends: dict[_End, None] = {}
        self.unreachable = set[ServerId]()
        """Servers whose election port, but no other port, is closed to this one."""

    def start(self) -> None:
        self._perform(self.connections.start())

    def send(self, effect: fx.SendNotification) -> None:
        """Send a vote; it replaces one that still waits."""
        sid, notification = effect.sid, effect.notification
        process = self.process
        process.called()
        if effect.in_force:
            process.trace.carried(process.sid, effect.in_force + effect.outstanding)
        process.trace.carried(process.sid, msg.encode(notification))
        if process.trace.sink is not None:
            process.show(f"-> {sid} {process.trace.describe(notification)}")
        self._perform(self.connections.send(effect))

    def meet(self, others: Collection[ServerId]) -> None:
        """Replace the known servers."""
        self._perform(self.connections.meet({sid: _Place(sid) for sid in others}))

    def _perform(self, effects: Sequence[Effect[_End]]) -> None:
        for effect in effects:
            match effect:
                case Dial(sid, attempt):
                    self._dial(sid, attempt)
                case Wait(sid, attempt, ms):
                    self.process.later(int(ms * MS), self._waited, sid, attempt)
                case Abandon():
                    pass  # its outcome is ignored
                case Send(end, vote):
                    end.out.send(vote, FRAME_BYTES)
                    self._perform(self.connections.sent(end))
                case Close(end, reason):
                    if reason:
                        self.process.show(f"an election connection of {end.sid} is closed: {reason}")
                    end.out.send(_END, FRAME_BYTES)
                    self._forget(end)
                case Tell(event):
                    self._tell(event)

    # ------------------------------------------------------------------------------------------------------- dialling

    def _dial(self, sid: ServerId, attempt: int) -> None:
        process, network = self.process, self.process.network
        process.later(self._connect_timeout_ms * MS, self._refused, sid, attempt)
        if network.reaches(self.sid, sid) and sid not in self.unreachable:
            process.schedule.after(network.delay(self.sid, sid), self._ask, sid, attempt, process.schedule.now)

    def _ask(self, sid: ServerId, attempt: int, began: int) -> None:
        """Ask the other process to accept a dial."""
        other = self._neighbour(sid)
        if other is None:
            back = self.process.network.delay(sid, self.sid)
            self.process.later(back, self._refused, sid, attempt)
        else:
            other.process.later(0, other._answer, self, attempt, began)

    def _answer(self, dialler: ElectionLinks, attempt: int, began: int) -> None:
        """Answer a dial of another process."""
        back = self.process.network.delay(self.sid, dialler.sid)
        if self.connections.objection(dialler.sid, dialler.life) is None:
            dialler.process.later(back, dialler._reached, self, attempt, began)
        else:
            dialler.process.later(back, dialler._refused, self.sid, attempt, True)

    def _reached(self, other: ElectionLinks, attempt: int, began: int) -> None:
        sid = other.sid
        if other.process.dead:
            self._refused(sid, attempt)
            return
        process, network = self.process, self.process.network
        end, theirs = _End(self, sid, is_dialled=True), _End(other, self.sid, is_dialled=False)
        end.other, theirs.other = theirs, end
        end.out = Wire(network, (self.sid, sid), lambda item: other._arrived(theirs, item))
        theirs.out = Wire(network, (sid, self.sid), lambda item: self._arrived(end, item))
        end.out.send(_Proof(self.life), FRAME_BYTES)
        round_trip_ms = (process.schedule.now - began) // MS + 1
        self._perform(self.connections.reached(sid, attempt, end, other.life, round_trip_ms))

    def _refused(self, sid: ServerId, attempt: int, is_taken: bool = False) -> None:
        self._perform(self.connections.refused(sid, attempt, is_taken=is_taken))

    def _waited(self, sid: ServerId, attempt: int) -> None:
        self._perform(self.connections.waited(sid, attempt))

    # ------------------------------------------------------------------------------------------------------ receiving

    def _arrived(self, end: _End, item: Any) -> None:
        """Take an item that has reached this machine; it waits while the process is paused."""
        if self.process.dead:
            if self._neighbour(self.sid) is not None:
                self._reset(end.other)
        else:
            self.process.later(0, self._take, end, item)

    def _take(self, end: _End, item: Any) -> None:
        if end.is_over:
            if item is not _END:
                self._reset(end.other)
        elif item is _END:
            self.lose(end)
        elif isinstance(item, _Proof):
            self._perform(self.connections.admitted(end.sid, end, item.life))
        else:
            # The handshake has proven its identity.
            self._tell(
                ev.NotificationReceived(end.sid, item.notification, item.in_force, item.outstanding, is_proven=True)
            )

    # -------------------------------------------------------------------------------------------------------- ending

    def lose(self, end: _End) -> None:
        """Drop this end, and tell its process."""
        if not end.is_over:
            self._forget(end)
            self._perform(self.connections.closed(end))

    def _forget(self, end: _End) -> None:
        end.is_over = True
        self.ends.pop(end, None)

    @staticmethod
    def _reset(end: _End) -> None:
        """Reset an end, since the other machine has no such connection."""
        process = end.links.process
        process.later(process.network.delay(end.sid, process.sid), end.links.lose, end)

    def break_off(self, sid: ServerId, *, after_us: int | None = 0) -> None:
        """Break the connections that this side dialled to a server. The other side notices `after_us` later or, with
        None, when it uses the connection."""
        self._break(sid, after_us, is_dialled=True)

    def break_off_inbound(self, sid: ServerId, *, after_us: int | None = 0) -> None:
        """Break the connections that the other server dialled, like `break_off`."""
        self._break(sid, after_us, is_dialled=False)

    def _break(self, sid: ServerId, after_us: int | None, *, is_dialled: bool) -> None:
        for end in [end for end in self.ends if end.sid == sid and end.is_dialled is is_dialled]:
            end.out.cut()
            if after_us is not None:
                end.other.out.cut()
                other = end.other.links
                delay = self.process.network.delay(self.sid, sid)
                other.process.later(delay + after_us, other.lose, end.other)
            self.process.later(0, self.lose, end)

    def process_died(self, *, with_power: bool, silent_us: int) -> None:
        """End all connections by the kernel; or without power, by timeouts of the others."""
        for end in list(self.ends):
            other = end.other.links
            if with_power:
                end.out.cut()
                other.process.later(silent_us, other.lose, end.other)
            else:
                end.out.send(_END, FRAME_BYTES)
            self._forget(end)
