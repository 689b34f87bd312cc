"""Drives the peer: hands it events, and has its effects carried out, or passes them on.

Not here: the peer (`zab.protocol.peer`), and what this member does itself of its effects (`zab.member.member`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from zab.member.state.outbox import Outbox
from zab.member.state.turn_clock import TurnClock
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol.peer import Peer

Handlers: TypeAlias = Mapping[type[object], Callable[[Any], None]]


class PeerDriver:
    """The peer of one member. Everything without an underscore may be looked at."""

    def __init__(self, peer: Peer, clock: TurnClock, outbox: Outbox[fx.Effect]) -> None:
        self.peer = peer
        self.outbox = outbox
        self.handlers: Handlers = {}
        """Of effects that this member carries out itself, or looks at before it passes them on."""
        self._clock = clock
        self.waits_until = 0
        """The peer does not have to be told of time before this moment (monotonic ms)."""

    def carry_out(self, handlers: Handlers) -> None:
        """This member carries out these effects."""
        self.handlers = handlers

    def tell(self, event: ev.Event) -> None:
        """Let the peer take an event, and carry out or pass on what it wants done."""
        for effect in self.peer.step(self._clock.now, event):
            handler = self.handlers.get(type(effect))
            if handler is not None:
                handler(effect)
            else:
                self.outbox.effects.append(effect)

    def tell_time(self) -> None:
        """Tell the peer that its time has come, if so. While it serves, what it hears only moves its deadline later, so
        it is not asked again before that."""
        deadline = self.peer.next_deadline()
        if deadline is not None and deadline <= self._clock.now:
            self.tell(ev.TimePassed())
            deadline = self.peer.next_deadline()
        self.waits_until = deadline if self.peer.serving and deadline is not None else 0

    def role_changed(self) -> None:
        """Another role has another deadline."""
        self.waits_until = 0
