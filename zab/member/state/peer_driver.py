"""Drives the peer: hands it events, and carries out its effects or passes them on.

Not here: the peer (`zab.protocol.peer`), and the handlers of its effects (`zab.member.member`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from zab.member.state.outbox import Outbox
from zab.member.state.turn_clock import TurnClock
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer import Peer

TOLD_WITH_BYTES_MAX: Final = 64 << 10
"""A COMMIT goes with a proposal of at most this size. Before a larger one it is sent by itself, since learners are told
the mark once they have all of the proposal."""

Handlers: TypeAlias = Mapping[type[object], Callable[[Any], None]]


class PeerDriver:
    """Drives the peer of one member. Attributes without an underscore may be read."""

    def __init__(self, peer: Peer, clock: TurnClock, outbox: Outbox[fx.Effect], handlers: Handlers) -> None:
        """`handlers`: of effects that this member carries out itself, or looks at before it passes them on."""
        self.peer = peer
        self.outbox = outbox
        self.handlers = handlers
        self._clock = clock
        self.waits_until = 0
        """The peer need not be told of time before this moment (monotonic ms)."""

    def tell(self, event: ev.Event) -> None:
        """Hand the peer an event, and carry out or pass on its effects."""
        self.carry_out(self.peer.step(self._clock.now, event))

    def propose(self, proposal: ev.Propose) -> None:
        """Let the peer propose transactions of this member. A COMMIT of this turn goes with them."""
        now, peer = self._clock.now, self.peer
        if len(proposal.body) <= TOLD_WITH_BYTES_MAX:
            # The batch says what the mark is now, on the same links. A COMMIT before another proposal stays: that one
            # is large.
            effects = self.outbox.effects
            for at in range(len(effects) - 1, -1, -1):
                kind = type(effects[at].message) if type(effects[at]) is fx.Send else None
                if kind is msg.Proposal:
                    break
                if kind is msg.Commit:
                    del effects[at]
        self.carry_out(peer.effects if peer.take_proposal(now, proposal) else peer.step(now, proposal))

    def carry_out(self, effects: list[fx.Effect]) -> None:
        """Carry out effects of the peer, or pass them on. None is left in the list."""
        wanted = effects[:]
        effects.clear()
        for effect in wanted:
            handler = self.handlers.get(type(effect))
            if handler is not None:
                handler(effect)
            else:
                self.outbox.effects.append(effect)

    def tell_time(self) -> None:
        """Tell the peer of the time if its deadline has come. While it serves, input only moves its deadline later, so
        it is not asked again before that."""
        deadline = self.peer.next_deadline()
        if deadline is not None and deadline <= self._clock.now:
            self.tell(ev.TimePassed())
            deadline = self.peer.next_deadline()
        self.waits_until = deadline if self.peer.serving and deadline is not None else 0

    def role_changed(self) -> None:
        """Forget the deadline, since another role has another one."""
        self.waits_until = 0
