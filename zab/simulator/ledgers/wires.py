"""The connections between simulated clients and bookies: frames of the real codecs, on wires.

A client has two connections to a bookie: one for ordinary adds, one for everything else, so that a fence does not wait
for adds; and one more for what its version of the protocol cannot say. Each is opened when it is needed. A request that
is not answered in time ends its connection.

Not here: what is asked (`client_process`), what is answered (`bookie_process`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import attrs

from zab.ledger.entries.ids import BookieId
from zab.ledger.store.events import Answered, BookieLost
from zab.ledger.wire.client_channel import ClientChannel, needs_v2, needs_v3
from zab.ledger.wire.messages import AddEntry, Request, answer_without
from zab.ledger.wire.status import Status
from zab.simulator.world.network import Wire
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

CLOSED: Final = b""
"""The item on a wire that means that nothing follows."""
Kind: TypeAlias = tuple[bool, bool]
"""Whether a connection is for ordinary adds, and whether it is in v2."""
RECONNECT_US: Final = 200 * MS
"""A bookie whose connection broke is lost if it cannot be reached after this."""


class BookieEnd(Protocol):
    """The side of a bookie."""

    sid: int

    def connected(self, talk: Talk) -> None: ...

    def arrived(self, talk: Talk, data: bytes) -> None: ...


@attrs.define(eq=False)
class _Asked:
    request: Request
    owner: Any
    sent_us: int


class Talk:
    """One connection of one client with one bookie, while both live."""

    def __init__(self, connections: Connections, bookie: BookieId, end: BookieEnd, *, is_v2: bool) -> None:
        process = connections.process
        network = process.network
        self.bookie = bookie
        self.channel = ClientChannel(is_v2)
        self.asked: dict[int, deque[_Asked]] = {}
        """The requests under way, by their identity: one may be sent again before it is answered."""
        self.client = process.sid
        self.is_over = False
        self.to_bookie = Wire(network, (process.sid, end.sid), partial(end.arrived, self))
        self.to_client = Wire(network, (end.sid, process.sid), partial(connections.arrived, self))

    @property
    def oldest_us(self) -> int | None:
        """When the oldest request was sent that is not answered."""
        return min((each[0].sent_us for each in self.asked.values()), default=None)


class Connections:
    """All connections of one client. `reach` finds the process of a bookie that runs."""

    def __init__(
        self,
        process: Process,
        reach: Callable[[BookieId], BookieEnd | None],
        tell: Callable[[Any, Answered | BookieLost], None],
        *,
        is_v2: bool,
        timeout_us: int,
    ) -> None:
        """`tell` gets what happens with the owner of the request; without one it is for all."""
        self.process = process
        self._reach = reach
        self._tell = tell
        self._is_v2 = is_v2
        self._timeout_us = timeout_us
        self._talks: dict[tuple[BookieId, Kind], Talk] = {}

    def start(self) -> None:
        self.process.later(self._timeout_us // 2, self._look)

    def send(self, owner: Any, bookie: BookieId, request: Request) -> None:
        """Send a request; its answer is told to its owner once."""
        self.process.called()
        key = bookie, self._kind(request)
        talk = self._talks.get(key) or self._connect(key)
        if talk is not None and not talk.channel.can_send(request):
            # An answer in v2 does not say which of two requests it is for.
            key = bookie, (key[1][0], False)
            talk = self._talks.get(key) or self._connect(key)
        if talk is None:
            end = self._reach(bookie)
            delay = self._timeout_us if end is not None else self.process.network.delay(self.process.sid, 0)
            self.process.later(delay, self._refuse, owner, bookie, request)
            return
        data = talk.channel.encode(request)
        talk.asked.setdefault(id(request), deque()).append(_Asked(request, owner, self.process.schedule.now))
        self.process.trace.carried(self.process.sid, data)
        talk.to_bookie.push(data, len(data))

    def flush(self) -> None:
        """Send what was queued in this turn."""
        for talk in self._talks.values():
            talk.to_bookie.flush()

    def _kind(self, request: Request) -> Kind:
        """The connection for a request."""
        is_add = isinstance(request, AddEntry) and not request.is_recovery
        return is_add, needs_v2(request) or (self._is_v2 and not needs_v3(request))

    def _connect(self, key: tuple[BookieId, Kind]) -> Talk | None:
        bookie, (_, is_v2) = key
        end = self._reach(bookie)
        if end is None or not self.process.network.reaches(self.process.sid, end.sid):
            return None
        talk = self._talks[key] = Talk(self, bookie, end, is_v2=is_v2)
        end.connected(talk)
        return talk

    def _refuse(self, owner: Any, bookie: BookieId, request: Request) -> None:
        self._tell(owner, Answered(bookie, request, answer_without(request, Status.UNREACHABLE)))
        self._tell(None, BookieLost(bookie))

    def arrived(self, talk: Talk, data: bytes) -> None:
        """Take bytes of a bookie, or `CLOSED`, unless the process stands still."""
        self.process.later(0, self._take, talk, data)

    def _take(self, talk: Talk, data: bytes) -> None:
        if talk.is_over:
            return
        if data == CLOSED:
            self._end(talk, Status.UNREACHABLE)
            return
        answered, error = talk.channel.feed(data)
        assert error is None, error
        for request, answer in answered:
            waiting = talk.asked[id(request)]
            asked = waiting.popleft()
            if not waiting:
                del talk.asked[id(request)]
            self._tell(asked.owner, Answered(talk.bookie, request, answer))

    def _end(self, talk: Talk, status: Status) -> None:
        """A connection is over; so is what was asked on it."""
        talk.is_over = True
        talk.to_client.cut()
        talk.to_bookie.send(CLOSED, 1)
        self._talks = {key: each for key, each in self._talks.items() if each is not talk}
        for waiting in talk.asked.values():
            for asked in waiting:
                self._tell(asked.owner, Answered(talk.bookie, asked.request, answer_without(asked.request, status)))
        self.process.later(RECONNECT_US, self._notice_loss, talk.bookie)

    def _notice_loss(self, bookie: BookieId) -> None:
        end = self._reach(bookie)
        if end is None or not self.process.network.reaches(self.process.sid, end.sid):
            self._tell(None, BookieLost(bookie))

    def _look(self) -> None:
        """End connections with a request that is not answered in time."""
        self.process.later(self._timeout_us // 2, self._look)
        for talk in list(self._talks.values()):
            oldest = talk.oldest_us
            if oldest is not None and self.process.schedule.now - oldest > self._timeout_us:
                self._end(talk, Status.TIMED_OUT)

    def process_died(self, *, with_power: bool) -> None:
        """The kernel ends all connections; without power, bookies hear nothing."""
        for talk in self._talks.values():
            talk.is_over = True
            talk.to_client.cut()
            if with_power:
                talk.to_bookie.cut()
            else:
                talk.to_bookie.send(CLOSED, 1)
        self._talks.clear()
