"""Writes that a member has accepted and neither proposed nor forwarded yet; decides which is next.

While each turn takes all writes, they leave in the order of arrival. Once a turn leaves some, sessions take turns, so
that no session waits for everything in the pipelines of others (H6 fair turns):

    lane    the writes of one session, in order, which never changes
    work    the cost of a write: a multi costs as much as its parts
    time    advances by the work of each write that leaves, divided by the number of lanes
    turn    the next lane is the one whose first write would end soonest if all lanes shared the time equally: a write
            of one part that comes after forty multis of a thousand waits only for the multi that has begun

The work of a write is known once it is prepared; until then it is estimated from its bytes (`zab.member.state.work`).

Some servers want their writes back in the order in which they forwarded them (`in_order`): those before
`zab.protocol.features.FAIR_TURNS`, and observers of a master, whose version is unknown. Each of them is one lane, even
for a session that still has writes in other lanes: those that are not refused have left before the session writes there
(`questions`).

Writes are numbered by arrival. All writes below `left_count` have left: a question that has to wait for all earlier
writes waits for this number (`questions`).

Not here: how much a turn takes (`proposing`, `forwarding`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final

import attrs

from session.identity import SessionId
from zab.member.requests.under_way import Write
from zab.member.state.work import BYTES_FOR_ONE
from zab.quorum.ids import ServerId

_BEGUN: Final = -1.0
"""A time before all others."""


@attrs.define(eq=False)
class _Lane:
    """The writes of one session, or of one server."""

    ends: float
    """When the last write that left it ended, or its first one could begin."""
    server: ServerId | None
    writes: deque[Write] = attrs.Factory(deque)
    waiting: deque[tuple[int, int]] = attrs.Factory(deque)
    """For each write: its number, and its least work."""


class Intake:
    """The waiting writes of one member. Attributes without an underscore may be read."""

    def __init__(self) -> None:
        self.arrived: deque[Write] = deque()
        """Writes that are in no lane: all of them, while no turn leaves any."""
        self.left_count = 0
        """How many of the first writes have all left."""
        self.passes_small = False
        """Whether the writes that are left wait only because they are large."""
        self.clear()

    def clear(self) -> None:
        """Drop all writes, since the role is over."""
        self.is_stalled = False
        """Whether the last turn left writes because nothing may leave, or nothing large."""
        self.arrived.clear()
        self.queue = self.arrived
        """The queue whose first write is next. It leaves by `take`; or, while this is `arrived`, directly, and is
        counted by `passed`."""
        self.turns: list[tuple[float, int, _Lane]] = []
        """A heap of lanes: when the first write of each would end; a number that tells them apart."""
        self._order = count()
        self._time = 0.0
        self._waiting_work = 0
        """The least work of all writes in lanes."""
        self._lane_of: dict[SessionId | int, _Lane] = {}
        """The lane of each session, for writes that no server wants in order."""
        self._counts: defaultdict[tuple[SessionId | int, ServerId | None], int] = defaultdict(int)
        """How many writes of a session are in its own lane, and in that of a server."""
        self._lane_of_server: dict[ServerId, _Lane] = {}
        self._numbered = 0
        """While there are lanes: how many writes came before those in `arrived`."""
        self._gone: set[int] = set()
        """The numbers of writes that left before others that came earlier."""
        self._stayed_count = 0
        """How many writes had come when a turn left some."""
        self._is_begun = False

    def __len__(self) -> int:
        return self.arrived_count - self.left_count - len(self._gone)

    def __iter__(self) -> Iterator[Write]:
        """All writes, in no order."""
        for _, _, lane in self.turns:
            yield from lane.writes
        yield from self.arrived

    @property
    def arrived_count(self) -> int:
        """How many writes have ever come."""
        return (self._numbered if self.turns else self.left_count) + len(self.arrived)

    @property
    def kept_bytes(self) -> int:
        """An upper estimate of the bytes of writes that turns have left."""
        return self._waiting_work * BYTES_FOR_ONE

    @property
    def sessions(self) -> set[SessionId | int]:
        """The sessions that have writes here."""
        return {*self._lane_of, *(asked[0] for asked, _, _, _ in self.arrived)}

    def passed(self, count: int) -> None:
        """Count writes that were taken from `arrived` directly."""
        self.left_count += count

    def stall(self, *, passes_small: bool = False) -> None:
        """Note that a turn leaves writes since nothing may leave now, or nothing large (`passes_small`)."""
        self.is_stalled = True
        self.passes_small = passes_small

    def go_on(self) -> None:
        """Let all writes leave again."""
        self.is_stalled = False

    def stay(self, in_order: Callable[[], Collection[ServerId]] = tuple) -> None:
        """Note that a turn leaves writes. If an earlier turn had already left them, sessions take turns from now on.
        `in_order`: the servers that want their writes back in order."""
        if not self.turns and self.left_count < self._stayed_count:
            self.sort(in_order())
        self._stayed_count = self.arrived_count

    def begin(self) -> None:
        """Keep the next write in its place until it leaves: it is prepared over several turns."""
        self._is_begun = True
        if self.turns:
            _, order, lane = self.turns[0]
            heapreplace(self.turns, (_BEGUN, order, lane))

    def take(self, work: int = 0) -> deque[Write]:
        """Remove the next write, which took this much work. Returns the queue of the one after it."""
        self._is_begun = False
        turns, gone = self.turns, self._gone
        if not turns:
            self.arrived.popleft()
            self.left_count += 1
            return self.arrived
        lane = turns[0][2]
        session = lane.writes.popleft()[0][0]
        number, least = lane.waiting.popleft()
        self._waiting_work -= least
        gone.add(number)
        while self.left_count in gone:
            gone.remove(self.left_count)
            self.left_count += 1
        work = max(work, least)
        lane.ends += work
        self._time += work / len(turns)
        counted = session, lane.server
        self._counts[counted] -= 1
        if not self._counts[counted]:
            del self._counts[counted]
            if self._lane_of.get(session) is lane:
                del self._lane_of[session]
        if lane.waiting:
            heapreplace(turns, (lane.ends + lane.waiting[0][1], next(self._order), lane))
        else:
            heappop(turns)
            if lane.server is not None:
                del self._lane_of_server[lane.server]
        if not turns:
            self._time = 0.0
        self.queue = turns[0][2].writes if turns else self.arrived
        return self.queue

    def sort(self, in_order: Collection[ServerId] = ()) -> None:
        """Move the writes in `arrived` to their lanes. Called at the beginning of each turn while there are lanes."""
        if not self.turns:
            self._numbered = self.left_count
        for write in self.arrived:
            (session, _, _, body, _), _, owner, _ = write
            lane = self._lane_of.get(session)
            if lane is None:
                lane = self._lane_of[session] = self._new_lane(owner if owner in in_order else None)
            if owner in in_order and lane.server != owner:
                lane = self._new_lane(owner)
            self._counts[session, lane.server] += 1
            least = 1 + len(body) // BYTES_FOR_ONE
            if not lane.writes:
                is_first = self._is_begun and not self.turns
                heappush(self.turns, (_BEGUN if is_first else lane.ends + least, next(self._order), lane))
            lane.writes.append(write)
            self._waiting_work += least
            lane.waiting.append((self._numbered, least))
            self._numbered += 1
        self.arrived.clear()
        self.queue = self.turns[0][2].writes if self.turns else self.arrived

    def _new_lane(self, server: ServerId | None) -> _Lane:
        if server is None:
            return _Lane(self._time, None)
        if server not in self._lane_of_server:
            self._lane_of_server[server] = _Lane(self._time, server)
        return self._lane_of_server[server]
